//! The plans of quill.txt Fig. 1 and Fig. 4: each gives the same answer, at every number of shards, on both
//! runtimes, over tables and over streams.

use crate::data::*;
use whimbrel_plan::nodes::{Movement, Scope};
use whimbrel_plan::{Duration, JoinKind, Stream, column};
use whimbrel_sharded::Options;
use whimbrel_sharded::stage::{Origin, cut};
use whimbrel_temporal::Closed;

/// (shards, machines)
const LAYOUTS: [(usize, usize); 6] = [(1, 1), (2, 1), (3, 1), (8, 1), (2, 2), (8, 2)];

fn by_ad(stream: &Stream) -> Stream {
    stream.rekey(vec![column("ad")]).unwrap()
}

/// Fig. 1, over a stream or table that is keyed by ad.
fn grouped(keyed: &Stream, plan: char) -> Stream {
    let global = |s: Stream| s.redistribute(None, Scope::Global).unwrap();
    let local = |s: Stream| s.redistribute(None, Scope::Local).unwrap();
    let counted = |s: Stream| s.aggregate(count()).unwrap();
    let summed = |s: Stream| s.aggregate(sum()).unwrap();
    let keyed = keyed.clone();
    match plan {
        'a' => counted(global(keyed)),
        'b' => summed(global(counted(keyed))),
        'c' => summed(global(summed(local(counted(keyed))))),
        _ => summed(global(counted(local(keyed)))),
    }
}

#[test]
fn figure_1_over_tables() {
    let clicks = clicks(2000);
    let expected = rows(&by_ad(&relation(&clicks, 1, 1)).aggregate(count()).unwrap(), &library());
    assert_eq!(expected.len(), 12);
    for (shards, machines) in LAYOUTS {
        for plan in ['a', 'b', 'c', 'd'] {
            let query = grouped(&by_ad(&relation(&clicks, shards, machines)), plan);
            for options in [library(), local(), Options::default()] {
                assert_eq!(
                    rows(&query, &options),
                    expected,
                    "plan {plan}, {shards} shards, {machines} machines"
                );
            }
        }
    }
}

#[test]
fn figure_1_over_windows() {
    let clicks = clicks(2000);
    let windows = |shards, machines| {
        by_ad(&points(&clicks, shards, machines).hopping(50, 10, 0, Closed::Left).unwrap())
    };
    let expected = changes(&windows(1, 1).aggregate(count()).unwrap(), &library());
    assert!(expected.len() > 20);
    for (shards, machines) in LAYOUTS {
        for plan in ['a', 'b', 'c', 'd'] {
            let query = grouped(&windows(shards, machines), plan);
            for options in [library(), local(), Options::default()] {
                let found = changes(&query, &options);
                assert_eq!(found, expected, "plan {plan}, {shards} shards, {machines} machines");
            }
        }
    }
}

/// A row for each ad, alive from the beginning on or while the ad runs.
fn ads() -> datafusion::arrow::array::RecordBatch {
    let ads: Vec<i64> = (0..10).chain(0..3).collect();
    let names: Vec<String> = ads.iter().map(|a| format!("ad{a}")).collect();
    table(vec![
        texts("ad", names),
        ints("bid", ads.iter().enumerate().map(|(i, a)| a * 100 + i as i64)),
        ints("from", (0..13).map(|i| i * 40)),
        ints("to", (0..13).map(|i| i * 40 + 700)),
    ])
}

/// Fig. 4, over two streams or tables.
fn joined(clicks: &Stream, ads: &Stream, plan: char, shards: usize, machines: usize) -> Stream {
    let all = Some(shards);
    let (clicks, ads) = (by_ad(clicks), by_ad(ads));
    match plan {
        'a' => {
            let clicks = clicks.redistribute(all, Scope::Global).unwrap();
            let ads = ads.redistribute(all, Scope::Global).unwrap();
            clicks.join(&ads, vec![], JoinKind::Inner, "_right").unwrap()
        }
        'b' => {
            let ads = ads.broadcast(all, Scope::Global).unwrap();
            clicks.join(&ads, vec![], JoinKind::Inner, "_right").unwrap()
        }
        _ => {
            let clicks = clicks.redistribute(None, Scope::Local).unwrap();
            let ads = ads.broadcast(Some(machines), Scope::Global).unwrap();
            let ads = ads.redistribute(all, Scope::Local).unwrap();
            clicks.join(&ads, vec![], JoinKind::Inner, "_right").unwrap()
        }
    }
}

#[test]
fn figure_4_over_tables() {
    let (clicks, ads) = (clicks(700), ads());
    let plain = by_ad(&relation(&clicks, 1, 1));
    let expected = rows(
        &plain.join(&by_ad(&relation(&ads, 1, 1)), vec![], JoinKind::Inner, "_right").unwrap(),
        &library(),
    );
    assert!(expected.len() > 500);
    for (shards, machines) in LAYOUTS {
        for plan in ['a', 'b', 'c'] {
            let query = joined(
                &relation(&clicks, shards, machines),
                &relation(&ads, machines, machines),
                plan,
                shards,
                machines,
            );
            for options in [library(), local(), Options::default()] {
                assert_eq!(
                    rows(&query, &options),
                    expected,
                    "plan {plan}, {shards} shards, {machines} machines"
                );
            }
        }
    }
}

#[test]
fn figure_4_over_streams() {
    let (clicks, ads) = (clicks(700), ads());
    let windows = |shards, machines| {
        points(&clicks, shards, machines).alter_duration(Some(Duration::Ticks(30))).unwrap()
    };
    let running = |machines| {
        let time = whimbrel_plan::TimeSpec::interval("from", "to");
        relation(&ads, machines, machines).ingress(time, Default::default()).unwrap()
    };
    let plain = by_ad(&windows(1, 1));
    let query = plain.join(&by_ad(&running(1)), vec![], JoinKind::Inner, "_right").unwrap();
    let expected = changes(&query, &library());
    assert!(expected.len() > 200);
    for (shards, machines) in LAYOUTS {
        for plan in ['a', 'b', 'c'] {
            let query = joined(&windows(shards, machines), &running(machines), plan, shards, machines);
            for options in [library(), local(), Options::default()] {
                let found = changes(&query, &options);
                assert_eq!(found, expected, "plan {plan}, {shards} shards, {machines} machines");
            }
        }
    }
}

/// quill.txt §3.7: clicks are counted by ad, without users that have many clicks at the time.
fn without_bots(clicks: &Stream) -> Stream {
    let by_user = clicks.rekey(vec![column("user")]).unwrap().redistribute(None, Scope::Global).unwrap();
    let recent = by_user.sliding(60, Closed::Right).unwrap().aggregate(count()).unwrap();
    let bots = recent.where_(column("n").gt(datafusion::prelude::lit(2_i64))).unwrap();
    let people = by_user.where_not_exists(&bots, vec![]).unwrap();
    let by_ad = by_ad(&people).redistribute(None, Scope::Global).unwrap();
    by_ad.hopping(100, 20, 0, Closed::Left).unwrap().aggregate(count()).unwrap()
}

#[test]
fn section_3_7_in_one_plan() {
    let clicks = clicks(1500);
    let expected = changes(&without_bots(&points(&clicks, 1, 1)), &library());
    let all = points(&clicks, 1, 1).rekey(vec![column("ad")]).unwrap();
    let all = all.hopping(100, 20, 0, Closed::Left).unwrap();
    assert_ne!(expected, changes(&all.aggregate(count()).unwrap(), &library()));
    for shards in [2, 3, 8] {
        let query = without_bots(&points(&clicks, shards, 1));
        for options in [library(), local(), Options::default()] {
            assert_eq!(changes(&query, &options), expected, "{shards} shards");
        }
    }
}

#[test]
fn shared_streams_are_computed_once() {
    let plan = without_bots(&points(&clicks(10), 2, 1));
    let stages = cut(plan.plan()).unwrap();
    // The source, the two halves of `query` in one stage, and the counts.
    assert_eq!(stages.stages.len(), 3);
    let middle = &stages.stages[1];
    assert_eq!(middle.inputs.len(), 1);
    let Origin::Edge { exchange: Some(exchange), .. } = &middle.inputs[0].origin else {
        panic!("an exchange")
    };
    assert!(matches!(*exchange.movement, Movement::ReDistribute { .. }));
}
