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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    /// There is none.
    No,
    /// It is still to be made.
    Pending(u64),
    /// There are no more rows than it says, and none may be dropped.
    Applied,
}

#[derive(Debug, Clone)]
pub(super) struct State {
    pub chain: Chain,
    pub bound: Bound,
    pub joined: Vec<String>,
    pub equalities: Equalities,
    pub applied: BTreeSet<usize>,
    pub stop: Stop,
    pub ordered: bool,
    pub new_indexes: usize,
}

impl State {
    pub fn push(&mut self, step: Step) {
        self.bound.then(&step);
        self.chain.steps.push(step);
    }

    pub fn rank(&self) -> (u64, usize, u64, usize) {
        (self.bound.cost(), self.new_indexes, self.bound.rounds, self.chain.steps.len())
    }
}

pub(super) struct Search<'a> {
    pub compiler: &'a Compiler<'a>,
    pub block: &'a Block,
    pub want: &'a Required,
    pub outputs: &'a [Expr],
    pub predicates: Vec<Predicate>,
    pub facts: Equalities,
    pub best: Option<State>,
    pub unbounded: Option<UnboundedRelation>,
    /// One behind a stop, for a reference that can be null.
    pub unbounded_by_null: Option<UnboundedRelation>,
    /// What it cost to come to where all that follows is the same.
    pub visited: BTreeMap<Place, Vec<Cost>>,
}

/// What decides about all that follows: the relations that are there, the predicates that are done, the stop,
/// the order.
pub(super) type Place = (BTreeSet<String>, BTreeSet<usize>, Stop, bool);

/// What a state has cost, and what decides how much more it will.
pub(super) type Cost = [u64; 6];
