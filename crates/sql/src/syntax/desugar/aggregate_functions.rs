//! Aggregates that are others here, with all that stands around them: `filter`, `over`, `distinct`.

use crate::syntax::ast::nested;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, Ident, ObjectName, Value,
};

/// Says them.
pub(super) fn desugar(call: &mut Function) {
    match call.name.to_string().to_ascii_lowercase().as_str() {
        "any_value" | "arbitrary" => first_of_order(call),
        "count_if" | "countif" => counted(call),
        _ => {}
    }
}

/// `any_value(x order by y)` is the first `x` in that order that is not null.
fn first_of_order(call: &mut Function) {
    let FunctionArguments::List(list) = &call.args else { return };
    let ordered = list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)));
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = list.args.as_slice() else { return };
    if !ordered {
        return;
    }
    let there = Expr::IsNotNull(Box::new(nested(value.clone())));
    call.filter = Some(Box::new(match call.filter.take() {
        Some(filter) => Expr::BinaryOp {
            left: Box::new(nested(*filter)),
            op: BinaryOperator::And,
            right: Box::new(there),
        },
        None => there,
    }));
    call.name = ObjectName::from(vec![Ident::new("first_value")]);
}

/// `count_if(c)` is `count(case when c then 1 end)`.
fn counted(call: &mut Function) {
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
