//! Numbers as conditions, and conditions as numbers: `where x`, `not 1`, `true = 1`, `sum(a > b)`.
//!
//! A number is true unless it is 0; true is 1. Types are not known in the parser's tree, so a condition that
//! may be a number becomes `x and true`, whose operands are coerced where types are known. In the same way,
//! `sum(x)` of a column that may be a condition becomes `sum(x counted true)`, with a custom operator.
//!
//! ```sql
//! select sum(a > b) from t where x;
//! -- select sum(cast(a > b as bigint)) from t where x and true
//! ```

use crate::syntax::ast::nested;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as Type, ExactNumberInfo, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, JoinConstraint, JoinOperator, Select, UnaryOperator, Value,
    ValueWithSpan,
};

/// The operator that coerces a condition on its left to a number, and keeps other values.
pub(crate) const COUNTED: &str = "counted";

/// Coerces the conditions of a select.
pub(super) fn coerce_conditions(select: &mut Select) {
    select.selection.iter_mut().chain(&mut select.having).chain(&mut select.qualify).for_each(to_condition);
    for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
        use JoinOperator as J;
        if let J::Join(on)
        | J::Inner(on)
        | J::Left(on)
        | J::LeftOuter(on)
        | J::Right(on)
        | J::RightOuter(on)
        | J::FullOuter(on)
        | J::LeftSemi(on)
        | J::LeftAnti(on) = &mut join.join_operator
            && let JoinConstraint::On(on) = on
        {
            to_condition(on);
        }
    }
}

/// Coerces conditions in an expression, and conditions that it uses as numbers.
pub(super) fn coerce(expr: &mut Expr) {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => to_condition(expr),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => to_number(expr),
        Expr::IsTrue(expr) | Expr::IsNotTrue(expr) | Expr::IsFalse(expr) | Expr::IsNotFalse(expr) => {
            to_condition(expr);
        }
        Expr::Case { operand: None, conditions, .. } => {
            conditions.iter_mut().for_each(|when| to_condition(&mut when.condition));
        }
        Expr::Function(call) => coerce_aggregate(call),
        _ => {}
    }
}

/// Coerces the filter of an aggregate, and the argument of `sum` and `avg`.
fn coerce_aggregate(call: &mut Function) {
    if let Some(filter) = &mut call.filter {
        to_condition(filter);
    }
    let name = call.name.to_string().to_ascii_lowercase();
    if let FunctionArguments::List(list) = &mut call.args
        && matches!(name.as_str(), "sum" | "avg" | "mean")
        && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = list.args.as_mut_slice()
    {
        to_number(value);
        if is_null(value) {
            *value = cast_to(value.clone(), Type::Double(ExactNumberInfo::None));
        } else if may_be_condition(value) {
            *value = counted(value.clone());
        }
    }
}

/// A value with the custom operator, which counts conditions.
fn counted(value: Expr) -> Expr {
    let right = Box::new(Expr::Value(Value::Boolean(true).into()));
    Expr::BinaryOp { left: Box::new(value), op: BinaryOperator::Custom(COUNTED.to_string()), right }
}

/// Whether an expression may be a condition, by its syntax.
fn may_be_condition(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => may_be_condition(inner),
        Expr::Cast { data_type, .. } => matches!(data_type, Type::Boolean | Type::Bool),
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_) | Expr::Case { .. } => true,
        _ => false,
    }
}

/// Whether an expression is a literal null.
fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Null, .. }))
}

/// Coerces an expression that may be a number to a condition.
fn to_condition(expr: &mut Expr) {
    if !may_be_number(expr) {
        return;
    }
    let literal_true = Expr::Value(Value::Boolean(true).into());
    let left = Box::new(nested(std::mem::replace(expr, literal_true.clone())));
    *expr = Expr::BinaryOp { left, op: BinaryOperator::And, right: Box::new(literal_true) };
}

/// Coerces a condition to a number.
fn to_number(expr: &mut Expr) {
    if is_condition(expr) {
        *expr = cast_to(expr.clone(), Type::BigInt(None));
    }
}

/// A cast.
fn cast_to(expr: Expr, data_type: Type) -> Expr {
    let expr = Box::new(nested(expr));
    Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None }
}

/// Whether an expression may be a number, by its syntax.
fn may_be_number(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => may_be_number(inner),
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        Expr::UnaryOp { op, .. } => matches!(op, UnaryOperator::Minus | UnaryOperator::Plus),
        Expr::BinaryOp { op, .. } => {
            use BinaryOperator as B;
            matches!(op, B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo)
        }
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_) | Expr::Case { .. } => true,
        Expr::Cast { data_type, .. } => !matches!(data_type, Type::Boolean | Type::Bool),
        _ => false,
    }
}

/// Whether an expression is a condition, by its syntax.
fn is_condition(expr: &Expr) -> bool {
    use BinaryOperator as B;
    match expr {
        Expr::Nested(inner) => is_condition(inner),
        Expr::Value(value) => matches!(value.value, Value::Boolean(_)),
        Expr::UnaryOp { op, .. } => matches!(op, UnaryOperator::Not),
        Expr::BinaryOp { op, .. } => {
            matches!(op, B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq | B::And | B::Or)
        }
        Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::IsTrue(_) | Expr::IsFalse(_) => true,
        Expr::InList { .. } | Expr::Between { .. } | Expr::Like { .. } | Expr::Exists { .. } => true,
        _ => false,
    }
}
