//! Queries over streams that come in several shards: they run in these shards.
//!
//! Rows move by the keys of sessions, groups, joins and patterns, unless they lie together already. A table
//! that a stream is joined with goes to all shards. A step without a key, and one that is not known here,
//! gets all rows in one shard. How many rows will come is not known, so nothing is chosen by cost.
//!
//! Invariant: a plan of these functions is in one shard, or in as many as the sources. Rows that a step looks
//! at together are in one shard.

use super::join;
use super::side::Side;
use crate::single_shard::is_single_shard;
use crate::tree::visit_plan;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan};
use std::collections::HashSet;
use whimbrel_plan::estimate::Estimator;
use whimbrel_plan::nodes::{Exchange, LifetimeChange, Movement, Node, Scope, extension};
use whimbrel_plan::{Placement, Properties, node, properties};

/// A table with more rows moves by its key, if it has one, and not to all shards.
const MOST_ROWS_EVERYWHERE: f64 = 1e6;

/// The plan over streams in the shards of its sources, with its result in one.
///
/// # Errors
/// `Plan` if the plan cannot be rebuilt.
pub(super) fn in_shards(plan: LogicalPlan) -> Result<LogicalPlan> {
    match shards_of_sources(&plan)? {
        1 => Ok(plan),
        shards => in_one(placed(&plan, shards)?.plan),
    }
}

/// The most shards of a stream in the plan; one if a stream has a clock for each partition.
fn shards_of_sources(plan: &LogicalPlan) -> Result<usize> {
    let (mut shards, mut partitioned) = (1, false);
    visit_plan(plan, &mut |plan| {
        if let Some(source) = stream_of(plan)? {
            shards = shards.max(source.shards);
            partitioned |= !source.partition.is_empty();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(if partitioned { 1 } else { shards })
}

/// What is known of the stream that this exchange brings to one shard, if it is such an exchange.
fn stream_of(plan: &LogicalPlan) -> Result<Option<Properties>> {
    match node(plan) {
        Some(Node::Exchange(exchange)) if is_single_shard(exchange) => {
            Ok(Some(properties(&exchange.input)?).filter(|source| source.time.is_some()))
        }
        _ => Ok(None),
    }
}

/// Which rows of its inputs a step looks at together.
enum Together {
    /// None: it looks at one row at a time.
    Nothing,
    /// Those that agree in these columns, of each input.
    Key(Vec<Vec<Column>>),
    /// A row of the stream, and all of the table on this side.
    Table(Side),
    All,
}

/// A plan in shards.
struct Placed {
    plan: LogicalPlan,
    /// In how many shards it is: as many as the sources, or one.
    shards: usize,
    /// Whether it is another plan than before.
    is_new: bool,
}

/// The plan in so many shards, or in one.
fn placed(plan: &LogicalPlan, shards: usize) -> Result<Placed> {
    let as_is = |plan: &LogicalPlan| Placed { plan: plan.clone(), shards: 1, is_new: false };
    if let (Some(source), [input]) = (stream_of(plan)?, plan.inputs().as_slice()) {
        return Ok(match source.shards == shards {
            true => Placed { plan: (*input).clone(), shards, is_new: true },
            false => as_is(plan),
        });
    }
    // A recursive query reads its own rows where they are.
    if matches!(plan, LogicalPlan::RecursiveQuery(_)) {
        return Ok(as_is(plan));
    }
    let inputs: Vec<Placed> =
        plan.inputs().into_iter().map(|input| placed(input, shards)).collect::<Result<_>>()?;
    if !inputs.iter().any(|input| input.is_new) {
        return Ok(as_is(plan));
    }
    let are_all_in = |shards: usize| inputs.iter().all(|input| input.shards == shards);
    let (are_in_one, are_in_shards) = (are_all_in(1), are_all_in(shards));
    let inputs: Vec<LogicalPlan> = inputs.into_iter().map(|input| input.plan).collect();
    let (inputs, in_shards) = match together(plan)? {
        _ if are_in_one => (inputs, 1),
        Together::Nothing if are_in_shards => (inputs, shards),
        Together::Key(keys) => (meet(inputs, keys, shards)?, shards),
        Together::Table(side) => (everywhere(inputs, side, shards)?, shards),
        Together::Nothing | Together::All => (inputs.into_iter().map(in_one).collect::<Result<_>>()?, 1),
    };
    let plan = plan.with_new_exprs(plan.expressions(), inputs)?;
    Ok(Placed { plan, shards: in_shards, is_new: true })
}

/// Which rows a step looks at together.
fn together(plan: &LogicalPlan) -> Result<Together> {
    if plan.expressions().iter().any(Expr::is_volatile) {
        return Ok(Together::All);
    }
    Ok(match plan {
        LogicalPlan::Filter(_)
        | LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Union(_) => Together::Nothing,
        LogicalPlan::Aggregate(aggregate) => by(&aggregate.group_expr),
        LogicalPlan::Distinct(Distinct::All(input)) => Together::Key(vec![input.schema().columns()]),
        LogicalPlan::Join(join) => matches(join)?,
        _ => match node(plan) {
            Some(Node::AlterLifetime(_) | Node::WithStart(_) | Node::ReKey(_) | Node::Require(_)) => {
                Together::Nothing
            }
            Some(Node::ChangeLifetimes(of)) if of.change != LifetimeChange::Stitch => Together::Nothing,
            Some(Node::Session(of)) => by(&of.key),
            Some(Node::MatchRecognize(of)) => by(&of.key),
            _ => Together::All,
        },
    })
}

/// The rows of a group. Rows that agree in some of the columns include those that agree in all.
fn by(key: &[Expr]) -> Together {
    let columns: Vec<Column> = key.iter().filter_map(|expr| expr.try_as_col().cloned()).collect();
    if columns.is_empty() { Together::All } else { Together::Key(vec![columns]) }
}

/// The rows that a join pairs.
fn matches(join: &Join) -> Result<Together> {
    let table = match (is_stream(&join.left)?, is_stream(&join.right)?) {
        (true, false) => Some(Side::Right),
        (false, true) => Some(Side::Left),
        _ => None,
    };
    let (left, right): (Vec<Column>, Vec<Column>) = join::key(join).into_iter().unzip();
    Ok(match table {
        Some(side) if join::may_be_broadcast(join, side) && !is_large(side.input(join)) => {
            Together::Table(side)
        }
        _ if left.is_empty() => Together::All,
        _ => Together::Key(vec![left, right]),
    })
}

/// Whether every shard had better not have all of a table.
fn is_large(table: &LogicalPlan) -> bool {
    Estimator::default().estimate(table).rows > MOST_ROWS_EVERYWHERE
}

fn is_stream(plan: &LogicalPlan) -> Result<bool> {
    Ok(properties(plan)?.time.is_some())
}

/// Brings the table on this side to all shards.
fn everywhere(inputs: Vec<LogicalPlan>, side: Side, shards: usize) -> Result<Vec<LogicalPlan>> {
    let table = side as usize;
    let placed = inputs.into_iter().enumerate().map(|(place, input)| match place == table {
        true => moved(input, Movement::Broadcast, shards),
        false => Ok(input),
    });
    placed.collect()
}

/// Brings rows of all inputs that agree in their keys to one shard.
fn meet(inputs: Vec<LogicalPlan>, keys: Vec<Vec<Column>>, shards: usize) -> Result<Vec<LogicalPlan>> {
    let placements = inputs.iter().map(placement).collect::<Result<Vec<_>>>()?;
    let is_met = match (placements.as_slice(), keys.as_slice()) {
        ([placement], [key]) => placement.keeps_together(&names(key)),
        ([left, right], [left_key, right_key]) => are_hashed_alike(left, right, left_key, right_key),
        _ => false,
    };
    if is_met {
        return Ok(inputs);
    }
    let redistributed = |(input, key): (LogicalPlan, Vec<Column>)| {
        let key = key.into_iter().map(Expr::Column).collect();
        moved(input, Movement::ReDistribute { key }, shards)
    };
    inputs.into_iter().zip(keys).map(redistributed).collect()
}

/// How the rows of a plan lie; unknown if names do not tell its columns apart. Rows that are in every shard
/// count as often as there are shards, so they do not lie together.
fn placement(plan: &LogicalPlan) -> Result<Placement> {
    let mut seen = HashSet::new();
    let has_unique_names = plan.schema().fields().iter().all(|field| seen.insert(field.name()));
    Ok(match properties(plan)?.placement {
        Placement::Replicated => Placement::Unknown,
        known if has_unique_names => known,
        _ => Placement::Unknown,
    })
}

fn names(columns: &[Column]) -> Vec<String> {
    columns.iter().map(|column| column.name.clone()).collect()
}

/// Whether rows of two sides that agree in the columns of their keys, pair by pair, lie in one shard: both
/// are hashed by columns that such pairs compare.
fn are_hashed_alike(left: &Placement, right: &Placement, left_key: &[Column], right_key: &[Column]) -> bool {
    let (Placement::Hashed(left), Placement::Hashed(right)) = (left, right) else { return false };
    let is_compared = |(left, right): (&Vec<String>, &Vec<String>)| {
        let pairs = || left_key.iter().zip(right_key);
        pairs().any(|(of_left, of_right)| left.contains(&of_left.name) && right.contains(&of_right.name))
    };
    left.len() == right.len() && left.iter().zip(right).all(is_compared)
}

/// All rows in one shard.
fn in_one(plan: LogicalPlan) -> Result<LogicalPlan> {
    match properties(&plan)?.shards {
        1 => Ok(plan),
        _ => moved(plan, Movement::ReShard, 1),
    }
}

/// The rows behind an exchange, with the qualifiers of their columns.
fn moved(plan: LogicalPlan, movement: Movement, shards: usize) -> Result<LogicalPlan> {
    Ok(extension(Exchange::try_new(plan, movement, Some(shards), Scope::Global)?))
}
