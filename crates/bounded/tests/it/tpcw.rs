//! The queries of TPC-W's fourteen web interactions (piql.txt §8.1.1, Table 1): bounds and verdicts.

use crate::support::{ask, bound, counted, refusal, script};
use crate::workloads::tpcw::{BY_AUTHOR, BY_SUBJECT, BY_TITLE, LAST_ORDER, NEW_PRODUCTS, SCHEMA, WORKLOAD};

const BEST_SELLERS: &str = "select i_id, i_title, sum(ol_qty) as sold
    from (select o_id from orders order by o_date_time desc limit 3333) o
    join order_line on ol_o_id = o.o_id join item on ol_i_id = i_id
    where i_subject = ? group by i_id, i_title order by sold desc limit 50";
const CO_BOUGHT: &str = "select l2.ol_i_id, sum(l2.ol_qty) as bought
    from (select o_id, o_c_uname from orders order by o_date_time desc limit 10000) o
    join order_line l1 on l1.ol_o_id = o.o_id join order_line l2 on l2.ol_o_id = o.o_id
    where l1.ol_i_id = ? group by l2.ol_i_id order by bought desc limit 5";

#[test]
fn bounds() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    for query in WORKLOAD.queries {
        assert_eq!(bound(&db, query.sql), query.bound, "{}\n{}", query.sql, db.compile(query.sql).unwrap());
    }
}

#[test]
fn indexes_are_those_of_the_paper_and_lead_on() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    let made = |sql: &str| {
        let plan = db.compile(sql).unwrap().plan;
        let schema = db.schema();
        plan.new_indexes
            .iter()
            .map(|(table, index)| index.describe(schema.table(table).unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(made(NEW_PRODUCTS), ["item(token(i_subject), i_pub_date, i_title desc, i_a_id)"]);
    assert_eq!(made(BY_SUBJECT), ["item(token(i_subject), i_title, i_a_id)"]);
    assert_eq!(made(BY_AUTHOR), ["author(token(a_fname, a_lname))", "item(i_a_id, i_title)"]);
    assert_eq!(made(BY_TITLE), Vec::<String>::new());
    assert_eq!(made(LAST_ORDER), ["orders(o_c_uname, o_date_time)"]);
}

#[test]
fn analytical_queries_are_refused_with_a_fix() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    for sql in [BEST_SELLERS, CO_BOUGHT] {
        let refused = refusal(&db, sql);
        let fix = refused.fixes.first().unwrap_or_else(|| panic!("{refused}"));
        assert_eq!(db.compile(&fix.paste).unwrap().plan.bound, fix.bound, "{refused}");
        assert!(db.compile(&format!("{sql} allow unbounded 'nightly'")).unwrap().plan.allowed.is_some());
    }
}

#[test]
fn search_finds_words() {
    let (db, store) = counted();
    script(&db, SCHEMA);
    script(&db, "insert into author values (1, 'Ursula', 'Le Guin'), (2, 'Stanislaw', 'Lem')");
    let items = [
        (1, 1, "The Dispossessed", "SCIENCE"),
        (2, 2, "Solaris", "SCIENCE FICTION"),
        (3, 1, "The Word for World", "FICTION"),
    ];
    let insert = db.prepare("insert into item (i_id, i_a_id, i_title, i_subject, i_pub_date) values (?, ?, ?, ?, date '1970-01-01')").unwrap();
    for (id, author, title, subject) in items {
        insert.call(&[id.into(), author.into(), title.into(), subject.into()]).unwrap();
    }
    assert_eq!(
        ask(&db, BY_TITLE, &["THE".into()]),
        ["1|The Dispossessed|Ursula|Le Guin", "3|The Word for World|Ursula|Le Guin"]
    );
    assert_eq!(ask(&db, BY_AUTHOR, &["guin".into()]).len(), 2);
    assert_eq!(
        ask(&db, NEW_PRODUCTS, &["science".into()]),
        ["2|Solaris|Stanislaw|Lem", "1|The Dispossessed|Ursula|Le Guin"]
    );
    script(&db, "update item set i_title = 'The Lathe' where i_id = 1; delete from item where i_id = 3");
    assert_eq!(ask(&db, BY_TITLE, &["the".into()]), ["1|The Lathe|Ursula|Le Guin"]);
    store.take();
}

/// Admin Confirm as TPC-W writes it: what the customers who bought an item bought with their other orders.
const ADMIN_CONFIRM: &str = "select ol_i_id, sum(ol_qty) as bought from orders join order_line on ol_o_id = o_id
    where not (ol_i_id = :item) and o_c_uname in (select o_c_uname from orders join order_line on ol_o_id = o_id
        where o_id > (select max(o_id) - 10000 from orders) and ol_i_id = :item)
    group by ol_i_id order by bought desc limit 5";

#[test]
fn admin_confirm_is_refused_where_it_has_no_bound() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    let refused = refusal(&db, ADMIN_CONFIRM);
    let reason = "nothing limits how many rows of order_line have the same ol_i_id";
    assert!(refused.reason.ends_with(reason), "{refused}");
    // The table of the subquery, not the one around it.
    let marked = refused.drawing.lines().position(|line| line.ends_with("order_line   <-- no limit here"));
    let subquery = refused.drawing.lines().position(|line| line.trim() == "<subquery>");
    assert!(marked > subquery && subquery.is_some(), "{refused}");
}

#[test]
fn admin_confirm_has_a_fix_that_can_be_executed() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    let refused = refusal(&db, ADMIN_CONFIRM);
    let limits =
        ["order_line add cardinality limit 10 (ol_i_id)", "orders add cardinality limit 10 (o_c_uname)"];
    let fix = refused.fixes.iter().find(|fix| limits.iter().all(|limit| fix.paste.contains(limit)));
    let fix = fix.unwrap_or_else(|| panic!("{refused}"));
    script(&db, &fix.paste);
    db.prepare(ADMIN_CONFIRM).unwrap();
    assert_eq!(db.compile(ADMIN_CONFIRM).unwrap().plan.bound, fix.bound, "{refused}");
    script(
        &db,
        "insert into country values (1, 'here'); insert into address (addr_id, addr_co_id) values (1, 1);
         insert into author (a_id) values (1); insert into item (i_id, i_a_id) values (1, 1), (2, 1), (3, 1);
         insert into customer (c_uname, c_addr_id) values ('ann', 1), ('bob', 1)",
    );
    let order = "insert into orders (o_id, o_c_uname, o_date_time, o_bill_addr_id, o_ship_addr_id)
        values (?, ?, timestamp '2020-01-01', 1, 1)";
    for (id, customer) in [(1, "ann"), (2, "ann"), (3, "bob")] {
        db.execute(order, &[id.into(), customer.into()]).unwrap();
    }
    script(&db, "insert into order_line values (1, 1, 1, 1), (1, 2, 2, 4), (2, 1, 3, 9), (3, 1, 2, 50)");
    assert_eq!(ask(&db, ADMIN_CONFIRM, &[1.into()]), ["3|9", "2|4"]);
    assert_eq!(ask(&db, ADMIN_CONFIRM, &[2.into()]), ["3|9", "1|1"]);
}
