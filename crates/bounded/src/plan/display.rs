//! A plan as people read it: one line a step, the last one first, with what says how many rows there are.

use super::chain::{Access, Chain, Fetch, Hint, Interval, Keep, Plan, Source, Step};
use super::unparse::{unparse, unparse_list};
use crate::bound::Bound;
use datafusion::logical_expr::{Expr, SortExpr};
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        show(&self.chain, 0, &mut lines);
        lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        write!(f, "bound: {}", self.bound)?;
        if let Some(writes) = &self.writes {
            write!(f, "\nwrites: {writes}")?;
        }
        for (table, index) in &self.new_indexes {
            write!(f, "\nnew index on {table}: {}", index.name)?;
        }
        match &self.allowed {
            Some(reason) => write!(f, "\nallowed to be unbounded: {reason}"),
            None => Ok(()),
        }
    }
}

/// The lines of a chain, the last step first, each with the rows that come out of it.
fn show(chain: &Chain, depth: usize, lines: &mut Vec<String>) {
    let start = lines.len();
    let mut bound = Bound::of(&Chain { source: chain.source.clone(), steps: vec![] });
    match &chain.source {
        Source::Call => {}
        Source::Lists(lists) => {
            let names: Vec<&str> = lists.iter().map(|list| list.alias.as_str()).collect();
            lines.push(format!("Values {} → {}", names.join(", "), row_count(bound.rows)));
        }
        Source::Values { rows: values, .. } => {
            lines.push(format!("Values → {}", row_count(values.len() as u64)))
        }
        Source::Union { branches, .. } => {
            branches.iter().rev().for_each(|branch| show(branch, depth + 1, lines));
            // The branches stand below the union.
            lines[start..].reverse();
            lines.push(format!("Union → {}", row_count(bound.rows)));
        }
    }
    for step in &chain.steps {
        let single = bound.rows == 1;
        bound.then(step);
        lines.push(format!("{} → {}", line(step, single), row_count(bound.rows)));
    }
    lines[start..].reverse();
    lines[start..]
        .iter_mut()
        .for_each(|line| *line = format!("{}{line}", if depth == 0 { "" } else { "  " }));
}

/// `1 row`, `2 rows`
fn row_count(rows: u64) -> String {
    match rows {
        u64::MAX => "any number of rows".to_string(),
        1 => "1 row".to_string(),
        rows => format!("{rows} rows"),
    }
}

/// A step in one line.
fn line(step: &Step, single: bool) -> String {
    match step {
        Step::Fetch(fetch) => fetch_line(fetch, single),
        Step::Filter(exprs) => format!("LocalSelection({})", unparse_list(exprs)),
        Step::Project { columns, .. } => {
            let columns: Vec<String> = columns.iter().map(|(expr, name)| aliased(expr, name)).collect();
            format!("LocalProjection({})", columns.join(", "))
        }
        Step::Sort(order) => format!("LocalSort({})", order_text(order)),
        Step::Stop(rows) => format!("Stop({rows})"),
        Step::Aggregate { group, aggregates, .. } => match group.is_empty() {
            true => format!("LocalAggregate({})", unparse_list(aggregates)),
            false => format!("LocalAggregate({} by {})", unparse_list(aggregates), unparse_list(group)),
        },
        Step::Distinct => "LocalDistinct".to_string(),
        Step::Merge { rows, .. } => format!("LocalMerge({rows})"),
        Step::Page { order, rows } => format!("LocalPage({rows} by {})", order_text(order)),
    }
}

/// A fetch in one line, by the paper's name for it.
fn fetch_line(fetch: &Fetch, single: bool) -> String {
    let what = match &fetch.alias {
        alias if *alias == fetch.table.name => alias.clone(),
        alias => format!("{} {alias}", fetch.table.name),
    };
    let outer = match &fetch.keep {
        Keep::First => ", the first".to_string(),
        Keep::Fold(folds) => {
            format!(
                ", folded to {}",
                unparse_list(&folds.iter().map(|(expr, _)| expr.clone()).collect::<Vec<_>>())
            )
        }
        Keep::All if fetch.outer => ", outer".to_string(),
        Keep::All => String::new(),
    };
    let key = unparse_list(&fetch.keys);
    let most = match (&fetch.hint, fetch.most) {
        (Hint::Key, _) => String::new(),
        (Hint::Schema, most) => format!(", cardinality limit {most}"),
        (Hint::Query, most) => format!(", limit hint {most}"),
        (Hint::Nothing, _) => ", without a limit".to_string(),
    };
    match &fetch.access {
        Access::Record if single => format!("Get({what}, key = ({key}){outer})"),
        Access::Record => format!("IndexFKJoin({what}, key = ({key}){outer})"),
        Access::Unique(index) => format!("UniqueLookup({what}, {} = ({key}){outer})", index.name),
        Access::Range { index, interval, reverse, dereference, partitions } => {
            let name = if single { "IndexScan" } else { "SortedIndexJoin" };
            let interval = interval.as_deref().map(interval_text).unwrap_or_default();
            let direction = if *reverse { ", backwards" } else { "" };
            let deref = match (dereference, fetch.first) {
                (true, Some(first)) => format!(", then the first {first} records"),
                (true, None) => ", then the records".to_string(),
                (false, _) => String::new(),
            };
            let everywhere = match partitions {
                1 => String::new(),
                all => format!(", in all {all} partitions"),
            };
            format!(
                "{name}({what} by {}, prefix = ({key}){interval}{direction}{most}{everywhere}{outer}{deref})",
                index.describe(&fetch.table)
            )
        }
    }
}

/// An interval, as SQL writes it.
fn interval_text(interval: &Interval) -> String {
    let values = |expr: &Expr| match interval.then.as_slice() {
        [] => unparse(expr),
        then => {
            let then: Vec<Expr> = then.iter().map(|(_, value)| value.clone()).collect();
            format!("({}, {})", unparse(expr), unparse_list(&then))
        }
    };
    let open = if interval.open { " if it is given" } else { "" };
    let end = |end: &Option<(Expr, bool)>, with: &str, without: &str| match end {
        Some((expr, is_with)) => {
            format!(", {} {}{open}", if *is_with { with } else { without }, values(expr))
        }
        None => String::new(),
    };
    match (&interval.lower, &interval.upper) {
        (None, None) => ", not null".to_string(),
        (lower, upper) => format!("{}{}", end(lower, ">=", ">"), end(upper, "<=", "<")),
    }
}

/// An expression and its name.
fn aliased(expr: &Expr, name: &str) -> String {
    match expr {
        Expr::Column(column) if column.name == name => column.flat_name(),
        other => format!("{} as {name}", unparse(other)),
    }
}

/// The keys of an order.
fn order_text(order: &[SortExpr]) -> String {
    let keys =
        order.iter().map(|key| format!("{}{}", unparse(&key.expr), if key.asc { "" } else { " desc" }));
    keys.collect::<Vec<_>>().join(", ")
}
