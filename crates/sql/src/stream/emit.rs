//! `emit changes` and `emit final`, after a query: when its rows are handed out.
//!
//! `emit final`, the default: a row is handed out when nothing can change it any more. Over a stream with
//! time that is when its window has passed; over a live source without, a row of an aggregate is final when
//! the source has ended.
//!
//! `emit changes`: rows are handed out at once, and taken back when they change. The query is understood as
//! over tables that hold what has arrived so far, windows of time included, and its result is the stream of
//! changes of that relation: a first column `change` is 1 for a row that comes and -1 for one that goes.
//!
//! ```sql
//! -- A row for each window, when the window has passed.
//! select item, count(*) from tumble(clicks, time, interval '5' minute) group by item, window_end;
//! -- The counts so far: 1 and -1 in the column `change` for each of their changes.
//! select item, count(*) from clicks group by item emit changes;
//! ```

use crate::columns::with_unique_names;
use crate::single_shard::{is_single_shard, single_shard};
use crate::syntax::Emit;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use whimbrel_plan::nodes::{Node, node};
use whimbrel_plan::{Stream, properties};

/// The table of this name as a query sees it: with `emit changes` as a table of what has arrived.
///
/// # Errors
/// `Plan` if the table is a query over time already.
pub(crate) fn table(emit: Emit, name: &str, plan: LogicalPlan) -> Result<LogicalPlan> {
    match emit {
        Emit::Final => Ok(plan),
        Emit::Changes => arrived(name, plan),
    }
}

/// The rows of a stream as a table.
fn arrived(name: &str, plan: LogicalPlan) -> Result<LogicalPlan> {
    if properties(&plan)?.time.is_none() {
        return Ok(plan);
    }
    match (node(&plan), &plan) {
        (Some(Node::Ingress(ingress)), _) if ingress.time.kind.is_none() => {
            with_unique_names(ingress.input.clone().into_inner())
        }
        (Some(Node::Exchange(exchange)), _) if is_single_shard(exchange) => {
            Ok(single_shard(&Stream::from_plan(arrived(name, exchange.input.clone().into_inner())?)?)?
                .plan()
                .clone())
        }
        (Some(Node::ReKey(rekey)), _) => arrived(name, rekey.input.clone().into_inner()),
        // What looks at one row at a time is the same of tables.
        (_, LogicalPlan::Filter(_) | LogicalPlan::Projection(_)) => {
            let rows = arrived(name, plan.inputs()[0].clone())?;
            plan.with_new_exprs(plan.expressions(), vec![rows])
        }
        _ => plan_err!(
            "emit changes: {name} is a query over time already; leave out emit changes, or name its source here \
             and write the query in SQL"
        ),
    }
}
