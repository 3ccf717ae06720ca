//! Asof joins.

use crate::support::*;
use whimbrel_sql::Session;

fn market() -> Session {
    with("
        create table trade as select * from (values ('a', 1), ('a', 5), ('b', 5), ('c', 9), (null, 9)) as t(k, t);
        create table quote as select * from (values ('a', 2, 20), ('a', 5, 50), ('b', 1, null), (null, 1, 1), ('a', null, 7)) as q(k, t, price)
    ")
}

#[test]
fn the_last_one_before_is_joined() {
    let mut market = market();
    let on = "on trade.k = quote.k and trade.t >= quote.t";
    check(
        &mut market,
        &format!("select trade.k, trade.t, quote.t, price from trade asof join quote {on} order by 1, 2"),
        &["a 5 5 50", "b 5 1 null"],
    );
    check(
        &mut market,
        &format!(
            "select trade.k, trade.t, quote.t, price from trade asof left join quote {on} order by 1, 2"
        ),
        &["a 1 null null", "a 5 5 50", "b 5 1 null", "c 9 null null", "null 9 null null"],
    );
    check(
        &mut market,
        "select k, t, price from trade asof join quote using (k, t) order by 1, 2",
        &["a 5 50", "b 5 null"],
    );
}

#[test]
fn every_comparison_has_its_meaning() {
    let mut market = market();
    let query = |op: &str| {
        format!("select x.t, q.t from trade x asof join quote q on q.k = x.k and q.t {op} x.t order by 1, 2")
    };
    check(&mut market, &query("<"), &["5 1", "5 2"]);
    check(&mut market, &query("<="), &["5 1", "5 5"]);
    check(&mut market, &query(">"), &["1 2"]);
    check(&mut market, &query(">="), &["1 2", "5 5"]);
}

#[test]
fn it_is_one_relation_among_others() {
    let mut market = market();
    check(
        &mut market,
        "select count(*), sum(q.price) from trade a join trade b on a.k = b.k asof join quote q on a.k = q.k and a.t >= q.t join quote r on r.k = a.k and r.t = 5",
        &["2 100"],
    );
    check(&mut market, "select max(quote.t) from trade asof join quote on trade.t > quote.t", &["5"]);
}

#[test]
fn wrong_conditions() {
    let mut market = market();
    assert!(
        wrong(&mut market, "select * from trade asof join quote on trade.k = quote.k")
            .contains("how the times compare")
    );
    assert!(
        wrong(&mut market, "select * from trade asof join quote on trade.t > 1").contains("does not compare")
    );
}
