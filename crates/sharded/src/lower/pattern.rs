//! Patterns of events: from expressions of the plan to the engine's automata.

use super::arithmetic;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;
use whimbrel_plan::nodes;
use whimbrel_plan::{Element, Label, Pattern, pattern_schema, physical};
use whimbrel_temporal::operators::{self, Automaton, Detect, Regex, RegisterField, Transition};

/// Lowers a detection.
///
/// # Errors
/// `Plan` if an expression cannot be evaluated, or the pattern is too large.
pub(super) fn detect(node: &nodes::Detect) -> Result<Detect> {
    let automaton = automaton(&node.pattern, &node.register, node.input.schema())?;
    let settings = node.settings;
    Detect::try_new(
        &automaton,
        node.input.schema().inner(),
        node.key_places()?,
        settings.max_duration,
        settings.overlap,
        settings.simultaneous,
    )
}

/// The automaton of a pattern over events with these columns.
fn automaton(pattern: &Pattern, register: &[(String, ScalarValue)], events: &DFSchema) -> Result<Automaton> {
    let [one, list] = [false, true].map(|lists| pattern_schema(events, register, lists));
    let (one, list) = (one?, list?);
    let fields = register.iter().map(|(name, initial)| RegisterField::new(name, initial.clone())).collect();
    let schemas = Schemas { one, list };
    match pattern {
        Pattern::Automaton { transitions, finals } => {
            let transition = |of: &whimbrel_plan::Transition| {
                let label = match &of.label {
                    Label::Epsilon => operators::Label::Epsilon,
                    Label::Event(element) => operators::Label::Event(schemas.element(element, false)?),
                    Label::List(element) => operators::Label::List(schemas.element(element, true)?),
                };
                Ok(Transition { from: of.from, to: of.to, label })
            };
            let states = transitions.iter().flat_map(|t| [t.from, t.to]).chain(finals.iter().copied());
            let states = states.max().map_or(1, |last| last + 1);
            let transitions = transitions.iter().map(transition).collect::<Result<_>>()?;
            Automaton::try_new(states, 0, finals, transitions, fields)
        }
        other => schemas.regex(other)?.automaton(fields),
    }
}

/// The columns that expressions see: of one event, and of a list of events.
struct Schemas {
    one: DFSchema,
    list: DFSchema,
}

impl Schemas {
    fn regex(&self, pattern: &Pattern) -> Result<Regex> {
        let each = |parts: &[Pattern]| parts.iter().map(|part| self.regex(part)).collect::<Result<_>>();
        Ok(match pattern {
            // The builder has refused automata within patterns.
            Pattern::Empty | Pattern::Automaton { .. } => Regex::Empty,
            Pattern::Event(element) => Regex::Event(self.element(element, false)?),
            Pattern::List(element) => Regex::List(self.element(element, true)?),
            Pattern::Concat(parts) => Regex::Concat(each(parts)?),
            Pattern::Or(parts) => Regex::Or(each(parts)?),
            Pattern::Repeat { of, least, most, greedy } => {
                let of = Box::new(self.regex(of)?);
                Regex::Repeat { of, least: *least, most: *most, greedy: *greedy }
            }
        })
    }

    fn element(&self, element: &Element, lists: bool) -> Result<operators::Element> {
        let schema = if lists { &self.list } else { &self.one };
        let lower = |expr: &Expr| -> Result<Arc<dyn PhysicalExpr>> {
            physical(&arithmetic::expression(expr.clone(), schema)?, schema)
        };
        let condition = element.condition.as_ref().map(lower).transpose()?;
        let update = element.update.iter().map(|(field, value)| Ok((*field, lower(value)?)));
        Ok(operators::Element { condition, update: update.collect::<Result<_>>()?, variable: None })
    }
}
