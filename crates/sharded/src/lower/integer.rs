//! Sums, differences and products of whole numbers that fail where the result is too large for its type.
//!
//! A formula of them is computed at once, a block of rows after the other, so that what lies between two operations stays
//! in the nearest cache.
//!
//! Invariant: whether a block is computed without a check does not change an answer. It is if the largest of its numbers
//! cannot make a result that is too large; else the library's checked kernels compute the batch, and say which numbers do.

use datafusion::arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, AsArray, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr_common::datum::apply;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// How many rows are computed at once.
const BLOCK: usize = 1024;

/// What is computed of the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Formula {
    /// The argument of this number.
    Argument(usize),
    /// A sum, a difference or a product.
    Operation(Operator, Box<Formula>, Box<Formula>),
}

impl Formula {
    /// The same over arguments with numbers that are so much larger.
    pub fn after(self, first: usize) -> Formula {
        match self {
            Formula::Argument(number) => Formula::Argument(first + number),
            Formula::Operation(op, left, right) => {
                Formula::Operation(op, Box::new(left.after(first)), Box::new(right.after(first)))
            }
        }
    }

    /// How many results lie between two operations at most.
    fn depth(&self) -> usize {
        match self {
            Formula::Argument(_) => 0,
            Formula::Operation(_, left, right) => match right.as_ref() {
                Formula::Argument(_) => left.depth(),
                operation => left.depth().max(1 + operation.depth()),
            },
        }
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Formula::Argument(number) => write!(f, "#{number}"),
            Formula::Operation(op, left, right) => write!(f, "({left} {op} {right})"),
        }
    }
}

/// Whether an operation on these types can be computed here.
pub(super) fn is_possible((left, right): &(DataType, DataType)) -> bool {
    left.is_integer() && left == right
}

/// The result of a formula over whole numbers of one type.
pub(super) fn compute(formula: &Formula, arguments: &[ColumnarValue]) -> Result<ColumnarValue> {
    let Some(first) = arguments.first() else { return internal_err!("a formula has arguments") };
    let unchecked = match first.data_type() {
        DataType::Int8 => unchecked::<Int8Type>(formula, arguments)?,
        DataType::Int16 => unchecked::<Int16Type>(formula, arguments)?,
        DataType::Int32 => unchecked::<Int32Type>(formula, arguments)?,
        DataType::Int64 => unchecked::<Int64Type>(formula, arguments)?,
        DataType::UInt8 => unchecked::<UInt8Type>(formula, arguments)?,
        DataType::UInt16 => unchecked::<UInt16Type>(formula, arguments)?,
        DataType::UInt32 => unchecked::<UInt32Type>(formula, arguments)?,
        DataType::UInt64 => unchecked::<UInt64Type>(formula, arguments)?,
        _ => None,
    };
    unchecked.map_or_else(|| checked(formula, arguments), |array| Ok(ColumnarValue::Array(array)))
}

fn checked(formula: &Formula, arguments: &[ColumnarValue]) -> Result<ColumnarValue> {
    match formula {
        Formula::Argument(number) => Ok(arguments[*number].clone()),
        Formula::Operation(op, left, right) => {
            let (left, right) = (checked(left, arguments)?, checked(right, arguments)?);
            match op {
                Operator::Plus => apply(&left, &right, add),
                Operator::Minus => apply(&left, &right, sub),
                _ => apply(&left, &right, mul),
            }
        }
    }
}

/// Whole numbers of which the binary digits can be counted.
trait Whole: ArrowNativeTypeOp {
    /// How many digits a result may have.
    const DIGITS: u32;
    const SIGNED: bool;
    /// The digits without the sign: a negative number has those of the one that it is the complement of.
    fn digits(self) -> u64;
}

macro_rules! whole {
    ($($signed:ty, $unsigned:ty;)*) => {$(
        impl Whole for $signed {
            const DIGITS: u32 = <$signed>::BITS - 1;
            const SIGNED: bool = true;
            #[inline(always)]
            fn digits(self) -> u64 {
                (self as i64 ^ (self as i64 >> 63)) as u64
            }
        }
        impl Whole for $unsigned {
            const DIGITS: u32 = <$unsigned>::BITS;
            const SIGNED: bool = false;
            #[inline(always)]
            fn digits(self) -> u64 {
                self as u64
            }
        }
    )*};
}

whole! { i8, u8; i16, u16; i32, u32; i64, u64; }

/// The numbers of an argument.
enum Numbers<'a, N> {
    Column(&'a [N]),
    Same(N),
}

/// The result, if no number of it can be too large.
fn unchecked<P>(formula: &Formula, arguments: &[ColumnarValue]) -> Result<Option<ArrayRef>>
where
    P: ArrowPrimitiveType<Native: Whole>,
{
    let (mut numbers, mut nulls, mut rows) = (Vec::new(), None, None);
    for argument in arguments {
        match argument {
            ColumnarValue::Array(array) => {
                nulls = NullBuffer::union(nulls.as_ref(), array.nulls());
                rows = Some(array.len());
                numbers.push(Numbers::Column(array.as_primitive::<P>().values().as_ref()));
            }
            ColumnarValue::Scalar(value) if !value.is_null() => {
                numbers.push(Numbers::Same(value.to_array()?.as_primitive::<P>().value(0)));
            }
            ColumnarValue::Scalar(_) => return Ok(None),
        }
    }
    let Some(rows) = rows else { return Ok(None) };
    let mut result = Vec::with_capacity(rows);
    let mut block = vec![P::Native::default(); BLOCK.min(rows)];
    let mut between = vec![block.clone(); formula.depth()];
    for first in (0..rows).step_by(BLOCK) {
        let rows = first..rows.min(first + BLOCK);
        let largest: Vec<u32> = numbers.iter().map(|numbers| numbers.largest(rows.clone())).collect();
        if largest_of::<P::Native>(formula, &largest).is_none() {
            return Ok(None);
        }
        let out = &mut block[..rows.len()];
        block_of(formula, &numbers, rows, out, &mut between);
        result.extend_from_slice(out);
    }
    Ok(Some(Arc::new(PrimitiveArray::<P>::new(result.into(), nulls))))
}

impl<N: Whole> Numbers<'_, N> {
    /// How many digits the number with the most of them has. What stands under a null counts, which at worst makes a
    /// batch be computed with checks.
    fn largest(&self, rows: Range<usize>) -> u32 {
        let digits = match self {
            Numbers::Column(values) => values[rows].iter().fold(0, |all, value| all | value.digits()),
            Numbers::Same(value) => value.digits(),
        };
        u64::BITS - digits.leading_zeros()
    }
}

/// How many digits the results have at most; none if that may be too many.
fn largest_of<N: Whole>(formula: &Formula, largest: &[u32]) -> Option<u32> {
    let Formula::Operation(op, left, right) = formula else {
        let Formula::Argument(number) = formula else { return None };
        return Some(largest[*number]);
    };
    let (left, right) = (largest_of::<N>(left, largest)?, largest_of::<N>(right, largest)?);
    let digits = match op {
        // The least number of so many digits is one further from zero than the largest.
        Operator::Multiply => left + right + N::SIGNED as u32,
        Operator::Minus if !N::SIGNED => return None,
        _ => left.max(right) + 1,
    };
    (digits <= N::DIGITS).then_some(digits)
}

/// Computes some rows; `between`: memory for what lies between two operations.
fn block_of<N: Whole>(
    formula: &Formula,
    numbers: &[Numbers<N>],
    rows: Range<usize>,
    out: &mut [N],
    between: &mut [Vec<N>],
) {
    let (op, left, right) = match formula {
        Formula::Operation(op, left, right) => (op, left, right),
        Formula::Argument(number) => {
            return match &numbers[*number] {
                Numbers::Column(values) => out.copy_from_slice(&values[rows]),
                Numbers::Same(value) => out.fill(*value),
            };
        }
    };
    block_of(left, numbers, rows.clone(), out, between);
    match right.as_ref() {
        Formula::Argument(number) => match &numbers[*number] {
            Numbers::Column(values) => with_each(*op, out, &values[rows]),
            Numbers::Same(value) => with_one(*op, out, *value),
        },
        operation => {
            let Some((own, between)) = between.split_first_mut() else { return };
            let own = &mut own[..rows.len()];
            block_of(operation, numbers, rows, own, between);
            with_each(*op, out, own);
        }
    }
}

fn with_each<N: Whole>(op: Operator, left: &mut [N], right: &[N]) {
    let pairs = left.iter_mut().zip(right);
    match op {
        Operator::Plus => pairs.for_each(|(left, right)| *left = left.add_wrapping(*right)),
        Operator::Minus => pairs.for_each(|(left, right)| *left = left.sub_wrapping(*right)),
        _ => pairs.for_each(|(left, right)| *left = left.mul_wrapping(*right)),
    }
}

fn with_one<N: Whole>(op: Operator, left: &mut [N], right: N) {
    match op {
        Operator::Plus => left.iter_mut().for_each(|left| *left = left.add_wrapping(right)),
        Operator::Minus => left.iter_mut().for_each(|left| *left = left.sub_wrapping(right)),
        _ => left.iter_mut().for_each(|left| *left = left.mul_wrapping(right)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int64Array, UInt8Array};
    use datafusion::common::ScalarValue;

    fn of(op: Operator, left: Formula, right: Formula) -> Formula {
        Formula::Operation(op, Box::new(left), Box::new(right))
    }

    /// `(#0 * #1) - (#0 + #2)`
    fn formula() -> Formula {
        let argument = Formula::Argument;
        let product = of(Operator::Multiply, argument(0), argument(1));
        of(Operator::Minus, product, of(Operator::Plus, argument(0), argument(2)))
    }

    fn column(values: impl IntoIterator<Item = Option<i64>>) -> ColumnarValue {
        ColumnarValue::Array(Arc::new(Int64Array::from_iter(values)))
    }

    fn computed(arguments: &[ColumnarValue]) -> Result<Vec<Option<i64>>> {
        let result = compute(&formula(), arguments)?.into_array(1)?;
        Ok(result.as_primitive::<Int64Type>().iter().collect())
    }

    #[test]
    fn a_formula_over_many_blocks() {
        let rows = 3 * BLOCK as i64 + 5;
        let left = column((0..rows).map(|i| (i % 7 != 0).then_some(i - 1000)));
        let right = column((0..rows).map(|i| (i % 5 != 0).then_some(-i)));
        let four = ColumnarValue::Scalar(ScalarValue::Int64(Some(4)));
        let wanted =
            (0..rows).map(|i| (i % 7 != 0 && i % 5 != 0).then(|| (i - 1000) * -i - ((i - 1000) + 4)));
        assert_eq!(computed(&[left, right, four]).unwrap(), wanted.collect::<Vec<_>>());
    }

    #[test]
    fn numbers_at_the_limits_are_computed_with_checks() {
        let some = |value| column([Some(1), Some(value)]);
        let zero = ColumnarValue::Scalar(ScalarValue::Int64(Some(0)));
        let one = ColumnarValue::Scalar(ScalarValue::Int64(Some(1)));
        assert_eq!(computed(&[some(i64::MAX), one.clone(), zero]).unwrap(), [Some(0), Some(0)]);
        let error = computed(&[some(i64::MAX), one.clone(), one]).unwrap_err().to_string();
        assert!(error.contains("Overflow") && error.contains("9223372036854775807"), "{error}");
    }

    #[test]
    fn what_has_no_sign_does_not_fall_below_zero() {
        let bytes = |values: Vec<u8>| ColumnarValue::Array(Arc::new(UInt8Array::from(values)));
        let less = of(Operator::Minus, Formula::Argument(0), Formula::Argument(1));
        let result = compute(&less, &[bytes(vec![5, 255]), bytes(vec![3, 255])]).unwrap();
        assert_eq!(result.into_array(2).unwrap().as_ref(), &UInt8Array::from(vec![2, 0]));
        assert!(compute(&less, &[bytes(vec![5]), bytes(vec![6])]).is_err());
    }
}
