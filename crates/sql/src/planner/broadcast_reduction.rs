//! A semi join before a broadcast (Bernstein and Chiu 1981): rows that the join would drop are not sent to
//! all shards. The other side is computed once, for both of its uses are equal.
//!
//! ```sql
//! select * from few join many on few.k = many.k;  -- many is broadcast
//! -- first: many where k in (select k from few), with few broadcast
//! ```

use super::Planner;
use super::colocation::assert_matches_colocated;
use super::optimizer::semi_join::{is_volatile_plan, semi_join, semi_join_keys};
use super::placement::{Partitioning, Placed};
use super::side::Side;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::Join;
use std::sync::Arc;
use whimbrel_plan::nodes::{Movement, Scope};

/// The other side has so many times fewer rows, at least.
const TIMES: f64 = 8.0;

impl Planner<'_> {
    /// The rows of one side that have a partner on the other, which has few rows. `key` are the pairs of key
    /// columns.
    ///
    /// # Errors
    /// `Plan` if the semi join cannot be built.
    pub(super) fn reduced_before_broadcast(
        &self,
        join: &Join,
        key: &[(Column, Column)],
        side: Side,
        own: &Placed,
        other: &Placed,
    ) -> Result<Option<Placed>> {
        if key.is_empty()
            || own.partitioning == Partitioning::Single
            || other.estimate.rows * TIMES > own.estimate.rows
        {
            return Ok(None);
        }
        let (all, others) = match side {
            Side::Left => (&join.left, &join.right),
            Side::Right => (&join.right, &join.left),
        };
        if is_volatile_plan(others) {
            return Ok(None);
        }
        let pairs = key.iter().cloned().map(|(left, right)| match side {
            Side::Left => (left, right),
            Side::Right => (right, left),
        });
        let (own_columns, others_columns): (Vec<Column>, Vec<Column>) = pairs.unzip();
        let partners = semi_join_keys(Arc::clone(others), others_columns)?;
        let semi = semi_join(Arc::clone(all), own_columns, partners.clone(), join.null_equality)?;
        // The join itself pays for computing them.
        let known = Placed { bytes: 0.0, cost: 0.0, ..other.clone() };
        let partners = self.over(&partners, vec![known], Partitioning::unknown())?;
        let partners =
            self.moved(partners, Movement::Broadcast, Scope::Global, self.shards, Partitioning::unknown())?;
        let work =
            self.work(&own.partitioning, partners.estimate.rows, own.estimate.rows / self.shards as f64);
        let rows = self.over(&semi, vec![own.clone(), partners], own.partitioning.clone())?;
        Ok(Some(Placed { cost: rows.cost + work, plan: assert_matches_colocated(rows.plan)?, ..rows }))
    }
}
