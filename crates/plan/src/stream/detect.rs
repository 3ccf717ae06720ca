//! Patterns of events.

use super::Stream;
use crate::duration::Duration;
use crate::names::{show, type_name};
use crate::nodes::{Detect, DetectSettings, MatchRecognize, extension};
use crate::pattern::{Element, Pattern, REGISTER, pattern_schema};
use crate::resolve::coerced;
use crate::row_pattern::RowPattern;
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
            typed(element, &register, if lists { &list } else { &one }, "detect")
        })?;
        let settings = DetectSettings { max_duration, overlap, simultaneous };
        let detect = Detect::try_new(self.input(), self.key_exprs(), pattern, register, settings)?;
        self.then(extension(detect))
    }
}

impl Stream {
    /// Recognizes a pattern of rows, per current key: a match is a row of the key's columns, of the register
    /// and of the number of the match, at the start of its last row. SQL's `match_recognize`, over the rows
    /// of each key in the order of their starts.
    ///
    /// # Errors
    /// `Plan` if this is a relation, or an expression of the pattern does not fit.
    pub fn match_recognize(&self, rows: &RowPattern) -> Result<Stream> {
        self.time("match_recognize")?;
        let rows = rows.typed(self.df_schema())?;
        self.then(extension(MatchRecognize::try_new(self.input(), self.key_exprs(), rows)?))
    }
}

impl RowPattern {
    /// The same pattern with its expressions settled, over rows with these columns.
    ///
    /// # Errors
    /// `Plan` if an expression does not fit, or the pattern is an automaton or consumes lists.
    pub fn typed(&self, rows: &DFSchema) -> Result<RowPattern> {
        check_shape(&self.pattern, false)?;
        let schema = self.schema(rows)?;
        let pattern = self.pattern.try_map_elements(&mut |element, lists| match lists {
            true => plan_err!("a pattern of rows looks at them one by one, and not at lists of them"),
            false => typed(element, &self.register, &schema, "match_recognize"),
        })?;
        Ok(RowPattern { pattern, ..self.clone() })
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
fn settled(expr: &Expr, schema: &DFSchema, operator: &str) -> Result<Expr> {
    let missing = |column: &&Column| schema.maybe_index_of_column(column).is_none();
    if let Some(column) = expr.column_refs().into_iter().find(missing) {
        let what =
            if column.relation.as_ref().is_some_and(|r| r.table() == REGISTER) { "field" } else { "column" };
        return plan_err!("{operator}: there is no {what} {:?} for {}", column.name, show(expr));
    }
    Ok(coerced(expr.clone(), schema)?.unalias())
}

/// An element with its expressions settled: a truth value, and values of the register's types.
fn typed(
    element: &Element,
    register: &[(String, ScalarValue)],
    schema: &DFSchema,
    operator: &str,
) -> Result<Element> {
    let condition = element.condition.as_ref().map(|condition| {
        let condition = settled(condition, schema, operator)?;
        match condition.get_type(schema)? {
            DataType::Boolean | DataType::Null => Ok(condition),
            other => plan_err!("{operator}: {} is {}, not boolean", show(&condition), type_name(&other)),
        }
    });
    let update = element.update.iter().map(|(field, value)| {
        let Some((name, initial)) = register.get(*field) else {
            return plan_err!("{operator}: the register has no field number {field}");
        };
        let value = settled(value, schema, operator)?;
        let (from, to) = (value.get_type(schema)?, initial.data_type());
        if from == to {
            return Ok((*field, value));
        }
        if !from.is_null() && (from.is_numeric() != to.is_numeric() || to.is_nested()) {
            return plan_err!(
                "{operator}: {} is {}, and the field {name:?} of the register {}; give it a first value of that type",
                show(&value),
                type_name(&from),
                type_name(&to)
            );
        }
        Ok((*field, value.cast_to(&to, schema)?))
    });
    Ok(Element {
        condition: condition.transpose()?,
        update: update.collect::<Result<_>>()?,
        variable: element.variable,
    })
}
