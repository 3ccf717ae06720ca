//! The database handle of an application.

use super::compiled::Compiled;
use super::engine::{Engine, changes_schema};
use super::explain::Explain;
use super::options::Options;
use super::prepared::Prepared;
use crate::arguments::Argument;
use crate::catalog;
use crate::error::{Error, Result};
use crate::execute::Page;
use crate::mutation::Versions;
use crate::schema::{Change, Removal, Schema};
use crate::store::{self, Closable, Store};
use crate::syntax::{self, Dialect};
use crate::views::Command;
use crate::write::{self, Repaired};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use whimbrel_sql::Session;

/// A database; clones are the same one.
#[derive(Clone)]
pub struct Database {
    pub(crate) engine: Arc<Engine>,
}

impl Database {
    /// Opens the database that a store holds; an empty store is an empty database.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer, `Internal` if it holds something else.
    pub fn open(store: impl Store + 'static) -> Result<Database> {
        Database::open_with(store, Options::default())
    }

    /// The same, with options.
    ///
    /// # Errors
    /// As [`open`](Database::open).
    pub fn open_with(store: impl Store + 'static, options: Options) -> Result<Database> {
        Database::from_store(Closable::new(Box::new(store)), options)
    }

    /// Opens the database at an address: the path of a file (`app.redb`), `memory:`,
    /// `postgres://user@host/database?table=app` or `redis://host:port,host:port?name=app`.
    /// What else an address can say is at [`PostgresStore::open`](crate::PostgresStore::open) and
    /// [`RedisStore::open`](crate::RedisStore::open).
    ///
    /// # Errors
    /// `Invalid` if there is no such kind of address; else as [`open`](Database::open).
    ///
    /// ```
    /// # use whimbrel_bounded::{Database, Options};
    /// let db = Database::open_url("memory:", Options::default())?;
    /// db.execute("create table users (name varchar(20) primary key)", &[])?;
    /// assert!(Database::open_url("mysql://host/app", Options::default()).is_err());
    /// # Ok::<(), whimbrel_bounded::Error>(())
    /// ```
    pub fn open_url(url: &str, options: Options) -> Result<Database> {
        Database::from_store(Closable::new(store::open(url)?), options)
    }

    /// Opens the database of a store.
    fn from_store(store: Closable, options: Options) -> Result<Database> {
        let cursor_key = match options.cursor_key {
            Some(key) => key,
            None => catalog::cursor_key(&store)?,
        };
        let schema = catalog::open(&store)?;
        let engine = Engine {
            store,
            options,
            cursor_key,
            versions: Versions::new()?,
            dialect: Dialect::Whimbrel,
            schema: RwLock::new(Arc::new(schema)),
            changing: Mutex::default(),
        };
        Ok(Database { engine: Arc::new(engine) })
    }

    /// A database over a schema that is in no store. It compiles statements, and does not run them.
    pub(crate) fn with_schema(
        store: impl Store + 'static,
        schema: Schema,
        dialect: Dialect,
    ) -> Result<Database> {
        let engine = Engine {
            store: Closable::new(Box::new(store)),
            options: Options::default(),
            cursor_key: [0; 32],
            versions: Versions::new()?,
            dialect,
            schema: RwLock::new(Arc::new(schema)),
            changing: Mutex::default(),
        };
        Ok(Database { engine: Arc::new(engine) })
    }

    /// The schema.
    pub fn schema(&self) -> Arc<Schema> {
        self.engine.schema()
    }

    /// Reads the schema again: another server may have changed it.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer.
    pub fn refresh(&self) -> Result<()> {
        self.engine.refresh()
    }

    /// Runs a statement once: a change of the schema, a view, a write or a query. `explain` before it shows
    /// the plan instead, and `explain slo '99% under 50ms'` says whether that will hold on this store; see
    /// [`predict`](crate::predict). Several statements, with semicolons between them, are run one after the
    /// other; the values are for the last one, and so is the answer.
    ///
    /// # Errors
    /// As [`prepare`](Database::prepare) and [`Prepared::call`].
    ///
    /// ```
    /// # use whimbrel_bounded::{Database, MemoryStore};
    /// # let db = Database::open(MemoryStore::default())?;
    /// let columns = "owner varchar(20), target varchar(20)";
    /// db.execute(&format!("create table follows ({columns}, primary key (owner, target))"), &[])?;
    /// let fans = "select target, count(*) as n from follows group by target";
    /// db.execute(&format!("create materialized view fans as {fans}"), &[])?;
    /// db.execute("insert into follows values ('bob', 'ann'), ('cid', 'ann')", &[])?;
    /// let top = db.prepare("select target, n from fans order by n desc limit 10")?;
    /// assert_eq!((top.plan().bound.requests, top.call(&[])?.batch.num_rows()), (1, 1));
    /// # Ok::<(), whimbrel_bounded::Error>(())
    /// ```
    pub fn execute(&self, sql: &str, arguments: &[Argument]) -> Result<Option<Page>> {
        let statements = Session::split(sql)?;
        let Some((last, before)) = statements.split_last() else {
            return Err(Error::invalid("there is no statement"));
        };
        before.iter().try_for_each(|statement| self.execute_one(statement.text, &[]).map(drop))?;
        // A single statement is not cut out, so that an error names its position in the text.
        self.execute_one(if before.is_empty() { sql } else { last.text }, arguments)
    }

    /// Executes one statement of a script.
    fn execute_one(&self, sql: &str, arguments: &[Argument]) -> Result<Option<Page>> {
        if let Some(explain) = Explain::of(sql)? {
            return self.engine.explain(&explain).map(Some);
        }
        let parsed = syntax::parse(sql)?;
        if let Some(command) = Command::of(&parsed)? {
            return self.engine.change_views(&command).map(|()| None);
        }
        if let Some(removal) = Removal::of(&parsed.statement)? {
            return self.engine.remove(&removal).map(|()| None);
        }
        match Change::of(&parsed)? {
            Some(change) => self.engine.change(&change).map(|()| None),
            None => self.prepare(sql)?.call(arguments).map(Some),
        }
    }

    /// Whether a statement is called with values, and can be prepared: a query or a write. A change of the
    /// schema and an `explain` are executed.
    ///
    /// # Errors
    /// `Invalid` if it cannot be read.
    pub fn takes_values(&self, sql: &str) -> Result<bool> {
        Ok(Explain::of(sql)?.is_none() && !changes_schema(&syntax::parse(sql)?)?)
    }

    /// Compiles a statement, without any request to the store.
    ///
    /// # Errors
    /// `Invalid` if it is wrong, `Unbounded` if it has no bound or one that is too large.
    pub fn compile(&self, sql: &str) -> Result<Compiled> {
        self.engine.compile(sql)
    }

    /// Compiles a statement, makes the indexes that it needs, and makes it ready to be called.
    ///
    /// # Errors
    /// As [`compile`](Database::compile); `Data` if an index cannot be made, `Unavailable` if the store is
    /// away.
    ///
    /// ```
    /// # use whimbrel_bounded::{Database, MemoryStore};
    /// # let db = Database::open(MemoryStore::default())?;
    /// db.execute("create table users (name varchar(20) primary key, town varchar(40))", &[])?;
    /// let find = db.prepare("select town from users where name = :name")?;
    /// println!("{}", find.plan());
    /// assert_eq!(find.call(&["ann".into()])?.batch.num_rows(), 0);
    /// # Ok::<(), whimbrel_bounded::Error>(())
    /// ```
    pub fn prepare(&self, sql: &str) -> Result<Prepared> {
        Prepared::new(self.engine.clone(), sql)
    }

    /// Closes the store. It is free for others, and later calls of statements are refused; calls under way
    /// are answered first.
    pub fn close(&self) {
        self.engine.store.close();
    }

    /// Finishes what a crash left unbuilt, removes stale entries, and finds rows with the same unique key.
    /// `writes_take` has to be longer than any write under way: faulty entries are checked again after that
    /// time.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer; then some was repaired, and the rest can be later.
    pub fn repair(&self, writes_take: Duration) -> Result<Repaired> {
        for table in self.schema().tables().filter(|table| table.is_building()) {
            self.engine.resume_build(&table.name)?;
        }
        write::repair(&self.engine.store, &self.schema(), writes_take)
    }
}
