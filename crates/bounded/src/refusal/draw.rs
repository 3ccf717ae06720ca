//! The query's plan as a tree, the unbounded relation marked.

use crate::plan::{list, written};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The mark.
const MARK: &str = "   <-- no limit here";

/// Draws a plan; `alias` or, where it has none, `table` is marked.
pub(crate) fn draw(plan: &LogicalPlan, alias: &str, table: &str) -> String {
    let mut lines = Vec::new();
    let mut marked = false;
    node(plan, 0, alias, table, &mut marked, &mut lines);
    lines.join("\n")
}

fn node(
    plan: &LogicalPlan,
    depth: usize,
    alias: &str,
    table: &str,
    marked: &mut bool,
    lines: &mut Vec<String>,
) {
    if let (LogicalPlan::SubqueryAlias(named), false) = (plan, *marked)
        && let LogicalPlan::TableScan(scan) = named.input.as_ref()
    {
        let hit = named.alias.table() == alias;
        *marked |= hit;
        lines.push(line(depth, &format!("{} {}", scan.table_name.table(), named.alias.table()), hit));
        return;
    }
    let text = match plan {
        LogicalPlan::TableScan(scan) => {
            let hit = !*marked && scan.table_name.table() == table && alias.starts_with(table);
            *marked |= hit;
            return lines.push(line(depth, scan.table_name.table(), hit));
        }
        LogicalPlan::Projection(projection) => format!("select {}", list(&projection.expr)),
        LogicalPlan::Filter(filter) => format!("where {}", written(&filter.predicate)),
        LogicalPlan::Join(join) => {
            let on = join.on.iter().map(|(left, right)| format!("{} = {}", written(left), written(right)));
            let on: Vec<String> = on.chain(join.filter.iter().map(written)).collect();
            let kind = join.join_type.to_string().to_lowercase();
            if on.is_empty() {
                format!("{kind} join")
            } else {
                format!("{kind} join on {}", on.join(" and "))
            }
        }
        LogicalPlan::Sort(sort) => {
            let keys: Vec<String> = sort
                .expr
                .iter()
                .map(|key| format!("{}{}", written(&key.expr), if key.asc { "" } else { " desc" }))
                .collect();
            format!("order by {}", keys.join(", "))
        }
        LogicalPlan::Limit(limit) => {
            let rows = limit.fetch.as_deref().map(|fetch| match fetch {
                Expr::Literal(rows, _) => rows.to_string(),
                other => written(other),
            });
            format!("limit {}", rows.unwrap_or_default())
        }
        LogicalPlan::Aggregate(aggregate) => {
            format!("group by {} → {}", list(&aggregate.group_expr), list(&aggregate.aggr_expr))
        }
        LogicalPlan::SubqueryAlias(named) => format!("as {}", named.alias.table()),
        LogicalPlan::Union(_) => "union all".to_string(),
        LogicalPlan::Distinct(_) => "distinct".to_string(),
        other => other.display().to_string(),
    };
    lines.push(line(depth, &text, false));
    for input in plan.inputs() {
        node(input, depth + 1, alias, table, marked, lines);
    }
    // The closure does not fail.
    let _ = plan.apply_subqueries(|subquery| {
        if let LogicalPlan::Subquery(subquery) = subquery {
            lines.push(line(depth + 1, "<subquery>", false));
            node(&subquery.subquery, depth + 2, alias, table, marked, lines);
        }
        Ok(TreeNodeRecursion::Continue)
    });
}

fn line(depth: usize, text: &str, hit: bool) -> String {
    format!("{}{text}{}", "  ".repeat(depth), if hit { MARK } else { "" })
}
