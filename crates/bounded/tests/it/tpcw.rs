//! The queries of TPC-W's fourteen web interactions (piql.txt §8.1.1, Table 1): bounds and verdicts.

use crate::support::{ask, bound, counted, refusal, script};

const SCHEMA: &str = "
    create table country (co_id int primary key, co_name varchar(50), unique (co_name), cardinality limit 92 ());
    create table author (a_id int primary key, a_fname varchar(20), a_lname varchar(20));
    create table address (addr_id int primary key, street1 varchar(40), street2 varchar(40), city varchar(30),
        state varchar(20), zip varchar(10), addr_co_id int not null references country);
    create table customer (c_uname varchar(20) primary key, c_addr_id int not null references address,
        c_passwd varchar(20), c_fname varchar(15), c_lname varchar(15), c_discount double);
    create table item (i_id int primary key, i_a_id int not null references author, i_title varchar(60),
        i_subject varchar(60), i_pub_date date, i_related1 int, i_related2 int, i_related3 int, i_related4 int,
        i_related5 int, i_stock int, i_cost decimal(15, 2), cardinality limit 1000 (i_a_id));
    create table orders (o_id int primary key, o_c_uname varchar(20) not null references customer,
        o_date_time timestamp not null, o_total decimal(15, 2), o_bill_addr_id int not null references address,
        o_ship_addr_id int not null references address, o_status varchar(15));
    create table cc_xact (cx_o_id int primary key references orders, cx_type varchar(10));
    create table order_line (ol_o_id int references orders, ol_id int, ol_i_id int not null references item,
        ol_qty int, primary key (ol_o_id, ol_id), cardinality limit 100 (ol_o_id));
    create table shopping_cart_line (scl_c_uname varchar(20), scl_i_id int not null references item, scl_qty int,
        primary key (scl_c_uname, scl_i_id), cardinality limit 100 (scl_c_uname));
    create index item_by_title on item (token(i_title), i_title, i_a_id)";

const NEW_PRODUCTS: &str = "select i_id, i_title, a_fname, a_lname from item, author
    where i_a_id = a_id and i_subject like [token] ? order by i_pub_date desc, i_title limit 50";
const BY_AUTHOR: &str = "select i_id, i_title, a_fname, a_lname
    from (select a_id, a_fname, a_lname from author where (a_fname, a_lname) like [token] ? limit 50) a
    join item on i_a_id = a.a_id order by i_title limit 50";
const BY_TITLE: &str = "select i_id, i_title, a_fname, a_lname from item, author
    where i_a_id = a_id and i_title like [token] ? order by i_title limit 50";
const BY_SUBJECT: &str = "select i_id, i_title, a_fname, a_lname from item, author
    where i_a_id = a_id and i_subject like [token] ? order by i_title limit 50";
const CART: &str = "select * from shopping_cart_line join item on scl_i_id = i_id where scl_c_uname = ?";
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
    let golden: [(&str, (u64, u64)); 18] = [
        ("select c_fname, c_lname from customer where c_uname = ?", (1, 1)),
        (
            "select i_related1, i_related2, i_related3, i_related4, i_related5 from item where i_id = ?",
            (1, 1),
        ),
        (NEW_PRODUCTS, (101, 3)),
        ("select * from item, author where a_id = i_a_id and i_id = ?", (2, 2)),
        (BY_AUTHOR, (101, 3)),
        (BY_TITLE, (51, 2)),
        (BY_SUBJECT, (101, 3)),
        (CART, (101, 2)),
        (
            "select * from customer join address on c_addr_id = addr_id join country on addr_co_id = co_id where c_uname = ?",
            (3, 3),
        ),
        ("select co_id from country where co_name = ?", (2, 2)),
        (
            "select * from address where street1 = ? and street2 = ? and city = ? and state = ? and zip = ? and addr_co_id = ? limit 1",
            (1, 1),
        ),
        ("select * from customer where c_uname = ?", (1, 1)),
        ("select * from orders where o_c_uname = ? order by o_date_time desc limit 1", (2, 2)),
        (
            "select * from (select * from orders where o_c_uname = ? order by o_date_time desc limit 1) o
            join address b on b.addr_id = o.o_bill_addr_id join country bc on bc.co_id = b.addr_co_id
            join address s on s.addr_id = o.o_ship_addr_id join country sc on sc.co_id = s.addr_co_id",
            (1 + 1 + 4, 6),
        ),
        ("select * from order_line join item on ol_i_id = i_id where ol_o_id = ?", (101, 2)),
        ("select * from cc_xact where cx_o_id = ?", (1, 1)),
        ("select co_name from country order by co_name", (1, 1)),
        (
            "select count(*), sum(scl_qty * i_cost) from shopping_cart_line join item on scl_i_id = i_id where scl_c_uname = ?",
            (101, 2),
        ),
    ];
    for (sql, expected) in golden {
        assert_eq!(bound(&db, sql), expected, "{sql}\n{}", db.compile(sql).unwrap());
    }
}

#[test]
fn indexes_are_those_of_the_paper() {
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
    assert_eq!(made(NEW_PRODUCTS), ["item(token(i_subject), i_pub_date, i_title desc)"]);
    assert_eq!(made(BY_SUBJECT), ["item(token(i_subject), i_title)"]);
    assert_eq!(made(BY_AUTHOR), ["author(token(a_fname, a_lname))", "item(i_a_id, i_title)"]);
    assert_eq!(made(BY_TITLE), Vec::<String>::new());
    assert_eq!(
        made("select * from orders where o_c_uname = ? order by o_date_time desc limit 1"),
        ["orders(o_c_uname, o_date_time)"]
    );
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
