//! Patterns of events, and the columns that their expressions see.

use crate::error::{OrRaise, invalid};
use crate::expr::NativeExpr;
use crate::plan::NativePlan;
use datafusion::common::{Column, DFSchemaRef, ScalarValue};
use datafusion::logical_expr::Expr;
use pyo3::prelude::*;
use whimbrel_plan::{EVENT, Element, Label, Pattern, REGISTER, Transition, pattern_schema};
use whimbrel_temporal::operators::{Overlap, Simultaneous};

/// The register of a pattern: names, and constants for the values before the first event.
pub type Register = Vec<(String, NativeExpr)>;

/// An element: a condition, and new values for fields of the register by their numbers.
type NativeElement = (Option<NativeExpr>, Vec<(usize, NativeExpr)>);

fn element((condition, update): NativeElement) -> Element {
    let update = update.into_iter().map(|(field, value)| (field, value.expr())).collect();
    Element { condition: condition.map(|condition| condition.expr()), update, variable: None }
}

/// The values of constants.
///
/// # Errors
/// `InvalidError` if one is no constant.
pub fn constants(given: &Register) -> PyResult<Vec<(String, ScalarValue)>> {
    let value = |(name, expr): &(String, NativeExpr)| match expr.expr() {
        Expr::Literal(value, _) => Ok((name.clone(), value)),
        _ => Err(invalid(format!("the value of {name:?} has to be a constant"))),
    };
    given.iter().map(value).collect()
}

/// Whether instances of a pattern overlap, and what simultaneous events mean.
///
/// # Errors
/// `InvalidError` if there is no such word.
pub fn detection(overlap: bool, simultaneous: &str) -> PyResult<(Overlap, Simultaneous)> {
    let overlap = if overlap { Overlap::Allowed } else { Overlap::Refused };
    Ok((
        overlap,
        match simultaneous {
            "ordered" => Simultaneous::Ordered,
            "kill" => Simultaneous::Kill,
            "absent" => Simultaneous::Absent,
            other => {
                return Err(invalid(format!(
                    "simultaneous is \"ordered\", \"kill\" or \"absent\", not \"{other}\""
                )));
            }
        },
    ))
}

/// A pattern of events.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Pattern", from_py_object)]
#[derive(Clone)]
pub struct NativePattern(pub Pattern);

#[pymethods]
impl NativePattern {
    /// One event, or all events of an instant.
    #[staticmethod]
    fn element(
        condition: Option<NativeExpr>,
        update: Vec<(usize, NativeExpr)>,
        lists: bool,
    ) -> NativePattern {
        let element = element((condition, update));
        NativePattern(if lists { Pattern::List(element) } else { Pattern::Event(element) })
    }

    /// One after another.
    #[staticmethod]
    fn concat(parts: Vec<NativePattern>) -> NativePattern {
        NativePattern(Pattern::Concat(parts.into_iter().map(|part| part.0).collect()))
    }

    /// One of several.
    #[staticmethod]
    fn alternatives(parts: Vec<NativePattern>) -> NativePattern {
        NativePattern(Pattern::Or(parts.into_iter().map(|part| part.0).collect()))
    }

    /// Several times.
    #[staticmethod]
    fn repeat(of: NativePattern, least: usize, most: Option<usize>, greedy: bool) -> NativePattern {
        NativePattern(Pattern::Repeat { of: Box::new(of.0), least, most, greedy })
    }

    /// An automaton: arcs from a state to another with an element each, or none, and the final states.
    #[staticmethod]
    fn automaton(
        arcs: Vec<(usize, usize, Option<NativeElement>)>,
        finals: Vec<usize>,
        lists: bool,
    ) -> NativePattern {
        let transition = |(from, to, consumed): (usize, usize, Option<NativeElement>)| {
            let label = match consumed.map(element) {
                None => Label::Epsilon,
                Some(element) if lists => Label::List(element),
                Some(element) => Label::Event(element),
            };
            Transition { from, to, label }
        };
        let transitions = arcs.into_iter().map(transition).collect();
        NativePattern(Pattern::Automaton { transitions, finals })
    }
}

/// The columns that expressions of a pattern see.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "PatternColumns")]
pub struct PatternColumns {
    schema: DFSchemaRef,
}

#[pymethods]
impl PatternColumns {
    /// Those of the events of a plan, or of lists of them, and of a register.
    #[new]
    fn new(plan: &NativePlan, fields: Register, lists: bool) -> PyResult<PatternColumns> {
        let schema = pattern_schema(plan.stream.plan().schema(), &constants(&fields)?, lists).or_raise()?;
        Ok(PatternColumns { schema: schema.into() })
    }

    /// A column of the event.
    fn event(&self, name: &str) -> PyResult<NativeExpr> {
        NativeExpr::new(Expr::Column(Column::new(Some(EVENT), name)), Some(self.schema.clone()))
    }

    /// A field of the register.
    fn register(&self, name: &str) -> PyResult<NativeExpr> {
        NativeExpr::new(Expr::Column(Column::new(Some(REGISTER), name)), Some(self.schema.clone()))
    }
}
