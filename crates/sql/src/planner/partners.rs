//! Rows that a join throws away are not copied: before one side goes to all shards, its rows without a partner on the
//! other side are left out where they are. A semi join before a broadcast, as in distributed databases of old (Bernstein
//! and Chiu 1981); the other side is computed once, for both uses are equal.

use super::Planner;
use super::join::Side;
use super::placed::{Placed, Spread};
use super::semi::{is_by_chance, partners, semi};
use super::together::matching;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::Join;
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
        if is_by_chance(others)? {
            return Ok(None);
        }
        let pairs = key.iter().cloned().map(|(left, right)| match side {
            Side::Left => (left, right),
            Side::Right => (right, left),
        });
        let (own_columns, others_columns): (Vec<Column>, Vec<Column>) = pairs.unzip();
        let partners = partners(Arc::clone(others), others_columns)?;
        let semi = semi(Arc::clone(all), own_columns, partners.clone(), join.null_equality)?;
        // What they cost is paid by the join itself.
        let known = Placed { bytes: 0.0, cost: 0.0, ..other.clone() };
        let partners = self.over(&partners, vec![known], Spread::anyhow())?;
        let partners =
            self.moved(partners, Movement::Broadcast, Scope::Global, self.shards, Spread::anyhow())?;
        let work = self.work(&own.spread, partners.estimate.rows, own.estimate.rows / self.shards as f64);
        let rows = self.over(&semi, vec![own.clone(), partners], own.spread.clone())?;
        Ok(Some(Placed { cost: rows.cost + work, plan: matching(rows.plan)?, ..rows }))
    }
}
