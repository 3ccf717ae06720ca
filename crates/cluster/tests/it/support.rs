//! A cluster within this process: workers that meet in a store in memory, and exchange frames by the network.

use datafusion::arrow::util::pretty::pretty_format_batches;
use std::sync::Arc;
use whimbrel_cluster::{Cluster, Worker, WorkerOptions};
use whimbrel_control::{ControlStore, MemoryStore};
use whimbrel_plan::{References, Stream};
use whimbrel_session::{PlanReferences, Session};
use whimbrel_sharded::action::collect;
use whimbrel_sharded::{Options, RuntimeKind};
use whimbrel_sql::Planned;

/// Workers and a client.
pub struct TestCluster {
    pub store: Arc<dyn ControlStore>,
    pub workers: Vec<Worker>,
    pub cluster: Arc<Cluster>,
}

pub fn references() -> Arc<dyn References> {
    Arc::new(PlanReferences)
}

/// Starts a worker that keeps so many bytes of frames in memory.
pub fn worker(store: &Arc<dyn ControlStore>, backup_memory: u64) -> Worker {
    let options = WorkerOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        host: None,
        threads: 1,
        folder: std::env::temp_dir(),
        backup_memory,
        backup_disk: None,
        metrics: Some("127.0.0.1:0".parse().unwrap()),
    };
    Worker::start(Arc::clone(store), references(), &options).unwrap()
}

impl TestCluster {
    pub fn new(workers: usize) -> TestCluster {
        let store: Arc<dyn ControlStore> = Arc::new(MemoryStore::default());
        let workers = (0..workers).map(|_| worker(&store, 1 << 20)).collect();
        let cluster = Arc::new(Cluster::connect(Arc::clone(&store), references()).unwrap());
        TestCluster { store, workers, cluster }
    }

    pub fn options(&self) -> Options {
        Options { remote: Some(self.cluster.clone()), ..Options::default() }
    }
}

/// The plan of a query, in as many shards as there are cores.
pub fn plan(sql: &str, options: &Options) -> Stream {
    let mut session = Session::new(options.clone());
    session.sql.set_shards(Some(options.cores()));
    session.sql.set_shard_rows(0);
    match session.plan(sql, None, || false).unwrap().planned {
        Planned::Query(stream) => stream,
        _ => panic!("{sql} is no query"),
    }
}

/// The rows of a query as text, in an order of their own.
pub fn rows(stream: &Stream, options: &Options) -> Vec<String> {
    let table = collect(stream, options).unwrap().wait().unwrap();
    let text = pretty_format_batches(&table.batches).unwrap().to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    lines.sort();
    lines
}

/// The rows of a query in this process.
pub fn expected(sql: &str) -> Vec<String> {
    let options = Options { runtime: RuntimeKind::Library, ..Options::default() };
    rows(&plan(sql, &options), &options)
}
