//! Functions with the names and arguments that other engines have.

use super::list_reductions::of_list;
use super::{aggregate_functions, date_functions, json, map_functions, parse_expr};
use crate::functions::format_of_chrono;
use crate::syntax::ast::{arguments, call, nested, number, quote, string_literal};
use crate::syntax::names;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    GroupByExpr, Ident, ObjectName, OrderByExpr, Query, SelectItem, SetExpr, Value, WindowType,
};
use std::ops::ControlFlow;

/// Names that other engines have for a function, and its name here.
const NAMES: &[(&str, &str)] = &[
    ("approx_count_distinct", "approx_distinct"),
    ("approx_quantile", "approx_percentile_cont"),
    ("arbitrary", "any_value"),
    ("ceiling", "ceil"),
    ("first", "first_value"),
    ("gen_random_uuid", "uuid"),
    ("group_concat", "string_agg"),
    ("grouping_id", "grouping"),
    ("apply", "array_transform"),
    ("array_apply", "array_transform"),
    ("array_unique", "list_unique"),
    ("array_value", "make_array"),
    ("array_zip", "arrays_zip"),
    ("char_length", "length"),
    ("character_length", "length"),
    ("greatest_common_divisor", "gcd"),
    ("least_common_multiple", "lcm"),
    ("last", "last_value"),
    ("lcase", "lower"),
    ("len", "length"),
    ("list", "array_agg"),
    ("list_apply", "array_transform"),
    ("list_pack", "make_array"),
    ("list_value", "make_array"),
    ("list_max", "array_max"),
    ("list_min", "array_min"),
    ("listagg", "string_agg"),
    ("ord", "ascii"),
    ("pg_typeof", "typeof"),
    ("prefix", "starts_with"),
    ("regexp_matches", "regexp_like"),
    ("regexp_split_to_array", "string_split_regex"),
    ("sign", "signum"),
    ("str_split_regex", "string_split_regex"),
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
    ("isoyear", "isoyear"),
    ("millisecond", "millisecond"),
    ("microsecond", "microsecond"),
];

/// Aggregates that are a function of the list of their values.
const LIST_REDUCTIONS: &[(&str, &str)] = &[
    ("entropy", "list_entropy"),
    ("geomean", "list_geomean"),
    ("geometric_mean", "list_geomean"),
    ("histogram", "list_histogram"),
    ("kurtosis", "list_kurtosis"),
    ("kurtosis_pop", "list_kurtosis_pop"),
    ("mad", "list_mad"),
    ("mode", "list_mode"),
    ("product", "list_product"),
    ("percentile_cont", "list_quantile_cont"),
    ("percentile_disc", "list_quantile_disc"),
    ("quantile", "list_quantile_disc"),
    ("quantile_cont", "list_quantile_cont"),
    ("quantile_disc", "list_quantile_disc"),
    ("sem", "list_sem"),
    ("skewness", "list_skewness"),
];

/// Functions of a list that refuse a null without a type.
const OF_LISTS: &[&str] = &[
    "array_length",
    "array_ndims",
    "array_resize",
    "array_to_string",
    "cardinality",
    "list_resize",
    "list_to_string",
    "list_length",
];

/// Replaces a call by one of functions that the planner has. It breaks off with why it cannot.
pub(super) fn desugar(expr: &mut Expr) -> ControlFlow<String> {
    let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
    null_treatment(call);
    drop_repeated_order(call);
    null_list(call);
    let [name] = call.name.0.as_slice() else { return ControlFlow::Continue(()) };
    let name = name.to_string().to_ascii_lowercase();
    if let Some((_, known)) = NAMES.iter().chain(json::NAMES).find(|(other, _)| *other == name) {
        call.name = ObjectName::from(vec![Ident::new(*known)]);
    }
    if name == "count_star" || name == "count" && arguments(call).is_some_and(|args| args.is_empty()) {
        aggregate_functions::count_star(call);
    }
    if matches!(name.as_str(), "string_agg" | "group_concat" | "listagg") {
        aggregate_functions::default_separator(call);
    }
    if matches!(name.as_str(), "arg_min" | "argmin" | "min_by" | "arg_max" | "argmax" | "max_by") {
        aggregate_functions::arg_extreme(call, name.contains("max"));
    }
    if matches!(name.as_str(), "mode" | "percentile_cont" | "percentile_disc") {
        aggregate_functions::within_group(&name, call);
    }
    let list = aggregate_functions::quantile_list(&name, call);
    if let Some(list) = list.or_else(|| aggregate_functions::top_n(&name, call)) {
        *expr = list;
        return ControlFlow::Continue(());
    }
    if let ("array", FunctionArguments::Subquery(query)) = (name.as_str(), &call.args) {
        if let Some(array) = array_of(query) {
            *expr = array;
        }
        return ControlFlow::Continue(());
    }
    if let Some((_, reduction)) = LIST_REDUCTIONS.iter().find(|(other, _)| *other == name) {
        if let Some(value) = of_list(reduction, call) {
            // The entropy of no values is 0, a float because of its exponent.
            *expr = match name == "entropy" {
                true => self::call("coalesce", vec![value, number("0e0")]),
                false => value,
            };
        }
        return ControlFlow::Continue(());
    }
    if name == "struct_pack" {
        struct_pack(call);
        return ControlFlow::Continue(());
    }
    let renamed = call.name.to_string();
    let rewritten = json::desugar(&renamed, call).or_else(|| map_functions::desugar(&name, call));
    // Clauses of an aggregate would be lost; a scalar function with them is refused later.
    let scalar =
        || has_no_clauses(call).then(|| as_expression(&name, call).or_else(|| as_other_calls(&name, call)));
    if let Some(rewritten) = rewritten.or_else(|| scalar().flatten()) {
        *expr = rewritten;
    }
    ControlFlow::Continue(())
}

/// `last(f(x) ignore nulls)`: the parser takes `ignore nulls` for a part of `f(x)`.
fn null_treatment(call: &mut Function) {
    if let FunctionArguments::List(list) = &mut call.args
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(last)))) = list.args.last_mut()
        && last.over.is_none()
        && call.null_treatment.is_none()
    {
        call.null_treatment = last.null_treatment.take();
    }
}

/// `array_length(null)`: the null of a list.
fn null_list(call: &mut Function) {
    let name = call.name.to_string().to_ascii_lowercase();
    if OF_LISTS.contains(&name.as_str())
        && let FunctionArguments::List(list) = &mut call.args
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first_mut()
        && matches!(first, Expr::Value(value) if value.value == Value::Null)
        && let Some(null) = parse_expr("cast(null as bigint[])")
    {
        *first = null;
    }
}

/// Whether a call has nothing but arguments.
fn has_no_clauses(call: &Function) -> bool {
    let clauses = matches!(&call.args, FunctionArguments::List(list)
        if list.duplicate_treatment.is_some() || !list.clauses.is_empty());
    let around = call.filter.is_some() || call.over.is_some() || !call.within_group.is_empty();
    !clauses && !around && call.null_treatment.is_none()
}

/// `first(i order by a, b, a desc)`: an expression that rows are ordered by already is dropped.
fn drop_repeated_order(call: &mut Function) {
    let once = |order: &mut Vec<OrderByExpr>| {
        let mut seen: Vec<Expr> = Vec::new();
        order.retain(|by| {
            let new = !seen.contains(&by.expr);
            seen.push(by.expr.clone());
            new
        });
    };
    if let FunctionArguments::List(list) = &mut call.args {
        for clause in &mut list.clauses {
            if let FunctionArgumentClause::OrderBy(order) = clause {
                once(order);
            }
        }
    }
    if let Some(WindowType::WindowSpec(window)) = &mut call.over {
        once(&mut window.order_by);
    }
}

/// A function as an operator or another expression.
fn as_expression(name: &str, function: &Function) -> Option<Expr> {
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
            parse_expr(&format!("case when {condition} then {then} else {otherwise} end"))
        }
        ("dayname", [instant]) => Some(call("to_char", vec![instant.clone(), quote("%A")])),
        ("monthname", [instant]) => Some(call("to_char", vec![instant.clone(), quote("%B")])),
        ("last_day", [instant]) => parse_expr(&format!(
            "cast(date_trunc('month', {instant}) + interval '1 month' - interval '1 day' as date)"
        )),
        ("date_diff" | "datediff", [unit, from, to]) => {
            date_functions::difference(string_literal(unit)?, from, to)
        }
        (part, [instant]) => {
            let (_, part) = PARTS.iter().find(|(function, _)| *function == part)?;
            Some(call("date_part", vec![quote(part), instant.clone()]))
        }
        _ => None,
    }
}

/// `array(select x from t order by y)` as `(select array_agg(x order by y) from t)`; an empty list of no
/// rows.
fn array_of(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    if query.limit_clause.is_some() || select.distinct.is_some() {
        return None;
    }
    let order = query.order_by.as_ref().map_or(String::new(), |order| format!(" {order}"));
    let aggregate = format!("array_agg({value}{order})");
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    if grouped || query.with.is_some() {
        return None;
    }
    let mut aggregated = select.as_ref().clone();
    aggregated.projection = vec![SelectItem::UnnamedExpr(parse_expr(&aggregate)?)];
    parse_expr(&format!("coalesce(({aggregated}), [])"))
}

/// A function as calls of others.
fn as_other_calls(name: &str, function: &Function) -> Option<Expr> {
    let args = arguments(function)?;
    let expr = match (name, args.as_slice()) {
        ("regexp_extract", [text, pattern]) => regexp_extract(text, pattern, "0"),
        ("regexp_extract", [text, pattern, group]) => regexp_extract(text, pattern, &group.to_string()),
        // `list_size` refuses a negative length with a message of its own; DataFusion's reports an internal
        // error.
        ("array_resize" | "list_resize", [list, length, value @ ..]) => {
            let length = call("list_size", vec![length.clone()]);
            let args = [list.clone(), length].into_iter().chain(value.iter().cloned());
            return Some(call("array_resize", args.collect()));
        }
        ("list_first" | "array_first", [list]) => format!("array_element({list}, 1)"),
        ("list_last" | "array_last", [list]) => format!("array_element({list}, -1)"),
        ("split" | "str_split" | "string_split", [text, Expr::Value(separator)])
            if separator.value != Value::Null =>
        {
            format!("string_to_array({text}, {separator})")
        }
        // Without a separator the text is one part. `string_to_array` takes its letters apart, as in
        // PostgreSQL.
        ("split" | "str_split" | "string_split", [text, separator]) => format!(
            "case when {separator} is not null then string_to_array({text}, {separator}) \
             when {text} is not null then [{text}] end"
        ),
        ("regexp_full_match", [text, pattern]) => {
            format!("regexp_like({text}, '^(?:' || {pattern} || ')$')")
        }
        ("epoch_ms", [instant @ Expr::Value(_)]) => format!("to_timestamp_millis({instant})"),
        ("make_timestamp", [year, month, day, hour, minute, second]) => format!(
            "(cast(make_date({year}, {month}, {day}) as timestamp(6)) + to_hours({hour}) + to_minutes({minute}) + to_seconds({second}))"
        ),
        ("make_timestamp", [micros]) => format!("to_timestamp_micros({micros})"),
        ("strftime", [instant, format]) => {
            let format = match string_literal(format) {
                Some(format) => quote(&format_of_chrono(format, "")),
                None => format.clone(),
            };
            return Some(call("to_char", vec![instant.clone(), format]));
        }
        ("time_bucket", [width, instant]) => {
            let days = ["month", "quarter", "year", "decade", "centur"];
            let text = width.to_string().to_ascii_lowercase();
            let origin =
                if days.iter().any(|unit| text.contains(unit)) { "2000-01-01" } else { "2000-01-03" };
            format!("date_bin({width}, {instant}, timestamp '{origin}')")
        }
        ("time_bucket", [width, instant, origin]) => format!("date_bin({width}, {instant}, {origin})"),
        ("isinf", [number]) => {
            format!("coalesce(abs({number}) = cast('inf' as double), {number} is null and null)")
        }
        ("isfinite", [number]) => format!("(not isnan({number}) and abs({number}) <> cast('inf' as double))"),
        ("hex", [Expr::Value(value)]) if matches!(value.value, Value::Number(..)) => {
            format!("upper(to_hex({value}))")
        }
        ("hex" | "to_hex", [text]) if string_literal(text).is_some() => {
            format!("upper(encode({text}, 'hex'))")
        }
        ("encode", [text]) => format!("arrow_cast({text}, 'Binary')"),
        ("decode", [bytes]) => format!("arrow_cast({bytes}, 'Utf8')"),
        ("unhex" | "from_hex", [text]) => format!("decode({text}, 'hex')"),
        ("age", [instant]) => format!("age(cast(current_date() as timestamp), {instant})"),
        ("datesub", [unit, from, to]) => format!("date_sub({unit}, {from}, {to})"),
        ("yearweek", [instant]) => {
            format!("(date_part('isoyear', {instant}) * 100 + date_part('week', {instant}))")
        }
        ("base64" | "to_base64", [bytes]) => format!("encode({bytes}, 'base64pad')"),
        ("from_base64", [text]) => format!("decode({text}, 'base64pad')"),
        ("list_aggregate" | "list_aggr" | "array_aggregate" | "array_aggr", [list, aggregate]) => {
            return aggregated_list(string_literal(aggregate)?, list);
        }
        ("current_schema", []) => "'main'".to_string(),
        ("current_database" | "current_catalog", []) => "'memory'".to_string(),
        ("date_part" | "datepart", [part, instant]) => {
            return date_functions::part_of_year(&string_literal(part)?.to_ascii_lowercase(), instant);
        }
        (part, [instant]) => return date_functions::part_of_year(part, instant),
        _ => return None,
    };
    parse_expr(&expr)
}

/// The match of a group of a regular expression; group 0 is the whole match. No match is an empty string.
fn regexp_extract(text: &Expr, pattern: &Expr, group: &str) -> String {
    format!(
        "case when {text} is null or {pattern} is null then null \
         else coalesce(array_element(regexp_match({text}, concat('(', {pattern}, ')')), ({group}) + 1), '') end"
    )
}

/// An aggregate of the values of a list.
fn aggregated_list(aggregate: &str, list: &Expr) -> Option<Expr> {
    let function = match aggregate.to_ascii_lowercase().as_str() {
        "min" => "array_min".to_string(),
        "max" => "array_max".to_string(),
        "mean" => "list_avg".to_string(),
        "first" => return parse_expr(&format!("array_element({list}, 1)")),
        "last" => return parse_expr(&format!("array_element({list}, -1)")),
        "string_agg" | "group_concat" => return parse_expr(&format!("array_to_string({list}, ',')")),
        other => format!("list_{other}"),
    };
    Some(call(&function, vec![list.clone()]))
}

/// `struct_pack(a := 1)` as `named_struct('a', 1)`.
fn struct_pack(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    let mut args = Vec::new();
    for arg in list.args.drain(..) {
        match arg {
            FunctionArg::Named { name, arg, .. } => {
                args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(quote(&names::ident(&name)))));
                args.push(FunctionArg::Unnamed(arg));
            }
            other => args.push(other),
        }
    }
    list.args = args;
    function.name = ObjectName::from(vec![Ident::new("named_struct")]);
}
