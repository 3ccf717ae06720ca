//! A compiled statement: its plan, and what it writes.

use crate::cursor::Owner;
use crate::plan::{Chain, Plan};
use crate::write::Target;
use std::collections::BTreeSet;
use std::fmt;

/// A statement that was compiled, and not yet prepared.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The plan of the query, or of the query for the rows that a write changes.
    pub plan: Plan,
    /// What it writes, if it does.
    pub(crate) write: Option<Target>,
    /// What a write returns: columns of the rows that it wrote.
    pub(crate) returning: Option<Chain>,
    /// Parameters that are stored as they are: numbers are rounded to the types of their columns.
    pub(crate) stored: BTreeSet<usize>,
    /// The version of the schema that it was compiled over.
    pub(crate) version: u64,
    /// What its cursors belong to.
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
