//! The pages of a Parquet file of this machine, unpacked into [`Block`]s.
//!
//! Only Snappy is unpacked here, which nearly all files are packed with: the library sets memory to zero for each page
//! and then writes it. Pages that are packed otherwise are left to it. All of them are held against their headers
//! first ([`Checked`]).

use super::checked::Checked;
use super::chunks::Chunks;
use super::fetching::Bytes;
use super::memory::Block;
use super::unpacking::MOST_SNAPPY;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector,
};
use parquet::arrow::parquet_to_arrow_field_levels;
use parquet::basic::Compression;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use snap::raw::{Decoder, decompress_len};
use std::sync::Arc;

/// Some row groups of a file and which of their columns are read.
pub(super) struct Pages<'a> {
    pub metadata: &'a ArrowReaderMetadata,
    pub groups: &'a [usize],
    pub columns: ProjectionMask,
    pub batch_rows: usize,
}

impl Pages<'_> {
    /// Reads these rows of the row groups, counted from the beginning of the first.
    pub fn read(self, input: Chunks, rows: RowSelection) -> Result<ParquetRecordBatchReader> {
        let levels = parquet_to_arrow_field_levels(
            self.metadata.parquet_schema(),
            self.columns,
            Some(self.metadata.schema().fields()),
        )?;
        let file = Arc::clone(self.metadata.metadata());
        let all = file.file_metadata().num_rows() as usize;
        let groups = Groups { input: Arc::new(input), file, groups: self.groups.to_vec() };
        let rows = Some(rows).filter(|rows| rows.row_count() < groups.num_rows());
        ParquetRecordBatchReader::try_new_with_row_groups(&levels, &groups, self.batch_rows.min(all), rows)
    }
}

/// So many rows from a place on.
pub(super) fn rows(offset: usize, length: usize) -> RowSelection {
    vec![RowSelector::skip(offset), RowSelector::select(length)].into()
}

struct Groups {
    input: Arc<Chunks>,
    file: Arc<ParquetMetaData>,
    groups: Vec<usize>,
}

impl RowGroups for Groups {
    fn num_rows(&self) -> usize {
        self.row_groups().map(|group| group.num_rows() as usize).sum()
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let (input, file) = (Arc::clone(&self.input), Arc::clone(&self.file));
        let groups = self.groups.clone().into_iter();
        Ok(Box::new(Column(groups.map(move |group| pages(&input, file.row_group(group), column)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.groups.iter().map(|group| self.file.row_group(*group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.file
    }
}

/// What is stored of a column in one row group after the other.
struct Column<I>(I);

impl<I: Iterator<Item = Result<Box<dyn PageReader>>>> Iterator for Column<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }
}

impl<I: Iterator<Item = Result<Box<dyn PageReader>>> + Send> PageIterator for Column<I> {}

/// The pages of a column in a row group.
fn pages(input: &Arc<Chunks>, group: &RowGroupMetaData, column: usize) -> Result<Box<dyn PageReader>> {
    let (chunk, rows) = (group.column(column), group.num_rows() as usize);
    let input = Arc::new(Checked::new(Arc::clone(input), chunk.compression()));
    if chunk.compression() != Compression::SNAPPY {
        return Ok(Box::new(SerializedPageReader::new(input, chunk, rows, None)?));
    }
    // Pages of a column that is said not to be packed come as they are.
    let as_they_are = chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
    let packed = SerializedPageReader::new(input, &as_they_are, rows, None)?;
    Ok(Box::new(Unpacked { packed, decoder: Decoder::new() }))
}

/// Pages that Snappy has packed.
struct Unpacked {
    packed: SerializedPageReader<Checked>,
    decoder: Decoder,
}

impl Unpacked {
    /// The same bytes, all but the first `plain` of them unpacked.
    fn unpack(&mut self, packed: &Bytes, plain: usize) -> Result<Bytes> {
        let Some((plain, packed)) = packed.split_at_checked(plain) else {
            return Err(ParquetError::EOF(format!("a page of {} bytes has {plain} of levels", packed.len())));
        };
        if packed.is_empty() {
            return Ok(Bytes::copy_from_slice(plain));
        }
        let length = decompress_len(packed).map_err(failed)?;
        if length > packed.len().saturating_mul(MOST_SNAPPY) {
            let of = packed.len();
            return Err(ParquetError::General(format!(
                "a page of {of} bytes cannot be unpacked to {length}"
            )));
        }
        let mut block = Block::new(plain.len() + length);
        let (levels, values) = block.bytes().split_at_mut(plain.len());
        levels.copy_from_slice(plain);
        self.decoder.decompress(packed, values).map_err(failed)?;
        Ok(block.share(plain.len() + length))
    }
}

fn failed(error: snap::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl PageReader for Unpacked {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(mut page) = self.packed.get_next_page()? else { return Ok(None) };
        match &mut page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => *buf = self.unpack(buf, 0)?,
            Page::DataPageV2 { is_compressed: false, .. } => {}
            Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, is_compressed, .. } => {
                *buf = self.unpack(buf, (*def_levels_byte_len + *rep_levels_byte_len) as usize)?;
                *is_compressed = false;
            }
        }
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.packed.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.packed.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.packed.at_record_boundary()
    }
}

impl Iterator for Unpacked {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use datafusion::arrow::compute::concat_batches;
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ArrowReaderOptions;
    use parquet::file::properties::{WriterProperties, WriterVersion};
    use std::fs::File;

    const ROWS: i64 = 50_000;

    fn table() -> RecordBatch {
        let numbers = Int64Array::from_iter((0..ROWS).map(|i| (i % 5 != 0).then_some(i * i)));
        let words = StringArray::from_iter_values((0..ROWS).map(|i| format!("word {}", i % 100)));
        let texts = StringArray::from_iter((0..ROWS).map(|i| (i % 3 != 0).then(|| format!("text {i}"))));
        let nulls = Int64Array::from_iter((0..ROWS).map(|_| None));
        let columns: [(&str, ArrayRef); 4] = [
            ("numbers", Arc::new(numbers)),
            ("words", Arc::new(words)),
            ("texts", Arc::new(texts)),
            ("nulls", Arc::new(nulls)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    /// A table as a file; the bytes of its pages changed.
    fn written(table: &RecordBatch, properties: WriterProperties, change: impl Fn(&mut [u8])) -> File {
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, table.schema(), Some(properties)).unwrap();
        writer.write(table).unwrap();
        let first = writer.close().unwrap().row_group(0).column(0).byte_range();
        change(&mut bytes[first.0 as usize..(first.0 + first.1) as usize]);
        let name = format!("whimbrel-pages-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file
    }

    fn read(file: File, offset: usize, length: usize) -> Result<RecordBatch> {
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
        let groups: Vec<usize> = (0..metadata.metadata().num_row_groups()).collect();
        let pages =
            Pages { metadata: &metadata, groups: &groups, columns: ProjectionMask::all(), batch_rows: 7_000 };
        let chunks = Chunks::new(file, &metadata, &groups)?;
        let batches =
            pages.read(chunks, rows(offset, length))?.collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(concat_batches(metadata.schema(), &batches)?)
    }

    #[test]
    fn what_was_written_comes_out() {
        let table = table();
        for compression in [Compression::SNAPPY, Compression::UNCOMPRESSED] {
            for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
                for (offset, length) in [(0, ROWS as usize), (12_345, 20_000)] {
                    let properties = WriterProperties::builder()
                        .set_compression(compression)
                        .set_writer_version(version)
                        .set_data_page_row_count_limit(3_000)
                        .set_max_row_group_row_count(Some(20_000))
                        .build();
                    let file = written(&table, properties, |_| ());
                    assert_eq!(read(file, offset, length).unwrap(), table.slice(offset, length));
                }
            }
        }
    }

    #[test]
    fn a_damaged_page_is_an_error() {
        let table = table();
        let properties = || WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let damaged = |bytes: &mut [u8]| {
            let middle = bytes.len() / 2;
            bytes[middle..middle + 64].fill(0xff);
        };
        assert!(read(written(&table, properties(), damaged), 0, ROWS as usize).is_err());
    }
}
