//! Words that the parser or DataFusion's planner does not have, or misunderstands, in words that it knows.
//!
//! Invariant: a tree that has none of them stays as it is. What is put right here:
//! - `a is distinct from 1 and b`: the parser takes `1 and b` for one operand;
//! - `like … escape '$'`, `similar to`: patterns are written with backslashes, or as anchored regular expressions;
//! - `= any (select …)`, `> all (select …)`: as `in` and `exists`;
//! - `fetch first n rows only` as `limit`; `from t` as `select * from t`; `lateral unnest(…)` as `unnest(…)`;
//! - `a ^ b` as `power(a, b)`; `x -> x + 1` as a function; names of types and functions that others use.

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, ExactNumberInfo, Expr, Fetch, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, LimitClause, ObjectName, Query, SelectFlavor, SelectItem,
    SetExpr, SetOperator, SetQuantifier, Statement, TableFactor, UnaryOperator, Value, ValueWithSpan,
    VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use std::ops::ControlFlow;

mod fields;
mod lambdas;
mod patterns;
mod power;
mod quantified;

pub(crate) use fields::called;

/// Puts a statement into words that the planner knows.
///
/// # Errors
/// `Plan` if there are none, and the planner would not notice.
pub(crate) fn known(statement: &mut Statement) -> Result<()> {
    done(statement.visit(&mut Words))
}

/// The same for a query that stands in no statement of the parser's.
pub(crate) fn known_query(query: &mut Query) -> Result<()> {
    done(query.visit(&mut Words))
}

fn done(visited: ControlFlow<String>) -> Result<()> {
    match visited {
        ControlFlow::Break(message) => plan_err!("{message}"),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Words;

impl VisitorMut for Words {
    /// What cannot be said in other words.
    type Break = String;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        if let Some(fetch) = query.fetch.take() {
            limit(query, fetch)?;
        }
        all_columns(&mut query.body);
        multisets(&query.body)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<String> {
        unnest(factor);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        if let Expr::BinaryOp { op: BinaryOperator::BitwiseXor, .. } = expr {
            power::plain(expr);
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
            | Expr::UnaryOp { .. }
            | Expr::BinaryOp { .. } => bound(expr),
            Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } => patterns::plain(expr)?,
            Expr::AnyOp { .. } | Expr::AllOp { .. } => quantified::plain(expr),
            Expr::Cast { data_type, .. } => type_name(data_type),
            Expr::Function(_) => function(expr),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<String> {
        if let Statement::CreateTable(table) = statement {
            table.columns.iter_mut().for_each(|column| type_name(&mut column.data_type));
        }
        ControlFlow::Continue(())
    }
}

/// `fetch first n rows only` is `limit n`.
fn limit(query: &mut Query, fetch: Fetch) -> ControlFlow<String> {
    if fetch.with_ties || fetch.percent {
        return ControlFlow::Break("fetch takes a number of rows, and only these".to_string());
    }
    let one = || Expr::Value(Value::Number("1".to_string(), false).into());
    let rows = fetch.quantity.unwrap_or_else(one);
    match &mut query.limit_clause {
        None => {
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: vec![] });
            ControlFlow::Continue(())
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => {
            *limit = Some(rows);
            ControlFlow::Continue(())
        }
        Some(_) => ControlFlow::Break("a query has either limit or fetch".to_string()),
    }
}

/// `from t`, without a select, is all of it.
fn all_columns(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) if select.flavor == SelectFlavor::FromFirstNoSelect => {
            select.flavor = SelectFlavor::Standard;
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        }
        SetExpr::SetOperation { left, right, .. } => {
            all_columns(left);
            all_columns(right);
        }
        _ => {}
    }
}

/// `lateral unnest(…)` is `unnest(…)`, which sees the tables before it anyway.
fn unnest(factor: &mut TableFactor) {
    let TableFactor::Function { name, args, alias, with_ordinality, .. } = factor else { return };
    let lists = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(list)) => Some(list.clone()),
        _ => None,
    });
    if let (true, Some(array_exprs)) = (name.to_string().eq_ignore_ascii_case("unnest"), lists.collect()) {
        *factor = TableFactor::UNNEST {
            alias: alias.take(),
            array_exprs,
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: *with_ordinality,
        };
    }
}

/// DataFusion's `intersect all` and `except all` do not count how often a row is there.
fn multisets(body: &SetExpr) -> ControlFlow<String> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else {
        return ControlFlow::Continue(());
    };
    if *op != SetOperator::Union && *set_quantifier == SetQuantifier::All {
        let name = op.to_string().to_lowercase();
        return ControlFlow::Break(format!(
            "{name} all cannot be computed; {name} without all can, and so can grouping with count(*)"
        ));
    }
    multisets(left)?;
    multisets(right)
}

/// Takes back what the parser gave to the right of `is distinct from` beyond its operand. What stands around it
/// binds as it has to only after that, so `and` and `not` are looked at too.
fn bound(expr: &mut Expr) {
    let (operand, looser): (_, fn(&Expr) -> bool) = match &mut *expr {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => (right, logical),
        Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } => (inner, logical),
        Expr::BinaryOp { op: BinaryOperator::And, right, .. } => (right, disjunction),
        _ => return,
    };
    if !looser(operand) {
        return;
    }
    // The operand is at the left end of what was taken; the whole takes its place there.
    let mut tree = std::mem::replace(operand.as_mut(), Expr::Identifier(Ident::new("")));
    let mut end = &mut tree;
    while looser(end) {
        let Expr::BinaryOp { left, .. } = end else { break };
        end = left.as_mut();
    }
    std::mem::swap(operand.as_mut(), end);
    std::mem::swap(expr, end);
    *expr = tree;
}

fn logical(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor, .. })
}

fn disjunction(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::Or | BinaryOperator::Xor, .. })
}

/// DuckDB's names of types.
fn type_name(data_type: &mut DataType) {
    let known = match data_type {
        DataType::UTinyInt => DataType::TinyIntUnsigned(None),
        DataType::USmallInt => DataType::SmallIntUnsigned(None),
        DataType::UBigInt => DataType::BigIntUnsigned(None),
        DataType::HugeInt => DataType::Decimal(ExactNumberInfo::PrecisionAndScale(38, 0)),
        DataType::Custom(name, _) if name.to_string().eq_ignore_ascii_case("uinteger") => {
            DataType::IntUnsigned(None)
        }
        _ => return,
    };
    *data_type = known;
}

/// Functions by the names that others have for them.
fn function(expr: &mut Expr) {
    let Expr::Function(call) = expr else { return };
    lambdas::plain(call);
    let [name] = call.name.0.as_slice() else { return };
    let known = match name.to_string().to_ascii_lowercase().as_str() {
        "sign" => "signum",
        "ucase" => "upper",
        "lcase" => "lower",
        "mod" => {
            if let Some((left, right)) = two_arguments(call) {
                let (left, right) = (Box::new(nested(left)), Box::new(nested(right)));
                *expr = nested(Expr::BinaryOp { left, op: BinaryOperator::Modulo, right });
            }
            return;
        }
        _ => return,
    };
    call.name = ObjectName::from(vec![Ident::new(known)]);
}

fn two_arguments(call: &Function) -> Option<(Expr, Expr)> {
    let FunctionArguments::List(list) = &call.args else { return None };
    match list.args.as_slice() {
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
        ] => Some((left.clone(), right.clone())),
        _ => None,
    }
}

fn nested(expr: Expr) -> Expr {
    match expr {
        plain @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) | Expr::Nested(_)) => {
            plain
        }
        other => Expr::Nested(Box::new(other)),
    }
}

/// A call of a function.
fn call(name: &str, args: Vec<Expr>) -> Expr {
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

/// The text of a literal.
fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}
