//! Patterns of events and of rows: from expressions of the plan to the engine's automata.

use super::arithmetic;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;
use whimbrel_plan::nodes;
use whimbrel_plan::{Element, Label, Pattern, RowPattern, pattern_schema, physical};
use whimbrel_temporal::operators::{
    self, Automaton, Detect, MatchRecognize, Previous, Regex, RegisterField, Simultaneous, Transition,
};

/// Lowers a detection.
///
/// # Errors
/// `Plan` if an expression cannot be evaluated, or the pattern is too large.
pub(super) fn detect(node: &nodes::Detect) -> Result<Detect> {
    let [one, list] = [false, true].map(|lists| pattern_schema(node.input.schema(), &node.register, lists));
    let automaton = automaton(&node.pattern, &node.register, &Schemas { one: one?, list: list? })?;
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

/// Lowers a pattern of rows over a stream.
///
/// # Errors
/// As [`detect`].
pub(super) fn match_recognize(node: &nodes::MatchRecognize) -> Result<MatchRecognize> {
    let rows = row_pattern(&node.rows, node.input.schema(), node.key_places()?, Simultaneous::Ordered)?;
    MatchRecognize::try_new(rows, node.input.schema().inner())
}

/// A pattern over rows with these columns, of which some are the key.
///
/// # Errors
/// As [`detect`].
pub(super) fn row_pattern(
    pattern: &RowPattern,
    rows: &DFSchema,
    key: Vec<usize>,
    simultaneous: Simultaneous,
) -> Result<operators::RowPattern> {
    let one = pattern.schema(rows)?;
    let schemas = Schemas { list: one.clone(), one };
    let previous = pattern.previous_places(rows)?.into_iter();
    Ok(operators::RowPattern {
        automaton: automaton(&pattern.pattern, &pattern.register, &schemas)?,
        key,
        previous: previous.map(|(column, rows)| Previous { column, rows }).collect(),
        within: pattern.within,
        after_match: pattern.after_match,
        match_number: pattern.match_number.clone(),
        simultaneous,
    })
}

/// The automaton of a pattern.
fn automaton(pattern: &Pattern, register: &[(String, ScalarValue)], schemas: &Schemas) -> Result<Automaton> {
    let fields = register.iter().map(|(name, initial)| RegisterField::new(name, initial.clone())).collect();
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
        Ok(operators::Element {
            condition,
            update: update.collect::<Result<_>>()?,
            variable: element.variable,
        })
    }
}
