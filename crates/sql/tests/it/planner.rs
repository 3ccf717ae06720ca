//! Shard planning: what the planner knows, what it chooses, and that every way has the same answer.

use crate::support::{memory, query, session};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, NullArray, StringArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::pretty::pretty_format_batches;
use std::sync::Arc;
use whimbrel_plan::{Stream, stage_shards, with_stage_shards};
use whimbrel_sharded::{Options, action, analyze};
use whimbrel_sql::{Candidate, Session};

const ROWS: i64 = 120_000;

/// Facts of so many groups, for three shards, and a small table of names.
fn facts(groups: i64) -> Session {
    let mut session = session();
    session.set_shards(Some(3));
    let column =
        |of: &dyn Fn(i64) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..ROWS).map(of))) };
    let facts =
        vec![("id", column(&|i| i)), ("g", column(&|i| i * 7919 % groups)), ("x", column(&|i| i % 100))];
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..10).map(|i| format!("name {i}"))));
    session.register("facts", memory(facts)).unwrap();
    session.register("names", memory(vec![("id", ids), ("name", names)])).unwrap();
    session
}

fn chosen(session: &mut Session, sql: &str) -> String {
    query(session, sql).explain().unwrap()
}

/// The rows of an answer, sorted.
fn rows(stream: &Stream) -> Vec<String> {
    let table = action::collect(stream, &Options::default()).and_then(|action| action.wait());
    let table = table.unwrap_or_else(|error| panic!("{}\n{error}", stream.explain().unwrap()));
    let text = pretty_format_batches(&table.batches).unwrap().to_string();
    let mut rows: Vec<String> = text.lines().map(str::to_string).collect();
    rows.sort();
    rows
}

fn all_agree(ways: &[Candidate]) {
    let first = rows(&ways[0].stream);
    for way in &ways[1..] {
        assert_eq!(rows(&way.stream), first, "{way}");
    }
}

#[test]
fn few_groups_are_aggregated_before_they_move() {
    let plan = chosen(&mut facts(10), "select g, sum(x) as s, avg(x * 1.0) as a from facts group by g");
    assert_eq!(plan.matches("aggregate by").count(), 2, "{plan}");
}

#[test]
fn rows_that_are_groups_of_their_own_move_as_they_are() {
    let plan = chosen(&mut facts(ROWS), "select id, sum(x) as s from facts group by id");
    assert_eq!(plan.matches("aggregate by").count(), 1, "{plan}");
    assert!(plan.contains("redistribute by"), "{plan}");
    assert!(plan.contains("co-located by"), "{plan}");
}

#[test]
fn rows_do_not_move_for_cores_that_are_not_there() {
    let sql = "select id, sum(x) as s from facts group by id";
    let mut session = facts(ROWS);
    session.set_cores(1);
    let plan = chosen(&mut session, sql);
    assert!(!plan.contains("redistribute by"), "{plan}");
    session.set_cores(3);
    assert!(chosen(&mut session, sql).contains("redistribute by"));
}

#[test]
fn what_cannot_be_put_together_from_parts_is_not_split() {
    let plan = chosen(&mut facts(10), "select g, median(x) as m from facts group by g");
    assert_eq!(plan.matches("aggregate by").count(), 1, "{plan}");
}

#[test]
fn a_small_side_is_copied() {
    let plan = chosen(&mut facts(10), "select name, x from facts join names on g = names.id");
    assert!(plan.contains("broadcast into 3 shards"), "{plan}");
    assert!(!plan.contains("redistribute"), "{plan}");
}

#[test]
fn large_sides_meet_at_the_shards_of_their_keys() {
    let sql = "select count(*) as n from facts a join facts b on a.id = b.id and a.x <= b.x";
    let mut session = facts(10);
    session.set_shards(Some(16));
    let plan = chosen(&mut session, sql);
    assert_eq!(plan.matches("redistribute by").count(), 2, "{plan}");
}

#[test]
fn what_equals_the_same_is_equal() {
    let sql = "select count(*) as n
               from (select id as part from names where name = 'name 3') p,
                    (select g as bought, x as seller, id as line from facts) l,
                    (select id as offered, x as offerer from facts) o
               where part = bought and bought = offered and seller = offerer";
    let mut session = facts(10);
    let plan = chosen(&mut session, sql);
    // The few offers of the one part are found first; then one condition says that the line is about it, too.
    let first = ["join on part = offered", "join on offered = part"];
    assert!(first.iter().any(|join| plan.contains(join)), "{plan}");
    let joins = plan.lines().filter(|line| line.trim_start().starts_with("join on"));
    assert_eq!(joins.map(|join| join.matches(" = ").count()).sum::<usize>(), 3, "{plan}");
    all_agree(&session.candidates(sql).unwrap());
}

#[test]
fn few_rows_do_not_move() {
    let plan = chosen(&mut facts(10), "select name, count(*) as n from names group by name");
    assert!(!plan.contains("shards"), "{plan}");
}

#[test]
fn rows_that_are_together_stay() {
    let sql = "select id, n from (select id, count(*) as n from facts group by id) group by id, n";
    let plan = chosen(&mut facts(10), sql);
    assert_eq!(plan.matches("redistribute by").count(), 1, "{plan}");
}

#[test]
fn how_few_rows_stay_is_a_setting() {
    let (mut session, sql) = (facts(10), "select name, count(*) as n from names group by name");
    session.plan("set shard_rows = 0").unwrap();
    assert!(chosen(&mut session, sql).contains("3 shards"));
    session.plan("reset shard_rows").unwrap();
    assert!(!chosen(&mut session, sql).contains("3 shards"));
}

#[test]
fn the_candidates_have_the_strategies_of_the_paper() {
    let sql = "select name, count(*) as n, min(x + names.id) as least, avg(x * 1.5) as mean
               from facts join names on g = names.id group by name";
    let ways = facts(10).candidates(sql).unwrap();
    assert!(ways[0].chosen && ways[1..].iter().all(|way| !way.chosen));
    assert!(ways[1..].iter().all(|way| way.cost >= ways[0].cost * 0.5), "the cheapest is chosen");
    let plans: Vec<String> = ways.iter().map(|way| way.stream.explain().unwrap()).collect();
    for (figure, part) in [("4 (b)", "broadcast into 3 shards"), ("4 (c)", "within each group")] {
        assert!(plans.iter().any(|plan| plan.contains(part)), "Fig. {figure}");
    }
    // Fig. 1 (a), (b) and (c): one, two, three aggregates.
    for aggregates in 1..=3 {
        assert!(plans.iter().any(|plan| plan.matches("aggregate by").count() == aggregates));
    }
    all_agree(&ways);
}

#[test]
fn every_way_has_the_same_answer() {
    let mut session = facts(1000);
    for sql in [
        "select count(*) as n, sum(x) as s, avg(x) as a, min(id) as least, max(id) as most from facts",
        "select g, count(distinct x) as n from facts group by g",
        "select g, x, count(*) as n from facts where x > 90 group by rollup(g, x) having count(*) > 1",
        "select distinct x from facts",
        "select g % 3 as k, sum(x) filter (where x > 3) as s from facts group by g % 3",
        "select * from (select g, x, row_number() over (partition by g order by id) as r from facts) where r = 2",
        "select id, sum(x) over (order by id) as s from facts order by id limit 7",
        "select id, x from facts order by x desc, id limit 5 offset 3",
        "select g from facts where id < 500 union all select id from names",
        "select n.id, f.id as other from names n left join facts f on n.id = f.id * 5000",
        "select n.id, f.x from names n full join (select * from facts where id < 20) f on n.id = f.id - 5",
        "select count(*) as n from facts where g in (select id from names)",
        "select count(*) as n from facts where g not in (select id from names)",
        "select count(*) as n from facts f where exists (select 1 from names n where n.id = f.g and f.x > 50)",
        "select name, (select max(x) from facts where g = names.id) as most from names",
        "select a.id from facts a, facts b, names n where a.id = b.g and b.id = n.id and a.x = n.id",
        "with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select n, count(*) as c from r join facts on g = n group by n",
        "select count(*) as n from facts f, names n where f.x < n.id",
    ] {
        all_agree(&session.candidates(sql).unwrap_or_else(|error| panic!("{sql}: {error}")));
    }
}

/// A table with columns of many types, in no order, with nulls and the ends of types.
fn values_of_many_types() -> Session {
    let mut session = session();
    session.set_shards(Some(3));
    session.plan("set shard_rows = 0").unwrap();
    let scattered = |row: i64| (row * 7919) % 4_000;
    let rows = || (0..4_000).map(scattered);
    let unless_null = |row: i64| (row % 11 != 0).then_some(row);
    let ends = |row: i64| match row % 500 {
        1 => i64::MIN,
        2 => i64::MAX,
        _ => row - 2_000,
    };
    let float = |row: i64| match row % 50 {
        1 => f64::NAN,
        2 => -f64::NAN,
        3 => -0.0,
        4 => 0.0,
        5 => f64::NEG_INFINITY,
        _ => (row - 2_000) as f64 / 7.0,
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(rows()))),
        ("n", Arc::new(Int64Array::from_iter(rows().map(|row| unless_null(row).map(ends))))),
        ("f", Arc::new(Float64Array::from_iter(rows().map(|row| unless_null(row).map(float))))),
        (
            "s",
            Arc::new(StringArray::from_iter(
                rows().map(|row| unless_null(row).map(|r| format!("{}é{r}", r % 7))),
            )),
        ),
        ("b", Arc::new(BooleanArray::from_iter(rows().map(|row| unless_null(row).map(|r| r % 3 == 0))))),
        ("few", Arc::new(Int64Array::from_iter_values(rows().map(|row| row % 3)))),
        ("one", Arc::new(Int64Array::from_iter_values(rows().map(|_| 7)))),
        ("null", Arc::new(NullArray::new(4_000))),
        ("nothing", Arc::new(Int64Array::from_iter(rows().map(|_| None)))),
        ("d", cast(&Int32Array::from_iter_values(rows().map(|r| r as i32)), &DataType::Date32).unwrap()),
        ("c", cast(&Int64Array::from_iter_values(rows()), &DataType::Decimal128(20, 2)).unwrap()),
    ];
    session.register("v", memory(columns)).unwrap();
    session
}

/// The rows of an answer, in its order.
fn rows_in_order(stream: &Stream) -> String {
    let table = action::collect(stream, &Options::default()).unwrap().wait().unwrap();
    pretty_format_batches(&table.batches).unwrap().to_string()
}

#[test]
fn sorts_of_ranges_have_the_order_of_one_sort() {
    let mut session = values_of_many_types();
    let mut in_ranges = 0;
    for column in ["n", "f", "s", "b", "few", "one", "nothing", "\"null\"", "d", "c", "n % 5", "[n]"] {
        for order in ["", "desc", "nulls first", "desc nulls last"] {
            let sql = format!("select *, few + 1 as m from v where few < 2 order by {column} {order}, id");
            let ways = session.candidates(&sql).unwrap();
            let first = rows_in_order(&ways[0].stream);
            for way in &ways[1..] {
                assert_eq!(rows_in_order(&way.stream), first, "{sql}: {way}");
            }
            let is_in_order = |way: &Candidate| way.stream.explain().unwrap().contains("order of shards");
            in_ranges += usize::from(ways.iter().any(is_in_order));
        }
    }
    assert!(in_ranges >= 20, "{in_ranges}");
}

#[test]
fn large_sorts_move_rows_to_ranges() {
    let mut session = facts(ROWS);
    let plan = chosen(&mut session, "select id, x from facts order by g desc");
    assert!(plan.contains("in the order of shards into 1 shard"), "{plan}");
    assert!(plan.contains("3 ranges of facts.g descending into 3 shards"), "{plan}");
    for sql in ["select id from facts order by g limit 5", "select x + 1 as y from facts order by y"] {
        let plan = chosen(&mut session, sql);
        assert!(!plan.contains("ranges of"), "{plan}");
    }
}

#[test]
fn a_copied_side_has_only_rows_with_partners() {
    let sql =
        "select a.id from facts a where a.x = 7 and not exists (select 1 from facts b where b.g = a.id)";
    let mut session = facts(ROWS);
    let plan = chosen(&mut session, sql);
    assert!(plan.contains("__partner_0"), "{plan}");
    all_agree(&session.candidates(sql).unwrap());
}

#[test]
fn of_two_columns_one_is_asked_first() {
    let sql = "select count(*) as n from facts a join (select id, g from facts where x = 7) b \
               on a.id = b.id and a.g = b.g";
    let mut session = facts(10);
    let plan = chosen(&mut session, sql);
    assert!(plan.contains("where exists on id = __partner_0,"), "{plan}");
    assert!(rows(&query(&mut session, sql)).concat().contains("1200"));
}

#[test]
fn joins_that_differ_in_their_columns_are_one() {
    let joined = "from facts join names on g = names.id where name <> 'name 3'";
    let sql = format!(
        "select g, sum(x) as s {joined} group by g having sum(x) > (select avg(facts.id) - 100000 {joined})"
    );
    let mut session = facts(10);
    let plan = analyze::explain(&query(&mut session, &sql), &Options::default()).unwrap().text(false);
    assert_eq!(plan.matches("join on").count(), 1, "{plan}");
    all_agree(&session.candidates(&sql).unwrap());
}

/// Two tables: `few` has keys, which are integers from 0 on; `many` has rows with such keys and values.
fn few_and_many(few: i64, keys: i64) -> Session {
    let mut session = session();
    session.set_shards(Some(3));
    let column = |rows: i64, of: &dyn Fn(i64) -> Option<i64>| -> ArrayRef {
        Arc::new(Int64Array::from_iter((0..rows).map(of)))
    };
    let kind = |i: i64| Some(i % 3);
    let few = vec![("k", column(few, &|i| Some(i))), ("kind", column(few, &kind))];
    let value = |i: i64| (i % 7 != 0).then_some(i % 1000);
    let many = vec![("mk", column(ROWS, &|i| Some(i * 7919 % keys))), ("x", column(ROWS, &value))];
    session.register("few", memory(few)).unwrap();
    session.register("many", memory(many)).unwrap();
    session
}

#[test]
fn rows_are_summed_up_before_they_are_joined() {
    let calls = "count(x) as n, sum(x) as s, min(x) as least, avg(x * 1.5) as mean";
    for (kind, sql) in [
        ("left join", format!("select k, {calls} from few left join many on k = mk group by k")),
        ("join", format!("select k, count(*) as lines, {calls} from many join few on k = mk group by k")),
        ("join", format!("select kind, {calls} from few join many on k = mk group by kind")),
        ("right join", format!("select k, {calls} from many right join few on k = mk group by k")),
    ] {
        // Half of the keys that the left join keeps have no rows.
        let mut session = few_and_many(2_000, if kind == "join" { 2_000 } else { 1_000 });
        let plan = chosen(&mut session, &sql);
        let parts = plan.split(kind).last().unwrap();
        assert!(parts.contains("aggregate by many.mk"), "{plan}");
        all_agree(&session.candidates(&sql).unwrap());
        let at_once = sql.replace("group by", "where k + coalesce(mk, 0) >= 0 group by");
        assert_eq!(rows(&query(&mut session, &sql)), rows(&query(&mut session, &at_once)), "{sql}");
    }
}

#[test]
fn rows_are_joined_first_where_that_is_less_work() {
    for (keys, sql) in [
        // The join throws most rows away.
        (20_000, "select k, sum(x) as s from few join many on k = mk group by k"),
        // Hardly any rows go together.
        (ROWS, "select k, sum(x) as s from few right join many on k = mk group by k"),
        // Rows without a partner are counted, and what is of both sides is not of one.
        (1_000, "select k, count(*) as n from few left join many on k = mk group by k"),
        (1_000, "select k, sum(x + kind) as s from few left join many on k = mk group by k"),
        (1_000, "select k, count(distinct x) as n from few left join many on k = mk group by k"),
        // A row that is missing adds to the sum.
        (1_000, "select k, sum(coalesce(x, 1)) as s from few left join many on k = mk group by k"),
        (1_000, "select k, bool_or(x is null) as s from few left join many on k = mk group by k"),
    ] {
        let plan = chosen(&mut few_and_many(2_000, keys), sql);
        assert!(!plan.contains("aggregate by many.mk"), "{plan}");
    }
}

#[test]
fn rows_by_chance_are_nobodys_partners() {
    for sql in [
        "select k, s from (select k from few where random() < 0.5 and k < 50) f
         join (select mk, sum(x) as s from many group by mk) m on k = mk",
        "select x from (select k, kind from few where random() < 0.5 and k < 50) f
         join many on k = mk and kind = x",
        "select k from few where kind > random() * 2 and k < 50 and not exists (select 1 from many where mk = k)",
    ] {
        let mut session = few_and_many(20_000, 20_000);
        let plan = chosen(&mut session, sql);
        assert!(!plan.contains("__partner_"), "{plan}");
    }
}

#[test]
fn partners_are_asked_for_once() {
    for (keys, sql, once) in [
        (1_000, "select k from few where not exists (select 1 from many where mk = k)", true),
        (1_000, "select k from few where k in (select mk from many)", true),
        // Hardly any partner is there twice, and here each row counts.
        (ROWS, "select k from few where not exists (select 1 from many where mk = k)", false),
        (1_000, "select k from few where not exists (select 1 from many where mk = k and x > kind)", false),
    ] {
        let mut session = few_and_many(2_000, keys);
        let plan = chosen(&mut session, sql);
        assert_eq!(plan.contains("aggregate by"), once, "{plan}");
        all_agree(&session.candidates(sql).unwrap());
    }
}

#[test]
fn rows_that_were_picked_for_a_subquery_are_picked_once() {
    let mut session = few_and_many(20_000, 20_000);
    let sql = "select k, x from few join many on k = mk
               where kind = 1 and k < 100 and x >= (select avg(x) from many where mk = k)";
    let picks = |session: &mut Session, sql: &str| {
        let plan = analyze::explain(&query(session, sql), &Options::default()).unwrap().text(false);
        (plan.matches("where exists on __partner_0").count(), plan)
    };
    let (once, plan) = picks(&mut session, sql);
    assert_eq!(once, 1, "{plan}");
    all_agree(&session.candidates(sql).unwrap());
    let other_rows = sql.replace("from many where mk = k", "from many where mk = k and x < 500");
    let (_, plan) = picks(&mut session, &other_rows);
    assert!(!plan.contains("again"), "{plan}");
}

#[test]
fn stages_in_any_numbers_of_shards_have_the_same_answer() {
    let queries = [
        "select g, sum(x) as s, count(distinct id) as d from facts group by g",
        "select count(*) as n from facts a join facts b on a.id = b.g where b.x < 3",
        "select name, sum(x) as s from facts join names on g = names.id group by name",
        "select g from facts where x = 1 union select x from facts where g = 2",
        "select id, x from facts order by x, id limit 7",
        "select id, row_number() over (partition by g order by id) as r from facts where x = 5",
        "select id from facts where x = 9 and g not in (select id from names where name = 'name 1') order by id",
        "with big as (select g, count(*) as n from facts group by g)
         select * from big where n = (select max(n) from big)",
    ];
    // Some numbers, one after the other.
    let mut counts = [3, 1, 5, 2, 7, 4].into_iter().cycle();
    for sql in queries {
        let mut session = facts(1000);
        let ways = session.candidates(sql).unwrap();
        let answer = rows(&ways[0].stream);
        for way in ways {
            let stages = stage_shards(way.stream.plan()).unwrap();
            for _ in 0..3 {
                let chosen: Vec<usize> = stages.iter().zip(&mut counts).map(|(_, count)| count).collect();
                let plan = with_stage_shards(way.stream.plan(), &chosen).unwrap();
                let changed = stage_shards(&plan).unwrap();
                for ((before, after), count) in stages.iter().zip(&changed).zip(&chosen) {
                    assert_eq!(after.shards, if before.is_free { *count } else { before.shards });
                }
                assert_eq!(rows(&Stream::from_plan(plan).unwrap()), answer, "{sql}\n{way}\n{chosen:?}");
            }
        }
    }
}
