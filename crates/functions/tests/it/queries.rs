//! The answers of functions are those of one process, whatever happens to functions, and nothing is left.

use crate::support::{TestFunctions, expected, plan, rows};
use datafusion::error::DataFusionError;
use std::sync::Arc;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};
use whimbrel_functions::{Attempt, AttemptKind, AttemptOutcome, Finished, FunctionsSettings};
use whimbrel_plan::nodes::Scope;
use whimbrel_plan::{Series, Source, Stream, column};
use whimbrel_sharded::Options;
use whimbrel_sharded::action::collect;

const QUERIES: &[&str] = &[
    "select 6 * 7 as answer",
    "select n, n * n as square from range(1000) t(n) where n % 7 = 3",
    "select n % 10 as k, count(*) as c, sum(n) as s from range(100000) t(n) group by k",
    "select a.n, b.n as m from range(5000) a(n) join range(3, 9000, 3) b(n) on a.n = b.n",
    "select count(*) from range(3000) a(n) left join range(0, 9000, 2) b(n) on a.n = b.n where b.n is null",
    "select k, max(s) from (select n % 100 as k, n % 1000 as j, sum(n) as s from range(50000) t(n) group by 1, 2) \
     group by k order by k limit 7",
    "select n, row_number() over (partition by n % 3 order by n desc) as r from range(300) t(n)",
    "select n from range(10) t(n) union all select n + 100 from range(10) t(n)",
    "select x.n from range(10) x(n) where exists (select 1 from range(5) y(n) where y.n = x.n)",
    "select * from range(0) t(n)",
];

/// A query of some seconds: a join of two aggregates over shards.
const LONG: &str = "select a.k, count(*) as c, sum(b.s) as s, min(b.low) as low \
     from (select n % 5003 as k, sum(length(md5(md5(n::varchar)))) as c from range(1500000) t(n) group by 1) a \
     join (select n % 5003 as k, sum(n) as s, min(md5(md5(n::varchar))) as low from range(1500000) t(n) group by 1) b \
     on a.k = b.k group by a.k";

fn check(functions: &TestFunctions, sql: &str, shards: usize) -> Finished {
    assert_eq!(rows(&plan(sql, shards), &functions.options()), expected(sql), "{sql}, {shards} shards");
    functions.functions.last_bill().unwrap().finished
}

#[test]
fn answers_are_those_of_one_process_and_nothing_is_left() {
    for (concurrency, shards) in [(1, 1), (2, 3), (4, 8)] {
        let functions = TestFunctions::new(concurrency, |_| {});
        for sql in QUERIES {
            let finished = check(&functions, sql, shards);
            assert!(finished.usage.invocations > 0 && !finished.ran_here);
        }
        assert_eq!(functions.objects(), Vec::<String>::new());
    }
}

/// Nothing is inline, so all goes through objects; nothing begins early, so no index is read.
fn through_objects(settings: &mut FunctionsSettings) {
    settings.job.inline_bytes = 0;
    settings.job.schedule.pipelined = false;
    settings.stragglers = whimbrel_functions::Stragglers::ignored();
    settings.job.schedule.duplicate_after = f64::INFINITY;
}

#[test]
fn requests_are_those_of_the_formula() {
    let functions = TestFunctions::new(3, through_objects);
    for sql in QUERIES {
        let finished = check(&functions, sql, 4);
        let (usage, formula) = (finished.usage, finished.formula);
        assert_eq!((usage.gets, usage.puts), (formula.gets, formula.puts), "{sql}");
    }
}

/// A specification that is too long to be sent with each invocation is an object, which each process reads
/// once.
#[test]
fn requests_for_the_specification_are_in_the_formula() {
    let functions = TestFunctions::new(3, through_objects);
    let text = "long".repeat(50_000);
    let sql = format!(
        "select n % 10 as k, count(*) as c from range(5000) t(n) where '{text}' <> n::varchar group by k"
    );
    let finished = check(&functions, &sql, 4);
    let (usage, formula) = (finished.usage, finished.formula);
    assert_eq!((usage.gets, usage.puts), (formula.gets, formula.puts));
    assert_eq!(functions.objects(), Vec::<String>::new());
}

#[test]
fn combined_shuffles_have_the_same_rows_and_fewer_reads() {
    let numbers = |shards: usize| -> datafusion::common::Result<Stream> {
        let numbers =
            Series::new("n", 0, 200_000, 1, true)?.with_shards(shards).expect("numbers are divided");
        let numbers = Stream::scan("numbers", numbers)?.rekey(vec![column("n")])?;
        numbers.redistribute(Some(shards), Scope::Global)?.distinct()
    };
    let functions = |combine: bool| {
        TestFunctions::new(4, |settings| {
            through_objects(settings);
            settings.combine = Some(combine);
        })
    };
    let (direct, combined) = (functions(false), functions(true));
    for shards in [2, 3, 24] {
        let stream = numbers(shards).unwrap();
        let expected = rows(&stream, &Options::default());
        let run = |functions: &TestFunctions| {
            assert_eq!(rows(&stream, &functions.options()), expected);
            let Finished { usage, formula, .. } = functions.functions.last_bill().unwrap().finished;
            assert_eq!((usage.gets, usage.puts), (formula.gets, formula.puts));
            usage.gets
        };
        let (direct, combined) = (run(&direct), run(&combined));
        if shards == 24 {
            assert_eq!(
                direct,
                24 * 24 + 24,
                "each consumer reads from each producer, and the client the result"
            );
            assert!(combined * 2 < direct, "{combined}, {direct}");
        }
    }
}

#[test]
fn what_all_read_is_combined_too() {
    let sql = "select count(*) as c, sum(b.m) as s from range(60000) a(n) join (select n, n * 2 as m from \
               range(0, 60000, 3) t(n)) b on a.n = b.n";
    let functions = TestFunctions::new(4, |settings| {
        through_objects(settings);
        settings.combine = Some(true);
    });
    let finished = check(&functions, sql, 12);
    let is_combine = |attempt: &Attempt| attempt.kind == AttemptKind::Combine;
    assert!(finished.attempts.iter().any(is_combine), "{finished:?}");
    assert_eq!((finished.usage.gets, finished.usage.puts), (finished.formula.gets, finished.formula.puts));
    assert!(finished.usage.gets < 12 * 12, "{:?}", finished.usage);
}

#[test]
fn small_queries_run_where_they_are_asked() {
    let functions = TestFunctions::new(2, |settings| settings.small = 1 << 20);
    let finished = check(&functions, "select sum(n) as s from range(1000) t(n)", 2);
    assert!(finished.ran_here && finished.usage.invocations == 0);
    let finished = check(&functions, "select sum(n) as s from range(1000000) t(n)", 2);
    assert!(!finished.ran_here && finished.usage.invocations > 0);
}

#[test]
fn errors_of_users_look_as_they_do_here_and_are_not_tried_again() {
    let functions = TestFunctions::new(2, |_| {});
    let sql =
        "select sum(cast(case when n = 77777 then 'x' else '1' end as bigint)) as s from range(100000) t(n)";
    let stream = plan(sql, 3);
    let run = |options: &Options| match collect(&stream, options).and_then(|action| action.wait()) {
        Err(error) => error.find_root().message().into_owned(),
        Ok(_) => panic!("a text is no number"),
    };
    let here = run(&Options::default());
    assert_eq!(run(&functions.options()), here);
    let finished = functions.functions.last_bill().unwrap().finished;
    assert_eq!(finished.failures, 0);
    assert_eq!(functions.objects(), Vec::<String>::new());
}

#[test]
fn functions_that_die_are_invoked_again() {
    let functions = TestFunctions::new(3, |_| {});
    let expected = expected(LONG);
    // A kill may find a function between two invocations.
    let was_lost = (0..5).any(|_| {
        let (options, stream) = (functions.options(), plan(LONG, 6));
        let running = spawn(move || rows(&stream, &options));
        for _ in 0..3 {
            sleep(Duration::from_millis(150));
            if let Some(process) = functions.service.processes().first() {
                // It may have ended by itself.
                let _ = std::process::Command::new("kill").args(["-9", &process.to_string()]).status();
            }
        }
        assert_eq!(running.join().unwrap(), expected);
        let finished = functions.functions.last_bill().unwrap().finished;
        let is_lost = |attempt: &Attempt| attempt.outcome == AttemptOutcome::Lost;
        assert_eq!(finished.failures > 0, finished.attempts.iter().any(is_lost));
        finished.failures > 0
    });
    assert!(was_lost, "none was killed while it ran");
    assert_eq!(functions.objects(), Vec::<String>::new());
}

#[test]
fn a_function_that_cannot_live_ends_the_query_with_the_reason() {
    let functions = TestFunctions::new(2, |settings| settings.timeout = Duration::from_secs(30));
    let stream = plan("select max(n) as m from range(100000) t(n)", 2);
    // All processes are gone before they answer.
    let service = &functions.service;
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                for process in service.processes() {
                    let _ = std::process::Command::new("kill").args(["-9", &process.to_string()]).status();
                }
                sleep(Duration::from_millis(1));
            }
        });
        let result = collect(&stream, &functions.options()).and_then(|action| action.wait());
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        result.err()
    });
    // A killer that is too slow leaves an answer.
    if let Some(error) = error {
        let text = error.to_string();
        assert!(text.contains("was lost 4 times") && text.contains("ExitError"), "{text}");
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error:?}");
    }
    assert_eq!(functions.objects(), Vec::<String>::new());
}

#[test]
fn a_query_that_is_cancelled_leaves_nothing() {
    let functions = TestFunctions::new(2, |settings| settings.job.inline_bytes = 0);
    let action = collect(&plan(LONG, 4), &functions.options()).unwrap();
    sleep(Duration::from_millis(700));
    action.job().cancel();
    action.job().wait().unwrap();
    let began = Instant::now();
    while !functions.objects().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(120), "{:?}", functions.objects());
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn kept_outputs_are_read_by_the_next_query() {
    let functions = TestFunctions::new(2, |settings| settings.job.keep = Some(Duration::from_secs(3600)));
    let sql = "select n % 100 as k, sum(n) as s from range(300000) t(n) group by k";
    let first = check(&functions, sql, 3);
    assert_eq!(first.kept, 0);
    let second = check(&functions, sql, 3);
    assert!(second.usage.invocations == 0 && second.kept > 0, "{second:?}");
    // Another query over the same stage of the same source.
    let third = check(&functions, &format!("select k, s from ({sql}) where s > 14900000"), 3);
    assert!(third.usage.invocations < first.usage.invocations || third.kept > 0, "{third:?}");
    // Another source.
    let other = check(&functions, "select n % 100 as k, sum(n) as s from range(300001) t(n) group by k", 3);
    assert_eq!(other.kept, 0);
    // Removed after a time; nothing counts on it then.
    assert!(functions.functions.sweep(Duration::ZERO).unwrap().0 > 0);
    assert_eq!(functions.objects(), Vec::<String>::new());
    assert_eq!(check(&functions, sql, 3).kept, 0);
}

#[test]
fn kept_outputs_that_were_removed_are_computed_again() {
    let functions = TestFunctions::new(2, |settings| settings.job.keep = Some(Duration::from_secs(3600)));
    let sql = "select n % 100 as k, sum(n) as s from range(300000) t(n) group by k";
    check(&functions, sql, 3);
    for object in functions.objects().iter().filter(|object| object.ends_with("/0")) {
        std::fs::remove_file(object).unwrap();
    }
    let second = check(&functions, sql, 3);
    assert!(second.usage.invocations > 0, "{second:?}");
    assert_eq!(second.failures, 0, "what is not there must not be counted on: {second:?}");
    let third = check(&functions, sql, 3);
    assert!(third.usage.invocations == 0 && third.kept > 0, "{third:?}");
}

#[test]
fn what_has_another_value_each_time_is_not_kept() {
    let functions = TestFunctions::new(2, |settings| settings.job.keep = Some(Duration::from_secs(3600)));
    let stream = plan("select n, random() as r from range(1000) t(n)", 2);
    let first = rows(&stream, &functions.options());
    assert_ne!(rows(&stream, &functions.options()), first);
    assert_eq!(functions.functions.last_bill().unwrap().finished.kept, 0);
}

#[test]
fn two_queries_at_once_share_functions_and_have_bills_of_their_own() {
    let functions = TestFunctions::new(2, through_objects);
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let one = Arc::new(functions.functions.for_query());
            let options = Options { remote: Some(Arc::clone(&one) as _), ..Default::default() };
            spawn(move || {
                let sql = format!("select sum(n) as s, {number} as q from range(200000) t(n)");
                assert_eq!(rows(&plan(&sql, 2), &options), expected(&sql));
                one.bill().unwrap().finished
            })
        })
        .collect();
    for thread in threads {
        let Finished { usage, formula, .. } = thread.join().unwrap();
        assert!(usage.invocations > 0);
        assert_eq!((usage.gets, usage.puts), (formula.gets, formula.puts));
    }
}

#[test]
fn what_is_expected_is_of_every_stage() {
    let functions = TestFunctions::new(4, |_| {});
    let stream = plan("select n % 10 as k, count(*) as c from range(1000000) t(n) group by k", 4);
    let forecast = functions.functions.explain(&stream, &Default::default()).unwrap();
    assert!(forecast.stages.len() > 1 && forecast.seconds > 0.0 && forecast.dollars > 0.0, "{forecast:?}");
    assert_eq!(
        forecast.usage.invocations as usize,
        forecast.stages.iter().map(|stage| stage.tasks).sum::<usize>()
    );
}
