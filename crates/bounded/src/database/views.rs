//! Materialized views are created and filled, or dropped and erased.
//!
//! Invariant: after a crash between two steps, a view is either in the schema as building: not readable,
//! maintained by every write, and filled by the next `create`. Or it is out of the schema, and its keys are
//! never read again.

use super::engine::Engine;
use crate::error::{Error, Result};
use crate::schema::IndexState;
use crate::store::Store;
use crate::views::{Command, clear, fill, filled, propose};
use std::sync::PoisonError;

impl Engine {
    /// Executes a statement about a view.
    ///
    /// # Errors
    /// `Invalid` if a view cannot be defined so, `Unbounded` if a delta has no bound, `Data` if a sum
    /// overflows, `Unavailable` if the store is away.
    pub fn change_views(&self, command: &Command) -> Result<()> {
        self.without_conflict(|| match command {
            Command::Create { name, if_not_exists: true, .. } if self.has_view(name) => Ok(()),
            Command::Create { name, sql, .. } => self.create_view(name, sql),
            Command::Drop { name, if_exists } => self.drop_view(name, *if_exists),
        })
    }

    /// Whether there is a view of this name, and it is filled.
    fn has_view(&self, name: &str) -> bool {
        let schema = self.schema();
        let view = schema.table(name).ok().and_then(|table| table.view.as_ref());
        view.is_some_and(|view| view.state == IndexState::Ready)
    }

    /// Creates and fills a view, or resumes the filling of one.
    fn create_view(&self, name: &str, sql: &str) -> Result<()> {
        let begun = self.schema().table(name).ok().and_then(|table| table.view.clone());
        if begun.is_none_or(|view| view.sql != sql || view.state != IndexState::Building) {
            loop {
                let schema = self.schema();
                let proposed = propose(&schema, self.store.capabilities(), name, sql)?;
                self.add_indexes(&proposed.new_indexes)?;
                let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
                // Another change of the schema may have dropped an index that the view needs.
                if self.schema().version == schema.version {
                    self.publish(schema.with_table(proposed.table))?;
                    break;
                }
            }
        }
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let schema = self.schema();
        let view = schema.table(name)?;
        match fill(&self.store, &schema, &self.versions, view) {
            Ok(()) => {
                self.publish(schema.with_filled(name)?)?;
                filled(&self.store, view)
            }
            Err(error @ (Error::Unavailable(_) | Error::Conflict(_))) => Err(error),
            Err(error) => {
                self.publish(schema.without(name))?;
                clear(&self.store, view)?;
                Err(error)
            }
        }
    }

    /// Drops a view, then deletes its rows.
    fn drop_view(&self, name: &str, if_exists: bool) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let schema = self.schema();
        let view = match schema.table(name) {
            Ok(table) if table.view.is_some() => table,
            Ok(_) => return Err(Error::invalid(format!("{name} is a table, no view"))),
            Err(_) if if_exists => return Ok(()),
            Err(error) => return Err(error),
        };
        self.publish(schema.without(name))?;
        clear(&self.store, view)
    }
}
