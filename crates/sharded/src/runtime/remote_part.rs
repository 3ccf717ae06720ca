//! What of a query runs in other processes, and what is left to whoever reads its result.

use super::{Progress, Sink};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan};
use whimbrel_plan::nodes::Movement;
use whimbrel_plan::{Node, Stream, node};
use whimbrel_temporal::Message;

/// The part of a query that runs in other processes.
///
/// A sort in shards ends with a step that puts the rows of one shard after those of another. Whoever reads
/// the shards can do that, so no process has to carry all rows.
pub enum RemotePart<'a> {
    /// All of it.
    Whole(&'a Stream),
    /// All but its last step: its shards are sorted, and are read in their order.
    SortedShards(Stream),
}

/// Where the shards of a result go.
pub enum ResultSinks {
    /// Each to a sink of its own.
    OfShards(Vec<Sink>),
    /// All to one sink: those of the first shard, then those of the second, and so on.
    InOrder(Sink),
}

/// Hands a message of the result to its sink, and counts its rows. False if the query was cancelled, so that
/// nothing follows.
///
/// # Errors
/// Those of the sink.
pub fn hand_out(message: Message, sink: &mut Sink, progress: &Progress) -> Result<bool> {
    if progress.cancelled() {
        return Ok(false);
    }
    if let Message::Batch(batch) = &message {
        progress.add_rows_out(batch.len() as u64);
    }
    sink(message)?;
    Ok(true)
}

impl RemotePart<'_> {
    /// The part of a query.
    ///
    /// # Errors
    /// `Plan` if the plan cannot be rebuilt.
    pub fn of(stream: &Stream) -> Result<RemotePart<'_>> {
        Ok(match sorted_shards(stream.plan())? {
            Some(shards) => RemotePart::SortedShards(Stream::from_plan(shards)?),
            None => RemotePart::Whole(stream),
        })
    }

    /// The query of the other processes.
    pub fn stream(&self) -> &Stream {
        match self {
            RemotePart::Whole(stream) => stream,
            RemotePart::SortedShards(stream) => stream,
        }
    }

    /// Where its shards go, if the result of the whole query goes to these sinks, one for each shard.
    ///
    /// # Errors
    /// `Plan` if there are not as many sinks as shards.
    pub fn sinks(&self, mut sinks: Vec<Sink>) -> Result<ResultSinks> {
        let shards = match self {
            RemotePart::Whole(stream) => stream.properties().shards,
            RemotePart::SortedShards(_) => 1,
        };
        if sinks.len() != shards {
            return plan_err!("the result has {shards} shards, and there are {} sinks", sinks.len());
        }
        if let RemotePart::SortedShards(_) = self
            && let Some(sink) = sinks.pop()
        {
            return Ok(ResultSinks::InOrder(sink));
        }
        Ok(ResultSinks::OfShards(sinks))
    }
}

/// The plan of the shards whose rows this plan puts [in order](Movement::InOrder) in the end, if it does.
/// What is computed of each row then is computed in the shards.
fn sorted_shards(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let input = match plan {
        LogicalPlan::Projection(rows) if !rows.expr.iter().any(has_subquery) => &rows.input,
        LogicalPlan::SubqueryAlias(rows) => &rows.input,
        _ => {
            let Some(Node::Exchange(exchange)) = node(plan) else { return Ok(None) };
            let is_last = *exchange.movement == Movement::InOrder && exchange.location.is_none();
            return Ok(is_last.then(|| exchange.input.clone().into_inner()));
        }
    };
    let shards = sorted_shards(input)?;
    shards.map(|shards| plan.with_new_exprs(plan.expressions(), vec![shards])).transpose()
}

/// Whether a query is part of an expression. It may be a plan of a stage of its own.
fn has_subquery(expr: &Expr) -> bool {
    let is_subquery = |expr: &Expr| {
        matches!(
            expr,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)
        )
    };
    expr.exists(|expr| Ok(is_subquery(expr))).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::MemoryDataset;
    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::logical_expr::Sort;
    use datafusion::prelude::lit;
    use std::sync::Arc;
    use whimbrel_plan::column;
    use whimbrel_plan::nodes::{Exchange, Scope, extension};

    fn numbers() -> Stream {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![3, 1, 2]));
        let rows = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let dataset = MemoryDataset::new(rows.schema(), vec![vec![rows]; 3]).unwrap();
        Stream::scan("numbers", Arc::new(dataset)).unwrap()
    }

    /// Each shard sorted, and the rows of one after those of another.
    fn in_order() -> Stream {
        let input = Arc::new(numbers().plan().clone());
        let sort = Sort { expr: vec![column("n").sort(true, false)], input, fetch: None };
        let ordered = Exchange::try_new(LogicalPlan::Sort(sort), Movement::InOrder, Some(1), Scope::Global);
        Stream::from_plan(extension(ordered.unwrap())).unwrap()
    }

    fn sinks(count: usize) -> Vec<Sink> {
        (0..count).map(|_| -> Sink { Box::new(|_| Ok(())) }).collect()
    }

    #[test]
    fn the_last_step_of_a_sort_is_left_to_the_reader() {
        for query in [in_order(), in_order().select(vec![(column("n") + lit(1_i64)).alias("m")]).unwrap()] {
            let part = RemotePart::of(&query).unwrap();
            assert_eq!(part.stream().properties().shards, 3);
            assert_eq!(part.stream().schema(), query.schema());
            assert!(matches!(part.sinks(sinks(1)).unwrap(), ResultSinks::InOrder(_)));
            assert!(part.sinks(sinks(3)).is_err());
        }
    }

    #[test]
    fn other_queries_run_elsewhere_as_a_whole() {
        let limited = in_order().limit(0, Some(2)).unwrap();
        let filtered = in_order().where_(column("n").gt(lit(1_i64))).unwrap();
        for (query, shards) in [(limited, 1), (filtered, 1), (numbers(), 3)] {
            let part = RemotePart::of(&query).unwrap();
            assert_eq!(part.stream().properties().shards, shards);
            assert!(
                matches!(part.sinks(sinks(shards)).unwrap(), ResultSinks::OfShards(of) if of.len() == shards)
            );
            assert!(part.sinks(sinks(shards + 1)).is_err());
        }
    }
}
