//! Moves rows by the window in which they are, where they meet within a window only.
//!
//! An aggregate over tumbling windows needs rows of one group and window in one shard. If windows take turns,
//! rows move as slices of their batches, since they come in the order of time: no row is hashed or copied.
//! (Partitioning by time is from Chandramouli, Goldstein, Duan: Temporal Analytics on Big Data for Web
//! Advertising, ICDE 2012.) That is done
//! - for rows that move by the key of the aggregate. Result rows then lie in other shards than the plan says,
//!   so all above the aggregate has to look at single rows;
//! - for rows that are all in one shard, on as many cores as there are. What comes out is merged by time
//!   again, into the same stream.

use super::dag::scan_of;
use super::push_down::moves_by_group_key;
use crate::dataset::{dataset, integers};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Aggregate, LogicalPlan};
use std::collections::HashSet;
use std::iter::successors;
use std::sync::Arc;
use whimbrel_plan::nodes::{AlterLifetime, Ingress, Scope, extension};
use whimbrel_plan::{Exchange, Movement, Node, node, properties};
use whimbrel_temporal::{Closed, DurationRule, StartRule, Time};

/// How many turns each shard has at least, so that all have about as many rows.
const MIN_TURNS: usize = 16;

/// How many rows are worth a turn.
const MIN_TURN_ROWS: u64 = 1024;

/// How many batches a turn takes if there are enough rows. Then a batch has hardly ever two slices for one
/// shard.
const TURN_BATCHES: u64 = 2;

/// By how much the largest shard may exceed the average.
const MAX_SKEW: f64 = 1.2;

/// Lets windows take turns where that does not change the rows of the result.
///
/// # Errors
/// `Plan` if the plan cannot be rebuilt.
pub(crate) fn partition_by_time(plan: LogicalPlan, batch_rows: usize, cores: usize) -> Result<LogicalPlan> {
    let plan = by_turns_on_the_way(&plan, batch_rows)?.unwrap_or(plan);
    if cores == 1 {
        return Ok(plan);
    }
    let rewrite = |plan: LogicalPlan| match &plan {
        LogicalPlan::Aggregate(aggregate) => match on_all_cores(aggregate, batch_rows, cores)? {
            Some(merged) => Ok(Transformed::new(merged, true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(plan)),
        },
        _ => Ok(Transformed::no(plan)),
    };
    plan.transform_down(rewrite).data()
}

/// The plan with an aggregate on the way to its result, in place of whose movement by key windows take turns.
fn by_turns_on_the_way(plan: &LogicalPlan, batch_rows: usize) -> Result<Option<LogicalPlan>> {
    match (plan, plan.inputs().as_slice()) {
        (LogicalPlan::Aggregate(aggregate), _) => by_turns(aggregate, batch_rows),
        (_, [input]) if is_row_wise(plan) => {
            let input = by_turns_on_the_way(input, batch_rows)?;
            input.map(|input| plan.with_new_exprs(plan.expressions(), vec![input])).transpose()
        }
        _ => Ok(None),
    }
}

/// Whether a node makes of each row at most one, with the same lifetime.
fn is_row_wise(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => true,
        plan => matches!(node(plan), Some(Node::ReKey(_) | Node::WithStart(_))),
    }
}

/// The aggregate over windows that take turns, if it is over tumbling windows of rows that move by its key.
fn by_turns(aggregate: &Aggregate, batch_rows: usize) -> Result<Option<LogicalPlan>> {
    let Some(windows) = Tumbling::of(aggregate) else { return Ok(None) };
    let Some(Node::Exchange(exchange)) = node(&windows.node.input) else { return Ok(None) };
    let is_free = exchange.scope == Scope::Global && exchange.location.is_none();
    if !is_free || !moves_by_group_key(exchange, aggregate)? {
        return Ok(None);
    }
    let shards = exchange.shards.unwrap_or(properties(&exchange.input)?.shards);
    let moved = windows.moved(exchange.input.clone().into_inner(), &[shards], batch_rows)?;
    moved.map(|moved| windows.aggregate_of(moved)).transpose()
}

/// The aggregate on all cores, merged into one shard, if it is over tumbling windows of rows that are in one
/// shard.
fn on_all_cores(aggregate: &Aggregate, batch_rows: usize, cores: usize) -> Result<Option<LogicalPlan>> {
    let Some(windows) = Tumbling::of(aggregate) else { return Ok(None) };
    if properties(&windows.node.input)?.shards != 1 {
        return Ok(None);
    }
    let shards: Vec<usize> = successors(Some(cores), |n| Some(n / 2)).take_while(|n| *n > 1).collect();
    let Some(moved) = windows.spread(&windows.node.input, batch_rows, &shards)? else { return Ok(None) };
    let spread = windows.aggregate_of(moved)?;
    let merged = Exchange::try_new(spread, Movement::ReShard, Some(1), Scope::Global)?;
    Ok(Some(extension(merged)))
}

/// An aggregate over tumbling windows.
struct Tumbling<'a> {
    aggregate: &'a Aggregate,
    node: &'a AlterLifetime,
    /// Ticks of a window.
    size: i64,
    /// The start of a window.
    offset: i64,
}

impl<'a> Tumbling<'a> {
    /// The windows right below an aggregate, if they are tumbling ones.
    fn of(aggregate: &'a Aggregate) -> Option<Tumbling<'a>> {
        let Some(Node::AlterLifetime(node)) = node(&aggregate.input) else { return None };
        match (&*node.start, &*node.duration) {
            (StartRule::Snap { hop, offset, closed }, DurationRule::Constant(size)) if size == hop => {
                // A window that is closed on the right begins one tick after an instant of the grid.
                let offset = offset.saturating_add(i64::from(*closed == Closed::Right));
                Some(Tumbling { aggregate, node, size: *size, offset })
            }
            _ => None,
        }
    }

    /// Rows in one shard, in turns in several. Rows that were brought into one shard move from where they
    /// were.
    fn spread(&self, rows: &LogicalPlan, batch_rows: usize, shards: &[usize]) -> Result<Option<LogicalPlan>> {
        match (node(rows), rows.inputs().as_slice()) {
            (Some(Node::Exchange(exchange)), _) => match &*exchange.movement {
                Movement::ReShard if exchange.location.is_none() => {
                    self.moved(exchange.input.clone().into_inner(), shards, batch_rows)
                }
                _ => Ok(None),
            },
            (_, [input]) if is_row_wise(rows) => {
                let input = self.spread(input, batch_rows, shards)?;
                input.map(|input| rows.with_new_exprs(rows.expressions(), vec![input])).transpose()
            }
            _ => self.moved(rows.clone(), shards, batch_rows),
        }
    }

    /// The rows of a stream, in turns in the first of these numbers of shards with which that pays.
    fn moved(&self, rows: LogicalPlan, shards: &[usize], batch_rows: usize) -> Result<Option<LogicalPlan>> {
        let known = properties(&rows)?;
        if !known.bounded || !known.lifetimes.edge_free() || !known.partition.is_empty() {
            return Ok(None);
        }
        let Some(times) = times(&rows)? else { return Ok(None) };
        let turn = |shards: &usize| {
            let size = times.turn(self.size, self.offset, *shards, batch_rows as u64)?;
            Some((Movement::Windows { size, offset: self.offset }, Some(*shards)))
        };
        let Some((movement, shards)) = shards.iter().find_map(turn) else { return Ok(None) };
        Ok(Some(extension(Exchange::try_new(rows, movement, shards, Scope::Global)?)))
    }

    /// The aggregate over windows of these rows.
    fn aggregate_of(&self, rows: LogicalPlan) -> Result<LogicalPlan> {
        let (start, duration) =
            (self.node.start.clone().into_inner(), self.node.duration.clone().into_inner());
        let windows = AlterLifetime::try_new(rows, start, duration, self.node.label.clone())?;
        let (group, calls) = (self.aggregate.group_expr.clone(), self.aggregate.aggr_expr.clone());
        let schema = Arc::clone(&self.aggregate.schema);
        let aggregate = Aggregate::try_new_with_schema(Arc::new(extension(windows)), group, calls, schema)?;
        Ok(LogicalPlan::Aggregate(aggregate))
    }
}

/// Where the rows of a source lie in time.
#[derive(Debug)]
struct Times {
    rows: u64,
    /// The times of some rows, in order.
    sample: Vec<Time>,
}

/// Where the rows of a stream lie in time, if it only filters and projects the events of a source that has a
/// sample.
fn times(stream: &LogicalPlan) -> Result<Option<Times>> {
    match node(stream) {
        Some(Node::Ingress(ingress)) => times_of_events(ingress),
        _ if is_row_wise(stream) => match stream.inputs().as_slice() {
            [input] => times(input),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Where the events of a source lie in time.
fn times_of_events(ingress: &Ingress) -> Result<Option<Times>> {
    let Some(scan) = scan_of(&ingress.input)? else { return Ok(None) };
    let Some(place) = ingress.input.schema().index_of_column_by_name(None, &ingress.time.start) else {
        return Ok(None);
    };
    let column = scan.columns.as_ref().map_or(place, |columns| columns[place]);
    let Some(rows) = dataset(scan.source.as_ref())?.rows() else { return Ok(None) };
    let sample = scan.source.sample(column);
    let Some(mut sample) = sample.and_then(|values| integers(&values)) else { return Ok(None) };
    sample.sort_unstable();
    Ok(Some(Times { rows, sample }))
}

impl Times {
    /// The ticks of a turn: so many windows that shards get about as many rows each and rows move in whole
    /// batches. None if there are too few windows for that, or too few rows.
    fn turn(&self, window: i64, offset: i64, shards: usize, batch_rows: u64) -> Option<i64> {
        let (first, last) = (i128::from(*self.sample.first()?), i128::from(*self.sample.last()?));
        let windows = (last - first) / i128::from(window) + 1;
        let turn_rows = (TURN_BATCHES * batch_rows).max(MIN_TURN_ROWS);
        let most_turns = (self.rows / turn_rows).max((MIN_TURNS * shards) as u64);
        let size = i128::from(window) * (windows / i128::from(most_turns)).max(1);
        let size = i64::try_from(size).ok()?;
        let turn = |time: &Time| (i128::from(*time) - i128::from(offset)).div_euclid(i128::from(size));
        let mut rows_of_shards = vec![0; shards];
        let mut turns = HashSet::new();
        for turn in self.sample.iter().map(turn) {
            turns.insert(turn);
            rows_of_shards[turn.rem_euclid(shards as i128) as usize] += 1;
        }
        let largest = rows_of_shards.into_iter().max()?;
        let is_even = (largest * shards) as f64 <= self.sample.len() as f64 * MAX_SKEW;
        (is_even && self.rows / turns.len() as u64 >= MIN_TURN_ROWS).then_some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows at each of these instants.
    fn times(rows: u64, sample: impl IntoIterator<Item = Time>) -> Times {
        Times { rows, sample: sample.into_iter().collect() }
    }

    #[test]
    fn a_turn_is_a_number_of_windows_with_some_batches_of_rows() {
        let uniform = times(20_000_000, (0..2_000_000).step_by(1000));
        assert_eq!(uniform.turn(1000, 0, 2, 80_000), Some(16_000));
        assert_eq!(uniform.turn(1000, 0, 16, 80_000), Some(7_000), "each shard has some turns");
        assert_eq!(uniform.turn(1 << 40, 0, 2, 80_000), None, "one window is in one shard");
        assert_eq!(times(4_000_000, (0..100).map(|t| t * t)).turn(100, 0, 2, 80_000), Some(300));
    }

    #[test]
    fn uneven_or_few_rows_keep_their_shards() {
        let crowded = times(1_000_000, std::iter::repeat_n(5, 900).chain(0..100));
        assert_eq!(crowded.turn(1, 0, 2, 80_000), None);
        assert_eq!(times(1000, 0..1000).turn(1, 0, 2, 80_000), None);
        assert_eq!(times(0, []).turn(1, 0, 2, 80_000), None);
    }

    #[test]
    fn ends_of_time_do_not_overflow() {
        let ends = times(1_000_000, [i64::MIN, i64::MIN / 2, 0, i64::MAX / 2, i64::MAX]);
        assert_eq!(ends.turn(1, 0, 1, 80_000), Some(1 << 60));
        assert_eq!(ends.turn(i64::MAX, i64::MIN, 2, 80_000), Some(i64::MAX));
    }
}
