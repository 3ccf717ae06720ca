//! The clauses of a select: `semi join`, `having` without groups, `columns(*)`, and `from t` without a
//! select.

use super::{alias_reuse, grouping_sets, quantified_comparisons, table_functions};
use crate::syntax::parser;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, JoinOperator, Select,
    SelectFlavor, SelectItem, SetExpr, TableFactor, WildcardAdditionalOptions,
};

/// Desugars the clauses of a select; `semi join` and `anti join` keep rows of the left.
pub(super) fn desugar(body: &mut SetExpr) {
    let SetExpr::Select(select) = body else { return };
    having_of_values(select);
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        // An order begins with the keys, each of them once.
        let mut seen: Vec<Expr> = vec![];
        keys.retain(|key| {
            !seen.contains(key) && {
                seen.push(key.clone());
                true
            }
        });
    }
    every_column(select);
    table_functions::name_series(select);
    grouping_sets::desugar(select);
    if let Some(condition) = &mut select.selection {
        quantified_comparisons::rows_in_condition(condition);
    }
    for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
        let operator = std::mem::replace(&mut join.join_operator, JoinOperator::CrossApply);
        join.join_operator = match operator {
            JoinOperator::Semi(on) => JoinOperator::LeftSemi(on),
            JoinOperator::Anti(on) => JoinOperator::LeftAnti(on),
            other => other,
        };
    }
}

/// `from t`, without a select, is all of it.
pub(super) fn all_columns(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) if select.flavor == SelectFlavor::FromFirstNoSelect => {
            select.flavor = SelectFlavor::Standard;
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        }
        SetExpr::SetOperation { left, right, .. } => {
            all_columns(left);
            all_columns(right);
        }
        _ => {}
    }
}

/// `select 1 having …`, of no table and without an aggregate, is `select 1 where …`.
fn having_of_values(select: &mut Select) {
    if select.from.is_empty() && select.selection.is_none() && !alias_reuse::may_aggregate(select) {
        select.selection = select.having.take();
    }
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    if select.having.is_some() && !select.from.is_empty() && !grouped && !alias_reuse::may_aggregate(select) {
        one_group(select);
    }
}

/// `select 1 from t having …` is of the only group there is:
/// `select 1 from (select count(*) from t) where …`.
fn one_group(select: &mut Select) {
    // What is written here can be parsed.
    let Ok(outer) = parser::query("select 1 from (select count(*)) as __group") else { return };
    let SetExpr::Select(outer) = *outer.body else { return };
    let Some(mut group) = outer.from.into_iter().next() else { return };
    if let TableFactor::Derived { subquery, .. } = &mut group.relation
        && let SetExpr::Select(counted) = subquery.body.as_mut()
    {
        counted.from = std::mem::take(&mut select.from);
        counted.selection = select.selection.take();
    }
    select.from = vec![group];
    select.selection = select.having.take();
}

/// `columns(*)` as `*`.
fn every_column(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Function(call)) = item
            && call.name.to_string().eq_ignore_ascii_case("columns")
            && let FunctionArguments::List(list) = &call.args
            && matches!(list.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)])
        {
            *item = SelectItem::Wildcard(WildcardAdditionalOptions::default());
        }
    }
}
