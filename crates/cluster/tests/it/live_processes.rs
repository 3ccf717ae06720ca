//! Processes of a cluster for tests of live jobs: a Redis, workers, and clients that end at once. Workers and
//! clients are this program again, which runs one of the two ignored tests here.

use crate::support::{plan, rows};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use whimbrel_cluster::{Cluster, LiveJob, LiveJobOptions};
use whimbrel_jobs::JobOptions;
use whimbrel_plan::nodes::{Scope, TimeSpec};
use whimbrel_plan::{Agg, Source, Stream, column};
use whimbrel_session::cluster::{WorkerSettings, connect, start_worker};
use whimbrel_session::durable::{Destination, start_job};
use whimbrel_sharded::dataset::{FollowDataset, ReadOptions};
use whimbrel_sharded::{Options, RuntimeKind};
use whimbrel_temporal::{Closed, IngressOptions};

const ADDRESS: &str = "WHIMBREL_TEST_CLUSTER";
const ROOT: &str = "WHIMBREL_TEST_ROOT";

/// The folders of a job: its input, its state and its results.
pub struct Root {
    folder: PathBuf,
    clock: i64,
}

/// Clicks, with their time.
pub fn clicks(source: Arc<dyn Source>) -> Stream {
    let time = TimeSpec::point("time");
    Stream::scan("clicks", source).unwrap().ingress(time, IngressOptions::default()).unwrap()
}

/// Clicks per item in windows of five ticks, in three shards.
pub fn query(source: Arc<dyn Source>) -> Stream {
    let clicks = clicks(source).rekey(vec![column("item")]).unwrap();
    let sharded = clicks.redistribute(Some(3), Scope::Global).unwrap();
    let windows = sharded.tumbling(5, 0, Closed::Left).unwrap();
    windows.aggregate(vec![("n".to_string(), Agg::count())]).unwrap()
}

impl Root {
    pub fn new(name: &str) -> Root {
        let folder = std::env::temp_dir().join(format!("whimbrel-live-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("in")).unwrap();
        fs::write(folder.join("in/clicks.csv"), "time,item\n").unwrap();
        Root { folder, clock: 0 }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn out(&self) -> PathBuf {
        self.path("out")
    }

    /// Some rows come.
    pub fn grow(&mut self) {
        let lines =
            (0..10).map(|n| format!("{},{}\n", self.clock + n, ["a", "b", "c", "d", "e"][n as usize % 5]));
        self.append(&lines.collect::<String>());
        self.clock += 10;
    }

    /// Appends text to the input.
    pub fn append(&self, text: &str) {
        let mut file = OpenOptions::new().append(true).open(self.path("in/clicks.csv")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    pub fn source(&self) -> Arc<dyn Source> {
        source_in(&self.folder)
    }

    pub fn options(&self) -> LiveJobOptions {
        options_in(&self.folder)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn source_in(root: &Path) -> Arc<dyn Source> {
    let fields = vec![Field::new("time", DataType::Int64, false), Field::new("item", DataType::Utf8, false)];
    let schema = Some(Arc::new(Schema::new(fields)));
    let options = ReadOptions { schema, ..ReadOptions::default() };
    Arc::new(FollowDataset::open(&[format!("{}/in/*.csv", root.display())], &options).unwrap())
}

fn options_in(root: &Path) -> LiveJobOptions {
    LiveJobOptions {
        to: root.join("out").display().to_string(),
        format: None,
        checkpoint: root.join("state").display().to_string(),
        every: Duration::from_millis(100),
        stop_when_idle: Some(Duration::from_secs(3)),
    }
}

/// The rows that a sink has.
pub fn results(out: &Path) -> Vec<String> {
    let options = Options { runtime: RuntimeKind::Library, ..Options::default() };
    rows(&plan(&format!("select * from '{}/*.parquet'", out.display()), &options), &options)
}

/// The rows that one undisturbed run of the same job gives in this process.
pub fn alone(root: &Root) -> Vec<String> {
    alone_with(root, &query(root.source()))
}

/// The rows that one undisturbed run of a query gives in this process.
pub fn alone_with(root: &Root, query: &Stream) -> Vec<String> {
    let LiveJobOptions { every, .. } = root.options();
    let (checkpoint, stop_when_idle) = (root.path("alone-state").display().to_string(), Some(every * 5));
    let job = JobOptions { checkpoint, every, stop_when_idle };
    let to = Destination::Place(root.path("alone").display().to_string(), None);
    start_job(query, &Options::default(), &job, to).unwrap().wait().unwrap();
    let rows = results(&root.path("alone"));
    assert!(rows.len() > 20, "{rows:?}");
    rows
}

/// A Redis, workers, and a client. They end with it.
pub struct Processes {
    redis: Child,
    workers: Vec<Child>,
    address: String,
    pub cluster: Arc<Cluster>,
}

impl Processes {
    /// Starts so many workers; none if there is no Redis on this machine.
    pub fn start(workers: usize) -> Option<Processes> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut redis = Command::new("redis-server");
        redis.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        let Ok(redis) = redis.stdout(Stdio::null()).spawn() else {
            eprintln!("skipped: there is no redis-server");
            return None;
        };
        wait_until("the Redis does not start", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        let address = format!("redis://127.0.0.1:{port}");
        let cluster = connect(&address).unwrap();
        let mut processes = Processes { redis, workers: Vec::new(), address, cluster };
        (0..workers).for_each(|_| processes.add_worker());
        Some(processes)
    }

    /// Starts a worker and waits until it is there.
    pub fn add_worker(&mut self) {
        let worker = itself("worker_process").env(ADDRESS, &self.address).spawn().unwrap();
        let id = worker.id();
        self.workers.push(worker);
        let is_there = || self.cluster.workers().unwrap().iter().any(|worker| worker.record.process == id);
        wait_until("a worker does not start", is_there);
    }

    /// The job of a root, submitted by a process that ends then.
    pub fn submit_elsewhere(&self, root: &Root) -> LiveJob {
        let before = self.cluster.live_jobs().unwrap();
        let mut client = itself("client_process");
        assert!(client.env(ADDRESS, &self.address).env(ROOT, &root.folder).status().unwrap().success());
        let after = self.cluster.live_jobs().unwrap();
        let new = after.into_iter().find(|(name, _)| before.iter().all(|(known, _)| known != name));
        self.cluster.live_job(&new.unwrap().0).unwrap()
    }

    /// The process of a worker.
    pub fn process(&self, name: &str) -> u32 {
        let workers = self.cluster.workers().unwrap();
        workers.iter().find(|worker| worker.name == name).unwrap().record.process
    }

    /// The process of the worker that hosts a job.
    pub fn host(&self, job: &LiveJob) -> u32 {
        self.process(&job.record().unwrap().host.unwrap())
    }

    /// Kills the worker of a process.
    pub fn kill(&mut self, id: u32) {
        let worker = self.workers.iter_mut().find(|worker| worker.id() == id).unwrap();
        worker.kill().unwrap();
        worker.wait().unwrap();
    }

    /// Sends a signal to a worker.
    pub fn signal(&self, process: u32, signal: &str) {
        assert!(self.workers.iter().any(|worker| worker.id() == process));
        let sent = Command::new("kill").arg(format!("-{signal}")).arg(process.to_string()).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in self.workers.iter_mut().chain([&mut self.redis]) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < until, "{what}");
        sleep(Duration::from_millis(20));
    }
}

/// This program, which runs one test of this module.
fn itself(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("live_processes::{test}"), "--exact", "--ignored"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

#[test]
#[ignore = "a worker of other tests"]
fn worker_process() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let _worker = start_worker(&address, &WorkerSettings::default()).unwrap();
    // It is killed by the test, or ends with it.
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        sleep(Duration::from_millis(500));
    }
}

#[test]
#[ignore = "a client of other tests"]
fn client_process() {
    let (Ok(address), Ok(root)) = (std::env::var(ADDRESS), std::env::var(ROOT)) else { return };
    let root = Path::new(&root);
    let cluster = connect(&address).unwrap();
    cluster.run_forever(&query(source_in(root)), &Options::default(), &options_in(root)).unwrap();
}
