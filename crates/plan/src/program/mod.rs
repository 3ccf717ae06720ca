//! A plan as a program: Python over the fluent API that a person reads, edits, and runs again.
//!
//! A plan is read bottom up ([`read`]). Every node becomes a step: a method call as text, and at the same
//! time the call itself on the builder. So the program's own plan ([`Program::stream`]) is made of the very
//! operations that the text names, and a step that the builder refuses is never printed.
//!
//! What the round trip promises: running the text gives a plan that is equal to [`Program::stream`] but for
//! the scans' unique suffixes; where the plan was built step by step in the first place, that is the plan
//! itself. A plan that an SQL optimizer has made has qualified names, projections that only leave columns
//! out, and aggregates named after their texts. They have no place in a program: columns are followed by
//! position, and what is left is the same query in the builder's words.
//!
//! One file a family of nodes: `sources`, `rows`, `aggregates`, `over`, `joins`, `recursive`, `lifetimes`,
//! `movement`. `words`, `expression`, `literal` write expressions, `layout` puts steps together to
//! statements, `doc` to lines; `same` compares plans.

mod aggregates;
mod document;
mod equal_plans;
mod exchanges;
mod expression;
mod joins;
mod layout;
mod lifetimes;
mod literal;
mod python_expressions;
mod reader;
mod recursive;
mod rows;
mod scalar_functions;
mod sources;
mod steps;
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
#[derive(Debug, Clone)]
pub struct Program {
    text: String,
    result: String,
    sources: Vec<(String, Stream)>,
    functions: Vec<(String, Arc<ScalarUDF>)>,
    stream: Stream,
}

impl Program {
    /// The variable that holds the result, if the program is a script; else its function returns it.
    pub fn result(&self) -> &str {
        &self.result
    }

    /// What the program's function is called with, first: streams that no program can open again, such as
    /// tables in memory and live sources.
    pub fn sources(&self) -> &[(String, Stream)] {
        &self.sources
    }

    /// What the program's function is called with, after its sources: functions written in Python.
    pub fn functions(&self) -> &[(String, Arc<ScalarUDF>)] {
        &self.functions
    }

    /// What the program builds.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Whether a stream is what the program builds: the same plan, but for the names that tell scans apart.
    ///
    /// # Errors
    /// `Plan` if one of the plans cannot be brought into the form in which they are literal_for_comparison.
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
    /// `Plan` if the plan holds something that the fluent API has no word for; the message names it.
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
