//! Two pools behind one interface: the base pool is used first, and done without when it is full or gone.

use crate::support::{TestFunctions, expected, options, plan, rows};
use std::sync::Arc;
use std::time::Duration;
use whimbrel_functions::{Attempt, AttemptOutcome, Bill, FunctionsSettings, PoolBill, PoolKind, PriceSheet};

const QUERY: &str =
    "select n % 97 as k, count(*) as c, min(md5(n::varchar)) as low from range(400000) t(n) group by k";

/// Two services over one folder, which have so many places each.
struct TwoPools {
    base: TestFunctions,
    elastic: TestFunctions,
}

impl TwoPools {
    fn new(base_places: usize, elastic_places: usize) -> TwoPools {
        let elastic = TestFunctions::new(elastic_places, |_| {});
        let bucket = elastic.functions.settings().bucket.clone();
        let in_bucket = |settings: &mut FunctionsSettings| {
            settings.bucket = bucket;
            settings.prices = PriceSheet::named("own-machines").unwrap();
        };
        TwoPools { base: TestFunctions::new(base_places, in_bucket), elastic }
    }

    /// The bill of the query, whose answer is right.
    fn run(&self, wait: Option<Duration>, shards: usize) -> Bill {
        let both = Arc::new(self.elastic.functions.with_base(&self.base.functions, wait).unwrap());
        assert_eq!(rows(&plan(QUERY, shards), &options(&both)), expected(QUERY));
        assert_eq!(self.elastic.objects(), Vec::<String>::new());
        both.last_bill().unwrap()
    }
}

/// How many attempts ended so in a pool.
fn count(bill: &Bill, pool: PoolKind, outcome: AttemptOutcome) -> usize {
    let is_one = |attempt: &&Attempt| (attempt.pool, attempt.outcome) == (pool, outcome);
    bill.finished.attempts.iter().filter(is_one).count()
}

#[test]
fn what_the_base_pool_has_no_place_for_runs_elsewhere() {
    let bill = TwoPools::new(1, 3).run(Some(Duration::ZERO), 6);
    assert!(count(&bill, PoolKind::Base, AttemptOutcome::Ended) > 0, "{bill:?}");
    assert!(count(&bill, PoolKind::Elastic, AttemptOutcome::Ended) > 0, "{bill:?}");
    let [base, elastic] = <[PoolBill; 2]>::try_from(bill.pools()).unwrap();
    let usage = bill.finished.usage;
    assert_eq!(base.usage.invocations + elastic.usage.invocations, usage.invocations);
    assert!((base.usage.gb_seconds + elastic.usage.gb_seconds - usage.gb_seconds).abs() < 1e-9);
    assert!(base.dollars == 0.0 && elastic.dollars > 0.0 && base.alone < elastic.alone, "{bill:?}");
}

#[test]
fn work_that_may_wait_stays_in_the_base_pool() {
    let pools = TwoPools::new(2, 2);
    for wait in [None, Some(Duration::from_secs(3600))] {
        let bill = pools.run(wait, 6);
        assert_eq!(count(&bill, PoolKind::Elastic, AttemptOutcome::Ended), 0, "{bill:?}");
        assert_eq!(bill.pools()[1].usage.invocations, 0);
    }
}

#[test]
fn a_base_pool_that_others_use_refuses_and_is_not_waited_for() {
    let mut pools = TwoPools::new(1, 3);
    // It takes one invocation, and is said to take four.
    let mut settings = pools.base.functions.settings().clone();
    settings.job.schedule.concurrency = 4;
    let references = Arc::new(whimbrel_session::PlanReferences);
    pools.base.functions = Arc::new(whimbrel_functions::Functions::connect(settings, references).unwrap());
    let bill = pools.run(Some(Duration::ZERO), 6);
    assert!(count(&bill, PoolKind::Base, AttemptOutcome::Throttled) > 0, "{bill:?}");
    assert!(count(&bill, PoolKind::Elastic, AttemptOutcome::Ended) > 0, "{bill:?}");
    assert_eq!(bill.finished.failures, 0);
}

#[test]
fn queries_do_without_a_base_pool_that_is_gone() {
    let mut pools = TwoPools::new(2, 2);
    let mut settings = pools.base.functions.settings().clone();
    settings.function.endpoints = vec!["http://127.0.0.1:9".to_string()];
    let references = Arc::new(whimbrel_session::PlanReferences);
    pools.base.functions = Arc::new(whimbrel_functions::Functions::connect(settings, references).unwrap());
    let bill = pools.run(Some(Duration::ZERO), 6);
    assert!(count(&bill, PoolKind::Base, AttemptOutcome::Lost) > 0, "{bill:?}");
    assert_eq!(count(&bill, PoolKind::Base, AttemptOutcome::Ended), 0);
}

#[test]
fn functions_of_the_base_pool_that_die_are_invoked_again() {
    let pools = TwoPools::new(2, 2);
    let was_lost = (0..5).any(|_| {
        let bill = std::thread::scope(|scope| {
            let running = scope.spawn(|| pools.run(Some(Duration::ZERO), 6));
            for _ in 0..2 {
                std::thread::sleep(Duration::from_millis(100));
                for process in pools.base.service.processes() {
                    // It may have ended by itself.
                    let _ = std::process::Command::new("kill").args(["-9", &process.to_string()]).status();
                }
            }
            running.join().unwrap()
        });
        count(&bill, PoolKind::Base, AttemptOutcome::Lost) > 0
    });
    assert!(was_lost, "none was killed while it ran");
}

#[test]
fn what_is_expected_is_of_each_pool_and_of_both() {
    let pools = TwoPools::new(2, 6);
    let both = pools.elastic.functions.with_base(&pools.base.functions, Some(Duration::ZERO)).unwrap();
    let stream = plan("select n % 97 as k, sum(n) as s from range(40000000) t(n) group by k", 8);
    let forecast = both.explain(&stream, &Default::default()).unwrap();
    let [base, elastic] = <[_; 2]>::try_from(forecast.alone).unwrap();
    assert_eq!((base.0, elastic.0), (PoolKind::Base, PoolKind::Elastic));
    assert!(forecast.seconds < base.1, "the base pool alone takes longer");
    assert!(
        base.2 < forecast.dollars && forecast.dollars < elastic.2,
        "and both cost less than the other alone"
    );
    // Whoever waits pays nothing.
    let patient = pools.elastic.functions.with_base(&pools.base.functions, None).unwrap();
    let forecast = patient.explain(&stream, &Default::default()).unwrap();
    assert_eq!((forecast.seconds, forecast.dollars), (base.1, base.2));
}

#[test]
fn pools_that_do_not_fit_are_refused() {
    let (one, other) = (TestFunctions::new(1, |_| {}), TestFunctions::new(1, |_| {}));
    let error = one.functions.with_base(&other.functions, None).err().unwrap().to_string();
    assert!(
        error.contains("share a bucket") && error.contains(&other.functions.settings().bucket.url),
        "{error}"
    );
    let pools = TwoPools::new(1, 1);
    let both = pools.elastic.functions.with_base(&pools.base.functions, None).unwrap();
    let refused =
        [pools.elastic.functions.with_base(&both, None), both.with_base(&pools.base.functions, None)];
    for error in refused.map(|refused| refused.err().unwrap().to_string()) {
        assert!(error.contains("several already"), "{error}");
    }
}
