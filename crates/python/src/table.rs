//! Tables and schemas of Python. They are exchanged by the Arrow PyCapsule interface, without copies.
//!
//! A table is also made of Python objects: dicts, rows, tuples or objects with attributes. Their columns are
//! found by name, or in tuples by position.
//!
//! Invariant: no value is changed to fit a column. A cast that would lose one is an `InvalidError`.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyTuple, PyType};
use pyo3_arrow::input::AnyRecordBatch;
use pyo3_arrow::{PySchema, PyTable};
use std::sync::Arc;
use whimbrel_plan::names::unknown_column;

use crate::error::{OrRaise, invalid, raise};
use crate::rows::{Columns, Row};
use crate::{types, values};

/// How a schema or a table is unpickled: its class, and its bytes.
type Pickled<'py> = (Bound<'py, PyType>, (Bound<'py, PyBytes>,));

/// Rows as a stream of Arrow's IPC format.
fn ipc(schema: &SchemaRef, batches: &[RecordBatch]) -> PyResult<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, schema).or_raise()?;
    batches.iter().try_for_each(|batch| writer.write(batch)).or_raise()?;
    writer.finish().or_raise()?;
    drop(writer);
    Ok(bytes)
}

/// A schema: the names and types of columns.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Schema")]
pub struct NativeSchema(pub SchemaRef);

#[pymethods]
impl NativeSchema {
    /// The schema of a stream of Arrow's IPC format, as pickles have it.
    #[new]
    fn of_ipc(ipc: &[u8]) -> PyResult<NativeSchema> {
        Ok(NativeSchema(NativeTable::of_ipc(ipc)?.schema))
    }

    /// A schema is pickled as a stream without rows.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        let ipc = ipc(&slf.get().0, &[])?;
        Ok((slf.get_type(), (PyBytes::new(slf.py(), &ipc),)))
    }

    /// A schema of these names and types.
    #[staticmethod]
    fn of(fields: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<NativeSchema> {
        let field = |(name, data_type): (String, Bound<'_, PyAny>)| -> PyResult<Field> {
            Ok(Field::new(name, types::extract(&data_type)?, true))
        };
        let fields = fields.into_iter().map(field).collect::<PyResult<Vec<_>>>()?;
        Ok(NativeSchema(Arc::new(Schema::new(fields))))
    }

    /// The schema of any object with `__arrow_c_schema__`.
    #[staticmethod]
    fn from_arrow(object: &Bound<'_, PyAny>) -> PyResult<NativeSchema> {
        let capsule = object.call_method0("__arrow_c_schema__")?;
        let schema = PySchema::from_arrow_pycapsule(capsule.cast()?)?;
        Ok(NativeSchema(schema.into_inner()))
    }

    /// The names of the columns.
    fn names(&self) -> Vec<String> {
        names(&self.0)
    }

    /// The names of the types of the columns.
    fn types(&self) -> Vec<String> {
        self.0.fields().iter().map(|f| types::name(f.data_type())).collect()
    }

    /// The schema as Arrow has it.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(pyo3_arrow::ffi::to_schema_pycapsule(py, self.0.as_ref())?)
    }
}

/// A table in memory: a schema and batches.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Table")]
pub struct NativeTable {
    /// The schema of all batches.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}

#[pymethods]
impl NativeTable {
    /// The table of a stream of Arrow's IPC format, as pickles have it.
    #[new]
    fn of_ipc(ipc: &[u8]) -> PyResult<NativeTable> {
        let reader = StreamReader::try_new(ipc, None).or_raise()?;
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<_>, _>>().or_raise()?;
        Ok(NativeTable { schema, batches })
    }

    /// A table is pickled with its rows.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        let table = slf.get();
        let ipc = ipc(&table.schema, &table.batches)?;
        Ok((slf.get_type(), (PyBytes::new(slf.py(), &ipc),)))
    }

    /// A table of any object with `__arrow_c_stream__` or `__arrow_c_array__`.
    ///
    /// # Errors
    /// What the object raises.
    #[staticmethod]
    pub fn from_arrow(object: &Bound<'_, PyAny>) -> PyResult<NativeTable> {
        let input: AnyRecordBatch = object.extract()?;
        let (batches, schema) = input.into_table()?.into_inner();
        Ok(NativeTable { schema, batches })
    }

    /// A table of dicts, rows or tuples. Types that are not given are inferred from all rows.
    ///
    /// # Errors
    /// `InvalidError` if a value has no column, or does not fit its type.
    #[staticmethod]
    #[pyo3(signature = (rows, names, types))]
    pub fn from_rows(
        rows: Vec<Bound<'_, PyAny>>,
        names: Vec<String>,
        types: Vec<Option<Bound<'_, PyAny>>>,
    ) -> PyResult<NativeTable> {
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        rows.iter().try_for_each(|row| check_names(row, &known))?;
        let (mut fields, mut columns): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
        for (position, (name, given)) in names.iter().zip(&types).enumerate() {
            let cells = rows.iter().map(|row| row_cell(row, name, position)).collect::<PyResult<Vec<_>>>()?;
            let data_type = match given {
                Some(given) => types::extract(given)?,
                None => values::infer(name, &cells)?,
            };
            columns.push(values::column(name, &cells, &data_type)?);
            fields.push(Field::new(name, data_type, true));
        }
        let schema = Arc::new(Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options).or_raise()?;
        Ok(NativeTable { schema, batches: vec![batch] })
    }

    /// A table of dicts, rows or tuples with the columns of a schema.
    #[staticmethod]
    fn from_rows_like(rows: Vec<Bound<'_, PyAny>>, schema: &NativeSchema) -> PyResult<NativeTable> {
        let names = names(&schema.0);
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        rows.iter().try_for_each(|row| check_names(row, &known))?;
        let mut columns: Vec<ArrayRef> = Vec::new();
        for (position, field) in schema.0.fields().iter().enumerate() {
            let cells =
                rows.iter().map(|row| row_cell(row, field.name(), position)).collect::<PyResult<Vec<_>>>()?;
            columns.push(values::column(field.name(), &cells, field.data_type())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(schema.0.clone(), columns, &options).or_raise()?;
        Ok(NativeTable { schema: schema.0.clone(), batches: vec![batch] })
    }

    /// The same rows with the columns of a schema, matched by name. Types are cast if no value is lost.
    fn conform(&self, schema: &NativeSchema) -> PyResult<NativeTable> {
        let batches = self.batches.iter().map(|batch| conform(batch, &schema.0));
        Ok(NativeTable { schema: schema.0.clone(), batches: batches.collect::<PyResult<_>>()? })
    }

    /// The schema.
    fn schema(&self) -> NativeSchema {
        NativeSchema(self.schema.clone())
    }

    /// The number of rows.
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The size in memory, in bytes.
    fn nbytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    /// The rows from `offset` on, at most `limit`.
    pub fn slice(&self, mut offset: usize, mut limit: usize) -> NativeTable {
        let mut batches = Vec::new();
        for batch in &self.batches {
            let skipped = offset.min(batch.num_rows());
            let taken = limit.min(batch.num_rows() - skipped);
            offset -= skipped;
            limit -= taken;
            if taken > 0 {
                batches.push(batch.slice(skipped, taken));
            }
        }
        NativeTable { schema: self.schema.clone(), batches }
    }

    /// The rows as objects.
    fn rows(&self) -> Vec<Row> {
        self.batches.iter().flat_map(Columns::rows).collect()
    }

    /// The values of a column.
    fn column(&self, py: Python<'_>, name: &str) -> PyResult<Vec<Py<PyAny>>> {
        let position = self.schema.index_of(name).or_raise()?;
        let mut cells = Vec::with_capacity(self.num_rows());
        for batch in &self.batches {
            let column = batch.column(position);
            for row in 0..column.len() {
                cells.push(values::cell(py, column.as_ref(), row)?);
            }
        }
        Ok(cells)
    }

    /// The rows as a stream of Arrow.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let table = PyTable::try_new(self.batches.clone(), self.schema.clone())?;
        let table = Bound::new(py, table)?;
        table.call_method1("__arrow_c_stream__", (requested_schema,))
    }
}

impl NativeTable {
    /// The rows sorted by the first column. The sort is stable.
    ///
    /// # Errors
    /// `InternalError` if the first column is no time.
    pub fn sorted_by_first(&self) -> PyResult<NativeTable> {
        let batch = arrow::compute::concat_batches(&self.schema, &self.batches).or_raise()?;
        let mut order: Vec<u32> = (0..batch.num_rows() as u32).collect();
        let starts = arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::Int64).or_raise()?;
        let starts = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(&starts);
        order.sort_by_key(|row| starts.value(*row as usize));
        let batch = arrow::compute::take_record_batch(&batch, &UInt32Array::from(order)).or_raise()?;
        Ok(NativeTable { schema: self.schema.clone(), batches: vec![batch] })
    }
}

/// A batch with the columns of a schema.
///
/// # Errors
/// `InvalidError` if a column is missing, not known, or has a value that its type does not have.
pub fn conform(batch: &RecordBatch, schema: &SchemaRef) -> PyResult<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch.clone());
    }
    let known: Vec<&str> = batch.schema_ref().fields().iter().map(|f| f.name().as_str()).collect();
    let mut columns = Vec::new();
    for field in schema.fields() {
        let Some(column) = batch.column_by_name(field.name()) else {
            return Err(raise(unknown_column(field.name(), &known)));
        };
        columns.push(values::cast_exactly(field.name(), column, field.data_type())?);
    }
    if let Some(extra) = known.iter().find(|name| schema.field_with_name(name).is_err()) {
        let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        return Err(unknown_name(extra, &known));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).or_raise()
}

/// The error for a column that the source does not have.
fn unknown_name(extra: &str, known: &[&str]) -> PyErr {
    invalid(format!("column \"{extra}\" is none of the source's: {}", known.join(", ")))
}

/// Checks that every value of a row has a column.
fn check_names(row: &Bound<'_, PyAny>, known: &[&str]) -> PyResult<()> {
    if let Ok(row) = row.cast::<PyDict>() {
        for key in row.keys() {
            let key = values::key(&key)?;
            if !known.contains(&key.as_str()) {
                return Err(unknown_name(&key, known));
            }
        }
    } else if is_sequence(row) && !row.hasattr("_fields")? && row.len()? > known.len() {
        let (given, wanted) = (row.len()?, known.len());
        return Err(invalid(format!("a row of {given} values for {wanted} columns: {}", known.join(", "))));
    }
    Ok(())
}

/// Whether a row is a sequence of values in the order of the columns.
fn is_sequence(row: &Bound<'_, PyAny>) -> bool {
    row.is_instance_of::<PyTuple>() || row.is_instance_of::<PyList>()
}

/// The names of the columns.
fn names(schema: &SchemaRef) -> Vec<String> {
    schema.fields().iter().map(|f| f.name().clone()).collect()
}

/// A cell of a row: of a mapping, where an absent one is null, of a tuple or list, or of an object with
/// attributes.
fn row_cell<'py>(row: &Bound<'py, PyAny>, name: &str, position: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = row.py();
    if is_sequence(row) {
        return row.get_item(position).map_err(|_| {
            invalid(format!(
                "a row of {} values has no column \"{name}\" (number {})",
                row.len().unwrap_or(0),
                position + 1
            ))
        });
    }
    if row.hasattr("keys")? {
        return match row.get_item(name) {
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyKeyError>(py) => {
                Ok(py.None().into_bound(py))
            }
            found => found,
        };
    }
    row.getattr(name).map_err(|_| {
        invalid(format!(
            "{} has no column \"{name}\": a row is a dict, a tuple, or has attributes",
            values::show(row)
        ))
    })
}
