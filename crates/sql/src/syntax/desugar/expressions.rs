//! Expressions that the planner has in another form: open slices, methods, computed intervals, parts of
//! dates, and timestamps without seconds.

use super::{date_functions, function_aliases, parse_expr};
use crate::functions::{with_units, zones};
use crate::syntax::ast::{call, nested, string_literal};
use crate::syntax::names;
use crate::syntax::tokens::EMPTY_LIST;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, DataType, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, Interval, ObjectName, Subscript, UnaryOperator, Value, ValueWithSpan,
};

/// Rewrites an expression in the planner's form.
pub(super) fn desugar(expr: &mut Expr) {
    let rewritten = match expr {
        Expr::InList { list, negated, .. } => match list.as_slice() {
            [Expr::Identifier(name)] if name.value == EMPTY_LIST => {
                Some(Expr::Value(Value::Boolean(*negated).into()))
            }
            _ => None,
        },
        Expr::CompoundFieldAccess { root, access_chain } => {
            access_chain.iter_mut().for_each(close_slice);
            method_of(root, access_chain)
        }
        Expr::Function(call) => {
            method(call);
            without_parentheses(call)
        }
        Expr::Interval(interval) => computed_interval(interval),
        Expr::Extract { field, expr, .. } => date_part(field, expr),
        Expr::AtTimeZone { timestamp, time_zone } => {
            Some(call(zones::NAME, vec![time_zone.as_ref().clone(), timestamp.as_ref().clone()]))
        }
        Expr::Cast { expr, data_type, .. } => {
            normalize_literal(expr, data_type);
            None
        }
        Expr::TypedString(typed) if matches!(typed.data_type, DataType::Timestamp(..)) => {
            if let Value::SingleQuotedString(value) = &mut typed.value.value {
                *value = with_seconds(value);
            }
            None
        }
        _ => None,
    };
    if let Some(rewritten) = rewritten {
        *expr = rewritten;
    }
}

/// Adds the bounds that a slice leaves out.
fn close_slice(access: &mut AccessExpr) {
    let number = |digits: &str| Expr::Value(Value::Number(digits.to_string(), false).into());
    match access {
        AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) => {
            lower_bound.get_or_insert_with(|| number("1"));
            upper_bound.get_or_insert_with(|| Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr: Box::new(number("1")),
            });
        }
        AccessExpr::Dot(_) | AccessExpr::Subscript(_) => {}
    }
}

/// `(x).f()` as `f(x)`, and `(x).a` as the field.
fn method_of(root: &Expr, chain: &[AccessExpr]) -> Option<Expr> {
    // An expression that begins with a name may be a column of a table.
    if matches!(root, Expr::Identifier(_)) || !chain.iter().any(|a| matches!(a, AccessExpr::Dot(_))) {
        return None;
    }
    let mut value = root.clone();
    for access in chain {
        value = match access {
            AccessExpr::Dot(Expr::Identifier(field)) => {
                let field = Expr::Value(Value::SingleQuotedString(names::ident(field)).into());
                call("get_field", vec![value, field])
            }
            AccessExpr::Dot(Expr::Function(method)) => {
                let mut method = method.clone();
                insert_first_argument(&mut method, value);
                let mut method = Expr::Function(method);
                // Its name was desugared when it had one argument less.
                let _ = function_aliases::desugar(&mut method);
                method
            }
            access => Expr::CompoundFieldAccess { root: Box::new(value), access_chain: vec![access.clone()] },
        };
    }
    Some(value)
}

/// `x.f(y)` as `f(x, y)`.
fn method(call: &mut Function) {
    let schemas = ["main", "public", "pg_catalog", "system"];
    let names: Option<Vec<Ident>> = call.name.0.iter().map(|part| part.as_ident().cloned()).collect();
    let Some([of @ .., name]) = names.as_deref() else { return };
    let Some(first) = of.first() else { return };
    let schema = schemas.iter().any(|schema| first.value.eq_ignore_ascii_case(schema));
    let value = match of {
        [_] if schema => None,
        [column] => Some(Expr::Identifier(column.clone())),
        columns => Some(Expr::CompoundIdentifier(columns.to_vec())),
    };
    call.name = ObjectName::from(vec![name.clone()]);
    if let Some(value) = value {
        insert_first_argument(call, value);
    }
}

/// Adds a first argument.
fn insert_first_argument(call: &mut Function, value: Expr) {
    if let FunctionArguments::List(list) = &mut call.args {
        list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(value)));
    }
}

/// `interval (i) day` as `to_days(i)`, `interval (2) day` as `interval 2 day`, and `interval '1' quarter` as
/// `interval '3 months'`.
fn computed_interval(interval: &Interval) -> Option<Expr> {
    let unit = interval.leading_field.as_ref()?.to_string().to_ascii_lowercase();
    let mut value = interval.value.as_ref();
    while let Expr::Nested(inner) = value {
        value = inner;
    }
    if let Some(number) = written_number(value) {
        let written = format!("{number} {unit}");
        let known = with_units(&written);
        if known != written {
            let value = Box::new(Expr::Value(Value::SingleQuotedString(known).into()));
            return Some(Expr::Interval(Interval { value, leading_field: None, ..interval.clone() }));
        }
    }
    if matches!(value, Expr::Value(_)) {
        let is_nested = matches!(*interval.value, Expr::Nested(_));
        let bare = || Expr::Interval(Interval { value: Box::new(value.clone()), ..interval.clone() });
        return is_nested.then(bare);
    }
    let function = match unit.trim_end_matches('s') {
        "century" | "centurie" => "to_centuries".to_string(),
        "millennium" => "to_millennia".to_string(),
        unit => format!("to_{unit}s"),
    };
    Some(call(&function, vec![value.clone()]))
}

/// A number, or the text of one.
fn written_number(value: &Expr) -> Option<&str> {
    let text = match value {
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => number,
        _ => string_literal(value)?.trim(),
    };
    text.parse::<f64>().is_ok().then_some(text)
}

/// `extract` of a part that is computed of the year.
fn date_part(field: &DateTimeField, instant: &Expr) -> Option<Expr> {
    date_functions::part_of_year(&field.to_string().to_ascii_lowercase(), instant)
}

/// A timestamp with seconds, and without surrounding spaces.
fn normalize_literal(expr: &mut Expr, data_type: &DataType) {
    let Some(written) = string_literal(expr) else { return };
    let literal = match data_type {
        DataType::Timestamp(..) => with_seconds(written),
        DataType::Date => written.trim().to_string(),
        _ => return,
    };
    *expr = Expr::Value(Value::SingleQuotedString(literal).into());
}

/// `2020-05-06 10:00` as `2020-05-06 10:00:00`.
fn with_seconds(instant: &str) -> String {
    let instant = instant.trim();
    match instant.split_once([' ', 'T']) {
        Some((_, time)) if time.len() == 5 && time.matches(':').count() == 1 => format!("{instant}:00"),
        _ => instant.to_string(),
    }
}

/// Functions that are called without parentheses.
fn without_parentheses(call: &Function) -> Option<Expr> {
    if !matches!(call.args, FunctionArguments::None) {
        return None;
    }
    match call.name.to_string().to_ascii_lowercase().as_str() {
        "current_schema" => parse_expr("'main'"),
        "current_catalog" => parse_expr("'memory'"),
        "localtimestamp" => parse_expr("cast(now() as timestamp)"),
        "localtime" => parse_expr("cast(now() as time)"),
        _ => None,
    }
    .map(nested)
}
