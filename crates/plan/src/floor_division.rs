//! `%` and `//` of integers and floats as Python has them: the quotient is rounded down, and the remainder
//! has the sign of the divisor.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::kernels::zip::zip;
use arrow::compute::kernels::{cmp, numeric};
use arrow::compute::{and, cast, or, unary};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// Python's `%`.
static FLOOR_MOD: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(FloorFunction::new("floor_mod").into()));
/// Python's `//`.
static FLOOR_DIV: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(FloorFunction::new("floor_div").into()));

/// Python's `%`.
pub fn floor_mod(left: Expr, right: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(FLOOR_MOD.clone(), vec![left, right]))
}

/// Python's `//`.
pub fn floor_div(left: Expr, right: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(FLOOR_DIV.clone(), vec![left, right]))
}

/// Both functions.
pub(crate) fn functions() -> [Arc<ScalarUDF>; 2] {
    [Arc::clone(&FLOOR_MOD), Arc::clone(&FLOOR_DIV)]
}

/// `floor_mod` and `floor_div`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FloorFunction {
    name: &'static str,
    signature: Signature,
}

impl FloorFunction {
    fn new(name: &'static str) -> FloorFunction {
        FloorFunction { name, signature: Signature::numeric(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for FloorFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right]: [ColumnarValue; 2] = match args.args.try_into() {
            Ok(args) => args,
            Err(args) => return internal_err!("{} takes 2 arguments, got {}", self.name, args.len()),
        };
        let left = left.into_array(args.number_rows)?;
        match self.name {
            "floor_mod" => Ok(ColumnarValue::Array(floored_remainder(&left, &right, args.number_rows)?)),
            _ => Ok(ColumnarValue::Array(floored_quotient(&left, &right.into_array(args.number_rows)?)?)),
        }
    }
}

/// The remainder with the sign of the divisor. For a column and a positive number, the common case, it takes
/// one pass.
fn floored_remainder(left: &ArrayRef, right: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    if let (Some(left), ColumnarValue::Scalar(ScalarValue::Int64(Some(divisor @ 1..)))) =
        (left.as_primitive_opt::<Int64Type>(), right)
    {
        return Ok(Arc::new(unary::<_, _, Int64Type>(left, |value| value.rem_euclid(*divisor))));
    }
    let right = right.clone().into_array(rows)?;
    let remainder = numeric::rem(left, &right)?;
    if left.data_type().is_unsigned_integer() {
        return Ok(remainder);
    }
    let sum = cast(&numeric::add_wrapping(&remainder, &right)?, remainder.data_type())?;
    Ok(zip(&signs_differ(&remainder, &right)?, &sum, &remainder)?)
}

/// The quotient, rounded down.
fn floored_quotient(left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
    let remainder = numeric::rem(left, right)?;
    if left.data_type().is_integer() {
        let quotient = numeric::div(left, right)?;
        if left.data_type().is_unsigned_integer() {
            return Ok(quotient);
        }
        let one = ScalarValue::new_one(left.data_type())?.to_scalar()?;
        let below = numeric::sub_wrapping(&quotient, &one)?;
        return Ok(zip(&signs_differ(&remainder, right)?, &below, &quotient)?);
    }
    let remainder = floored_remainder(left, &ColumnarValue::Array(Arc::clone(right)), left.len())?;
    Ok(numeric::div(&numeric::sub_wrapping(left, &remainder)?, right)?)
}

/// Where one is negative and the other one positive.
fn signs_differ(one: &ArrayRef, other: &ArrayRef) -> Result<BooleanArray> {
    let first = and(&is_negative(one)?, &is_positive(other)?)?;
    Ok(or(&first, &and(&is_positive(one)?, &is_negative(other)?)?)?)
}

fn is_positive(values: &ArrayRef) -> Result<BooleanArray> {
    Ok(cmp::gt(values, &ScalarValue::new_zero(values.data_type())?.to_scalar()?)?)
}

/// In the order of the kernels -0.0 is less than 0.0.
fn is_negative(values: &ArrayRef) -> Result<BooleanArray> {
    let zero = ScalarValue::new_zero(values.data_type())?.arithmetic_negate()?;
    Ok(cmp::lt(values, &zero.to_scalar()?)?)
}
