//! Lambdas as arguments: `x -> x + 1`, `(x, y) -> x + y`. The parser takes the arrow for an operator, which
//! binds stronger than `and`; so the body is the whole argument, with the right operand of the arrow in place
//! of the arrow.
//!
//! Only arguments of higher-order functions are lambdas: everywhere else an arrow is JSON's.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction,
    LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens,
};

/// Higher-order functions, without the prefix `array_` or `list_`.
const HIGHER_ORDER: &[&str] = &["any_match", "apply", "filter", "reduce", "transform"];

/// Makes lambdas of the arguments of a call that have an arrow.
pub(super) fn desugar(call: &mut Function) {
    // A method has its receiver before its name.
    let name = call.name.0.last().map(|name| name.to_string().to_ascii_lowercase()).unwrap_or_default();
    let name = name.strip_prefix("array_").or(name.strip_prefix("list_")).unwrap_or(&name);
    if !HIGHER_ORDER.contains(&name) {
        return;
    }
    let FunctionArguments::List(list) = &mut call.args else { return };
    for arg in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg
            && let Some(params) = params(expr)
        {
            let body = Box::new(std::mem::replace(expr, Expr::Identifier(Ident::new(""))));
            *expr = Expr::Lambda(LambdaFunction { params, body, syntax: LambdaSyntax::Arrow });
        }
    }
}

/// The parameters of a lambda, if there is an arrow at the left end; its right operand takes its place.
fn params(expr: &mut Expr) -> Option<OneOrManyWithParens<LambdaFunctionParameter>> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Arrow, right } => {
            let Some(params) = names(left) else { return self::params(left) };
            *expr = std::mem::replace(right, Expr::Identifier(Ident::new("")));
            Some(params)
        }
        Expr::BinaryOp { left: first, .. }
        | Expr::IsNull(first)
        | Expr::IsNotNull(first)
        | Expr::IsDistinctFrom(first, _)
        | Expr::IsNotDistinctFrom(first, _)
        | Expr::Between { expr: first, .. }
        | Expr::InList { expr: first, .. }
        | Expr::Like { expr: first, .. } => params(first),
        _ => None,
    }
}

/// The parameters, if an expression is one name or several.
fn names(expr: &Expr) -> Option<OneOrManyWithParens<LambdaFunctionParameter>> {
    let one = |expr: &Expr| match expr {
        Expr::Identifier(name) => Some(LambdaFunctionParameter { name: name.clone(), data_type: None }),
        _ => None,
    };
    match expr {
        Expr::Tuple(names) => Some(OneOrManyWithParens::Many(names.iter().map(one).collect::<Option<_>>()?)),
        Expr::Nested(name) => Some(OneOrManyWithParens::One(one(name)?)),
        name => Some(OneOrManyWithParens::One(one(name)?)),
    }
}
