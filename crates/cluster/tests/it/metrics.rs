//! The metrics of workers.

use crate::support::{TestCluster, plan, rows};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use whimbrel_cluster::Worker;
use whimbrel_sharded::action::collect;

/// The status and the body of an answer.
fn ask(address: SocketAddr, method: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: worker\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_string(), body.to_string())
}

/// The samples of a worker, by their names with labels.
fn samples(worker: &Worker) -> BTreeMap<String, u64> {
    let (status, body) = ask(worker.metrics_address().unwrap(), "GET", "/metrics");
    assert_eq!(status, "200");
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').map(|(name, n)| (name.into(), n.parse().unwrap())).unwrap())
        .collect()
}

/// The sum of a sample over all workers.
fn sum(cluster: &TestCluster, name: &str) -> u64 {
    cluster.workers.iter().map(|worker| samples(worker)[name]).sum()
}

#[test]
fn workers_say_what_they_have_done() {
    let cluster = TestCluster::new(2);
    let sql = "select n % 10 as k, count(*) as c from range(100000) t(n) group by k";
    let stream = plan(sql, &cluster.options());
    rows(&stream, &cluster.options());
    let first = sum(&cluster, "whimbrel_rows_total");
    assert!(first >= 100_000, "{first}");
    assert!(sum(&cluster, "whimbrel_tasks_total") > 0 && sum(&cluster, "whimbrel_moved_bytes_total") > 0);
    rows(&stream, &cluster.options());
    assert!(sum(&cluster, "whimbrel_rows_total") >= 2 * first);
    let failing = plan("select sum(1 / (n - 5000)) from range(10000) t(n)", &cluster.options());
    assert!(collect(&failing, &cluster.options()).unwrap().wait().is_err());
    assert!(sum(&cluster, "whimbrel_channels_total{outcome=\"failed\"}") >= 1);
    assert!(sum(&cluster, "whimbrel_channels_total{outcome=\"ended\"}") >= 2);
    for worker in &cluster.workers {
        let samples = samples(worker);
        assert_eq!((samples["whimbrel_worker_registered"], samples["whimbrel_worker_threads"]), (1, 1));
        assert_eq!(
            (samples["whimbrel_backup_memory_limit_bytes"], samples["whimbrel_live_jobs"]),
            (1 << 20, 0)
        );
        assert!(samples.contains_key("whimbrel_backup_disk_bytes"));
        assert!(!samples.contains_key("whimbrel_backup_disk_limit_bytes"), "there is no quota");
        assert!(samples.keys().any(|name| name.contains(&format!("address=\"{}\"", worker.address()))));
    }
}

#[test]
fn nothing_else_is_served() {
    let cluster = TestCluster::new(1);
    let address = cluster.workers[0].metrics_address().unwrap();
    assert_eq!(ask(address, "GET", "/").0, "404");
    assert_eq!(ask(address, "POST", "/metrics").0, "405");
    assert_eq!(ask(address, "HEAD", "/metrics"), ("200".to_string(), String::new()));
}
