//! `rollup ((a, b), c)` and `cube ((a, b), c)`: columns in brackets come and go together, which the planner has for `grouping
//! sets` only. The number of a column in any of these is that column of the select list.

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, Value};

/// How many columns or brackets a cube may have: it is as many sets as they have subsets.
const CUBE: usize = 12;

/// Says what a select is grouped by with sets of columns.
pub(super) fn desugar(select: &mut Select) {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return };
    for group in groups {
        let (Expr::Rollup(elements) | Expr::Cube(elements) | Expr::GroupingSets(elements)) = &mut *group
        else {
            continue;
        };
        elements.iter_mut().flatten().for_each(|column| numbered(column, &select.projection));
        if elements.iter().all(|element| element.len() == 1) {
            continue;
        }
        let sets = match &*group {
            Expr::Rollup(elements) => (0..=elements.len()).rev().map(|n| elements[..n].concat()).collect(),
            Expr::Cube(elements) if elements.len() <= CUBE => subsets(elements),
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

/// Puts a column of the select list in place of its number.
fn numbered(column: &mut Expr, selected: &[SelectItem]) {
    let Expr::Value(value) = &*column else { return };
    let Value::Number(digits, _) = &value.value else { return };
    let plain = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    };
    let known = selected.iter().map(plain).collect::<Option<Vec<_>>>();
    let at = digits.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    if let Some(found) = known.zip(at).and_then(|(known, at)| known.into_iter().nth(at)) {
        *column = found;
    }
}
