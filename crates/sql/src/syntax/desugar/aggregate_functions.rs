//! Aggregates that other engines have, as ones that DataFusion has, with their `filter`, `over` and
//! `distinct`.
//!
//! ```sql
//! select arg_max(x, y);  -- first_value(x order by y desc) filter (where y is not null and x is not null)
//! select count_if(c);    -- count(case when c then 1 end)
//! ```

use super::parse_expr;
use crate::syntax::ast::{arguments, call, nested, number, quote};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, Ident, ObjectName, OrderByExpr, OrderByOptions, Value,
};

/// Desugars `any_value` and `count_if`.
pub(super) fn desugar(call: &mut Function) {
    match call.name.to_string().to_ascii_lowercase().as_str() {
        "any_value" | "arbitrary" => any_value(call),
        "count_if" | "countif" => count_if(call),
        _ => {}
    }
}

/// `any_value(x order by y)` is the first `x` in that order that is not null.
fn any_value(call: &mut Function) {
    let FunctionArguments::List(list) = &call.args else { return };
    let ordered = list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)));
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = list.args.as_slice() else { return };
    if !ordered {
        return;
    }
    let not_null = Expr::IsNotNull(Box::new(nested(value.clone())));
    call.filter = Some(Box::new(match call.filter.take() {
        Some(filter) => Expr::BinaryOp {
            left: Box::new(nested(*filter)),
            op: BinaryOperator::And,
            right: Box::new(not_null),
        },
        None => not_null,
    }));
    call.name = ObjectName::from(vec![Ident::new("first_value")]);
}

/// `count_if(c)` is `count(case when c then 1 end)`.
fn count_if(call: &mut Function) {
    let FunctionArguments::List(list) = &mut call.args else { return };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(condition))] = list.args.as_mut_slice() else { return };
    let one = Expr::Value(Value::Number("1".to_string(), false).into());
    *condition = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition: condition.clone(), result: one }],
        else_result: None,
    };
    call.name = ObjectName::from(vec![Ident::new("count")]);
}

/// `count()` is `count(*)`.
pub(super) fn count_star(function: &mut Function) {
    function.name = ObjectName::from(vec![Ident::new("count")]);
    if let FunctionArguments::List(list) = &mut function.args {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)];
    }
}

/// `string_agg(x)` is `string_agg(x, ',')`.
///
/// Between texts with a null there is a null: the whole is the least of none.
pub(super) fn default_separator(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    if list.args.len() == 1 {
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(quote(","))));
    }
    if let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(separator)))] = list.args.as_slice()
        && separator.value == Value::Null
        && let Some(null) = parse_expr("cast(null as varchar)")
    {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(null))];
        list.clauses.clear();
        function.name = ObjectName::from(vec![Ident::new("min")]);
    }
}

/// `percentile_cont(0.3) within group (order by x)` is `percentile_cont(x, 0.3)`. In a descending order the
/// share is `1 - 0.3`; one of the values itself is counted from the other end, which a negative share says.
pub(super) fn within_group(name: &str, function: &mut Function) {
    let ([OrderByExpr { expr, options, .. }], Some(shares)) =
        (function.within_group.as_slice(), arguments(function))
    else {
        return;
    };
    let descending = |share: Expr| {
        let text = match name {
            "percentile_disc" => format!("(-cast(({share}) as double))"),
            _ => format!("(1 - {share})"),
        };
        parse_expr(&text).unwrap_or(share)
    };
    let mut args = vec![expr.clone()];
    for share in shares {
        args.push(match (options.asc, share) {
            (Some(false), Expr::Array(shares)) => {
                let elem = shares.elem.into_iter().map(descending).collect();
                Expr::Array(Array { elem, ..shares })
            }
            (Some(false), share) => descending(share),
            (_, share) => share,
        });
    }
    let FunctionArguments::List(list) = &mut function.args else { return };
    list.args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    function.within_group.clear();
}

/// `arg_max(x, y)` is the `x` of the row with the greatest `y`, of rows that have both. Of several such rows
/// it is the first in the order that the call has.
pub(super) fn arg_extreme(function: &mut Function, greatest: bool) {
    let Some([value, by]) = arguments(function).and_then(|args| <[Expr; 2]>::try_from(args).ok()) else {
        return;
    };
    let FunctionArguments::List(list) = &mut function.args else { return };
    if function.over.is_some() || list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
        return;
    }
    list.args.truncate(1);
    let options = OrderByOptions { asc: Some(!greatest), nulls_first: Some(false) };
    let mut order = vec![OrderByExpr { expr: by.clone(), options, with_fill: None }];
    for clause in std::mem::take(&mut list.clauses) {
        match clause {
            FunctionArgumentClause::OrderBy(then) => {
                order.extend(then.into_iter().filter(|it| it.expr != by))
            }
            other => list.clauses.push(other),
        }
    }
    list.clauses.push(FunctionArgumentClause::OrderBy(order));
    let both = Expr::BinaryOp {
        left: Box::new(Expr::IsNotNull(Box::new(nested(by)))),
        op: BinaryOperator::And,
        right: Box::new(Expr::IsNotNull(Box::new(nested(value)))),
    };
    let filter = match function.filter.take() {
        Some(filter) => {
            let (left, right) = (Box::new(nested(*filter)), Box::new(both));
            Expr::BinaryOp { left, op: BinaryOperator::And, right }
        }
        None => both,
    };
    function.filter = Some(Box::new(filter));
    function.name = ObjectName::from(vec![Ident::new("first_value")]);
}

/// `arg_max(x, y, 3)`, `max(x, 3)`: a list of so many values, those with the greatest `y`, or the greatest.
pub(super) fn top_n(name: &str, function: &mut Function) -> Option<Expr> {
    let args = arguments(function)?;
    let (value, by, count, greatest) = match (name, args.as_slice()) {
        ("arg_min" | "argmin" | "min_by", [value, by, count]) => (value, by, count, false),
        ("arg_max" | "argmax" | "max_by", [value, by, count]) => (value, by, count, true),
        ("min", [value, count]) => (value, value, count, false),
        ("max", [value, count]) => (value, value, count, true),
        _ => return None,
    };
    let FunctionArguments::List(list) = &mut function.args else { return None };
    list.args = [value, by].map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg.clone()))).to_vec();
    arg_extreme(function, greatest);
    function.name = ObjectName::from(vec![Ident::new("array_agg")]);
    Some(call("array_slice", vec![Expr::Function(function.clone()), number("1"), count.clone()]))
}

/// `quantile_cont(x, [0.25, 0.5])`: a list of one quantile for each share, or null of no values.
pub(super) fn quantile_list(name: &str, function: &mut Function) -> Option<Expr> {
    if !matches!(name, "quantile" | "quantile_disc" | "quantile_cont" | "percentile_cont" | "percentile_disc")
    {
        return None;
    }
    let args = arguments(function)?;
    let [value, Expr::Array(shares)] = args.as_slice() else { return None };
    let mut aggregate = |name: &str, args: &[&Expr]| {
        let FunctionArguments::List(list) = &mut function.args else { return String::new() };
        let unnamed = |arg: &&Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr((*arg).clone()));
        list.args = args.iter().map(unnamed).collect();
        function.name = ObjectName::from(vec![Ident::new(name)]);
        function.to_string()
    };
    let count = aggregate("count", &[value]);
    let quantiles: Vec<String> = shares.elem.iter().map(|share| aggregate(name, &[value, share])).collect();
    parse_expr(&format!("case when {count} > 0 then [{}] end", quantiles.join(", ")))
}
