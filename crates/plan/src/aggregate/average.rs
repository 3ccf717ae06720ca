//! `avg`: DataFusion's, but of decimals it is a float: the exact sum divided once. DataFusion's quotient is a
//! decimal, cut off after four more digits. And of durations it is that of as many ticks, which are summed as
//! decimals: DataFusion's sum wraps around.
//!
//! Invariant: sums and counts are DataFusion's states of an average of decimals, in which no sum can be too
//! large.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, UInt64Array,
    make_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Float64Type, UInt64Type};
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

/// DataFusion's average, which it delegates to for all types but decimals and durations.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Average(Arc<AggregateUDF>);

/// An average by the sum and the count of decimals.
struct Exact {
    /// What is averaged, as decimals.
    fields: [FieldRef; 1],
    /// What DataFusion's average of them returns.
    return_field: FieldRef,
    quotient: Quotient,
}

impl Average {
    /// How the average of such a column is computed, if it is not DataFusion's.
    fn exact(&self, fields: &[FieldRef]) -> Result<Option<Exact>> {
        let [field] = fields else { return Ok(None) };
        let (field, quotient) = match field.data_type() {
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale) => {
                (Arc::clone(field), Quotient::Float { scale_factor: 10_f64.powi(i32::from(*scale)) })
            }
            kind @ DataType::Duration(_) => {
                let ticks = Field::new(field.name(), TICKS, field.is_nullable());
                (Arc::new(ticks), Quotient::Duration(kind.clone()))
            }
            _ => return Ok(None),
        };
        let kind = self.0.return_type(&[field.data_type().clone()])?;
        Ok(Some(Exact { fields: [field], return_field: Arc::new(Field::new("avg", kind, true)), quotient }))
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
        match self.exact(args.input_fields)? {
            Some(Exact { fields, return_field, .. }) => {
                self.0.state_fields(StateFieldsArgs { input_fields: &fields, return_field, ..args })
            }
            None => self.0.state_fields(args),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.exact(args.expr_fields)? {
            Some(Exact { fields, return_field, quotient }) => {
                let distinct = args.is_distinct;
                let states =
                    self.0.accumulator(AccumulatorArgs { expr_fields: &fields, return_field, ..args })?;
                Ok(Box::new(ExactAverage { states, quotient, distinct }))
            }
            None => self.0.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.exact(args.expr_fields)? {
            Some(_) => self.accumulator(args),
            None => self.0.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.0.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match self.exact(args.expr_fields)? {
            Some(Exact { fields, return_field, quotient }) => {
                let args = AccumulatorArgs { expr_fields: &fields, return_field, ..args };
                let states = self.0.create_groups_accumulator(args)?;
                Ok(Box::new(ExactAverageGroups { states, quotient }))
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

/// What the ticks of durations are summed as: an integer of eight bytes has nineteen digits at most.
const TICKS: DataType = DataType::Decimal128(19, 0);

/// What a sum and a count give.
#[derive(Debug)]
enum Quotient {
    /// A float; of decimals of which so many of the last digit make 1.
    Float { scale_factor: f64 },
    /// A duration of this type, cut off after its last tick.
    Duration(DataType),
}

impl Quotient {
    /// The columns that are averaged, as decimals.
    fn decimals(&self, columns: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let ticks = |column: &ArrayRef| Ok(cast(&cast(column, &DataType::Int64)?, &TICKS)?);
        match self {
            Quotient::Float { .. } => Ok(columns.to_vec()),
            Quotient::Duration(_) => columns.iter().map(ticks).collect(),
        }
    }

    /// The quotients of sums and counts; null where nothing was counted.
    fn of(&self, counts: &ArrayRef, sums: &ArrayRef) -> Result<ArrayRef> {
        let counts = counts.as_primitive::<UInt64Type>().iter();
        let counts = counts.map(|count| count.filter(|count| *count > 0));
        Ok(match self {
            Quotient::Float { scale_factor } => {
                let sums = unscaled_values(sums)?;
                let quotient = |(count, sum): (Option<u64>, Option<f64>)| {
                    count.zip(sum).map(|(count, sum)| sum / (count as f64 * scale_factor))
                };
                Arc::new(
                    counts.zip(sums.as_primitive::<Float64Type>()).map(quotient).collect::<Float64Array>(),
                )
            }
            Quotient::Duration(kind) => {
                // An average is between the least and the greatest of its values.
                let quotient = |(count, sum): (Option<u64>, Option<i128>)| {
                    count.zip(sum).map(|(count, sum)| (sum / i128::from(count)) as i64)
                };
                let ticks = counts.zip(sums.as_primitive::<Decimal128Type>()).map(quotient);
                cast(&ticks.collect::<Int64Array>(), kind)?
            }
        })
    }

    /// The average of a list of different values.
    fn of_distinct_values(&self, values: &ArrayRef) -> Result<ScalarValue> {
        match self {
            Quotient::Float { .. } if values.is_empty() => Ok(ScalarValue::Float64(None)),
            Quotient::Float { scale_factor } => {
                // They are in no order: the sum is not to depend on it.
                let values = unscaled_values(values)?;
                let mut values: Vec<f64> = values.as_primitive::<Float64Type>().values().to_vec();
                values.sort_by(f64::total_cmp);
                let average = values.iter().sum::<f64>() / (values.len() as f64 * scale_factor);
                Ok(ScalarValue::Float64(Some(average)))
            }
            Quotient::Duration(_) => {
                let count = UInt64Array::from(vec![values.len() as u64]);
                let sum: i128 = values.as_primitive::<Decimal128Type>().iter().flatten().sum();
                let sum = Decimal128Array::from(vec![sum]);
                ScalarValue::try_from_array(&self.of(&(Arc::new(count) as _), &(Arc::new(sum) as _))?, 0)
            }
        }
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

/// An average by the states of DataFusion's average of decimals.
#[derive(Debug)]
struct ExactAverage {
    states: Box<dyn Accumulator>,
    quotient: Quotient,
    distinct: bool,
}

impl Accumulator for ExactAverage {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.states.update_batch(&self.quotient.decimals(values)?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.states.state()?.as_slice() {
            [ScalarValue::List(values)] if self.distinct => {
                self.quotient.of_distinct_values(&values.value(0))
            }
            [count, sum] => {
                let quotients = self.quotient.of(&count.to_array()?, &sum.to_array()?)?;
                ScalarValue::try_from_array(&quotients, 0)
            }
            _ => exec_err!("avg: its state is not a count and a sum"),
        }
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
        self.states.retract_batch(&self.quotient.decimals(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.states.supports_retract_batch()
    }
}

/// The same of many groups.
struct ExactAverageGroups {
    states: Box<dyn GroupsAccumulator>,
    quotient: Quotient,
}

impl GroupsAccumulator for ExactAverageGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.states.update_batch(&self.quotient.decimals(values)?, groups, filter, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        match self.states.state(emit_to)?.as_slice() {
            [counts, sums] => self.quotient.of(counts, sums),
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
        self.states.convert_to_state(&self.quotient.decimals(values)?, filter)
    }

    fn size(&self) -> usize {
        self.states.size()
    }
}
