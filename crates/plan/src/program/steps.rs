//! The steps of a program: a graph of method calls, each with the stream that it gives.
//!
//! Invariant: equal calls on equal inputs are one step, so what a plan uses twice is named once.

use super::doc::Doc;
use super::functions::Functions;
use crate::Stream;
use std::collections::HashMap;

/// What a call is made on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing: it opens something. The arguments of the call.
    Source(Vec<String>),
    /// Nothing: its rows stand in the text.
    Written,
    /// Nothing: the program is given it.
    Given,
    /// Nothing: it is what a function inside of the program is called with.
    Parameter,
    /// A sharded stream.
    Shards,
    /// A stream inside of a query.
    Query,
}

/// A call.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// The steps that it takes, the one whose method it is first.
    pub inputs: Vec<usize>,
    /// Where it stands.
    pub place: Place,
    /// As text.
    pub doc: Doc,
    /// What it gives.
    pub stream: Stream,
    /// What a variable that holds it could be called.
    pub name: String,
    /// The function that it is called with, if it is.
    pub body: Option<Body>,
}

/// A function of a stream: the last input of the step that is called with it is what it returns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body {
    /// What it is called with.
    pub parameter: usize,
    /// What it returns.
    pub result: usize,
}

/// All steps, inputs first.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub all: Vec<Step>,
    pub functions: Functions,
    known: HashMap<(Vec<usize>, String), usize>,
}

impl Steps {
    /// The number of this step.
    pub fn add(&mut self, step: Step) -> usize {
        let call = match &step.place {
            // Two tables in memory look alike.
            Place::Given | Place::Parameter => step.stream.plan().display_indent().to_string(),
            _ => step.doc.flat(),
        };
        let next = self.all.len();
        let number = *self.known.entry((step.inputs.clone(), call)).or_insert(next);
        if number == next {
            self.all.push(step);
        }
        number
    }

    /// What a step gives.
    pub fn stream(&self, step: usize) -> &Stream {
        &self.all[step].stream
    }

    /// What a variable that holds it could be called.
    pub fn name(&self, step: usize) -> &str {
        &self.all[step].name
    }
}
