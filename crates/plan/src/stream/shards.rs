//! The shards between exchanges: how many there are, and the same stream with as many as another one.

use super::Stream;
use crate::nodes::{Exchange, extension};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;

impl Stream {
    /// How many shards come out of each exchange, from the result down to the sources; none where as many
    /// come out as went in.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use whimbrel_plan::nodes::Scope;
    /// # use whimbrel_plan::{Series, Stream};
    /// let numbers = Stream::scan("numbers", Arc::new(Series::new("n", 0, 10, 1, true)?))?;
    /// let two = numbers.reshard(Some(2), Scope::Global)?;
    /// assert_eq!(two.exchange_shards()?, [Some(2)]);
    /// assert_eq!(two.with_exchange_shards(&[Some(4)])?.properties().shards, 4);
    /// # Ok::<(), datafusion::error::DataFusionError>(())
    /// ```
    ///
    /// # Errors
    /// Those of a plan that cannot be traversed.
    pub fn exchange_shards(&self) -> Result<Vec<Option<usize>>> {
        let mut shards = Vec::new();
        self.plan.apply_with_subqueries(|node| {
            shards.extend(exchange(node).map(|exchange| exchange.shards));
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(shards)
    }

    /// The same stream with these numbers of shards, in the order of
    /// [`exchange_shards`](Stream::exchange_shards). Exchanges beyond them stay as they are.
    ///
    /// # Errors
    /// `Plan` if rows that have to be together are not, with so many shards.
    pub fn with_exchange_shards(&self, shards: &[Option<usize>]) -> Result<Stream> {
        // A rewrite would build parts that several steps read once for each.
        if self.exchange_shards()?.iter().zip(shards).all(|(own, other)| own == other) {
            return Ok(self.clone());
        }
        let mut shards = shards.iter();
        let replace = |node: LogicalPlan| {
            let Some((old, shards)) = exchange(&node).and_then(|old| Some((old, *shards.next()?))) else {
                return Ok(Transformed::no(node));
            };
            Ok(Transformed::yes(extension(old.with_input(old.input.clone().into_inner(), shards)?)))
        };
        Stream::from_plan(self.plan.as_ref().clone().transform_down_with_subqueries(replace)?.data)
    }
}

/// The exchange that this node is.
fn exchange(node: &LogicalPlan) -> Option<&Exchange> {
    match node {
        LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
        _ => None,
    }
}
