//! Operators over batches that are written in Python.
//!
//! Invariant: the interpreter is entered once a batch. The state is a Python object, which is pickled where a
//! query is checkpointed.

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use datafusion::common::Result;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use whimbrel_temporal::operators::{Processed, UserOperator, UserProcess};

use crate::error::{OrRaise, PythonError, invalid};
use crate::shutdown::attach_to_compute;
use crate::table::{NativeTable, conform};
use crate::types;

/// A Python operator, for plans.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Operator")]
pub struct NativeOperator {
    /// The operator as part of a plan.
    pub operator: Arc<dyn UserOperator>,
}

#[pymethods]
impl NativeOperator {
    /// `start` makes an object with `process(table)`, which gives a table with the columns of `returns` and,
    /// or none, a table of one column `made_of`; with `save()`, which gives bytes; and with `restore(bytes)`.
    #[new]
    fn new(
        name: String,
        returns: Vec<(String, Bound<'_, PyAny>)>,
        start: Py<PyAny>,
    ) -> PyResult<NativeOperator> {
        if returns.is_empty() {
            return Err(invalid(format!("{name}: say what it returns, returns={{\"column\": \"float64\"}}")));
        }
        let field = |(name, kind): (String, Bound<'_, PyAny>)| {
            PyResult::Ok(Field::new(name, types::extract(&kind)?, true))
        };
        let fields = returns.into_iter().map(field).collect::<PyResult<Vec<_>>>()?;
        let operator = Arc::new(PythonOperator { name, schema: Arc::new(Schema::new(fields)), start });
        Ok(NativeOperator { operator })
    }
}

/// The operator as the engine calls it.
#[derive(Debug)]
struct PythonOperator {
    name: String,
    schema: SchemaRef,
    start: Py<PyAny>,
}

impl UserOperator for PythonOperator {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn start(&self) -> Result<Box<dyn UserProcess>> {
        let started = attach_to_compute(|py| self.start.call0(py))?;
        let object =
            started.map_err(|error| PythonError::wrap(format!("{} cannot start", self.name), error))?;
        Ok(Box::new(PythonProcess { name: self.name.clone(), schema: Arc::clone(&self.schema), object }))
    }
}

/// An operator in the middle of a stream.
struct PythonProcess {
    name: String,
    schema: SchemaRef,
    object: Py<PyAny>,
}

impl PythonProcess {
    /// Calls Python, and says of what an exception came.
    fn call<T>(&self, what: &str, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
        attach_to_compute(call)?.map_err(|error| PythonError::wrap(format!("{} {what}", self.name), error))
    }

    /// What Python makes of some rows.
    fn process_rows(&self, py: Python<'_>, rows: &RecordBatch) -> PyResult<Processed> {
        let table = NativeTable { schema: rows.schema(), batches: vec![rows.clone()] };
        let made = self.object.bind(py).call_method1("process", (table,))?;
        let (made, made_of): (Bound<'_, PyAny>, Option<Bound<'_, PyAny>>) = made.extract()?;
        let made_of = match made_of {
            None => None,
            Some(table) => {
                let schema = Schema::new(vec![Field::new("made_of", DataType::UInt32, false)]);
                let places = one_batch(&table, &Arc::new(schema))?;
                Some(places.column(0).as_primitive::<UInt32Type>().clone())
            }
        };
        Ok(Processed { rows: one_batch(&made, &self.schema)?, made_of })
    }
}

/// The rows of a table with these columns.
fn one_batch(table: &Bound<'_, PyAny>, schema: &SchemaRef) -> PyResult<RecordBatch> {
    let table = NativeTable::from_arrow(table)?;
    let batches = table.batches.iter().map(|batch| conform(batch, schema)).collect::<PyResult<Vec<_>>>()?;
    concat_batches(schema, &batches).or_raise()
}

impl UserProcess for PythonProcess {
    fn process(&mut self, rows: &RecordBatch) -> Result<Processed> {
        self.call("failed", |py| self.process_rows(py, rows))
    }

    fn save(&self) -> Result<Vec<u8>> {
        self.call("has a state that cannot be pickled", |py| {
            let bytes = self.object.bind(py).call_method0("save")?;
            Ok(bytes.cast::<PyBytes>()?.as_bytes().to_vec())
        })
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.call("has a saved state that cannot be read", |py| {
            self.object.bind(py).call_method1("restore", (PyBytes::new(py, state),)).map(drop)
        })
    }
}
