//! A logical plan drawn as a tree, with a mark at the relation that has no bound.

use super::unparse::{unparse, unparse_list};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The mark.
const MARK: &str = "   <-- no limit here";

/// Draws a plan; the relation `alias` of `table` is marked.
pub(crate) fn draw(plan: &LogicalPlan, alias: &str, table: &str) -> String {
    let left = occurrence(alias, table).unwrap_or(usize::MAX);
    let mut drawing = Drawing { alias, table, left, marked: false, lines: vec![] };
    drawing.node(plan, 0);
    drawing.lines.join("\n")
}

/// Which of the scans of a table that have no alias is meant: `posts_2` is the second of `posts`.
pub(crate) fn occurrence(alias: &str, table: &str) -> Option<usize> {
    match alias.strip_prefix(table)? {
        "" => Some(1),
        number => number.strip_prefix('_')?.parse().ok(),
    }
}

/// A drawing under way.
struct Drawing<'a> {
    /// The relation to be marked.
    alias: &'a str,
    table: &'a str,
    /// How many scans of the table without an alias there are up to the mark.
    left: usize,
    marked: bool,
    lines: Vec<String>,
}

impl Drawing<'_> {
    /// Draws a node, and the nodes below it.
    fn node(&mut self, plan: &LogicalPlan, depth: usize) {
        let text = match plan {
            LogicalPlan::SubqueryAlias(named) if let LogicalPlan::TableScan(scan) = named.input.as_ref() => {
                let name = named.alias.table();
                return self.line(depth, &format!("{} {name}", scan.table_name.table()), name == self.alias);
            }
            LogicalPlan::TableScan(scan) => {
                let name = scan.table_name.table();
                self.left -= usize::from(name == self.table && self.left > 0);
                return self.line(depth, name, name == self.table && self.left == 0);
            }
            other => operator(other),
        };
        self.line(depth, &text, false);
        for input in plan.inputs() {
            self.node(input, depth + 1);
        }
        // The closure does not fail.
        let _ = plan.apply_subqueries(|subquery| {
            if let LogicalPlan::Subquery(subquery) = subquery {
                self.line(depth + 1, "<subquery>", false);
                self.node(&subquery.subquery, depth + 2);
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }

    /// Adds a line, with the mark if it is the first that is to have it.
    fn line(&mut self, depth: usize, text: &str, hit: bool) {
        let mark = if hit && !self.marked { MARK } else { "" };
        self.marked |= hit;
        self.lines.push(format!("{}{text}{mark}", "  ".repeat(depth)));
    }
}

/// An operator in one line.
fn operator(plan: &LogicalPlan) -> String {
    match plan {
        LogicalPlan::Projection(projection) => format!("select {}", unparse_list(&projection.expr)),
        LogicalPlan::Filter(filter) => format!("where {}", unparse(&filter.predicate)),
        LogicalPlan::Join(join) => {
            let on = join.on.iter().map(|(left, right)| format!("{} = {}", unparse(left), unparse(right)));
            let on: Vec<String> = on.chain(join.filter.iter().map(unparse)).collect();
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
                .map(|key| format!("{}{}", unparse(&key.expr), if key.asc { "" } else { " desc" }))
                .collect();
            format!("order by {}", keys.join(", "))
        }
        LogicalPlan::Limit(limit) => {
            let rows = limit.fetch.as_deref().map(|fetch| match fetch {
                Expr::Literal(rows, _) => rows.to_string(),
                other => unparse(other),
            });
            format!("limit {}", rows.unwrap_or_default())
        }
        LogicalPlan::Aggregate(aggregate) => {
            format!(
                "group by {} → {}",
                unparse_list(&aggregate.group_expr),
                unparse_list(&aggregate.aggr_expr)
            )
        }
        LogicalPlan::SubqueryAlias(named) => format!("as {}", named.alias.table()),
        LogicalPlan::Union(_) => "union all".to_string(),
        LogicalPlan::Distinct(_) => "distinct".to_string(),
        other => other.display().to_string(),
    }
}
