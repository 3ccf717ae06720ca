//! Snapshot aggregates: what is computed, of what, over which rows.
//!
//! A plan holds DataFusion's aggregate functions, so that a relation's plan is DataFusion's own. Their
//! results have the types of the temporal engine's: arguments are cast where the two would differ.

mod average;
mod engine_function;
mod state_accumulator;
mod user_function;

pub use average::avg_udaf;
pub use engine_function::engine_functions;
pub use user_function::UserFunction;

use crate::names::{show, type_name};
use crate::resolve::{resolve, resolve_as};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err, plan_err};
use datafusion::functions_aggregate::{
    count::count_udaf, first_last::first_value_udaf, first_last::last_value_udaf, min_max::max_udaf,
    min_max::min_udaf, stddev::stddev_pop_udaf, stddev::stddev_udaf, sum::sum_udaf, variance::var_pop_udaf,
    variance::var_samp_udaf,
};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::COUNT_STAR_EXPANSION;
use datafusion::logical_expr::{AggregateUDF, Expr, ExprSchemable};
use engine_function::{engine_function, engine_udaf, parameters};
use std::sync::Arc;
use user_function::user_function;
use whimbrel_temporal::operators;

/// What an aggregate computes over the rows of a snapshot.
pub type AggFunction = operators::AggregateFunction<UserFunction>;

/// One aggregate: what it computes, of what, over which rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Agg {
    /// What is computed.
    pub function: AggFunction,
    /// Of what; only a count can do without.
    pub argument: Option<Expr>,
    /// Over the rows for which this is true; all, if not given.
    pub filter: Option<Expr>,
}

/// DataFusion's function for an aggregate function.
fn udaf(function: &AggFunction) -> Result<Arc<AggregateUDF>> {
    Ok(match function {
        AggFunction::Count | AggFunction::CountDistinct => count_udaf(),
        AggFunction::Sum => sum_udaf(),
        AggFunction::Average => avg_udaf(),
        AggFunction::Min => min_udaf(),
        AggFunction::Max => max_udaf(),
        AggFunction::First => first_value_udaf(),
        AggFunction::Last => last_value_udaf(),
        AggFunction::Variance { population: false } => var_samp_udaf(),
        AggFunction::Variance { population: true } => var_pop_udaf(),
        AggFunction::StandardDeviation { population: false } => stddev_udaf(),
        AggFunction::StandardDeviation { population: true } => stddev_pop_udaf(),
        AggFunction::User(user) => user.udaf(),
        other => match engine_udaf(other) {
            Some(udaf) => udaf,
            None => return internal_err!("there is no function {}", other.name()),
        },
    })
}

/// The type that an argument of this type is cast to, where the two engines would give results of other
/// types: both compute over a dictionary's values, and small decimals are summed as decimal128.
fn computes_over(function: &AggFunction, argument: &DataType) -> Option<DataType> {
    match (function, argument) {
        (_, DataType::Dictionary(_, value)) => Some(value.as_ref().clone()),
        (
            AggFunction::Sum
            | AggFunction::Average
            | AggFunction::Variance { .. }
            | AggFunction::StandardDeviation { .. },
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale),
        ) => Some(DataType::Decimal128(*precision, *scale)),
        _ => None,
    }
}

/// Whether a function can be computed over values of this type.
fn takes(function: &AggFunction, argument: &DataType) -> bool {
    match function {
        AggFunction::Sum
        | AggFunction::Average
        | AggFunction::Variance { .. }
        | AggFunction::StandardDeviation { .. }
        | AggFunction::SumOfSquares
        | AggFunction::AverageOfSquares
        | AggFunction::Product
        | AggFunction::Percentile { continuous: true, .. } => {
            argument.is_numeric() && !matches!(argument, DataType::Decimal256(_, _))
        }
        AggFunction::Min | AggFunction::Max => !argument.is_nested() && !argument.is_null(),
        _ => !argument.is_null(),
    }
}

impl Agg {
    /// The number of rows.
    pub fn count() -> Agg {
        Agg { function: AggFunction::Count, argument: None, filter: None }
    }

    /// A function of an expression.
    pub fn of(function: AggFunction, argument: Expr) -> Agg {
        Agg { function, argument: Some(argument), filter: None }
    }

    /// Only over the rows for which the predicate is true.
    pub fn filter(self, predicate: Expr) -> Agg {
        Agg { filter: Some(predicate), ..self }
    }

    /// `sum(delay)`, for messages.
    fn show(&self) -> String {
        let argument = self.argument.as_ref().map_or("*".to_string(), show);
        format!("{}({argument})", self.function.name())
    }

    /// DataFusion's expression for it, over these columns.
    pub(crate) fn expr(&self, schema: &DFSchema) -> Result<Expr> {
        let what = self.show();
        let argument = match (&self.argument, &self.function) {
            (Some(argument), _) => self.argument(argument.clone(), schema, &what)?,
            (None, AggFunction::Count) => Expr::Literal(COUNT_STAR_EXPANSION, None),
            (None, function) => return plan_err!("{} needs an expression: of what?", function.name()),
        };
        let filter = self.filter.clone().map(|f| {
            let f = resolve_as(f, &DataType::Boolean, schema, &format!("{what}: where"))?;
            Ok::<_, datafusion::common::DataFusionError>(Box::new(f.unalias()))
        });
        let arguments = std::iter::once(argument).chain(parameters(&self.function)).collect();
        Ok(Expr::AggregateFunction(AggregateFunction::new_udf(
            udaf(&self.function)?,
            arguments,
            self.function == AggFunction::CountDistinct,
            filter.transpose()?,
            vec![],
            None,
        )))
    }

    /// The argument, resolved and cast to a type that both engines compute alike.
    fn argument(&self, argument: Expr, schema: &DFSchema, what: &str) -> Result<Expr> {
        let argument = resolve(argument, schema, what)?.unalias();
        let argument = match computes_over(&self.function, &argument.get_type(schema)?) {
            Some(other) => argument.cast_to(&other, schema)?,
            None => argument,
        };
        match argument.get_type(schema)? {
            t if takes(&self.function, &t) => Ok(argument),
            t => plan_err!(
                "{what}: {} is {}, of which there is no {}",
                show(&argument),
                type_name(&t),
                self.function.name()
            ),
        }
    }
}

/// The name and the aggregate that an expression in an `Aggregate` node stands for: the inverse of what
/// [`Stream::aggregate`](crate::Stream::aggregate) puts there.
///
/// # Errors
/// `Plan` if it is not an aggregate that a stream can have.
pub fn aggregate_of(expr: &Expr) -> Result<(String, Agg)> {
    let name = expr.schema_name().to_string();
    let Expr::AggregateFunction(call) = expr.clone().unalias() else {
        return plan_err!("{} is no aggregate", show(expr));
    };
    let (own, further) = call.params.args.split_at(1.min(call.params.args.len()));
    let (function, parameters) = match engine_function(&call.func, further) {
        Some(function) => (function?, further.len()),
        None => (function_of(&call.func, call.params.distinct, &name)?, 0),
    };
    let has_order = !call.params.order_by.is_empty() || call.params.null_treatment.is_some();
    if has_order || own.len() != 1 || further.len() != parameters {
        return plan_err!("{name}: a stream's aggregates take one argument and no ordering: {}", show(expr));
    }
    let argument = own.first().cloned().filter(|a| !is_any_row(&function, a));
    Ok((name, Agg { function, argument, filter: call.params.filter.map(|f| *f) }))
}

/// The function that DataFusion's stands for.
fn function_of(func: &AggregateUDF, distinct: bool, name: &str) -> Result<AggFunction> {
    if let Some(user) = user_function(func) {
        return Ok(AggFunction::User(user));
    }
    Ok(match (func.name(), distinct) {
        ("count", false) => AggFunction::Count,
        ("count", true) => AggFunction::CountDistinct,
        ("sum", false) => AggFunction::Sum,
        ("avg", false) => AggFunction::Average,
        ("min", _) => AggFunction::Min,
        ("max", _) => AggFunction::Max,
        ("first_value", false) => AggFunction::First,
        ("last_value", false) => AggFunction::Last,
        ("var", false) => AggFunction::Variance { population: false },
        ("var_pop", false) => AggFunction::Variance { population: true },
        ("stddev", false) => AggFunction::StandardDeviation { population: false },
        ("stddev_pop", false) => AggFunction::StandardDeviation { population: true },
        (other, _) => return plan_err!("{name}: a stream has no aggregate {other}"),
    })
}

/// `count(1)` and its like count rows.
fn is_any_row(function: &AggFunction, argument: &Expr) -> bool {
    let value: Option<&ScalarValue> = argument.as_literal();
    *function == AggFunction::Count && value.is_some_and(|v| !v.is_null())
}
