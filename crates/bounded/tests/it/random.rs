//! Random schemas, rows up to the limits, random bounded queries: the answers are those of an ordinary SQL
//! engine over the same rows, and no call asks for more than was proven.

use crate::stores::{Kind, everywhere};
use crate::support::{Dice, counted, over, rows, script};
use datafusion::arrow::array::RecordBatch;
use datafusion::prelude::SessionContext;

/// A type, and some values of it as they are written.
const TYPES: [(&str, [&str; 5]); 6] = [
    ("int", ["-3", "0", "1", "7", "null"]),
    ("bigint", ["-30000000000", "0", "2", "9", "null"]),
    ("varchar(5)", ["''", "'a'", "'ab'", "'b'", "null"]),
    ("double", ["-1.5", "0.0", "2.25", "1000.0", "null"]),
    ("date", ["date '1999-12-31'", "date '2000-01-01'", "date '2020-02-29'", "date '2021-01-01'", "null"]),
    ("decimal(8, 2)", ["-1.25", "0.00", "3.10", "99.99", "null"]),
];

struct World {
    schema: String,
    rows: Vec<String>,
    limit: u64,
    x: (&'static str, [&'static str; 5]),
    y: (&'static str, [&'static str; 5]),
}

fn world(dice: &mut Dice) -> World {
    let (x, y) = (*dice.one(&TYPES), *dice.one(&TYPES));
    let limit = 1 + dice.roll(6);
    // A key of its own: then indexes have to be followed to the rows.
    let key = dice.one(&["(p, seq)", "(seq, p)", "(id)"]);
    let schema = format!(
        "create table parents (k int primary key, v varchar(10) not null);
         create table children (p int not null references parents, seq int, x {}, y {}, q int references parents,
            id int not null, primary key {key}, cardinality limit {limit} (p))",
        x.0, y.0
    );
    let mut rows = vec!["insert into parents values (0, 'v0'), (1, 'v1'), (2, 'v0'), (3, 'v2')".to_string()];
    for p in 0..4 {
        // All parents but one have as many children as they may.
        let children = if p == 3 { dice.roll(limit + 1) } else { limit };
        for seq in 0..children {
            let q = if dice.roll(3) == 0 { "null".to_string() } else { dice.roll(4).to_string() };
            rows.push(format!(
                "insert into children values ({p}, {seq}, {}, {}, {q}, {})",
                dice.one(&x.1),
                dice.one(&y.1),
                7 * seq + 100 - 20 * p
            ));
        }
    }
    World { schema, rows, limit, x, y }
}

fn query(dice: &mut Dice, world: &World) -> String {
    let value = |dice: &mut Dice, of: &[&'static str; 5]| *dice.one(&of[..4]);
    let mut filters = Vec::new();
    let ops = ["=", "<", "<=", ">", ">=", "<>"];
    if dice.roll(2) == 0 {
        filters.push(format!("c.x {} {}", dice.one(&ops), value(dice, &world.x.1)));
    }
    if dice.roll(2) == 0 {
        filters.push(format!("c.y {} {}", dice.one(&ops), value(dice, &world.y.1)));
    }
    if dice.roll(4) == 0 {
        filters.push(format!("c.seq between {} and {}", dice.roll(3), dice.roll(6)));
    }
    if dice.roll(6) == 0 {
        filters.push("c.x is null".to_string());
    }
    if dice.roll(5) == 0 {
        filters.push("c.q is not null".to_string());
    }
    if dice.roll(5) == 0 {
        let ops = dice.one(&["<", "<=", ">", ">="]);
        filters.push(format!("(c.seq, c.id) {ops} ({}, {})", dice.roll(4), 40 + dice.roll(90)));
    }
    if dice.roll(6) == 0 {
        filters.push(format!("(c.seq = {} or c.seq in (1, {}))", dice.roll(4), dice.roll(4)));
    }
    if dice.roll(3) == 0 && world.x.0.starts_with("varchar") {
        filters.push(format!("c.x {}", dice.one(&["like 'a%'", "like '%b'", "not like 'a%'", "like ''"])));
    }
    if dice.roll(3) == 0 {
        let x = value(dice, &world.x.1);
        filters.push(subquery(dice, x));
    }
    let start = match dice.roll(3) {
        0 => format!("c.p in ({}, {}, {})", dice.roll(4), dice.roll(4), dice.roll(5)),
        _ => format!("c.p = {}", dice.roll(4)),
    };
    filters.push(start);
    let (joins, columns) = match dice.roll(4) {
        0 => ("join parents a on a.k = c.p", "c.p, c.seq, c.x, a.v"),
        1 => ("left join parents a on a.k = c.q", "c.p, c.seq, c.y, a.v"),
        2 => ("join parents a on a.k = c.q", "c.p, c.seq, c.q, a.v"),
        _ => ("", "c.p, c.seq, c.x, c.y"),
    };
    let filters = filters.join(" and ");
    if dice.roll(5) == 0 {
        return format!(
            "select c.y, count(*), count(c.x), min(c.x), max(c.seq) from children c {joins} where {filters} group by c.y order by c.y"
        );
    }
    let direction = *dice.one(&["", " desc"]);
    let order = dice.one(&[
        "c.x{d}, c.p{d}, c.seq{d}",
        "c.y{d}, c.seq{d}, c.p{d}",
        "c.seq{d}, c.p{d}",
        "c.y{d}, c.x, c.p, c.seq",
    ]);
    let order = order.replace("{d}", direction);
    let limit = match dice.roll(3) {
        0 => String::new(),
        _ => format!(" limit {}", 1 + dice.roll(8)),
    };
    format!("select {columns} from children c {joins} where {filters} order by {order}{limit}")
}

/// `(a, b) < (x, y)` in other words: the ordinary engine does not compare rows so.
fn without_rows(sql: &str) -> String {
    let Some((before, rest)) = sql.split_once("(c.seq, c.id) ") else { return sql.to_string() };
    let ((op, rest), close) = (rest.split_once(" (").unwrap(), rest.find(')').unwrap());
    let (values, behind) = rest.split_at(close - op.len() - 2);
    let (x, y) = values.split_once(", ").unwrap();
    let strict = op.trim_end_matches('=');
    format!("{before}(c.seq {strict} {x} or c.seq = {x} and c.id {op} {y}){}", &behind[1..])
}

/// A predicate with a subquery.
fn subquery(dice: &mut Dice, x: &str) -> String {
    let op = dice.one(&["=", "<", "<>"]);
    let inner = dice.one(&[
        "exists (select 1 from parents s where s.k = c.q)",
        "exists (select 1 from parents s where s.k = c.q and s.v = 'v0')",
        "exists (select 1 from children s where s.p = c.q and s.x {op} {x})",
        "exists (select 1 from children s where s.p = c.p and s.seq > c.seq)",
        "exists (select 1 from children s where s.q = c.p)",
        "c.p in (select k from parents where v = 'v0')",
        "(select count(s.x) from children s where s.p = c.q and s.seq >= 1) > 1",
        "(select min(s.x) from children s where s.p = c.q) {op} {x}",
        "c.p in (select s.p from children s where s.seq >= 2)",
        "c.p in (select s.p from children s where s.p = 1 and s.x {op} {x})",
    ]);
    let inner = inner.replace("{op}", op).replace("{x}", x);
    match dice.roll(4) {
        0 => format!("not {inner}"),
        1 => format!("(c.seq < 1 or {inner})"),
        2 => format!("(c.seq >= 1 or not {inner})"),
        _ => inner,
    }
}

async fn ordinary(context: &SessionContext, sql: &str) -> Vec<String> {
    let batches =
        context.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).collect().await.unwrap();
    batches.iter().flat_map(rows).collect()
}

fn table(batch: RecordBatch) -> std::sync::Arc<datafusion::datasource::MemTable> {
    std::sync::Arc::new(datafusion::datasource::MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap())
}

/// How many times as many queries as usual; `make fuzz` says so.
fn times() -> u64 {
    std::env::var("WHIMBREL_FUZZ").map_or(1, |times| times.parse().unwrap())
}

#[test]
fn answers_and_bounds() {
    // A server takes its time for rows.
    everywhere(|kind| compare(kind, times() * if kind.is_remote() { 10 } else { 60 }));
}

fn compare(kind: Kind, seeds: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut compared, mut found) = (0, 0);
    for seed in 0..seeds {
        let mut dice = Dice(seed);
        let world = world(&mut dice);
        let (db, store) = over(kind.fresh());
        script(&db, &world.schema);
        world.rows.iter().for_each(|row| script(&db, row));
        let context = SessionContext::new();
        context.sql("set datafusion.sql_parser.parse_float_as_decimal = true").into_ok_on(&runtime);
        for name in ["parents", "children"] {
            let all =
                db.execute(&format!("select * from {name} allow unbounded 'test'"), &[]).unwrap().unwrap();
            context.register_table(name, table(all.batch)).unwrap();
        }
        for _ in 0..25 {
            let sql = query(&mut dice, &world);
            let prepared = match db.prepare(&sql) {
                Ok(prepared) => prepared,
                Err(error) => panic!("seed {seed}: {sql}\n{error}\n{}", world.schema),
            };
            store.take();
            let answer = rows(&prepared.call(&[]).unwrap().batch);
            let used = store.take();
            let bound = prepared.plan().bound;
            let shown = format!(
                "seed {seed}, limit {}: {sql}\n{}\n{used:?}\n{}",
                world.limit,
                prepared.plan(),
                world.schema
            );
            assert!(
                used.requests <= bound.requests && used.rounds <= bound.rounds && used.tuples <= bound.tuples,
                "{shown}"
            );
            if let whimbrel_bounded::Bytes::AtMost(bytes) = bound.bytes {
                assert!(used.bytes <= bytes, "{shown}");
            }
            assert_eq!(answer, runtime.block_on(ordinary(&context, &without_rows(&sql))), "{shown}");
            compared += 1;
            found += answer.len();
        }
    }
    assert!(compared == 25 * seeds && found > 12 * seeds as usize, "{compared} {found}");
}

/// A future's result, on this runtime.
trait Wait {
    fn into_ok_on(self, runtime: &tokio::runtime::Runtime);
}

impl<F, T, E: std::fmt::Debug> Wait for F
where
    F: std::future::Future<Output = Result<T, E>>,
{
    fn into_ok_on(self, runtime: &tokio::runtime::Runtime) {
        runtime.block_on(self).map(|_| ()).unwrap();
    }
}

#[test]
fn at_the_limits_a_call_takes_what_was_proven() {
    for limit in [1, 3, 17] {
        let (db, store) = counted();
        script(
            &db,
            &format!(
                "create table f (o int, t int not null, primary key (o, t), cardinality limit {limit} (o));
             create table p (o int, at int, x int, primary key (o, at));
             create table u (id int primary key, n int)"
            ),
        );
        for other in 0..limit {
            db.execute("insert into f values (1, ?)", &[other.into()]).unwrap();
            db.execute("insert into u values (?, 1)", &[other.into()]).unwrap();
            for at in 0..12 {
                db.execute("insert into p values (?, ?, ?)", &[other.into(), at.into(), (at % 3).into()])
                    .unwrap();
            }
        }
        for sql in [
            "select * from f where o = 1",
            "select u.* from f join u on u.id = f.t where f.o = 1",
            "select p.* from f join p on p.o = f.t where f.o = 1 order by p.at desc limit 10",
            "select p.* from f join p on p.o = f.t where f.o = 1 order by p.x, p.at limit 10",
            "select p.*, u.* from f join p on p.o = f.t join u on u.id = f.t where f.o = 1 order by p.at limit 3",
        ] {
            let query = db.prepare(sql).unwrap();
            store.take();
            query.call(&[]).unwrap();
            let used = store.take();
            let bound = query.plan().bound;
            assert_eq!(
                (used.requests, used.rounds),
                (bound.requests, bound.rounds),
                "{limit}: {sql}\n{}",
                query.plan()
            );
        }
    }
}
