//! `rollup ((a, b), c)` and `cube ((a, b), c)` as `grouping sets`: the planner has groups of several columns
//! there only. A number in any of these is the number of a column of the select list.
//!
//! ```sql
//! select a, b, c, count(*) from t group by rollup ((a, b), 3);
//! -- select a, b, c, count(*) from t group by grouping sets ((a, b, c), (a, b), ())
//! ```

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, Value};

/// How many elements a cube may have: it becomes a set for each of their subsets.
const MAX_CUBE: usize = 12;

/// Rewrites the groups of a select as grouping sets.
pub(super) fn desugar(select: &mut Select) {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return };
    for group in groups {
        let (Expr::Rollup(elements) | Expr::Cube(elements) | Expr::GroupingSets(elements)) = &mut *group
        else {
            continue;
        };
        elements.iter_mut().flatten().for_each(|column| resolve_number(column, &select.projection));
        if elements.iter().all(|element| element.len() == 1) {
            continue;
        }
        let sets = match &*group {
            Expr::Rollup(elements) => (0..=elements.len()).rev().map(|n| elements[..n].concat()).collect(),
            Expr::Cube(elements) if elements.len() <= MAX_CUBE => subsets(elements),
            _ => continue,
        };
        *group = Expr::GroupingSets(sets);
    }
}

/// All subsets, the largest first.
fn subsets(elements: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let all = 0..1_usize << elements.len();
    let of = |set: usize| {
        let chosen = elements.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
        chosen.flat_map(|(_, element)| element.iter().cloned()).collect()
    };
    all.rev().map(of).collect()
}

/// Replaces the number of a column by the column.
fn resolve_number(column: &mut Expr, selected: &[SelectItem]) {
    let Expr::Value(value) = &*column else { return };
    let Value::Number(digits, _) = &value.value else { return };
    let value = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    };
    let values = selected.iter().map(value).collect::<Option<Vec<_>>>();
    let at = digits.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    if let Some(found) = values.zip(at).and_then(|(values, at)| values.into_iter().nth(at)) {
        *column = found;
    }
}
