//! Random plans: on all cores with the shortest queues they end, with the answer that they have on one
//! thread.

use crate::data::*;
use datafusion::prelude::lit;
use std::time::Duration;
use whimbrel_plan::nodes::Scope;
use whimbrel_plan::{JoinKind, Stream, column};
use whimbrel_sharded::Options;
use whimbrel_sharded::action::collect;

/// The last of some streams of `user` and `cost`, each of which is made of earlier ones.
fn plan(random: &mut Random, shards: usize, timed: bool) -> Stream {
    let clicks = clicks(150);
    let source = if timed { points(&clicks, shards, 1) } else { relation(&clicks, shards, 1) };
    let mut streams = vec![source.select(vec![column("user"), column("cost")]).unwrap()];
    for _ in 0..3 + random.below(8) {
        let any = |random: &mut Random| {
            // The last ones more often, so that plans get deep.
            let n = streams.len() as u64;
            streams[random.below(n).max(random.below(n)) as usize].clone()
        };
        let (a, b) = (any(random), any(random));
        streams.push(step(random, &a, &b, timed));
    }
    streams.pop().unwrap()
}

fn step(random: &mut Random, a: &Stream, b: &Stream, timed: bool) -> Stream {
    let unkeyed = |s: Stream| s.rekey(vec![]).unwrap().select(vec![column("user"), column("cost")]).unwrap();
    let keyed = |s: &Stream| s.rekey(vec![column("user")]).unwrap();
    unkeyed(match random.below(11) {
        0 => a.where_((column("cost") % lit(random.below(5) + 2)).not_eq(lit(0_i64))).unwrap(),
        1 | 2 => keyed(a).redistribute(None, Scope::Global).unwrap(),
        3 => a.reshard(None, Scope::Global).unwrap(),
        4 if timed => a.shift(random.below(40) - 20).unwrap(),
        5 if timed => a.alter_duration(Some((random.below(30) + 1).into())).unwrap(),
        6 => a.union(b).unwrap().distinct().unwrap(),
        7 => keyed(a).where_not_exists(&keyed(b), vec![]).unwrap(),
        8 => keyed(a).join(&keyed(b), vec![], JoinKind::Left, "_right").unwrap().distinct().unwrap(),
        9 => keyed(a).aggregate(count()).unwrap().with_columns(vec![column("n").alias("cost")]).unwrap(),
        _ => a.broadcast(None, Scope::Global).unwrap().distinct().unwrap(),
    })
}

fn ends(stream: &Stream, options: &Options) -> bool {
    let action = collect(stream, options).unwrap();
    action.job().wait_timeout(Duration::from_secs(30)).unwrap()
}

#[test]
fn random_plans_end_with_one_answer() {
    // `make fuzz` tries more.
    let times: u64 = std::env::var("WHIMBREL_FUZZ").map_or(1, |times| times.parse().unwrap());
    for seed in 1..=150 * times {
        let mut random = Random(seed * 7919);
        let shards = 1 + random.below(4) as usize;
        for timed in [false, true] {
            let stream = plan(&mut random, shards, timed);
            let (library, local) =
                (Options { batch_rows: 16, ..library() }, Options { batch_rows: 16, ..local() });
            assert!(ends(&stream, &local), "plan {seed} hangs:\n{}", stream.explain().unwrap());
            let single = Options { batch_rows: 1, ..library.clone() };
            let same = match timed {
                true => {
                    let expected = changes(&stream, &library);
                    // Batches of one row, too; but to which shard a reshard sends a row depends on its batch.
                    let dealt = stream.explain().unwrap().contains("reshard");
                    changes(&stream, &local) == expected && (dealt || changes(&stream, &single) == expected)
                }
                false => rows_in_order(&stream, &local) == rows_in_order(&stream, &library),
            };
            assert!(same, "plan {seed} has two answers:\n{}", stream.explain().unwrap());
        }
    }
}
