//! A Parquet file in an object store, fetched in ranges of bytes by the asynchronous reader.

use super::buffer_pool::Bytes;
use super::location::Object;
use super::verified::check_pages;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::ObjectStoreExt;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use std::ops::Range;
use std::sync::Arc;

/// Fetches ranges of an object, and verifies the pages in them.
pub(super) struct ObjectReader(pub Arc<Object>);

/// An error of the store.
fn failed(error: object_store::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl AsyncFileReader for ObjectReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move { self.0.store.get_range(&self.0.path, range).await.map_err(failed) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        // The store joins ranges that lie close together.
        async move {
            let parts = self.0.store.get_ranges(&self.0.path, &ranges).await.map_err(failed)?;
            // A range is a whole column chunk.
            for (part, range) in parts.iter().zip(&ranges) {
                check_pages(part, range.start)?;
            }
            Ok(parts)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        let error = "the footer is read before the rows are fetched";
        async move { Err(ParquetError::General(error.to_string())) }.boxed()
    }
}
