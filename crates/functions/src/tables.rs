//! How this process reads tables that are in Amazon S3: as it reads the objects of exchanges, with requests
//! that are counted, and sent a second time where they take too long.

use crate::hedged_store::{HedgedStore, Stragglers};
use crate::meter::Meter;
use crate::usage::Usage;
use datafusion::common::Result;
use object_store::ObjectStore;
use object_store::path::Path;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use whimbrel_sharded::dataset::{OpenStores, open_stores_with};

/// The buckets whose tables this process has read.
#[derive(Debug, Default)]
pub struct Tables {
    meter: Arc<Meter>,
    buckets: Mutex<HashMap<BucketName, Arc<HedgedStore>>>,
}

/// The name of a bucket, and the address of its server if that is not Amazon's.
type BucketName = (String, Option<String>);

/// Those of this process.
static TABLES: OnceLock<Arc<Tables>> = OnceLock::new();

impl Tables {
    /// The tables of this process, which are read in this way from now on.
    pub fn of_process() -> Arc<Tables> {
        let tables = TABLES.get_or_init(|| {
            let tables = Arc::new(Tables::default());
            open_stores_with(Arc::clone(&tables) as _);
            tables
        });
        Arc::clone(tables)
    }

    /// What has been asked of all buckets.
    pub fn usage(&self) -> Usage {
        self.meter.usage()
    }
}

impl OpenStores for Tables {
    fn open(&self, url: &str) -> Option<Result<(Arc<dyn ObjectStore>, Path)>> {
        let (bucket, key) = url.strip_prefix("s3://")?.split_once('/')?;
        let key = Path::from_url_path(key).ok()?;
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let endpoint = variable("AWS_ENDPOINT").or_else(|| variable("AWS_ENDPOINT_URL"));
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let known = (bucket.to_string(), endpoint);
        let store = match buckets.get(&known) {
            Some(store) => Arc::clone(store),
            None => {
                let (endpoint, meter) = (known.1.as_deref(), Arc::clone(&self.meter));
                match HedgedStore::amazon(bucket, endpoint, Stragglers::default(), meter) {
                    Ok(store) => Arc::clone(buckets.entry(known).or_insert(Arc::new(store))),
                    Err(error) => return Some(Err(error)),
                }
            }
        };
        Some(Ok((store, key)))
    }
}
