//! Clusters, by the addresses of their control stores.

use crate::references::PlanReferences;
use datafusion::common::{DataFusionError, Result, plan_err};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use whimbrel_cluster::{Cluster, Worker, WorkerOptions};
use whimbrel_control::{ControlStore, RedisOptions, RedisStore};

/// The cluster that a store has if its address names none.
const DEFAULT_NAME: &str = "whimbrel";

/// How long the store may take to answer for the first time.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// How many bytes of frames a worker keeps in memory unless it is told otherwise.
pub const BACKUP_MEMORY: usize = 1 << 30;

/// The cluster at an address: `redis://host:port?cluster=name`, or with `&virtual=name` a virtual cluster of
/// it.
///
/// # Errors
/// `Plan` if it is no such address, or there is no such virtual cluster; `Execution` if the store cannot be
/// reached.
pub fn connect(address: &str) -> Result<Arc<Cluster>> {
    let address = Address::parse(address)?;
    let cluster = Cluster::connect(address.open()?, Arc::new(PlanReferences))?;
    Ok(Arc::new(match address.virtual_cluster {
        Some(name) => cluster.cluster(&name)?,
        None => cluster,
    }))
}

/// A worker of the cluster at an address.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Where it listens for consumers of its frames; port 0 is any.
    pub listen: SocketAddr,
    /// Under which host others find it; by default the address that it listens on.
    pub host: Option<String>,
    /// How many channels it runs at the same time; by default as many as there are cores.
    pub threads: Option<usize>,
    /// Where frames are kept that do not fit into the memory; by default the folder for temporary files.
    pub folder: Option<PathBuf>,
    /// How many bytes of frames are kept in memory.
    pub backup_memory: u64,
    /// How many bytes of frames are kept on the disk at most; none: as many as it takes.
    pub backup_disk: Option<u64>,
    /// Where its metrics can be had, as `http://address/metrics`; nowhere by default.
    pub metrics: Option<SocketAddr>,
}

impl Default for WorkerSettings {
    fn default() -> WorkerSettings {
        WorkerSettings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            host: None,
            threads: None,
            folder: None,
            backup_memory: BACKUP_MEMORY as u64,
            backup_disk: None,
            metrics: None,
        }
    }
}

/// Starts a worker of the cluster at an address.
///
/// # Errors
/// As [`connect`]; `Execution` if it cannot listen.
pub fn start_worker(address: &str, settings: &WorkerSettings) -> Result<Worker> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = WorkerOptions {
        listen: settings.listen,
        host: settings.host.clone(),
        threads: u32::try_from(settings.threads.unwrap_or(cores)).unwrap_or(u32::MAX),
        folder: settings.folder.clone().unwrap_or_else(std::env::temp_dir),
        backup_memory: settings.backup_memory,
        backup_disk: settings.backup_disk,
        metrics: settings.metrics,
    };
    let address = Address::parse(address)?;
    if let Some(name) = address.virtual_cluster {
        return plan_err!("workers join the whole cluster; `{name}` takes them with add_workers");
    }
    Worker::start(address.open()?, Arc::new(PlanReferences), &options)
}

/// The address of a cluster.
struct Address<'a> {
    /// That of its Redis.
    url: &'a str,
    /// What it is called there.
    name: Cow<'a, str>,
    /// A virtual cluster of it.
    virtual_cluster: Option<Cow<'a, str>>,
    /// How many replicas of the Redis have to have what its processes agree on.
    replicas: usize,
}

impl Address<'_> {
    fn parse(address: &str) -> Result<Address<'_>> {
        let refused = |why: &str| {
            plan_err!(
                "`{}` is no address of a cluster: {why}; it is that of its Redis, as \
                 redis://host:6379?cluster=name, and for a virtual cluster &virtual=name",
                whimbrel_plan::source::redacted(address)
            )
        };
        if !address.starts_with("redis://") && !address.starts_with("rediss://") {
            return refused("it begins with neither redis:// nor rediss://");
        }
        let (url, parameters) = address.split_once('?').unwrap_or((address, ""));
        let mut parsed = Address { url, name: DEFAULT_NAME.into(), virtual_cluster: None, replicas: 0 };
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let Some((parameter, value)) = parameter.split_once('=') else {
                return refused("it has a parameter without a value");
            };
            let Ok(value) = percent_decode_str(value).decode_utf8() else {
                return refused("a parameter is no text");
            };
            match parameter {
                "cluster" if !value.is_empty() => parsed.name = value,
                "virtual" if !value.is_empty() => parsed.virtual_cluster = Some(value),
                "replicas" => match value.parse() {
                    Ok(replicas) => parsed.replicas = replicas,
                    Err(_) => return refused("`replicas` is a number"),
                },
                "cluster" | "virtual" => return refused("a name is empty"),
                _ => return refused("it has an unknown parameter"),
            }
        }
        Ok(parsed)
    }

    /// Opens the control store. One that does not answer at once is an error; one that goes away later is
    /// waited for.
    fn open(&self) -> Result<Arc<dyn ControlStore>> {
        let options = RedisOptions { replicas: self.replicas, ..RedisOptions::default() };
        let probe = RedisOptions { deadline: CONNECT_DEADLINE, ..options };
        let opened = RedisStore::open(self.url, &self.name, probe)
            .and_then(|_| RedisStore::open(self.url, &self.name, options));
        match opened {
            Ok(store) => Ok(Arc::new(store)),
            Err(whimbrel_control::Error::Invalid(text)) => plan_err!("{text}"),
            Err(error) => Err(DataFusionError::Execution(format!(
                "{error}. A cluster meets in a Redis: install one (the Debian package redis-server), start it \
                 with `redis-server --appendonly yes`, and give its address"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_names() {
        let parts = |address: &'static str| -> Result<(&str, String, String)> {
            let parsed = Address::parse(address)?;
            let of = parsed.virtual_cluster.map(Cow::into_owned).unwrap_or_default();
            Ok((parsed.url, parsed.name.into_owned(), of))
        };
        let expected = |url, name: &str, of: &str| (url, name.to_string(), of.to_string());
        assert_eq!(parts("redis://h:1").unwrap(), expected("redis://h:1", DEFAULT_NAME, ""));
        assert_eq!(parts("redis://h/2?cluster=a").unwrap(), expected("redis://h/2", "a", ""));
        assert_eq!(parts("redis://h?virtual=v&cluster=a").unwrap(), expected("redis://h", "a", "v"));
        assert_eq!(parts("redis://h?virtual=a%26b+c").unwrap(), expected("redis://h", DEFAULT_NAME, "a&b+c"));
        assert_eq!(Address::parse("redis://h,i?replicas=1").map(|parsed| parsed.replicas).unwrap(), 1);
        for wrong in [
            "http://h",
            "redis://h?cluster=",
            "redis://h?claster=a",
            "redis://h?cluster",
            "redis://h?replicas=x",
            "redis://h?virtual=%ff",
        ] {
            assert!(parts(wrong).is_err(), "{wrong}");
        }
    }
}
