//! Relations over live sources without time: they are maintained while rows arrive, and equal those over
//! tables at the end.

use crate::data::*;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use whimbrel_plan::{Agg, AggFunction, JoinKind, Stream, column};
use whimbrel_sharded::action::{collect, subscribe};
use whimbrel_sharded::dataset::{LiveDataset, LiveSender};
use whimbrel_sharded::error::ErrorKind;
use whimbrel_sharded::program::{ChannelProgram, Programs, Step};
use whimbrel_sharded::relation::always;
use whimbrel_temporal::Message;

fn live(rows: &RecordBatch) -> (Stream, LiveSender) {
    let (source, mut senders) = LiveDataset::new(rows.schema(), 1).unwrap();
    (Stream::scan("live", source).unwrap(), senders.remove(0))
}

fn users() -> RecordBatch {
    table(vec![ints("user", 0..30), texts("name", (0..30).map(|i| format!("user{}", i % 7)))])
}

/// The sum of costs by name, and the names without costs.
fn bill(clicks: &Stream, users: &Stream) -> Stream {
    let on = || vec![(column("user"), column("user"))];
    let joined = users.join(clicks, on(), JoinKind::Left, "_click").unwrap();
    let paid = vec![
        ("clicks".to_string(), Agg::of(AggFunction::Count, column("cost"))),
        ("most".to_string(), Agg::of(AggFunction::Max, column("cost"))),
        ("ads".to_string(), Agg::of(AggFunction::CountDistinct, column("ad"))),
    ];
    joined.rekey(vec![column("name")]).unwrap().aggregate(paid).unwrap()
}

/// The relation after a list of changes; only rows that are there are ever removed.
pub fn folded(changes: &[RecordBatch]) -> Vec<String> {
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for batch in changes {
        let by = batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        let rows = text(&batch.project(&(1..batch.num_columns()).collect::<Vec<_>>()).unwrap());
        for (row, by) in rows.into_iter().zip(by) {
            let count = counts.entry(row).or_default();
            *count += by;
            assert!(*count >= 0, "a row goes that was not there");
        }
    }
    counts.into_iter().flat_map(|(row, n)| vec![row; n as usize]).collect()
}

fn wait_for(what: impl Fn() -> bool) {
    let started = Instant::now();
    while !what() {
        assert!(started.elapsed() < Duration::from_secs(60), "it did not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn the_last_snapshot_is_the_answer_over_the_same_rows() {
    let (clicks, users) = (clicks(500), users());
    let expected = rows(&bill(&relation(&clicks, 1, 1), &relation(&users, 1, 1)), &library());
    for options in [library(), local()] {
        for by in [1, 7, 500] {
            let ((live_clicks, click_sender), (live_users, user_sender)) = (live(&clicks), live(&users));
            let bill = bill(&live_clicks, &live_users);
            let seen: Arc<Mutex<Vec<RecordBatch>>> = Arc::default();
            let keep = seen.clone();
            let job = subscribe(&bill.changes().unwrap(), &options, move |_, rows| {
                keep.lock().unwrap().push(rows);
                Ok(())
            });
            let job = job.unwrap();
            let feeder = std::thread::spawn({
                let (clicks, users) = (clicks.clone(), users.clone());
                move || {
                    for start in (0..500).step_by(by) {
                        click_sender.push(clicks.slice(start, by.min(500 - start))).unwrap();
                        if start < 30 {
                            user_sender.push(users.slice(start, by.min(30 - start))).unwrap();
                        }
                    }
                }
            });
            job.wait().unwrap();
            feeder.join().unwrap();
            assert_eq!(folded(&seen.lock().unwrap()), expected, "{options:?} by {by}");
        }
    }
}

#[test]
fn rows_of_one_source_do_not_wait_for_another() {
    let ((clicks_live, click_sender), (users_live, user_sender)) = (live(&clicks(0)), live(&users()));
    let seen: Arc<Mutex<Vec<RecordBatch>>> = Arc::default();
    let keep = seen.clone();
    let bill = bill(&clicks_live, &users_live).changes().unwrap();
    let job = subscribe(&bill, &local(), move |_, rows| {
        keep.lock().unwrap().push(rows);
        Ok(())
    });
    let job = job.unwrap();
    user_sender.push(users()).unwrap();
    wait_for(|| folded(&seen.lock().unwrap()).len() == 7);
    click_sender.push(clicks(3)).unwrap();
    wait_for(|| seen.lock().unwrap().len() > 1);
    job.cancel();
}

#[test]
fn at_the_end_rows_come_in_their_order() {
    let clicks = clicks(400);
    let ordered = |stream: &Stream| {
        let totals = vec![("total".to_string(), Agg::of(AggFunction::Sum, column("cost")))];
        let totals = stream.rekey(vec![column("ad")]).unwrap().aggregate(totals).unwrap();
        totals.sort(vec![column("total").sort(false, false)]).unwrap().limit(1, Some(4)).unwrap()
    };
    let expected = rows_in_order(&ordered(&relation(&clicks, 1, 1)), &library());
    for options in [library(), local()] {
        let (stream, sender) = live(&clicks);
        for start in (0..400).step_by(50) {
            sender.push(clicks.slice(start, 50)).unwrap();
        }
        sender.close();
        assert_eq!(rows_in_order(&ordered(&stream), &options), expected);
    }
    // The same first rows are maintained, in no order.
    let (stream, sender) = live(&clicks);
    for start in (0..400).step_by(50) {
        sender.push(clicks.slice(start, 50)).unwrap();
    }
    sender.close();
    let changes = collect(&ordered(&stream).changes().unwrap(), &library()).unwrap().wait().unwrap();
    let mut sorted = expected.clone();
    sorted.sort();
    assert_eq!(folded(&changes.batches), sorted);
}

#[test]
fn a_source_that_is_read_twice_is_read_once() {
    let clicks = clicks(100);
    let twice = |stream: &Stream| {
        let costs = stream.select(vec![column("ad"), column("cost")]).unwrap();
        let users = stream.select(vec![column("ad"), column("user")]).unwrap();
        costs.join(&users, vec![(column("ad"), column("ad"))], JoinKind::Inner, "_right").unwrap()
    };
    let expected = rows(&twice(&relation(&clicks, 1, 1)), &library());
    let (stream, sender) = live(&clicks);
    sender.push(clicks.slice(0, 60)).unwrap();
    sender.push(clicks.slice(60, 40)).unwrap();
    sender.close();
    assert_eq!(rows(&twice(&stream), &local()), expected);
}

#[test]
fn a_program_goes_on_from_its_checkpoint() {
    let (clicks, users) = (clicks(200), users());
    let (live_clicks, live_users) = (live(&clicks).0, live(&users).0);
    let changes = bill(&live_clicks, &live_users).changes().unwrap();
    let programs = Programs::new(&changes, &library()).unwrap();
    let mut program = programs.channel(0, 0).unwrap();
    let (mut made, mut again) = (Vec::new(), Vec::new());
    let mut restored: Option<Box<dyn ChannelProgram>> = None;
    for start in (0..200).step_by(10) {
        // The lanes are told apart by their columns.
        let wanted = program.candidate_lanes();
        let rows =
            if start % 20 == 0 && start < 60 { users.slice(start / 2, 10) } else { clicks.slice(start, 10) };
        let lane = if rows.num_columns() == 2 { 0 } else { 1 };
        if start == 70 {
            let mut fresh = programs.channel(0, 0).unwrap();
            fresh.restore(&program.save().unwrap().unwrap()).unwrap();
            restored = Some(fresh);
        }
        for (program, out) in
            [Some(&mut program), restored.as_mut()].into_iter().flatten().zip([&mut made, &mut again])
        {
            assert!(wanted.is_empty() || wanted.contains(&lane));
            program.push(lane, always(rows.clone())).unwrap();
            while program.step(out).unwrap() == Step::Ready {}
        }
    }
    let batches = |out: &[(usize, Message)]| -> Vec<Vec<String>> {
        out.iter()
            .filter_map(|(_, m)| if let Message::Batch(b) = m { Some(text(&b.rows)) } else { None })
            .collect()
    };
    let (made, again) = (batches(&made), batches(&again));
    assert!(!again.is_empty());
    assert_eq!(made[made.len() - again.len()..], again[..]);
}

#[test]
fn nodes_that_cannot_be_maintained_are_refused() {
    let (stream, _sender) = live(&clicks(0));
    let refused = |stream: &Stream, why: &str| {
        let error = stream.changes().expect_err(why);
        assert_eq!(ErrorKind::of(&error), ErrorKind::Invalid);
        assert!(error.to_string().contains(why), "{error}");
    };
    let sorted = stream.sort(vec![column("cost").sort(true, false)]).unwrap();
    refused(&sorted, "unbounded sort");
    refused(&stream.limit(0, Some(3)).unwrap(), "add order by");
    refused(&stream.changes().unwrap(), "there is a column \"change\"");
    assert!(sorted.limit(0, Some(3)).unwrap().changes().is_ok());
}
