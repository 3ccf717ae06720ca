//! A state store in an object store, behind a URL (`s3://bucket/folder`).
//!
//! Credentials come from the environment, under the names that the stores' own tools use.

use super::StateStore;
use datafusion::common::{DataFusionError, Result, plan_err};
use futures::{TryStreamExt, stream};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use std::future::Future;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use whimbrel_plan::source::redacted;
use whimbrel_sharded::error::in_place;

/// How many requests are on their way at once.
const REQUESTS: usize = 16;

/// A store in a folder of an object store.
pub struct ObjectsStore {
    store: Arc<dyn ObjectStore>,
    root: Path,
    url: String,
    runtime: Runtime,
}

impl ObjectsStore {
    /// Opens the folder at a URL.
    ///
    /// # Errors
    /// `Plan` if it is no URL of a store.
    pub fn open(url: &str) -> Result<ObjectsStore> {
        let shown = redacted(url);
        let Ok(parsed) = url.parse() else { return plan_err!("`{shown}` is no URL") };
        let environment = std::env::vars().map(|(name, value)| (name.to_ascii_lowercase(), value));
        let (store, root) = match object_store::parse_url_opts(&parsed, environment) {
            Ok(opened) => opened,
            Err(error) => return plan_err!("{}", redacted(&format!("`{url}`: {error}"))),
        };
        Ok(ObjectsStore { store: Arc::from(store), root, url: shown, runtime: new_runtime()? })
    }

    /// A folder in this one.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no runtime for its requests.
    pub fn subfolder(&self, name: &str) -> Result<ObjectsStore> {
        let (store, root) = (Arc::clone(&self.store), self.path(name));
        Ok(ObjectsStore { store, root, url: format!("{}/{name}", self.url), runtime: new_runtime()? })
    }

    /// Copies an object within the store; false if there is none of this name.
    ///
    /// # Errors
    /// `Execution` if it cannot be copied.
    pub fn copy(&self, from: &str, to: &str) -> Result<bool> {
        let (from, to) = (self.path(from), self.path(to));
        self.is_found(self.runtime.block_on(self.store.copy(&from, &to)))
    }

    /// Whether there is an object of this name.
    ///
    /// # Errors
    /// `Execution` if the store does not say.
    pub fn exists(&self, name: &str) -> Result<bool> {
        let path = self.path(name);
        self.is_found(self.runtime.block_on(self.store.head(&path)))
    }

    /// Whether a request found its object.
    fn is_found<T>(&self, outcome: object_store::Result<T>) -> Result<bool> {
        match outcome {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.root.clone(), |path, part| path.join(part))
    }

    /// Waits for requests.
    fn wait<T>(&self, requests: impl Future<Output = object_store::Result<T>>) -> Result<T> {
        self.runtime.block_on(requests).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: Error) -> DataFusionError {
        in_place(&self.url, error)
    }
}

/// What waits for requests.
fn new_runtime() -> Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| DataFusionError::ResourcesExhausted(error.to_string()))
}

impl StateStore for ObjectsStore {
    fn put(&self, objects: Vec<(String, Vec<u8>)>) -> Result<()> {
        let puts = objects.into_iter().map(|(name, bytes)| Ok((self.path(&name), bytes)));
        self.wait(stream::iter(puts).try_for_each_concurrent(REQUESTS, |(path, bytes)| async move {
            self.store.put(&path, PutPayload::from(bytes)).await.map(|_| ())
        }))
    }

    fn create(&self, name: &str, bytes: Vec<u8>) -> Result<bool> {
        let options = PutOptions::from(PutMode::Create);
        let path = self.path(name);
        let put = self.store.put_opts(&path, PutPayload::from(bytes.clone()), options);
        match self.runtime.block_on(put) {
            Ok(_) => Ok(true),
            // The answer to an attempt of our own may have been lost.
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                Ok(self.get(name)?.is_some_and(|found| found == bytes))
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path(name);
        let get = async { self.store.get(&path).await?.bytes().await };
        match self.runtime.block_on(get) {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let folder = self.path(folder);
        let found = self.wait(self.store.list(Some(&folder)).try_collect::<Vec<_>>())?;
        let mut names: Vec<String> =
            found.iter().filter_map(|meta| meta.location.filename()).map(str::to_string).collect();
        names.sort();
        Ok(names)
    }

    fn remove(&self, names: &[String]) -> Result<()> {
        let paths = names.iter().map(|name| Ok(self.path(name)));
        self.wait(stream::iter(paths).try_for_each_concurrent(REQUESTS, |path| async move {
            match self.store.delete(&path).await {
                Err(error) if !matches!(error, Error::NotFound { .. }) => Err(error),
                _ => Ok(()),
            }
        }))
    }

    fn describe(&self) -> String {
        self.url.clone()
    }
}
