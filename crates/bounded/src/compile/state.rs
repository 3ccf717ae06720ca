//! The state of the search for a join order: a partial chain, the best complete one, and the states visited
//! so far.

use super::block::Block;
use super::compiler::Compiler;
use super::equalities::Equalities;
use super::error::UnboundedRelation;
use super::part::Required;
use super::predicates::Predicate;
use crate::bound::Bound;
use crate::plan::{Chain, Step};
use datafusion::logical_expr::Expr;
use std::collections::{BTreeMap, BTreeSet};

/// The query's stop, during the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    /// The query has none.
    No,
    /// It is still to be applied.
    Pending(u64),
    /// It was applied: later steps must not drop rows.
    Applied,
}

/// A partial chain.
#[derive(Debug, Clone)]
pub(super) struct State {
    /// The steps so far.
    pub chain: Chain,
    /// Their bound.
    pub bound: Bound,
    /// The relations that are joined, in order.
    pub joined: Vec<String>,
    /// The equalities that hold for its rows.
    pub equalities: Equalities,
    /// The predicates that hold for its rows.
    pub applied: BTreeSet<usize>,
    /// What became of the query's stop.
    pub stop: Stop,
    /// The rows are in the query's order.
    pub ordered: bool,
    /// How many indexes have to be made.
    pub new_indexes: usize,
}

impl State {
    /// Adds a step, and its cost.
    pub fn push(&mut self, step: Step) {
        self.bound.then(&step);
        self.chain.steps.push(step);
    }

    /// What decides between two chains: cost, then new indexes, rounds and steps.
    pub fn rank(&self) -> (u64, usize, u64, usize) {
        (self.bound.cost(), self.new_indexes, self.bound.rounds, self.chain.steps.len())
    }
}

/// A search for the cheapest chain of a block.
pub(super) struct Search<'a> {
    /// The compiler of the query.
    pub compiler: &'a Compiler<'a>,
    /// What is searched for an order.
    pub block: &'a Block,
    /// The order, stop and pages of the query.
    pub want: &'a Required,
    /// The columns that the block returns.
    pub outputs: &'a [Expr],
    /// The predicates of the block.
    pub predicates: Vec<Predicate>,
    /// The equalities that hold for every result.
    pub facts: Equalities,
    /// The cheapest complete chain so far.
    pub best: Option<State>,
    /// The relation that had no bound, where the search came farthest.
    pub unbounded: Option<UnboundedRelation>,
    /// The same for a join behind the stop that follows a nullable reference.
    pub unbounded_by_null: Option<UnboundedRelation>,
    /// The costs at which each place was visited.
    pub visited: BTreeMap<Place, Vec<Cost>>,
}

/// What the rest of the search depends on: the joined relations, the applied predicates, the stop and the
/// order.
pub(super) type Place = (BTreeSet<String>, BTreeSet<usize>, Stop, bool);

/// The cost of a state so far, and what its further cost depends on.
pub(super) type Cost = [u64; 6];
