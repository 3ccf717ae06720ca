//! Black boxes: Python functions inside expressions.
//!
//! A black box is called once a row, or once a batch with whole columns; the interpreter is entered once a
//! batch. It has to be deterministic, and give each row a result of its own: a filter must give the same
//! result for a start edge and for its end edge. Two black boxes are equal if they are the same Python
//! object and return the same type.

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::error::{OrRaise, PythonError, invalid};
use crate::expr::{NativeExpr, exprs};
use crate::rows::{Columns, Row};
use crate::shutdown::{self, attach_to_compute};
use crate::table::{NativeTable, conform};
use crate::{types, values};

/// How the function is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Convention {
    /// With a row of the first arguments, which have these names, then with the other arguments.
    Row(Vec<String>),
    /// With the arguments.
    Values,
    /// Once a batch, with a table of the arguments; it gives a table with one column, `result`.
    Batch,
}

impl Convention {
    /// With one row of these names, with a table, or else with the arguments.
    fn of(names: Option<Vec<String>>, batches: bool) -> Convention {
        match (names, batches) {
            (Some(names), _) => Convention::Row(names),
            (None, true) => Convention::Batch,
            (None, false) => Convention::Values,
        }
    }
}

/// A Python function as a function of DataFusion.
struct BlackBox {
    /// The name in messages and in the text of expressions.
    label: String,
    function: Py<PyAny>,
    convention: Convention,
    /// The type of the result.
    returns: DataType,
    /// Whether the result is converted to a boolean, as `if` does.
    as_bool: bool,
    signature: Signature,
}

/// Without the address of the function, which is another one in each process: checkpoints say in these words
/// of which query they are.
impl fmt::Debug for BlackBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlackBox")
            .field("label", &self.label)
            .field("convention", &self.convention)
            .field("returns", &self.returns)
            .finish_non_exhaustive()
    }
}

impl BlackBox {
    /// What makes two black boxes equal.
    fn identity(&self) -> (usize, &DataType, &Convention) {
        (self.function.as_ptr() as usize, &self.returns, &self.convention)
    }
}

impl PartialEq for BlackBox {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for BlackBox {}

impl Hash for BlackBox {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

/// A call of a Python function over columns.
///
/// With `names`, as many of the first arguments are passed as one row with these names. With `truth`, the
/// result is converted to a boolean. With `batches`, it is called with a table of the arguments.
///
/// # Errors
/// `InvalidError` if `returns` is no type, or the expression is too deep.
#[pyfunction]
#[pyo3(signature = (function, args, returns, label, names = None, truth = false, batches = false))]
pub fn black_box(
    function: Py<PyAny>,
    args: Vec<NativeExpr>,
    returns: &Bound<'_, PyAny>,
    label: String,
    names: Option<Vec<String>>,
    truth: bool,
    batches: bool,
) -> PyResult<NativeExpr> {
    let schema = args.iter().find_map(|a| a.schema.clone());
    let black_box = BlackBox {
        label,
        function,
        convention: Convention::of(names, batches),
        returns: types::extract(returns)?,
        as_bool: truth,
        signature: signature((!args.is_empty()).then_some(args.len())),
    };
    let udf = Arc::new(ScalarUDF::from(black_box));
    NativeExpr::new(Expr::ScalarFunction(ScalarFunction::new_udf(udf, exprs(args))), schema)
}

/// What is pickled of a black box: its label, the function, the names of the row's columns and whether it
/// takes batches, the type of the result as a stream of Arrow IPC, whether that is converted to a boolean,
/// and how many arguments there are.
type Pickled = (String, Py<PyAny>, (Option<Vec<String>>, bool), Vec<u8>, bool, Option<usize>);

/// The bytes of a black box; none if the function is another one, or cannot be pickled. `cloudpickle` pickles
/// lambdas too, if it is there.
pub fn pickle(py: Python<'_>, function: &ScalarUDF) -> Option<Vec<u8>> {
    let black_box = function.inner().downcast_ref::<BlackBox>()?;
    let names = match &black_box.convention {
        Convention::Row(names) => Some(names.clone()),
        Convention::Values | Convention::Batch => None,
    };
    let names = (names, black_box.convention == Convention::Batch);
    let schema = Schema::new(vec![Field::new("returns", black_box.returns.clone(), true)]);
    let mut returns = Vec::new();
    StreamWriter::try_new(&mut returns, &schema).ok()?.finish().ok()?;
    let arguments = match &black_box.signature.type_signature {
        TypeSignature::Any(arguments) => Some(*arguments),
        _ => None,
    };
    let (label, function) = (black_box.label.clone(), black_box.function.clone_ref(py));
    let pickled: Pickled = (label, function, names, returns, black_box.as_bool, arguments);
    let module = py.import("cloudpickle").or_else(|_| py.import("pickle")).ok()?;
    module.call_method1("dumps", (pickled,)).ok()?.extract().ok()
}

/// The black box of bytes that [`pickle`] gave. It runs code of whoever wrote them.
///
/// # Errors
/// What unpickling raises.
pub fn unpickle(py: Python<'_>, bytes: &[u8]) -> PyResult<ScalarUDF> {
    let read = py.import("pickle")?.call_method1("loads", (PyBytes::new(py, bytes),))?;
    let (label, function, (names, batches), returns, as_bool, arguments): Pickled = read.extract()?;
    let schema = StreamReader::try_new(returns.as_slice(), None).or_raise()?.schema();
    Ok(ScalarUDF::from(BlackBox {
        label,
        function,
        convention: Convention::of(names, batches),
        returns: schema.field(0).data_type().clone(),
        as_bool,
        signature: signature(arguments),
    }))
}

/// The signature of so many arguments.
fn signature(arguments: Option<usize>) -> Signature {
    match arguments {
        None => Signature::nullary(Volatility::Immutable),
        Some(arguments) => Signature::any(arguments, Volatility::Immutable),
    }
}

impl ScalarUDFImpl for BlackBox {
    fn name(&self) -> &str {
        &self.label
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.into_iter().map(|a| a.into_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let called = attach_to_compute(|py| match self.convention {
            Convention::Batch => self.call_with_batch(py, arrays, rows),
            Convention::Row(_) | Convention::Values => self.call(py, arrays, rows),
        })?;
        Ok(ColumnarValue::Array(
            called.map_err(|error| PythonError::wrap(format!("{} failed", self.label), error))?,
        ))
    }
}

impl BlackBox {
    /// Calls the function with a table of the arguments.
    fn call_with_batch(&self, py: Python<'_>, arrays: Vec<ArrayRef>, rows: usize) -> PyResult<ArrayRef> {
        if rows == 0 {
            return Ok(new_empty_array(&self.returns));
        }
        let field = |(place, array): (usize, &ArrayRef)| {
            Field::new(place.to_string(), array.data_type().clone(), true)
        };
        let schema = Arc::new(Schema::new(arrays.iter().enumerate().map(field).collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options).or_raise()?;
        let result = self.function.bind(py).call1((NativeTable { schema, batches: vec![batch] },))?;
        let table = NativeTable::from_arrow(&result)?;
        let schema = Arc::new(Schema::new(vec![Field::new("result", self.returns.clone(), true)]));
        let columns = table.batches.iter().map(|batch| Ok(Arc::clone(conform(batch, &schema)?.column(0))));
        let columns: Vec<ArrayRef> = columns.collect::<PyResult<_>>()?;
        let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
        let given: usize = columns.iter().map(|column| column.len()).sum();
        if given != rows {
            return Err(invalid(format!("it gave {given} values for {rows} rows")));
        }
        concat(&columns).or_raise()
    }

    /// Calls the function once a row.
    fn call(&self, py: Python<'_>, mut arrays: Vec<ArrayRef>, rows: usize) -> PyResult<ArrayRef> {
        let function = self.function.bind(py);
        let row_columns = match &self.convention {
            Convention::Values | Convention::Batch => None,
            Convention::Row(names) => {
                let others = arrays.split_off(names.len());
                Some(Columns::new(names.clone(), std::mem::replace(&mut arrays, others)))
            }
        };
        let mut results = Vec::with_capacity(rows);
        for row in 0..rows {
            let mut parts = Vec::with_capacity(arrays.len() + 1);
            if let Some(columns) = &row_columns {
                parts.push(Py::new(py, Row::new(columns.clone(), row))?.into_any());
            }
            for array in &arrays {
                parts.push(values::cell(py, array.as_ref(), row)?);
            }
            let result = function.call1(PyTuple::new(py, parts)?)?;
            results.push(match self.as_bool {
                true => pyo3::types::PyBool::new(py, result.is_truthy()?).to_owned().into_any(),
                false => result,
            });
            py.check_signals()?;
            shutdown::check().or_raise()?;
        }
        values::column(&self.label, &results, &self.returns)
    }
}
