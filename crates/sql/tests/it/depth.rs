//! Statements that are long, or deep: they are planned and run on a thread of two megabytes, or refused.

use crate::support::*;

fn chain(count: usize, term: impl Fn(usize) -> String, glue: &str) -> String {
    (0..count).map(term).collect::<Vec<_>>().join(glue)
}

#[test]
fn long_conditions_are_run() {
    let mut session = with("create table t(a int); insert into t values (1), (2), (3)");
    let all = chain(8_000, |i| format!("a <> {}", i + 10), " and ");
    check(&mut session, &format!("select count(*) from t where {all}"), &["3"]);
    let any = chain(8_000, |i| format!("a + {i} = {}", i + 1), " or ");
    check(&mut session, &format!("select count(*) from t where {any}"), &["1"]);
    let mixed = chain(2_000, |i| format!("(a <> {i} or a = 2)"), " and ");
    check(&mut session, &format!("select a from t where {mixed}"), &["2"]);
}

#[test]
fn deep_statements_are_refused() {
    let mut session = with("create table t(a int)");
    let sum = |terms| format!("select {} from t", chain(terms, |_| "a".to_string(), " + "));
    assert!(session.plan(&sum(300)).is_ok());
    for terms in [1_002, 20_000, 300_000] {
        assert!(wrong(&mut session, &sum(terms)).contains("more than 1000 operators"), "{terms}");
    }
    let casts = format!("select a{} from t", "::bigint".repeat(50_000));
    assert!(wrong(&mut session, &casts).contains("more than 1000 operators"));
    let terms = format!("select 1 from t where {}", chain(200_000, |_| "a = 1".to_string(), " and "));
    assert!(wrong(&mut session, &terms).contains("more than 10000 terms"));
    let union = chain(20_000, |i| format!("select {i}"), " union all ");
    assert!(wrong(&mut session, &union).contains("set operations"));
    let brackets = format!("select {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    assert!(wrong(&mut session, &brackets).contains("nested too deeply"));
}

#[test]
fn long_lists_are_planned() {
    let mut session = with("create table t(a int); insert into t values (1), (2), (3)");
    let listed = chain(50_000, |i| i.to_string(), ", ");
    check(&mut session, &format!("select count(*) from t where a in ({listed})"), &["3"]);
    let rows = chain(10_000, |i| format!("({i}, 'x{i}')"), ", ");
    check(&mut session, &format!("select count(*), max(a) from (values {rows}) v(a, b)"), &["10000 9999"]);
    check(&mut session, "select * from range(1000000000000) limit 2", &["0", "1"]);
}

#[test]
fn planning_can_be_interrupted() {
    let mut session = with("create table t(a int)");
    let any = chain(9_000, |i| format!("a + {i} = {}", i % 7), " or ");
    let sql = format!("select count(*) from t where {any}");
    let stopped = whimbrel_plan::interruptible(|| true, || session.plan(&sql));
    assert!(stopped.is_err());
    assert!(session.plan("select 1").is_ok());
}
