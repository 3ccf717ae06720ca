//! Plans as programs: their text, and what they are given.

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
    fn text(&self) -> String {
        self.program.to_string()
    }

    /// The variable that holds the result.
    fn result(&self) -> &str {
        self.program.result()
    }

    /// The streams that it is given, by name.
    fn sources(&self) -> Vec<(String, NativePlan)> {
        let sources = self.program.sources().iter();
        sources.map(|(name, stream)| (name.clone(), NativePlan { stream: stream.clone() })).collect()
    }

    /// The functions that it is given, by name.
    fn functions(&self) -> Vec<(String, NativeFunction)> {
        let functions = self.program.functions().iter();
        functions.map(|(name, f)| (name.clone(), NativeFunction { function: Arc::clone(f) })).collect()
    }

    /// Whether that is what it builds, scan for scan.
    fn builds(&self, plan: &NativePlan) -> PyResult<bool> {
        self.program.builds(&plan.stream).or_raise()
    }

    /// What it builds.
    fn plan(&self) -> NativePlan {
        NativePlan { stream: self.program.stream().clone() }
    }
}

/// A function that expressions call, which no program can name.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Function")]
pub struct NativeFunction {
    function: Arc<ScalarUDF>,
}

#[pymethods]
impl NativeFunction {
    /// A call of it.
    fn call(&self, args: Vec<NativeExpr>) -> PyResult<NativeExpr> {
        let schema = args.iter().find_map(|a| a.schema.clone());
        let call = ScalarFunction::new_udf(Arc::clone(&self.function), exprs(args));
        NativeExpr::new(Expr::ScalarFunction(call), schema)
    }
}
