//! Aggregates in shards (quill.txt Fig. 1).

use super::Planner;
use super::colocation::assert_colocated;
use super::placement::{Partitioning, Placed};
use super::two_phase_aggregate::TwoPhaseAggregate;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};
use std::fmt;
use std::sync::Arc;
use whimbrel_plan::estimate::{Estimate, drawn};
use whimbrel_plan::nodes::{Movement, Scope};

/// So many groups for each shard are enough for shards of about the same size.
const MANY_GROUPS: f64 = 64.0;

/// How a grouped aggregate is computed in shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Fig. 1 (a): rows move to the shards of their groups, and are aggregated there.
    Redistribute,
    /// Fig. 1 (b): each shard aggregates its rows, and the partial groups move.
    LocalFirst,
    /// Fig. 1 (c): the same in three steps, first within each machine, then between them.
    LocalThenMachine,
    /// Fig. 1 (d): rows move within each machine, are aggregated there, and the partial groups move between
    /// machines.
    MachineFirst,
    /// Each shard aggregates its rows, and one merges all partial groups.
    MergeInOneShard,
    /// All rows move to one shard.
    OneShard,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Strategy; 6] = [
        Strategy::Redistribute,
        Strategy::LocalFirst,
        Strategy::LocalThenMachine,
        Strategy::MachineFirst,
        Strategy::MergeInOneShard,
        Strategy::OneShard,
    ];

    /// Whether partial groups are merged.
    fn has_two_phases(self) -> bool {
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
            Strategy::MergeInOneShard => "aggregate, bring to one shard, aggregate",
            Strategy::OneShard => "bring to one shard, aggregate",
        })
    }
}

impl Planner<'_> {
    /// An aggregate: where its rows are, if that is possible, or by the cheapest strategy.
    ///
    /// # Errors
    /// Those of placing the input.
    pub(super) fn aggregate(&self, plan: &LogicalPlan, aggregate: &Aggregate) -> Result<Placed> {
        let input = self.place(&aggregate.input)?;
        if input.partitioning == Partitioning::Single
            || matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)])
        {
            return self.over(plan, vec![self.gathered(input)?], Partitioning::Single);
        }
        let columns: Vec<Column> = aggregate.group_expr.iter().filter_map(column).cloned().collect();
        let key = (columns.len() == aggregate.group_expr.len()).then_some(columns.as_slice());
        if !columns.is_empty() && input.partitioning.is_colocated_by(&columns) {
            let partitioning = of_groups(&input.partitioning, aggregate);
            let groups = self.groups(plan, &input) / self.shards as f64;
            return Ok(self.with_work(self.over(plan, vec![input], partitioning)?, aggregate, groups));
        }
        let split = TwoPhaseAggregate::of(aggregate)?;
        let possible = |strategy: &Strategy| match strategy {
            Strategy::OneShard => true,
            Strategy::MergeInOneShard => split.is_some(),
            Strategy::Redistribute => key.is_some_and(|key| !key.is_empty()),
            Strategy::MachineFirst => split.is_some() && key.is_some_and(|key| !key.is_empty()),
            Strategy::LocalFirst | Strategy::LocalThenMachine => {
                split.is_some() && !aggregate.group_expr.is_empty()
            }
        };
        let possible: Vec<Strategy> = Strategy::ALL.into_iter().filter(possible).collect();
        let required = self.policy.aggregates.filter(|required| possible.contains(required));
        let mut best: Option<Placed> = None;
        for strategy in required.map_or(possible, |required| vec![required]) {
            let way = match (&split, strategy.has_two_phases()) {
                (Some(split), true) => self.in_two_phases(plan, aggregate, split, strategy, input.clone())?,
                _ => self.in_one_phase(plan, aggregate, strategy, input.clone(), &columns)?,
            };
            if best.as_ref().is_none_or(|best| way.cost < best.cost) {
                best = Some(way);
            }
        }
        match best {
            Some(best) => Ok(best),
            None => self.over(plan, vec![self.gathered(input)?], Partitioning::Single),
        }
    }

    /// `distinct` groups by all columns.
    ///
    /// # Errors
    /// Those of placing the input.
    pub(super) fn distinct(&self, input: &Arc<LogicalPlan>) -> Result<Placed> {
        let group = input.schema().columns().into_iter().map(Expr::Column).collect();
        let aggregate = Aggregate::try_new(Arc::clone(input), group, vec![])?;
        self.aggregate(&LogicalPlan::Aggregate(aggregate.clone()), &aggregate)
    }

    /// How many groups an aggregate has.
    fn groups(&self, plan: &LogicalPlan, input: &Placed) -> f64 {
        self.estimator.of_inputs(plan, vec![input.estimate.clone()]).rows
    }

    /// The rows move, and then are aggregated.
    fn in_one_phase(
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
                let by = self.columns_moved_by(aggregate, &input, key)?;
                (self.redistributed(input, by)?, groups / self.shards as f64)
            }
            _ => (self.gathered(input)?, groups),
        };
        let partitioning = of_groups(&input.partitioning, aggregate);
        let input = Placed { plan: assert_colocated(input.plan, key)?, ..input };
        Ok(self.with_work(self.over(plan, vec![input], partitioning)?, aggregate, groups))
    }

    /// The columns by which rows move to the shards of their groups: those of the key that keep their names,
    /// if these alone make many groups. An aggregate that counts distinct values groups by them once more,
    /// and the rows need not move again.
    fn columns_moved_by(&self, aggregate: &Aggregate, input: &Placed, key: &[Column]) -> Result<Vec<Column>> {
        let kept: Vec<Expr> =
            aggregate.group_expr.iter().filter(|e| e.try_as_col().is_some()).cloned().collect();
        if kept.is_empty() || kept.len() == aggregate.group_expr.len() {
            return Ok(key.to_vec());
        }
        let coarse = Aggregate::try_new(Arc::new(input.plan.clone()), kept.clone(), vec![])?;
        let groups = self.groups(&LogicalPlan::Aggregate(coarse), input);
        match groups < MANY_GROUPS * self.shards as f64 {
            true => Ok(key.to_vec()),
            false => Ok(kept.iter().filter_map(column).cloned().collect()),
        }
    }

    /// Adds the cost of an aggregate that makes so many groups in a shard.
    fn with_work(&self, mut placed: Placed, aggregate: &Aggregate, groups: f64) -> Placed {
        let known = self.estimator.estimate(&aggregate.input);
        let each = if placed.partitioning == Partitioning::Single {
            known.rows
        } else {
            known.rows / self.shards as f64
        };
        let columns = aggregate.group_expr.len();
        let work = self.costs.aggregate(each, groups, columns, key_range(aggregate, &known));
        placed.cost += self.costs.work(&placed.partitioning, work);
        placed
    }

    /// Partial groups are made, move, and are merged.
    fn in_two_phases(
        &self,
        plan: &LogicalPlan,
        aggregate: &Aggregate,
        split: &TwoPhaseAggregate,
        strategy: Strategy,
        input: Placed,
    ) -> Result<Placed> {
        let (rows, groups) = (input.estimate.rows, self.groups(plan, &input));
        let shards = self.shards as f64;
        let mut input = input;
        if strategy == Strategy::MachineFirst {
            let key = aggregate.group_expr.iter().filter_map(column).cloned().map(Expr::Column).collect();
            let movement = Movement::ReDistribute { key };
            input = self.moved(input, movement, Scope::Local, self.shards, Partitioning::unknown())?;
        }
        let parts = Aggregate::try_new(
            Arc::new(input.plan.clone()),
            aggregate.group_expr.clone(),
            split.partial.clone(),
        )?;
        let each = match strategy {
            Strategy::MachineFirst => groups / shards,
            _ => drawn(groups, rows / shards),
        };
        let (columns, range) = (aggregate.group_expr.len(), key_range(&parts, &input.estimate));
        let work = self.costs.aggregate(rows / shards, each, columns, range);
        let mut placed = self.phase(input, parts, each * shards);
        placed.cost += self.costs.work(&placed.partitioning, work);
        let key: Vec<Column> =
            placed.plan.schema().columns().into_iter().take(aggregate.group_expr.len()).collect();
        if strategy == Strategy::LocalThenMachine {
            let by = key.iter().cloned().map(Expr::Column).collect();
            let movement = Movement::ReDistribute { key: by };
            let moved = self.moved(placed, movement, Scope::Local, self.shards, Partitioning::unknown())?;
            placed = self.merged(moved, &key, split, groups)?;
        }
        let moved = match strategy {
            Strategy::MergeInOneShard => self.gathered(placed)?,
            _ => self.redistributed(placed, key.clone())?,
        };
        let placed = self.merged(moved, &key, split, groups)?;
        self.result(plan, placed, split)
    }

    /// Merges the partial groups of each shard.
    fn merged(
        &self,
        parts: Placed,
        key: &[Column],
        split: &TwoPhaseAggregate,
        groups: f64,
    ) -> Result<Placed> {
        let group = key.iter().cloned().map(Expr::Column).collect();
        let last = parts.partitioning.is_colocated_by(key);
        let rows = if last { assert_colocated(parts.plan.clone(), key)? } else { parts.plan.clone() };
        let aggregate = Aggregate::try_new(Arc::new(rows), group, split.merge.clone())?;
        let shards = if parts.partitioning == Partitioning::Single { 1.0 } else { self.shards as f64 };
        let known = key_range(&aggregate, &parts.estimate);
        let work = self.costs.aggregate(parts.estimate.rows / shards, groups / shards, key.len(), known);
        let mut placed = self.phase(parts, aggregate, groups);
        placed.cost += self.costs.work(&placed.partitioning, work);
        Ok(placed)
    }

    /// One phase of an aggregate, which gives so many rows.
    fn phase(&self, input: Placed, aggregate: Aggregate, rows: f64) -> Placed {
        let plan = LogicalPlan::Aggregate(aggregate);
        let estimate = self.estimator.of_inputs(&plan, vec![input.estimate]);
        let estimate = Estimate { rows, ..estimate }.with_rows(rows);
        Placed { plan, partitioning: input.partitioning, estimate, bytes: input.bytes, cost: input.cost }
    }

    /// The columns of the query.
    fn result(&self, plan: &LogicalPlan, placed: Placed, split: &TwoPhaseAggregate) -> Result<Placed> {
        let width = plan.schema().fields().len() - split.result.len();
        let group = placed.plan.schema().columns().into_iter().take(width).map(Expr::Column);
        let exprs = group.chain(split.result.iter().cloned()).collect();
        let estimate = placed.estimate.clone();
        let result = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(placed.plan))?);
        let estimate = self.estimator.of_inputs(&result, vec![estimate]);
        Ok(Placed {
            plan: result,
            partitioning: placed.partitioning,
            estimate,
            bytes: placed.bytes,
            cost: placed.cost,
        })
    }
}

/// The column that an expression is, under whatever name.
fn column(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Alias(alias) => alias.expr.try_as_col(),
        other => other.try_as_col(),
    }
}

/// The partitioning of the groups of rows that are partitioned so.
fn of_groups(rows: &Partitioning, aggregate: &Aggregate) -> Partitioning {
    rows.renamed(|name| {
        let at = aggregate.group_expr.iter().position(|expr| column(expr) == Some(name))?;
        Some(Column::from(aggregate.schema.qualified_field(at)))
    })
}

/// The range of the key of an aggregate over such rows, if it is one integer.
fn key_range(aggregate: &Aggregate, rows: &Estimate) -> Option<(f64, f64)> {
    let [key] = aggregate.group_expr.as_slice() else { return None };
    let at = aggregate.input.schema().maybe_index_of_column(key.try_as_col()?)?;
    let is_integer = aggregate.input.schema().field(at).data_type().is_integer();
    rows.columns.get(at)?.range.filter(|_| is_integer)
}
