//! Floats within constant bounds, by the comparisons of the processor.
//!
//! DataFusion compares floats by their bits: -0.0 is below 0.0, and a NaN with a sign below all numbers. So
//! `a < 0.5` reaches it as `a < 0.5 and a >= -infinity` (`lower/canonical.rs`), of which it computes both,
//! each after a search for -0.0. A range of numbers means the same in both orders, and takes one comparison.

use crate::substitute_expr::{Evaluate, SubstituteExpr};
use datafusion::arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use std::collections::HashMap;
use std::sync::Arc;

/// Replaces the conjuncts that say that a float is within bounds, or is not: some are one conjunct, some two.
pub(crate) fn with_float_ranges(conjuncts: Vec<Arc<dyn PhysicalExpr>>) -> Vec<Arc<dyn PhysicalExpr>> {
    let bounds: Vec<Option<Bound>> = conjuncts.iter().map(Bound::of).collect();
    // The lower bounds that wait for an upper one, by the column.
    let mut lower: HashMap<usize, usize> = HashMap::new();
    for (place, bound) in bounds.iter().enumerate() {
        if let Some(Bound { column, side: Side::Lower, .. }) = bound {
            lower.entry(*column).or_insert(place);
        }
    }
    let mut partners: HashMap<usize, usize> = HashMap::new();
    for (place, bound) in bounds.iter().enumerate() {
        if let Some(Bound { column, side: Side::Upper, .. }) = bound
            && let Some(other) = lower.remove(column)
        {
            partners.insert(place.min(other), place.max(other));
        }
    }
    let seconds: Vec<usize> = partners.values().copied().collect();
    let replaced = |(place, conjunct): (usize, &Arc<dyn PhysicalExpr>)| {
        let pair = partners.get(&place).map(|second| {
            let (one, other) = (Arc::clone(conjunct), Arc::clone(&conjuncts[*second]));
            Arc::new(BinaryExpr::new(one, Operator::And, other)) as Arc<dyn PhysicalExpr>
        });
        let whole = pair.unwrap_or_else(|| Arc::clone(conjunct));
        FloatRange::of(&whole).map_or(whole, |range| Arc::new(SubstituteExpr(range)))
    };
    let mut kept: Vec<_> = conjuncts.iter().enumerate().map(replaced).map(Some).collect();
    seconds.into_iter().for_each(|second| kept[second] = None);
    kept.into_iter().flatten().collect()
}

/// Numbers between two of them, both included.
#[derive(Debug, Clone, Copy)]
enum Range {
    Float32(f32, f32),
    Float64(f64, f64),
}

/// A column of floats is within a range, or is not.
#[derive(Debug)]
struct FloatRange {
    original: Arc<dyn PhysicalExpr>,
    column: usize,
    range: Range,
    /// Whether numbers outside are meant, and NaN.
    is_negated: bool,
}

impl Evaluate for FloatRange {
    fn original(&self) -> &Arc<dyn PhysicalExpr> {
        &self.original
    }

    fn data_type(&self) -> &DataType {
        &DataType::Boolean
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let Some(values) = batch.columns().get(self.column) else { return self.original.evaluate(batch) };
        let within = match self.range {
            Range::Float32(low, high) => values.as_primitive_opt::<Float32Type>().map(|values| {
                let values = values.values();
                BooleanBuffer::collect_bool(values.len(), |row| (values[row] >= low) & (values[row] <= high))
            }),
            Range::Float64(low, high) => values.as_primitive_opt::<Float64Type>().map(|values| {
                let values = values.values();
                BooleanBuffer::collect_bool(values.len(), |row| (values[row] >= low) & (values[row] <= high))
            }),
        };
        let Some(within) = within else { return self.original.evaluate(batch) };
        let holds = if self.is_negated { !&within } else { within };
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(holds, values.nulls().cloned()))))
    }

    /// The range that `and` or `or` of two comparisons is.
    fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<FloatRange> {
        let both = expr.downcast_ref::<BinaryExpr>()?;
        let is_negated = match both.op() {
            Operator::And => false,
            Operator::Or => true,
            _ => return None,
        };
        let bound = |expr| if is_negated { Bound::outside(expr) } else { Bound::of(expr) };
        let (one, other) = (bound(both.left())?, bound(both.right())?);
        let (lower, upper) = if one.side == Side::Lower { (one, other) } else { (other, one) };
        if lower.column != upper.column || (lower.side, upper.side) != (Side::Lower, Side::Upper) {
            return None;
        }
        let range = match (lower.value, upper.value) {
            (Number::Float32(low), Number::Float32(high)) => Range::Float32(low, high),
            (Number::Float64(low), Number::Float64(high)) => Range::Float64(low, high),
            _ => return None,
        };
        Some(FloatRange { original: Arc::clone(expr), column: lower.column, range, is_negated })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Lower,
    Upper,
}

#[derive(Debug, Clone, Copy)]
enum Number {
    Float32(f32),
    Float64(f64),
}

/// The least or the largest number that a column may be.
#[derive(Debug, Clone, Copy)]
struct Bound {
    column: usize,
    side: Side,
    value: Number,
}

/// The number that is a bound in the order of the processor, if `column op number` has one in the order of
/// bits. There, -0.0 is the number below 0.0.
macro_rules! bound {
    ($op:expr, $number:expr) => {{
        let (number, is_zero) = ($number, $number == 0.0);
        match $op {
            _ if number.is_nan() => None,
            Operator::GtEq if !is_zero || number.is_sign_negative() => Some((Side::Lower, number)),
            Operator::Gt if !is_zero || number.is_sign_positive() => Some((Side::Lower, number.next_up())),
            Operator::LtEq if !is_zero || number.is_sign_positive() => Some((Side::Upper, number)),
            Operator::Lt if !is_zero || number.is_sign_negative() => Some((Side::Upper, number.next_down())),
            _ => None,
        }
        // Nothing is above infinity, or below minus infinity.
        .filter(|(_, bound)| *bound != number || matches!($op, Operator::GtEq | Operator::LtEq))
    }};
}

impl Bound {
    /// The bound that a comparison of a column with a constant is.
    fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Bound> {
        let (column, op, number) = comparison(expr)?;
        Bound::new(column, op, number)
    }

    /// The bound that has to be passed for a comparison to hold.
    fn outside(expr: &Arc<dyn PhysicalExpr>) -> Option<Bound> {
        let (column, op, number) = comparison(expr)?;
        Bound::new(column, op.negate()?, number)
    }

    fn new(column: usize, op: Operator, number: &ScalarValue) -> Option<Bound> {
        let (side, value) = match number {
            ScalarValue::Float32(Some(number)) => {
                bound!(op, *number).map(|(side, number)| (side, Number::Float32(number)))?
            }
            ScalarValue::Float64(Some(number)) => {
                bound!(op, *number).map(|(side, number)| (side, Number::Float64(number)))?
            }
            _ => return None,
        };
        Some(Bound { column, side, value })
    }
}

/// A column, what it is compared by, and a constant.
fn comparison(expr: &Arc<dyn PhysicalExpr>) -> Option<(usize, Operator, &ScalarValue)> {
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    let column = |expr: &Arc<dyn PhysicalExpr>| Some(expr.downcast_ref::<Column>()?.index());
    match (column(binary.left()), column(binary.right())) {
        (Some(column), None) => {
            Some((column, *binary.op(), binary.right().downcast_ref::<Literal>()?.value()))
        }
        (None, Some(column)) => {
            Some((column, binary.op().swap()?, binary.left().downcast_ref::<Literal>()?.value()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Float32Array, Float64Array};
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::conjunction;
    use datafusion::physical_expr::expressions::{binary, lit};

    const NUMBERS: [f64; 14] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        -5e-324,
    ];
    const OPS: [Operator; 4] = [Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];

    /// Rows with every number, and a null.
    fn rows(of: &DataType) -> RecordBatch {
        let numbers = || NUMBERS.into_iter().map(Some).chain([None]);
        let column: ArrayRef = match of {
            DataType::Float32 => Arc::new(Float32Array::from_iter(numbers().map(|n| n.map(|n| n as f32)))),
            _ => Arc::new(Float64Array::from_iter(numbers())),
        };
        let schema = Schema::new(vec![Field::new("a", of.clone(), true)]);
        RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap()
    }

    fn compare(op: Operator, number: f64, of: &DataType) -> Arc<dyn PhysicalExpr> {
        let number = match of {
            DataType::Float32 => ScalarValue::from(number as f32),
            _ => ScalarValue::from(number),
        };
        Arc::new(BinaryExpr::new(Arc::new(Column::new("a", 0)), op, lit(number)))
    }

    fn values(expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> ArrayRef {
        expr.evaluate(rows).unwrap().into_array(rows.num_rows()).unwrap()
    }

    /// All pairs of bounds, inside and outside, are what DataFusion says they are.
    #[test]
    fn the_answer_is_that_of_datafusion() {
        let mut found = 0;
        for of in [DataType::Float64, DataType::Float32] {
            let rows = rows(&of);
            let bounds = || OPS.into_iter().flat_map(|op| NUMBERS.map(|number| (op, number)));
            for ((one, low), (other, high)) in
                bounds().flat_map(|one| bounds().map(move |other| (one, other)))
            {
                let pair = [compare(one, low, &of), compare(other, high, &of)];
                let either = binary(pair[0].clone(), Operator::Or, pair[1].clone(), &rows.schema()).unwrap();
                for conjuncts in [pair.to_vec(), vec![either]] {
                    let expected = conjunction(conjuncts.clone());
                    let ranges = with_float_ranges(conjuncts);
                    found += usize::from(ranges.len() == 1 && ranges[0].is::<SubstituteExpr<FloatRange>>());
                    let name = expected.to_string();
                    assert_eq!(&values(&conjunction(ranges), &rows), &values(&expected, &rows), "{name}");
                }
            }
        }
        assert!(found > 1_000, "{found} ranges");
    }

    #[test]
    fn a_bound_has_one_partner() {
        let of = DataType::Float64;
        let other = binary(
            Arc::new(Column::new("b", 1)),
            Operator::Lt,
            lit(2.0),
            &Schema::new(vec![Field::new("a", of.clone(), true), Field::new("b", of.clone(), true)]),
        )
        .unwrap();
        let conjuncts = vec![
            compare(Operator::Lt, 5.0, &of),
            other,
            compare(Operator::LtEq, 3.0, &of),
            compare(Operator::GtEq, f64::NEG_INFINITY, &of),
        ];
        let found: Vec<String> = with_float_ranges(conjuncts).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["a@0 < 5 AND a@0 >= -inf", "b@1 < 2", "a@0 <= 3"]);
    }
}
