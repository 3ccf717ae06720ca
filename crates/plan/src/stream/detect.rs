//! Patterns of events.

use super::Stream;
use crate::duration::Duration;
use crate::names::{show, type_name};
use crate::nodes::{Detect, DetectSettings, extension};
use crate::pattern::{Element, Pattern, REGISTER, pattern_schema};
use crate::resolve::coerced;
use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{Expr, ExprSchemable};
use whimbrel_temporal::operators::{Overlap, Simultaneous};

impl Stream {
    /// Detects sequences of events, per current key: a match is a row of the key's columns and of the
    /// register, alive from its last event until `max_duration` after its first. Trill's `Detect`.
    ///
    /// Every event of a key has to be the next one of each instance of the pattern, or the instance is over.
    ///
    /// # Errors `Plan` if this is a relation, an expression of the pattern does not fit, a field of the
    /// register has the name of a key, or the duration is not positive or does not fit the time.
    pub fn detect(
        &self,
        pattern: &Pattern,
        register: Vec<(String, ScalarValue)>,
        max_duration: impl Into<Duration>,
        overlap: Overlap,
        simultaneous: Simultaneous,
    ) -> Result<Stream> {
        let time = self.time("detect")?;
        let max_duration = max_duration.into().positive_ticks(time, "detect: max_duration")?;
        check_shape(pattern, true)?;
        for (place, (name, _)) in register.iter().enumerate() {
            if self.key().contains(name) {
                return plan_err!(
                    "detect: {name:?} is a column of the key, and cannot be of the register too"
                );
            }
            if register[..place].iter().any(|(other, _)| other == name) {
                return plan_err!("detect: the register has two fields {name:?}; give one another name");
            }
        }
        let [one, list] = [false, true].map(|lists| pattern_schema(self.df_schema(), &register, lists));
        let (one, list) = (one?, list?);
        let pattern = pattern.try_map_elements(&mut |element, lists| {
            typed(element, &register, if lists { &list } else { &one })
        })?;
        let settings = DetectSettings { max_duration, overlap, simultaneous };
        let detect = Detect::try_new(self.input(), self.key_exprs(), pattern, register, settings)?;
        self.then(extension(detect))
    }
}

/// Refuses automata within patterns.
fn check_shape(pattern: &Pattern, is_whole: bool) -> Result<()> {
    match pattern {
        Pattern::Automaton { .. } if !is_whole => {
            plan_err!("detect: an automaton is a whole pattern, and no part of another one")
        }
        Pattern::Concat(parts) | Pattern::Or(parts) => parts.iter().try_for_each(|p| check_shape(p, false)),
        Pattern::Repeat { of, .. } => check_shape(of, false),
        _ => Ok(()),
    }
}

/// An expression of a pattern with its types settled.
fn settled(expr: &Expr, schema: &DFSchema) -> Result<Expr> {
    let missing = |column: &&Column| schema.maybe_index_of_column(column).is_none();
    if let Some(column) = expr.column_refs().into_iter().find(missing) {
        let what =
            if column.relation.as_ref().is_some_and(|r| r.table() == REGISTER) { "field" } else { "column" };
        return plan_err!("detect: there is no {what} {:?} for {}", column.name, show(expr));
    }
    Ok(coerced(expr.clone(), schema)?.unalias())
}

/// An element with its expressions settled: a truth value, and values of the register's types.
fn typed(element: &Element, register: &[(String, ScalarValue)], schema: &DFSchema) -> Result<Element> {
    let condition = element.condition.as_ref().map(|condition| {
        let condition = settled(condition, schema)?;
        match condition.get_type(schema)? {
            DataType::Boolean | DataType::Null => Ok(condition),
            other => plan_err!("detect: {} is {}, not boolean", show(&condition), type_name(&other)),
        }
    });
    let update = element.update.iter().map(|(field, value)| {
        let Some((name, initial)) = register.get(*field) else {
            return plan_err!("detect: the register has no field number {field}");
        };
        let value = settled(value, schema)?;
        let (from, to) = (value.get_type(schema)?, initial.data_type());
        if from == to {
            return Ok((*field, value));
        }
        if !from.is_null() && (from.is_numeric() != to.is_numeric() || to.is_nested()) {
            return plan_err!(
                "detect: {} is {}, and the field {name:?} of the register {}; give it a first value of that type",
                show(&value),
                type_name(&from),
                type_name(&to)
            );
        }
        Ok((*field, value.cast_to(&to, schema)?))
    });
    Ok(Element { condition: condition.transpose()?, update: update.collect::<Result<_>>()? })
}
