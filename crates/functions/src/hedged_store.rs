//! A store whose late requests are sent a second time (starling.txt §5.1, §5.2): reads by one timer, writes
//! by two, of which the second begins when all bytes have been sent.

use crate::meter::{BodySent, Meter, MeteredConnector};
use crate::straggler::{Requests, StragglerModel};
use async_trait::async_trait;
use datafusion::common::{Result as PlanResult, plan_datafusion_err};
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{
    ClientOptions, CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// How long a request may take at most. Stragglers are dealt with long before.
const TIMEOUT: Duration = Duration::from_secs(300);

/// How requests that take too long are treated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stragglers {
    /// Of reads.
    pub reads: StragglerModel,
    /// Of writes, from their beginning.
    pub writes: StragglerModel,
    /// Of writes, from the time when all bytes have been sent.
    pub answers: StragglerModel,
}

impl Default for Stragglers {
    fn default() -> Stragglers {
        Stragglers {
            reads: StragglerModel::READS,
            writes: StragglerModel::WRITES,
            answers: StragglerModel::ANSWERS,
        }
    }
}

impl Stragglers {
    /// No request is sent twice.
    #[must_use]
    pub fn ignored() -> Stragglers {
        Stragglers::default().without_reads().without_writes()
    }

    /// The same, but that no read is sent twice.
    #[must_use]
    pub fn without_reads(self) -> Stragglers {
        Stragglers { reads: self.reads.without_duplicates(), ..self }
    }

    /// The same, but that no write is sent twice.
    #[must_use]
    pub fn without_writes(self) -> Stragglers {
        let (writes, answers) = (self.writes.without_duplicates(), self.answers.without_duplicates());
        Stragglers { writes, answers, ..self }
    }
}

/// A store whose requests are counted, and sent a second time where they take too long.
#[derive(Debug)]
pub struct HedgedStore {
    /// The second has connections of its own, for duplicates: what makes one connection slow often makes all
    /// of a pool slow.
    stores: [Arc<dyn ObjectStore>; 2],
    /// Whether requests are counted here, since no HTTP client counts them.
    is_local: bool,
    meter: Arc<Meter>,
    reads: Requests,
    writes: Requests,
    answers: StragglerModel,
}

impl HedgedStore {
    /// The bucket of Amazon S3 with this name, or of another server that talks like it. What is not said here
    /// comes from the environment.
    ///
    /// # Errors
    /// `Plan` if it is no name of a bucket, or a setting of the environment is none.
    pub fn amazon(
        bucket: &str,
        endpoint: Option<&str>,
        stragglers: Stragglers,
        meter: Arc<Meter>,
    ) -> PlanResult<HedgedStore> {
        let open = || -> PlanResult<Arc<dyn ObjectStore>> {
            let mut builder = of_environment()
                .with_bucket_name(bucket)
                .with_client_options(ClientOptions::new().with_timeout(TIMEOUT).with_allow_http(true))
                .with_http_connector(MeteredConnector(Arc::clone(&meter)));
            if let Some(endpoint) = endpoint {
                builder = builder.with_endpoint(endpoint);
            }
            let refused = |error| plan_datafusion_err!("the bucket `{bucket}` cannot be opened: {error}");
            Ok(Arc::new(builder.build().map_err(refused)?))
        };
        let stores = [open()?, open()?];
        Ok(HedgedStore::new(stores, false, stragglers, meter))
    }

    /// A store on this machine.
    pub fn local(store: Arc<dyn ObjectStore>, stragglers: Stragglers, meter: Arc<Meter>) -> HedgedStore {
        HedgedStore::new([Arc::clone(&store), store], true, stragglers, meter)
    }

    fn new(
        stores: [Arc<dyn ObjectStore>; 2],
        is_local: bool,
        stragglers: Stragglers,
        meter: Arc<Meter>,
    ) -> HedgedStore {
        HedgedStore {
            stores,
            is_local,
            meter,
            reads: Requests::new(stragglers.reads),
            writes: Requests::new(stragglers.writes),
            answers: stragglers.answers,
        }
    }

    /// Reads all that was asked for: a timer covers the body too.
    async fn get_whole(&self, store: usize, location: &Path, options: GetOptions) -> Result<GetResult> {
        if self.is_local {
            self.meter.count_get();
        }
        let found = self.stores[store].get_opts(location, options).await?;
        let (meta, range, attributes) = (found.meta.clone(), found.range.clone(), found.attributes.clone());
        let bytes = found.bytes().await?;
        if self.is_local {
            self.meter.count_read(bytes.len());
        }
        let payload = GetResultPayload::Stream(futures::stream::once(async { Ok(bytes) }).boxed());
        Ok(GetResult { payload, meta, range, attributes })
    }

    async fn put_once(
        &self,
        store: usize,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        if self.is_local {
            self.meter.count_put(payload.content_length());
        }
        self.stores[store].put_opts(location, payload, options).await
    }
}

/// What the environment says of Amazon S3: credentials, region, encryption. A variable that is empty says
/// nothing; AWS's emulator of functions sets some of them to that.
fn of_environment() -> AmazonS3Builder {
    let own = std::env::vars().filter(|(name, value)| name.starts_with("AWS_") && !value.is_empty());
    let known = own.filter_map(|(name, value)| {
        let key: AmazonS3ConfigKey = name.to_ascii_lowercase().parse().ok()?;
        Some((key, value))
    });
    known.fold(AmazonS3Builder::new(), |builder, (key, value)| builder.with_config(key, value))
}

#[async_trait]
impl ObjectStore for HedgedStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        let bytes = payload.content_length() as u64;
        let sent = BodySent::default();
        options.extensions.insert(sent.clone());
        let (total, answer) = (self.writes.deadline(bytes), self.writes.deadline_of(&self.answers, bytes));
        let late = async move {
            let answered = async {
                sent.0.notified().await;
                sleep(answer).await;
            };
            tokio::select! { () = sleep(total) => {}, () = answered => {} }
        };
        let write = |store: usize| self.put_once(store, location, payload.clone(), options.clone());
        self.writes.first_answer(&self.meter, bytes, write(0), late, || write(1)).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let bytes = match &options.range {
            Some(GetRange::Bounded(range)) => range.end.saturating_sub(range.start),
            Some(GetRange::Suffix(bytes)) => *bytes,
            // Nobody knows how long it takes to read all of an object.
            Some(GetRange::Offset(_)) | None => {
                if self.is_local {
                    self.meter.count_get();
                }
                return self.stores[0].get_opts(location, options).await;
            }
        };
        let read = |store: usize| self.get_whole(store, location, options.clone());
        let late = sleep(self.reads.deadline(bytes));
        self.reads.first_answer(&self.meter, bytes, read(0), late, || read(1)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.stores[0].put_multipart_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.stores[0].delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.stores[0].list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.stores[0].list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.stores[0].copy_opts(from, to, options).await
    }
}

impl fmt::Display for HedgedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (late requests are sent twice)", self.stores[0])
    }
}
