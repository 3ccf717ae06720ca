//! Parquet files. Of a file in an object store, only the columns and row groups that are read are fetched.

use super::block_reader::BlockReader;
use super::footer;
use super::location::{Input, Location, Object};
use super::object_reader::ObjectReader;
use super::object_runtime::object_runtime;
use super::pages::{Pages, rows};
use super::position::Position;
use super::{Opened, Unit};
use crate::dataset::Reader;
use crate::error::in_place;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, Statistics, exec_err};
use futures::StreamExt;
use object_store::OBJECT_STORE_COALESCE_DEFAULT;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, SystemTime};

/// A file and its footer.
#[derive(Debug)]
pub(super) struct File {
    pub location: Location,
    pub metadata: ArrowReaderMetadata,
    /// The statistics in the footer, computed on first use.
    pub statistics: OnceLock<Statistics>,
}

/// Part of a row group: `length` rows from `offset` on.
pub(super) struct Span {
    pub row_group: usize,
    pub offset: usize,
    pub length: usize,
}

impl File {
    /// The rows of each row group.
    pub fn row_groups(&self) -> impl Iterator<Item = usize> {
        self.metadata.metadata().row_groups().iter().map(|group| group.num_rows() as usize)
    }

    /// Whether it is on this machine.
    pub fn is_local(&self) -> bool {
        matches!(self.location, Location::Path(_))
    }

    /// How many requests read these columns of a row group, or all: those that lie close together are read at
    /// once.
    pub fn requests(&self, row_group: usize, columns: Option<&[usize]>) -> usize {
        let schema = self.metadata.parquet_schema();
        let is_read =
            |leaf: &usize| columns.is_none_or(|columns| columns.contains(&schema.get_column_root_idx(*leaf)));
        let group = self.metadata.metadata().row_group(row_group);
        let leaves = (0..schema.num_columns()).filter(is_read);
        let mut ranges: Vec<(u64, u64)> = leaves.map(|leaf| group.column(leaf).byte_range()).collect();
        ranges.sort_unstable();
        let is_far = |pair: &[(u64, u64)]| {
            pair[1].0 > pair[0].0.saturating_add(pair[0].1).saturating_add(OBJECT_STORE_COALESCE_DEFAULT)
        };
        usize::from(!ranges.is_empty()) + ranges.windows(2).filter(|pair| is_far(pair)).count()
    }
}

/// Files by their paths or URLs, and the version of each that was read.
type Footers = HashMap<String, (Version, Arc<File>)>;

/// The footers that this process has read: many queries open the same files.
static FOOTERS: LazyLock<Mutex<Footers>> = LazyLock::new(Mutex::default);

/// How many footers are kept at most.
const MAX_FOOTERS: usize = 10_000;

/// What a file was when it was read.
#[derive(Debug, PartialEq, Eq)]
enum Version {
    /// The length of a file and the time of its last change.
    Path(u64, SystemTime),
    /// The length of an object and the version that its store gives it.
    Object(u64, String),
}

/// The beginning and the end of a Parquet file.
const MAGIC: &[u8; 4] = b"PAR1";

/// How many bytes of the end of a file are read first: most footers are shorter.
const FOOTER_GUESS: u64 = 64 << 10;

/// Opens a file: reads its footer, unless it was read before.
///
/// # Errors
/// `Execution` if it is no Parquet file, or is damaged.
pub(super) fn open(location: &Location) -> Result<Opened> {
    let file = cached(location)?;
    let (rows, schema): (Vec<usize>, _) = (file.row_groups().collect(), file.metadata.schema().clone());
    let units = (0..rows.len()).map(|row_group| Unit::Parquet { file: file.clone(), row_group }).collect();
    Ok(Opened { schema, units, rows: Some(rows) })
}

/// A file with its footer.
fn new_file(location: &Location, metadata: ArrowReaderMetadata) -> Arc<File> {
    Arc::new(File { location: location.clone(), metadata, statistics: OnceLock::new() })
}

/// A file; its footer is read unless this version of it was read before.
///
/// # Errors
/// As [`open`].
pub(super) fn cached(location: &Location) -> Result<Arc<File>> {
    let read = || {
        let metadata = match location {
            Location::Path(_) => of_file(location)?,
            Location::Object(object) => of_object(location, object)?,
        };
        Ok(new_file(location, metadata))
    };
    let (place, version) = match location {
        Location::Path(path) => (path.to_str().map(str::to_string), version(path)),
        Location::Object(object) => {
            let version = object.tag.clone().map(|tag| Version::Object(object.size, tag));
            (Some(object.url.clone()), version)
        }
    };
    let (Some(place), Some(version)) = (place, version) else { return read() };
    let lookup = |footers: &Footers| {
        footers.get(&place).filter(|(cached, _)| *cached == version).map(|(_, file)| Arc::clone(file))
    };
    if let Some(file) = lookup(&FOOTERS.lock().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(file);
    }
    let file = read()?;
    let mut footers = FOOTERS.lock().unwrap_or_else(PoisonError::into_inner);
    if footers.len() >= MAX_FOOTERS {
        footers.clear();
    }
    footers.insert(place, (version, Arc::clone(&file)));
    Ok(file)
}

/// The version of a file. None: it changed so recently that the next change might have the same time.
fn version(path: &Path) -> Option<Version> {
    const SETTLED: Duration = Duration::from_secs(2);
    let metadata = std::fs::metadata(path).ok()?;
    let modified = metadata.modified().ok()?;
    let settled = modified.elapsed().is_ok_and(|age| age >= SETTLED);
    settled.then_some(Version::Path(metadata.len(), modified))
}

/// The footer of a local file.
fn of_file(location: &Location) -> Result<ArrowReaderMetadata> {
    let mut input = location.open()?;
    let length = check_ends(location, &mut input)?;
    metadata(location, length, |start| {
        let mut bytes = vec![0; (length - start) as usize];
        input.seek(SeekFrom::Start(start)).and_then(|_| input.read_exact(&mut bytes))?;
        Ok(bytes)
    })
}

/// The footer of an object.
fn of_object(location: &Location, object: &Arc<Object>) -> Result<ArrowReaderMetadata> {
    if object.size == 0 {
        return exec_err!("`{location}` is empty; a Parquet file has a footer at least");
    }
    metadata(location, object.size, |start| location.fetch(start..object.size))
}

/// Reads the footer of a file of this length; `end` reads the bytes from an offset to the end.
fn metadata(
    location: &Location,
    length: u64,
    mut end: impl FnMut(u64) -> Result<Vec<u8>>,
) -> Result<ArrowReaderMetadata> {
    let bytes = end(length.saturating_sub(FOOTER_GUESS))?;
    let Some((before, tail)) = bytes.split_last_chunk() else { return cut_short(location, length) };
    if !tail.ends_with(b"PAR1") && !tail.ends_with(b"PARE") {
        return cut_short(location, length);
    }
    let size = footer::length(*tail, length).map_err(|e| in_place(location, e))?;
    let read = |footer: &[u8]| footer::read(footer, length).map_err(|e| in_place(location, e));
    match before.len().checked_sub(size as usize) {
        Some(start) => read(&before[start..]),
        None => {
            let bytes = end(length - footer::TAIL - size)?;
            read(&bytes[..size as usize])
        }
    }
}

/// The length of a file that begins as a Parquet file does.
fn check_ends(location: &Location, file: &mut Input) -> Result<u64> {
    let length = file.seek(SeekFrom::End(0)).map_err(|e| in_place(location, e))?;
    if length == 0 {
        return exec_err!("`{location}` is empty; a Parquet file has a footer at least");
    }
    let mut head = [0; 4];
    if length >= 4 {
        file.rewind().and_then(|()| file.read_exact(&mut head)).map_err(|e| in_place(location, e))?;
    }
    match &head == MAGIC || &head == b"PARE" {
        true if length < 12 => cut_short(location, length),
        true => Ok(length),
        false => exec_err!("`{location}` is not a Parquet file"),
    }
}

/// The error of a file that ends too early.
fn cut_short<T>(location: &Location, length: u64) -> Result<T> {
    exec_err!(
        "truncated parquet: `{location}` ends after {length} bytes without its footer; write or copy it again"
    )
}

/// Reads these spans. Each but the first begins at the start of its row group, each but the last ends at the
/// end of it.
///
/// # Errors
/// If the file cannot be opened, or its pages cannot be read.
pub(super) fn read(
    file: &File,
    spans: &[Span],
    projection: Option<&[usize]>,
    batch_rows: usize,
) -> Result<Box<dyn Reader>> {
    let row_groups: Vec<usize> = spans.iter().map(|span| span.row_group).collect();
    let offset = spans.first().map_or(0, |span| span.offset);
    let limit = spans.iter().map(|span| span.length).sum();
    let mask = match projection {
        Some(columns) => ProjectionMask::roots(file.metadata.parquet_schema(), columns.iter().copied()),
        None => ProjectionMask::all(),
    };
    let (location, order, position) =
        (file.location.clone(), order(projection), Position::Rows { read: 0, all: limit });
    match file.location.open_local()? {
        Some(input) => {
            let input =
                BlockReader::new(input, &file.metadata, &row_groups).map_err(|e| in_place(&location, e))?;
            let pages =
                Pages { metadata: &file.metadata, row_groups: &row_groups, columns: mask, batch_rows };
            let batches = pages.read(input, rows(offset, limit)).map_err(|e| in_place(&location, e))?;
            Ok(Box::new(Batches { location, batches: expect_rows(limit, batches), order, position }))
        }
        None => {
            let batches = fetched(file, row_groups, (offset, limit), mask, batch_rows)?;
            Ok(Box::new(Batches { location, batches: expect_rows(limit, batches), order, position }))
        }
    }
}

/// Batches that end with an error if they have fewer rows than the footer promises.
fn expect_rows(
    mut rows: usize,
    mut batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send,
) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send {
    std::iter::from_fn(move || match batches.next() {
        Some(Ok(batch)) => {
            rows = rows.saturating_sub(batch.num_rows());
            Some(Ok(batch))
        }
        None if rows > 0 => {
            let error = format!("it is damaged: it has {rows} rows fewer than its footer says");
            rows = 0;
            Some(Err(ArrowError::ParquetError(error)))
        }
        last => last,
    })
}

/// The batches of a file in an object store, fetched some batches ahead of the reader.
fn fetched(
    file: &File,
    row_groups: Vec<usize>,
    (offset, limit): (usize, usize),
    mask: ProjectionMask,
    batch_rows: usize,
) -> Result<impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + use<>> {
    const AHEAD: usize = 4;
    let Location::Object(object) = &file.location else {
        return exec_err!("`{}` is not in an object store", file.location);
    };
    let reader = ObjectReader(Arc::clone(object));
    let mut batches = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, file.metadata.clone())
        .with_row_groups(row_groups)
        .with_batch_size(batch_rows)
        .with_offset(offset)
        .with_limit(limit)
        .with_projection(mask)
        .build()
        .map_err(|e| in_place(&file.location, e))?;
    let (sender, receiver) = mpsc::sync_channel(AHEAD);
    let (permit, mut permits) = tokio::sync::mpsc::channel(AHEAD);
    object_runtime()?.spawn(async move {
        // Each batch needs a permit of the reader; the task ends when the reader is dropped.
        while permits.recv().await.is_some() {
            let next = batches.next().await;
            let over = next.is_none();
            if sender.send(next).is_err() || over {
                return;
            }
        }
    });
    for _ in 1..AHEAD {
        // The channel has room for them.
        let _ = permit.try_send(());
    }
    Ok(std::iter::from_fn(move || {
        let _ = permit.try_send(());
        receiver.recv().ok().flatten().map(|rows| rows.map_err(ArrowError::from))
    }))
}

/// The order in which the columns of a projection come out, if it is not that of the file.
pub(super) fn order(projection: Option<&[usize]>) -> Option<Vec<usize>> {
    let columns = projection?;
    if columns.is_sorted() {
        return None;
    }
    let mut sorted = columns.to_vec();
    sorted.sort_unstable();
    // Every column is in the sorted copy.
    Some(columns.iter().map(|c| sorted.partition_point(|s| s < c)).collect())
}

/// The batches of one of Arrow's readers; errors name the file.
pub(super) struct Batches<I> {
    pub location: Location,
    pub batches: I,
    pub order: Option<Vec<usize>>,
    pub position: Position,
}

impl<I: Iterator<Item = Result<RecordBatch, ArrowError>> + Send> Reader for Batches<I> {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self.batches.next() {
            None => Ok(None),
            Some(Err(error)) => Err(in_place(&self.location, error)),
            Some(Ok(batch)) => {
                self.position.add(batch.num_rows());
                Ok(Some(match &self.order {
                    Some(order) => batch.project(order)?,
                    None => batch,
                }))
            }
        }
    }

    fn share(&self) -> f64 {
        self.position.share()
    }
}
