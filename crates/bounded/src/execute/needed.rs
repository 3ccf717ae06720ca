//! Which columns later steps need. Other columns are not copied into the rows of a join.
//!
//! Invariant: the output columns of a chain and the columns that a cursor is made of are needed.

use crate::expression::{Columns, POSITION, PREFIX};
use crate::plan::{Fetch, Keep, Step};
use datafusion::common::{Column, TableReference};
use datafusion::logical_expr::Expr;
use std::collections::HashSet;

/// The columns that later steps need.
#[derive(Debug, Clone)]
pub(crate) enum Needed {
    All,
    Only(HashSet<Column>),
}

impl Needed {
    /// The columns needed after each of these steps; all columns of the last one are needed.
    pub fn after_each(steps: &[Step]) -> Vec<Needed> {
        let mut needed = Needed::All;
        let mut all: Vec<Needed> = steps
            .iter()
            .rev()
            .map(|step| {
                let behind = needed.clone();
                needed = behind.clone().before(step);
                behind
            })
            .collect();
        all.reverse();
        all
    }

    /// The columns needed before a step, given those needed after it.
    fn before(self, step: &Step) -> Needed {
        match step {
            Step::Fetch(fetch) => self.and(fetch.keys.iter()).and(of_found(fetch)),
            Step::Filter(exprs) => self.and(exprs),
            Step::Sort(order) | Step::Page { order, .. } => self.and(order.iter().map(|key| &key.expr)),
            Step::Stop(_) | Step::Merge { .. } => self,
            Step::Project { columns, .. } => Needed::none().and(columns.iter().map(|(expr, _)| expr)),
            Step::Aggregate { group, aggregates, .. } => Needed::none().and(group.iter().chain(aggregates)),
            Step::Distinct => Needed::All,
        }
    }

    /// The positions of columns before a fetch that are needed after it.
    pub fn places(&self, columns: &Columns, fetch: &Fetch) -> Vec<usize> {
        let needed = self.clone().and(of_found(fetch));
        let named = columns.0.iter().map(|(qualifier, field)| (qualifier.as_ref(), field.name()));
        let kept = named.enumerate().filter(|(_, (qualifier, name))| needed.has(*qualifier, name));
        kept.map(|(at, _)| at).collect()
    }

    fn none() -> Needed {
        Needed::Only(HashSet::new())
    }

    fn and<'e>(self, exprs: impl IntoIterator<Item = &'e Expr>) -> Needed {
        match self {
            Needed::All => Needed::All,
            Needed::Only(mut columns) => {
                columns.extend(exprs.into_iter().flat_map(Expr::column_refs).cloned());
                Needed::Only(columns)
            }
        }
    }

    fn has(&self, qualifier: Option<&TableReference>, name: &str) -> bool {
        let Needed::Only(columns) = self else { return true };
        let same = |column: &Column| {
            let relation = column.relation.as_ref();
            column.name == name && (relation.is_none() || relation == qualifier)
        };
        name == POSITION || name == PREFIX || columns.iter().any(same)
    }
}

/// The expressions over a row and its matches.
fn of_found(fetch: &Fetch) -> impl Iterator<Item = &Expr> {
    let folds = match &fetch.keep {
        Keep::Fold(folds) => folds.as_slice(),
        Keep::All | Keep::First => &[],
    };
    fetch.on.iter().chain(folds.iter().map(|(expr, _)| expr))
}
