//! What the control plane of a cluster costs: many workers in one process, and queries without rows.
//!
//! ```text
//! redis-server --port 7000 --save "" &
//! cargo run --release --example control_plane -p whimbrel-cluster -- redis://127.0.0.1:7000 400
//! ```
//!
//! Prints the seconds of an empty query with a channel on each worker, and how many commands and bytes the
//! store had for a channel, and in a second without queries.

use datafusion::common::Result;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use whimbrel_cluster::{Cluster, Worker, WorkerOptions};
use whimbrel_control::{ControlStore, RedisOptions, RedisStore};
use whimbrel_plan::nodes::Scope;
use whimbrel_plan::{References, Series, Stream};
use whimbrel_session::PlanReferences;
use whimbrel_sharded::{Options, action};

/// For how long an idle cluster is measured.
const IDLE: Duration = Duration::from_secs(5);

/// How many queries are run.
const QUERIES: usize = 10;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, workers] = arguments.as_slice() else {
        eprintln!("control_plane REDIS WORKERS");
        std::process::exit(2);
    };
    let workers: usize = workers.parse().expect("a number of workers");
    let references: Arc<dyn References> = Arc::new(PlanReferences);
    let running = start_workers(url, workers, &references)?;
    std::thread::sleep(Duration::from_secs(2));
    let before = Load::of(url);
    std::thread::sleep(IDLE);
    let (idle, seconds) = (Load::of(url).since(&before), IDLE.as_secs_f64());
    println!("idle: {:.0} commands and {:.0} bytes a second", idle.commands / seconds, idle.bytes / seconds);
    let store = connect(url);
    let cluster = Arc::new(Cluster::connect(Arc::clone(&store) as _, references)?);
    let empty = Stream::scan("nothing", Arc::new(Series::counted("n", 0, 1, 0)?))?;
    let query = empty.reshard(Some(workers), Scope::Global)?;
    let options = Options { remote: Some(cluster), ..Options::default() };
    let (before, mut times) = (Load::of(url), Vec::new());
    for _ in 0..QUERIES {
        let began = Instant::now();
        assert_eq!(action::collect(&query, &options)?.wait()?.num_rows(), 0);
        times.push(began.elapsed().as_secs_f64());
    }
    let load = Load::of(url).since(&before);
    let channels = (QUERIES * (workers + 1)) as f64;
    let first = times[0];
    times.sort_by(f64::total_cmp);
    println!("an empty query: first {first:.3} s, median {:.3} s", times[times.len() / 2]);
    println!("a channel: {:.1} commands and {:.0} bytes", load.commands / channels, load.bytes / channels);
    drop(running);
    store.remove_all().expect("a Redis");
    Ok(())
}

/// A connection to the store.
fn connect(url: &str) -> Arc<RedisStore> {
    Arc::new(RedisStore::open(url, "control-plane", RedisOptions::default()).expect("a Redis"))
}

/// Starts workers, each with connections of its own, as if it were a process.
fn start_workers(url: &str, workers: usize, references: &Arc<dyn References>) -> Result<Vec<Worker>> {
    let options = WorkerOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        host: None,
        threads: 1,
        folder: std::env::temp_dir(),
        backup_memory: 1 << 20,
        backup_disk: None,
        metrics: None,
    };
    let began = Instant::now();
    let start = |_| Worker::start(connect(url), Arc::clone(references), &options);
    let running = (0..workers).map(start).collect::<Result<Vec<Worker>>>()?;
    println!("{workers} workers after {:.1} s", began.elapsed().as_secs_f64());
    Ok(running)
}

/// What a Redis has done.
struct Load {
    commands: f64,
    bytes: f64,
}

impl Load {
    /// What it says of itself.
    fn of(url: &str) -> Load {
        let text = redis_info(url);
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
        };
        let bytes = value("total_net_input_bytes") + value("total_net_output_bytes");
        Load { commands: value("total_commands_processed"), bytes }
    }

    fn since(self, before: &Load) -> Load {
        Load { commands: self.commands - before.commands, bytes: self.bytes - before.bytes }
    }
}

/// The answer to `INFO`, over a connection of its own.
fn redis_info(url: &str) -> String {
    let address = url.trim_start_matches("redis://");
    let mut connection = TcpStream::connect(address).expect("a Redis");
    connection.write_all(b"INFO\r\nQUIT\r\n").expect("a Redis");
    let mut text = String::new();
    connection.read_to_string(&mut text).expect("a Redis");
    text
}
