//! Lists of values as the first relation of a chain: `id in (1, 2)` is a join with a relation of two rows.

use super::block::{Block, Rows};
use super::equalities::Member;
use super::expressions::of_relation;
use super::predicates::{Meaning, Predicate, column_type};
use super::state::Search;
use crate::plan::List;
use datafusion::common::Column;
use datafusion::logical_expr::Expr;

/// How many lists a chain can begin with. Further lists are filters.
pub(super) const MOST_LISTS: usize = 3;

/// The column and values of `in (…)`, if a chain can begin with them.
pub(super) fn list_column<'p>(predicate: &'p Predicate, block: &Block) -> Option<(&'p Column, &'p [Expr])> {
    let Meaning::In(column, values) = &predicate.meaning else { return None };
    let alias = column.relation.as_ref()?.table();
    let relation = block.relations.iter().find(|relation| relation.alias == alias)?;
    (relation.outer.is_none() && matches!(relation.rows, Rows::Stored(_))).then_some((column, values))
}

impl Search<'_> {
    /// Turns `in (…)` predicates into relations, and equalities with their values.
    pub(super) fn lists(&mut self, chosen: Vec<usize>) -> Vec<List> {
        let mut lists = Vec::new();
        for at in chosen {
            let Meaning::In(column, values) = self.predicates[at].meaning.clone() else { continue };
            let Some(of) = column_type(&column, self.block) else { continue };
            let alias = self.list_alias(&lists);
            let most = self.compiler.list_length(&values);
            let value = of_relation(&alias, "value");
            let predicate = &mut self.predicates[at];
            predicate.relations.insert(alias.clone());
            predicate.expr = Expr::Column(column.clone()).eq(Expr::Column(value.clone()));
            predicate.meaning = Meaning::Equal(Member::Column(column), Member::Column(value));
            lists.push(List { alias, of, values, most });
        }
        lists
    }

    /// `list1`, or the next name that is free.
    fn list_alias(&self, lists: &[List]) -> String {
        let taken = |name: &String| {
            let relations = self.block.relations.iter().map(|relation| &relation.alias);
            relations.chain(lists.iter().map(|list| &list.alias)).any(|existing| existing == name)
        };
        let mut names = (1..).map(|n| format!("list{n}"));
        // The numbers never end, so a name is always found.
        names.find(|name| !taken(name)).unwrap_or_default()
    }
}
