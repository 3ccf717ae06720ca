//! Little memory: sorts, groups, joins and windows over ten times of it end, with the same answers.

use crate::command::Folder;

/// Rows of a table, about 100 bytes each: numbers in no order, with few and many different values, and a
/// text.
fn table(rows: usize) -> String {
    format!(
        "create table t as select value as id, value * 7919 % {rows} as mixed, value % 13 as few, \
         'a text that is not short, of row ' || value as text from generate_series(0, {}) as s(value);",
        rows - 1
    )
}

/// What a query says of a file of such rows, with memory for a tenth of them and without a limit.
fn is_the_same(query: &str) {
    let folder = Folder::new();
    folder.prints(&["sql", &format!("{} copy t to 't.parquet'", table(600_000))]);
    let expected = folder.prints(&["sql", "--format", "csv", query]);
    assert!(expected.lines().count() > 1, "{expected}");
    for shards in ["1", "2"] {
        let limit = ["--memory-limit", "6MB", "--shards", shards];
        let arguments = [&["sql", "--format", "csv", query][..], &limit].concat();
        assert_eq!(folder.prints(&arguments), expected, "{shards} shards");
    }
}

#[test]
fn rows_are_sorted() {
    is_the_same("select mixed, few from 't.parquet' order by mixed");
    is_the_same("select text, id from 't.parquet' order by few, text desc");
}

#[test]
fn rows_are_grouped() {
    is_the_same(
        "select count(*) as n, sum(c) as c, sum(s) as s from \
         (select text, count(*) as c, sum(mixed) as s from 't.parquet' group by text)",
    );
}

#[test]
fn tables_are_joined() {
    for join in ["join", "full join"] {
        is_the_same(&format!(
            "select count(*) as n, sum(length(a.text)) as a, sum(length(b.text)) as b, sum(b.id - a.mixed) as d \
             from 't.parquet' as a {join} (select * from 't.parquet' where few <> 5) as b on a.id = b.mixed"
        ));
    }
    is_the_same(
        "select count(*) as n, sum(length(text)) as l from 't.parquet' as a \
         where not exists (select 1 from 't.parquet' as b where b.mixed = a.id and b.few = 5)",
    );
}

#[test]
fn windows_are_computed() {
    for window in [
        "sum(mixed) over (partition by few)",
        "rank() over (partition by id / 10 order by mixed)",
        "lag(text) over (order by mixed)",
    ] {
        is_the_same(&format!(
            "select count(*) as n, min(w) as a, max(w) as b from (select {window} as w from 't.parquet')"
        ));
    }
}

#[test]
fn a_recursive_query_joins_other_rows_each_time() {
    is_the_same(
        "with recursive r(n, text) as (select 1::bigint, '' union all select r.n + 1, t.text from r \
         join 't.parquet' as t on t.id = r.n * 3 where r.n < 20) select count(*) as n, sum(n) as s, max(text) as t from r",
    );
}
