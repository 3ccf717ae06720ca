//! Rows as Python objects, for black boxes and subscribers.
//!
//! A row is a position in a batch. It copies nothing; a cell becomes a Python object when it is read. Every
//! attribute without a leading underscore is a column. `keys` is a method if no column has that name, so that
//! `dict(row)` works. The iterator gives the values, as that of a row of `sqlite3` does. An unpickled row has
//! its values and no batch.

use arrow::array::{ArrayRef, RecordBatch};
use pyo3::exceptions::{PyAttributeError, PyIndexError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyInt, PyList, PyString, PyTuple, PyType};
use std::collections::HashMap;
use std::sync::Arc;

use crate::error::invalid;
use crate::values;

/// The columns that rows refer to.
#[derive(Debug)]
pub struct Columns {
    /// The names, in the order of the columns.
    names: Vec<String>,
    /// The position of each name.
    positions: HashMap<String, usize>,
    cells: Cells,
}

/// The cells of the columns.
#[derive(Debug)]
enum Cells {
    /// The arrays of a batch.
    Batch(Vec<ArrayRef>),
    /// The values of a single row.
    Values(Vec<Py<PyAny>>),
}

impl Columns {
    /// The columns of a batch.
    pub fn new(names: Vec<String>, arrays: Vec<ArrayRef>) -> Arc<Columns> {
        Columns::of(names, Cells::Batch(arrays))
    }

    /// Columns with an index of their names.
    fn of(names: Vec<String>, cells: Cells) -> Arc<Columns> {
        let positions = names.iter().enumerate().map(|(position, name)| (name.clone(), position)).collect();
        Arc::new(Columns { names, positions, cells })
    }

    /// All rows of a batch as objects.
    pub fn rows(batch: &RecordBatch) -> Vec<Row> {
        let names = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
        let columns = Columns::new(names, batch.columns().to_vec());
        (0..batch.num_rows()).map(|index| Row { columns: columns.clone(), index }).collect()
    }
}

/// How a row is unpickled: its class, the names and the values.
type PickledRow<'py> = (Bound<'py, PyType>, (Vec<String>, Vec<Py<PyAny>>));

/// One row: `row.name`, `row["name"]` and `row[0]` give its values, `dict(row)` all of them; `a, b = row`
/// takes them apart.
#[pyclass(frozen, module = "whimbrel")]
#[derive(Debug, Clone)]
pub struct Row {
    columns: Arc<Columns>,
    index: usize,
}

impl Row {
    /// The row at a position.
    pub fn new(columns: Arc<Columns>, index: usize) -> Row {
        Row { columns, index }
    }

    /// The value at a position.
    fn cell(&self, py: Python<'_>, position: usize) -> PyResult<Py<PyAny>> {
        match &self.columns.cells {
            Cells::Batch(arrays) => values::cell(py, arrays[position].as_ref(), self.index),
            Cells::Values(values) => Ok(values[position].clone_ref(py)),
        }
    }

    /// All values of the row.
    fn cells(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        (0..self.columns.names.len()).map(|position| self.cell(py, position)).collect()
    }

    /// The message for a column that does not exist.
    fn missing(&self, name: &str) -> String {
        missing_message(name, &self.columns.names)
    }
}

#[pymethods]
impl Row {
    /// A row of these values.
    #[new]
    fn of_values(names: Vec<String>, values: Vec<Py<PyAny>>) -> PyResult<Row> {
        if names.len() != values.len() {
            return Err(invalid(format!("{} values for the columns {}", values.len(), names.join(", "))));
        }
        Ok(Row { columns: Columns::of(names, Cells::Values(values)), index: 0 })
    }

    /// A row is pickled by value, without the rest of its batch.
    fn __reduce__<'py>(slf: Bound<'py, Self>) -> PyResult<PickledRow<'py>> {
        let row = slf.get();
        Ok((slf.get_type(), (row.columns.names.clone(), row.cells(slf.py())?)))
    }

    /// The value of a column, by its name as an attribute.
    fn __getattr__(slf: Bound<'_, Self>, name: &str) -> PyResult<Py<PyAny>> {
        let row = slf.get();
        if let Some(&position) = row.columns.positions.get(name) {
            return row.cell(slf.py(), position);
        }
        if name == "keys" {
            let names = row.columns.clone();
            let keys =
                move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
                    Ok(PyList::new(args.py(), &names.names)?.into_any().unbind())
                };
            return Ok(PyCFunction::new_closure(slf.py(), Some(c"keys"), None, keys)?.into_any().unbind());
        }
        Err(PyAttributeError::new_err(row.missing(name)))
    }

    /// The value of a column, by its name or its position.
    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = key.py();
        if let Ok(name) = key.cast::<PyString>() {
            let name = name.to_cow()?;
            return match self.columns.positions.get(name.as_ref()) {
                Some(&position) => self.cell(py, position),
                None => Err(PyKeyError::new_err(self.missing(&name))),
            };
        }
        if key.is_instance_of::<PyInt>() {
            let (at, count) =
                (key.extract::<isize>().unwrap_or(isize::MAX), self.columns.names.len() as isize);
            return match if at < 0 { at + count } else { at } {
                position if (0..count).contains(&position) => self.cell(py, position as usize),
                _ => Err(PyIndexError::new_err(format!("a row of {count} columns has no column {at}"))),
            };
        }
        Err(PyTypeError::new_err("a row is indexed by a column's name or position"))
    }

    /// Whether there is a column of this name.
    fn __contains__(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        match name.cast::<PyString>() {
            Ok(name) => Ok(self.columns.positions.contains_key(name.to_cow()?.as_ref())),
            Err(_) => Ok(false),
        }
    }

    /// The values in the order of the columns.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PyList::new(py, self.cells(py)?)?.try_iter().map(Bound::into_any)
    }

    /// The number of columns.
    fn __len__(&self) -> usize {
        self.columns.names.len()
    }

    /// Whether the other row, or a mapping, has the same names and values.
    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let dict = self.as_dict(py)?;
        match other.cast::<Row>() {
            Ok(other) => dict.eq(other.get().as_dict(py)?),
            Err(_) => dict.eq(other),
        }
    }

    /// A hash of the values.
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyTuple::new(py, self.cells(py)?)?.hash()
    }

    /// The names of the columns.
    fn __dir__(&self) -> Vec<String> {
        self.columns.names.clone()
    }

    /// `Row(item='a', price=1)`
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut parts = Vec::new();
        for (position, name) in self.columns.names.iter().enumerate() {
            parts.push(format!("{name}={}", self.cell(py, position)?.bind(py).repr()?));
        }
        Ok(format!("Row({})", parts.join(", ")))
    }
}

impl Row {
    /// The row as a dict.
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (position, name) in self.columns.names.iter().enumerate() {
            dict.set_item(name, self.cell(py, position)?)?;
        }
        Ok(dict)
    }
}

/// The message for a column that is none of these.
#[pyfunction]
pub fn missing_column(name: &str, known: Vec<String>) -> String {
    missing_message(name, &known)
}

/// The message for a column that is none of these.
fn missing_message(name: &str, names: &[String]) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    whimbrel_plan::names::unknown_column(name, &names).message().into_owned()
}
