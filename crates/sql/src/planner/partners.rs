//! Rows that a join throws away are not copied: before one side goes to all shards, its rows without a partner on the
//! other side are left out where they are. A semi join before a broadcast, as in distributed databases of old (Bernstein
//! and Chiu 1981); the other side is computed once, for both uses are equal.

use super::Planner;
use super::join::Side;
use super::placed::{Placed, Spread};
use super::together::matching;
use datafusion::common::{Column, JoinConstraint, JoinType, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};
use std::sync::Arc;
use whimbrel_plan::nodes::{Movement, Scope};

/// The other side has to have so many times fewer rows for it to be worth a look.
const TIMES: f64 = 8.0;

impl Planner<'_> {
    /// The rows of one side that have a partner among the `other`s, which are few. `key`: what both sides agree in.
    pub(super) fn with_partners(
        &self,
        join: &Join,
        key: &[(Column, Column)],
        side: Side,
        own: &Placed,
        other: &Placed,
    ) -> Result<Option<Placed>> {
        if key.is_empty() || own.spread == Spread::One || other.estimate.rows * TIMES > own.estimate.rows {
            return Ok(None);
        }
        let (all, others) = match side {
            Side::Left => (&join.left, &join.right),
            Side::Right => (&join.right, &join.left),
        };
        let pairs = key.iter().map(|(left, right)| match side {
            Side::Left => (left, right),
            Side::Right => (right, left),
        });
        // The partners' columns get names that the rows have not.
        let (mut columns, mut on) = (Vec::new(), Vec::new());
        for (i, (own, other)) in pairs.enumerate() {
            let name = format!("__partner_{i}");
            on.push((Expr::Column(own.clone()), Expr::Column(Column::from_name(&name))));
            columns.push(Expr::Column(other.clone()).alias(name));
        }
        let partners = LogicalPlan::Projection(Projection::try_new(columns, Arc::clone(others))?);
        let semi = Join::try_new(
            Arc::clone(all),
            Arc::new(partners.clone()),
            on,
            None,
            JoinType::LeftSemi,
            JoinConstraint::On,
            join.null_equality,
            false,
        )?;
        // What they cost is paid by the join itself.
        let known = Placed { bytes: 0.0, cost: 0.0, ..other.clone() };
        let partners = self.over(&partners, vec![known], Spread::anyhow())?;
        let partners =
            self.moved(partners, Movement::Broadcast, Scope::Global, self.shards, Spread::anyhow())?;
        let work = self.work(partners.estimate.rows, own.estimate.rows / self.shards as f64);
        let rows = self.over(&LogicalPlan::Join(semi), vec![own.clone(), partners], own.spread.clone())?;
        Ok(Some(Placed { cost: rows.cost + work, plan: matching(rows.plan)?, ..rows }))
    }
}
