//! Failures: a job ends at once with the first error, whatever its channels are doing.

use crate::data::*;
use datafusion::common::{Result, exec_err};
use datafusion::prelude::lit;
use std::time::{Duration, Instant};
use whimbrel_plan::nodes::Scope;
use whimbrel_plan::{Agg, AggFunction, JoinKind, Stream, TimeSpec, column};
use whimbrel_sharded::action::{collect, subscribe};
use whimbrel_sharded::dataset::LiveDataset;
use whimbrel_sharded::error::ErrorKind;
use whimbrel_sharded::{Options, run};
use whimbrel_temporal::{Closed, IngressOptions, Message};

/// Fails at the clicks that cost 50.
fn failing(stream: &Stream) -> Stream {
    let x = (lit(1_i64) / (column("cost") - lit(50_i64))).alias("x");
    stream.with_columns(vec![x]).unwrap()
}

fn moved(stream: &Stream) -> Stream {
    stream.rekey(vec![column("user")]).unwrap().redistribute(Some(4), Scope::Global).unwrap()
}

#[test]
fn an_error_in_one_channel_ends_the_job() {
    let clicks = clicks(20_000);
    for stream in [relation(&clicks, 3, 1), points(&clicks, 3, 1)] {
        for query in [
            failing(&stream),
            moved(&failing(&stream)),
            failing(&moved(&stream)),
            moved(&failing(&stream))
                .aggregate(vec![("x".into(), Agg::of(AggFunction::Sum, column("x")))])
                .unwrap(),
            moved(&stream).join(&failing(&moved(&stream)), vec![], JoinKind::Inner, "_right").unwrap(),
        ] {
            for options in [library(), local()] {
                let error = collect(&query, &options).unwrap().wait().expect_err("an error");
                assert_eq!(ErrorKind::of(&error), ErrorKind::Data, "{error}");
                assert!(error.to_string().to_lowercase().contains("divide by zero"), "{error}");
            }
        }
    }
}

#[test]
fn an_error_of_the_sink_ends_the_job() {
    for options in [library(), local()] {
        let sink = |_: usize, _: Message| -> Result<()> { exec_err!("enough") };
        let job = run(&moved(&points(&clicks(5000), 3, 1)), &options, Box::new(sink)).unwrap();
        let error = job.wait().unwrap_err();
        assert!(error.to_string().contains("enough"));
        // Waiting again gives the same error.
        assert!(job.wait().unwrap_err().to_string().contains("enough"));
    }
}

#[test]
fn a_panic_is_an_internal_error_and_ends_the_job() {
    for options in [library(), local()] {
        let sink = |_: usize, _: Message| -> Result<()> { panic!("on purpose") };
        let job = run(&moved(&points(&clicks(5000), 3, 1)), &options, Box::new(sink)).unwrap();
        let error = job.wait().unwrap_err();
        assert_eq!(ErrorKind::of(&error), ErrorKind::Internal);
        assert!(error.to_string().contains("on purpose"));
    }
}

#[test]
fn cancel_stops_a_job_that_waits() {
    let (source, senders) = LiveDataset::new(clicks(0).schema(), 2).unwrap();
    let stream = Stream::scan("live", source).unwrap();
    let stream = stream.ingress(whimbrel_plan::TimeSpec::point("time"), Default::default()).unwrap();
    for options in [library(), local()] {
        let job = subscribe(&moved(&stream).aggregate(count()).unwrap(), &options, |_, _| Ok(())).unwrap();
        assert!(!job.wait_timeout(Duration::from_millis(20)).unwrap());
        let progress = job.progress().clone();
        let started = Instant::now();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            progress.cancel();
        });
        job.wait().unwrap();
        canceller.join().unwrap();
        assert!(job.cancelled());
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    }
    drop(senders);
}

#[test]
fn cancel_stops_a_job_that_works() {
    let clicks = clicks(400_000);
    for options in [library(), Options { batch_rows: 1000, ..Options::default() }] {
        let stream = moved(&points(&clicks, 4, 1)).hopping(1000, 1, 0, Closed::Left).unwrap();
        let action = collect(&stream.aggregate(count()).unwrap(), &options).unwrap();
        assert!(!action.job().wait_timeout(Duration::from_millis(30)).unwrap());
        let started = Instant::now();
        action.job().cancel();
        let error = action.wait().expect_err("no result");
        assert!(error.to_string().contains("cancelled"));
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    }
}

#[test]
fn a_job_that_is_dropped_stops() {
    let (source, senders) = LiveDataset::new(clicks(0).schema(), 1).unwrap();
    let stream = Stream::scan("live", source).unwrap();
    let stream = stream.ingress(whimbrel_plan::TimeSpec::point("time"), Default::default()).unwrap();
    drop(subscribe(&stream, &local(), |_, _| Ok(())).unwrap());
    let stopped = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        senders[0].push(clicks(1)).is_err()
    });
    assert!(stopped);
}

#[test]
fn a_query_that_cannot_run_is_refused() {
    let (source, _senders) = LiveDataset::new(clicks(0).schema(), 2).unwrap();
    let users = Stream::scan("live", source).unwrap().where_(column("user").gt(lit(3_i64))).unwrap();
    let events = users.ingress(TimeSpec::point("time"), IngressOptions::default()).unwrap();
    let error = collect(&events, &local()).err().unwrap();
    assert_eq!(ErrorKind::of(&error), ErrorKind::Invalid);
    assert!(error.to_string().contains("time="), "{error}");
    let none = Options { batch_rows: 0, ..local() };
    assert!(collect(&relation(&clicks(1), 1, 1), &none).is_err());
}
