//! The steps of a program: a graph of method calls, each with the stream that it gives.
//!
//! Invariant: equal calls on equal inputs are one step. A part that a plan uses twice gets one variable.

use super::document::Doc;
use super::scalar_functions::Functions;
use crate::Stream;
use std::collections::HashMap;

/// What kind of call a step is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepKind {
    /// `wb.read(…)`, with its arguments.
    Source(Vec<String>),
    /// `wb.values(…)`: the rows are part of the text.
    Values,
    /// A parameter of the program.
    Parameter,
    /// The parameter of a nested function.
    FunctionParameter,
    /// A method of a sharded stream.
    StreamMethod,
    /// A method of a stream inside `.query(…)`.
    QueryMethod,
}

/// A call, and the stream that it returns.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// Its input steps; the receiver of the method is the first.
    pub inputs: Vec<usize>,
    /// What kind of call it is.
    pub kind: StepKind,
    /// The call as text.
    pub doc: Doc,
    /// The stream that it returns.
    pub stream: Stream,
    /// A name for a variable of this stream.
    pub name: String,
    /// The nested function that it takes as an argument, if any.
    pub body: Option<Body>,
}

/// A nested function. Its result is the last input of the step that takes it as an argument.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body {
    /// The step of its parameter.
    pub parameter: usize,
    /// The step that it returns.
    pub result: usize,
}

/// All steps of a program, in topological order.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub all: Vec<Step>,
    pub functions: Functions,
    numbers: HashMap<(Vec<usize>, String), usize>,
}

impl Steps {
    /// Adds a step, unless there is an equal one, and returns its number.
    pub fn add(&mut self, step: Step) -> usize {
        let call = match &step.kind {
            // Two tables in memory have the same text; their plans differ.
            StepKind::Parameter | StepKind::FunctionParameter => {
                step.stream.plan().display_indent().to_string()
            }
            _ => step.doc.flat(),
        };
        let next = self.all.len();
        let number = *self.numbers.entry((step.inputs.clone(), call)).or_insert(next);
        if number == next {
            self.all.push(step);
        }
        number
    }

    /// The stream that a step returns.
    pub fn stream(&self, step: usize) -> &Stream {
        &self.all[step].stream
    }

    /// A name for a variable of a step.
    pub fn name(&self, step: usize) -> &str {
        &self.all[step].name
    }
}
