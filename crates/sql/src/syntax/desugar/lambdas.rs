//! Functions without a name as arguments: `x -> x + 1`, `(x, y) -> x + y`. The parser takes the arrow for an operator, which
//! binds stronger than `and`; so the body is all of the argument, with what stands right of the arrow in its place.
//!
//! Only arguments of functions that take functions are looked at: everywhere else, an arrow leads into JSON.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction,
    LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens,
};

/// What takes functions, without the `array_` or `list_` before its name.
const TAKE: &[&str] = &["any_match", "apply", "filter", "reduce", "transform"];

/// Makes functions of the arguments of a call that have an arrow.
pub(super) fn desugar(call: &mut Function) {
    // A method stands behind what it is of.
    let name = call.name.0.last().map(|name| name.to_string().to_ascii_lowercase()).unwrap_or_default();
    let name = name.strip_prefix("array_").or(name.strip_prefix("list_")).unwrap_or(&name);
    if !TAKE.contains(&name) {
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

/// The names left of the arrow, if there is one at the left end; what stands right of it takes its place.
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
