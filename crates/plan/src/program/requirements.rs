//! What an author asserts of a stream, in the words of the program.

use super::document::Doc;
use super::lifetimes::duration;
use super::literal::python_string;
use super::reader::{Reader, Scope};
use super::sources::duration_text;
use super::steps::StepKind;
use crate::names::column;
use crate::nodes::{Assertion, Require};
use datafusion::common::{Result, plan_err};

impl Reader {
    /// The step of a `Require` node.
    pub fn require(&mut self, node: &Require) -> Result<Scope> {
        let scope = self.read(&node.input, &Default::default())?;
        let stream = self.steps.stream(scope.step).clone();
        let Some(unit) = stream.properties().time.clone() else {
            return plan_err!("an assertion about a relation without a time");
        };
        let (doc, stream) = match &*node.assertion {
            Assertion::Duration(ticks) => {
                let argument =
                    ticks.map_or("float(\"inf\")".to_string(), |ticks| duration_text(ticks, &unit));
                let required = stream.require_duration(ticks.map(|ticks| duration(ticks, &unit)))?;
                (Doc::call(".require_duration", vec![Doc::text(argument)]), required)
            }
            Assertion::Sorted(columns) => {
                let names = columns.iter().map(|column| self.key_column(column, &node.input, &scope));
                let names = names.collect::<Result<Vec<_>>>()?;
                let arguments = names.iter().map(|name| Doc::Text(python_string(name))).collect();
                let sorted = stream.require_sorted(names.iter().map(column).collect())?;
                (Doc::call(".require_sorted", arguments), sorted)
            }
            Assertion::DistinctStarts => {
                (Doc::text(".require_distinct_starts()"), stream.require_distinct_starts()?)
            }
        };
        Ok(self.add_step(scope, StepKind::QueryMethod, doc, stream))
    }
}
