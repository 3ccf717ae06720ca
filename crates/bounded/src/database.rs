//! A database: a store, the schema in it, and statements.
//!
//! Invariant: the schema that is held here is one that the store had. On a store that commits as a whole every write is
//! conditional on it, so a server that has not heard of a new index reads the schema again before it writes.

use crate::compile::{Compiler, Planner, Stuck};
use crate::cursor::Owner;
use crate::error::{Error, Result};
use crate::execute::{Argument, Executor, Page};
use crate::plan::Plan;
use crate::prepared::Prepared;
use crate::refusal::Suggestions;
use crate::schema::{Change, Index, IndexKind, KeyPart, Schema, Table, fresh_name};
use crate::store::{Atomicity, Condition, Found, Outcome, Read, Store, Write};
use crate::text::{self, Parsed};
use crate::write::{self, Kind, Repaired, Versions};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, WriteOp};
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
    /// How often a write is tried again if somebody else changed the same row.
    pub tries: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            executor: Executor::Parallel,
            make_indexes: true,
            most_requests: 10_000,
            cursor_key: None,
            tries: 16,
        }
    }
}

/// A database; clones are the same one.
#[derive(Clone)]
pub struct Database {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub store: Box<dyn Store>,
    pub options: Options,
    pub cursor_key: [u8; 32],
    pub versions: Versions,
    schema: RwLock<Arc<Schema>>,
    /// Held while the schema changes.
    changing: Mutex<()>,
}

/// What a statement writes, and where.
pub(crate) type Target = (Kind, Arc<Table>);

/// A statement that was compiled, and not yet prepared.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The plan of the query, or of the query for the rows that a write changes.
    pub plan: Plan,
    pub(crate) write: Option<Target>,
    pub(crate) version: u64,
    pub(crate) owner: Owner,
}

impl fmt::Display for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((kind, table)) = &self.write {
            writeln!(f, "{kind:?} {}", table.name)?;
        }
        write!(f, "{}", self.plan)
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
        let store: Box<dyn Store> = Box::new(store);
        let cursor_key = match options.cursor_key {
            Some(key) => key,
            None => kept_key(store.as_ref())?,
        };
        let schema = match value(store.as_ref(), SCHEMA)? {
            Some(bytes) => {
                let schema = Schema::from_bytes(&bytes)?;
                mend_version(store.as_ref(), &schema)?;
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

    /// Runs a statement once: a change of the schema, a write or a query.
    ///
    /// # Errors
    /// As [`prepare`](Database::prepare) and [`Prepared::call`].
    pub fn execute(&self, sql: &str, arguments: &[Argument]) -> Result<Option<Page>> {
        let parsed = text::parse(sql)?;
        match Change::of(&parsed)? {
            Some(change) => self.inner.change(&change).map(|()| None),
            None => self.prepare(sql)?.call(arguments).map(Some),
        }
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

    /// Takes away what a crash left in the indexes. `writes_take` is longer than any write that is at work takes: what
    /// looks broken is looked at again after that time.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer; then some was repaired, and the rest can be later.
    pub fn repair(&self, writes_take: Duration) -> Result<Repaired> {
        write::repair(self.inner.store.as_ref(), &self.schema(), writes_take)
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
        if let Some(bytes) = value(self.store.as_ref(), SCHEMA)? {
            let schema = Schema::from_bytes(&bytes)?;
            mend_version(self.store.as_ref(), &schema)?;
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
        let (next, table) = change.apply(&self.schema())?;
        self.publish(next)?;
        self.build(&table)
    }

    /// Builds what was left unready on a table.
    fn finish(&self, table: &str) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.build(table)
    }

    fn build(&self, table: &str) -> Result<()> {
        let schema = self.schema();
        let changed = schema.table(table)?;
        if !changed.is_building() {
            return Ok(());
        }
        match write::build(self.store.as_ref(), changed) {
            Ok(()) => self.publish(schema.with_ready(table)?),
            Err(error @ Error::Unavailable(_)) => Err(error),
            Err(error) => {
                self.publish(schema.without_unready(table)?)?;
                Err(error)
            }
        }
    }

    /// Makes this the schema, if nobody else has changed it.
    fn publish(&self, next: Schema) -> Result<()> {
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
                return Err(Error::Unavailable(
                    "somebody else changed the schema meanwhile: try again".to_string(),
                ));
            }
        }
        Ok(())
    }

    /// Compiles a statement over the schema of now.
    pub fn compile(&self, sql: &str) -> Result<Compiled> {
        let parsed = text::parse(sql)?;
        if Change::of(&parsed)?.is_some() {
            return Err(Error::invalid("a change of the schema is executed, not prepared"));
        }
        let schema = self.schema();
        let logical = Planner::new(&schema).plan(parsed.statement.clone())?;
        let (query, write) = written(&schema, &parsed, logical)?;
        let mut plan = self.plan(sql, &schema, &parsed, &query)?;
        plan.allowed = parsed
            .allowed
            .clone()
            .filter(|_| !plan.bound.is_bounded() || plan.bound.requests > self.options.most_requests);
        if let Some((Kind::Delete, table)) = &write {
            plan.new_indexes.extend(for_references(&schema, table));
        }
        let owner = Owner::new(sql, &plan)?;
        Ok(Compiled { plan, write, version: schema.version, owner })
    }

    fn plan(&self, sql: &str, schema: &Schema, parsed: &Parsed, query: &LogicalPlan) -> Result<Plan> {
        let capabilities = self.store.capabilities();
        let suggestions =
            Suggestions { sql, schema, capabilities, most_requests: self.options.most_requests };
        let strict = Compiler::new(schema, capabilities, false, &parsed.parameters);
        match strict.compile(query, parsed.paginate) {
            Ok(plan) if plan.bound.requests <= self.options.most_requests || parsed.allowed.is_some() => {
                Ok(plan)
            }
            Ok(plan) => Err(Error::Unbounded(Box::new(suggestions.too_many(query, &plan.bound)))),
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

    /// Makes the indexes that a plan needs.
    pub fn make_indexes(&self, compiled: &Compiled) -> Result<()> {
        for (table, index) in &compiled.plan.new_indexes {
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

/// The query for the rows that a statement changes, and what it does with them.
fn written(schema: &Schema, parsed: &Parsed, logical: LogicalPlan) -> Result<(LogicalPlan, Option<Target>)> {
    let LogicalPlan::Dml(dml) = logical else {
        return match logical {
            LogicalPlan::Ddl(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Copy(_) => Err(Error::invalid(
                "a statement is a query, insert, upsert, update, delete, or a change of the schema",
            )),
            query => Ok((query, None)),
        };
    };
    let table = schema.table(dml.table_name.table())?.clone();
    let kind = match dml.op {
        WriteOp::Insert(InsertOp::Append) if parsed.upsert => Kind::Upsert,
        WriteOp::Insert(InsertOp::Append) => Kind::Insert,
        WriteOp::Update => Kind::Update,
        WriteOp::Delete => Kind::Delete,
        _ => return Err(Error::invalid("rows are written by insert, upsert, update and delete")),
    };
    let query = match kind {
        Kind::Update => before_and_after(&table, &dml.input)?,
        _ => dml.input.as_ref().clone(),
    };
    Ok((query, Some((kind, table))))
}

/// The rows of an update as they are, and next to that as they will be.
fn before_and_after(table: &Table, input: &LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(after) = input else {
        return Err(Error::invalid("update sets columns of one table: update t set a = ? where key = ?"));
    };
    let before = after.input.schema().columns().into_iter().take(table.columns.len());
    let before = before.enumerate().map(|(at, column)| Expr::Column(column).alias(format!("before{at}")));
    let after_exprs =
        after.expr.iter().enumerate().map(|(at, expr)| expr.clone().unalias().alias(format!("after{at}")));
    let exprs: Vec<Expr> = before.chain(after_exprs).collect();
    Ok(LogicalPlanBuilder::from(after.input.as_ref().clone()).project(exprs)?.build()?)
}

/// Indexes that find what refers to a table.
fn for_references(schema: &Schema, table: &Table) -> Vec<(String, Index)> {
    let missing =
        schema.references_to(&table.name).filter(|(from, key)| from.index_on(&key.columns).is_none());
    missing
        .map(|(from, key)| {
            let parts: Vec<KeyPart> = key.columns.iter().copied().map(KeyPart::ascending).collect();
            (from.name.clone(), Index::new(fresh_name(from, &parts), IndexKind::Ordinary, parts))
        })
        .collect()
}
