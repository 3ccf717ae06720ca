//! Live sources: plans over files run over rows that arrive.

use crate::data::*;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use whimbrel_plan::nodes::{Scope, TimeSpec};
use whimbrel_plan::{Stream, column};
use whimbrel_sharded::action::{collect, subscribe};
use whimbrel_sharded::dataset::{LiveDataset, LiveSender};
use whimbrel_sharded::error::ErrorKind;
use whimbrel_temporal::{Closed, Disorder, IngressOptions};

fn live(shards: usize, options: IngressOptions) -> (Stream, Vec<LiveSender>) {
    let (source, senders) = LiveDataset::new(clicks(0).schema(), shards).unwrap();
    let stream = Stream::scan("live", source).unwrap();
    (stream.ingress(TimeSpec::point("time"), options).unwrap(), senders)
}

fn counted(stream: &Stream) -> Stream {
    let keyed = stream.rekey(vec![column("ad")]).unwrap();
    let keyed = keyed.redistribute(Some(2), Scope::Global).unwrap();
    keyed.tumbling(50, 0, Closed::Left).unwrap().aggregate(count()).unwrap()
}

#[test]
fn live_rows_give_the_same_answer_as_stored_rows() {
    let clicks = clicks(2000);
    let expected = changes(&counted(&points(&clicks, 1, 1)), &library());
    for options in [library(), local()] {
        let (stream, senders) = live(2, IngressOptions::default());
        let rows = clicks.clone();
        let feeder = std::thread::spawn(move || {
            for (i, start) in (0..2000).step_by(37).enumerate() {
                senders[i % 2].push(rows.slice(start, 37.min(2000 - start))).unwrap();
            }
            // The other sender closes when it is dropped.
            senders[0].close();
        });
        assert_eq!(changes(&counted(&stream), &options), expected);
        feeder.join().unwrap();
    }
}

#[test]
fn rows_sent_before_the_query_are_kept_for_it() {
    for options in [library(), local()] {
        let (stream, senders) = live(1, IngressOptions::default());
        for start in (0..2000).step_by(10) {
            senders[0].push(clicks(2000).slice(start, 10)).unwrap();
        }
        senders[0].close();
        assert!(senders[0].push(clicks(1)).is_err());
        assert_eq!(collect(&stream, &options).unwrap().wait().unwrap().num_rows(), 2000);
    }
}

fn wait_for(what: impl Fn() -> bool) {
    let started = Instant::now();
    while !what() {
        assert!(started.elapsed() < Duration::from_secs(60), "it did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The row of an instant.
fn at(time: i64) -> RecordBatch {
    table(vec![ints("time", [time]), ints("user", [1]), texts("ad", ["a"]), ints("cost", [1])])
}

#[test]
fn results_come_as_they_become_final() {
    let (stream, senders) = live(2, IngressOptions::default());
    let got: Arc<Mutex<Vec<(i64, i64)>>> = Arc::default();
    let sink = got.clone();
    let job = subscribe(&counted(&stream), &local(), move |_, batch| {
        let n = batch.column_by_name("n").unwrap().as_primitive::<Int64Type>();
        let starts = batch.column_by_name("start").unwrap().as_primitive::<Int64Type>();
        sink.lock().unwrap().extend(starts.values().iter().zip(n.values()).map(|(s, n)| (*s, *n)));
        Ok(())
    })
    .unwrap();
    senders[0].push(at(10)).unwrap();
    senders[1].push(at(20)).unwrap();
    senders[0].push(at(60)).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!(got.lock().unwrap().is_empty(), "one shard has not said that the window is over");
    // Time moves without rows.
    senders[1].advance(70).unwrap();
    senders[0].advance(70).unwrap();
    wait_for(|| *got.lock().unwrap() == [(50, 2)]);
    senders[0].advance(200).unwrap();
    senders[1].advance(200).unwrap();
    wait_for(|| *got.lock().unwrap() == [(50, 2), (100, 1)]);
    drop(senders);
    job.wait().unwrap();
    assert_eq!(job.rows_read(), 3);
}

#[test]
fn late_rows_are_counted_and_reported() {
    let ingress = IngressOptions { disorder: Disorder::Drop, ..IngressOptions::default() };
    for options in [library(), local()] {
        let (stream, senders) = live(1, ingress.clone());
        let late: Arc<Mutex<usize>> = Arc::default();
        let shown = late.clone();
        let options = whimbrel_sharded::Options {
            late: Some(Arc::new(move |rows: RecordBatch| *shown.lock().unwrap() += rows.num_rows())),
            ..options
        };
        for time in [10, 20, 15, 30, 5] {
            senders[0].push(at(time)).unwrap();
        }
        drop(senders);
        let action = collect(&stream, &options).unwrap();
        action.job().wait().unwrap();
        assert_eq!((action.job().rows_late(), *late.lock().unwrap()), (2, 2));
        assert_eq!(action.wait().unwrap().num_rows(), 3);
    }
}

#[test]
fn disorder_is_an_error_if_the_policy_says_so() {
    for options in [library(), local()] {
        let (stream, senders) = live(1, IngressOptions::default());
        senders[0].push(at(10)).unwrap();
        senders[0].push(at(5)).unwrap();
        let error = collect(&counted(&stream), &options).unwrap().wait().unwrap_err();
        assert_eq!(ErrorKind::of(&error), ErrorKind::Data, "{error}");
    }
}

#[test]
fn rows_of_other_columns_are_refused() {
    let (_stream, senders) = live(1, IngressOptions::default());
    let error = senders[0].push(table(vec![ints("time", [1])])).unwrap_err();
    assert_eq!(ErrorKind::of(&error), ErrorKind::Invalid);
}

#[test]
fn several_queries_read_one_source() {
    let (stream, senders) = live(1, IngressOptions::default());
    let first = collect(&stream, &local()).unwrap();
    let second = collect(&counted(&stream), &local()).unwrap();
    senders[0].push(clicks(500)).unwrap();
    drop(senders);
    assert_eq!(first.wait().unwrap().num_rows(), 500);
    assert!(second.wait().unwrap().num_rows() > 0);
}
