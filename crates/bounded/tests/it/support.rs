//! Databases for tests, and ways to look at what they return.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::array_value_to_string;
use std::sync::Arc;
use whimbrel_bounded::{Argument, Database, Error, MemoryStore, Observed, Refusal, Store};

/// A store of any kind.
pub type Any = Box<dyn Store>;

/// A database over a store in memory that counts.
pub fn counted() -> (Database, Arc<Observed<Any>>) {
    over(MemoryStore::default())
}

pub fn over(store: impl Store + 'static) -> (Database, Arc<Observed<Any>>) {
    let store = Arc::new(Observed::new(Box::new(store) as Any));
    (Database::open(store.clone()).unwrap(), store)
}

pub fn script(db: &Database, statements: &str) {
    for statement in statements.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        db.execute(statement, &[]).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// Rows as text, in order: `a|b`.
pub fn rows(batch: &RecordBatch) -> Vec<String> {
    let row = |row: usize| {
        let values = batch.columns().iter().map(|column| match column.is_null(row) {
            true => "null".to_string(),
            false => array_value_to_string(column, row).unwrap(),
        });
        values.collect::<Vec<_>>().join("|")
    };
    (0..batch.num_rows()).map(row).collect()
}

pub fn ask(db: &Database, sql: &str, arguments: &[Argument]) -> Vec<String> {
    rows(&db.execute(sql, arguments).unwrap_or_else(|error| panic!("{sql}: {error}")).unwrap().batch)
}

/// Requests and rounds of a query, as they were proven.
pub fn bound(db: &Database, sql: &str) -> (u64, u64) {
    let compiled = db.compile(sql).unwrap_or_else(|error| panic!("{sql}\n{error}"));
    (compiled.plan.bound.requests, compiled.plan.bound.rounds)
}

pub fn refusal(db: &Database, sql: &str) -> Refusal {
    match db.compile(sql) {
        Err(Error::Unbounded(refusal)) => *refusal,
        Err(other) => panic!("{sql}: {other}"),
        Ok(compiled) => panic!("{sql} was taken:\n{compiled}"),
    }
}

/// Random numbers that are the same everywhere.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % sides
    }

    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.roll(of.len() as u64) as usize]
    }
}
