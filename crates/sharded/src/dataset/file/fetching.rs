//! A Parquet file in an object store, for the asynchronous reader: ranges of bytes, and the footer.

use super::location::Object;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::{ObjectStoreExt, PutPayload};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use std::ops::Range;
use std::sync::Arc;

/// What a store's answers are made of, and what the reader of pages works on.
pub(super) type Bytes = <PutPayload as IntoIterator>::Item;

/// How much of the end of a file is asked for at first: most footers are smaller.
const FOOTER: usize = 64 << 10;

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
        async move { self.0.store.get_ranges(&self.0.path, &ranges).await.map_err(failed) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        let size = self.0.size;
        async move {
            let reader = ParquetMetaDataReader::new()
                .with_metadata_options(options.map(|o| o.metadata_options().clone()))
                .with_prefetch_hint(Some(FOOTER));
            Ok(Arc::new(reader.load_and_finish(self, size).await?))
        }
        .boxed()
    }
}
