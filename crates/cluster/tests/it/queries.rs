//! The answers of a cluster are those of one process, whatever happens to its workers.

use crate::support::{TestCluster, expected, plan, rows, worker};
use datafusion::error::DataFusionError;
use std::sync::Arc;
use std::thread::{sleep, spawn};
use std::time::Duration;
use whimbrel_cluster::{Cluster, Lifetime};
use whimbrel_control::{ControlStore, MemoryStore};
use whimbrel_sharded::action::collect;
use whimbrel_sharded::{Memory, Options};

const QUERIES: &[&str] = &[
    "select 6 * 7 as answer",
    "select n, n * n as square from range(1000) t(n) where n % 7 = 3",
    "select n % 10 as k, count(*) as c, sum(n) as s from range(100000) t(n) group by k",
    "select a.n, b.n as m from range(5000) a(n) join range(3, 9000, 3) b(n) on a.n = b.n",
    "select count(*) from range(3000) a(n) left join range(0, 9000, 2) b(n) on a.n = b.n where b.n is null",
    "select k, max(s) from (select n % 100 as k, n % 1000 as j, sum(n) as s from range(50000) t(n) group by 1, 2) \
     group by k order by k limit 7",
    "select n, row_number() over (partition by n % 3 order by n desc) as r from range(300) t(n)",
    "select * from range(100000) t(n) limit 5",
    "select n from range(10) t(n) union all select n + 100 from range(10) t(n)",
    "select x.n from range(10) x(n) where exists (select 1 from range(5) y(n) where y.n = x.n)",
];

#[test]
fn answers_are_those_of_one_process() {
    for workers in 1..=3 {
        let cluster = TestCluster::new(workers);
        for sql in QUERIES {
            let stream = plan(sql, &cluster.options());
            let expected = expected(sql);
            let found = rows(&stream, &cluster.options());
            match sql.contains("limit 5") {
                true => assert_eq!(found.len(), expected.len(), "{sql}"),
                false => assert_eq!(found, expected, "{sql}, {workers} workers"),
            }
        }
        assert!(cluster.store.read_all(&[]).unwrap().is_empty());
        assert!(cluster.workers.iter().all(|worker| !worker.has_ended()));
    }
}

/// A query of some seconds: a join of two aggregates over shards.
const LONG: &str = "select a.k, count(*) as c, sum(b.s) as s, min(b.low) as low \
     from (select n % 5003 as k, sum(length(md5(md5(n::varchar)))) as c from range(1500000) t(n) group by 1) a \
     join (select n % 5003 as k, sum(n) as s, min(md5(md5(n::varchar))) as low from range(1500000) t(n) group by 1) b \
     on a.k = b.k group by a.k";

#[test]
fn workers_that_leave_and_come_change_nothing() {
    let mut cluster = TestCluster::new(3);
    let options = cluster.options();
    let stream = plan(LONG, &options);
    let running = spawn(move || rows(&stream, &options));
    for _ in 0..3 {
        sleep(Duration::from_millis(200));
        assert!(!running.is_finished(), "the query was too fast");
        drop(cluster.workers.remove(0));
        cluster.workers.push(worker(&cluster.store, 1 << 20));
    }
    assert_eq!(running.join().unwrap(), expected(LONG));
}

#[test]
fn all_workers_may_be_gone_for_a_while() {
    let mut cluster = TestCluster::new(2);
    let options = cluster.options();
    let stream = plan(LONG, &options);
    let running = spawn(move || rows(&stream, &options));
    sleep(Duration::from_millis(300));
    cluster.workers.clear();
    assert!(!running.is_finished(), "the query was too fast");
    sleep(Duration::from_millis(300));
    cluster.workers.push(worker(&cluster.store, 1 << 20));
    assert_eq!(running.join().unwrap(), expected(LONG));
}

#[test]
fn errors_of_queries_are_those_of_one_process() {
    let cluster = TestCluster::new(2);
    let options = cluster.options();
    for (sql, text) in [
        ("select (n - 500)::varchar || 'x' as s, 1 / (n - 500) from range(1000) t(n)", "zero"),
        ("select cast('x' || n as int) from range(10) t(n)", "x0"),
    ] {
        let stream = plan(sql, &options);
        let error = collect(&stream, &options).unwrap().wait().unwrap_err();
        assert!(error.to_string().to_lowercase().contains(text), "{error}");
        assert!(cluster.cluster.jobs().unwrap().is_empty());
    }
    // Others go on.
    assert_eq!(rows(&plan(QUERIES[2], &options), &options), expected(QUERIES[2]));
}

#[test]
fn the_error_of_a_job_that_has_failed_comes_at_the_end() {
    let cluster = TestCluster::new(2);
    let stream = plan("select 1 / (n - 500) from range(1000) t(n)", &cluster.options());
    let job = cluster.cluster.submit(&stream, &cluster.options(), Lifetime::Seconds(60)).unwrap();
    assert!(job.wait(None).unwrap_err().to_string().contains("zero"));
    let options = Options { remote: Some(Arc::new(job)), ..Options::default() };
    let error = collect(&stream, &options).unwrap().wait().unwrap_err();
    assert!(error.to_string().contains("zero"), "{error}");
}

#[test]
fn a_cluster_without_workers_says_so() {
    let store: Arc<dyn ControlStore> = Arc::new(MemoryStore::default());
    let cluster = Arc::new(Cluster::connect(store, crate::support::references()).unwrap());
    let options = Options { remote: Some(cluster), ..Options::default() };
    let error = collect(&plan(QUERIES[0], &options), &options).err().unwrap();
    assert!(error.to_string().contains("has no workers"), "{error}");
}

#[test]
fn a_query_that_is_cancelled_is_given_up() {
    let cluster = TestCluster::new(2);
    let options = cluster.options();
    let action = collect(&plan(LONG, &options), &options).unwrap();
    sleep(Duration::from_millis(200));
    action.job().cancel();
    assert!(action.wait().unwrap_err().to_string().contains("cancelled"));
    while !cluster.cluster.jobs().unwrap().is_empty() {
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn channels_spill_within_their_memory() {
    let cluster = TestCluster::new(2);
    let options = Options { memory: Memory::Query(4 << 20), ..cluster.options() };
    let sql = "select n, repeat('x', 100) || n as s from range(100000) t(n) order by s desc limit 90000";
    assert_eq!(rows(&plan(sql, &options), &options), expected(sql));
}

#[test]
fn the_error_of_a_sink_is_the_error_of_the_query() {
    let cluster = TestCluster::new(2);
    let options = cluster.options();
    let stream = plan("select n from range(1000000) t(n)", &options);
    let sink = Box::new(|_, _| Err(DataFusionError::Execution("the sink is full".to_string())));
    let job = whimbrel_sharded::run(&stream, &options, sink).unwrap();
    let error = job.wait().unwrap_err();
    assert!(error.to_string().contains("the sink is full"), "{error}");
}
