//! A plan as a program: Python over the fluent API, to be read, edited and run again.
//!
//! A plan is read bottom up ([`reader`]). Every node becomes a step: the text of a method call, and the call
//! itself on the builder. So the plan of the program ([`Program::stream`]) is built by the operations in the
//! text, and a step that the builder rejects is never printed.
//!
//! Round trip: running the text gives a plan that is equal to [`Program::stream`], up to the unique suffixes
//! of scans. For a plan of the fluent builder that is the plan itself. An optimized SQL plan has qualified
//! names, projections that only prune columns, and aggregates named after their text. These are not printed:
//! columns are tracked by position, and the program is an equivalent query of the builder.
//!
//! Nodes: `sources`, `rows`, `set_operations`, `orderings`, `unnest`, `aggregates`, `window_functions`,
//! `joins` (`built_joins`, `join_steps`), `recursive`, `lifetimes`, `exchanges`. Expressions:
//! `python_expressions` rewrites them, `expression` and `literal` print them. Text: `layout` makes statements
//! of steps, `document` breaks lines. `equal_plans` compares plans.

mod aggregates;
mod arguments;
mod built_joins;
mod document;
mod equal_plans;
mod exchanges;
mod expression;
mod join_steps;
mod joins;
mod layout;
mod lifetimes;
mod literal;
mod orderings;
mod python_expressions;
mod reader;
mod recursive;
mod requirements;
mod rows;
mod scalar_functions;
mod set_operations;
mod sources;
mod steps;
mod unnest;
mod variable_names;
mod window_functions;

pub use literal::{literal_for_comparison, literal_for_operand};

use crate::Stream;
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use reader::{Reader, Required};
use std::fmt;
use std::sync::Arc;

/// A plan as the text of a Python program.
///
/// ```
/// use datafusion::arrow::datatypes::DataType;
/// use datafusion::common::ScalarValue;
/// use datafusion::logical_expr::lit;
/// use whimbrel_plan::{Stream, column};
///
/// # fn main() -> datafusion::common::Result<()> {
/// let rows = vec![vec![ScalarValue::Int64(Some(1))], vec![ScalarValue::Int64(Some(2))]];
/// let numbers = Stream::values(&[("n".to_string(), DataType::Int64)], rows)?;
/// let program = numbers.where_(column("n").gt(lit(1_i64)))?.to_python()?;
/// assert!(program.to_string().contains(".where(lambda e: e.n > 1)"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Program {
    text: String,
    result: String,
    sources: Vec<(String, Stream)>,
    functions: Vec<(String, Arc<ScalarUDF>)>,
    stream: Stream,
}

impl Program {
    /// The variable with the result. A program with parameters returns it.
    pub fn result(&self) -> &str {
        &self.result
    }

    /// The first parameters: streams that a program cannot open, such as tables in memory and live sources.
    pub fn sources(&self) -> &[(String, Stream)] {
        &self.sources
    }

    /// The parameters after the sources: functions written in Python.
    pub fn functions(&self) -> &[(String, Arc<ScalarUDF>)] {
        &self.functions
    }

    /// The stream that the program builds.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Whether the program builds this stream: its plan, up to the unique suffixes of scans.
    ///
    /// # Errors
    /// `Internal` if one of the plans cannot be normalized for the comparison.
    pub fn builds(&self, stream: &Stream) -> Result<bool> {
        equal_plans::equal_plans(self.stream.plan(), stream.plan())
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Stream {
    /// The plan as a Python program that builds it.
    ///
    /// # Errors
    /// `Plan` if the fluent API cannot express a part of the plan; the message names it.
    pub fn to_python(&self) -> Result<Program> {
        let mut reader = Reader::default();
        let names = self.schema().fields().iter().map(|f| f.name().clone());
        let names: Vec<String> = names.collect();
        let required =
            Required { names: names.iter().cloned().enumerate().collect(), keep_names: true, used: None };
        let scope = reader.read(self.plan(), &required)?;
        let step = reader.project_to(scope, &names)?.step;
        layout::program(reader.steps, step)
    }
}
