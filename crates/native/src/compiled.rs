//! An expression, and a function for each set of its columns that have nulls.

use crate::expression::Expression;
use crate::function::Function;
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// An expression that is compiled when it is first evaluated.
///
/// ```
/// use arrow::array::{ArrayRef, Int64Array};
/// use arrow::datatypes::DataType;
/// use std::sync::Arc;
/// use whimbrel_native::{Arithmetic, Compiled, Expression, Kind};
///
/// let number = || Expression::Column(0, Kind::I64);
/// let square = Compiled::new(Expression::arithmetic(Arithmetic::Multiply, number(), number()));
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None]));
/// let squares = square.evaluate(&[column], 2, &DataType::Int64).unwrap();
/// assert_eq!(squares.as_ref(), &Int64Array::from(vec![Some(9), None]));
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX]));
/// assert!(square.evaluate(&[column], 1, &DataType::Int64).is_none(), "it is too large");
/// ```
pub struct Compiled {
    expression: Expression,
    /// By which columns have nulls; none where this machine has no code for it.
    functions: Mutex<HashMap<Vec<bool>, Option<Arc<Function>>>>,
}

impl Compiled {
    /// An expression, which is not compiled yet.
    pub fn new(expression: Expression) -> Compiled {
        Compiled { expression, functions: Mutex::default() }
    }

    /// The values of the expression for all rows of its columns, as an array of this type. None if there are
    /// none: an operation had no result, the columns or the type are others, or the machine has no code for
    /// it.
    pub fn evaluate(&self, columns: &[ArrayRef], rows: usize, to: &DataType) -> Option<ArrayRef> {
        self.function(columns)?.run(columns, rows, to)
    }

    fn function(&self, columns: &[ArrayRef]) -> Option<Arc<Function>> {
        let with_nulls: Vec<bool> = columns.iter().map(|column| column.null_count() > 0).collect();
        // A function is inserted whole.
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = functions.get(&with_nulls) {
            return function.clone();
        }
        let function = Function::compile(&self.expression, &with_nulls).map(Arc::new);
        functions.entry(with_nulls).or_insert(function).clone()
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("expression", &self.expression).finish_non_exhaustive()
    }
}
