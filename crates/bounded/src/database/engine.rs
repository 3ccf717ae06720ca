//! What all clones of a database share: the store, the current schema, and the compilation of statements.
//!
//! Invariant: the schema held here was at some time the schema of the store. On a store that commits as a
//! whole every write is conditional on its version, so a server that has not seen a new index reads the
//! schema again before it writes.

use super::compiled::Compiled;
use super::options::Options;
use crate::assistant::Suggestions;
use crate::catalog;
use crate::compile::{CompileError, Compiler, Planner, unmodified_parameters};
use crate::cursor::Owner;
use crate::error::{Error, Result};
use crate::mutation::{Versions, WriteKind};
use crate::number::Number;
use crate::plan::Plan;
use crate::schema::{Change, Removal, Schema};
use crate::store::{Closable, Outcome, Store};
use crate::syntax::{Dialect, Parsed};
use crate::views::{self, Command, Maintained};
use crate::write::{self, Target, plan_target, reference_indexes, returning_chain};
use datafusion::logical_expr::LogicalPlan;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// What all clones of a database share.
pub(crate) struct Engine {
    /// The store.
    pub store: Closable,
    /// How the database is used.
    pub options: Options,
    /// The secret that cursors are signed with.
    pub cursor_key: [u8; 32],
    /// The versions of new records.
    pub versions: Versions,
    /// The dialect of statements.
    pub dialect: Dialect,
    /// The current schema.
    pub schema: RwLock<Arc<Schema>>,
    /// Locked while the schema changes.
    pub changing: Mutex<()>,
}

impl Engine {
    /// The current schema.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the schema of the store.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer, `Internal` if the schema is damaged.
    pub fn refresh(&self) -> Result<()> {
        if let Some(schema) = catalog::load(&self.store)? {
            self.set_schema(schema);
        }
        Ok(())
    }

    /// Makes a schema the current one.
    fn set_schema(&self, schema: Schema) {
        *self.schema.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(schema);
    }

    /// Publishes a schema, if nobody else has changed it.
    ///
    /// # Errors
    /// `Conflict` if the store has another schema, `Unavailable` if it does not answer.
    pub fn publish(&self, next: Schema) -> Result<()> {
        match catalog::replace(&self.store, &self.schema(), &next)? {
            Outcome::Done => self.set_schema(next),
            Outcome::Failed(_) => {
                self.refresh()?;
                return Err(Error::Conflict("others changed the schema meanwhile".to_string()));
            }
        }
        Ok(())
    }

    /// Compiles a statement over the current schema.
    ///
    /// # Errors
    /// As [`Database::compile`](super::Database::compile).
    pub fn compile(&self, sql: &str) -> Result<Compiled> {
        self.compile_with(sql, &[])
    }

    /// The same with literals in place of some parameters.
    ///
    /// # Errors
    /// As [`Database::compile`](super::Database::compile).
    pub fn compile_with(&self, sql: &str, numbers: &[(usize, Number)]) -> Result<Compiled> {
        self.compile_over(sql, &self.schema(), &self.dialect.parse(sql)?.with_numbers(numbers))
    }

    /// Compiles a parsed statement over any schema.
    ///
    /// # Errors
    /// As [`Database::compile`](super::Database::compile).
    pub fn compile_over(&self, sql: &str, schema: &Schema, parsed: &Parsed) -> Result<Compiled> {
        if changes_schema(parsed)? {
            return Err(Error::invalid("a change of the schema is executed, not prepared"));
        }
        let logical = Planner::new(schema).plan(parsed.statement.clone())?;
        let (query, mut write) = plan_target(schema, parsed, logical)?;
        if let Some(target) = &mut write {
            target.views = Arc::new(self.maintained_views(schema, target)?);
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
            return Err(Error::Unbounded(Box::new(
                suggestions.too_many_write_requests(&query, plan.requests()),
            )));
        }
        if let Some(Target { kind: WriteKind::Delete, table, .. }) = &write {
            plan.new_indexes.extend(reference_indexes(schema, table));
        }
        let owner = Owner::new(sql, &plan)?;
        let returning = match (&parsed.returning, &write) {
            (Some(returning), Some(target)) => Some(returning_chain(schema, &target.table, returning)?),
            _ => None,
        };
        let stored = if write.is_some() { unmodified_parameters(&query)? } else { BTreeSet::new() };
        Ok(Compiled { plan, write, returning, stored, version: schema.version, owner })
    }

    /// Compiles a query, or explains why it has no bound.
    fn plan(&self, sql: &str, schema: &Schema, parsed: &Parsed, query: &LogicalPlan) -> Result<Plan> {
        let capabilities = self.store.capabilities();
        let suggestions = self.suggestions(sql, schema);
        let strict = Compiler::new(schema, capabilities, false, &parsed.parameters);
        match strict.compile(query, parsed.paginate) {
            Ok(plan) if plan.bound.requests <= self.options.most_requests || parsed.allowed.is_some() => {
                Ok(plan)
            }
            Ok(plan) => {
                Err(Error::Unbounded(Box::new(suggestions.too_many_requests(query, plan.bound.requests))))
            }
            Err(CompileError::Other(error)) => Err(error),
            Err(CompileError::Unbounded(_)) if parsed.allowed.is_some() => {
                let allowing = Compiler::new(schema, capabilities, true, &parsed.parameters);
                allowing.compile(query, parsed.paginate).map_err(|error| match error {
                    CompileError::Other(error) => error,
                    CompileError::Unbounded(relation) => {
                        Error::Unbounded(Box::new(suggestions.unbounded(query, &relation)))
                    }
                })
            }
            Err(CompileError::Unbounded(relation)) => {
                Err(Error::Unbounded(Box::new(suggestions.unbounded(query, &relation))))
            }
        }
    }

    /// What can be suggested for a statement over a schema.
    fn suggestions<'a>(&'a self, sql: &'a str, schema: &'a Schema) -> Suggestions<'a> {
        let (capabilities, most_requests) = (self.store.capabilities(), self.options.most_requests);
        Suggestions { sql, schema, capabilities, most_requests, dialect: &self.dialect }
    }

    /// The views that a write has to maintain.
    fn maintained_views(&self, schema: &Schema, target: &Target) -> Result<Vec<Maintained>> {
        let Target { kind, table, changed, .. } = target;
        let mut kept = views::views_of(schema, self.store.capabilities(), table)?;
        if *kind == WriteKind::Update {
            for view in kept.iter().filter(|view| view.deltas.is_empty()) {
                if let Some(at) = view.used.iter().find(|at| changed.contains(at)) {
                    return Err(Error::invalid(view.frozen_message(table, *at)));
                }
            }
        }
        kept.retain(|view| view.runs(*kind, changed) > 0);
        Ok(kept)
    }
}

/// Whether a statement changes the schema.
pub(super) fn changes_schema(parsed: &Parsed) -> Result<bool> {
    Ok(Command::of(parsed)?.is_some()
        || Removal::of(&parsed.statement)?.is_some()
        || Change::of(parsed)?.is_some())
}
