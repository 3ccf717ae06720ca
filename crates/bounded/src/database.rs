//! A database: a store, the schema in it, and statements.
//!
//! Invariant: the schema that is held here is one that the store had. On a store that commits as a whole every write is
//! conditional on it, so a server that has not heard of a new index reads the schema again before it writes.

use crate::compile::{Compiler, Planner, Stuck, stored_alone};
use crate::contention::Contention;
use crate::cursor::Owner;
use crate::dialect::Dialect;
use crate::error::{Error, Result};
use crate::execute::{Argument, Executor, Page};
use crate::lint;
use crate::numbers::Number;
use crate::plan::{Chain, Plan};
use crate::predict::Explain;
use crate::prepared::Prepared;
use crate::refusal::Suggestions;
use crate::schema::{Change, Index, Removal, Removed, Schema};
use crate::store::{self, Atomicity, Closable, Condition, Found, Outcome, Read, Store, Write};
use crate::target::{Target, for_references, returned, written};
use crate::text::{self, Parsed};
use crate::views::{self, Command, Maintained};
use crate::write::{self, Kind, Repaired, Versions};
use datafusion::logical_expr::LogicalPlan;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// How a database is used.
#[derive(Debug, Clone)]
pub struct Options {
    /// How requests are handed to the store.
    pub executor: Executor,
    /// Whether `prepare` makes the indexes that a statement needs.
    pub make_indexes: bool,
    /// The most requests that one call may take; a query with a larger bound is refused.
    pub most_requests: u64,
    /// What cursors are signed with; without it, a key that the store keeps.
    pub cursor_key: Option<[u8; 32]>,
    /// How long a statement is tried again while others change the same rows, or the schema, before it is a
    /// [`Conflict`](Error::Conflict).
    pub conflict_timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            executor: Executor::Parallel,
            make_indexes: true,
            most_requests: 10_000,
            cursor_key: None,
            conflict_timeout: Duration::from_secs(5),
        }
    }
}

/// A database; clones are the same one.
#[derive(Clone)]
pub struct Database {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub store: Closable,
    pub options: Options,
    pub cursor_key: [u8; 32],
    pub versions: Versions,
    dialect: Dialect,
    schema: RwLock<Arc<Schema>>,
    /// Held while the schema changes.
    pub changing: Mutex<()>,
}

/// A statement that was compiled, and not yet prepared.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The plan of the query, or of the query for the rows that a write changes.
    pub plan: Plan,
    pub(crate) write: Option<Target>,
    /// What a write returns: columns of the rows that it wrote.
    pub(crate) returning: Option<Chain>,
    /// Parameters whose values are stored and not looked at: numbers are rounded to what their columns hold.
    pub(crate) stored: BTreeSet<usize>,
    pub(crate) version: u64,
    pub(crate) owner: Owner,
}

impl fmt::Display for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Target { kind, table, .. }) = &self.write {
            writeln!(f, "{kind:?} {}", table.name)?;
        }
        write!(f, "{}", self.plan)?;
        for view in self.write.iter().flat_map(|target| target.views.iter()) {
            write!(f, "\nkeeps {}", view.view.name)?;
            for plan in view.plans() {
                write!(f, ", for each row {}", plan.bound)?;
            }
        }
        Ok(())
    }
}

const SCHEMA: &[u8] = b"\0\0\0\0schema";
const VERSION: &[u8] = b"\0\0\0\0version";
const CURSOR_KEY: &[u8] = b"\0\0\0\0cursor key";

/// Where the store keeps the version of the schema, and what stands there.
pub(crate) fn schema_version(version: u64) -> (Vec<u8>, Vec<u8>) {
    (VERSION.to_vec(), version.to_be_bytes().to_vec())
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
        Database::opened(Closable::new(Box::new(store)), options)
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
        Database::opened(Closable::new(store::open(url)?), options)
    }

    fn opened(store: Closable, options: Options) -> Result<Database> {
        let cursor_key = match options.cursor_key {
            Some(key) => key,
            None => kept_key(&store)?,
        };
        let schema = match value(&store, SCHEMA)? {
            Some(bytes) => {
                let schema = Schema::from_bytes(&bytes)?;
                mend_version(&store, &schema)?;
                schema
            }
            None => {
                let empty = Schema::empty();
                let (key, value) = schema_version(empty.version);
                store.commit(
                    &[Condition::Same { key: key.clone(), value: None }],
                    &[Write::Put(key, value)],
                )?;
                empty
            }
        };
        let inner = Inner {
            store,
            options,
            cursor_key,
            versions: Versions::new()?,
            dialect: Dialect::Whimbrel,
            schema: RwLock::new(Arc::new(schema)),
            changing: Mutex::default(),
        };
        Ok(Database { inner: Arc::new(inner) })
    }

    /// A database over a schema that no store has: to compile statements of a dialect, not to run them.
    pub(crate) fn over(store: impl Store + 'static, schema: Schema, dialect: Dialect) -> Result<Database> {
        let inner = Inner {
            store: Closable::new(Box::new(store)),
            options: Options::default(),
            cursor_key: [0; 32],
            versions: Versions::new()?,
            dialect,
            schema: RwLock::new(Arc::new(schema)),
            changing: Mutex::default(),
        };
        Ok(Database { inner: Arc::new(inner) })
    }

    /// The schema.
    pub fn schema(&self) -> Arc<Schema> {
        self.inner.schema()
    }

    /// Reads the schema again: another server may have changed it.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer.
    pub fn refresh(&self) -> Result<()> {
        self.inner.refresh()
    }

    /// Runs a statement once: a change of the schema, a view, a write or a query. `explain` before it shows the plan
    /// instead, and `explain slo '99% under 50ms'` says whether that will hold on this store; see
    /// [`predict`](crate::predict). Several statements, with semicolons between them, are run one after the other; the
    /// values are for the last one, and so is the answer.
    ///
    /// # Errors
    /// As [`prepare`](Database::prepare) and [`Prepared::call`].
    ///
    /// ```
    /// # use whimbrel_bounded::{Database, MemoryStore};
    /// # let db = Database::open(MemoryStore::default())?;
    /// db.execute("create table follows (owner varchar(20), target varchar(20), primary key (owner, target))", &[])?;
    /// db.execute("create materialized view fans as select target, count(*) as n from follows group by target", &[])?;
    /// db.execute("insert into follows values ('bob', 'ann'), ('cid', 'ann')", &[])?;
    /// let top = db.prepare("select target, n from fans order by n desc limit 10")?;
    /// assert_eq!((top.plan().bound.requests, top.call(&[])?.batch.num_rows()), (1, 1));
    /// # Ok::<(), whimbrel_bounded::Error>(())
    /// ```
    pub fn execute(&self, sql: &str, arguments: &[Argument]) -> Result<Option<Page>> {
        let statements = lint::statements(sql);
        let Some((last, before)) = statements.split_last() else {
            return Err(Error::invalid("there is no statement"));
        };
        before.iter().try_for_each(|statement| self.one(statement, &[]).map(drop))?;
        // Alone it is as it was written, so that an error names its place in the text.
        self.one(if before.is_empty() { sql } else { last }, arguments)
    }

    fn one(&self, sql: &str, arguments: &[Argument]) -> Result<Option<Page>> {
        if let Some(explain) = Explain::of(sql)? {
            return self.inner.explain(&explain).map(Some);
        }
        let parsed = text::parse(sql)?;
        if let Some(command) = Command::of(&parsed)? {
            return self.inner.change_views(&command).map(|()| None);
        }
        if let Some(removal) = Removal::of(&parsed.statement)? {
            return self.inner.remove(&removal).map(|()| None);
        }
        match Change::of(&parsed)? {
            Some(change) => self.inner.change(&change).map(|()| None),
            None => self.prepare(sql)?.call(arguments).map(Some),
        }
    }

    /// Whether a statement is called with values, and can be prepared: a query or a write. A change of the schema and
    /// an `explain` are executed.
    ///
    /// # Errors
    /// `Invalid` if it cannot be read.
    pub fn takes_values(&self, sql: &str) -> Result<bool> {
        Ok(Explain::of(sql)?.is_none() && !changes_schema(&text::parse(sql)?)?)
    }

    /// Compiles a statement; nothing is made and nothing is asked of the store.
    ///
    /// # Errors
    /// `Invalid` if it is wrong, `Unbounded` if it has no bound or one that is too large.
    pub fn compile(&self, sql: &str) -> Result<Compiled> {
        self.inner.compile(sql)
    }

    /// Compiles a statement, makes the indexes that it needs, and makes it ready to be called.
    ///
    /// # Errors
    /// As [`compile`](Database::compile); `Data` if an index cannot be made, `Unavailable` if the store is away.
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
        Prepared::new(self.inner.clone(), sql)
    }

    /// Closes the store: it is free for others, and every later call of a statement is refused. What is being asked
    /// of it now is answered before.
    pub fn close(&self) {
        self.inner.store.close();
    }

    /// Builds what a crash left half built, takes away what it left in the indexes, and looks for rows that have the
    /// same unique key. `writes_take` is longer than any write that is at work takes: what looks broken is looked at
    /// again after that time.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer; then some was repaired, and the rest can be later.
    pub fn repair(&self, writes_take: Duration) -> Result<Repaired> {
        for table in self.schema().tables().filter(|table| table.is_building()) {
            self.inner.finish(&table.name)?;
        }
        write::repair(&self.inner.store, &self.schema(), writes_take)
    }
}

fn value(store: &dyn Store, key: &[u8]) -> Result<Option<Vec<u8>>> {
    match store.read(&[Read::Get(key.to_vec())])?.pop() {
        Some(Found::Value(value)) => Ok(value),
        _ => Err(Error::Internal("the store gave another answer than was asked for".to_string())),
    }
}

/// The schema and its version are two keys: a crash between them leaves the older version there.
fn mend_version(store: &dyn Store, schema: &Schema) -> Result<()> {
    let (key, version) = schema_version(schema.version);
    let held = value(store, &key)?;
    if held.as_ref().is_some_and(|held| *held < version) {
        let condition = Condition::Same { key: key.clone(), value: held };
        store.commit(&[condition], &[Write::Put(key, version)])?;
    }
    Ok(())
}

/// The key that all servers of this store sign cursors with; the first makes it.
fn kept_key(store: &dyn Store) -> Result<[u8; 32]> {
    let mut fresh = [0; 32];
    getrandom::fill(&mut fresh).map_err(|error| Error::Unavailable(format!("no random numbers: {error}")))?;
    let absent = Condition::Same { key: CURSOR_KEY.to_vec(), value: None };
    store.commit(&[absent], &[Write::Put(CURSOR_KEY.to_vec(), fresh.to_vec())])?;
    let kept = value(store, CURSOR_KEY)?.and_then(|kept| kept.try_into().ok());
    kept.ok_or_else(|| Error::Internal("the store keeps no key for cursors".to_string()))
}

impl Inner {
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn refresh(&self) -> Result<()> {
        if let Some(bytes) = value(&self.store, SCHEMA)? {
            let schema = Schema::from_bytes(&bytes)?;
            mend_version(&self.store, &schema)?;
            self.hold(schema);
        }
        Ok(())
    }

    fn hold(&self, schema: Schema) {
        *self.schema.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(schema);
    }

    /// Changes the schema, and builds what is new on rows that are there.
    pub fn change(&self, change: &Change) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.without_conflict(|| {
            let schema = self.schema();
            if change.is_made(&schema)? {
                return self.build(&change.table()?);
            }
            let (next, table) = change.apply(&schema)?;
            if matches!(change, Change::SetNullable { .. }) {
                views::still_kept(&next, self.store.capabilities())?;
            }
            let without_nulls = change.without_nulls(&schema)?;
            let looked =
                |(column, _): &(usize, Change)| write::no_nulls(&self.store, schema.table(&table)?, *column);
            without_nulls.as_ref().map_or(Ok(()), looked)?;
            self.publish(next)?;
            // Nobody can write a null any more, but one may have come between the look and the change.
            if let Some((column, back)) = &without_nulls
                && let Err(error) = write::no_nulls(&self.store, schema.table(&table)?, *column)
            {
                self.without_conflict(|| self.publish(back.apply(&self.schema())?.0))?;
                return Err(error);
            }
            self.build(&table)
        })
    }

    /// Tries a change of the schema again, over the schema of then, as long as others change it first.
    pub fn without_conflict(&self, change: impl Fn() -> Result<()>) -> Result<()> {
        let mut contention = Contention::new(self.options.conflict_timeout);
        loop {
            match change() {
                Err(Error::Conflict(says)) => {
                    contention.pause(|| says)?;
                    self.refresh()?;
                }
                done => return done,
            }
        }
    }

    /// Changes the schema to one without some tables or indexes, and takes their keys away.
    pub fn remove(&self, removal: &Removal) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.without_conflict(|| {
            let Some(Removed { schema, indexes }) = removal.apply(&self.schema())? else { return Ok(()) };
            views::still_kept(&schema, self.store.capabilities())?;
            self.publish(schema)?;
            write::erase(&self.store, &indexes)
        })
    }

    /// Builds what was left unready on a table.
    fn finish(&self, table: &str) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.without_conflict(|| self.build(table))
    }

    fn build(&self, table: &str) -> Result<()> {
        let schema = self.schema();
        let changed = schema.table(table)?;
        if !changed.is_building() {
            return Ok(());
        }
        match write::build(&self.store, changed) {
            Ok(()) => self.publish(schema.with_ready(table)?),
            Err(error @ (Error::Unavailable(_) | Error::Conflict(_))) => Err(error),
            Err(error) => {
                self.publish(schema.without_unready(table)?)?;
                Err(error)
            }
        }
    }

    /// Makes this the schema, if nobody else has changed it.
    pub fn publish(&self, next: Schema) -> Result<()> {
        let known = self.schema();
        let before = if known.version == 0 { None } else { Some(known.to_bytes()?) };
        let condition = Condition::Same { key: SCHEMA.to_vec(), value: before };
        let schema = Write::Put(SCHEMA.to_vec(), next.to_bytes()?);
        let (key, value) = schema_version(next.version);
        let version = Write::Put(key, value);
        let outcome = match self.store.capabilities().atomicity {
            Atomicity::Batch => self.store.commit(&[condition], &[schema, version])?,
            Atomicity::Key => match self.store.commit(&[condition], &[schema])? {
                Outcome::Done => self.store.commit(&[], &[version])?,
                failed => failed,
            },
        };
        match outcome {
            Outcome::Done => self.hold(next),
            Outcome::Failed(_) => {
                self.refresh()?;
                return Err(Error::Conflict("others changed the schema meanwhile".to_string()));
            }
        }
        Ok(())
    }

    /// Compiles a statement over the schema of now.
    pub fn compile(&self, sql: &str) -> Result<Compiled> {
        self.compile_with(sql, &[])
    }

    /// The same, with numbers in place of some parameters.
    pub fn compile_with(&self, sql: &str, numbers: &[(usize, Number)]) -> Result<Compiled> {
        self.compile_over(sql, &self.schema(), &self.dialect.parse(sql)?.with_numbers(numbers))
    }

    /// Compiles what was parsed, over any schema.
    pub fn compile_over(&self, sql: &str, schema: &Schema, parsed: &Parsed) -> Result<Compiled> {
        if changes_schema(parsed)? {
            return Err(Error::invalid("a change of the schema is executed, not prepared"));
        }
        let logical = Planner::new(schema).plan(parsed.statement.clone())?;
        let (query, mut write) = written(schema, parsed, logical)?;
        if let Some(target) = &mut write {
            target.views = Arc::new(self.kept_by(schema, target)?);
        }
        let mut plan = self.plan(sql, schema, parsed, &query)?;
        plan.writes = write
            .as_ref()
            .map(|target| write::bound(schema, target, plan.bound.rows, self.store.capabilities()));
        plan.allowed = parsed
            .allowed
            .clone()
            .filter(|_| !plan.bound.is_bounded() || plan.requests() > self.options.most_requests);
        if let Some(target) = &write {
            let needed =
                target.views.iter().flat_map(Maintained::plans).flat_map(|plan| plan.new_indexes.clone());
            plan.new_indexes.extend(needed);
        }
        if plan.requests() > self.options.most_requests && plan.allowed.is_none() && plan.writes.is_some() {
            let suggestions = self.suggestions(sql, schema);
            return Err(Error::Unbounded(Box::new(suggestions.writes_too_many(&query, plan.requests()))));
        }
        if let Some(Target { kind: Kind::Delete, table, .. }) = &write {
            plan.new_indexes.extend(for_references(schema, table));
        }
        let owner = Owner::new(sql, &plan)?;
        let returning = match (&parsed.returning, &write) {
            (Some(returning), Some(target)) => Some(returned(schema, &target.table, returning)?),
            _ => None,
        };
        let stored = if write.is_some() { stored_alone(&query)? } else { BTreeSet::new() };
        Ok(Compiled { plan, write, returning, stored, version: schema.version, owner })
    }

    fn plan(&self, sql: &str, schema: &Schema, parsed: &Parsed, query: &LogicalPlan) -> Result<Plan> {
        let capabilities = self.store.capabilities();
        let suggestions = self.suggestions(sql, schema);
        let strict = Compiler::new(schema, capabilities, false, &parsed.parameters);
        match strict.compile(query, parsed.paginate) {
            Ok(plan) if plan.bound.requests <= self.options.most_requests || parsed.allowed.is_some() => {
                Ok(plan)
            }
            Ok(plan) => Err(Error::Unbounded(Box::new(suggestions.too_many(query, plan.bound.requests)))),
            Err(Stuck::Error(error)) => Err(error),
            Err(Stuck::Unbounded(_)) if parsed.allowed.is_some() => {
                let allowing = Compiler::new(schema, capabilities, true, &parsed.parameters);
                allowing.compile(query, parsed.paginate).map_err(|stuck| match stuck {
                    Stuck::Error(error) => error,
                    Stuck::Unbounded(dead_end) => {
                        Error::Unbounded(Box::new(suggestions.unbounded(query, &dead_end)))
                    }
                })
            }
            Err(Stuck::Unbounded(dead_end)) => {
                Err(Error::Unbounded(Box::new(suggestions.unbounded(query, &dead_end))))
            }
        }
    }

    fn suggestions<'a>(&'a self, sql: &'a str, schema: &'a Schema) -> Suggestions<'a> {
        let (capabilities, most_requests) = (self.store.capabilities(), self.options.most_requests);
        Suggestions { sql, schema, capabilities, most_requests, dialect: &self.dialect }
    }

    /// The views that a statement has to keep.
    fn kept_by(&self, schema: &Schema, target: &Target) -> Result<Vec<Maintained>> {
        let Target { kind, table, changed, .. } = target;
        let mut kept = views::of_table(schema, self.store.capabilities(), table)?;
        if *kind == Kind::Update {
            for view in kept.iter().filter(|view| view.deltas.is_empty()) {
                if let Some(at) = view.used.iter().find(|at| changed.contains(at)) {
                    return Err(Error::invalid(view.frozen(table, *at)));
                }
            }
        }
        kept.retain(|view| view.runs(*kind, changed) > 0);
        Ok(kept)
    }

    /// Makes the indexes that a plan needs.
    pub fn make_indexes(&self, compiled: &Compiled) -> Result<()> {
        self.add_indexes(&compiled.plan.new_indexes)
    }

    pub fn add_indexes(&self, indexes: &[(String, Index)]) -> Result<()> {
        for (table, index) in indexes {
            if !self.options.make_indexes {
                let there = self.schema();
                let table = there.table(table)?;
                return Err(Error::invalid(format!(
                    "the statement needs an index: create index on {}",
                    index.describe(table)
                )));
            }
            let there = self.schema();
            match there.table(table)?.indexes.iter().any(|known| known.parts == index.parts) {
                // Somebody began to build it, and may not be there any more.
                true => self.finish(table)?,
                false => self.change(&Change::AddIndex { table: table.clone(), index: index.clone() })?,
            }
        }
        Ok(())
    }
}

fn changes_schema(parsed: &Parsed) -> Result<bool> {
    Ok(Command::of(parsed)?.is_some()
        || Removal::of(&parsed.statement)?.is_some()
        || Change::of(parsed)?.is_some())
}
