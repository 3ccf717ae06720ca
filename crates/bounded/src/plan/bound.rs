//! The bound of a chain, computed step by step.
//!
//! Invariant: a bound follows from the chain and the schema alone. No step makes it smaller than the steps
//! before it.

use super::chain::{Access, Chain, Fetch, Keep, Source, Step};
use crate::bound::Bound;

impl Bound {
    /// The bound of a plan.
    pub(crate) fn of(chain: &Chain) -> Bound {
        let mut bound = match &chain.source {
            Source::Call => Bound::of_rows(1),
            Source::Lists(lists) => Bound::of_rows(product(lists.iter().map(|list| list.most))),
            Source::Values { rows, .. } => Bound::of_rows(rows.len() as u64),
            Source::Union { branches, .. } => {
                branches.iter().map(Bound::of).fold(Bound::of_rows(0), Bound::in_parallel)
            }
        };
        for step in &chain.steps {
            bound.then(step);
        }
        bound
    }

    /// Adds a step.
    pub(crate) fn then(&mut self, step: &Step) {
        match step {
            Step::Fetch(fetch) => self.then_fetch(fetch),
            Step::Stop(rows) | Step::Merge { rows, .. } | Step::Page { rows, .. } => {
                self.rows = self.rows.min(*rows);
            }
            Step::Aggregate { group, .. } if group.is_empty() => self.rows = 1,
            Step::Filter(_)
            | Step::Project { .. }
            | Step::Sort(_)
            | Step::Aggregate { .. }
            | Step::Distinct => {}
        }
    }

    /// Adds a fetch: one request for each key, and one for each record that is read through an index.
    fn then_fetch(&mut self, fetch: &Fetch) {
        let keys = self.rows;
        let entries = keys.saturating_mul(fetch.most);
        let found = entries.min(fetch.first.unwrap_or(u64::MAX));
        let record = fetch.table.record_bytes();
        match &fetch.access {
            Access::Record => self.add(keys, keys, record, 1),
            Access::Unique(index) => {
                self.add(keys, keys, fetch.table.entry_bytes(index), 1);
                self.add(keys, keys, record, 1);
            }
            Access::Range { index, dereference, partitions, .. } => {
                let primary = index.id == fetch.table.primary().id;
                let entry = if primary { record.clone() } else { fetch.table.entry_bytes(index) };
                // Each partition has to be asked for as many as are wanted.
                self.add(keys.saturating_mul(*partitions), entries.saturating_mul(*partitions), entry, 1);
                if *dereference {
                    self.add(found, found, record, 1);
                }
            }
        }
        // A left join has a row even where it finds none, and finds at least one row wherever it has one.
        self.rows = if fetch.keep == Keep::All { found } else { keys };
    }
}

/// The product of some factors.
fn product(factors: impl Iterator<Item = u64>) -> u64 {
    factors.fold(1, u64::saturating_mul)
}
