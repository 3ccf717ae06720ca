//! Words that the parser or DataFusion's planner does not have, or misunderstands, in words that it knows.
//!
//! Invariant: a tree that has none of them stays as it is. What is put right here:
//! - `a is distinct from 1 and b`: the parser takes `1 and b` for one operand;
//! - `like … escape '$'`, `similar to`: patterns are written with backslashes, or as anchored regular expressions;
//! - `= any (select …)`, `> all (select …)`: as `in` and `exists`;
//! - `fetch first n rows only` as `limit`; `from t` as `select * from t`; `lateral unnest(…)` as `unnest(…)`;
//! - `(a, b) in (select …)` by `exists`; `semi join` as `left semi join`; `order by all` as numbers of columns;
//! - the columns of joins `using (a)` as what they are;
//! - `rollup ((a, b), c)` as `grouping sets`; `pivot` and `unpivot`;
//! - `intersect all` and `except all` as relations that are planned by themselves (`multisets`);
//! - `over (w rows …)` with what `w` stands for; `+a` as `a`;
//! - slices, methods, computed lengths (`terms`); aliases that are used beside their definition (`reuse`);
//! - `a ^ b` as `power(a, b)`; `~a` as `-1 - a`; names of types and functions that others use;
//! - `x -> x + 1` as a function, where one is wanted as an argument, and `j -> 'a'` as a place in JSON elsewhere (`lambdas`, `json`).

use crate::multisets;
use crate::pivots;
use crate::walk::{walk, walk_mut};
use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, ExactNumberInfo, Expr, Fetch, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, GroupByExpr, Ident, Join, JoinConstraint,
    JoinOperator, LimitClause, ObjectName, Query, Select, SelectFlavor, SelectItem, SetExpr, Statement,
    TableAlias, TableFactor, TableWithJoins, TimezoneInfo, UnaryOperator, Value, ValueWithSpan, Visitor,
    VisitorMut, WildcardAdditionalOptions,
};
use std::ops::ControlFlow;

mod aggregates;
mod clock;
mod fields;
mod functions;
mod groups;
mod json;
mod lambdas;
mod maps;
mod order;
mod own;
mod patterns;
mod power;
mod quantified;
mod recursive;
mod reuse;
mod terms;
mod unpivot;
mod using;
mod windows;

pub(crate) use fields::called;
pub use patterns::plain as pattern;
pub(crate) use reuse::in_place as aliases_in_place;

/// Puts a statement into words that the planner knows.
///
/// # Errors
/// `Plan` if there are none, and the planner would not notice.
pub(crate) fn known(statement: &mut Statement) -> Result<()> {
    done(walk_mut(statement, &mut Words))
}

/// The same for a query that stands in no statement of the parser's.
pub(crate) fn known_query(query: &mut Query) -> Result<()> {
    done(walk_mut(query, &mut Words))
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
        fetched(query)?;
        recursive::plain(query);
        all_columns(&mut query.body);
        order::all(query);
        joins(&mut query.body);
        using::plain(query);
        windows::plain(query)?;
        multisets::marked(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<String> {
        unnest(factor);
        named_options(factor);
        pivots::marked(factor)?;
        unpivot::plain(factor)
    }

    /// What is a function is known before its arrow is taken for JSON's.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        if let Expr::Function(call) = expr {
            lambdas::plain(call);
        }
        json::bound(expr);
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
            | Expr::BinaryOp { .. } => {
                begins_with(expr);
                bound(expr);
                json::arrow(expr);
            }
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: inner } => {
                let operand = std::mem::replace(inner.as_mut(), Expr::Identifier(Ident::new("")));
                *expr = bitwise_not(operand);
            }
            // It says nothing, of no type.
            Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } => {
                *expr = nested(std::mem::replace(inner.as_mut(), Expr::Identifier(Ident::new(""))));
            }
            Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } => patterns::plain(expr)?,
            Expr::AnyOp { .. } | Expr::AllOp { .. } => quantified::plain(expr),
            Expr::Cast { .. } => {
                json::cast(expr);
                if let Expr::Cast { data_type, .. } = expr {
                    type_name(data_type);
                    terms::plain(expr);
                }
            }
            Expr::Interval(interval) => {
                clock::plain(&mut interval.value);
                terms::plain(expr);
            }
            Expr::Function(call) => {
                aggregates::plain(call);
                terms::plain(expr);
                functions::plain(expr)?;
            }
            Expr::TypedString(typed) => {
                type_name(&mut typed.data_type);
                terms::plain(expr);
            }
            Expr::InList { .. }
            | Expr::CompoundFieldAccess { .. }
            | Expr::Extract { .. }
            | Expr::AtTimeZone { .. } => {
                terms::plain(expr);
            }
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

/// `fetch first n rows only` as `limit n`. It breaks off with what cannot be written so.
pub fn fetched(query: &mut Query) -> ControlFlow<String> {
    match query.fetch.take() {
        Some(fetch) => limit(query, fetch),
        None => ControlFlow::Continue(()),
    }
}

/// Says what the columns are that joins of a query share; once more, when the columns of natural joins are known.
pub(crate) fn merged(query: &mut Query) {
    using::plain(query);
}

/// The selects of a body; queries in them are not among them.
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

/// What a join of all pairs, or of these and rows without a partner, joins on.
pub(crate) fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
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

/// Whether there is a natural join.
pub(crate) fn is_natural(from: &TableWithJoins) -> bool {
    let natural = |join: &Join| {
        constraint(&mut join.join_operator.clone()).is_some_and(|on| *on == JoinConstraint::Natural)
    };
    from.joins.iter().any(natural)
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

/// `read_csv('x', header = true)` as `read_csv('x', 'header', 'true')`.
fn named_options(factor: &mut TableFactor) {
    let (name, args) = match factor {
        TableFactor::Table { name, args: Some(args), .. } => (name, &mut args.args),
        TableFactor::Function { name, args, .. } => (name, args),
        _ => return,
    };
    // Windows know the names of their arguments themselves.
    if crate::windows::NAMES.iter().any(|window| name.to_string().eq_ignore_ascii_case(window)) {
        return;
    }
    let text = |text: String| Expr::Value(Value::SingleQuotedString(text).into());
    let mut plain = Vec::new();
    for arg in std::mem::take(args) {
        let (name, value) = match &arg {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (name.value.clone(), value),
            FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            } => (name.value.clone(), value),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp {
                left,
                op: BinaryOperator::Eq,
                right,
            })) if matches!(left.as_ref(), Expr::Identifier(_)) => (left.to_string(), right.as_ref()),
            _ => {
                plain.push(arg);
                continue;
            }
        };
        let value = self::text(value).map_or_else(|| value.to_string(), str::to_string);
        plain.extend([name, value].map(|part| FunctionArg::Unnamed(FunctionArgExpr::Expr(text(part)))));
    }
    *args = plain;
}

/// `semi join` and `anti join` keep rows of the left; conditions on several columns at once are said by `exists`.
fn joins(body: &mut SetExpr) {
    let SetExpr::Select(select) = body else { return };
    having_of_values(select);
    every_column(select);
    series(select);
    groups::plain(select);
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

/// `select 1 having …`, of no table and without an aggregate, is `select 1 where …`.
fn having_of_values(select: &mut Select) {
    if select.from.is_empty() && select.selection.is_none() && !reuse::sums_up(select) {
        select.selection = select.having.take();
    }
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    if select.having.is_some() && !select.from.is_empty() && !grouped && !reuse::sums_up(select) {
        one_group(select);
    }
}

/// `select 1 from t having …` is of the only group there is: `select 1 from (select count(*) from t) where …`.
fn one_group(select: &mut Select) {
    // What is written here can be parsed.
    let Ok(outer) = crate::dialect::parse_query("select 1 from (select count(*)) as __group") else { return };
    let SetExpr::Select(outer) = *outer.body else { return };
    let Some(mut group) = outer.from.into_iter().next() else { return };
    if let TableFactor::Derived { subquery, .. } = &mut group.relation
        && let SetExpr::Select(counted) = subquery.body.as_mut()
    {
        counted.from = std::mem::take(&mut select.from);
        counted.selection = select.selection.take();
    }
    select.from = vec![group];
    select.selection = select.having.take();
}

/// `columns(*)` as `*`.
fn every_column(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Function(call)) = item
            && call.name.to_string().eq_ignore_ascii_case("columns")
            && let FunctionArguments::List(list) = &call.args
            && matches!(list.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)])
        {
            *item = SelectItem::Wildcard(WildcardAdditionalOptions::default());
        }
    }
}

/// Functions as tables are called after themselves, and then numbered: `from range(2), range(3)`.
fn series(select: &mut Select) {
    let mut seen: Vec<String> = Vec::new();
    for from in &mut select.from {
        for relation in [&mut from.relation].into_iter().chain(from.joins.iter_mut().map(|j| &mut j.relation))
        {
            let (TableFactor::Table { name, args: Some(_), alias, .. }
            | TableFactor::Function { name, alias, .. }) = relation
            else {
                continue;
            };
            let function = name.to_string().to_ascii_lowercase();
            if alias.is_some() || !matches!(function.as_str(), "range" | "generate_series") {
                continue;
            }
            let number = seen.iter().filter(|other| **other == function).count();
            let called = if number == 0 { function.clone() } else { format!("{function}_{number}") };
            *alias = Some(TableAlias { explicit: true, name: Ident::new(called), columns: vec![], at: None });
            seen.push(function);
        }
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

/// `a ^@ b` is `starts_with(a, b)`.
fn begins_with(expr: &mut Expr) {
    if let Expr::BinaryOp { left, op: BinaryOperator::PGStartsWith, right } = expr {
        *expr = call("starts_with", vec![left.as_ref().clone(), right.as_ref().clone()]);
    }
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
        // As a text: it is compared and ordered as one, too.
        DataType::Uuid | DataType::JSON | DataType::JSONB => DataType::Text,
        DataType::Dec(size) => DataType::Decimal(*size),
        // Microseconds, unless others are asked for: nanoseconds end in 2262.
        DataType::Timestamp(None, zone) => DataType::Timestamp(Some(6), *zone),
        DataType::Datetime(_) => DataType::Timestamp(Some(6), TimezoneInfo::None),
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
            "bpchar" | "name" | "string" => DataType::Text,
            "timestamp_s" => DataType::Timestamp(Some(0), TimezoneInfo::None),
            "timestamp_ms" => DataType::Timestamp(Some(3), TimezoneInfo::None),
            "timestamp_us" => DataType::Timestamp(Some(6), TimezoneInfo::None),
            "timestamp_ns" => DataType::Timestamp(Some(9), TimezoneInfo::None),
            "hugeint" => DataType::Decimal(ExactNumberInfo::PrecisionAndScale(38, 0)),
            "logical" => DataType::Boolean,
            _ => return,
        },
        _ => return,
    };
    *data_type = known;
}

/// The expression in brackets, if it needs them beside others.
pub(crate) fn nested(expr: Expr) -> Expr {
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

/// Whether there is a query in an expression.
pub(crate) fn asks(expr: &Expr) -> bool {
    struct Queries;
    impl Visitor for Queries {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    walk(expr, &mut Queries).is_break()
}

/// The text of a literal.
fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}
