//! Shard planning: from the plan of a query as if all rows were in one place to one that runs on many shards.
//!
//! What comes in says what is asked: its sources are each brought to one shard, and everything above happens
//! there. What goes out has the same answer: sources stay in their shards, and rows move where an operator needs
//! them together. The planner knows the strategies of quill.txt, Fig. 1 (aggregates) and Fig. 4 (joins), and takes at
//! every node the one that is expected to cost least, by bytes moved and by work on the busiest core. What it does
//! not know how to split it brings to one shard: slow, and right.
//!
//! Invariants: the rows of a [`Placed`] plan, over all its shards, are those of the plan it was made of, each once;
//! rows of a plan that is spread by a key are in one shard if they agree in the key; the result is in one shard.
//!
//! Layers, bottom up: `cost`, `placed` (a plan and where its rows are); `ranges` (tables that lie together); `leaf`,
//! `aggregate` with `split`, `join` with `partners`, one family of nodes each; `candidates` (all ways to run a query).
//! Before that, `join_order`, `reduce`, `reuse` and `prefilter` (by `semi` joins), `eager` and `share` turn the plan into one
//! with less work, whatever the number of shards.

mod aggregate;
mod candidates;
mod cost;
mod eager;
mod join;
mod join_order;
mod leaf;
mod partners;
mod placed;
mod prefilter;
mod ranges;
mod reduce;
mod reuse;
mod semi;
mod share;
mod split;
mod together;

pub use candidates::Candidate;
pub(crate) use candidates::candidates;
pub(crate) use leaf::is_whole;

use cost::Costs;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    Distinct, Expr, FetchType, Limit, LogicalPlan, Projection, SkipType, Sort, Union, Window,
};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::{Optimizer, OptimizerContext};
use placed::{Placed, Spread};
use ranges::Cuts;
use std::sync::Arc;
use whimbrel_plan::estimate::Estimator;
use whimbrel_plan::nodes::{Exchange, Movement, Node, Scope, extension};
use whimbrel_plan::{node, properties};

/// How a query is to be cut into shards where there is a choice; what is not said is chosen by cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    pub aggregates: Option<aggregate::Strategy>,
    pub joins: Option<join::Strategy>,
}

/// How many shards there are, and what is worth being cut into them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shards {
    pub count: usize,
    /// A table of fewer rows stays in one.
    pub rows: usize,
    /// How many of them work at the same time, if there are as many.
    pub cores: usize,
}

/// Fewer rows are not worth a thread.
pub(crate) const ROWS_OF_A_SHARD: usize = 50_000;

/// The plan with less work to do, whatever the number of shards.
pub(crate) fn simplified(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    // Of rows that are still to come nobody knows how many they will be.
    if is_opaque(&plan)? || !properties(&plan)?.bounded {
        return Ok(plan);
    }
    let ordered = join_order::ordered(plan)?;
    let reduced = reuse::reused(reduce::reduced(ordered)?)?;
    let reduced = eager::summed(prefilter::prefiltered(reduced)?)?;
    // Columns that were needed only for the old order are dropped.
    let narrow = Optimizer::with_rules(vec![Arc::new(OptimizeProjections::new())]);
    let context = OptimizerContext::new_with_config_options(Arc::clone(state.config_options()));
    share::shared(narrow.optimize(reduced, &context, |_, _| {})?)
}

/// The plan in shards, its result in one.
pub(crate) fn sharded(plan: LogicalPlan, shards: Shards, policy: Policy) -> Result<Placed> {
    let (costs, estimator) = (Costs::of(shards.count, shards.cores), Estimator::default());
    let (few_rows, shards) = (shards.rows as f64, shards.count);
    let cuts = Cuts::default();
    let mut planner = Planner { shards, few_rows, policy, costs, cuts, estimator };
    if is_opaque(&plan)? {
        return Ok(planner.as_is(plan));
    }
    if planner.is_small(&plan)? {
        let estimate = planner.estimator.estimate(&plan);
        return Ok(Placed::one(leaf::in_one(plan)?, estimate));
    }
    planner.cuts = Cuts::of(&plan, shards)?;
    let placed = planner.place(&plan)?;
    planner.gathered(placed)
}

/// Whether a plan is about time: it stays as it is.
fn is_opaque(plan: &LogicalPlan) -> Result<bool> {
    let known = properties(plan)?;
    Ok(known.time.is_some() || known.shards != 1)
}

struct Planner<'a> {
    shards: usize,
    few_rows: f64,
    policy: Policy,
    costs: Costs,
    cuts: Cuts,
    estimator: Estimator<'a>,
}

impl Planner<'_> {
    /// Whether there are so few rows that moving them is not worth its while.
    fn is_small(&self, plan: &LogicalPlan) -> Result<bool> {
        let mut rows = 0.0;
        plan.apply(|plan| {
            if matches!(plan, LogicalPlan::TableScan(_)) {
                rows += leaf::rows_read(self, plan)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(self.shards == 1 || rows < self.few_rows)
    }

    /// The plan where it is, in one shard.
    fn as_is(&self, plan: LogicalPlan) -> Placed {
        let estimate = self.estimator.estimate(&plan);
        Placed::one(plan, estimate)
    }

    fn place(&self, plan: &LogicalPlan) -> Result<Placed> {
        match plan {
            LogicalPlan::TableScan(_) => self.leaf(plan),
            LogicalPlan::Extension(_) => match node(plan) {
                Some(Node::Exchange(exchange)) if leaf::is_whole(exchange) => self.leaf(plan),
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
            // A query that reads its own rows reads them where they are.
            LogicalPlan::RecursiveQuery(_) => Ok(self.as_is(leaf::in_one(plan.clone())?)),
            other => self.in_one_shard(other),
        }
    }

    /// The plan over its inputs as they were placed.
    fn over(&self, plan: &LogicalPlan, inputs: Vec<Placed>, spread: Spread) -> Result<Placed> {
        let estimate = self.estimator.of_inputs(plan, inputs.iter().map(|i| i.estimate.clone()).collect());
        let (bytes, cost) = inputs.iter().fold((0.0, 0.0), |(b, c), i| (b + i.bytes, c + i.cost));
        let inputs = inputs.into_iter().map(|input| input.plan).collect();
        let plan = plan.with_new_exprs(plan.expressions(), inputs)?;
        Ok(Placed { plan, spread, estimate, bytes, cost })
    }

    fn in_one_shard(&self, plan: &LogicalPlan) -> Result<Placed> {
        let inputs = plan.inputs().into_iter().map(|input| self.gathered(self.place(input)?));
        self.over(plan, inputs.collect::<Result<_>>()?, Spread::One)
    }

    /// What is done to each row by itself is done where it is.
    fn row_by_row(&self, plan: &LogicalPlan) -> Result<Placed> {
        let inputs = plan.inputs();
        let [input] = inputs.as_slice() else { return self.in_one_shard(plan) };
        let input = self.place(input)?;
        let spread = match plan {
            LogicalPlan::Filter(_) => input.spread.clone(),
            LogicalPlan::SubqueryAlias(alias) => input.spread.renamed(|column| {
                let at = alias.input.schema().maybe_index_of_column(column)?;
                Some(Column::from(alias.schema.qualified_field(at)))
            }),
            _ => input.spread.without_key(),
        };
        self.over(plan, vec![input], spread)
    }

    fn projection(&self, plan: &LogicalPlan, projection: &Projection) -> Result<Placed> {
        let input = self.place(&projection.input)?;
        let kept = |column: &Column| {
            let at = projection
                .expr
                .iter()
                .position(|e| e.clone().unalias_nested().data.try_as_col() == Some(column))?;
            Some(Column::from(projection.schema.qualified_field(at)))
        };
        let spread = input.spread.renamed(kept);
        self.over(plan, vec![input], spread)
    }

    fn union(&self, plan: &LogicalPlan, union: &Union) -> Result<Placed> {
        let inputs = union.inputs.iter().map(|input| self.place(input)).collect::<Result<Vec<_>>>()?;
        if inputs.iter().all(|input| input.spread == Spread::One) {
            return self.over(plan, inputs, Spread::One);
        }
        let inputs = inputs.into_iter().map(|input| match input.spread {
            Spread::One => self.moved(input, Movement::ReShard, Scope::Global, self.shards, Spread::anyhow()),
            Spread::Many(_) => Ok(input),
        });
        self.over(plan, inputs.collect::<Result<_>>()?, Spread::anyhow())
    }

    /// Of the first rows of all, each shard has at most as many: its own first.
    fn sort(&self, plan: &LogicalPlan, sort: &Sort) -> Result<Placed> {
        let mut input = self.place(&sort.input)?;
        if sort.fetch.is_some() && input.spread != Spread::One {
            let spread = input.spread.clone();
            input = self.over(plan, vec![input], spread)?;
        }
        self.over(plan, vec![self.all_together(input)?], Spread::One)
    }

    fn limit(&self, plan: &LogicalPlan, limit: &Limit) -> Result<Placed> {
        let mut input = self.place(&limit.input)?;
        if let (SkipType::Literal(skip), FetchType::Literal(Some(fetch))) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
            && input.spread != Spread::One
        {
            let first = datafusion::logical_expr::lit((skip + fetch) as i64);
            let own = Limit { skip: None, fetch: Some(Box::new(first)), input: limit.input.clone() };
            let spread = input.spread.clone();
            input = self.over(&LogicalPlan::Limit(own), vec![input], spread)?;
        }
        self.over(plan, vec![self.all_together(input)?], Spread::One)
    }

    /// A window function sees the rows of its partition: they have to be together.
    fn window(&self, plan: &LogicalPlan, window: &Window) -> Result<Placed> {
        let input = self.place(&window.input)?;
        let Spread::Many(_) = input.spread else { return self.over(plan, vec![input], Spread::One) };
        let key = partition_of_all(&window.window_expr);
        let input = match key.is_empty() {
            true => self.gathered(input)?,
            false => self.brought_together(input, key.clone())?,
        };
        let input = Placed { plan: together::equal(input.plan, &key)?, ..input };
        let spread = input.spread.clone();
        self.over(plan, vec![input], spread)
    }

    /// All rows in one shard, on which what follows relies.
    fn all_together(&self, input: Placed) -> Result<Placed> {
        if input.spread == Spread::One {
            return Ok(input);
        }
        let input = self.gathered(input)?;
        Ok(Placed { plan: together::equal(input.plan, &[])?, ..input })
    }

    /// All rows in one shard.
    fn gathered(&self, input: Placed) -> Result<Placed> {
        match input.spread {
            Spread::One => Ok(input),
            Spread::Many(_) => self.moved(input, Movement::ReShard, Scope::Global, 1, Spread::One),
        }
    }

    /// Rows that agree in these columns in one shard, if they are not so already.
    fn brought_together(&self, input: Placed, key: Vec<Column>) -> Result<Placed> {
        if input.spread.is_together(&key) {
            return Ok(input);
        }
        let by = key.iter().cloned().map(Expr::Column).collect();
        let movement = Movement::ReDistribute { key: by };
        self.moved(input, movement, Scope::Global, self.shards, Spread::by(key))
    }

    fn moved(
        &self,
        input: Placed,
        movement: Movement,
        scope: Scope,
        shards: usize,
        spread: Spread,
    ) -> Result<Placed> {
        let moved = self.costs.moved(&input.estimate, &movement, shards);
        let (bytes, cost) = (input.bytes + moved.bytes, input.cost + moved.cost);
        let plan = extension(Exchange::try_new(input.plan, movement, Some(shards), scope)?);
        Ok(Placed { plan, spread, estimate: input.estimate, bytes, cost })
    }
}

/// The columns by which all of these window functions part their rows.
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
