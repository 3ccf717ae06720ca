//! Plans as programs: their text, and the sources and functions that they take.
//!
//! A program names what it can. Sources that no text can name, such as tables in memory, and functions such
//! as black boxes are passed to it by the names of its parameters.

use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ScalarUDF};
use pyo3::prelude::*;
use std::sync::Arc;
use whimbrel_plan::Program;

use crate::error::OrRaise;
use crate::expr::{NativeExpr, exprs};
use crate::plan::NativePlan;

/// A plan as the text of a program.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Program")]
pub struct NativeProgram {
    /// The program.
    pub program: Program,
}

#[pymethods]
impl NativeProgram {
    /// The text of the program.
    fn text(&self) -> String {
        self.program.to_string()
    }

    /// The variable that holds the result.
    fn result(&self) -> &str {
        self.program.result()
    }

    /// The streams that the program takes, by name.
    fn sources(&self) -> Vec<(String, NativePlan)> {
        let sources = self.program.sources().iter();
        sources.map(|(name, stream)| (name.clone(), NativePlan { stream: stream.clone() })).collect()
    }

    /// The functions that the program takes, by name.
    fn functions(&self) -> Vec<(String, NativeFunction)> {
        let functions = self.program.functions().iter();
        functions.map(|(name, f)| (name.clone(), NativeFunction { function: Arc::clone(f) })).collect()
    }

    /// Whether the program builds this plan, over the same sources.
    fn builds(&self, plan: &NativePlan) -> PyResult<bool> {
        self.program.builds(&plan.stream).or_raise()
    }

    /// The plan that the program builds.
    fn plan(&self) -> NativePlan {
        NativePlan { stream: self.program.stream().clone() }
    }
}

/// A function of expressions that has no name in a program, such as a black box.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Function")]
pub struct NativeFunction {
    function: Arc<ScalarUDF>,
}

#[pymethods]
impl NativeFunction {
    /// A call of the function.
    fn call(&self, args: Vec<NativeExpr>) -> PyResult<NativeExpr> {
        let schema = args.iter().find_map(|a| a.schema.clone());
        let call = ScalarFunction::new_udf(Arc::clone(&self.function), exprs(args));
        NativeExpr::new(Expr::ScalarFunction(call), schema)
    }
}
