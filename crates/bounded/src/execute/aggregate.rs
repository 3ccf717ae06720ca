//! Grouping and aggregates, by DataFusion's accumulators.

use super::call::Call;
use super::local::{self, Local, Scope};
use super::rows::Rows;
use crate::error::{Error, Result};
use crate::expression::{coerced, physical};
use datafusion::arrow::array::{ArrayRef, UInt32Array};
use datafusion::arrow::compute::{CastOptions, cast_with_options, take};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use std::collections::HashMap;
use std::sync::Arc;

/// A grouping: keys, and aggregates over each group.
#[derive(Debug, Clone)]
pub(crate) struct Grouping {
    keys: Vec<Local>,
    aggregates: Vec<One>,
}

/// One aggregate: its function, its arguments and its filter.
#[derive(Debug, Clone)]
struct One {
    function: Arc<AggregateFunctionExpr>,
    args: Vec<Local>,
    filter: Option<Local>,
    /// The type of the result, where it is computed with more digits.
    narrowed: Option<DataType>,
}

impl Grouping {
    /// # Errors
    /// `Invalid` if an aggregate does not exist for its arguments.
    pub fn new(group: &[Expr], aggregates: &[Expr], scope: &Arc<Scope>) -> Result<Grouping> {
        let keys = group.iter().map(|expr| Local::new(expr, scope)).collect::<Result<_>>()?;
        let aggregates = aggregates.iter().map(|expr| One::new(expr, scope)).collect::<Result<_>>()?;
        Ok(Grouping { keys, aggregates })
    }

    /// The aggregates of given groups of rows; a group may be empty.
    ///
    /// # Errors
    /// `Data` if an aggregate overflows.
    pub fn fold(&self, rows: &Rows, groups: &[Vec<u32>], call: &Call<'_>) -> Result<Vec<ArrayRef>> {
        self.aggregates.iter().map(|aggregate| aggregate.run(rows, groups, call)).collect()
    }

    /// # Errors
    /// `Data` if an aggregate overflows.
    pub fn run(&self, rows: &Rows, call: &Call<'_>) -> Result<Rows> {
        let keys = local::values(&self.keys, rows, call)?;
        let groups = groups(&keys, rows.len)?;
        let first: UInt32Array = groups.iter().filter_map(|group| group.first().copied()).collect();
        let mut columns =
            keys.iter().map(|key| take(key, &first, None)).collect::<std::result::Result<Vec<_>, _>>()?;
        columns.extend(self.fold(rows, &groups, call)?);
        Ok(Rows { columns, len: groups.len() })
    }
}

/// The rows of each group, in the order of first occurrence. Without keys there is one group.
fn groups(keys: &[ArrayRef], len: usize) -> Result<Vec<Vec<u32>>> {
    if keys.is_empty() {
        return Ok(vec![(0..len as u32).collect()]);
    }
    let fields = keys.iter().map(|key| SortField::new(key.data_type().clone()));
    let converted = RowConverter::new(fields.collect())?.convert_columns(keys)?;
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for (at, key) in converted.iter().enumerate() {
        let place = *places.entry(key.as_ref().to_vec()).or_insert_with(|| {
            groups.push(vec![]);
            groups.len() - 1
        });
        groups[place].push(at as u32);
    }
    Ok(groups)
}

impl One {
    fn new(expr: &Expr, scope: &Arc<Scope>) -> Result<One> {
        let bound = coerced(scope.bound(expr)?, &scope.schema)?;
        let simple = bound.clone().unalias();
        let Expr::AggregateFunction(AggregateFunction { func, mut params }) = simple else {
            return Err(Error::Internal(format!("{expr} is not an aggregate")));
        };
        let mut narrowed = None;
        if func.name() == "sum"
            && let [arg] = params.args.as_mut_slice()
            && arg.get_type(&scope.schema)? == DataType::Int64
        {
            // DataFusion's sums of integers wrap around, so they are computed as decimals.
            *arg = Expr::Cast(Cast::new(Box::new(arg.clone()), DataType::Decimal128(19, 0)));
            narrowed = Some(DataType::Int64);
        }
        if !params.order_by.is_empty() {
            return Err(Error::invalid(format!(
                "{expr}: an aggregate over sorted rows is not supported; sort the rows you get"
            )));
        }
        let args = params.args.iter().map(|arg| Local::new(arg, scope)).collect::<Result<Vec<_>>>()?;
        let filter = params.filter.as_ref().map(|filter| Local::new(filter, scope)).transpose()?;
        let physical = params.args.iter().map(|arg| physical(arg.clone(), &scope.schema));
        let schema = Arc::new(Schema::new(scope.schema.fields().iter().cloned().collect::<Vec<_>>()));
        let function = AggregateExprBuilder::new(func, physical.collect::<Result<_>>()?)
            .schema(schema)
            .alias("aggregate")
            .with_distinct(params.distinct)
            .with_ignore_nulls(params.null_treatment == Some(NullTreatment::IgnoreNulls))
            .build()?;
        Ok(One { function: Arc::new(function), args, filter, narrowed })
    }

    fn run(&self, rows: &Rows, groups: &[Vec<u32>], call: &Call<'_>) -> Result<ArrayRef> {
        let args = local::values(&self.args, rows, call)?;
        let keep = self
            .filter
            .as_ref()
            .map(|filter| local::all_true(std::slice::from_ref(filter), rows, call))
            .transpose()?;
        let mut results = Vec::with_capacity(groups.len());
        for group in groups {
            let kept = group.iter().filter(|at| keep.as_ref().is_none_or(|keep| keep.value(**at as usize)));
            let places: UInt32Array = kept.copied().collect();
            let values = args
                .iter()
                .map(|arg| take(arg, &places, None))
                .collect::<std::result::Result<Vec<_>, _>>()?;
            let mut accumulator = self.function.create_accumulator()?;
            accumulator.update_batch(&values)?;
            results.push(accumulator.evaluate()?);
        }
        let results = match results.is_empty() {
            true => datafusion::arrow::array::new_empty_array(self.function.field().data_type()),
            false => ScalarValue::iter_to_array(results)?,
        };
        let Some(of) = &self.narrowed else { return Ok(results) };
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(&results, of, &options).map_err(|_| {
            Error::Data("a sum is too large for bigint: sum decimals, cast(… as decimal(38, 0))".to_string())
        })
    }
}
