//! `avg`: DataFusion's, but of decimals it is a float: the exact sum divided once. DataFusion's quotient is a
//! decimal, cut off after four more digits.
//!
//! Invariant: sums and counts are DataFusion's states of the same aggregate, in which no sum can be too
//! large.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, make_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::functions_aggregate::average;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
};
use std::sync::{Arc, LazyLock};

/// The aggregate.
pub fn avg_udaf() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> =
        LazyLock::new(|| Arc::new(AggregateUDF::from(Average(average::avg_udaf()))));
    Arc::clone(&FUNCTION)
}

/// DataFusion's average, which it delegates to for all types but decimals.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Average(Arc<AggregateUDF>);

impl Average {
    /// What DataFusion's average of decimals returns.
    fn decimal_return_field(&self, fields: &[FieldRef]) -> Result<Option<FieldRef>> {
        match fields {
            [of] if of.data_type().is_decimal() => {
                let kind = self.0.return_type(&[of.data_type().clone()])?;
                Ok(Some(Arc::new(Field::new("avg", kind, true))))
            }
            _ => Ok(None),
        }
    }
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [of] if of.is_decimal() => Ok(DataType::Float64),
            _ => self.0.return_type(types),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match self.decimal_return_field(args.input_fields)? {
            Some(return_field) => self.0.state_fields(StateFieldsArgs { return_field, ..args }),
            None => self.0.state_fields(args),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.decimal_return_field(args.expr_fields)? {
            Some(return_field) => {
                let (scale_factor, distinct) = (scale_factor(args.expr_fields)?, args.is_distinct);
                let states = self.0.accumulator(AccumulatorArgs { return_field, ..args })?;
                Ok(Box::new(DecimalAverage { states, scale_factor, distinct }))
            }
            None => self.0.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.decimal_return_field(args.expr_fields)? {
            Some(_) => self.accumulator(args),
            None => self.0.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.0.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match self.decimal_return_field(args.expr_fields)? {
            Some(return_field) => {
                let scale_factor = scale_factor(args.expr_fields)?;
                let states = self.0.create_groups_accumulator(AccumulatorArgs { return_field, ..args })?;
                Ok(Box::new(DecimalAverageGroups { states, scale_factor }))
            }
            None => self.0.create_groups_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.0.order_sensitivity()
    }
}

/// How many scale_factor of the last digit of these decimals make 1.
fn scale_factor(fields: &[FieldRef]) -> Result<f64> {
    match fields.first().map(|field| field.data_type()) {
        Some(
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale),
        ) => Ok(10_f64.powi(i32::from(*scale))),
        _ => internal_err!("an average of decimals is of decimals"),
    }
}

/// The whole numbers that decimals are stored as, without their point, as floats.
fn unscaled_values(decimals: &ArrayRef) -> Result<ArrayRef> {
    let data = decimals.to_data().into_builder();
    let data = match decimals.data_type() {
        DataType::Decimal32(precision, _) => data.data_type(DataType::Decimal32(*precision, 0)),
        DataType::Decimal64(precision, _) => data.data_type(DataType::Decimal64(*precision, 0)),
        DataType::Decimal128(precision, _) => data.data_type(DataType::Decimal128(*precision, 0)),
        DataType::Decimal256(precision, _) => data.data_type(DataType::Decimal256(*precision, 0)),
        other => return internal_err!("{other} is no decimal"),
    };
    Ok(cast(&make_array(data.build()?), &DataType::Float64)?)
}

/// The quotients of sums and counts; null where nothing was counted.
fn quotients(counts: &ArrayRef, sums: &ArrayRef, scale_factor: f64) -> Result<Float64Array> {
    let sums = unscaled_values(sums)?;
    let quotient = |(count, sum): (Option<u64>, Option<f64>)| match count {
        None | Some(0) => None,
        Some(count) => sum.map(|sum| sum / (count as f64 * scale_factor)),
    };
    let counts = counts.as_primitive::<UInt64Type>().iter();
    Ok(counts.zip(sums.as_primitive::<Float64Type>()).map(quotient).collect())
}

/// The average of decimals, by the states of DataFusion's.
#[derive(Debug)]
struct DecimalAverage {
    states: Box<dyn Accumulator>,
    scale_factor: f64,
    distinct: bool,
}

impl DecimalAverage {
    /// The average of a list of different values.
    fn of_distinct_values(&self, values: &ArrayRef) -> Result<Option<f64>> {
        if values.is_empty() {
            return Ok(None);
        }
        // They are in no order: the sum is not to depend on it.
        let mut values: Vec<f64> = unscaled_values(values)?.as_primitive::<Float64Type>().values().to_vec();
        values.sort_by(f64::total_cmp);
        Ok(Some(values.iter().sum::<f64>() / (values.len() as f64 * self.scale_factor)))
    }
}

impl Accumulator for DecimalAverage {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.states.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.states.state()?;
        let average = match state.as_slice() {
            [ScalarValue::List(values)] if self.distinct => self.of_distinct_values(&values.value(0))?,
            [count, sum] => {
                let quotients = quotients(&count.to_array()?, &sum.to_array()?, self.scale_factor)?;
                quotients.is_valid(0).then(|| quotients.value(0))
            }
            _ => return exec_err!("avg: its state is not a count and a sum"),
        };
        Ok(ScalarValue::Float64(average))
    }

    fn size(&self) -> usize {
        self.states.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.states.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.states.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.states.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.states.supports_retract_batch()
    }
}

/// The same of many groups.
struct DecimalAverageGroups {
    states: Box<dyn GroupsAccumulator>,
    scale_factor: f64,
}

impl GroupsAccumulator for DecimalAverageGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.states.update_batch(values, groups, filter, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        match self.states.state(emit_to)?.as_slice() {
            [counts, sums] => Ok(Arc::new(quotients(counts, sums, self.scale_factor)?)),
            _ => internal_err!("avg: its state is a count and a sum"),
        }
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.states.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.states.merge_batch(values, groups, count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.states.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.states.size()
    }
}
