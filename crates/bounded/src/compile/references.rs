//! Joins that find exactly one row for each row: they follow a reference that is never null.
//!
//! The query's stop can stand before such a join, since the join drops no row.

use super::access::Candidate;
use super::block::{Relation, Rows};
use super::equalities::Member;
use super::error::{Reference, UnboundedRelation};
use super::expressions::of_relation;
use super::predicates::{Meaning, Predicate};
use super::state::{Search, State};
use crate::plan::Access;
use crate::schema::{ForeignKey, Table};
use std::sync::Arc;

impl Search<'_> {
    /// Whether the join finds exactly one row for each row.
    pub(super) fn finds_exactly_one(
        &self,
        state: &State,
        relation: &Relation,
        table: &Table,
        way: &Candidate,
    ) -> bool {
        if relation.outer.is_some() {
            return way.schema == Some(1) || relation.keeps_row_count();
        }
        way.access == Access::Record
            && self.references(state, relation, table).any(|(alias, referring, key)| {
                key.columns.iter().all(|at| {
                    let column = &referring.columns[*at];
                    let member = Member::Column(of_relation(alias, &column.name));
                    !column.is_nullable() || self.is_not_null(state, &member)
                })
            })
    }

    /// References from joined relations to this one that the query's equalities follow.
    fn references<'s>(
        &'s self,
        state: &'s State,
        relation: &'s Relation,
        table: &'s Table,
    ) -> impl Iterator<Item = (&'s str, &'s Arc<Table>, &'s ForeignKey)> {
        let there = |from: &&Relation| state.joined.contains(&from.alias) && from.outer.is_none();
        self.block.relations.iter().filter(there).flat_map(move |from| {
            let referring = match &from.rows {
                Rows::Stored(referring) => Some(referring),
                Rows::Derived(_) => None,
            };
            let member = |alias: &str, table: &Table, at: usize| {
                Member::Column(of_relation(alias, &table.columns[at].name))
            };
            let followed = move |referring: &'s Arc<Table>| {
                referring.references().filter(move |key| {
                    let same = |(at, key): (&usize, usize)| {
                        let (here, there) =
                            (member(&from.alias, referring, *at), member(&relation.alias, table, key));
                        self.facts.same(&here, &there)
                    };
                    key.table == table.name && key.columns.iter().zip(table.key_columns()).all(same)
                })
            };
            let keys =
                referring.into_iter().flat_map(move |table| followed(table).map(move |key| (table, key)));
            keys.map(|(referring, key)| (from.alias.as_str(), referring, key))
        })
    }

    /// Whether rows with a null here are gone already: a key or a filter implies that the column equals a
    /// value or is in an interval.
    fn is_not_null(&self, state: &State, member: &Member) -> bool {
        let says = |predicate: &Predicate| match (&predicate.meaning, member) {
            (Meaning::Between(column, interval), Member::Column(member)) => {
                column == member && !interval.open
            }
            (Meaning::In(column, _), Member::Column(member)) => column == member,
            _ => false,
        };
        let done = self.predicates.iter().enumerate().filter(|(place, _)| state.applied.contains(place));
        state.equalities.equals(member).next().is_some() || done.map(|(_, predicate)| predicate).any(says)
    }

    /// The refusal for a join behind the stop that follows a reference which can be null.
    pub(super) fn nullable_reference(
        &self,
        state: &State,
        relation: &Relation,
        table: &Table,
    ) -> Option<UnboundedRelation> {
        let (alias, referring, key) = self.references(state, relation, table).next()?;
        let column = *key.columns.iter().find(|at| referring.columns[**at].is_nullable())?;
        let equals_joined =
            |at: &usize| self.facts.constant(&of_relation(alias, &referring.columns[*at].name)).is_some();
        let reference = Reference { alias: alias.to_string(), table: referring.clone(), column };
        Some(UnboundedRelation {
            alias: alias.to_string(),
            table: referring.clone(),
            joined: vec![],
            equal: (0..referring.columns.len()).filter(equals_joined).collect(),
            also: vec![],
            residual: vec![],
            stop: self.want.stop,
            orderable: true,
            nullable: Some(reference),
        })
    }
}
