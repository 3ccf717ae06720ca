//! Small parts of the parser's tree, built and looked at.

use super::parser;
use super::walk::walk;
use datafusion::common::{Result, internal_err};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    JoinConstraint, JoinOperator, ObjectName, Query, Select, SetExpr, TableFactor, Value, ValueWithSpan,
    Visitor,
};
use std::ops::ControlFlow;

/// Visits the selects of a body, without those of queries inside of them.
pub(crate) fn selects(body: &mut SetExpr, each: &mut impl FnMut(&mut Select)) {
    match body {
        SetExpr::Select(select) => each(select),
        SetExpr::SetOperation { left, right, .. } => {
            selects(left, each);
            selects(right, each);
        }
        _ => {}
    }
}

/// The constraint of an inner or outer join.
pub(crate) fn join_constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on) => Some(on),
        _ => None,
    }
}

/// The expression in parentheses, unless it is an operand without them.
pub(crate) fn nested(expr: Expr) -> Expr {
    match expr {
        operand @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) | Expr::Nested(_)) => {
            operand
        }
        other => Expr::Nested(Box::new(other)),
    }
}

/// A call of a function.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    let list = FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// The arguments of a call, if all are expressions without names.
pub(crate) fn arguments(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let unnamed = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    unnamed.collect()
}

/// A number as it is written.
pub(crate) fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.to_string(), false).into())
}

/// A string literal.
pub(crate) fn quote(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_string()).into())
}

/// The text of a string literal.
pub(crate) fn string_literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

/// Whether an expression contains a subquery.
pub(crate) fn contains_subquery(expr: &Expr) -> bool {
    /// Breaks off at the first query.
    struct Queries;
    impl Visitor for Queries {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    walk(expr, &mut Queries).is_break()
}

/// A query as a derived table: in parentheses, as a relation.
///
/// # Errors
/// `Internal` if the parser reads the template otherwise.
pub(crate) fn derived_table(query: Query) -> Result<TableFactor> {
    let mut outer = parser::query("select * from (select 1) as __rows")?;
    let SetExpr::Select(select) = outer.body.as_mut() else { return internal_err!("no select") };
    let Some(mut from) = select.from.pop() else { return internal_err!("no relation") };
    if let TableFactor::Derived { subquery, .. } = &mut from.relation {
        **subquery = query;
    }
    Ok(from.relation)
}
