//! The order in which rows come: how far what an author [asserts](crate::nodes::Assertion::Sorted) of it
//! survives, and what follows from it (trill.txt §6.2).
//!
//! Invariant: rows that are sorted by some columns are sorted by the first of them, so a prefix survives
//! where the whole does not.

use crate::nodes::{Colocation, Node, node};
use crate::passed_columns::passed_column;
use datafusion::common::JoinType;
use datafusion::logical_expr::{Join, LogicalPlan};
use whimbrel_temporal::{DurationRule, Lifetimes, StartRule};

/// What is known of one side of a join.
pub(crate) struct SortedSide<'a> {
    /// The columns by which its rows come sorted.
    pub sorted: &'a [usize],
    pub lifetimes: Lifetimes,
    pub has_time: bool,
}

impl SortedSide<'_> {
    /// Whether it is a stream without end edges.
    fn has_no_ends(&self) -> bool {
        self.has_time && !self.lifetimes.has_end_edges()
    }
}

/// Whether a step hands rows on in the order in which it gets them, or says itself in which order they are.
pub(crate) fn keeps_order(plan: &LogicalPlan) -> bool {
    match (plan, node(plan)) {
        (LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_), _) => true,
        (LogicalPlan::Join(join), _) => join.join_type == JoinType::Inner,
        (_, Some(Node::ReKey(_) | Node::WithStart(_) | Node::Require(_) | Node::Exchange(_))) => true,
        (_, Some(Node::Colocated(colocated))) => matches!(*colocated.colocation, Colocation::Equal(_)),
        (_, Some(Node::AlterLifetime(alter))) => match (&*alter.start, &*alter.duration) {
            (StartRule::Keep | StartRule::Shift(_), DurationRule::Keep) => true,
            (_, DurationRule::Constant(_) | DurationRule::Infinite | DurationRule::ByStart(_)) => true,
            // A row waits for its end, and those behind it do not.
            (_, DurationRule::Keep | DurationRule::ByLifetime(_)) => false,
        },
        _ => false,
    }
}

/// The columns up to the first that has no place in the result.
pub(crate) fn places_of_prefix(sorted: &[usize], place: impl Fn(usize) -> Option<usize>) -> Vec<usize> {
    sorted.iter().map_while(|column| place(*column)).collect()
}

/// In which order the equalities of an inner join are compared if its sides come sorted by them: the places
/// of the equalities. None: they do not, or one side is no stream without end edges.
pub(crate) fn merge_order(join: &Join, left: &SortedSide, right: &SortedSide) -> Option<Vec<usize>> {
    let are_streams = left.has_no_ends() && right.has_no_ends();
    if join.join_type != JoinType::Inner || join.on.is_empty() || !are_streams {
        return None;
    }
    let (left_schema, right_schema) = (join.left.schema(), join.right.schema());
    let mut equal = Vec::new();
    for (l, r) in &join.on {
        let places = (passed_column(l, left_schema)?, passed_column(r, right_schema)?);
        let same_type = left_schema.field(places.0).data_type() == right_schema.field(places.1).data_type();
        equal.push(same_type.then_some(places)?);
    }
    let keys = left.sorted.iter().zip(right.sorted).take(equal.len());
    let order: Vec<usize> =
        keys.map_while(|(l, r)| equal.iter().position(|places| *places == (*l, *r))).collect();
    (order.len() == equal.len()).then_some(order)
}

/// Whether rows sorted by `sorted` have those that are equal in the columns `key` one after the other.
pub(crate) fn has_runs_of(sorted: &[usize], key: &[usize]) -> bool {
    !key.is_empty()
        && sorted.len() >= key.len()
        && sorted[..key.len()].iter().all(|column| key.contains(column))
        && key.iter().all(|column| sorted[..key.len()].contains(column))
}
