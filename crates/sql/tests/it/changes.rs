//! Tables in memory and what changes them.

use crate::support::*;

#[test]
fn tables_are_made_and_filled() {
    let mut session = session();
    execute(&mut session, "create table t(a int, b varchar, c decimal(5, 2))");
    check(&mut session, "select * from t", &[]);
    assert_eq!(execute(&mut session, "insert into t values (1, 'x', 1.5), (2, null, 2)"), "2 rows");
    execute(&mut session, "insert into t (b, a) select 'y', 3");
    check(&mut session, "select * from t order by a", &["1 x 1.50", "2 null 2.00", "3 y null"]);
}

#[test]
fn rows_are_deleted_and_updated() {
    let mut session =
        with("create table t as select * from (values (1, 'x'), (2, null), (null, 'z')) as t(a, b)");
    assert_eq!(execute(&mut session, "delete from t where a > 1"), "1 row");
    check(&mut session, "select a, b from t order by b", &["1 x", "null z"]);
    assert_eq!(execute(&mut session, "update t set b = b || '!', a = 7 where a is null"), "1 row");
    check(&mut session, "select a, b from t order by b", &["1 x", "7 z!"]);
    assert_eq!(execute(&mut session, "update t set a = a + 1"), "2 rows");
    assert!(wrong(&mut session, "update t set a = 1, a = 2").contains("twice"));
    check(&mut session, "select a from t order by a", &["2", "8"]);
    execute(&mut session, "truncate table t");
    check(&mut session, "select count(*) from t", &["0"]);
}

#[test]
fn a_table_may_be_made_once() {
    let mut session = with("create table t(a int)");
    assert!(wrong(&mut session, "create table t(b int)").contains("already"));
    execute(&mut session, "create table if not exists t(b int)");
    execute(&mut session, "create or replace table t as select 1 as b");
    check(&mut session, "select b from t", &["1"]);
}

#[test]
fn what_was_never_null_may_become_so() {
    let mut session = with("create table t as select 1 as a; insert into t values (null)");
    check(&mut session, "select a from t order by a", &["1", "null"]);
}
