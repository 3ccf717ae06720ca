//! Where objects are: a prefix of a bucket, or a folder of this machine.
//!
//! An object of an exchange is written once and never changed: a second writer of the same key finds the
//! first one's.

use crate::hedged_store::{HedgedStore, Stragglers};
use crate::meter::Meter;
use crate::staged_files::remove_staged_files;
use crate::usage::Usage;
use bytes::Bytes;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use futures::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{
    Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
    WriteMultipart,
};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How many bytes of a table are written at once, and how many such parts at the same time.
const UPLOAD_PART: usize = 16 << 20;
const PARALLEL_UPLOADS: usize = 4;

/// Where objects are, as another process opens it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketAddress {
    /// `s3://bucket/prefix`, or the absolute path of a folder.
    pub url: String,
    /// The address of an S3 server other than Amazon's.
    pub endpoint: Option<String>,
}

/// A prefix of a bucket, or a folder.
pub struct Bucket {
    address: BucketAddress,
    stragglers: Stragglers,
    store: Arc<dyn ObjectStore>,
    meter: Arc<Meter>,
    /// The meter of the query that it is used by, if it is used by one.
    query: Option<Arc<Meter>>,
}

impl Bucket {
    /// Opens a bucket. Its credentials come from the environment (`AWS_ACCESS_KEY_ID` and so on), or from the
    /// role of the machine.
    ///
    /// # Errors
    /// `Plan` if it is no address of a bucket, or a folder that cannot be made.
    pub fn open(address: &BucketAddress, stragglers: Stragglers) -> Result<Bucket> {
        let meter = Arc::new(Meter::default());
        let store: Arc<dyn ObjectStore> = match address.url.strip_prefix("s3://") {
            Some(rest) => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                let endpoint = address.endpoint.as_deref();
                let store = HedgedStore::amazon(bucket, endpoint, stragglers, Arc::clone(&meter))?;
                let prefix = Path::parse(prefix.trim_end_matches('/')).map_err(|error| {
                    plan_datafusion_err!("`{}` is no bucket for functions: {error}", address.url)
                })?;
                Arc::new(PrefixStore::new(store, prefix))
            }
            None => Arc::new(HedgedStore::local(folder(address)?, stragglers, Arc::clone(&meter))),
        };
        Ok(Bucket { address: address.clone(), stragglers, store, meter, query: None })
    }

    /// The same bucket for one query, whose requests are counted by themselves.
    #[must_use]
    pub fn for_query(&self) -> Bucket {
        Bucket {
            address: self.address.clone(),
            stragglers: self.stragglers,
            store: Arc::clone(&self.store),
            meter: Arc::clone(&self.meter),
            query: Some(Arc::default()),
        }
    }

    /// Makes requests, which are counted for the query.
    async fn count<F: Future>(&self, requests: F) -> F::Output {
        match &self.query {
            Some(meter) => meter.count_requests(requests).await,
            None => requests.await,
        }
    }

    /// Where it is.
    pub fn address(&self) -> &BucketAddress {
        &self.address
    }

    /// How requests that take too long are treated.
    pub fn stragglers(&self) -> Stragglers {
        self.stragglers
    }

    /// What has been asked of it, by its query if it has one.
    pub fn usage(&self) -> Usage {
        self.query.as_ref().unwrap_or(&self.meter).usage()
    }

    /// Reads a range of an object; with a tag, only of the object that has it.
    ///
    /// # Errors
    /// `NotFound` if there is no object; `Precondition` if it is another one; those of the store.
    pub async fn get(&self, key: &str, range: Range<u64>, tag: Option<&str>) -> object_store::Result<Read> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            if_match: tag.map(str::to_string),
            ..GetOptions::default()
        };
        let read = async {
            let found = self.store.get_opts(&Path::from(key), options).await?;
            let tag = found.meta.e_tag.clone();
            Ok(Read { bytes: found.bytes().await?, tag })
        };
        self.count(read).await
    }

    /// Reads a whole object, which is small.
    ///
    /// # Errors
    /// `NotFound` if there is none; those of the store.
    pub async fn get_small(&self, key: &str) -> object_store::Result<Bytes> {
        let read =
            async { self.store.get_opts(&Path::from(key), GetOptions::default()).await?.bytes().await };
        self.count(read).await
    }

    /// Whether there is an object; with a tag, whether it is the one that has it.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn holds(&self, key: &str, tag: Option<&str>) -> object_store::Result<bool> {
        match self.count(self.store.head(&Path::from(key))).await {
            Ok(found) => Ok(tag.is_none() || found.e_tag.as_deref() == tag),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes an object unless there is one; whether it is this one. The tag is that of the object if it is.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn put_new(&self, key: &str, payload: &PutPayload) -> object_store::Result<Written> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.count(self.store.put_opts(&Path::from(key), payload.clone(), options)).await {
            Ok(result) => Ok(Written::Created(result.e_tag)),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(Written::Exists),
            Err(error) => Err(error),
        }
    }

    /// Writes an object; one that is there is replaced.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn put(&self, key: &str, payload: PutPayload) -> object_store::Result<()> {
        self.count(self.store.put_opts(&Path::from(key), payload, PutOptions::default())).await.map(|_| ())
    }

    /// Where an object is, for whoever reads it as a table.
    pub fn url_of(&self, key: &str) -> String {
        let folder = self.address.url.strip_prefix("file://").unwrap_or(&self.address.url);
        format!("{}/{key}", folder.trim_end_matches('/'))
    }

    /// Writes a file of a table, in parts; one that is there is replaced.
    ///
    /// # Errors
    /// Those of the store, and of the file.
    pub async fn upload(&self, key: &str, file: File) -> object_store::Result<()> {
        let upload = self.store.put_multipart_opts(&Path::from(key), Default::default()).await?;
        let mut writer = WriteMultipart::new_with_chunk_size(upload, UPLOAD_PART);
        match write_parts(&mut writer, Arc::new(file)).await {
            Ok(()) => writer.finish().await.map(|_| ()),
            Err(error) => {
                // The first error says more.
                let _ = writer.abort().await;
                Err(error)
            }
        }
    }

    /// Removes what writers that were killed have left below a prefix, if the bucket is a folder.
    pub fn remove_staged_files(&self, prefix: &str, age: Duration) -> (usize, u64) {
        let url = &self.address.url;
        let folder = url.strip_prefix("file://").unwrap_or(url);
        match url.starts_with("s3://") {
            true => (0, 0),
            false => remove_staged_files(&std::path::Path::new(folder).join(prefix), age),
        }
    }

    /// Removes objects. Those that are not there are none.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn delete(&self, keys: Vec<String>) -> object_store::Result<()> {
        let paths = futures::stream::iter(keys.into_iter().map(|key| Ok(Path::from(key)))).boxed();
        let deleted = self.store.delete_stream(paths);
        let gone = |result: object_store::Result<Path>| async move {
            match result {
                Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        };
        deleted.then(gone).try_collect().await
    }

    /// The keys of all objects below a prefix that are older than this, and how many bytes they have.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn older_than(&self, prefix: &str, age: Duration) -> object_store::Result<Vec<(String, u64)>> {
        let before = SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
        let all = self.store.list(Some(&Path::from(prefix))).try_collect::<Vec<_>>().await?;
        let old = all.into_iter().filter(|meta| SystemTime::from(meta.last_modified) <= before);
        Ok(old.map(|meta| (meta.location.to_string(), meta.size)).collect())
    }
}

/// A range of an object.
#[derive(Debug)]
pub struct Read {
    /// Its bytes.
    pub bytes: Bytes,
    /// The tag of the object.
    pub tag: Option<String>,
}

/// What became of an object that was to be written.
#[derive(Debug, PartialEq, Eq)]
pub enum Written {
    /// It is there, with this tag.
    Created(Option<String>),
    /// There was one already: of another attempt, or this one if an answer was lost.
    Exists,
}

/// Writes a file in parts, all of which are written in the end.
async fn write_parts(writer: &mut WriteMultipart, file: Arc<File>) -> object_store::Result<()> {
    loop {
        writer.wait_for_capacity(PARALLEL_UPLOADS).await?;
        match read_part(Arc::clone(&file)).await {
            Ok(part) if part.is_empty() => return writer.wait_for_capacity(0).await,
            Ok(part) => writer.put(part.into()),
            Err(error) => return Err(Error::Generic { store: "file", source: Box::new(error) }),
        }
    }
}

/// The next part of a file; an empty one at the end.
async fn read_part(file: Arc<File>) -> std::io::Result<Vec<u8>> {
    let read = move || {
        let mut part = Vec::with_capacity(UPLOAD_PART);
        file.as_ref().take(UPLOAD_PART as u64).read_to_end(&mut part).map(|_| part)
    };
    tokio::task::spawn_blocking(read).await.map_err(std::io::Error::other)?
}

/// The store of a folder of this machine.
fn folder(address: &BucketAddress) -> Result<Arc<dyn ObjectStore>> {
    let path = address.url.strip_prefix("file://").unwrap_or(&address.url);
    if path.contains("://") || !path.starts_with('/') {
        return plan_err!(
            "`{}` is no place for the objects of functions: give s3://bucket/prefix, or the absolute path of a \
             folder",
            address.url
        );
    }
    let made = std::fs::create_dir_all(path).map_err(Into::into);
    let store = made.and_then(|()| {
        LocalFileSystem::new_with_prefix(path).map_err(Into::<datafusion::error::DataFusionError>::into)
    });
    store
        .map(|store| Arc::new(store) as _)
        .map_err(|error| plan_datafusion_err!("the folder `{path}`: {error}"))
}
