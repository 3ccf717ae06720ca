//! Words that the parser or DataFusion's planner does not have, or misunderstands, in words that it knows.
//!
//! Invariant: a tree that has none of them stays as it is. What is put right here:
//! - `a is distinct from 1 and b`: the parser takes `1 and b` for one operand;
//! - `like … escape '$'`, `similar to`: patterns are written with backslashes, or as anchored regular expressions;
//! - `= any (select …)`, `> all (select …)`: as `in` and `exists`;
//! - `fetch first n rows only` as `limit`; `from t` as `select * from t`; `lateral unnest(…)` as `unnest(…)`;
//! - `(a, b) in (select …)` by `exists`; `semi join` as `left semi join`; `order by all` as numbers of columns;
//! - the column of `full join … using (a)` as `coalesce`;
//! - `intersect all` and `except all` as relations that are planned by themselves (`multisets`);
//! - `a ^ b` as `power(a, b)`; `~a` as `-1 - a`; `x -> x + 1` as a function; names of types and functions that others use.

use crate::multisets;
use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, ExactNumberInfo, Expr, Fetch, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, JoinOperator, LimitClause, ObjectName,
    Query, SelectFlavor, SelectItem, SetExpr, Statement, TableFactor, TimezoneInfo, UnaryOperator, Value,
    ValueWithSpan, VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use std::ops::ControlFlow;

mod clock;
mod fields;
mod functions;
mod lambdas;
mod order;
mod patterns;
mod power;
mod quantified;
mod using;

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
        order::all(query);
        joins(&mut query.body);
        using::plain(query);
        multisets::marked(&mut query.body);
        ControlFlow::Continue(())
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
            | Expr::UnaryOp { op: UnaryOperator::Not, .. }
            | Expr::BinaryOp { .. } => bound(expr),
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: inner } => {
                let operand = std::mem::replace(inner.as_mut(), Expr::Identifier(Ident::new("")));
                *expr = bitwise_not(operand);
            }
            Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } => patterns::plain(expr)?,
            Expr::AnyOp { .. } | Expr::AllOp { .. } => quantified::plain(expr),
            Expr::Cast { data_type, .. } => type_name(data_type),
            Expr::Interval(interval) => clock::plain(&mut interval.value),
            Expr::Function(_) => functions::plain(expr)?,
            Expr::InSubquery { .. } => quantified::rows(expr),
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

/// `semi join` and `anti join` keep rows of the left; conditions on several columns at once are said by `exists`.
fn joins(body: &mut SetExpr) {
    let SetExpr::Select(select) = body else { return };
    if let Some(condition) = &mut select.selection {
        quantified::rows_in_condition(condition);
    }
    for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
        let operator = std::mem::replace(&mut join.join_operator, JoinOperator::CrossApply);
        join.join_operator = match operator {
            JoinOperator::Semi(on) => JoinOperator::LeftSemi(on),
            JoinOperator::Anti(on) => JoinOperator::LeftAnti(on),
            other => other,
        };
    }
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

/// `~a` is `-1 - a`, as numbers are written with two's complement.
fn bitwise_not(operand: Expr) -> Expr {
    let one = Expr::Value(Value::Number("1".to_string(), false).into());
    let left = Box::new(Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(one) });
    nested(Expr::BinaryOp { left, op: BinaryOperator::Minus, right: Box::new(nested(operand)) })
}

fn logical(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor, .. })
}

fn disjunction(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::Or | BinaryOperator::Xor, .. })
}

/// Names of types that others have.
fn type_name(data_type: &mut DataType) {
    if let DataType::Array(
        ArrayElemTypeDef::SquareBracket(inner, _) | ArrayElemTypeDef::AngleBracket(inner),
    ) = data_type
    {
        return type_name(inner);
    }
    let known = match data_type {
        DataType::Int16 => DataType::SmallInt(None),
        DataType::Int32 => DataType::Int(None),
        DataType::Int64 | DataType::Signed => DataType::BigInt(None),
        DataType::UTinyInt | DataType::UInt8 => DataType::TinyIntUnsigned(None),
        DataType::USmallInt | DataType::UInt16 => DataType::SmallIntUnsigned(None),
        DataType::UInt32 => DataType::IntUnsigned(None),
        DataType::UBigInt | DataType::UInt64 => DataType::BigIntUnsigned(None),
        DataType::HugeInt | DataType::Int128 => DataType::Decimal(ExactNumberInfo::PrecisionAndScale(38, 0)),
        DataType::Dec(size) => DataType::Decimal(*size),
        DataType::Datetime(_) => DataType::Timestamp(None, TimezoneInfo::None),
        DataType::Blob(_) | DataType::Varbinary(_) | DataType::Binary(_) => DataType::Bytea,
        DataType::Character(_)
        | DataType::CharacterVarying(_)
        | DataType::CharVarying(_)
        | DataType::Nvarchar(_) => DataType::Text,
        DataType::Custom(name, _) => match name.to_string().to_ascii_lowercase().as_str() {
            "int1" => DataType::TinyInt(None),
            "short" => DataType::SmallInt(None),
            "long" => DataType::BigInt(None),
            "uinteger" => DataType::IntUnsigned(None),
            "bpchar" | "name" => DataType::Text,
            "logical" => DataType::Boolean,
            _ => return,
        },
        _ => return,
    };
    *data_type = known;
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

/// What a query selects first.
fn first_value(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    match select.projection.first()? {
        SelectItem::UnnamedExpr(expr) => Some(expr.clone()),
        _ => None,
    }
}

/// The text of a literal.
fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}
