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
//! `emit changes within …`: the same with rows that are at most so late. Later ones are dropped, and
//! windows are forgotten when no row can change them any more. Their last rows are those that `emit final`
//! gives over a source with this reorder latency that drops late rows.
//!
//! ```sql
//! -- A row for each window, when the window has passed.
//! select item, count(*) from tumble(clicks, time, interval '5' minute) group by item, window_end;
//! -- The counts so far: 1 and -1 in the column `change` for each of their changes.
//! select item, count(*) from clicks group by item emit changes;
//! -- The windows so far, corrected for an hour.
//! select item, count(*) from tumble(clicks, time, interval '5' minute) group by item, window_end
//! emit changes within interval '1' hour;
//! ```

use super::durations;
use crate::columns::with_unique_names;
use crate::single_shard::{is_single_shard, single_shard};
use crate::syntax::Emit;
use crate::tree::transform_down_with_subqueries;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use whimbrel_plan::nodes::{AllowedLateness, Node, extension, node};
use whimbrel_plan::{Stream, properties};

/// The table of this name as a query sees it: with `emit changes` as a table of what has arrived.
///
/// # Errors
/// `Plan` if the table is a query over time already, or the lateness does not fit its time.
pub(crate) fn table(emit: &Emit, name: &str, plan: LogicalPlan) -> Result<LogicalPlan> {
    let Emit::Changes { within } = emit else { return Ok(plan) };
    let known = properties(&plan)?;
    if known.time.is_none() && !known.bounded && within.is_some() {
        return plan_err!(
            "emit changes within: {name} is a live source without a time, so that no row of it is late; give it the column \
             of its time, time=\"…\", or leave out within"
        );
    }
    arrived(name, plan, within.as_deref())
}

/// The rows of a stream as a table, those that are at most so late.
fn arrived(name: &str, plan: LogicalPlan, within: Option<&str>) -> Result<LogicalPlan> {
    if properties(&plan)?.time.is_none() {
        return Ok(plan);
    }
    match (node(&plan), &plan) {
        (Some(Node::Ingress(ingress)), _) if ingress.time.kind.is_none() => {
            let rows = with_unique_names(ingress.input.clone().into_inner())?;
            match within {
                // Lateness is told where the rows come in, before any of them is left out.
                Some(within) => allow_lateness(rows, &ingress.time.start, within),
                None => Ok(rows),
            }
        }
        (Some(Node::Exchange(exchange)), _) if is_single_shard(exchange) => {
            let rows = arrived(name, exchange.input.clone().into_inner(), within)?;
            Ok(single_shard(&Stream::from_plan(rows)?)?.plan().clone())
        }
        (Some(Node::ReKey(rekey)), _) => arrived(name, rekey.input.clone().into_inner(), within),
        (Some(Node::Require(of)), _) => arrived(name, of.input.clone().into_inner(), within),
        // What looks at one row at a time is the same of tables.
        (_, LogicalPlan::Filter(_) | LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_)) => {
            let rows = arrived(name, plan.inputs()[0].clone(), within)?;
            plan.with_new_exprs(plan.expressions(), vec![rows])
        }
        _ => plan_err!(
            "emit changes: {name} is a query over time already; leave out emit changes, or name its source here \
             and write the query in SQL"
        ),
    }
}

/// The rows that are at most so late, in one shard. They are kept for one tick, unless a window takes them.
fn allow_lateness(rows: LogicalPlan, time: &str, within: &str) -> Result<LogicalPlan> {
    let clock = rows.schema().field_with_unqualified_name(time)?.data_type().clone();
    let lateness = durations::duration(within).ticks(&clock, "emit changes within")?;
    if lateness < 0 {
        return plan_err!("emit changes within: give a length of time that is not negative");
    }
    if properties(&rows)?.bounded {
        return Ok(rows);
    }
    let rows = single_shard(&Stream::from_plan(rows)?)?.plan().clone();
    Ok(extension(AllowedLateness::try_new(rows, time.to_string(), lateness, 1)?))
}

/// The plan with all of its rows kept as long as those that are kept longest. What is read in several places
/// is then one node, which tells once what came too late.
///
/// # Errors
/// `Plan` if the plan cannot be rebuilt.
pub(crate) fn with_one_retention(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut longest = 0;
    plan.apply_with_subqueries(|step| {
        if let Some(Node::AllowedLateness(of)) = node(step) {
            longest = longest.max(of.retention);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    with_retention(plan, &|_| longest)
}

/// The plan with its rows kept for so many ticks more: each goes into a window that is so long, which may
/// begin where a window below ends.
///
/// # Errors
/// `Plan` if the plan cannot be rebuilt.
pub(super) fn keep_longer(plan: LogicalPlan, ticks: i64) -> Result<LogicalPlan> {
    with_retention(plan, &|retention| retention.saturating_add(ticks))
}

/// The plan without lateness of relations that end, as an empty one that the optimizer has put in place of a
/// source: none of their rows is late.
///
/// # Errors
/// `Plan` if the plan cannot be rebuilt.
pub(crate) fn without_lateness_of_tables(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_down_with_subqueries(plan, &mut |plan| match node(&plan) {
        Some(Node::AllowedLateness(of)) if properties(&of.input)?.bounded => {
            Ok(Transformed::yes(with_unique_names(of.input.clone().into_inner())?))
        }
        _ => Ok(Transformed::no(plan)),
    })
}

/// The plan with another retention of its rows.
fn with_retention(plan: LogicalPlan, retention: &dyn Fn(i64) -> i64) -> Result<LogicalPlan> {
    transform_down_with_subqueries(plan, &mut |plan| match node(&plan) {
        Some(Node::AllowedLateness(of)) => {
            let input = of.input.clone().into_inner();
            let retention = retention(of.retention);
            let kept = AllowedLateness::try_new(input, of.time.clone(), of.lateness, retention)?;
            Ok(Transformed::yes(extension(kept)))
        }
        _ => Ok(Transformed::no(plan)),
    })
}
