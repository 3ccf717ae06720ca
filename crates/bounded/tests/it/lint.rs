//! The check of files: what only PostgreSQL has, and what only we have.

use whimbrel_bounded::lint::{self, Input, Report, Rule, Source};

fn check(schema: &str, queries: &str, plain_sql: bool) -> Report {
    let file = |file: &str, text: &str| vec![Source { file: file.into(), text: text.into() }];
    let (schema, queries) = (file("schema.sql", schema), file("queries.sql", queries));
    lint::check(&Input { schema, queries, plain_sql, ..Input::default() }).unwrap()
}

const ITEMS: &str = "create table items (i int primary key, title text, code varchar(9), n int);
    create unique index code on items (code);";

#[test]
fn postgresql_may_lock_and_meet_conflicts() {
    for query in [
        "insert into items values ($1, $2, $3, 1) on conflict (i) do update set n = items.n + 1 returning n",
        "select * from items where i = $1 for update",
        "select distinct on (i) title from items where code = $1 order by i",
        "delete from items where code = $1 returning title",
    ] {
        let report = check(ITEMS, query, true);
        assert!(!report.failed() && report.queries.len() == 1, "{query}: {:?}", report.findings);
    }
}

#[test]
fn postgresql_has_nothing_of_ours() {
    for (query, expected) in [
        ("upsert into items values (1, 'a', 'b', 1)", "PostgreSQL has no upsert"),
        ("select * from items order by i paginate 10", "PostgreSQL has no paginate"),
        ("select * from items where i in ($1 limit 10)", "PostgreSQL has no lists"),
        ("select i from items where title like [token] $1 limit 10", "a search for words"),
        ("select i from items where title @@ $1 limit 10", "a search for words"),
        ("select * from items tablesample system (1) where i = 1", "tablesample"),
        ("drop table items", "change of the schema"),
    ] {
        let report = check(ITEMS, query, true);
        let [finding] = report.findings.as_slice() else { panic!("{query}: {:?}", report.findings) };
        assert_eq!(finding.rule, Rule::InvalidQuery, "{query}");
        assert!(finding.message.contains(expected), "{query}: {}", finding.message);
    }
}

/// A bound does not rely on what a later migration takes away.
#[test]
fn what_was_dropped_is_not_there() {
    let by_code = "select title from items where code = $1";
    assert!(!check(ITEMS, by_code, true).failed());
    let unnamed = "create table items (i int, title text, code varchar(9) unique, primary key (i));";
    for (schema, drop) in [
        (ITEMS, "drop index code"),
        (ITEMS, "drop index if exists public.code cascade"),
        (unnamed, "alter table items drop constraint items_code_key"),
    ] {
        let report = check(&format!("{schema}{drop};"), by_code, true);
        assert_eq!(report.findings[0].rule, Rule::Unbounded, "{drop}: {:?}", report.findings);
    }
    let keyless = format!("{unnamed}alter table items drop constraint items_pkey;");
    assert!(check(&keyless, "select title from items where i = $1", true).failed());
    let gone = check(&format!("{ITEMS}drop table items;"), by_code, true);
    assert_eq!(gone.findings[0].rule, Rule::InvalidQuery);
    let ours = check(&format!("{ITEMS}drop index code;"), by_code, false);
    assert!(ours.failed());
}

#[test]
fn a_store_of_partitions_is_asked_in_all_of_them() {
    let source = |text: &str| vec![Source { file: "a.sql".into(), text: text.into() }];
    let input = Input {
        schema: source(ITEMS),
        queries: source("-- name: latest\nselect i from items order by i desc limit 10"),
        key_by_key: true,
        ..Input::default()
    };
    let report = lint::check(&input).unwrap();
    assert!(report.queries[0].says.contains("at most 64 requests in 1 round"), "{}", report.queries[0].says);
}
