//! What the search knows of a relation when it is next in the join order.
//!
//! These are the columns that equal a constant or a joined column, the words that are searched for, the
//! intervals of columns, the order that its rows would need, and the columns that other parts of the query
//! need.

use super::block::{Matches, Relation};
use super::equalities::{Equalities, Member};
use super::expressions::{column, columns, of_relation};
use super::predicates::{Meaning, Predicate};
use super::state::{Search, State};
use crate::keys::KeyOrder;
use crate::plan::Interval;
use crate::schema::Table;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, SortExpr};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Intervals by column, each with the predicates that it is made of.
pub(super) type Intervals = BTreeMap<usize, (Interval, Vec<usize>)>;

/// How the rows of different keys get into one order: merged by their positions in the index, which works
/// only if no column of the order differs from key to key; or sorted.
#[derive(Clone, Copy)]
pub(super) enum Merged<'s> {
    Yes,
    No(&'s State),
}

impl Search<'_> {
    /// Equalities within the rows of a relation. The right side of a left join has those of its condition
    /// too.
    pub(super) fn facts_for(&self, relation: &Relation) -> Equalities {
        let mut facts = self.facts.clone();
        for expr in relation.outer.iter().flatten() {
            if let Meaning::Equal(left, right) = Predicate::of(expr, self.block).meaning {
                facts.add(&left, &right);
            }
        }
        facts
    }

    /// The columns of a table that equal a constant or a joined column, or are null.
    pub(super) fn equal_columns(
        &self,
        state: &State,
        relation: &Relation,
        table: &Table,
        facts: &Equalities,
    ) -> BTreeMap<usize, Expr> {
        let mut equal = BTreeMap::new();
        for (at, of_table) in table.columns.iter().enumerate() {
            let member = Member::Column(of_relation(&relation.alias, &of_table.name));
            let constant = facts.equals(&member).find(|other| matches!(other, Member::Constant(_)));
            let there = || {
                facts
                    .equals(&member)
                    .find(|other| matches!(other, Member::Column(c) if self.is_joined(state, c)))
            };
            if let Some(source) = constant.or_else(there) {
                equal.insert(at, source.expr());
            }
        }
        for at in self.null_columns(relation, table).into_keys() {
            let column = column(&relation.alias, &table.columns[at].name);
            equal.entry(at).or_insert_with(|| column.is_null());
        }
        equal
    }

    /// Whether the relation of a column is joined already.
    pub(super) fn is_joined(&self, state: &State, column: &Column) -> bool {
        column
            .relation
            .as_ref()
            .is_some_and(|relation| state.joined.iter().any(|alias| alias == relation.table()))
    }

    /// Word searches in this relation: the predicate, the columns, the word.
    pub(super) fn word_searches(&self, relation: &Relation, table: &Table) -> Vec<(usize, Vec<usize>, Expr)> {
        if relation.outer.is_some() {
            return vec![];
        }
        let found =
            self.predicates.iter().enumerate().filter_map(|(place, predicate)| match &predicate.meaning {
                Meaning::Words(columns, word) => {
                    Some((place, places(columns, relation, table)?, word.clone()))
                }
                _ => None,
            });
        found.collect()
    }

    /// The predicates on a relation: those of the query, or the condition of the left join whose right side
    /// it is.
    fn predicates_of(&self, relation: &Relation) -> Cow<'_, [Predicate]> {
        match &relation.outer {
            Some(on) => on.iter().map(|expr| Predicate::of(expr, self.block)).collect(),
            None => Cow::Borrowed(self.predicates.as_slice()),
        }
    }

    /// Columns that have to be null, with the predicates that require it.
    pub(super) fn null_columns(&self, relation: &Relation, table: &Table) -> BTreeMap<usize, usize> {
        let predicates = self.predicates_of(relation);
        let found = predicates.iter().enumerate().filter_map(|(place, predicate)| match &predicate.meaning {
            Meaning::Null(column) => Some((places(std::slice::from_ref(column), relation, table)?[0], place)),
            _ => None,
        });
        found.collect()
    }

    /// Intervals by column, from the predicates on the relation.
    pub(super) fn intervals(&self, relation: &Relation, table: &Table) -> Intervals {
        let mut found: Intervals = BTreeMap::new();
        for (place, predicate) in self.predicates_of(relation).iter().enumerate() {
            let Meaning::Between(column, interval) = &predicate.meaning else { continue };
            let Some(at) = places(std::slice::from_ref(column), relation, table).map(|at| at[0]) else {
                continue;
            };
            let (merged_interval, from) = found.entry(at).or_default();
            // A row comparison, or an end that can be missing, is not combined with another predicate.
            let alone = merged_interval.open != interval.open
                || !merged_interval.then.is_empty()
                || !interval.then.is_empty();
            let clash = (merged_interval.lower.is_some() && interval.lower.is_some())
                || (merged_interval.upper.is_some() && interval.upper.is_some())
                || (alone && !from.is_empty());
            if !clash {
                merged_interval.open = interval.open;
                merged_interval.then = interval.then.clone();
                merged_interval.lower = merged_interval.lower.take().or_else(|| interval.lower.clone());
                merged_interval.upper = merged_interval.upper.take().or_else(|| interval.upper.clone());
                from.push(place);
            }
        }
        found
    }

    /// The required order as columns of this relation, without columns that are the same in all rows of a
    /// key.
    pub(super) fn order(
        &self,
        relation: &Relation,
        table: &Table,
        equal: &BTreeMap<usize, Expr>,
        wanted: &[SortExpr],
        merged: Merged<'_>,
    ) -> Option<Vec<(usize, KeyOrder)>> {
        let is_joined = |column: &Column| match merged {
            Merged::Yes => false,
            Merged::No(state) => self.is_joined(state, column),
        };
        let merged = matches!(merged, Merged::Yes);
        let mut order = Vec::new();
        for key in wanted {
            let Expr::Column(column) = &key.expr else { return None };
            if self.facts.constant(column).is_some() {
                continue;
            }
            let member = Member::Column(column.clone());
            let alike = std::iter::once(&member).chain(self.facts.equals(&member));
            let alike: Vec<&Column> = alike
                .filter_map(|member| match member {
                    Member::Column(column) => Some(column),
                    Member::Constant(_) => None,
                })
                .collect();
            let here = alike.iter().find_map(|c| places(std::slice::from_ref(*c), relation, table));
            match here.map(|at| at[0]) {
                Some(at) if !equal.contains_key(&at) => {
                    if !order.iter().any(|(existing, _)| *existing == at) {
                        order.push((at, KeyOrder { descending: !key.asc, nulls_first: key.nulls_first }));
                    }
                }
                Some(_) if !merged => {}
                None if alike.iter().any(|column| is_joined(column)) => {}
                _ => return None,
            }
        }
        Some(order)
    }

    /// The columns of a relation that the rest of the query needs, given that one word search is implied by
    /// its key.
    pub(super) fn needed_columns(
        &self,
        state: &State,
        relation: &Relation,
        table: &Table,
        search: Option<usize>,
    ) -> BTreeSet<usize> {
        let searched =
            search.and_then(|at| self.word_searches(relation, table).get(at).map(|(place, ..)| *place));
        let of_query = self.outputs.iter().chain(self.want.order.iter().map(|key| &key.expr));
        let of_predicates = self.predicates.iter().enumerate();
        let of_predicates =
            of_predicates.filter(|(place, _)| !state.applied.contains(place) && Some(*place) != searched);
        let of_joins = self.block.relations.iter().flat_map(|relation| relation.outer.iter().flatten());
        let of_folds = self.block.relations.iter().flat_map(|relation| match &relation.kept {
            Matches::Fold(folds) => folds.as_slice(),
            Matches::All | Matches::First(_) => &[],
        });
        let of_joins = of_joins.chain(of_folds.map(|(expr, _)| expr));
        let exprs = of_query.chain(of_predicates.map(|(_, predicate)| &predicate.expr)).chain(of_joins);
        let mut needed: BTreeSet<usize> = exprs
            .flat_map(columns)
            .filter_map(|column| Some(places(&[column], relation, table)?[0]))
            .collect();
        if self.want.page && !relation.keeps_row_count() {
            needed.extend(table.key_columns());
        }
        needed
    }
}

/// The positions of columns in a table; `None` if one is not of this relation.
fn places(columns: &[Column], relation: &Relation, table: &Table) -> Option<Vec<usize>> {
    let places = columns.iter().map(|column| {
        let of = column.relation.as_ref()?.table();
        (of == relation.alias).then(|| table.column(&column.name).ok()).flatten()
    });
    places.collect()
}
