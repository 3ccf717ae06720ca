//! Aggregates in shards (quill.txt Fig. 1).

use super::Planner;
use super::placed::{Placed, Spread};
use super::split::Split;
use super::together::equal;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};
use std::fmt;
use std::sync::Arc;
use whimbrel_plan::estimate::{Estimate, drawn};
use whimbrel_plan::nodes::{Movement, Scope};

/// How a grouped aggregate is computed in shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Fig. 1 (a): rows move to the shards of their groups, and are aggregated there.
    Redistribute,
    /// Fig. 1 (b): each shard aggregates its rows, and the parts move.
    LocalFirst,
    /// Fig. 1 (c): the same in three steps, first within each machine, then between them.
    LocalThenMachine,
    /// Fig. 1 (d): rows move within each machine, are aggregated there, and the parts move between machines.
    MachineFirst,
    /// Each shard aggregates its rows, and one puts all parts together.
    PartsInOne,
    /// All rows move to one shard.
    OneShard,
}

impl Strategy {
    pub const ALL: [Strategy; 6] = [
        Strategy::Redistribute,
        Strategy::LocalFirst,
        Strategy::LocalThenMachine,
        Strategy::MachineFirst,
        Strategy::PartsInOne,
        Strategy::OneShard,
    ];

    /// Whether parts of groups are put together.
    fn splits(self) -> bool {
        !matches!(self, Strategy::Redistribute | Strategy::OneShard)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Strategy::Redistribute => "redistribute, aggregate",
            Strategy::LocalFirst => "aggregate, redistribute, aggregate",
            Strategy::LocalThenMachine => {
                "aggregate, redistribute locally, aggregate, redistribute, aggregate"
            }
            Strategy::MachineFirst => "redistribute locally, aggregate, redistribute, aggregate",
            Strategy::PartsInOne => "aggregate, bring to one shard, aggregate",
            Strategy::OneShard => "bring to one shard, aggregate",
        })
    }
}

impl Planner<'_> {
    pub(super) fn aggregate(&self, plan: &LogicalPlan, aggregate: &Aggregate) -> Result<Placed> {
        let input = self.place(&aggregate.input)?;
        if input.spread == Spread::One || matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]) {
            return self.over(plan, vec![self.gathered(input)?], Spread::One);
        }
        let columns: Vec<Column> =
            aggregate.group_expr.iter().filter_map(|e| e.try_as_col().cloned()).collect();
        let key = (columns.len() == aggregate.group_expr.len()).then_some(columns.as_slice());
        if !columns.is_empty() && input.spread.is_together(&columns) {
            let spread = input.spread.clone();
            let groups = self.groups(plan, &input) / self.shards as f64;
            return Ok(self.worked(self.over(plan, vec![input], spread.clone())?, aggregate, groups));
        }
        let split = Split::of(aggregate)?;
        let possible = |strategy: &Strategy| match strategy {
            Strategy::OneShard => true,
            Strategy::PartsInOne => split.is_some(),
            Strategy::Redistribute => key.is_some_and(|key| !key.is_empty()),
            Strategy::MachineFirst => split.is_some() && key.is_some_and(|key| !key.is_empty()),
            Strategy::LocalFirst | Strategy::LocalThenMachine => {
                split.is_some() && !aggregate.group_expr.is_empty()
            }
        };
        let possible: Vec<Strategy> = Strategy::ALL.into_iter().filter(possible).collect();
        let told = self.policy.aggregates.filter(|told| possible.contains(told));
        let mut best: Option<Placed> = None;
        for strategy in told.map_or(possible, |told| vec![told]) {
            let way = match (&split, strategy.splits()) {
                (Some(split), true) => self.in_parts(plan, aggregate, split, strategy, input.clone())?,
                _ => self.at_once(plan, aggregate, strategy, input.clone(), &columns)?,
            };
            if best.as_ref().is_none_or(|best| way.cost < best.cost) {
                best = Some(way);
            }
        }
        match best {
            Some(best) => Ok(best),
            None => self.over(plan, vec![self.gathered(input)?], Spread::One),
        }
    }

    /// Every row once is every row as a group.
    pub(super) fn distinct(&self, input: &Arc<LogicalPlan>) -> Result<Placed> {
        let group = input.schema().columns().into_iter().map(Expr::Column).collect();
        let aggregate = Aggregate::try_new(Arc::clone(input), group, vec![])?;
        self.aggregate(&LogicalPlan::Aggregate(aggregate.clone()), &aggregate)
    }

    fn groups(&self, plan: &LogicalPlan, input: &Placed) -> f64 {
        self.estimator.of_inputs(plan, vec![input.estimate.clone()]).rows
    }

    /// The rows come together, and then are aggregated.
    fn at_once(
        &self,
        plan: &LogicalPlan,
        aggregate: &Aggregate,
        strategy: Strategy,
        input: Placed,
        key: &[Column],
    ) -> Result<Placed> {
        let groups = self.groups(plan, &input);
        let (input, groups) = match strategy {
            Strategy::Redistribute => {
                (self.brought_together(input, key.to_vec())?, groups / self.shards as f64)
            }
            _ => (self.gathered(input)?, groups),
        };
        let spread = input.spread.clone();
        let input = Placed { plan: equal(input.plan, key)?, ..input };
        Ok(self.worked(self.over(plan, vec![input], spread)?, aggregate, groups))
    }

    /// The cost of the aggregate itself is added, which makes so many groups a shard.
    fn worked(&self, mut placed: Placed, aggregate: &Aggregate, groups: f64) -> Placed {
        let known = self.estimator.estimate(&aggregate.input);
        let each = if placed.spread == Spread::One { known.rows } else { known.rows / self.shards as f64 };
        let work = self.costs.aggregate(each, groups, numbers(aggregate, &known));
        placed.cost += self.costs.work(&placed.spread, work);
        placed
    }

    /// Parts are made, move, and are put together.
    fn in_parts(
        &self,
        plan: &LogicalPlan,
        aggregate: &Aggregate,
        split: &Split,
        strategy: Strategy,
        input: Placed,
    ) -> Result<Placed> {
        let (rows, groups) = (input.estimate.rows, self.groups(plan, &input));
        let shards = self.shards as f64;
        let mut input = input;
        if strategy == Strategy::MachineFirst {
            let key = aggregate.group_expr.clone();
            let movement = Movement::ReDistribute { key };
            input = self.moved(input, movement, Scope::Local, self.shards, Spread::anyhow())?;
        }
        let parts = Aggregate::try_new(
            Arc::new(input.plan.clone()),
            aggregate.group_expr.clone(),
            split.parts.clone(),
        )?;
        let each = match strategy {
            Strategy::MachineFirst => groups / shards,
            _ => drawn(groups, rows / shards),
        };
        let work = self.costs.aggregate(rows / shards, each, numbers(&parts, &input.estimate));
        let mut placed = self.step(input, parts, each * shards);
        placed.cost += self.costs.work(&placed.spread, work);
        let key: Vec<Column> =
            placed.plan.schema().columns().into_iter().take(aggregate.group_expr.len()).collect();
        if strategy == Strategy::LocalThenMachine {
            let by = key.iter().cloned().map(Expr::Column).collect();
            let movement = Movement::ReDistribute { key: by };
            let moved = self.moved(placed, movement, Scope::Local, self.shards, Spread::anyhow())?;
            placed = self.together(moved, &key, split, groups)?;
        }
        let moved = match strategy {
            Strategy::PartsInOne => self.gathered(placed)?,
            _ => self.brought_together(placed, key.clone())?,
        };
        let placed = self.together(moved, &key, split, groups)?;
        self.whole(plan, placed, split)
    }

    /// Parts that are where they have to be become one a group.
    fn together(&self, parts: Placed, key: &[Column], split: &Split, groups: f64) -> Result<Placed> {
        let group = key.iter().cloned().map(Expr::Column).collect();
        let last = parts.spread.is_together(key);
        let rows = if last { equal(parts.plan.clone(), key)? } else { parts.plan.clone() };
        let aggregate = Aggregate::try_new(Arc::new(rows), group, split.together.clone())?;
        let shards = if parts.spread == Spread::One { 1.0 } else { self.shards as f64 };
        let known = numbers(&aggregate, &parts.estimate);
        let work = self.costs.aggregate(parts.estimate.rows / shards, groups / shards, known);
        let mut placed = self.step(parts, aggregate, groups);
        placed.cost += self.costs.work(&placed.spread, work);
        Ok(placed)
    }

    /// One step of an aggregate: a plan over the rows, which gives so many.
    fn step(&self, input: Placed, aggregate: Aggregate, rows: f64) -> Placed {
        let plan = LogicalPlan::Aggregate(aggregate);
        let estimate = self.estimator.of_inputs(&plan, vec![input.estimate]);
        let estimate = Estimate { rows, ..estimate }.with_rows(rows);
        Placed { plan, spread: input.spread, estimate, bytes: input.bytes, cost: input.cost }
    }

    /// The columns that were asked for.
    fn whole(&self, plan: &LogicalPlan, placed: Placed, split: &Split) -> Result<Placed> {
        let width = plan.schema().fields().len() - split.whole.len();
        let group = placed.plan.schema().columns().into_iter().take(width).map(Expr::Column);
        let exprs = group.chain(split.whole.iter().cloned()).collect();
        let estimate = placed.estimate.clone();
        let whole = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(placed.plan))?);
        let estimate = self.estimator.of_inputs(&whole, vec![estimate]);
        Ok(Placed { plan: whole, spread: placed.spread, estimate, bytes: placed.bytes, cost: placed.cost })
    }
}

/// Between which numbers the key of an aggregate over such rows is, if it is one whole number.
fn numbers(aggregate: &Aggregate, rows: &Estimate) -> Option<(f64, f64)> {
    let [key] = aggregate.group_expr.as_slice() else { return None };
    let at = aggregate.input.schema().maybe_index_of_column(key.try_as_col()?)?;
    let is_whole = aggregate.input.schema().field(at).data_type().is_integer();
    rows.columns.get(at)?.range.filter(|_| is_whole)
}
