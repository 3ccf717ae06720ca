//! Join order and remote operators: the cheapest chain of fetches that has a bound (piql.txt §5, Algorithms 1 and 2).
//!
//! Relations are put to the chain one by one, in every order. A fetch needs a limit for each key, and there are two:
//!
//! - a **data-stop**, from the schema. It goes past any predicate, for it is a truth about the store;
//! - the query's **stop**. It can become the limit of one fetch, if that reads rows in the query's order and nothing
//!   drops any of them afterwards: no predicate is left, and every later fetch finds exactly one row (by a declared
//!   reference that is never null). From there on there are no more rows than the stop says.
//!
//! Invariant: a predicate is either made true by keys of a fetch or is in a filter right behind the fetch that brought
//! its last relation.

use super::access::{Candidate, Known, candidates};
use super::block::{Block, Kept, Relation, Rows, of_relation};
use super::equalities::{Equalities, Member};
use super::lists::{MOST_LISTS, list_column};
use super::predicates::{Predicate, Says, columns};
use super::turn::{Intervals, Merged};
use super::{Compiler, DeadEnd, Stuck, Want};
use crate::bound::Bound;
use crate::error::Error;
use crate::plan::{Access, Chain, Fetch, Hint, Keep, Source, Step};
use crate::schema::Table;
use datafusion::logical_expr::{Expr, SortExpr};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A chain, and what is known of its rows.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub chain: Chain,
    pub ordered: bool,
    pub stopped: bool,
}

/// The cheapest chain for a block.
pub(super) fn search(
    compiler: &Compiler<'_>,
    block: &Block,
    want: &Want,
    outputs: &[Expr],
) -> Result<Found, Stuck> {
    let inner: Vec<Predicate> = block.conjuncts.iter().map(|expr| Predicate::of(expr, block)).collect();
    let lists: Vec<usize> =
        (0..inner.len()).filter(|at| list_column(&inner[*at], block).is_some()).take(MOST_LISTS).collect();
    let mut best = None;
    let mut dead_end: Option<DeadEnd> = None;
    // A list that is given with the call has no expression: it can only be where the chain begins.
    let given = |at: &usize| matches!(&inner[*at].says, Says::In(_, values) if compiler.is_given(values));
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
        dead_end = dead_end.or(search.nullable).or(search.dead_end);
    }
    match (best, dead_end) {
        (Some(best), _) if best.done.len() < inner.len() => {
            Err(Error::Internal("a predicate of the query is not in its plan".into()).into())
        }
        (Some(best), _) => {
            Ok(Found { chain: best.chain, ordered: best.ordered, stopped: best.stop == Stop::Done })
        }
        (None, Some(dead_end)) => Err(Stuck::Unbounded(Box::new(dead_end))),
        // A stop in the middle was all there was, and rows are dropped behind it: without it the reason is seen.
        (None, None) if want.stop.is_some() => {
            let endless = Want { stop: None, page: false, ..want.clone() };
            match search(compiler, block, &endless, outputs) {
                Err(Stuck::Unbounded(dead_end)) => {
                    Err(Stuck::Unbounded(Box::new(DeadEnd { stop: want.stop, ..*dead_end })))
                }
                _ => Err(no_reason()),
            }
        }
        (None, None) => Err(no_reason()),
    }
}

fn no_reason() -> Stuck {
    Error::Internal("the search of a join order found neither a plan nor a reason".into()).into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    /// There is none.
    No,
    /// It is still to be made.
    Pending(u64),
    /// There are no more rows than it says, and none may be dropped.
    Done,
}

#[derive(Debug, Clone)]
pub(super) struct State {
    chain: Chain,
    pub bound: Bound,
    pub joined: Vec<String>,
    pub known: Equalities,
    pub done: BTreeSet<usize>,
    stop: Stop,
    ordered: bool,
    new_indexes: usize,
}

impl State {
    fn push(&mut self, step: Step) {
        self.bound.then(&step);
        self.chain.steps.push(step);
    }

    fn rank(&self) -> (u64, usize, u64, usize) {
        (self.bound.cost(), self.new_indexes, self.bound.rounds, self.chain.steps.len())
    }
}

pub(super) struct Search<'a> {
    pub compiler: &'a Compiler<'a>,
    pub block: &'a Block,
    pub want: &'a Want,
    pub outputs: &'a [Expr],
    pub predicates: Vec<Predicate>,
    pub facts: Equalities,
    best: Option<State>,
    dead_end: Option<DeadEnd>,
    /// One behind a stop, for a reference that can be null.
    nullable: Option<DeadEnd>,
    /// What it cost to come to where all that follows is the same.
    seen: BTreeMap<Place, Vec<Cost>>,
}

/// What decides about all that follows: the relations that are there, the predicates that are done, the stop, the
/// order.
type Place = (BTreeSet<String>, BTreeSet<usize>, Stop, bool);

/// What a state has cost, and what decides how much more it will.
type Cost = [u64; 6];

impl<'a> Search<'a> {
    fn new(
        compiler: &'a Compiler<'a>,
        block: &'a Block,
        want: &'a Want,
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
            dead_end: None,
            nullable: None,
            seen: BTreeMap::new(),
        }
    }

    /// Whether another order of the same relations has come here at no more cost: there are more orders than sets.
    fn was_here(&mut self, state: &State) -> bool {
        let place = (state.joined.iter().cloned().collect(), state.done.clone(), state.stop, state.ordered);
        let bound = &state.bound;
        let cost = [
            bound.cost(),
            bound.rows,
            bound.rounds,
            bound.tuples,
            state.new_indexes as u64,
            state.chain.steps.len() as u64,
        ];
        let seen = self.seen.entry(place).or_default();
        let dominated = seen.iter().any(|known| known.iter().zip(&cost).all(|(known, cost)| known <= cost));
        if !dominated {
            seen.push(cost);
        }
        dominated
    }

    /// What the chain begins with: these lists, or the derived relation, or the call.
    fn start(&mut self, lists: Vec<usize>) -> Result<Option<State>, Stuck> {
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
            if let Says::Equal(left, right) = &predicate.says {
                self.facts.add(left, right);
            }
        }
        let stop = self.want.stop.map_or(Stop::No, Stop::Pending);
        let mut state = State {
            bound: Bound::of(&chain),
            chain,
            joined,
            known: Equalities::default(),
            done: BTreeSet::new(),
            stop,
            ordered: self.want.order.is_empty(),
            new_indexes: 0,
        };
        self.filter(&mut state);
        if !state.joined.is_empty() && self.block.relations.len() > 1 && !self.want.page {
            // The stop right here, if all that follows finds exactly one row.
            if let Some(stopped) = self.stopped_here(&state) {
                self.descend(&stopped);
            }
        }
        Ok(Some(state))
    }

    fn descend(&mut self, state: &State) {
        if self.best.as_ref().is_some_and(|best| best.rank() <= state.rank()) || self.was_here(state) {
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

    /// All ways to this relation.
    fn join(&mut self, state: &State, relation: &Relation, table: &Arc<Table>) {
        let facts = self.facts_for(relation);
        let equal = self.equal(state, relation, table, &facts);
        let intervals = self.intervals(relation, table);
        let known = Known {
            table,
            order: match &relation.kept {
                Kept::First(order) => self.order(relation, table, &equal, order, Merged::No(state)),
                Kept::Fold(_) => None,
                Kept::All => {
                    // A page is merged by positions in the index alone.
                    let merged = self.want.page && state.bound.rows > 1;
                    let merged = if merged { Merged::Yes } else { Merged::No(state) };
                    self.order(relation, table, &equal, &self.want.order, merged)
                }
            },
            merges: self.order(relation, table, &equal, &self.want.order, Merged::Yes).is_some(),
            equal,
            words: self
                .words(relation, table)
                .into_iter()
                .map(|(_, columns, word)| (columns, word))
                .collect(),
            intervals: intervals.iter().map(|(at, (interval, _))| (*at, interval.clone())).collect(),
            capabilities: self.compiler.capabilities,
        };
        let needed = |search: Option<usize>| self.needed(state, relation, table, search);
        let ways = candidates(&known, &needed);
        let mut any = false;
        for way in &ways {
            any |= self.take(state, relation, table, way, &intervals);
        }
        if !any && self.compiler.allow && state.stop != Stop::Done {
            any = self.take_without_limit(state, relation, table, &ways, &intervals);
        }
        let endless = || {
            let joined = |way| self.joined(state, relation, table, way, &intervals);
            relation.is_single() && ways.iter().all(|way| limit(relation, way, &joined(way)).is_none())
        };
        if !any && (state.stop != Stop::Done || endless()) {
            self.stuck_at(state, relation, table, &known);
        }
    }

    /// Goes on by this way, in every mode that has a limit. Says whether there was one.
    fn take(
        &mut self,
        state: &State,
        relation: &Relation,
        table: &Arc<Table>,
        way: &Candidate,
        intervals: &Intervals,
    ) -> bool {
        let joined = self.joined(state, relation, table, way, intervals);
        if state.stop == Stop::Done {
            let exact = joined.residual.is_empty() && self.finds_exactly_one(state, relation, table, way);
            if !exact && joined.residual.is_empty() && way.access == Access::Record && self.nullable.is_none()
            {
                self.nullable = self.nullable_reference(state, relation, table);
            }
            let Some((most, hint)) = limit(relation, way, &joined).filter(|_| exact) else { return false };
            self.descend(&joined.with(most, hint));
            return true;
        }
        let mut any = false;
        if let Some(next) = self.stop_as_limit(state, way, &joined) {
            self.descend(&next);
            any = true;
        }
        if let Some((most, hint)) = limit(relation, way, &joined) {
            let mut next = joined.with(most, hint);
            // Of a subquery whose first row is kept, the way has the subquery's order.
            let of_query = matches!(relation.kept, Kept::All);
            next.ordered |= of_query && state.bound.rows == 1 && way.ordered;
            if let Some(stopped) = self.stopped_here(&next) {
                self.descend(&stopped);
            }
            self.descend(&next);
            any = true;
        }
        any
    }

    /// The whole range, because it was allowed.
    fn take_without_limit(
        &mut self,
        state: &State,
        relation: &Relation,
        table: &Arc<Table>,
        ways: &[Candidate],
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
        let there =
            ways.iter().filter(|way| !way.new && !way.keys.is_empty()).max_by_key(|way| way.keys.len());
        let joined = self.joined(state, relation, table, there.unwrap_or(&all), intervals);
        let next = joined.with(u64::MAX, Hint::Nothing);
        if let Some(stopped) = self.stopped_here(&next) {
            self.descend(&stopped);
        }
        self.descend(&next);
        true
    }

    /// The query's stop as the limit of each key.
    fn stop_as_limit(&self, state: &State, way: &Candidate, joined: &Joined) -> Option<State> {
        let Stop::Pending(rows) = state.stop else { return None };
        let range = matches!(way.access, Access::Range { .. });
        if !way.ordered || !joined.residual.is_empty() || !range || joined.fetch.outer {
            return None;
        }
        let single = state.bound.rows == 1;
        let (most, hint) = match way.schema {
            Some(schema) if schema <= rows => (schema, Hint::Schema),
            _ => (rows, Hint::Query),
        };
        let mut joined = joined.clone();
        joined.fetch.resumable = self.want.page;
        joined.fetch.first = (!single && way.reads_records() && way.merges).then_some(rows);
        let reverse = matches!(joined.fetch.access, Access::Range { reverse: true, .. });
        let mut next = joined.with(most, hint);
        match (single, self.want.page) {
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
        next.stop = Stop::Done;
        Some(next)
    }

    /// Sorted and stopped where it is, if all that it is ordered by is there.
    fn stopped_here(&self, state: &State) -> Option<State> {
        let Stop::Pending(rows) = state.stop else { return None };
        let there = |key: &SortExpr| columns(&key.expr).iter().all(|column| self.is_there(state, column));
        if self.want.page || !self.want.order.iter().all(there) {
            return None;
        }
        let mut next = state.clone();
        if !next.ordered {
            next.push(Step::Sort(self.want.order.clone()));
        }
        next.push(Step::Stop(rows));
        next.ordered = true;
        next.stop = Stop::Done;
        Some(next)
    }

    /// The state behind this fetch, but for its limit.
    fn joined(
        &self,
        state: &State,
        relation: &Relation,
        table: &Arc<Table>,
        way: &Candidate,
        intervals: &Intervals,
    ) -> Joined {
        let mut next = state.clone();
        next.joined.push(relation.alias.clone());
        next.new_indexes += usize::from(way.new);
        let member = |at: usize| Member::Column(of_relation(&relation.alias, &table.columns[at].name));
        let mut local = next.known.clone();
        let mut null = BTreeSet::new();
        for (at, key) in way.equal.iter().zip(way.keys_of_columns()) {
            let source = match key {
                Expr::IsNull(_) => {
                    null.extend(self.nulls(relation, table).remove(at));
                    continue;
                }
                Expr::Column(column) => Member::Column(column.clone()),
                other => Member::Constant(other.clone()),
            };
            local.add(&member(*at), &source);
        }
        // Of a left join these are places in what it says, else in the predicates of the query.
        let in_interval = way.interval.map_or(&[][..], |column| intervals[&column].1.as_slice());
        let on = relation.outer.iter().flatten().enumerate().filter(|(at, expr)| {
            !in_interval.contains(at)
                && !null.contains(at)
                && !implied(&Predicate::of(expr, self.block), &local)
        });
        let on: Vec<Expr> = on.map(|(_, expr)| expr.clone()).collect();
        if relation.outer.is_none() {
            next.known = local;
        }
        let mut made_true: BTreeSet<usize> = BTreeSet::new();
        if let Some(search) = way.words {
            made_true.extend(self.words(relation, table).get(search).map(|(place, ..)| *place));
        }
        if relation.outer.is_none() {
            made_true.extend(in_interval);
            made_true.extend(null);
        }
        next.done.extend(made_true);
        let residual = self.residual(&mut next);
        let fetch = Fetch {
            alias: relation.alias.clone(),
            table: table.clone(),
            access: way.access.clone(),
            keys: way.keys.clone(),
            outer: relation.outer.is_some(),
            keep: match &relation.kept {
                Kept::All => Keep::All,
                Kept::First(_) => Keep::First,
                Kept::Fold(folds) => Keep::Fold(folds.clone()),
            },
            on,
            columns: self.needed(state, relation, table, way.words).into_iter().collect(),
            most: 1,
            hint: Hint::Key,
            resumable: false,
            first: None,
        };
        Joined { state: next, fetch, residual }
    }

    /// Predicates whose relations are all there and that are not known to be true; they are from now on.
    fn residual(&self, state: &mut State) -> Vec<Expr> {
        let mut residual = Vec::new();
        for (place, predicate) in self.predicates.iter().enumerate() {
            if state.done.contains(&place)
                || !predicate.relations.iter().all(|alias| state.joined.contains(alias))
            {
                continue;
            }
            state.done.insert(place);
            if !implied(predicate, &state.known) {
                residual.push(predicate.expr.clone());
            }
            if let Says::Equal(left, right) = &predicate.says {
                state.known.add(left, right);
            }
        }
        residual
    }

    fn filter(&self, state: &mut State) {
        let residual = self.residual(state);
        if !residual.is_empty() {
            state.push(Step::Filter(residual));
        }
    }

    fn stuck_at(&mut self, state: &State, relation: &Relation, table: &Arc<Table>, known: &Known<'_>) {
        let equal: Vec<usize> = known.equal.keys().copied().collect();
        if let Some(dead_end) = &mut self.dead_end {
            match dead_end.joined.len().cmp(&state.joined.len()) {
                Ordering::Greater => return,
                // Where something is known of the rows there is more to say than where nothing is.
                Ordering::Equal if equal.is_empty() || !dead_end.equal.is_empty() => {
                    if !equal.is_empty() && dead_end.alias != relation.alias {
                        dead_end.also.push((table.clone(), equal));
                    }
                    return;
                }
                Ordering::Equal | Ordering::Less => {}
            }
        }
        let residual = self.predicates.iter().filter(|predicate| {
            predicate.relations.contains(&relation.alias) && !matches!(predicate.says, Says::Equal(..))
        });
        self.dead_end = Some(DeadEnd {
            alias: relation.alias.clone(),
            table: table.clone(),
            joined: state.joined.clone(),
            equal,
            also: vec![],
            residual: residual.map(|predicate| predicate.expr.clone()).collect(),
            // What is asked for each row does not depend on how many rows are wanted.
            stop: self.want.stop.filter(|_| !relation.is_single()),
            orderable: known.order.is_some(),
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

/// A fetch, and the state behind it, before it is said how many rows a key has.
#[derive(Debug, Clone)]
struct Joined {
    state: State,
    fetch: Fetch,
    residual: Vec<Expr>,
}

impl Joined {
    fn with(&self, most: u64, hint: Hint) -> State {
        let mut state = self.state.clone();
        state.push(Step::Fetch(Box::new(Fetch { most, hint, ..self.fetch.clone() })));
        if !self.residual.is_empty() {
            state.push(Step::Filter(self.residual.clone()));
        }
        state
    }
}

/// How many rows are read for each key, and what says so. Where only the first is wanted, it is the first that is read
/// if the key makes all true that is said of it; else it is looked for among all that the schema allows.
fn limit(relation: &Relation, way: &Candidate, joined: &Joined) -> Option<(u64, Hint)> {
    match (&relation.kept, way.schema) {
        (_, Some(1)) => Some((1, Hint::Key)),
        (Kept::First(_), _) if !way.ordered => None,
        (Kept::First(_), _) if joined.fetch.on.is_empty() => Some((1, Hint::Query)),
        (_, schema) => schema.map(|most| (most, Hint::Schema)),
    }
}

fn implied(predicate: &Predicate, known: &Equalities) -> bool {
    matches!(&predicate.says, Says::Equal(left, right) if known.same(left, right))
}
