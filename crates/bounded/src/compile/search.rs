//! The search for a join order and its fetches: the cheapest chain that has a bound (piql.txt §5, Algorithms
//! 1, 2).
//!
//! Relations are joined one by one, in every order. A fetch needs a limit for each key. There are two kinds:
//!
//! - a **data-stop** comes from the schema. It can be pushed past any predicate, since it holds for the
//!   stored rows;
//! - the query's **stop**. It can be the limit of one fetch, if that fetch reads rows in the query's order
//!   and no row is dropped afterwards: no predicate is left, and every later fetch finds exactly one row, by
//!   a declared reference that is never null.
//!
//! Invariant: a predicate is either implied by the key of a fetch, or stands in a filter right behind the
//! fetch that brought its last relation.

use super::access::{AccessContext, Candidate, candidates};
use super::block::{Block, Matches, Relation, Rows};
use super::compiler::Compiler;
use super::equalities::{Equalities, Member};
use super::error::{CompileError, UnboundedRelation};
use super::expressions::{columns, of_relation};
use super::facts::{Intervals, Merged};
use super::lists::{MOST_LISTS, list_column};
use super::part::Required;
use super::predicates::{Meaning, Predicate};
use super::state::{Search, State, Stop};
use crate::bound::Bound;
use crate::error::Error;
use crate::plan::{Access, Chain, Fetch, Hint, Keep, Source, Step};
use crate::schema::Table;
use datafusion::logical_expr::{Expr, SortExpr};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A complete chain.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// The chain.
    pub chain: Chain,
    /// Its rows are in the order that was required.
    pub ordered: bool,
    /// It has no more rows than were required.
    pub stopped: bool,
}

/// The cheapest chain for a block.
pub(super) fn search(
    compiler: &Compiler<'_>,
    block: &Block,
    want: &Required,
    outputs: &[Expr],
) -> Result<Found, CompileError> {
    let inner: Vec<Predicate> = block.conjuncts.iter().map(|expr| Predicate::of(expr, block)).collect();
    let lists: Vec<usize> =
        (0..inner.len()).filter(|at| list_column(&inner[*at], block).is_some()).take(MOST_LISTS).collect();
    let mut best = None;
    let mut unbounded: Option<UnboundedRelation> = None;
    // A list parameter has no expression for its values, so it can only be at the beginning of a chain.
    let given = |at: &usize| matches!(&inner[*at].meaning, Meaning::In(_, values) if compiler.is_list_parameter(values));
    let given: usize = lists.iter().enumerate().filter(|(_, at)| given(at)).map(|(bit, _)| 1 << bit).sum();
    for chosen in (0..(1_usize << lists.len())).filter(|chosen| chosen & given == given) {
        let chosen = lists.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1).map(|(_, at)| *at);
        let mut search = Search::new(compiler, block, want, outputs, inner.clone(), best.take());
        let Some(start) = search.start(chosen.collect())? else {
            best = search.best;
            continue;
        };
        search.descend(&start);
        best = search.best;
        unbounded = unbounded.or(search.unbounded_by_null).or(search.unbounded);
    }
    match (best, unbounded) {
        (Some(best), _) if best.applied.len() < inner.len() => {
            Err(Error::Internal("a predicate of the query is not in its plan".into()).into())
        }
        (Some(best), _) => {
            Ok(Found { chain: best.chain, ordered: best.ordered, stopped: best.stop == Stop::Applied })
        }
        (None, Some(unbounded)) => Err(CompileError::Unbounded(Box::new(unbounded))),
        // Only a stop in the middle made a limit, and rows are dropped behind it. A search without the stop
        // finds the reason.
        (None, None) if want.stop.is_some() => {
            let endless = Required { stop: None, page: false, ..want.clone() };
            match search(compiler, block, &endless, outputs) {
                Err(CompileError::Unbounded(unbounded)) => {
                    Err(CompileError::Unbounded(Box::new(UnboundedRelation {
                        stop: want.stop,
                        ..*unbounded
                    })))
                }
                _ => Err(missing_reason()),
            }
        }
        (None, None) => Err(missing_reason()),
    }
}

/// The error for a search that ended without a plan and without a reason. It is a bug.
fn missing_reason() -> CompileError {
    Error::Internal("the search of a join order found neither a plan nor a reason".into()).into()
}

impl<'a> Search<'a> {
    /// A search that has to beat the best chain so far.
    fn new(
        compiler: &'a Compiler<'a>,
        block: &'a Block,
        want: &'a Required,
        outputs: &'a [Expr],
        predicates: Vec<Predicate>,
        best: Option<State>,
    ) -> Search<'a> {
        Search {
            compiler,
            block,
            want,
            outputs,
            predicates,
            facts: Equalities::default(),
            best,
            unbounded: None,
            unbounded_by_null: None,
            visited: BTreeMap::new(),
        }
    }

    /// Whether the same relations were joined before, in another order, at no more cost.
    fn is_dominated(&mut self, state: &State) -> bool {
        let place =
            (state.joined.iter().cloned().collect(), state.applied.clone(), state.stop, state.ordered);
        let bound = &state.bound;
        let cost = [
            bound.cost(),
            bound.rows,
            bound.rounds,
            bound.tuples,
            state.new_indexes as u64,
            state.chain.steps.len() as u64,
        ];
        let seen = self.visited.entry(place).or_default();
        let dominated =
            seen.iter().any(|earlier| earlier.iter().zip(&cost).all(|(earlier, cost)| earlier <= cost));
        if !dominated {
            seen.push(cost);
        }
        dominated
    }

    /// The state at the beginning: these lists, a derived relation, or the one row of the call.
    fn start(&mut self, lists: Vec<usize>) -> Result<Option<State>, CompileError> {
        let derived: Vec<&Relation> =
            self.block.relations.iter().filter(|r| matches!(r.rows, Rows::Derived(_))).collect();
        let (chain, joined) = match derived.as_slice() {
            [] if lists.is_empty() => (Chain { source: Source::Call, steps: vec![] }, vec![]),
            [] => {
                let lists = self.lists(lists);
                let joined = lists.iter().map(|list| list.alias.clone()).collect();
                (Chain { source: Source::Lists(lists), steps: vec![] }, joined)
            }
            _ if !lists.is_empty() => return Ok(None),
            [relation] => match &relation.rows {
                Rows::Derived(chain) => (chain.clone(), vec![relation.alias.clone()]),
                Rows::Stored(_) => return Ok(None),
            },
            _ => {
                return Err(Error::invalid(
                    "two parts that are limited or grouped by themselves cannot be joined: ask for one, then for the other",
                )
                .into());
            }
        };
        for predicate in &self.predicates {
            if let Meaning::Equal(left, right) = &predicate.meaning {
                self.facts.add(left, right);
            }
        }
        let stop = self.want.stop.map_or(Stop::No, Stop::Pending);
        let mut state = State {
            bound: Bound::of(&chain),
            chain,
            joined,
            equalities: Equalities::default(),
            applied: BTreeSet::new(),
            stop,
            ordered: self.want.order.is_empty(),
            new_indexes: 0,
        };
        self.filter(&mut state);
        if !state.joined.is_empty() && self.block.relations.len() > 1 && !self.want.page {
            // The stop can stand here if all later joins find exactly one row.
            if let Some(stopped) = self.with_stop(&state) {
                self.descend(&stopped);
            }
        }
        Ok(Some(state))
    }

    /// Tries all relations that can come next, unless the state cannot beat the best chain.
    fn descend(&mut self, state: &State) {
        if self.best.as_ref().is_some_and(|best| best.rank() <= state.rank()) || self.is_dominated(state) {
            return;
        }
        let left: Vec<&Relation> =
            self.block.relations.iter().filter(|r| !state.joined.contains(&r.alias)).collect();
        if left.is_empty() {
            self.best = Some(state.clone());
            return;
        }
        for relation in left {
            let Rows::Stored(table) = &relation.rows else { continue };
            if relation.after.iter().all(|alias| state.joined.contains(alias)) {
                self.join(state, relation, table);
            }
        }
    }

    /// Tries all access paths to a relation.
    fn join(&mut self, state: &State, relation: &Relation, table: &Arc<Table>) {
        let facts = self.facts_for(relation);
        let equal = self.equal_columns(state, relation, table, &facts);
        let intervals = self.intervals(relation, table);
        let context = AccessContext {
            table,
            order: match &relation.kept {
                Matches::First(order) => self.order(relation, table, &equal, order, Merged::No(state)),
                Matches::Fold(_) => None,
                Matches::All => {
                    // Pages are merged by positions in the index.
                    let merged = self.want.page && state.bound.rows > 1;
                    let merged = if merged { Merged::Yes } else { Merged::No(state) };
                    self.order(relation, table, &equal, &self.want.order, merged)
                }
            },
            merges: self.order(relation, table, &equal, &self.want.order, Merged::Yes).is_some(),
            equal,
            words: self
                .word_searches(relation, table)
                .into_iter()
                .map(|(_, columns, word)| (columns, word))
                .collect(),
            intervals: intervals.iter().map(|(at, (interval, _))| (*at, interval.clone())).collect(),
            capabilities: self.compiler.capabilities,
        };
        let needed = |search: Option<usize>| self.needed_columns(state, relation, table, search);
        let all_candidates = candidates(&context, &needed);
        let mut any = false;
        for candidate in &all_candidates {
            any |= self.try_candidate(state, relation, table, candidate, &intervals);
        }
        if !any && self.compiler.allow && state.stop != Stop::Applied {
            any = self.try_without_limit(state, relation, table, &all_candidates, &intervals);
        }
        let endless = || {
            let joined = |candidate| self.pending_fetch(state, relation, table, candidate, &intervals);
            relation.keeps_row_count()
                && all_candidates
                    .iter()
                    .all(|candidate| limit(relation, candidate, &joined(candidate)).is_none())
        };
        if !any && (state.stop != Stop::Applied || endless()) {
            self.note_unbounded(state, relation, table, &context);
        }
    }

    /// Tries an access path, with each limit that it can have. Returns whether it had one.
    fn try_candidate(
        &mut self,
        state: &State,
        relation: &Relation,
        table: &Arc<Table>,
        candidate: &Candidate,
        intervals: &Intervals,
    ) -> bool {
        let joined = self.pending_fetch(state, relation, table, candidate, intervals);
        if state.stop == Stop::Applied {
            let exact =
                joined.residual.is_empty() && self.finds_exactly_one(state, relation, table, candidate);
            if !exact
                && joined.residual.is_empty()
                && candidate.access == Access::Record
                && self.unbounded_by_null.is_none()
            {
                self.unbounded_by_null = self.nullable_reference(state, relation, table);
            }
            let Some((most, hint)) = limit(relation, candidate, &joined).filter(|_| exact) else {
                return false;
            };
            self.descend(&joined.with_limit(most, hint));
            return true;
        }
        let mut any = false;
        if let Some(next) = self.stop_as_limit(state, candidate, &joined) {
            self.descend(&next);
            any = true;
        }
        if let Some((most, hint)) = limit(relation, candidate, &joined) {
            let mut next = joined.with_limit(most, hint);
            // The order of a subquery's first row is not the order of the query.
            let of_query = matches!(relation.kept, Matches::All);
            next.ordered |= of_query && state.bound.rows == 1 && candidate.ordered;
            if let Some(stopped) = self.with_stop(&next) {
                self.descend(&stopped);
            }
            self.descend(&next);
            any = true;
        }
        any
    }

    /// Reads the whole range, since the query may run without a bound.
    fn try_without_limit(
        &mut self,
        state: &State,
        relation: &Relation,
        table: &Arc<Table>,
        all_candidates: &[Candidate],
        intervals: &Intervals,
    ) -> bool {
        let all = Candidate {
            access: Access::Range {
                index: Box::new(table.primary().clone()),
                interval: None,
                reverse: false,
                dereference: false,
                partitions: self.compiler.capabilities.order.partitions(0),
            },
            keys: vec![],
            equal: vec![],
            words: None,
            interval: None,
            ordered: false,
            merges: false,
            schema: None,
            new: false,
        };
        let there = all_candidates
            .iter()
            .filter(|candidate| !candidate.new && !candidate.keys.is_empty())
            .max_by_key(|candidate| candidate.keys.len());
        let joined = self.pending_fetch(state, relation, table, there.unwrap_or(&all), intervals);
        let next = joined.with_limit(u64::MAX, Hint::Nothing);
        if let Some(stopped) = self.with_stop(&next) {
            self.descend(&stopped);
        }
        self.descend(&next);
        true
    }

    /// The query's stop as the limit of each key.
    fn stop_as_limit(&self, state: &State, candidate: &Candidate, joined: &PendingFetch) -> Option<State> {
        let Stop::Pending(rows) = state.stop else { return None };
        let range = matches!(candidate.access, Access::Range { .. });
        if !candidate.ordered || !joined.residual.is_empty() || !range || joined.fetch.outer {
            return None;
        }
        let single_row = state.bound.rows == 1;
        let (most, hint) = match candidate.schema {
            Some(schema) if schema <= rows => (schema, Hint::Schema),
            _ => (rows, Hint::Query),
        };
        let mut joined = joined.clone();
        joined.fetch.resumable = self.want.page;
        joined.fetch.first = (!single_row && candidate.reads_records() && candidate.merges).then_some(rows);
        let reverse = matches!(joined.fetch.access, Access::Range { reverse: true, .. });
        let mut next = joined.with_limit(most, hint);
        match (single_row, self.want.page) {
            (true, _) => {}
            (false, true) => next.push(Step::Merge { reverse, rows }),
            (false, false) => {
                if !self.want.order.is_empty() {
                    next.push(Step::Sort(self.want.order.clone()));
                }
                next.push(Step::Stop(rows));
            }
        }
        next.ordered = true;
        next.stop = Stop::Applied;
        Some(next)
    }

    /// The state sorted and stopped here, if all columns of the order are joined.
    fn with_stop(&self, state: &State) -> Option<State> {
        let Stop::Pending(rows) = state.stop else { return None };
        let there = |key: &SortExpr| columns(&key.expr).iter().all(|column| self.is_joined(state, column));
        if self.want.page || !self.want.order.iter().all(there) {
            return None;
        }
        let mut next = state.clone();
        if !next.ordered {
            next.push(Step::Sort(self.want.order.clone()));
        }
        next.push(Step::Stop(rows));
        next.ordered = true;
        next.stop = Stop::Applied;
        Some(next)
    }

    /// The fetch of an access path, and the state behind it, without its limit.
    fn pending_fetch(
        &self,
        state: &State,
        relation: &Relation,
        table: &Arc<Table>,
        candidate: &Candidate,
        intervals: &Intervals,
    ) -> PendingFetch {
        let mut next = state.clone();
        next.joined.push(relation.alias.clone());
        next.new_indexes += usize::from(candidate.new);
        let member = |at: usize| Member::Column(of_relation(&relation.alias, &table.columns[at].name));
        let mut local = next.equalities.clone();
        let mut null = BTreeSet::new();
        for (at, key) in candidate.equal.iter().zip(candidate.keys_of_columns()) {
            let source = match key {
                Expr::IsNull(_) => {
                    null.extend(self.null_columns(relation, table).remove(at));
                    continue;
                }
                Expr::Column(column) => Member::Column(column.clone()),
                other => Member::Constant(other.clone()),
            };
            local.add(&member(*at), &source);
        }
        // Positions in the condition of a left join, or in the predicates of the query.
        let in_interval = candidate.interval.map_or(&[][..], |column| intervals[&column].1.as_slice());
        let on = relation.outer.iter().flatten().enumerate().filter(|(at, expr)| {
            !in_interval.contains(at)
                && !null.contains(at)
                && !implied(&Predicate::of(expr, self.block), &local)
        });
        let on: Vec<Expr> = on.map(|(_, expr)| expr.clone()).collect();
        if relation.outer.is_none() {
            next.equalities = local;
        }
        let mut made_true: BTreeSet<usize> = BTreeSet::new();
        if let Some(search) = candidate.words {
            made_true.extend(self.word_searches(relation, table).get(search).map(|(place, ..)| *place));
        }
        if relation.outer.is_none() {
            made_true.extend(in_interval);
            made_true.extend(null);
        }
        next.applied.extend(made_true);
        let residual = self.residual(&mut next);
        let fetch = Fetch {
            alias: relation.alias.clone(),
            table: table.clone(),
            access: candidate.access.clone(),
            keys: candidate.keys.clone(),
            outer: relation.outer.is_some(),
            keep: match &relation.kept {
                Matches::All => Keep::All,
                Matches::First(_) => Keep::First,
                Matches::Fold(folds) => Keep::Fold(folds.clone()),
            },
            on,
            columns: self.needed_columns(state, relation, table, candidate.words).into_iter().collect(),
            most: 1,
            hint: Hint::Key,
            resumable: false,
            first: None,
        };
        PendingFetch { state: next, fetch, residual }
    }

    /// Predicates whose relations are all joined, and which no key implies. They count as applied from here
    /// on.
    fn residual(&self, state: &mut State) -> Vec<Expr> {
        let mut residual = Vec::new();
        for (place, predicate) in self.predicates.iter().enumerate() {
            if state.applied.contains(&place)
                || !predicate.relations.iter().all(|alias| state.joined.contains(alias))
            {
                continue;
            }
            state.applied.insert(place);
            if !implied(predicate, &state.equalities) {
                residual.push(predicate.expr.clone());
            }
            if let Meaning::Equal(left, right) = &predicate.meaning {
                state.equalities.add(left, right);
            }
        }
        residual
    }

    /// Adds a filter of the predicates that can be checked from here on.
    fn filter(&self, state: &mut State) {
        let residual = self.residual(state);
        if !residual.is_empty() {
            state.push(Step::Filter(residual));
        }
    }

    /// Notes that a relation has no bound here, if that explains more than what was noted before.
    fn note_unbounded(
        &mut self,
        state: &State,
        relation: &Relation,
        table: &Arc<Table>,
        context: &AccessContext<'_>,
    ) {
        let equal: Vec<usize> = context.equal.keys().copied().collect();
        if let Some(unbounded) = &mut self.unbounded {
            match unbounded.joined.len().cmp(&state.joined.len()) {
                Ordering::Greater => return,
                // The refusal is more useful if some columns of the relation equal something.
                Ordering::Equal if equal.is_empty() || !unbounded.equal.is_empty() => {
                    if !equal.is_empty() && unbounded.alias != relation.alias {
                        unbounded.also.push((table.clone(), equal));
                    }
                    return;
                }
                Ordering::Equal | Ordering::Less => {}
            }
        }
        let residual = self.predicates.iter().filter(|predicate| {
            predicate.relations.contains(&relation.alias) && !matches!(predicate.meaning, Meaning::Equal(..))
        });
        self.unbounded = Some(UnboundedRelation {
            alias: relation.alias.clone(),
            table: table.clone(),
            joined: state.joined.clone(),
            equal,
            also: vec![],
            residual: residual.map(|predicate| predicate.expr.clone()).collect(),
            // What is read for each row does not depend on how many rows the query needs.
            stop: self.want.stop.filter(|_| !relation.keeps_row_count()),
            orderable: context.order.is_some(),
            nullable: None,
        });
    }
}

impl Candidate {
    /// Whether it reads entries, and then records.
    fn reads_records(&self) -> bool {
        matches!(self.access, Access::Range { dereference: true, .. })
    }

    /// The key's values for its columns, in the order of `equal`.
    fn keys_of_columns(&self) -> impl Iterator<Item = &Expr> {
        let words = |at: usize| match &self.access {
            Access::Range { index, .. } => index.parts.get(at).is_some_and(|part| part.column().is_none()),
            Access::Record | Access::Unique(_) => false,
        };
        self.keys.iter().enumerate().filter(move |(at, _)| !words(*at)).map(|(_, key)| key)
    }
}

/// A fetch without its limit, and the state behind it.
#[derive(Debug, Clone)]
struct PendingFetch {
    /// The state behind the fetch.
    state: State,
    /// The fetch.
    fetch: Fetch,
    /// Predicates to be checked behind it.
    residual: Vec<Expr>,
}

impl PendingFetch {
    /// The state behind the fetch, with this limit for each key.
    fn with_limit(&self, most: u64, hint: Hint) -> State {
        let mut state = self.state.clone();
        state.push(Step::Fetch(Box::new(Fetch { most, hint, ..self.fetch.clone() })));
        if !self.residual.is_empty() {
            state.push(Step::Filter(self.residual.clone()));
        }
        state
    }
}

/// The limit of a fetch for each key, and its reason. If only the first match is kept, one row is enough if
/// the key implies the whole condition; else the match is searched for among all rows that the schema allows.
fn limit(relation: &Relation, candidate: &Candidate, joined: &PendingFetch) -> Option<(u64, Hint)> {
    match (&relation.kept, candidate.schema) {
        (_, Some(1)) => Some((1, Hint::Key)),
        (Matches::First(_), _) if !candidate.ordered => None,
        (Matches::First(_), _) if joined.fetch.on.is_empty() => Some((1, Hint::Query)),
        (_, schema) => schema.map(|most| (most, Hint::Schema)),
    }
}

/// Whether a predicate is true by the equalities that hold already.
fn implied(predicate: &Predicate, equalities: &Equalities) -> bool {
    matches!(&predicate.meaning, Meaning::Equal(left, right) if equalities.same(left, right))
}
