//! Ordinary SQL over tables, one test for each kind of node that a query can be made of.

use crate::support::*;
use whimbrel_sharded::{Options, action};
use whimbrel_sql::Session;

fn shop() -> Session {
    with("
        create table item as select * from (values (1, 'ant', 3), (2, 'bee', 5), (3, 'cat', null)) as t(id, name, price);
        create table sale as select * from (values (1, 10), (1, 20), (2, 30), (4, 40), (null, 50)) as t(item, amount)
    ")
}

#[test]
fn values_need_no_table() {
    let mut session = session();
    check(&mut session, "select 1", &["1"]);
    check(&mut session, "select 1 + 1 as two, 'x' || 'y'", &["2 xy"]);
    check(&mut session, "values (1, 'a'), (2, null)", &["1 a", "2 null"]);
    check(&mut session, "select * from (values (1), (2)) as t(a) where a > 1", &["2"]);
    check(&mut session, "select 0.06 + 0.01 = 0.07", &["true"]);
}

#[test]
fn rows_are_selected() {
    let mut shop = shop();
    check(&mut shop, "select name from item where price > 3 order by id", &["bee"]);
    check(
        &mut shop,
        "select * from item order by price desc nulls last, id",
        &["2 bee 5", "1 ant 3", "3 cat null"],
    );
    check(&mut shop, "select id from item order by id limit 1 offset 1", &["2"]);
    check(&mut shop, "select id from item order by id offset 2", &["3"]);
    check(&mut shop, "select id, id, id as x from item where id = 1", &["1 1 1"]);
    check(&mut shop, "select *, id from item where id = 1", &["1 ant 3 1"]);
    check(&mut shop, "from item select name limit 1", &["ant"]);
    check(
        &mut shop,
        "select case when price > 3 then 'dear' else 'cheap' end from item order by id",
        &["cheap", "dear", "cheap"],
    );
}

#[test]
fn rows_are_aggregated() {
    let mut shop = shop();
    check(&mut shop, "select count(*) from sale", &["5"]);
    check(&mut shop, "select count(*), count(item), sum(amount), avg(amount) from sale", &["5 4 150 30.0"]);
    check(&mut shop, "select count(distinct item) from sale", &["3"]);
    check(
        &mut shop,
        "select item, sum(amount) from sale group by item order by 1 nulls first",
        &["null 50", "1 30", "2 30", "4 40"],
    );
    check(
        &mut shop,
        "select item from sale group by item having sum(amount) > 30 order by 1",
        &["4", "null"],
    );
    check(&mut shop, "select sum(amount) from sale where false", &["null"]);
    check(
        &mut shop,
        "select item, count(*), grouping(item) from sale where item < 3 group by rollup (item) order by 3, 1",
        &["1 2 0", "2 1 0", "null 3 1"],
    );
    check(&mut shop, "select distinct item from sale order by item", &["1", "2", "4", "null"]);
    check(
        &mut shop,
        "select distinct on (item) item, amount from sale order by item, amount desc",
        &["1 20", "2 30", "4 40", "null 50"],
    );
}

#[test]
fn tables_are_joined_in_every_way() {
    let mut shop = shop();
    check(
        &mut shop,
        "select name, amount from item join sale on id = item order by amount",
        &["ant 10", "ant 20", "bee 30"],
    );
    check(
        &mut shop,
        "select name, amount from item left join sale on id = item order by id, amount",
        &["ant 10", "ant 20", "bee 30", "cat null"],
    );
    check(
        &mut shop,
        "select name, amount from item right join sale on id = item order by amount",
        &["ant 10", "ant 20", "bee 30", "null 40", "null 50"],
    );
    check(
        &mut shop,
        "select name, amount from item full join sale on id = item order by amount, name",
        &["ant 10", "ant 20", "bee 30", "null 40", "null 50", "cat null"],
    );
    check(&mut shop, "select count(*) from item, sale", &["15"]);
    check(&mut shop, "select count(*) from item join sale on id < amount and price < item", &["1"]);
    check(
        &mut shop,
        "select a.id, b.id from item a join item b on a.id + 1 = b.id order by 1",
        &["1 2", "2 3"],
    );
}

#[test]
#[should_panic(expected = "item")]
fn a_join_on_a_column_of_one_side_is_wrong() {
    query(&mut shop(), "select id from item join sale using (item)");
}

#[test]
fn subqueries_become_joins() {
    let mut shop = shop();
    check(&mut shop, "select name from item where id in (select item from sale) order by 1", &["ant", "bee"]);
    check(
        &mut shop,
        "select name from item where id not in (select item from sale where item is not null)",
        &["cat"],
    );
    check(&mut shop, "select name from item where id not in (select item from sale)", &[]);
    check(
        &mut shop,
        "select name from item where exists (select 1 from sale where item = id and amount > 15) order by 1",
        &["ant", "bee"],
    );
    check(&mut shop, "select name from item where not exists (select 1 from sale where item = id)", &["cat"]);
    check(
        &mut shop,
        "select name from item where id = 3 or exists (select 1 from sale where item = id) order by 1",
        &["ant", "bee", "cat"],
    );
    check(&mut shop, "select name from item where price = (select max(price) from item)", &["bee"]);
    check(
        &mut shop,
        "select name, (select sum(amount) from sale where item = id) from item order by id",
        &["ant 30", "bee 30", "cat null"],
    );
    check(
        &mut shop,
        "select amount from sale s where amount > (select avg(amount) from sale where item = s.item)",
        &["20"],
    );
    check(
        &mut shop,
        "select name, total from item, lateral (select sum(amount) as total from sale where item = id) order by id",
        &["ant 30", "bee 30", "cat null"],
    );
}

#[test]
fn sets_are_combined() {
    let mut shop = shop();
    check(
        &mut shop,
        "select id from item union all select item from sale order by 1",
        &["1", "1", "1", "2", "2", "3", "4", "null"],
    );
    check(
        &mut shop,
        "select id from item union select item from sale order by 1",
        &["1", "2", "3", "4", "null"],
    );
    check(&mut shop, "select id from item intersect select item from sale order by 1", &["1", "2"]);
    check(&mut shop, "select id from item except select item from sale", &["3"]);
    check(&mut shop, "(select 1 as a order by a limit 1) union all select 2", &["1", "2"]);
}

#[test]
fn windows_look_at_other_rows() {
    let mut shop = shop();
    check(
        &mut shop,
        "select amount, row_number() over (order by amount desc), sum(amount) over (partition by item) from sale where item < 3 order by 1",
        &["10 3 30", "20 2 30", "30 1 30"],
    );
    check(
        &mut shop,
        "select amount, lag(amount) over (order by amount) from sale where item = 1 order by 1",
        &["10 null", "20 10"],
    );
    check(
        &mut shop,
        "select item, amount from (select *, rank() over (partition by item order by amount) as r from sale) where r = 1 and item is not null order by 1",
        &["1 10", "2 30", "4 40"],
    );
}

#[test]
fn parts_have_names() {
    let mut shop = shop();
    let both = "with t as (select item, sum(amount) as total from sale group by item)";
    check(
        &mut shop,
        &format!("{both} select a.item from t a join t b on a.total = b.total and a.item < b.item"),
        &["1"],
    );
    check(
        &mut shop,
        &format!("{both} select item from t where total = (select max(total) from t)"),
        &["null"],
    );
}

#[test]
fn queries_may_be_recursive() {
    let mut shop = shop();
    check(
        &mut shop,
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 4) select i from n",
        &["1", "2", "3", "4"],
    );
    check(
        &mut shop,
        "with recursive n(i) as (select 1 union all select i + 1 from n join item on id = i) select sum(i) from n",
        &["10"],
    );
}

#[test]
fn lists_are_unnested() {
    let mut shop = shop();
    check(&mut shop, "select unnest([1, 2, 3])", &["1", "2", "3"]);
    check(&mut shop, "select * from generate_series(1, 3)", &["1", "2", "3"]);
    check(&mut shop, "select sum(range) from range(1, 10, 3)", &["12"]);
    check(
        &mut shop,
        "select id, unnest([id, id * 10]) as u from item where id < 2 order by u",
        &["1 1", "1 10"],
    );
}

#[test]
fn names_need_not_be_quoted_for_their_capitals() {
    let mut session = with("create table t as select 1 as \"VendorID\", 2 as \"tip Amount\", 3 as fare");
    check(&mut session, "select VendorID, vendorid + FARE, t.VENDORID from t where vendorId = 1", &["1 4 1"]);
    check(
        &mut session,
        "select a.vendorid from t a join t b on a.VendorID = b.vendorID group by a.vendorid",
        &["1"],
    );
    let stream = query(&mut session, "select VendorID, sum(fare), 'x', count(*) from t group by vendorid");
    let names: Vec<&str> = stream.schema().fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["VendorID", "sum(fare)", "'x'", "count(*)"]);
}

#[test]
fn joins_may_be_over_intervals_of_time() {
    let mut session = with(
        "create table a as select * from (values (timestamp '2024-01-01 00:00:00', 1), (timestamp '2024-01-01 00:10:00', 2)) as t(at, x);
         create table b as select * from (values (timestamp '2024-01-01 00:04:00', 3), (timestamp '2024-01-01 00:30:00', 4)) as t(at, y)",
    );
    let near = "b.at between a.at - interval '1 minute' and a.at + interval '5 minutes'";
    check(&mut session, &format!("select x, y from a join b on {near}"), &["1 3"]);
    check(&mut session, &format!("select x from a where not exists (select 1 from b where {near})"), &["2"]);
}

#[test]
fn functions_are_arguments() {
    let mut session = with("create table t as select * from (values (1, [1, 2]), (10, [3])) as t(n, l)");
    check(&mut session, "select array_transform(l, x -> x + n) from t order by n", &["[2, 3]", "[13]"]);
    check(&mut session, "select array_transform(l, lambda x: x + n) from t order by n", &["[2, 3]", "[13]"]);
    check(
        &mut session,
        "select array_filter(l, x -> x > 1 and x < n + 2) from t order by n",
        &["[2]", "[3]"],
    );
    check(&mut session, "select n from t where array_any_match(l, x -> x is not null and x > 2)", &["10"]);
}

#[test]
fn a_summary_has_a_row_a_column() {
    let mut session =
        with("create table t as select * from (values (1, 'a', [1]), (3, null, [2])) as t(n, s, l)");
    check(
        &mut session,
        "summarize t",
        &[
            "n int64 1 3 2 2.0 1.4142135623730951 2 0.0",
            "s string a a 1 null null 2 50.0",
            "l list(int64) null null null null null 2 0.0",
        ],
    );
    check(&mut session, "summarize select n from t where n > 5", &["n int64 null null 0 null null 0 null"]);
    assert!(wrong(&mut session, "summarize drop table t").contains("drop"));
}

#[test]
fn tables_have_defaults() {
    let mut session = with("create table t (a int, b int default 2 + 3)");
    execute(&mut session, "insert into t (a) values (1)");
    check(&mut session, "from t", &["1 5"]);
    assert!(
        wrong(&mut session, "create table s (a int, b int default 1) as select 1, 2").contains("default")
    );
}

#[test]
fn a_query_for_one_value_gives_one_row() {
    let mut shop = shop();
    check(
        &mut shop,
        "select (select amount from sale where sale.item = i.id and amount > 10) from item as i order by id",
        &["20", "30", "null"],
    );
    let two = query(&mut shop, "select (select amount from sale where item = 1)");
    let ran = action::collect(&two, &Options::default()).and_then(|action| action.wait());
    let error = ran.expect_err("two rows are no value").to_string();
    assert!(error.contains("more than one row"), "{error}");
}
