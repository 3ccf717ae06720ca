//! A Parquet file in an object store, for the asynchronous reader: ranges of bytes.

use super::checked::check_pages;
use super::location::Object;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::{ObjectStoreExt, PutPayload};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use std::ops::Range;
use std::sync::Arc;

/// What a store's answers are made of, and what the reader of pages works on.
pub(super) type Bytes = <PutPayload as IntoIterator>::Item;

/// Fetches parts of a file.
pub(super) struct Fetching(pub Arc<Object>);

fn failed(error: object_store::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl AsyncFileReader for Fetching {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move { self.0.store.get_range(&self.0.path, range).await.map_err(failed) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        // Parts that lie close together come in one piece.
        async move {
            let parts = self.0.store.get_ranges(&self.0.path, &ranges).await.map_err(failed)?;
            // They are the columns of row groups, whole.
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
