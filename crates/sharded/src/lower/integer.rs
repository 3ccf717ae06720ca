//! Sums, differences and products of whole numbers that fail where the result is too large for its type.
//!
//! A formula of them is computed at once, a block of rows after the other, so that what lies between two operations stays
//! in the nearest cache.
//!
//! Invariant: what is computed without a check is the answer only if the largest numbers that were read cannot make a
//! result that is too large; else the library's checked kernels compute the batch, and say which numbers do.

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
use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;

/// How many bytes of a column are computed at once: of all that a formula reads, a part of the nearest cache.
const BLOCK: usize = 2048;

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

    /// How many operations it has.
    fn operations(&self) -> usize {
        match self {
            Formula::Argument(_) => 0,
            Formula::Operation(_, left, right) => 1 + left.operations() + right.operations(),
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
    fn digits(self) -> Self;
    fn or(self, other: Self) -> Self;
    /// How many digits a number without a sign has.
    fn count(self) -> u32;
}

macro_rules! whole {
    ($number:ty, $signed:literal, $digits:expr) => {
        impl Whole for $number {
            const DIGITS: u32 = <$number>::BITS - $signed as u32;
            const SIGNED: bool = $signed;
            #[inline(always)]
            fn digits(self) -> Self {
                $digits(self)
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            fn count(self) -> u32 {
                Self::BITS - self.leading_zeros()
            }
        }
    };
    ($($signed:ty, $unsigned:ty;)*) => {$(
        whole!($signed, true, |number: $signed| number ^ (number >> (<$signed>::BITS - 1)));
        whole!($unsigned, false, std::convert::identity);
    )*};
}

whole! { i8, u8; i16, u16; i32, u32; i64, u64; }

/// The numbers of an argument, or of what was computed of some.
#[derive(Clone, Copy)]
enum Numbers<'a, N> {
    Column(&'a [N]),
    Same(N),
}

/// The result, if no number of it can be too large.
fn unchecked<P>(formula: &Formula, arguments: &[ColumnarValue]) -> Result<Option<ArrayRef>>
where
    P: ArrowPrimitiveType<Native: Whole>,
{
    let Formula::Operation(op, left, right) = formula else { return Ok(None) };
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
    let mut between = vec![Vec::new(); left.operations() + right.operations()];
    let most = BLOCK / size_of::<P::Native>();
    for first in (0..rows).step_by(most) {
        let rows = first..rows.min(first + most);
        if !append(*op, (left, right), &numbers, rows, &mut result, &mut between) {
            return Ok(None);
        }
    }
    Ok(Some(Arc::new(PrimitiveArray::<P>::new(result.into(), nulls))))
}

/// Appends the results of an operation, if none of some rows can be too large. `between`: memory for each of the
/// operations that come before it.
fn append<N: Whole>(
    op: Operator,
    (left, right): (&Formula, &Formula),
    numbers: &[Numbers<N>],
    rows: Range<usize>,
    out: &mut Vec<N>,
    between: &mut [Vec<N>],
) -> bool {
    let (of_left, of_right) = between.split_at_mut(left.operations());
    let Some(left) = side(left, numbers, rows.clone(), of_left) else { return false };
    let Some(right) = side(right, numbers, rows.clone(), of_right) else { return false };
    use Numbers::{Column, Same};
    match (left, right) {
        (Column(left), Column(right)) => each(op, left.iter().copied().zip(right.iter().copied()), out),
        (Column(left), Same(right)) => each(op, left.iter().map(|&left| (left, right)), out),
        (Same(left), Column(right)) => each(op, right.iter().map(|&right| (left, right)), out),
        (Same(left), Same(right)) => each(op, repeat_n((left, right), rows.len()), out),
    }
}

/// One side of an operation; none if a number of it may be too large.
fn side<'a, N: Whole>(
    formula: &Formula,
    numbers: &'a [Numbers<N>],
    rows: Range<usize>,
    between: &'a mut [Vec<N>],
) -> Option<Numbers<'a, N>> {
    match formula {
        Formula::Argument(number) => Some(match numbers[*number] {
            Numbers::Column(values) => Numbers::Column(&values[rows]),
            same => same,
        }),
        Formula::Operation(op, left, right) => {
            let (out, between) = between.split_first_mut()?;
            out.clear();
            append(*op, (left, right), numbers, rows, out, between).then_some(Numbers::Column(out))
        }
    }
}

/// Appends what comes of each pair, and says whether none can be too large: digits are counted while numbers are read.
/// What stands under a null counts too, which at worst makes a batch be computed with checks.
fn each<N: Whole>(op: Operator, pairs: impl Iterator<Item = (N, N)>, out: &mut Vec<N>) -> bool {
    let (mut all_left, mut all_right) = (N::ZERO, N::ZERO);
    let pairs = pairs.map(|(left, right)| {
        all_left = all_left.or(left.digits());
        all_right = all_right.or(right.digits());
        (left, right)
    });
    match op {
        Operator::Plus => out.extend(pairs.map(|(left, right)| left.add_wrapping(right))),
        Operator::Minus => out.extend(pairs.map(|(left, right)| left.sub_wrapping(right))),
        _ => out.extend(pairs.map(|(left, right)| left.mul_wrapping(right))),
    }
    let (left, right) = (all_left.count(), all_right.count());
    match op {
        // The least number of so many digits is one further from zero than the largest.
        Operator::Multiply => left + right + N::SIGNED as u32 <= N::DIGITS,
        Operator::Minus => N::SIGNED && left.max(right) < N::DIGITS,
        _ => left.max(right) < N::DIGITS,
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
