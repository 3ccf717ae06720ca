//! `summarize`: a row of measures for each column of a table or a query. The rows are read once.
//!
//! ```sql
//! summarize t;
//! summarize select x, y from t where x > 0;
//! ```

use super::query::query_plan;
use crate::columns::with_unique_names;
use crate::session::planned::Planned;
use crate::session::state::Session;
use crate::syntax::Emit;
use crate::tree::transform_expr_down;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result, ScalarValue, plan_err};
use datafusion::functions::expr_fn::nullif;
use datafusion::functions_aggregate::expr_fn::{approx_distinct, avg, count, max, min, stddev};
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::utils::find_aggregate_exprs;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast, lit};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as Sql;
use whimbrel_plan::column;
use whimbrel_plan::names::type_name;

/// A measure of a column: its name and its expression.
type Measure = (&'static str, fn(&Field) -> Expr);

/// All measures, besides name and type.
const MEASURES: [Measure; 7] = [
    ("min", |field| of_values(field, comparable, |c| cast(min(c), DataType::Utf8), DataType::Utf8)),
    ("max", |field| of_values(field, comparable, |c| cast(max(c), DataType::Utf8), DataType::Utf8)),
    ("approx_unique", |field| {
        let count = |c| cast(approx_distinct(cast(c, DataType::Utf8)), DataType::Int64);
        of_values(field, comparable, count, DataType::Int64)
    }),
    ("avg", |field| of_values(field, DataType::is_numeric, |c| avg(float(c)), DataType::Float64)),
    ("std", |field| of_values(field, DataType::is_numeric, |c| stddev(float(c)), DataType::Float64)),
    ("count", |_| count(lit(1_i64))),
    ("null_percentage", |field| {
        let rows = cast(count(lit(1_i64)), DataType::Float64);
        let present = cast(count(column(field.name())), DataType::Float64);
        lit(100.0) - lit(100.0) * present / nullif(rows, lit(0.0))
    }),
];

/// `summarize` of a query.
///
/// # Errors
/// `Plan` if the statement is no query, or it has no plan.
pub(super) fn of(session: &Session, statement: Statement) -> Result<Planned> {
    let Statement::Statement(statement) = statement else {
        return plan_err!("summarize takes a table or a query");
    };
    let Sql::Query(query) = *statement else { return plan_err!("summarize takes a table or a query") };
    let rows = with_unique_names(query_plan(session, *query, Emit::Final)?)?;
    let fields: Vec<Field> = rows.schema().fields().iter().map(|field| Field::clone(field)).collect();
    let name = |measure: &str, at: usize| format!("{measure}_{at}");
    let measured = fields
        .iter()
        .enumerate()
        .flat_map(|(at, field)| MEASURES.iter().map(move |(measure, of)| (name(measure, at), of(field))));
    let (names, values): (Vec<_>, Vec<Expr>) = measured.unzip();
    // Columns share aggregates, such as the number of rows.
    let calls = find_aggregate_exprs(&values);
    let aggregated = LogicalPlanBuilder::from(rows).aggregate(Vec::<Expr>::new(), calls.clone())?;
    let of_calls = |value: Expr| {
        transform_expr_down(value, &mut |e| match calls.contains(&e) {
            true => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(e.schema_name().to_string())))),
            false => Ok(Transformed::no(e)),
        })
    };
    let values = values.into_iter().zip(names).map(|(value, name)| Ok(of_calls(value)?.data.alias(name)));
    let measured = aggregated.project(values.collect::<Result<Vec<_>>>()?)?;
    let texts = |texts: Vec<String>| make_array(texts.into_iter().map(lit).collect());
    let listed = [
        ("column", texts(fields.iter().map(|field| field.name().clone()).collect())),
        ("type", texts(fields.iter().map(|field| type_name(field.data_type())).collect())),
    ];
    let lists = MEASURES.iter().map(|(measure, _)| {
        (*measure, make_array((0..fields.len()).map(|at| column(name(measure, at))).collect()))
    });
    let (names, lists): (Vec<&str>, Vec<Expr>) =
        listed.into_iter().chain(lists).map(|(name, list)| (name, list.alias(name))).unzip();
    let columns = names.into_iter().map(Into::into).collect();
    let plan = measured.project(lists)?.unnest_columns_with_options(columns, Default::default())?.build()?;
    Ok(Planned::Query(session.stream(plan)?))
}

/// A measure of a column, or null if the column does not have it.
fn of_values(field: &Field, has: fn(&DataType) -> bool, of: fn(Expr) -> Expr, result: DataType) -> Expr {
    match has(field.data_type()) {
        true => of(column(field.name())),
        false => lit(ScalarValue::try_from(&result).unwrap_or(ScalarValue::Null)),
    }
}

/// Whether values have an order, and a text.
fn comparable(of: &DataType) -> bool {
    !of.is_nested()
        && !matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::Null)
}

/// A value as a float.
fn float(value: Expr) -> Expr {
    cast(value, DataType::Float64)
}
