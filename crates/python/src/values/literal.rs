//! Python to DataFusion: one literal.
//!
//! It is written as a column of one row, so that a literal and a column of the same object have the same
//! type.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use pyo3::prelude::*;

use super::infer::infer;
use super::write::column;
use crate::error::OrRaise;

/// A literal of this type, or of the type of the object.
///
/// # Errors
/// `InvalidError` if the object is no value of the type.
pub fn literal(object: &Bound<'_, PyAny>, data_type: Option<&DataType>) -> PyResult<ScalarValue> {
    let objects = [object.clone()];
    let inferred;
    let data_type = match data_type {
        Some(data_type) => data_type,
        None => {
            inferred = infer("literal", &objects)?;
            &inferred
        }
    };
    ScalarValue::try_from_array(&column("literal", &objects, data_type)?, 0).or_raise()
}
