//! Changes of the schema: each is published first, then its indexes, limits and checks are built while others
//! write.
//!
//! Invariant: at most one thread of a process changes the schema. A change by another process is noticed when
//! the new schema is published, and the change is tried again on the schema of that process.

use super::compiled::Compiled;
use super::engine::Engine;
use crate::contention::Contention;
use crate::error::{Error, Result};
use crate::mutation::erase;
use crate::schema::{Change, Index, Removal, Removed};
use crate::store::Store;
use crate::views;
use crate::write;
use std::sync::PoisonError;

impl Engine {
    /// Changes the schema, and builds what the change adds.
    ///
    /// # Errors
    /// `Invalid` if it does not fit the schema, `Data` if rows violate it, `Unavailable` if the store is
    /// away, `Conflict` if others change the schema for too long.
    pub fn change(&self, change: &Change) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.without_conflict(|| {
            let schema = self.schema();
            if change.is_made(&schema)? {
                return self.build(&change.table()?);
            }
            let (next, table) = change.apply(&schema)?;
            if matches!(change, Change::SetNullable { .. }) {
                views::check_views(&next, self.store.capabilities())?;
            }
            self.publish(next)?;
            self.build(&table)
        })
    }

    /// Repeats a change of the schema, each time over the current one, while others change it first.
    ///
    /// # Errors
    /// Those of the change; `Conflict` only after the timeout.
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

    /// Drops tables or indexes, and erases their keys.
    ///
    /// # Errors
    /// `Invalid` if something depends on what is dropped, `Unavailable` if the store is away.
    pub fn remove(&self, removal: &Removal) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.without_conflict(|| {
            let Some(Removed { schema, indexes }) = removal.apply(&self.schema())? else { return Ok(()) };
            views::check_views(&schema, self.store.capabilities())?;
            self.publish(schema)?;
            erase(&self.store, &indexes)
        })
    }

    /// Builds what another server, or a crash, left unready on a table.
    pub(super) fn resume_build(&self, table: &str) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.without_conflict(|| self.build(table))
    }

    /// Builds what is unready on a table, then publishes it as ready or removed.
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

    /// Makes the indexes that a plan needs.
    ///
    /// # Errors
    /// As [`add_indexes`](Engine::add_indexes).
    pub fn make_indexes(&self, compiled: &Compiled) -> Result<()> {
        self.add_indexes(&compiled.plan.new_indexes)
    }

    /// Adds indexes that a plan or a view needs, or refuses if the options do not allow it.
    ///
    /// # Errors
    /// `Invalid` if the options do not allow it; else as [`change`](Engine::change).
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
            match there.table(table)?.indexes.iter().any(|existing| existing.parts == index.parts) {
                // Another server began to build it, and may have crashed.
                true => self.resume_build(table)?,
                false => self.change(&Change::AddIndex { table: table.clone(), index: index.clone() })?,
            }
        }
        Ok(())
    }
}
