//! Black boxes: Python functions inside expressions.
//!
//! A black box is called once a row, and the interpreter is entered once a batch. It has to be deterministic:
//! a filter must give the same result for a start edge and for its end edge. Two black boxes are equal if
//! they are the same Python object and return the same type.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::error::{OrRaise, PythonError};
use crate::expr::{NativeExpr, exprs};
use crate::rows::{Columns, Row};
use crate::shutdown::{self, attach};
use crate::{types, values};

/// How the function is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Convention {
    /// With a row of the first arguments, which have these names, then with the other arguments.
    Row(Vec<String>),
    /// With the arguments.
    Values,
}

/// A Python function as a function of DataFusion.
#[derive(Debug)]
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
/// result is converted to a boolean.
///
/// # Errors
/// `InvalidError` if `returns` is no type, or the expression is too deep.
#[pyfunction]
#[pyo3(signature = (function, args, returns, label, names = None, truth = false))]
pub fn black_box(
    function: Py<PyAny>,
    args: Vec<NativeExpr>,
    returns: &Bound<'_, PyAny>,
    label: String,
    names: Option<Vec<String>>,
    truth: bool,
) -> PyResult<NativeExpr> {
    let schema = args.iter().find_map(|a| a.schema.clone());
    let black_box = BlackBox {
        label,
        function,
        convention: names.map_or(Convention::Values, Convention::Row),
        returns: types::extract(returns)?,
        as_bool: truth,
        signature: match args.is_empty() {
            true => Signature::nullary(Volatility::Immutable),
            false => Signature::any(args.len(), Volatility::Immutable),
        },
    };
    let udf = Arc::new(ScalarUDF::from(black_box));
    NativeExpr::new(Expr::ScalarFunction(ScalarFunction::new_udf(udf, exprs(args))), schema)
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
        let called = attach(|py| self.call(py, arrays, rows))?;
        Ok(ColumnarValue::Array(
            called.map_err(|error| PythonError::wrap(format!("{} failed", self.label), error))?,
        ))
    }
}

impl BlackBox {
    /// Calls the function once a row.
    fn call(&self, py: Python<'_>, mut arrays: Vec<ArrayRef>, rows: usize) -> PyResult<ArrayRef> {
        let function = self.function.bind(py);
        let row_columns = match &self.convention {
            Convention::Values => None,
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
