//! Functions by the names, and with the arguments, that others have for them.

use super::{call, lambdas, nested, text};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, Ident, ObjectName, OrderByExpr, OrderByOptions, Value,
};
use std::ops::ControlFlow;

/// Names that others have for a function, and its name here.
const NAMES: &[(&str, &str)] = &[
    ("approx_count_distinct", "approx_distinct"),
    ("arbitrary", "any_value"),
    ("ceiling", "ceil"),
    ("first", "first_value"),
    ("gen_random_uuid", "uuid"),
    ("group_concat", "string_agg"),
    ("grouping_id", "grouping"),
    ("last", "last_value"),
    ("lcase", "lower"),
    ("len", "length"),
    ("list", "array_agg"),
    ("list_value", "make_array"),
    ("listagg", "string_agg"),
    ("ord", "ascii"),
    ("pg_typeof", "typeof"),
    ("prefix", "starts_with"),
    ("regexp_matches", "regexp_like"),
    ("sign", "signum"),
    ("split", "string_to_array"),
    ("str_split", "string_to_array"),
    ("string_split", "string_to_array"),
    ("strftime", "to_char"),
    ("strlen", "octet_length"),
    ("struct_extract", "get_field"),
    ("suffix", "ends_with"),
    ("ucase", "upper"),
    ("unicode", "ascii"),
    ("variance", "var_samp"),
];

/// Functions of an instant that are parts of it.
const PARTS: &[(&str, &str)] = &[
    ("year", "year"),
    ("quarter", "quarter"),
    ("month", "month"),
    ("week", "week"),
    ("weekofyear", "week"),
    ("day", "day"),
    ("dayofmonth", "day"),
    ("dayofweek", "dow"),
    ("weekday", "dow"),
    ("isodow", "isodow"),
    ("dayofyear", "doy"),
    ("hour", "hour"),
    ("minute", "minute"),
    ("second", "second"),
    ("epoch", "epoch"),
];

/// Says it with functions that are there.
pub(super) fn plain(expr: &mut Expr) -> ControlFlow<String> {
    let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
    lambdas::plain(call);
    let [name] = call.name.0.as_slice() else { return ControlFlow::Continue(()) };
    let name = name.to_string().to_ascii_lowercase();
    if let Some((_, known)) = NAMES.iter().find(|(other, _)| *other == name) {
        call.name = ObjectName::from(vec![Ident::new(*known)]);
    }
    if name == "count_star" || name == "count" && arguments(call).is_some_and(|args| args.is_empty()) {
        counts_rows(call);
    }
    if matches!(name.as_str(), "string_agg" | "group_concat" | "listagg") {
        separated(call);
    }
    if matches!(name.as_str(), "arg_min" | "argmin" | "min_by" | "arg_max" | "argmax" | "max_by") {
        at_extreme(call, name.contains("max"));
    }
    if let Some(said) = in_operators(&name, call) {
        *expr = said;
    }
    ControlFlow::Continue(())
}

/// Functions that are other expressions here.
fn in_operators(name: &str, function: &Function) -> Option<Expr> {
    let args = arguments(function)?;
    let binary = |left: &Expr, op: BinaryOperator, right: &Expr| {
        let (left, right) = (Box::new(nested(left.clone())), Box::new(nested(right.clone())));
        nested(Expr::BinaryOp { left, op, right })
    };
    match (name, args.as_slice()) {
        ("mod", [left, right]) => Some(binary(left, BinaryOperator::Modulo, right)),
        ("xor", [left, right]) => Some(binary(left, BinaryOperator::PGBitwiseXor, right)),
        ("date_add", [instant, length]) => Some(binary(instant, BinaryOperator::Plus, length)),
        ("if" | "iif", [condition, then, otherwise]) => {
            parsed(&format!("case when {condition} then {then} else {otherwise} end"))
        }
        ("count_if" | "countif", [condition]) => parsed(&format!("count(case when {condition} then 1 end)")),
        ("dayname", [instant]) => Some(call("to_char", vec![instant.clone(), literal("%A")])),
        ("monthname", [instant]) => Some(call("to_char", vec![instant.clone(), literal("%B")])),
        ("last_day", [instant]) => parsed(&format!(
            "cast(date_trunc('month', {instant}) + interval '1 month' - interval '1 day' as date)"
        )),
        ("date_diff" | "datediff", [unit, from, to]) => difference(text(unit)?, from, to),
        (part, [instant]) => {
            let (_, part) = PARTS.iter().find(|(function, _)| *function == part)?;
            Some(call("date_part", vec![literal(part), instant.clone()]))
        }
        _ => None,
    }
}

/// How many boundaries of a unit lie between two instants.
fn difference(unit: &str, from: &Expr, to: &Expr) -> Option<Expr> {
    let year = |instant: &Expr| format!("date_part('year', {instant})");
    let seconds = |instant: &Expr, size: u32| format!("floor(date_part('epoch', {instant}) / {size})");
    let between = |size: u32| format!("cast({} - {} as bigint)", seconds(to, size), seconds(from, size));
    let said = match unit.to_ascii_lowercase().trim_end_matches('s') {
        "year" => format!("({} - {})", year(to), year(from)),
        "quarter" => format!(
            "(({} - {}) * 4 + date_part('quarter', {to}) - date_part('quarter', {from}))",
            year(to),
            year(from)
        ),
        "month" => format!(
            "(({} - {}) * 12 + date_part('month', {to}) - date_part('month', {from}))",
            year(to),
            year(from)
        ),
        "day" => format!("(cast({to} as date) - cast({from} as date))"),
        "hour" => between(3600),
        "minute" => between(60),
        "second" => between(1),
        _ => return None,
    };
    parsed(&said)
}

/// `count()` is `count(*)`.
fn counts_rows(function: &mut Function) {
    function.name = ObjectName::from(vec![Ident::new("count")]);
    if let FunctionArguments::List(list) = &mut function.args {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)];
    }
}

/// `string_agg(x)` has commas between its texts.
fn separated(function: &mut Function) {
    if let FunctionArguments::List(list) = &mut function.args
        && list.args.len() == 1
    {
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(literal(","))));
    }
}

/// `arg_max(x, y)` is the `x` of the row with the greatest `y`, of rows that have both.
fn at_extreme(function: &mut Function, greatest: bool) {
    let Some([value, by]) = arguments(function).and_then(|args| <[Expr; 2]>::try_from(args).ok()) else {
        return;
    };
    let FunctionArguments::List(list) = &mut function.args else { return };
    if function.over.is_some() || list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
        return;
    }
    list.args.truncate(1);
    let options = OrderByOptions { asc: Some(!greatest), nulls_first: Some(false) };
    let order = OrderByExpr { expr: by.clone(), options, with_fill: None };
    list.clauses = vec![FunctionArgumentClause::OrderBy(vec![order])];
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

/// The arguments, if all of them are plain expressions.
fn arguments(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let plain = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    plain.collect()
}

fn literal(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_string()).into())
}

/// An expression that was written here, of ones that were parsed before; it is read back only to have it as a tree.
fn parsed(text: &str) -> Option<Expr> {
    super::first_value(&crate::dialect::parse_query(&format!("select {text}")).ok()?)
}
