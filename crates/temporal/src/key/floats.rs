//! Floats that are equal, made the same to the bit.

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, make_array};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::Result;
use half::f16;
use std::sync::Arc;

/// Whether there are floats in values of this type.
pub(crate) fn has_floats(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Float16 | Float32 | Float64 => true,
        List(item) | LargeList(item) | ListView(item) | LargeListView(item) | FixedSizeList(item, _) => {
            has_floats(item.data_type())
        }
        Map(entries, _) => has_floats(entries.data_type()),
        Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        Union(fields, _) => fields.iter().any(|(_, field)| has_floats(field.data_type())),
        Dictionary(_, values) => has_floats(values),
        RunEndEncoded(_, values) => has_floats(values.data_type()),
        _ => false,
    }
}

/// The column with equal floats made the same: every -0.0 is 0.0, and every NaN one and the same.
pub(crate) fn with_equal_floats(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Float16 => equal_floats::<Float16Type>(array, f16::NAN, f16::ZERO, |f| f.is_nan()),
        DataType::Float32 => equal_floats::<Float32Type>(array, f32::NAN, 0.0, f32::is_nan),
        DataType::Float64 => equal_floats::<Float64Type>(array, f64::NAN, 0.0, f64::is_nan),
        other if has_floats(other) => {
            let data = array.to_data();
            let part = |part: &ArrayData| Ok(with_equal_floats(&make_array(part.clone()))?.to_data());
            let parts = data.child_data().iter().map(part).collect::<Result<_>>()?;
            make_array(data.into_builder().child_data(parts).build()?)
        }
        _ => array.clone(),
    })
}

/// Floats of one type with every NaN replaced by `nan` and every zero by `zero`. A column without either is
/// not copied.
fn equal_floats<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    nan: T::Native,
    zero: T::Native,
    is_nan: impl Fn(T::Native) -> bool,
) -> ArrayRef {
    let floats = array.as_primitive::<T>();
    // Of either zero: a null that is one stays one.
    let is_zero = |float: T::Native| float == zero;
    match floats.values().iter().fold(false, |any, &float| any | is_nan(float) | is_zero(float)) {
        false => array.clone(),
        true => Arc::new(floats.unary::<_, T>(|float| match () {
            () if is_nan(float) => nan,
            () if is_zero(float) => zero,
            () => float,
        })),
    }
}
