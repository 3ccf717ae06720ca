//! Shard planning: from a plan over single shards to one that runs on many shards.
//!
//! In the input each source is brought to one shard, and everything above it happens there. In the output
//! sources stay in their shards, and rows move where an operator needs them in one. The planner knows the
//! strategies of quill.txt, Fig. 1 (aggregates) and Fig. 4 (joins), and takes at every node the one with the
//! least expected cost, by bytes moved and by work on the busiest core. An operator that it has no strategy
//! for gets all rows in one shard: slow, and right.
//!
//! Invariants: the rows of a [`Placed`] plan, over all its shards, are those of the plan it was made of, each
//! once; rows of a plan that is partitioned by a key are in one shard if they agree in the key; the result is
//! in one shard.
//!
//! Layers, lowest first: `placement` (a plan and the partitioning of its rows), `cost`, `side`, `colocation`;
//! `range_partitions`; `two_phase_aggregate`; `optimizer` (less work, whatever the number of shards); `scan`,
//! `aggregate`, `sort`, and `join` with `broadcast_reduction`, one family of nodes each; `streams` (plans
//! over time); `candidates` (all ways to run a query).

mod aggregate;
mod broadcast_reduction;
mod candidates;
mod colocation;
mod cost;
mod join;
mod optimizer;
mod placement;
mod range_partitions;
mod scan;
mod side;
mod sort;
mod streams;
mod two_phase_aggregate;

pub use candidates::Candidate;
pub(crate) use candidates::candidates;

use crate::single_shard::is_single_shard;
use crate::tree::visit_plan;
use cost::Costs;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    Distinct, Expr, FetchType, Limit, LogicalPlan, Projection, SkipType, Union, Window,
};
use placement::{Partitioning, Placed};
use range_partitions::RangePartitions;
use whimbrel_plan::estimate::Estimator;
use whimbrel_plan::nodes::{Exchange, Movement, Node, Scope, extension};
use whimbrel_plan::{node, properties};

/// Required strategies; without one the planner chooses by cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    /// The strategy for aggregates.
    pub aggregates: Option<aggregate::Strategy>,
    /// The strategy for joins.
    pub joins: Option<join::Strategy>,
    /// The strategy for sorts.
    pub sorts: Option<sort::Strategy>,
}

/// How many shards there are, and which tables are cut into them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shards {
    /// How many there are.
    pub count: usize,
    /// A table of fewer rows stays in one.
    pub rows: usize,
    /// How many of them work at the same time, if there are as many.
    pub cores: usize,
    /// What it costs to bring rows from one to another, beside copying them: nanoseconds for each movement,
    /// and for each byte.
    pub transfer_costs: (f64, f64),
}

/// A table with fewer rows is not worth a thread.
pub(crate) const ROWS_OF_A_SHARD: usize = 50_000;

/// The plan with less work to do, whatever the number of shards.
///
/// # Errors
/// What DataFusion refuses of a plan that a rule builds.
pub(crate) fn optimize(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    // The sizes of unbounded sources are not known.
    if is_opaque(&plan)? || !properties(&plan)?.bounded {
        return Ok(plan);
    }
    optimizer::optimize(state, plan)
}

/// The plan in shards, with its result in one.
///
/// # Errors
/// `Plan` if the inputs of an operator cannot meet.
pub(crate) fn shard(plan: LogicalPlan, shards: Shards, policy: Policy) -> Result<Placed> {
    let (costs, estimator) = (Costs::of(&shards), Estimator::default());
    let (few_rows, shards) = (shards.rows as f64, shards.count);
    let ranges = RangePartitions::default();
    let mut planner = Planner { shards, few_rows, policy, costs, ranges, estimator };
    if is_opaque(&plan)? {
        return Ok(planner.as_is(streams::in_shards(plan)?));
    }
    if planner.is_small(&plan)? {
        let estimate = planner.estimator.estimate(&plan);
        return Ok(Placed::single(scan::in_one_shard(plan)?, estimate));
    }
    planner.ranges = RangePartitions::of(&plan, shards)?;
    let placed = planner.place(&plan)?;
    planner.gathered(placed)
}

/// Whether a plan is over time or in shards already, so that nothing is chosen by cost.
fn is_opaque(plan: &LogicalPlan) -> Result<bool> {
    let known = properties(plan)?;
    Ok(known.time.is_some() || known.shards != 1)
}

/// The planner of one query.
struct Planner<'a> {
    /// How many shards there are.
    shards: usize,
    /// A source with fewer rows stays in one shard.
    few_rows: f64,
    /// Required strategies.
    policy: Policy,
    /// The costs of movements and operators.
    costs: Costs,
    /// The ranges by which tables are cut.
    ranges: RangePartitions,
    /// Estimates the sizes of plans.
    estimator: Estimator<'a>,
}

impl Planner<'_> {
    /// Whether all sources together have few rows.
    fn is_small(&self, plan: &LogicalPlan) -> Result<bool> {
        let mut rows = 0.0;
        visit_plan(plan, &mut |plan| {
            if matches!(plan, LogicalPlan::TableScan(_)) {
                rows += scan::rows_read(self, plan)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(self.shards == 1 || rows < self.few_rows)
    }

    /// The plan where it is, in one shard.
    fn as_is(&self, plan: LogicalPlan) -> Placed {
        let estimate = self.estimator.estimate(&plan);
        Placed::single(plan, estimate)
    }

    /// Places a node: one method for each kind.
    fn place(&self, plan: &LogicalPlan) -> Result<Placed> {
        match plan {
            LogicalPlan::TableScan(_) => self.scan(plan),
            LogicalPlan::Extension(_) => match node(plan) {
                Some(Node::Exchange(exchange)) if is_single_shard(exchange) => self.scan(plan),
                _ => Ok(self.as_is(plan.clone())),
            },
            LogicalPlan::Projection(projection) => self.projection(plan, projection),
            LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Unnest(_) => {
                self.row_by_row(plan)
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregate(plan, aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => self.distinct(input),
            LogicalPlan::Join(join) => self.join(plan, join),
            LogicalPlan::Union(union) => self.union(plan, union),
            LogicalPlan::Sort(sort) => self.sort(plan, sort),
            LogicalPlan::Limit(limit) => self.limit(plan, limit),
            LogicalPlan::Window(window) => self.window(plan, window),
            // A recursive query reads its own rows where they are.
            LogicalPlan::RecursiveQuery(_) => Ok(self.as_is(scan::in_one_shard(plan.clone())?)),
            other => self.in_one_shard(other),
        }
    }

    /// The node over placed inputs.
    fn over(&self, plan: &LogicalPlan, inputs: Vec<Placed>, partitioning: Partitioning) -> Result<Placed> {
        let estimate = self.estimator.of_inputs(plan, inputs.iter().map(|i| i.estimate.clone()).collect());
        let (bytes, cost) = inputs.iter().fold((0.0, 0.0), |(b, c), i| (b + i.bytes, c + i.cost));
        let inputs = inputs.into_iter().map(|input| input.plan).collect();
        let plan = plan.with_new_exprs(plan.expressions(), inputs)?;
        Ok(Placed { plan, partitioning, estimate, bytes, cost })
    }

    /// An operator without a strategy: all rows of its inputs in one shard.
    fn in_one_shard(&self, plan: &LogicalPlan) -> Result<Placed> {
        let inputs = plan.inputs().into_iter().map(|input| self.gathered(self.place(input)?));
        self.over(plan, inputs.collect::<Result<_>>()?, Partitioning::Single)
    }

    /// An operator that looks at one row at a time.
    fn row_by_row(&self, plan: &LogicalPlan) -> Result<Placed> {
        let inputs = plan.inputs();
        let [input] = inputs.as_slice() else { return self.in_one_shard(plan) };
        let input = self.place(input)?;
        let partitioning = match plan {
            LogicalPlan::Filter(_) => input.partitioning.clone(),
            LogicalPlan::SubqueryAlias(alias) => input.partitioning.renamed(|column| {
                let at = alias.input.schema().maybe_index_of_column(column)?;
                Some(Column::from(alias.schema.qualified_field(at)))
            }),
            _ => input.partitioning.without_key(),
        };
        self.over(plan, vec![input], partitioning)
    }

    /// A projection, whose partitioning keeps the keys that it passes on.
    fn projection(&self, plan: &LogicalPlan, projection: &Projection) -> Result<Placed> {
        let input = self.place(&projection.input)?;
        let kept = |column: &Column| {
            let at = projection
                .expr
                .iter()
                .position(|e| e.clone().unalias_nested().data.try_as_col() == Some(column))?;
            Some(Column::from(projection.schema.qualified_field(at)))
        };
        let partitioning = input.partitioning.renamed(kept);
        self.over(plan, vec![input], partitioning)
    }

    /// A union: in one shard if all inputs are, or in all shards.
    fn union(&self, plan: &LogicalPlan, union: &Union) -> Result<Placed> {
        let inputs = union.inputs.iter().map(|input| self.place(input)).collect::<Result<Vec<_>>>()?;
        if inputs.iter().all(|input| input.partitioning == Partitioning::Single) {
            return self.over(plan, inputs, Partitioning::Single);
        }
        let inputs = inputs.into_iter().map(|input| match input.partitioning {
            Partitioning::Single => {
                self.moved(input, Movement::ReShard, Scope::Global, self.shards, Partitioning::unknown())
            }
            Partitioning::Multiple(_) => Ok(input),
        });
        self.over(plan, inputs.collect::<Result<_>>()?, Partitioning::unknown())
    }

    /// A limit: each shard first takes its own first rows.
    fn limit(&self, plan: &LogicalPlan, limit: &Limit) -> Result<Placed> {
        let mut input = self.place(&limit.input)?;
        if let (SkipType::Literal(skip), FetchType::Literal(Some(fetch))) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
            && input.partitioning != Partitioning::Single
        {
            let first = datafusion::logical_expr::lit((skip + fetch) as i64);
            let own = Limit { skip: None, fetch: Some(Box::new(first)), input: limit.input.clone() };
            let partitioning = input.partitioning.clone();
            input = self.over(&LogicalPlan::Limit(own), vec![input], partitioning)?;
        }
        self.over(plan, vec![self.gathered_and_asserted(input)?], Partitioning::Single)
    }

    /// A window function, whose partitions have to be in one shard.
    fn window(&self, plan: &LogicalPlan, window: &Window) -> Result<Placed> {
        let input = self.place(&window.input)?;
        let Partitioning::Multiple(_) = input.partitioning else {
            return self.over(plan, vec![input], Partitioning::Single);
        };
        let key = partition_of_all(&window.window_expr);
        let input = match key.is_empty() {
            true => self.gathered(input)?,
            false => self.redistributed(input, key.clone())?,
        };
        let input = Placed { plan: colocation::assert_colocated(input.plan, &key)?, ..input };
        let partitioning = input.partitioning.clone();
        self.over(plan, vec![input], partitioning)
    }

    /// All rows in one shard, on which the answer relies.
    fn gathered_and_asserted(&self, input: Placed) -> Result<Placed> {
        if input.partitioning == Partitioning::Single {
            return Ok(input);
        }
        let input = self.gathered(input)?;
        Ok(Placed { plan: colocation::assert_colocated(input.plan, &[])?, ..input })
    }

    /// All rows in one shard.
    fn gathered(&self, input: Placed) -> Result<Placed> {
        match input.partitioning {
            Partitioning::Single => Ok(input),
            Partitioning::Multiple(_) => {
                self.moved(input, Movement::ReShard, Scope::Global, 1, Partitioning::Single)
            }
        }
    }

    /// Rows that agree in these columns in one shard.
    fn redistributed(&self, input: Placed, key: Vec<Column>) -> Result<Placed> {
        if input.partitioning.is_colocated_by(&key) {
            return Ok(input);
        }
        let by = key.iter().cloned().map(Expr::Column).collect();
        let movement = Movement::ReDistribute { key: by };
        self.moved(input, movement, Scope::Global, self.shards, Partitioning::hash(key))
    }

    /// The rows behind an exchange, with its cost.
    fn moved(
        &self,
        input: Placed,
        movement: Movement,
        scope: Scope,
        shards: usize,
        partitioning: Partitioning,
    ) -> Result<Placed> {
        let moved = self.costs.moved(&input.estimate, &movement, shards);
        let (bytes, cost) = (input.bytes + moved.bytes, input.cost + moved.cost);
        let plan = extension(Exchange::try_new(input.plan, movement, Some(shards), scope)?);
        Ok(Placed { plan, partitioning, estimate: input.estimate, bytes, cost })
    }
}

/// The columns that all of these window functions are partitioned by.
fn partition_of_all(windows: &[Expr]) -> Vec<Column> {
    let columns = |expr: &Expr| -> Vec<Column> {
        match expr.clone().unalias() {
            Expr::WindowFunction(window) => {
                window.params.partition_by.iter().filter_map(|e| e.try_as_col().cloned()).collect()
            }
            _ => vec![],
        }
    };
    let mut windows = windows.iter().map(columns);
    let mut common = windows.next().unwrap_or_default();
    for other in windows {
        common.retain(|column| other.contains(column));
    }
    common
}
