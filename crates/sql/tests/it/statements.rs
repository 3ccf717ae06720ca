//! Everything that is not a query.

use crate::support::*;
use whimbrel_sql::{Format, Planned, Session};

#[test]
fn scripts_are_cut_at_semicolons() {
    let script = "select ';' ; -- not; here\n/* nor; here */ select \"a;b\" from t;;\n";
    let split = Session::split(script).unwrap();
    let texts: Vec<&str> = split.iter().map(|s| s.text).collect();
    assert_eq!(texts, ["select ';'", "select \"a;b\" from t"]);
    assert!(split.iter().all(|s| &script[s.span.clone()] == s.text));
    assert!(Session::split(" ; \n").unwrap().is_empty());
}

#[test]
fn views_are_queries_with_a_name() {
    let mut session = with("create table t as select 1 as a; create view v as select a + 1 as b from t");
    execute(&mut session, "insert into t values (5)");
    check(&mut session, "select * from v order by 1", &["2", "6"]);
    execute(&mut session, "create or replace view v(x) as select a from t");
    check(&mut session, "select x from v order by x", &["1", "5"]);
    assert!(wrong(&mut session, "drop table v").contains("drop view"));
    execute(&mut session, "drop view v");
    assert!(wrong(&mut session, "select * from v").contains("there is no table \"v\""));
    execute(&mut session, "drop table if exists v");
}

#[test]
fn names_are_shown() {
    let mut session = with("create table t(a int, b varchar); create view v as select a from t");
    assert_eq!(execute(&mut session, "show tables"), "t table\nv view");
    assert_eq!(execute(&mut session, "describe t"), "a int32 yes\nb string yes");
    assert_eq!(execute(&mut session, "describe select 1 as x"), "x int64 no");
    assert_eq!(execute(&mut session, "show columns from v"), "a int32 yes");
    let names: Vec<String> = session.tables().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["t", "v"]);
    assert!(session.functions().contains(&"sum".to_string()));
}

#[test]
fn settings_are_set() {
    let mut session = session();
    execute(&mut session, "set shards = 3");
    assert_eq!(execute(&mut session, "show shards"), "shards 3");
    execute(&mut session, "reset shards");
    assert_eq!(execute(&mut session, "show shards"), "shards 1");
    execute(&mut session, "set datafusion.optimizer.max_passes = 2");
    assert!(wrong(&mut session, "set shard = 3").contains("did you mean \"shards\""));
}

#[test]
fn queries_are_explained_and_copied() {
    let mut session = with("create table t(a int)");
    assert!(matches!(plan(&mut session, "explain select a from t"), Planned::Explain { analyze: false, .. }));
    assert!(matches!(
        plan(&mut session, "explain analyze select a from t"),
        Planned::Explain { analyze: true, .. }
    ));
    let copies = [
        ("copy t to 'x.csv'", Format::Csv),
        ("copy (select 1) to 'x' stored as json", Format::Json),
        ("copy (select 1) to 'x' (format parquet, compression zstd)", Format::Parquet),
        ("copy t to 'x.arrow' with (a = 'b')", Format::Arrow),
    ];
    for (sql, expected) in copies {
        let Planned::Copy { format, to, .. } = plan(&mut session, sql) else { panic!("{sql}") };
        assert_eq!(format, expected);
        assert!(to.starts_with('x'));
    }
}
