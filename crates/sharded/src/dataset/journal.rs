//! The journal of a shard of a live source: what was sent, on the disk.
//!
//! A segment is an Arrow IPC stream that any reader of Arrow understands; beside it lies an index, with
//! an entry for each message: where its rows end, or the promise about time that it is. Rows are
//! synchronized before their entry is written, and the entry before the sender returns. So the entries
//! that are whole say what was sent; what lies behind the last of them was never acknowledged and is cut
//! off when the journal is opened again.
//!
//! Invariant: readers see entries only after they are on the disk.

use super::log::{decode, encode};
use super::{Cut, Part, ReplayableShard, ShardLog, SliceReader};
use crate::error::in_file;
use crate::folder_lock::FolderLock;
use crate::relation::always;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result, exec_err, plan_err};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use whimbrel_temporal::{INFINITY, Message};

/// How many bytes a segment has, about, before the next one begins.
const SEGMENT_BYTES: u64 = 64 << 20;

/// How many bytes of rows a slice has, about.
const SLICE_BYTES: u64 = 8 << 20;

/// How many entries a slice has at most.
const SLICE_ENTRIES: usize = 4096;

/// The bytes of an entry: its kind, its number, its digest.
const ENTRY_BYTES: usize = 1 + 8 + 4;

/// A message in a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Entry {
    /// Rows that end at this byte of the segment.
    Rows(u64),
    /// Nothing before this time follows.
    Punctuation(i64),
    /// Nothing follows.
    End,
}

/// The journal of a shard.
#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    schema: SchemaRef,
    written: Arc<Mutex<Written>>,
    open: Mutex<Option<Segment>>,
    _lock: FolderLock,
}

/// What is on the disk: the entries of each segment.
#[derive(Debug, Default)]
struct Written {
    /// The number of the first segment that is there.
    first: u64,
    segments: Vec<Vec<Entry>>,
    /// Where the schema of each segment ends, and its rows begin.
    headers: Vec<u64>,
}

/// The segment that is being written.
struct Segment {
    number: u64,
    rows: File,
    index: File,
    writer: StreamWriter<Vec<u8>>,
    bytes: u64,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "segment {}", self.number)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is made in one step, so a panic elsewhere leaves the state consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Journal {
    /// Opens the journal in a folder, which is made if need be.
    ///
    /// # Errors
    /// `Plan` if it has other columns; `Execution` if another process writes it, or it is damaged.
    pub fn open(folder: &Path, schema: &SchemaRef) -> Result<Journal> {
        if let Some(field) =
            schema.fields().iter().find(|f| matches!(f.data_type(), DataType::Dictionary(..)))
        {
            return plan_err!(
                "column `{}` is a dictionary, which a log does not keep; declare the type of its values",
                field.name()
            );
        }
        fs::create_dir_all(folder).map_err(|e| in_file(folder, e))?;
        let Some(folder_lock) = FolderLock::take(folder)? else {
            return exec_err!(
                "another process, or another source of this one, writes the log `{}`",
                folder.display()
            );
        };
        let mut written = Written { first: first_segment(folder)?, ..Written::default() };
        loop {
            let number = written.first + written.segments.len() as u64;
            let Some((entries, header)) = recover_segment(folder, number, schema)? else { break };
            written.segments.push(entries);
            written.headers.push(header);
        }
        let written = Arc::new(Mutex::new(written));
        Ok(Journal {
            folder: folder.to_path_buf(),
            schema: Arc::clone(schema),
            written,
            open: Mutex::new(None),
            _lock: folder_lock,
        })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the source was closed.
    pub fn has_ended(&self) -> bool {
        lock(&self.written).segments.iter().rev().find_map(|entries| entries.last()) == Some(&Entry::End)
    }

    /// Writes a message; it is on the disk once this returns. One thread at a time calls it.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no room; `Execution` if it cannot be written. What could not be
    /// written was not sent.
    pub fn append(&self, message: &Message) -> Result<()> {
        let mut open = lock(&self.open);
        if open.as_ref().is_some_and(|segment| segment.bytes >= SEGMENT_BYTES) {
            *open = None;
        }
        let segment = match &mut *open {
            Some(segment) => segment,
            none => none.insert(self.begin()?),
        };
        match segment.append(message, &self.folder) {
            Ok(entry) => {
                let mut written = lock(&self.written);
                let number = (segment.number - written.first) as usize;
                written.segments[number].push(entry);
                Ok(())
            }
            Err(error) => {
                // What was written of it is behind the last entry. The next message begins a segment.
                *open = None;
                Err(error)
            }
        }
    }

    /// Begins a segment.
    fn begin(&self) -> Result<Segment> {
        let number = {
            let written = lock(&self.written);
            written.first + written.segments.len() as u64
        };
        let (rows, index) = (rows_path(&self.folder, number), index_path(&self.folder, number));
        let create = |path: &Path| File::create(path).map_err(|e| in_file(path, e));
        let mut writer = StreamWriter::try_new(Vec::new(), &self.schema)?;
        let header = std::mem::take(writer.get_mut());
        let mut file = create(&rows)?;
        file.write_all(&header).and_then(|()| file.sync_all()).map_err(|e| in_file(&rows, e))?;
        let segment =
            Segment { number, rows: file, index: create(&index)?, writer, bytes: header.len() as u64 };
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|e| in_file(&self.folder, e))?;
        let mut written = lock(&self.written);
        written.segments.push(vec![]);
        written.headers.push(segment.bytes);
        Ok(segment)
    }

    /// The journal as a shard that is read again.
    pub fn shard(&self, projection: Option<Vec<usize>>, batch_rows: usize) -> ReplayableShard {
        let log = JournalLog {
            written: Arc::clone(&self.written),
            folder: self.folder.clone(),
            position: Position { segment: lock(&self.written).first, entry: 0 },
        };
        let reader = JournalReader {
            folder: self.folder.clone(),
            projection,
            batch_rows,
            entries: VecDeque::new(),
            rows: None,
            batches: VecDeque::new(),
        };
        ReplayableShard { log: Box::new(log), reader: Box::new(reader) }
    }
}

impl Segment {
    fn append(&mut self, message: &Message, folder: &Path) -> Result<Entry> {
        let entry = match message {
            Message::Punctuation(INFINITY) => Entry::End,
            Message::Punctuation(time) => Entry::Punctuation(*time),
            Message::Batch(batch) => {
                self.writer.write(&batch.rows)?;
                let bytes = std::mem::take(self.writer.get_mut());
                let path = rows_path(folder, self.number);
                self.rows.write_all(&bytes).map_err(|e| in_file(&path, e))?;
                self.rows.sync_data().map_err(|e| in_file(&path, e))?;
                self.bytes += bytes.len() as u64;
                Entry::Rows(self.bytes)
            }
        };
        let path = index_path(folder, self.number);
        self.index.write_all(&entry.to_bytes()).map_err(|e| in_file(&path, e))?;
        self.index.sync_data().map_err(|e| in_file(&path, e))?;
        Ok(entry)
    }
}

impl Entry {
    fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let (kind, number) = match self {
            Entry::Rows(end) => (0, end.cast_signed()),
            Entry::Punctuation(time) => (1, time),
            Entry::End => (2, 0),
        };
        let mut bytes = [0; ENTRY_BYTES];
        bytes[0] = kind;
        bytes[1..9].copy_from_slice(&number.to_le_bytes());
        let digest = crc32fast::hash(&bytes[..9]);
        bytes[9..].copy_from_slice(&digest.to_le_bytes());
        bytes
    }

    /// The entry of these bytes; none if they are torn.
    fn from_bytes(bytes: &[u8]) -> Option<Entry> {
        let (body, digest) = bytes.split_at_checked(9)?;
        let number = i64::from_le_bytes(body[1..].try_into().ok()?);
        let entry = match body[0] {
            0 => Entry::Rows(number.cast_unsigned()),
            1 => Entry::Punctuation(number),
            2 => Entry::End,
            _ => return None,
        };
        (crc32fast::hash(body).to_le_bytes() == digest).then_some(entry)
    }
}

fn rows_path(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{segment:012}.arrows"))
}

fn index_path(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{segment:012}.index"))
}

/// The number of the first segment of a folder: older ones may have been removed.
fn first_segment(folder: &Path) -> Result<u64> {
    let mut first = None;
    for entry in fs::read_dir(folder).map_err(|e| in_file(folder, e))? {
        let path = entry.map_err(|e| in_file(folder, e))?.path();
        let is_rows = path.extension().is_some_and(|suffix| suffix == "arrows");
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        first = [first, number.filter(|_| is_rows)].into_iter().flatten().min();
    }
    Ok(first.unwrap_or(1))
}

/// The entries of a segment, and where its rows begin; none if there is no such segment. What was never
/// acknowledged is cut off.
fn recover_segment(folder: &Path, number: u64, schema: &SchemaRef) -> Result<Option<(Vec<Entry>, u64)>> {
    let (rows, index) = (rows_path(folder, number), index_path(folder, number));
    if !rows.exists() {
        return Ok(None);
    }
    let header = StreamWriter::try_new(Vec::new(), schema)?.get_ref().len() as u64;
    let mut bytes = Vec::new();
    if index.exists() {
        File::open(&index)
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .map_err(|e| in_file(&index, e))?;
    }
    let entries: Vec<Entry> = bytes.chunks(ENTRY_BYTES).map_while(Entry::from_bytes).collect();
    let end =
        entries.iter().rev().find_map(|entry| if let Entry::Rows(end) = entry { Some(*end) } else { None });
    let end = end.unwrap_or(header);
    let file = File::options().write(true).read(true).open(&rows).map_err(|e| in_file(&rows, e))?;
    let length = file.metadata().map_err(|e| in_file(&rows, e))?.len();
    if entries.is_empty() && length < header {
        // The process was killed before its first message.
        return Ok(Some((entries, header)));
    }
    if length < end {
        return exec_err!(
            "`{}` has {length} bytes, and its index says {end}: it was cut off",
            rows.display()
        );
    }
    let found = StreamReader::try_new(BufReader::new(&file), None).map_err(|e| in_file(&rows, e))?.schema();
    if found.fields() != schema.fields() {
        return plan_err!(
            "the log in `{}` has other columns than this source; give each source a folder of its own",
            folder.display()
        );
    }
    file.set_len(end).and_then(|()| file.sync_all()).map_err(|e| in_file(&rows, e))?;
    let whole = (entries.len() * ENTRY_BYTES) as u64;
    if whole < bytes.len() as u64 {
        let file = File::options().write(true).open(&index).map_err(|e| in_file(&index, e))?;
        file.set_len(whole).and_then(|()| file.sync_all()).map_err(|e| in_file(&index, e))?;
    }
    Ok(Some((entries, header)))
}

/// A place between two entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    segment: u64,
    entry: u64,
}

/// Entries of one segment.
#[derive(Debug, Serialize, Deserialize)]
struct Slice {
    from: Position,
    /// Where the rows of the first entry begin.
    start: u64,
    entries: Vec<Entry>,
}

/// Cuts a journal into slices.
struct JournalLog {
    written: Arc<Mutex<Written>>,
    folder: PathBuf,
    position: Position,
}

impl ShardLog for JournalLog {
    fn cut(&mut self) -> Result<Cut> {
        let written = lock(&self.written);
        loop {
            let number = (self.position.segment - written.first) as usize;
            let Some(entries) = written.segments.get(number) else { return Ok(Cut::Nothing) };
            let at = self.position.entry as usize;
            let before = entries[..at].iter().rev();
            let end = |entry: &Entry| if let Entry::Rows(end) = entry { Some(*end) } else { None };
            let start = before.clone().find_map(end).unwrap_or(written.headers[number]);
            if entries[..at].last() == Some(&Entry::End) {
                return Ok(Cut::End);
            }
            let is_near = |entry: &&Entry| end(entry).is_none_or(|end| end <= start + SLICE_BYTES);
            let mut count = entries[at..].iter().take(SLICE_ENTRIES).take_while(is_near).count();
            if count == 0 && at < entries.len() {
                // One message is larger than a slice.
                count = 1;
            }
            if count > 0 {
                let entries = entries[at..at + count].to_vec();
                let slice = Slice { from: self.position, start, entries };
                self.position.entry += count as u64;
                return Ok(Cut::Slice(encode(&slice)?));
            }
            if number + 1 >= written.segments.len() {
                return Ok(Cut::Nothing);
            }
            self.position = Position { segment: self.position.segment + 1, entry: 0 };
        }
    }

    fn position(&self) -> Result<Vec<u8>> {
        encode(&self.position)
    }

    fn seek(&mut self, position: Option<&[u8]>) -> Result<()> {
        let written = lock(&self.written);
        let first = Position { segment: written.first, entry: 0 };
        self.position = position.map_or(Ok(first), decode)?;
        let number = self.position.segment.checked_sub(written.first);
        let entries = number.and_then(|number| written.segments.get(number as usize)).map(Vec::len);
        let is_new =
            self.position == Position { segment: written.first + written.segments.len() as u64, entry: 0 };
        match is_new || entries.is_some_and(|entries| self.position.entry <= entries as u64) {
            true => Ok(()),
            false => exec_err!(
                "the log in `{}` does not have message {} of segment {} any more, which the job has read",
                self.folder.display(),
                self.position.entry,
                self.position.segment
            ),
        }
    }

    fn skip(&mut self, slice: &[u8]) -> Result<()> {
        let Slice { from, entries, .. } = decode(slice)?;
        self.position = Position { entry: from.entry + entries.len() as u64, ..from };
        Ok(())
    }
}

/// Reads slices of a journal.
struct JournalReader {
    folder: PathBuf,
    projection: Option<Vec<usize>>,
    batch_rows: usize,
    entries: VecDeque<Entry>,
    /// The rows of the slice.
    rows: Option<StreamReader<Box<dyn Read + Send>>>,
    /// The parts of a batch that is larger than a batch may be.
    batches: VecDeque<RecordBatch>,
}

impl SliceReader for JournalReader {
    fn begin(&mut self, slice: &[u8]) -> Result<()> {
        let Slice { from, start, entries } = decode(slice)?;
        let path = rows_path(&self.folder, from.segment);
        let failed = |error: std::io::Error| -> DataFusionError { in_file(&path, error) };
        let mut file = File::open(&path).map_err(failed)?;
        let mut schema = Vec::new();
        let first = header_bytes(&mut file).map_err(failed)?;
        file.rewind().map_err(failed)?;
        Read::by_ref(&mut file).take(first).read_to_end(&mut schema).map_err(failed)?;
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        // A schema, and the batches of the slice, are a stream.
        let stream: Box<dyn Read + Send> = Box::new(std::io::Cursor::new(schema).chain(BufReader::new(file)));
        self.rows = Some(StreamReader::try_new(stream, self.projection.clone())?);
        self.entries = entries.into();
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Part>> {
        if let Some(batch) = self.batches.pop_front() {
            return Ok(Some(Part::Message(always(batch))));
        }
        let Some(entry) = self.entries.pop_front() else { return Ok(None) };
        match (entry, &mut self.rows) {
            (Entry::End, _) => Ok(Some(Part::End)),
            (Entry::Punctuation(time), _) => Ok(Some(Part::Message(Message::Punctuation(time)))),
            (Entry::Rows(_), Some(rows)) => {
                let Some(batch) = rows.next().transpose()? else {
                    return exec_err!("a segment of the log in `{}` was cut off", self.folder.display());
                };
                let starts = (0..batch.num_rows()).step_by(self.batch_rows.max(1));
                let part = |start: usize| batch.slice(start, self.batch_rows.min(batch.num_rows() - start));
                self.batches = starts.map(part).collect();
                self.next()
            }
            (Entry::Rows(_), None) => exec_err!("a part of a log is read before it was begun"),
        }
    }
}

/// How many bytes the schema of a stream takes at its beginning.
fn header_bytes(file: &mut File) -> std::io::Result<u64> {
    let mut prefix = [0; 8];
    file.read_exact(&mut prefix)?;
    let [_, _, _, _, a, b, c, d] = prefix;
    Ok(8 + u64::from(u32::from_le_bytes([a, b, c, d])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
    use datafusion::arrow::datatypes::Int64Type;

    fn rows(numbers: std::ops::Range<i64>) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    /// All numbers and promises that a journal has, from a position on.
    fn read(journal: &Journal, from: Option<&[u8]>) -> (Vec<i64>, bool) {
        let mut shard = journal.shard(None, 3);
        shard.log.seek(from).unwrap();
        let (mut numbers, mut ended) = (vec![], false);
        while let Cut::Slice(slice) = shard.log.cut().unwrap() {
            shard.reader.begin(&slice).unwrap();
            while let Some(part) = shard.reader.next().unwrap() {
                match part {
                    Part::End => ended = true,
                    Part::Message(Message::Punctuation(time)) => numbers.push(-time),
                    Part::Message(Message::Batch(batch)) => {
                        numbers.extend(batch.rows.column(0).as_primitive::<Int64Type>().values());
                    }
                }
            }
        }
        (numbers, ended)
    }

    #[test]
    fn what_was_acknowledged_is_there_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("whimbrel-journal-{}", std::process::id()));
        let schema = rows(0..1).schema();
        let append = |journal: &Journal, numbers| journal.append(&always(rows(numbers))).unwrap();
        let journal = Journal::open(&folder, &schema).unwrap();
        assert!(Journal::open(&folder, &schema).unwrap_err().to_string().contains("another"));
        append(&journal, 0..7);
        journal.append(&Message::Punctuation(5)).unwrap();
        append(&journal, 7..9);
        assert_eq!(read(&journal, None), (vec![0, 1, 2, 3, 4, 5, 6, -5, 7, 8], false));
        drop(journal);
        // A message of which only a part was written.
        let mut torn = File::options().append(true).open(rows_path(&folder, 1)).unwrap();
        torn.write_all(b"half a batch").unwrap();
        let mut torn = File::options().append(true).open(index_path(&folder, 1)).unwrap();
        torn.write_all(&Entry::Rows(9999).to_bytes()[..7]).unwrap();
        let journal = Journal::open(&folder, &schema).unwrap();
        let mut shard = journal.shard(None, 3);
        while let Cut::Slice(_) = shard.log.cut().unwrap() {}
        let position = shard.log.position().unwrap();
        append(&journal, 9..11);
        journal.append(&Message::Punctuation(INFINITY)).unwrap();
        assert_eq!(read(&journal, None).0, [0, 1, 2, 3, 4, 5, 6, -5, 7, 8, 9, 10]);
        assert_eq!(read(&journal, Some(&position)), (vec![9, 10], true));
        drop(journal);
        let journal = Journal::open(&folder, &schema).unwrap();
        assert!(journal.has_ended());
        let other = RecordBatch::try_from_iter([("m", rows(0..1).column(0).clone())]).unwrap().schema();
        drop(journal);
        assert!(Journal::open(&folder, &other).unwrap_err().to_string().contains("other columns"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
