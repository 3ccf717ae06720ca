//! Sample rows to call a black box with before it runs, and the type of what it returns.
//!
//! The samples are chosen so that most functions run on them without an exception: numbers are one and zero,
//! strings are short and empty.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use pyo3::prelude::*;
use pyo3_arrow::PyDataType;
use std::sync::Arc;

use crate::error::OrRaise;
use crate::rows::{Columns, Row};
use crate::table::NativeSchema;
use crate::{types, values};

/// The type of a column.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "DataType")]
pub struct NativeDataType(
    /// The type of Arrow.
    pub DataType,
);

#[pymethods]
impl NativeDataType {
    /// The type that an object names.
    #[staticmethod]
    fn of(object: &Bound<'_, PyAny>) -> PyResult<NativeDataType> {
        Ok(NativeDataType(types::extract(object)?))
    }

    /// The names of the fields, if it is a struct.
    fn fields(&self) -> Vec<String> {
        match &self.0 {
            DataType::Struct(fields) => fields.iter().map(|f| f.name().clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// The type as Arrow has it.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let data_type = Bound::new(py, PyDataType::new(self.0.clone()))?;
        data_type.call_method0("__arrow_c_schema__")
    }

    /// The name of the type.
    fn __str__(&self) -> String {
        types::name(&self.0)
    }
}

/// The type that holds all of these objects.
///
/// # Errors
/// `InvalidError` if there is no such type.
#[pyfunction]
pub fn infer_type(objects: Vec<Bound<'_, PyAny>>) -> PyResult<NativeDataType> {
    Ok(NativeDataType(values::infer("result", &objects)?))
}

/// Two rows of these columns: one of ones and a letter, one of zeros and empty strings.
///
/// # Errors
/// `InvalidError` if a type has no default.
#[pyfunction]
pub fn sample_rows(schema: &NativeSchema) -> PyResult<Vec<Row>> {
    let columns = schema.0.fields().iter().map(|field| sample(field.data_type()));
    let columns = columns.collect::<PyResult<Vec<_>>>()?;
    // The fields are nullable: the default of some types is null.
    let fields: Vec<Field> =
        schema.0.fields().iter().map(|f| Field::new(f.name(), f.data_type().clone(), true)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(2));
    let batch =
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).or_raise()?;
    Ok(Columns::rows(&batch))
}

/// Two values of a type: one if the type has it, and the default.
fn sample(data_type: &DataType) -> PyResult<ArrayRef> {
    let default = ScalarValue::new_default(data_type).or_raise()?;
    let is_text = match data_type {
        DataType::Dictionary(_, values) => values.is_string(),
        other => other.is_string(),
    };
    let one = match (is_text, data_type) {
        (true, _) => ScalarValue::Utf8(Some("a".into())).cast_to(data_type).or_raise()?,
        (false, DataType::Boolean) => ScalarValue::Boolean(Some(true)),
        (false, _) => ScalarValue::new_one(data_type).unwrap_or_else(|_| default.clone()),
    };
    ScalarValue::iter_to_array([one, default]).or_raise()
}
