//! Floats in the one form in which SQL compares them: 0.0 for both zeros, and one NaN, which is larger than
//! all numbers. Those in lists, structs and dictionaries are compared as they are alone.

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, LargeListArray, ListArray, StructArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, FieldRef, Float16Type, Float32Type, Float64Type,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use std::sync::{Arc, LazyLock};

const NAME: &str = "canonical";

static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| function(false));
static NOT_NULL: LazyLock<ScalarUDF> = LazyLock::new(|| function(true));

/// The functions behind [`canonical`] and [`canonical_not_null`].
pub(crate) fn functions() -> [Arc<ScalarUDF>; 2] {
    [&FUNCTION, &NOT_NULL].map(|function| Arc::new(ScalarUDF::clone(function)))
}

fn function(not_null: bool) -> ScalarUDF {
    ScalarUDF::from(Canonical { not_null, signature: Signature::any(1, Volatility::Immutable) })
}

/// The values of an expression of floats in that form.
pub fn canonical(expr: Expr) -> Expr {
    in_canonical_form(expr, &FUNCTION)
}

/// The same of an expression that gives no null. An executable cast or `case` may not know this of itself,
/// and the planner refuses a key whose executable form may be null where the plan says that it is not.
pub fn canonical_not_null(expr: Expr) -> Expr {
    in_canonical_form(expr, &NOT_NULL)
}

/// Whether a function is the one that gives values in that form.
pub fn is_canonical(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<Canonical>().is_some()
}

/// Calls the function, or folds a literal.
fn in_canonical_form(expr: Expr, function: &ScalarUDF) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(number)), _) => lit(canonical_f64(number)),
        Expr::Literal(ScalarValue::Float32(Some(number)), _) => lit(canonical_f32(number)),
        Expr::ScalarFunction(call) if call.name() == NAME => Expr::ScalarFunction(call),
        other => function.call(vec![other]),
    }
}

/// A number in that form.
///
/// ```
/// use whimbrel_plan::canonical_f64;
///
/// assert_eq!(canonical_f64(-0.0).to_bits(), 0.0_f64.to_bits());
/// ```
pub fn canonical_f64(number: f64) -> f64 {
    if number.is_nan() { f64::NAN } else { number + 0.0 }
}

/// [`canonical_f64`] for 32-bit floats.
fn canonical_f32(number: f32) -> f32 {
    if number.is_nan() { f32::NAN } else { number + 0.0 }
}

/// The scalar function `canonical`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Canonical {
    not_null: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Canonical {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [kind] => Ok(kind.clone()),
            _ => internal_err!("{NAME} is of one value"),
        }
    }

    /// It has a null where its argument has, unless it is known that there is none.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields {
            [of] => {
                let nullable = of.is_nullable() && !self.not_null;
                Ok(Arc::new(Field::new(NAME, of.data_type().clone(), nullable)))
            }
            _ => internal_err!("{NAME} is of one value"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Scalar(value)] => {
                let value = ScalarValue::try_from_array(&canonical_values(&value.to_array()?), 0)?;
                Ok(ColumnarValue::Scalar(value))
            }
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(canonical_values(values))),
            _ => internal_err!("{NAME} is of one value"),
        }
    }
}

/// Whether values of a type are floats, or have floats in them.
pub fn has_floats(kind: &DataType) -> bool {
    match kind {
        DataType::Float64 | DataType::Float32 | DataType::Float16 => true,
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            has_floats(of.data_type())
        }
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::Dictionary(_, values) => has_floats(values),
        _ => false,
    }
}

/// The values with all their floats in that form, those in lists and structs too.
pub fn canonical_values(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::List(field) => {
            let lists = values.as_list::<i32>();
            let within = canonical_values(lists.values());
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Arc::new(ListArray::new(Arc::clone(field), offsets, within, nulls))
        }
        DataType::LargeList(field) => {
            let lists = values.as_list::<i64>();
            let within = canonical_values(lists.values());
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Arc::new(LargeListArray::new(Arc::clone(field), offsets, within, nulls))
        }
        DataType::FixedSizeList(field, size) => {
            let lists = values.as_fixed_size_list();
            let (within, nulls) = (canonical_values(lists.values()), lists.nulls().cloned());
            Arc::new(FixedSizeListArray::new(Arc::clone(field), *size, within, nulls))
        }
        DataType::Dictionary(_, of) if has_floats(of) => {
            let values = values.as_any_dictionary();
            values.with_values(canonical_values(values.values()))
        }
        DataType::Struct(fields) if !fields.is_empty() => {
            let structs = values.as_struct();
            let columns = structs.columns().iter().map(canonical_values).collect();
            Arc::new(StructArray::new(fields.clone(), columns, structs.nulls().cloned()))
        }
        DataType::Float64 => {
            Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(canonical_f64))
        }
        DataType::Float32 => {
            Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(canonical_f32))
        }
        DataType::Float16 => {
            type Half = <Float16Type as ArrowPrimitiveType>::Native;
            let canonical = |number: Half| Half::from_f32(canonical_f32(number.to_f32()));
            Arc::new(values.as_primitive::<Float16Type>().unary::<_, Float16Type>(canonical))
        }
        _ => Arc::clone(values),
    }
}
