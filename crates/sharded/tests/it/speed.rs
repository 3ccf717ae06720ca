use crate::data::*;
use std::time::Instant;
use whimbrel_plan::nodes::{Scope, TimeSpec};
use whimbrel_plan::*;
use whimbrel_sharded::*;
use whimbrel_temporal::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
#[ignore]
fn speed() {
    let n: i64 = 20_000_000;
    for keys in [10u64, 10_000, 1_000_000] {
        let mut random = Random(7);
        let rows = table(vec![ints("time", (0..n).map(|i| i / 10)), ints("k", (0..n).map(|_| random.below(keys))), ints("v", 0..n), ints("unused", 0..n)]);
        for (name, shards, plan, options) in [
            ("library 1", 1, 'x', library()), ("local 1", 1, 'x', Options::default()),
            ("local 2 a", 2, 'a', Options::default()), ("local 2 b", 2, 'b', Options::default()),
            ("library 2 a", 2, 'a', library()),
        ] {
            let options = Options { batch_rows: 80_000, ..options };
            for hop in [1000, 100] {
                let s = Stream::scan("t", dataset(&rows, shards, 1)).unwrap().ingress(TimeSpec::point("time"), IngressOptions::default()).unwrap();
                let s = s.hopping(1000, hop, 0, Closed::Left).unwrap().rekey(vec![column("k")]).unwrap();
                let aggs = || vec![("n".to_string(), Agg::count()), ("v".to_string(), Agg::of(AggFunction::Sum, column("v")))];
                let sums = || vec![("n".to_string(), Agg::of(AggFunction::Sum, column("n"))), ("v".to_string(), Agg::of(AggFunction::Sum, column("v")))];
                let s = match plan {
                    'x' => s.aggregate(aggs()).unwrap(),
                    'a' => s.redistribute(None, Scope::Global).unwrap().aggregate(aggs()).unwrap(),
                    _ => s.aggregate(aggs()).unwrap().redistribute(None, Scope::Global).unwrap().aggregate(sums()).unwrap(),
                };
                let out = Arc::new(AtomicU64::new(0));
                let o = out.clone();
                let start = Instant::now();
                run(&s, &Options { output: Output::Events, ..options.clone() }, Box::new(move |_, m| { if let Message::Batch(b) = m { o.fetch_add(b.len() as u64, Ordering::Relaxed); } Ok(()) })).unwrap().wait().unwrap();
                let t = start.elapsed().as_secs_f64();
                println!("{keys} keys hop {hop} {name}: {t:.2} s, {:.1} M/s, {} rows out", n as f64 / t / 1e6, out.load(Ordering::Relaxed));
            }
        }
    }
}
