//! Which of my friends follow this user, by a bounded plan and by the one that costs least on average
//! (piql.txt §8.3, Figure 7), side by side on the same embedded store, for users with 10 to a million
//! followers.
//!
//! ```text
//! cargo run --release -p whimbrel-bounded --example bounded -- \
//!     intersection [--short] [--calls n] [--out results.json]
//! ```
//!
//! The bounded plan asks for 50 records, one for each friend. The other one reads all followers of the user
//! from an index that has all columns, one request, and keeps those that are friends; a compiler that goes by
//! averages takes it, for most users have few followers. Here it is the query without its friends, allowed to
//! be unbounded, and a look-up of each row in a set of the 50 names; both return the same rows, which is
//! checked. Calls of the two take turns.

use crate::results::{Arguments, ms};
use datafusion::arrow::array::AsArray;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use whimbrel_bounded::predict::Histogram;
use whimbrel_bounded::{Argument, Database, EmbeddedStore, Prepared};

const FRIENDS: usize = 50;
/// Rows that are inserted by one statement.
const BATCH: usize = 200;
/// A size is measured no longer than this.
const LONGEST: Duration = Duration::from_secs(20);

const SCHEMA: &str = "create table subscriptions (owner varchar(20), target varchar(20), approved boolean,
    primary key (owner, target), cardinality limit 5000 (owner))";
const BY_FOLLOWERS: &str = "create index by_target on subscriptions (target, approved, owner)";
const BOUNDED: &str =
    "select owner, target, approved from subscriptions where target = ? and owner in (? limit 50)";
const COST_BASED: &str =
    "select owner, target, approved from subscriptions where target = ? and approved in (true, false)
    allow unbounded 'the plan that is compared with'";

fn target(followers: usize) -> String {
    format!("star{followers:08}")
}

fn fan(at: usize) -> String {
    format!("fan{at:08}")
}

fn fill(db: &Database, followers: usize) {
    let insert = |rows: usize| {
        let values = vec!["(?, ?, true)"; rows].join(", ");
        db.prepare(&format!("insert into subscriptions values {values}")).expect("an insert")
    };
    let (whole, rest) = (insert(BATCH.min(followers)), insert((followers % BATCH).max(1)));
    let fans: Vec<usize> = (0..followers).collect();
    for fans in fans.chunks(BATCH) {
        let rows = fans.iter().flat_map(|at| [Argument::from(fan(*at)), Argument::from(target(followers))]);
        let insert = if fans.len() == BATCH.min(followers) { &whole } else { &rest };
        insert.call(&rows.collect::<Vec<_>>()).expect("rows");
    }
}

/// Measures, and returns the results.
pub fn measure(arguments: &Arguments) -> Value {
    let short = arguments.flag("--short");
    let calls = arguments.number("--calls", if short { 100 } else { 2000 });
    let sizes: &[usize] =
        if short { &[10, 100, 1_000, 10_000] } else { &[10, 100, 1_000, 10_000, 100_000, 1_000_000] };
    let file = std::env::temp_dir().join(format!("whimbrel-intersection-{}.redb", std::process::id()));
    let db =
        Database::open(EmbeddedStore::open(&file).expect("a file").without_waiting()).expect("a database");
    [SCHEMA, BY_FOLLOWERS].iter().for_each(|sql| drop(db.execute(sql, &[]).expect("a table")));
    sizes.iter().for_each(|followers| fill(&db, *followers));
    let [bounded, cost_based] = [BOUNDED, COST_BASED].map(|sql| db.prepare(sql).expect("a plan"));
    println!("{}\n\n{}\n", bounded.plan(), cost_based.plan());
    println!(
        "{:>10}{:>14}{:>14}{:>14}{:>14}{:>8}",
        "followers", "bounded p50", "p99 ms", "cost-based p50", "p99 ms", "calls"
    );
    let rows: Vec<_> = sizes
        .iter()
        .map(|followers| {
            let [bounded, cost_based] = side_by_side(&bounded, &cost_based, *followers, calls);
            let times = [&bounded, &cost_based].map(|all| {
                let all = all.distribution();
                [ms(all.quantile(0.5)), ms(all.quantile(0.99))]
            });
            println!(
                "{followers:>10}{:>14.3}{:>14.3}{:>14.3}{:>14.3}{:>8}",
                times[0][0], times[0][1], times[1][0], times[1][1], bounded.count()
            );
            json!({"followers": followers, "calls": bounded.count(), "bounded_ms": times[0], "cost_based_ms": times[1]})
        })
        .collect();
    std::fs::remove_file(&file).expect("the file was there");
    json!({"friends": FRIENDS, "quantiles": [0.5, 0.99], "sizes": rows})
}

fn side_by_side(bounded: &Prepared, cost_based: &Prepared, followers: usize, calls: usize) -> [Histogram; 2] {
    let began = Instant::now();
    let (mut by_bound, mut by_cost) = (Vec::new(), Vec::new());
    for at in 0..calls {
        // Half of the friends are followers, as far as there are so many.
        let friends: Vec<String> =
            (0..FRIENDS).map(|friend| fan((at * 7919 + friend * 104_729) % (2 * followers))).collect();
        let user = Argument::from(target(followers));
        let before = Instant::now();
        let page =
            bounded.call(&[user.clone(), Argument::list(friends.iter().map(String::as_str))]).expect("rows");
        by_bound.push(before.elapsed().as_nanos() as u64);
        let before = Instant::now();
        let all = cost_based.call(&[user]).expect("rows").batch;
        let names: HashSet<&str> = friends.iter().map(String::as_str).collect();
        let found =
            all.column(0).as_string::<i32>().iter().flatten().filter(|owner| names.contains(owner)).count();
        by_cost.push(before.elapsed().as_nanos() as u64);
        assert_eq!(found, page.batch.num_rows(), "the two plans disagree");
        if began.elapsed() > LONGEST && at >= 10 {
            break;
        }
    }
    [by_bound, by_cost].map(Histogram::of)
}
