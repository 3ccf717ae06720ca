//! Values of one type next to columns of another: nothing is rounded before it is compared, and nothing wraps
//! around.

use crate::support::{ask, counted, refusal, script};
use datafusion::common::ScalarValue;
use whimbrel_bounded::{Argument, Database, Error};

fn decimal(text: &str) -> Argument {
    let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let digits = text.replace('.', "").parse().unwrap();
    Argument::One(ScalarValue::Decimal128(Some(digits), 38, scale as i8))
}

fn prices() -> Database {
    let (db, _) = counted();
    script(
        &db,
        "create table d (id int primary key, p decimal(10, 2), cardinality limit 9 (p));
         insert into d values (1, 9.99), (2, 10.00), (3, -9.99)",
    );
    db
}

#[test]
fn a_decimal_is_compared_as_it_is() {
    let db = prices();
    let cases: [(&str, &str, &[&str]); 15] = [
        ("p =", "9.9949", &[]),
        ("p =", "9.990", &["1"]),
        ("p <", "9.9949", &["3", "1"]),
        ("p <=", "9.9949", &["3", "1"]),
        ("p >", "9.9949", &["2"]),
        ("p >=", "9.9949", &["2"]),
        ("p >", "-9.9949", &["3", "1", "2"]),
        ("p >", "-9.985", &["1", "2"]),
        ("p <", "99999999999.5", &["3", "1", "2"]),
        ("p >", "99999999999.5", &[]),
        ("p >", "-99999999999.5", &["3", "1", "2"]),
        ("id <", "3000000000", &["1", "2", "3"]),
        ("id =", "1.5", &[]),
        ("id >", "1.5", &["2", "3"]),
        ("id >=", "-2147483649", &["1", "2", "3"]),
    ];
    for (says, value, ids) in cases {
        let order = says.split(' ').next().unwrap();
        // Given with the call, and written in the query.
        let given = format!("select id from d where {says} ? order by {order} limit 5");
        assert_eq!(ask(&db, &given, &[decimal(value)]), ids, "{says} {value}");
        let written = format!("select id from d where {says} {value} order by {order} limit 5");
        assert_eq!(ask(&db, &written, &[]), ids, "{written}");
        // And where no index is asked.
        let local = format!("select id from d where id in (1, 2, 3) and {says} ? order by {order}");
        assert_eq!(ask(&db, &local, &[decimal(value)]), ids, "{local} {value}");
    }
    let several = "select id from d where p in (?, ?) limit 5";
    assert_eq!(ask(&db, several, &[decimal("9.9949"), decimal("9.99")]), ["1"]);
    let list =
        Argument::list([ScalarValue::Decimal128(Some(99_949), 38, 4), ScalarValue::Float64(Some(9.99))]);
    assert_eq!(ask(&db, "select id from d where p in (? limit 3) limit 5", &[list]), ["1"]);
    let different = "select id from d where p <> ? and id in (1, 2, 3)";
    assert_eq!(ask(&db, different, &[decimal("9.9949")]), ["1", "2", "3"]);
    assert_eq!(ask(&db, "delete from d where p = ? returning id", &[decimal("9.9949")]), [] as [&str; 0]);
    // Pages carry their values: there it is refused.
    let pages = db.prepare("select id from d where p > ? order by p paginate 2").unwrap();
    assert!(matches!(pages.call(&[decimal("9.9949")]), Err(Error::Invalid(_))));
    assert_eq!(pages.call(&[decimal("9.99")]).unwrap().batch.num_rows(), 1);
}

#[test]
fn what_is_stored_is_rounded_as_in_postgresql() {
    let db = prices();
    for (statement, value) in [
        ("insert into d values (4, ?)", "2.345"),
        ("update d set p = ? where id = 4", "-2.345"),
        ("insert into d values (?, 1)", "4.5"),
    ] {
        db.execute(statement, &[decimal(value)]).unwrap();
    }
    script(&db, "insert into d values (6, 0.005), (7.5, cast(cast(1.5 as int) as decimal(10, 2)))");
    let all = "select id, p from d where id in (4, 5, 6, 8) order by id";
    assert_eq!(ask(&db, all, &[]), ["4|-2.35", "5|1.00", "6|0.01", "8|2.00"]);
}

#[test]
fn doubles_are_compared_as_doubles() {
    let (db, _) = counted();
    script(
        &db,
        "create table v (id int primary key, x double, cardinality limit 9 ());
         insert into v values (1, 1e10), (2, 1e-16), (3, 0.1), (4, 123456789.12345678)",
    );
    let cases: [(&str, &[&str]); 7] = [
        ("x <= 1e10", &["1", "2", "3", "4"]),
        ("x = 1e10", &["1"]),
        ("x > 0.0", &["1", "2", "3", "4"]),
        ("not x > 1e-17", &[]),
        ("x between 1e-17 and 0.1", &["2", "3"]),
        ("x in (0.1, 123456789.12345678)", &["3", "4"]),
        ("x + 0 = 0.1", &["3"]),
    ];
    for (says, ids) in cases {
        assert_eq!(ask(&db, &format!("select id from v where {says} order by id"), &[]), ids, "{says}");
    }
}

#[test]
fn whole_numbers_do_not_wrap_around() {
    let (db, _) = counted();
    script(
        &db,
        "create table n (id int primary key, big bigint, g int, cardinality limit 9 (g));
         insert into n values (1, 9223372036854775807, 1), (2, 1, 1), (3, -9223372036854775807, 1), (4, 9223372036854775807, 2)",
    );
    for statement in [
        "update n set big = big + 1 where id = 1",
        "update n set big = big - 2 where id = 3",
        "update n set big = -big - 2 where id = 1",
        "select big * 2 from n where id = 1",
        "select sum(big) from n where g in (1, 2)",
        "select 9223372036854775807 + 1",
    ] {
        let error = db.execute(statement, &[]).unwrap_err();
        assert!(matches!(error, Error::Data(_)), "{statement}: {error:?}");
    }
    assert_eq!(ask(&db, "select sum(big), min(big) from n where g = 1", &[]), ["1|-9223372036854775807"]);
    assert_eq!(ask(&db, "select big from n where id = 1", &[]), ["9223372036854775807"]);
}

#[test]
fn functions_that_are_others() {
    let (db, _) = counted();
    script(
        &db,
        "create table f (id int primary key, n decimal(10, 2), b bigint, s varchar(9));
         insert into f values (1, 1.25, null, 'abc'), (2, coalesce(null, 2.5), 7, null)",
    );
    let cases: [(&str, &[&str]); 9] = [
        ("coalesce(b, 3)", &["3", "7"]),
        ("coalesce(n, 3)", &["1.25", "2.50"]),
        ("nvl(s, 'x')", &["abc", "x"]),
        ("round(n, 1)", &["1.3", "2.5"]),
        ("round(n)", &["1", "3"]),
        ("cast(n as int)", &["1", "3"]),
        ("n * 2 = 2.5", &["true", "false"]),
        ("s similar to '%b_'", &["true", "null"]),
        ("s like 'a!%' escape '!'", &["false", "null"]),
    ];
    for (expr, values) in cases {
        assert_eq!(
            ask(&db, &format!("select {expr} from f where id in (1, 2) order by id"), &[]),
            values,
            "{expr}"
        );
    }
    assert_eq!(ask(&db, "select id from f where id in (1, 2) and coalesce(b, 0) = 0", &[]), ["1"]);
    let error = db.prepare("insert into f (id, b) values (3, extract(year from now()))").unwrap_err();
    assert!(error.to_string().contains("give it as a parameter"), "{error}");
}

#[test]
fn constants_are_computed_before_an_index_is_looked_for() {
    let (db, _) = counted();
    script(
        &db,
        "create table c (id int primary key, s varchar(9), ts timestamp);
         insert into c values (1, 'abc', '2024-01-01 10:00:00'), (2, 'ABC', '2024-01-02 10:00:00')",
    );
    let cases: [(&str, &[Argument], &[&str]); 9] = [
        ("id = 1 + 1", &[], &["2"]),
        ("id = ? + 1", &[1.into()], &["2"]),
        ("s = lower(?)", &["ABC".into()], &["1"]),
        ("ts > ? - interval '1 day'", &["2024-01-03 09:00:00".into()], &["2"]),
        ("ts >= date '2024-01-02'", &[], &["2"]),
        ("id in (1, 7, null)", &[], &["1"]),
        ("id in (null)", &[], &[]),
        ("id = null", &[], &[]),
        ("id = '2'", &[], &["2"]),
    ];
    for (says, values, ids) in cases {
        assert_eq!(ask(&db, &format!("select id from c where {says} limit 5"), values), ids, "{says}");
    }
    for cast in ["select id + ?::int from c where id = 1", "select id from c where id = ?::int"] {
        assert_eq!(db.prepare(cast).unwrap().parameters()[0].of.to_string(), "Int32", "{cast}");
    }
    for (says, why) in [
        ("id = 'foo'", "c.id is int, and 'foo' is none"),
        ("s = 5", "c.s is a text, and 5 is bigint"),
        ("ts > 'soon'", "c.ts is timestamp, and 'soon' is none"),
    ] {
        let error = db.prepare(&format!("select id from c where id = 1 and {says}")).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    refusal(&db, "select id from c where lower(s) = 'abc' limit 1");
}

#[test]
fn a_null_is_not_equal_to_itself() {
    let (db, _) = counted();
    script(&db, "create table y (id int primary key, y int); insert into y values (1, null), (2, 5)");
    assert_eq!(ask(&db, "select id from y where id in (1, 2) and y = y", &[]), ["2"]);
}

#[test]
fn long_chains_are_refused_and_do_not_crash() {
    let (db, _) = counted();
    script(
        &db,
        "create table y (id int primary key, y int, cardinality limit 5 ()); insert into y values (1, 1)",
    );
    for (link, first) in
        [(" or y = 1", "y = 1"), (" and y = 1", "y = 1"), (" + 1", "y = 1"), (" || 'a'", "'a' = 'a'")]
    {
        let chain = |length: usize| format!("select id from y where {first}{}", link.repeat(length));
        db.prepare(&chain(400)).unwrap();
        let error = db.prepare(&chain(20_000)).unwrap_err().to_string();
        assert!(error.contains("operators in a row"), "{error}");
    }
    let rows: Vec<String> = (0..2000).map(|id| format!("(-{id} - 1, -1)")).collect();
    db.execute(&format!("create table z (id int primary key, y int); {}", ""), &[]).unwrap();
    db.prepare(&format!("insert into z values {}", rows.join(", "))).unwrap();
}
