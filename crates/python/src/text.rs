//! Expressions as Python text: for `repr`, and as the names of columns without a name.
//!
//! The text is for people: a column is its bare name, `price * 2`, without the stream before it. The programs
//! of `program` have a writer of their own, whose text can be run.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Between, Expr, Operator, expr::InList};

use crate::types;

/// The text of an expression. It has parentheses only where they are needed.
pub fn text(expr: &Expr) -> String {
    write(expr, 0)
}

/// The precedence of an operator in Python.
fn precedence(op: Operator) -> u8 {
    match op {
        Operator::Or | Operator::BitwiseOr => 2,
        Operator::BitwiseXor => 3,
        Operator::And | Operator::BitwiseAnd => 4,
        Operator::BitwiseShiftLeft | Operator::BitwiseShiftRight => 5,
        Operator::Plus | Operator::Minus | Operator::StringConcat => 6,
        Operator::Multiply | Operator::Divide | Operator::Modulo => 7,
        _ => 1,
    }
}

/// The method of an operator that is none in Python.
fn method(op: Operator) -> Option<&'static str> {
    match op {
        Operator::IsNotDistinctFrom => Some("eq_missing"),
        Operator::IsDistinctFrom => Some("ne_missing"),
        _ => None,
    }
}

/// The symbol of an operator in Python.
fn symbol(op: Operator) -> String {
    match op {
        Operator::Eq => "==".into(),
        Operator::NotEq => "!=".into(),
        Operator::And => "&".into(),
        Operator::Or => "|".into(),
        Operator::StringConcat => "+".into(),
        other => other.to_string(),
    }
}

/// The text of an expression inside one of the precedence `outer`.
fn write(expr: &Expr, outer: u8) -> String {
    match expr {
        Expr::Alias(alias) => write(&alias.expr, outer),
        Expr::Column(column) => column.name.clone(),
        Expr::Literal(value, _) => literal(value),
        Expr::BinaryExpr(binary) if let Some(name) = method(binary.op) => {
            format!("{}.{name}({})", write(&binary.left, 9), write(&binary.right, 0))
        }
        Expr::BinaryExpr(binary) => {
            infix(&binary.left, &symbol(binary.op), &binary.right, precedence(binary.op), outer)
        }
        Expr::Not(inner) => format!("~{}", write(inner, 8)),
        Expr::Negative(inner) => format!("-{}", write(inner, 8)),
        Expr::IsNull(inner) => format!("{}.is_null()", write(inner, 9)),
        Expr::IsNotNull(inner) => format!("{}.is_not_null()", write(inner, 9)),
        Expr::Cast(cast) => {
            format!("{}.cast(\"{}\")", write(&cast.expr, 9), types::name(cast.field.data_type()))
        }
        Expr::TryCast(cast) => {
            format!("{}.try_cast(\"{}\")", write(&cast.expr, 9), types::name(cast.field.data_type()))
        }
        Expr::Between(between) => write_between(between),
        Expr::InList(list) => write_in_list(list),
        Expr::Like(like) => {
            let negation = if like.negated { "~" } else { "" };
            let name = if like.case_insensitive { "ilike" } else { "like" };
            format!("{negation}{}.{name}({})", write(&like.expr, 9), write(&like.pattern, 0))
        }
        Expr::Case(case) => {
            let mut text = String::new();
            for (when, then) in &case.when_then_expr {
                let lead = if text.is_empty() { "when" } else { ".when" };
                text += &format!("{lead}({}).then({})", write(when, 0), write(then, 0));
            }
            match &case.else_expr {
                Some(otherwise) => format!("{text}.otherwise({})", write(otherwise, 0)),
                None => text,
            }
        }
        Expr::ScalarFunction(call) => match (call.name(), call.args.as_slice()) {
            ("floor_mod", [left, right]) => infix(left, "%", right, 7, outer),
            ("floor_div", [left, right]) => infix(left, "//", right, 7, outer),
            ("get_field", [inner, Expr::Literal(ScalarValue::Utf8(Some(field)), _)]) => {
                format!("{}[\"{field}\"]", write(inner, 9))
            }
            (name, args) => {
                let args: Vec<String> = args.iter().map(|a| write(a, 0)).collect();
                format!("{name}({})", args.join(", "))
            }
        },
        other => other.to_string(),
    }
}

/// An operator between its operands.
fn infix(left: &Expr, symbol: &str, right: &Expr, precedence: u8, outer: u8) -> String {
    let text = format!("{} {symbol} {}", write(left, precedence), write(right, precedence + 1));
    if precedence < outer { format!("({text})") } else { text }
}

/// A call of the method `between`.
fn write_between(between: &Between) -> String {
    let negation = if between.negated { "~" } else { "" };
    let (low, high) = (write(&between.low, 0), write(&between.high, 0));
    format!("{negation}{}.between({low}, {high})", write(&between.expr, 9))
}

/// A call of the method `isin`.
fn write_in_list(list: &InList) -> String {
    let negation = if list.negated { "~" } else { "" };
    let items: Vec<String> = list.list.iter().map(text).collect();
    format!("{negation}{}.isin([{}])", write(&list.expr, 9), items.join(", "))
}

/// A literal of Python.
fn literal(value: &ScalarValue) -> String {
    match value {
        value if value.is_null() => "None".into(),
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => {
            format!("{text:?}")
        }
        ScalarValue::Boolean(Some(true)) => "True".into(),
        ScalarValue::Boolean(Some(false)) => "False".into(),
        ScalarValue::Float64(Some(value)) => format!("{value:?}"),
        other => other.to_string(),
    }
}
