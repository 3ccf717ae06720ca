//! Functions by the names, and with the arguments, that others have for them.

use super::list_reductions::of_list;
use super::{json, map_functions, parse_expr};
use crate::functions::{YEARS, format_of_chrono};
use crate::syntax::ast::{arguments, call, nested, number, string_literal};
use crate::syntax::names;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, GroupByExpr, Ident, ObjectName, OrderByExpr, OrderByOptions, Query, SelectItem,
    SetExpr, Value, WindowType,
};
use std::ops::ControlFlow;

/// Names that others have for a function, and its name here.
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
    ("last", "last_value"),
    ("lcase", "lower"),
    ("len", "length"),
    ("list", "array_agg"),
    ("list_apply", "array_transform"),
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
    ("split", "string_to_array"),
    ("str_split", "string_to_array"),
    ("str_split_regex", "string_split_regex"),
    ("string_split", "string_to_array"),
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
const OF_LISTS: &[(&str, &str)] = &[
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

/// Says it with functions that are there.
pub(super) fn desugar(expr: &mut Expr) -> ControlFlow<String> {
    let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
    nulls(call);
    ordered_once(call);
    let [name] = call.name.0.as_slice() else { return ControlFlow::Continue(()) };
    let name = name.to_string().to_ascii_lowercase();
    if let Some((_, known)) = NAMES.iter().chain(json::NAMES).find(|(other, _)| *other == name) {
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
    if matches!(name.as_str(), "mode" | "percentile_cont" | "percentile_disc") {
        within_group(call);
    }
    if let Some(said) = several_shares(&name, call).or_else(|| several_extremes(&name, call)) {
        *expr = said;
        return ControlFlow::Continue(());
    }
    if let ("array", FunctionArguments::Subquery(query)) = (name.as_str(), &call.args) {
        if let Some(said) = array_of(query) {
            *expr = said;
        }
        return ControlFlow::Continue(());
    }
    if let Some((_, reduction)) = OF_LISTS.iter().find(|(other, _)| *other == name) {
        if let Some(said) = of_list(reduction, call) {
            // There is no surprise in no values; the exponent makes a float of the number.
            *expr = if name == "entropy" { self::call("coalesce", vec![said, number("0e0")]) } else { said };
        }
        return ControlFlow::Continue(());
    }
    if name == "struct_pack" {
        packed(call);
        return ControlFlow::Continue(());
    }
    let known = call.name.to_string();
    let said = json::desugar(&known, call).or_else(|| map_functions::desugar(&name, call));
    // What stands around a call belongs to an aggregate, which these are not: it would be lost, and is refused later.
    let of_one_row =
        || is_alone(call).then(|| in_operators(&name, call).or_else(|| in_other_calls(&name, call)));
    if let Some(said) = said.or_else(|| of_one_row().flatten()) {
        *expr = said;
    }
    ControlFlow::Continue(())
}

/// `last(f(x) ignore nulls)`: the parser takes `ignore nulls` for a part of `f(x)`.
fn nulls(call: &mut Function) {
    if let FunctionArguments::List(list) = &mut call.args
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(last)))) = list.args.last_mut()
        && last.over.is_none()
        && call.null_treatment.is_none()
    {
        call.null_treatment = last.null_treatment.take();
    }
}

/// Whether nothing stands around a call but its arguments.
fn is_alone(call: &Function) -> bool {
    let clauses = matches!(&call.args, FunctionArguments::List(list)
        if list.duplicate_treatment.is_some() || !list.clauses.is_empty());
    let around = call.filter.is_some() || call.over.is_some() || !call.within_group.is_empty();
    !clauses && !around && call.null_treatment.is_none()
}

/// `first(i order by a, b, a desc)`: what rows are ordered by already says nothing more.
fn ordered_once(call: &mut Function) {
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
            parse_expr(&format!("case when {condition} then {then} else {otherwise} end"))
        }
        ("dayname", [instant]) => Some(call("to_char", vec![instant.clone(), literal("%A")])),
        ("monthname", [instant]) => Some(call("to_char", vec![instant.clone(), literal("%B")])),
        ("last_day", [instant]) => parse_expr(&format!(
            "cast(date_trunc('month', {instant}) + interval '1 month' - interval '1 day' as date)"
        )),
        ("date_diff" | "datediff", [unit, from, to]) => difference(string_literal(unit)?, from, to),
        (part, [instant]) => {
            let (_, part) = PARTS.iter().find(|(function, _)| *function == part)?;
            Some(call("date_part", vec![literal(part), instant.clone()]))
        }
        _ => None,
    }
}

/// `array(select x from t order by y)` as `(select array_agg(x order by y) from t)`; of no rows it is empty.
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

/// Functions that are calls of others.
fn in_other_calls(name: &str, function: &Function) -> Option<Expr> {
    let args = arguments(function)?;
    let said = match (name, args.as_slice()) {
        ("regexp_extract", [text, pattern]) => extracted(text, pattern, "0"),
        ("regexp_extract", [text, pattern, group]) => extracted(text, pattern, &group.to_string()),
        // The word says by itself that the length is wrong, and DataFusion's says that it has a fault.
        ("array_resize" | "list_resize", [list, length, value @ ..]) => {
            let length = call("list_size", vec![length.clone()]);
            let args = [list.clone(), length].into_iter().chain(value.iter().cloned());
            return Some(call("array_resize", args.collect()));
        }
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
                Some(format) => literal(&format_of_chrono(format, "")),
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
        ("unhex" | "from_hex", [text]) => format!("decode({text}, 'hex')"),
        ("age", [instant]) => format!("age(cast(current_date() as timestamp), {instant})"),
        ("datesub", [unit, from, to]) => format!("date_sub({unit}, {from}, {to})"),
        ("yearweek", [instant]) => {
            format!("(date_part('isoyear', {instant}) * 100 + date_part('week', {instant}))")
        }
        ("list_aggregate" | "list_aggr" | "array_aggregate", [list, aggregate]) => {
            return aggregated_list(string_literal(aggregate)?, list);
        }
        ("current_schema", []) => "'main'".to_string(),
        ("current_database" | "current_catalog", []) => "'memory'".to_string(),
        ("date_part" | "datepart", [part, instant]) => {
            return part_of_year(&string_literal(part)?.to_ascii_lowercase(), instant);
        }
        (part, [instant]) => return part_of_year(part, instant),
        _ => return None,
    };
    parse_expr(&said)
}

/// What a group of a regular expression matched; group 0 is all of it. Nothing is an empty text.
fn extracted(text: &Expr, pattern: &Expr, group: &str) -> String {
    format!(
        "case when {text} is null or {pattern} is null then null \
         else coalesce(array_element(regexp_match({text}, concat('(', {pattern}, ')')), ({group}) + 1), '') end"
    )
}

/// Parts of an instant that are counted from its year.
pub(super) fn part_of_year(part: &str, instant: &Expr) -> Option<Expr> {
    let year = format!("date_part('year', {instant})");
    let said = match part {
        "century" | "centuries" | "decade" | "decades" | "millennium" | "millenium" | "millennia" => {
            return Some(call(YEARS, vec![literal(part), instant.clone()]));
        }
        "era" => format!("(case when {year} > 0 then 1 when {year} <= 0 then 0 end)"),
        "yearweek" => {
            return parse_expr(&format!(
                "(date_part('isoyear', {instant}) * 100 + date_part('week', {instant}))"
            ));
        }
        _ => return None,
    };
    parse_expr(&said)
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
fn packed(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    let mut args = Vec::new();
    for arg in list.args.drain(..) {
        match arg {
            FunctionArg::Named { name, arg, .. } => {
                args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(literal(&names::ident(&name)))));
                args.push(FunctionArg::Unnamed(arg));
            }
            other => args.push(other),
        }
    }
    list.args = args;
    function.name = ObjectName::from(vec![Ident::new("named_struct")]);
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
        // The distance, as in DuckDB: Mondays between do not count.
        "week" => format!("((cast({to} as date) - cast({from} as date)) / 7)"),
        "decade" => format!("({} / 10 - {} / 10)", year(to), year(from)),
        "hour" => between(3600),
        "minute" => between(60),
        "second" => between(1),
        _ => return None,
    };
    parse_expr(&said)
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

/// `percentile_cont(0.3) within group (order by x)` is `percentile_cont(x, 0.3)`; of the largest first, it is what is left of 1.
fn within_group(function: &mut Function) {
    let ([OrderByExpr { expr, options, .. }], Some(shares)) =
        (function.within_group.as_slice(), arguments(function))
    else {
        return;
    };
    let mut args = vec![expr.clone()];
    for share in shares {
        args.push(match options.asc {
            Some(false) => parse_expr(&format!("(1 - {share})")).unwrap_or(share),
            _ => share,
        });
    }
    let FunctionArguments::List(list) = &mut function.args else { return };
    list.args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    function.within_group.clear();
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

/// `arg_max(x, y, 3)`, `max(x, 3)`: as many values as that, from those with the greatest `y`, or the greatest themselves.
fn several_extremes(name: &str, function: &mut Function) -> Option<Expr> {
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
    at_extreme(function, greatest);
    function.name = ObjectName::from(vec![Ident::new("array_agg")]);
    Some(call("array_slice", vec![Expr::Function(function.clone()), number("1"), count.clone()]))
}

/// `quantile_cont(x, [0.25, 0.5])`: a list of one quantile for each share, or null of no values.
fn several_shares(name: &str, function: &mut Function) -> Option<Expr> {
    if !matches!(name, "quantile" | "quantile_disc" | "quantile_cont" | "percentile_cont" | "percentile_disc")
    {
        return None;
    }
    let args = arguments(function)?;
    let [value, Expr::Array(shares)] = args.as_slice() else { return None };
    let mut aggregate = |name: &str, args: &[&Expr]| {
        let FunctionArguments::List(list) = &mut function.args else { return String::new() };
        let plain = |arg: &&Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr((*arg).clone()));
        list.args = args.iter().map(plain).collect();
        function.name = ObjectName::from(vec![Ident::new(name)]);
        function.to_string()
    };
    let counted = aggregate("count", &[value]);
    let quantiles: Vec<String> = shares.elem.iter().map(|share| aggregate(name, &[value, share])).collect();
    parse_expr(&format!("case when {counted} > 0 then [{}] end", quantiles.join(", ")))
}

fn literal(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_string()).into())
}
