//! Expressions rewritten into forms that DataFusion's planner accepts.

use crate::functions::HAS_TOKEN;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Delete, Expr, FromTable, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Query, TableFactor, TableWithJoins,
    TimezoneInfo, Value, VisitorMut,
};
use std::ops::ControlFlow;
use whimbrel_sql::walk::{change_expressions, walk_relations};

/// What the planner reads in other words: `a @@ word` as `has_token(word, a)`, `similar to`, `fetch first n
/// rows only`.
pub(super) struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = String;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        whimbrel_sql::fetch_as_limit(query)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        whimbrel_sql::like_pattern(expr)?;
        type_interval_operand(expr);
        expand_row_comparison(expr);
        let Expr::BinaryOp { left, op: BinaryOperator::AtAt, right } = expr else {
            return ControlFlow::Continue(());
        };
        let columns = match left.as_ref() {
            Expr::Tuple(columns) => columns.clone(),
            Expr::Nested(inner) => vec![inner.as_ref().clone()],
            other => vec![other.clone()],
        };
        let args = std::iter::once(right.as_ref().clone()).chain(columns);
        let args = args.map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
        *expr = Expr::Function(Function {
            name: ObjectName::from(vec![Ident::new(HAS_TOKEN)]),
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args: FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: None,
                args,
                clauses: vec![],
            }),
            filter: None,
            null_treatment: None,
            over: None,
            within_group: vec![],
        });
        ControlFlow::Continue(())
    }
}

/// `? - interval '1 day'` as `?::timestamp - interval '1 day'`: the planner would take the parameter for an
/// interval.
fn type_interval_operand(expr: &mut Expr) {
    if let Expr::BinaryOp { left, op: BinaryOperator::Plus | BinaryOperator::Minus, right } = expr
        && matches!(right.as_ref(), Expr::Interval(_))
        && matches!(left.as_ref(), Expr::Value(value) if matches!(value.value, Value::Placeholder(_)))
    {
        let moved = left.clone();
        let data_type = DataType::Timestamp(Some(6), TimezoneInfo::None);
        **left = Expr::Cast { kind: CastKind::Cast, expr: moved, data_type, array: false, format: None };
    }
}

/// `(a, b) < (x, y)` as `a < x or a = x and b < y`, and `(a, b) = (x, y)` as `a = x and b = y`.
fn expand_row_comparison(expr: &mut Expr) {
    let Expr::BinaryOp { left, op, right } = expr else { return };
    let (Expr::Tuple(left), Expr::Tuple(right)) = (left.as_ref(), right.as_ref()) else { return };
    let strict = match op {
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
        BinaryOperator::Eq => BinaryOperator::Eq,
        _ => return,
    };
    if left.len() != right.len() || left.is_empty() {
        return;
    }
    let with = |left: &Expr, op: BinaryOperator, right: &Expr| Expr::BinaryOp {
        left: Box::new(left.clone()),
        op,
        right: Box::new(right.clone()),
    };
    let mut pairs = left.iter().zip(right).rev();
    let Some((last, value)) = pairs.next() else { return };
    let mut all = with(last, op.clone(), value);
    for (column, value) in pairs {
        let same = with(&with(column, BinaryOperator::Eq, value), BinaryOperator::And, &all);
        all = match strict {
            BinaryOperator::Eq => same,
            ref strict => with(&with(column, strict.clone(), value), BinaryOperator::Or, &same),
        };
    }
    *expr = Expr::Nested(Box::new(all));
}

/// `delete from t as x where x.a = ?` with the table's own name: the planner knows no other of a delete. It
/// stays as it is, and is refused, where the table is in a subquery too.
pub(super) fn use_table_name(delete: &mut Delete) {
    let FromTable::WithFromKeyword(tables) = &mut delete.from else { return };
    let [TableWithJoins { relation: TableFactor::Table { name, alias, .. }, .. }] = tables.as_mut_slice()
    else {
        return;
    };
    let (Some(alias), [part]) = (alias.as_ref().map(|alias| alias.name.clone()), name.0.as_slice()) else {
        return;
    };
    let Some(own) = part.as_ident().cloned() else { return };
    let mentioned = walk_relations(&delete.selection, |mentioned| match mentioned == name {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    if mentioned.is_break() {
        return;
    }
    if let TableFactor::Table { alias, .. } = &mut tables[0].relation {
        *alias = None;
    }
    let mut renamed = |expr: &mut Expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() == 2
            && parts[0].value.eq_ignore_ascii_case(&alias.value)
        {
            parts[0] = own.clone();
        }
    };
    change_expressions(&mut delete.selection, &mut renamed);
    change_expressions(&mut delete.returning, &mut renamed);
}
