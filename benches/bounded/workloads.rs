//! SCADr and TPC-W (piql.txt §8.1): schemas, the queries that have a bound with their bounds, and rows up to
//! every limit.
//!
//! Invariant: with the rows of `fill` a call of a query makes as many requests as its bound says, and every
//! text is as long as its column, so a prediction at the bound and a measurement speak of the same work.

use whimbrel_bounded::{Argument, Database};

/// A benchmark.
pub struct Workload {
    pub name: &'static str,
    pub schema: &'static str,
    pub queries: &'static [Query],
    pub fill: fn(&Database),
}

/// A query of it.
pub struct Query {
    pub name: &'static str,
    pub sql: &'static str,
    /// Requests and rounds.
    pub bound: (u64, u64),
    /// The arguments of one call or another.
    pub arguments: fn(usize) -> Vec<Argument>,
}

/// Runs statements that are parted by semicolons.
pub fn script(db: &Database, statements: &str) {
    for statement in statements.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        db.execute(statement, &[]).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// Inserts a row for each number.
fn insert(db: &Database, sql: &str, rows: usize, row: impl Fn(usize) -> Vec<Argument>) {
    let insert = db.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    (0..rows).for_each(|at| {
        insert.call(&row(at)).unwrap_or_else(|error| panic!("{sql}, row {at}: {error}"));
    });
}

/// A text of this length that begins with a name.
fn text(name: String, length: usize) -> Argument {
    format!("{name:x<length$}").into()
}

fn number(at: usize) -> Argument {
    (at as i32).into()
}

/// SCADr.
pub mod scadr {
    use super::*;

    pub const SCHEMA: &str = "
    create table users (username varchar(20) primary key, home_town varchar(40), password varchar(40));
    create table thoughts (owner varchar(20) references users, timestamp int, text varchar(140),
        primary key (owner, timestamp));
    create table subscriptions (owner varchar(20) references users, target varchar(20) references users,
        approved boolean, primary key (owner, target), cardinality limit 100 (owner));
    create table tags (owner varchar(20), timestamp int, word varchar(20),
        primary key (owner, timestamp, word), cardinality limit 20 (owner, timestamp))";

    pub const FIND_USER: &str = "select * from users where username = ?";
    pub const MY_THOUGHTS: &str =
        "select * from thoughts where owner = ? order by timestamp desc paginate 10";
    pub const FOLLOWED: &str =
        "select u.* from subscriptions s join users u on s.target = u.username where s.owner = ? paginate 10";
    pub const STREAM: &str = "select t.* from subscriptions s join thoughts t on t.owner = s.target
    where s.owner = ? and s.approved order by t.timestamp desc limit 10";
    pub const FOLLOWING: &str =
        "select u.* from subscriptions s join users u on u.username = s.owner where s.target = ? paginate 10";
    pub const SUBSCRIPTION: &str = "select * from subscriptions where owner = ? and target = ?";
    pub const INTERSECTION: &str = "select * from subscriptions where target = ? and owner in (? limit 50)";

    pub const WORKLOAD: Workload = Workload {
        name: "SCADr",
        schema: SCHEMA,
        queries: &[
            Query { name: "find user", sql: FIND_USER, bound: (1, 1), arguments: one },
            Query { name: "my thoughts", sql: MY_THOUGHTS, bound: (1, 1), arguments: one },
            Query { name: "users followed", sql: FOLLOWED, bound: (11, 2), arguments: one },
            Query { name: "thought stream", sql: STREAM, bound: (101, 2), arguments: one },
            Query { name: "users following", sql: FOLLOWING, bound: (11, 2), arguments: one },
            Query { name: "find subscription", sql: SUBSCRIPTION, bound: (1, 1), arguments: pair },
            Query { name: "subscriber intersection", sql: INTERSECTION, bound: (50, 1), arguments: friends },
        ],
        fill,
    };

    const USERS: usize = 120;
    const FOLLOWS: usize = 100;
    const THOUGHTS: usize = 12;

    pub fn user(at: usize) -> Argument {
        format!("user{:016}", at % USERS).into()
    }

    fn one(at: usize) -> Vec<Argument> {
        vec![user(at)]
    }

    fn pair(at: usize) -> Vec<Argument> {
        vec![user(at), user(at + 1 + at % FOLLOWS)]
    }

    /// A target and fifty of those that follow it.
    fn friends(at: usize) -> Vec<Argument> {
        let friends = (1..=50).map(|back| format!("user{:016}", (at + USERS - back) % USERS));
        vec![user(at), Argument::list(friends)]
    }

    fn fill(db: &Database) {
        insert(db, "insert into users values (?, ?, ?)", USERS, |at| {
            vec![user(at), text(format!("town{at}"), 40), text(format!("secret{at}"), 40)]
        });
        insert(db, "insert into subscriptions values (?, ?, true)", USERS * FOLLOWS, |at| {
            vec![user(at / FOLLOWS), user(at / FOLLOWS + 1 + at % FOLLOWS)]
        });
        insert(db, "insert into thoughts values (?, ?, ?)", USERS * THOUGHTS, |at| {
            vec![user(at), number(at), text(format!("thought {at} "), 140)]
        });
    }
}

/// TPC-W.
pub mod tpcw {
    use super::*;

    pub const SCHEMA: &str = "
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

    pub const NEW_PRODUCTS: &str = "select i_id, i_title, a_fname, a_lname from item, author
    where i_a_id = a_id and i_subject like [token] ? order by i_pub_date desc, i_title limit 50";
    pub const BY_AUTHOR: &str = "select i_id, i_title, a_fname, a_lname
    from (select a_id, a_fname, a_lname from author where (a_fname, a_lname) like [token] ? limit 50) a
    join item on i_a_id = a.a_id order by i_title limit 50";
    pub const BY_TITLE: &str = "select i_id, i_title, a_fname, a_lname from item, author
    where i_a_id = a_id and i_title like [token] ? order by i_title limit 50";
    pub const BY_SUBJECT: &str = "select i_id, i_title, a_fname, a_lname from item, author
    where i_a_id = a_id and i_subject like [token] ? order by i_title limit 50";
    pub const CART: &str =
        "select * from shopping_cart_line join item on scl_i_id = i_id where scl_c_uname = ?";
    pub const LAST_ORDER: &str = "select * from orders where o_c_uname = ? order by o_date_time desc limit 1";

    pub const WORKLOAD: Workload = Workload {
        name: "TPC-W",
        schema: SCHEMA,
        queries: &[
            Query {
                name: "home",
                sql: "select c_fname, c_lname from customer where c_uname = ?",
                bound: (1, 1),
                arguments: customer,
            },
            Query {
                name: "promotions",
                sql: "select i_related1, i_related2, i_related3, i_related4, i_related5 from item where i_id = ?",
                bound: (1, 1),
                arguments: item,
            },
            Query { name: "new products", sql: NEW_PRODUCTS, bound: (51, 2), arguments: subject },
            Query {
                name: "product detail",
                sql: "select * from item, author where a_id = i_a_id and i_id = ?",
                bound: (2, 2),
                arguments: item,
            },
            Query {
                name: "search by author",
                sql: BY_AUTHOR,
                bound: (101, 3),
                arguments: |_| vec!["ann".into()],
            },
            Query {
                name: "search by title",
                sql: BY_TITLE,
                bound: (51, 2),
                arguments: |_| vec!["the".into()],
            },
            Query { name: "search by subject", sql: BY_SUBJECT, bound: (51, 2), arguments: subject },
            Query { name: "shopping cart", sql: CART, bound: (101, 2), arguments: customer },
            Query {
                name: "buy request",
                sql: "select * from customer join address on c_addr_id = addr_id
                    join country on addr_co_id = co_id where c_uname = ?",
                bound: (3, 3),
                arguments: customer,
            },
            Query {
                name: "find country",
                sql: "select co_id from country where co_name = ?",
                bound: (2, 2),
                arguments: |at| vec![country(at)],
            },
            Query {
                name: "find address",
                sql: "select * from address where street1 = ? and street2 = ? and city = ? and state = ? and zip = ?
                    and addr_co_id = ? limit 1",
                bound: (1, 1),
                arguments: |at| address(at % ADDRESSES)[1..].to_vec(),
            },
            Query {
                name: "order display: customer",
                sql: "select * from customer where c_uname = ?",
                bound: (1, 1),
                arguments: customer,
            },
            Query {
                name: "order display: last order",
                sql: LAST_ORDER,
                bound: (2, 2),
                arguments: customer,
            },
            Query {
                name: "order display: addresses",
                sql: "select * from (select * from orders where o_c_uname = ? order by o_date_time desc limit 1) o
                    join address b on b.addr_id = o.o_bill_addr_id join country bc on bc.co_id = b.addr_co_id
                    join address s on s.addr_id = o.o_ship_addr_id join country sc on sc.co_id = s.addr_co_id",
                bound: (6, 6),
                arguments: customer,
            },
            Query {
                name: "order display: lines",
                sql: "select * from order_line join item on ol_i_id = i_id where ol_o_id = ?",
                bound: (101, 2),
                arguments: order,
            },
            Query {
                name: "order display: payment",
                sql: "select * from cc_xact where cx_o_id = ?",
                bound: (1, 1),
                arguments: order,
            },
            Query {
                name: "customer registration: countries",
                sql: "select co_name from country order by co_name",
                bound: (1, 1),
                arguments: |_| vec![],
            },
            Query {
                name: "shopping cart: total",
                sql: "select count(*), sum(scl_qty * i_cost) from shopping_cart_line join item on scl_i_id = i_id
                    where scl_c_uname = ?",
                bound: (101, 2),
                arguments: customer,
            },
        ],
        fill,
    };

    const COUNTRIES: usize = 92;
    const AUTHORS: usize = 60;
    const ITEMS: usize = 50 * AUTHORS;
    const ADDRESSES: usize = 200;
    const CUSTOMERS: usize = 60;
    const LINES: usize = 100;
    const SUBJECTS: usize = 24;

    fn country(at: usize) -> Argument {
        text(format!("country{:02} ", at % COUNTRIES), 50)
    }

    fn customer(at: usize) -> Vec<Argument> {
        vec![format!("customer{:012}", at % CUSTOMERS).into()]
    }

    fn item(at: usize) -> Vec<Argument> {
        vec![number(at * 7919 % ITEMS)]
    }

    fn order(at: usize) -> Vec<Argument> {
        vec![number(at % CUSTOMERS)]
    }

    fn subject(at: usize) -> Vec<Argument> {
        vec![format!("subject{:02}", at % SUBJECTS).into()]
    }

    fn address(at: usize) -> Vec<Argument> {
        let part = |name: &str, length| text(format!("{name}{at} "), length);
        vec![
            number(at),
            part("street", 40),
            part("floor", 40),
            part("city", 30),
            part("state", 20),
            part("zip", 10),
            number(at % COUNTRIES),
        ]
    }

    fn fill(db: &Database) {
        insert(db, "insert into country values (?, ?)", COUNTRIES, |at| vec![number(at), country(at)]);
        insert(db, "insert into author values (?, 'ann', ?)", AUTHORS, |at| {
            vec![number(at), text(format!("author{at}"), 20)]
        });
        insert(db, "insert into address values (?, ?, ?, ?, ?, ?, ?)", ADDRESSES, address);
        insert(db, "insert into customer values (?, ?, 'password', ?, ?, 0.1)", CUSTOMERS, |at| {
            let name = customer(at).swap_remove(0);
            vec![
                name,
                number(at * 3 % ADDRESSES),
                text(format!("first{at}"), 15),
                text(format!("last{at}"), 15),
            ]
        });
        let items = "insert into item values (?, ?, ?, ?, date '2011-08-29', 1, 2, 3, 4, 5, 100, 9.99)";
        insert(db, items, ITEMS, |at| {
            let title = text(format!("the book{at:05} "), 60);
            vec![number(at), number(at % AUTHORS), title, text(format!("subject{:02} ", at % SUBJECTS), 60)]
        });
        let orders =
            "insert into orders values (?, ?, timestamp '2011-08-29 12:00:00', 9.99, ?, ?, 'shipped')";
        insert(db, orders, CUSTOMERS, |at| {
            let name = customer(at).swap_remove(0);
            vec![number(at), name, number(at * 5 % ADDRESSES), number(at * 7 % ADDRESSES)]
        });
        insert(db, "insert into cc_xact values (?, 'visa')", CUSTOMERS, |at| vec![number(at)]);
        insert(db, "insert into order_line values (?, ?, ?, 1)", CUSTOMERS * LINES, |at| {
            vec![number(at / LINES), number(at % LINES), number(at * 31 % ITEMS)]
        });
        insert(db, "insert into shopping_cart_line values (?, ?, 1)", CUSTOMERS * LINES, |at| {
            let name = customer(at / LINES).swap_remove(0);
            vec![name, number((at / LINES * 7 + at % LINES * 29) % ITEMS)]
        });
    }
}
