//! The pages of a local Parquet file, decompressed into [`PooledBuffer`]s.
//!
//! Only Snappy is decompressed here, which nearly all files use: the library sets the memory of each page to
//! zero before it writes it. Other codecs are left to it. All pages are verified first ([`VerifiedColumn`]).

use super::block_reader::BlockReader;
use super::buffer_pool::{Bytes, PooledBuffer};
use super::decompression::MOST_SNAPPY;
use super::verified::VerifiedColumn;
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

/// Which row groups and columns of a file are read.
pub(super) struct Pages<'a> {
    pub metadata: &'a ArrowReaderMetadata,
    pub row_groups: &'a [usize],
    pub columns: ProjectionMask,
    pub batch_rows: usize,
}

impl Pages<'_> {
    /// Reads these rows, counted from the beginning of the first row group.
    ///
    /// # Errors
    /// If the columns cannot be read as the metadata says.
    pub fn read(self, input: BlockReader, rows: RowSelection) -> Result<ParquetRecordBatchReader> {
        let levels = parquet_to_arrow_field_levels(
            self.metadata.parquet_schema(),
            self.columns,
            Some(self.metadata.schema().fields()),
        )?;
        let file = Arc::clone(self.metadata.metadata());
        let all = file.file_metadata().num_rows() as usize;
        let groups = LocalRowGroups { input: Arc::new(input), file, numbers: self.row_groups.to_vec() };
        let rows = Some(rows).filter(|rows| rows.row_count() < groups.num_rows());
        ParquetRecordBatchReader::try_new_with_row_groups(&levels, &groups, self.batch_rows.min(all), rows)
    }
}

/// `length` rows from `offset` on.
pub(super) fn rows(offset: usize, length: usize) -> RowSelection {
    vec![RowSelector::skip(offset), RowSelector::select(length)].into()
}

/// Some row groups of a file, for the reader of the library.
struct LocalRowGroups {
    input: Arc<BlockReader>,
    file: Arc<ParquetMetaData>,
    numbers: Vec<usize>,
}

impl RowGroups for LocalRowGroups {
    fn num_rows(&self) -> usize {
        self.row_groups().map(|group| group.num_rows() as usize).sum()
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let (input, file) = (Arc::clone(&self.input), Arc::clone(&self.file));
        let groups = self.numbers.clone().into_iter();
        Ok(Box::new(Column(groups.map(move |group| pages(&input, file.row_group(group), column)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.numbers.iter().map(|group| self.file.row_group(*group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.file
    }
}

/// The pages of a column, row group after row group.
struct Column<I>(I);

impl<I: Iterator<Item = Result<Box<dyn PageReader>>>> Iterator for Column<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }
}

impl<I: Iterator<Item = Result<Box<dyn PageReader>>> + Send> PageIterator for Column<I> {}

/// The pages of a column in a row group.
fn pages(input: &Arc<BlockReader>, group: &RowGroupMetaData, column: usize) -> Result<Box<dyn PageReader>> {
    let (chunk, rows) = (group.column(column), group.num_rows() as usize);
    let input = Arc::new(VerifiedColumn::new(Arc::clone(input), chunk.compression()));
    if chunk.compression() != Compression::SNAPPY {
        return Ok(Box::new(SerializedPageReader::new(input, chunk, rows, None)?));
    }
    // The library hands out the pages of an uncompressed column as they are.
    let uncompressed = chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
    let compressed = SerializedPageReader::new(input, &uncompressed, rows, None)?;
    Ok(Box::new(SnappyPages { compressed, decoder: Decoder::new() }))
}

/// Pages that are compressed with Snappy.
struct SnappyPages {
    compressed: SerializedPageReader<VerifiedColumn>,
    decoder: Decoder,
}

impl SnappyPages {
    /// Decompresses the bytes of a page, but for the levels that it begins with: these are not compressed.
    fn decompress(&mut self, page: &Bytes, levels: usize) -> Result<Bytes> {
        let Some((levels, values)) = page.split_at_checked(levels) else {
            return Err(ParquetError::EOF(format!("a page of {} bytes has {levels} of levels", page.len())));
        };
        if values.is_empty() {
            return Ok(Bytes::copy_from_slice(levels));
        }
        let length = decompress_len(values).map_err(failed)?;
        if length > values.len().saturating_mul(MOST_SNAPPY) {
            let of = values.len();
            return Err(ParquetError::General(format!(
                "a page of {of} bytes cannot be unpacked to {length}"
            )));
        }
        let mut buffer = PooledBuffer::new(levels.len() + length);
        let (head, rest) = buffer.bytes().split_at_mut(levels.len());
        head.copy_from_slice(levels);
        self.decoder.decompress(values, rest).map_err(failed)?;
        Ok(buffer.share(levels.len() + length))
    }
}

/// An error of the decoder.
fn failed(error: snap::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl PageReader for SnappyPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(mut page) = self.compressed.get_next_page()? else { return Ok(None) };
        match &mut page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => {
                *buf = self.decompress(buf, 0)?
            }
            Page::DataPageV2 { is_compressed: false, .. } => {}
            Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, is_compressed, .. } => {
                *buf = self.decompress(buf, (*def_levels_byte_len + *rep_levels_byte_len) as usize)?;
                *is_compressed = false;
            }
        }
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.compressed.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.compressed.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.compressed.at_record_boundary()
    }
}

impl Iterator for SnappyPages {
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
        let pages = Pages {
            metadata: &metadata,
            row_groups: &groups,
            columns: ProjectionMask::all(),
            batch_rows: 7_000,
        };
        let chunks = BlockReader::new(file, &metadata, &groups)?;
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
