//! Patterns of events: what `detect` looks for, over expressions of the plan.
//!
//! Expressions see the event's columns with the qualifier [`EVENT`], and the register's with [`REGISTER`].
//! In a [`Pattern::List`] each column of the event is a list: its values at one instant.

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference};
use datafusion::logical_expr::Expr;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The qualifier of the event's columns in a pattern.
pub const EVENT: &str = "event";

/// The qualifier of the register's columns in a pattern.
pub const REGISTER: &str = "register";

/// A regular expression over events, or an automaton. `E` is how expressions are held.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub enum Pattern<E = Expr> {
    /// The empty sequence.
    Empty,
    /// One event.
    Event(Element<E>),
    /// All events of one instant.
    List(Element<E>),
    /// One after another.
    Concat(Vec<Pattern<E>>),
    /// One of them; earlier ones are preferred.
    Or(Vec<Pattern<E>>),
    /// Several times.
    Repeat {
        /// What is repeated.
        of: Box<Pattern<E>>,
        /// The least number of times.
        least: usize,
        /// The most; none: there is no limit.
        most: Option<usize>,
        /// Whether more repetitions are preferred to fewer.
        greedy: bool,
    },
    /// An automaton, which starts in state 0 and is no part of another pattern.
    Automaton {
        /// Its arcs.
        transitions: Vec<Transition<E>>,
        /// The states in which it accepts.
        finals: Vec<usize>,
    },
}

/// A way from one state of an automaton to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub struct Transition<E = Expr> {
    /// The state it leaves.
    pub from: usize,
    /// The state it leads to.
    pub to: usize,
    /// What it consumes.
    pub label: Label<E>,
}

/// What an arc of an automaton consumes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub enum Label<E = Expr> {
    /// Nothing.
    Epsilon,
    /// One event.
    Event(Element<E>),
    /// All events of one instant.
    List(Element<E>),
}

/// What is asked of an event, and what is noted of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub struct Element<E = Expr> {
    /// What has to be true; none: anything is consumed.
    pub condition: Option<E>,
    /// New values for fields of the register, by their numbers.
    pub update: Vec<(usize, E)>,
    /// The number of the pattern variable that its rows are of, in a pattern of rows.
    pub variable: Option<usize>,
}

impl<E> Pattern<E> {
    /// The same pattern with other elements; `map` is told whether an element is of a list.
    ///
    /// # Errors
    /// The first error of `map`.
    pub fn try_map_elements<F>(
        &self,
        map: &mut impl FnMut(&Element<E>, bool) -> Result<Element<F>>,
    ) -> Result<Pattern<F>> {
        Ok(match self {
            Pattern::Empty => Pattern::Empty,
            Pattern::Event(element) => Pattern::Event(map(element, false)?),
            Pattern::List(element) => Pattern::List(map(element, true)?),
            Pattern::Concat(parts) => Pattern::Concat(map_each(parts, map)?),
            Pattern::Or(parts) => Pattern::Or(map_each(parts, map)?),
            Pattern::Repeat { of, least, most, greedy } => Pattern::Repeat {
                of: Box::new(of.try_map_elements(map)?),
                least: *least,
                most: *most,
                greedy: *greedy,
            },
            Pattern::Automaton { transitions, finals } => {
                let transitions = transitions.iter().map(|transition| {
                    let label = match &transition.label {
                        Label::Epsilon => Label::Epsilon,
                        Label::Event(element) => Label::Event(map(element, false)?),
                        Label::List(element) => Label::List(map(element, true)?),
                    };
                    Ok(Transition { from: transition.from, to: transition.to, label })
                });
                Pattern::Automaton {
                    transitions: transitions.collect::<Result<_>>()?,
                    finals: finals.clone(),
                }
            }
        })
    }

    /// The same pattern with other expressions; `map` is told whether an expression is of a list.
    ///
    /// # Errors
    /// The first error of `map`.
    pub fn try_map<F>(&self, map: &mut impl FnMut(&E, bool) -> Result<F>) -> Result<Pattern<F>> {
        self.try_map_elements(&mut |element, lists| {
            let condition = element.condition.as_ref().map(|e| map(e, lists)).transpose()?;
            let update = element.update.iter().map(|(field, value)| Ok((*field, map(value, lists)?)));
            Ok(Element { condition, update: update.collect::<Result<_>>()?, variable: element.variable })
        })
    }
}

fn map_each<E, F>(
    parts: &[Pattern<E>],
    map: &mut impl FnMut(&Element<E>, bool) -> Result<Element<F>>,
) -> Result<Vec<Pattern<F>>> {
    parts.iter().map(|part| part.try_map_elements(map)).collect()
}

impl Pattern {
    /// The columns of events that its expressions read, by name.
    pub fn columns_read(&self) -> BTreeSet<String> {
        let mut read = BTreeSet::new();
        let mut visit = |expr: &Expr, _| {
            let of_event = |column: &&Column| column.relation.as_ref().is_some_and(|r| r.table() == EVENT);
            read.extend(expr.column_refs().into_iter().filter(of_event).map(|c| c.name.clone()));
            Ok(())
        };
        // Visiting does not fail.
        let _ = self.try_map(&mut visit);
        read
    }
}

/// The columns that the expressions of a pattern see: those of an event, or of a list of events, then the
/// register's.
///
/// # Errors
/// `Plan` if two fields of the register have one name.
pub fn pattern_schema(
    events: &DFSchema,
    register: &[(String, ScalarValue)],
    lists: bool,
) -> Result<DFSchema> {
    let column = |field: &FieldRef| match lists {
        false => Arc::clone(field),
        true => {
            let item = Arc::new(Field::new_list_field(field.data_type().clone(), true));
            Arc::new(Field::new(field.name(), DataType::List(item), true))
        }
    };
    let qualified = |qualifier: &str, field| (Some(TableReference::bare(qualifier)), field);
    let events = events.fields().iter().map(|field| qualified(EVENT, column(field)));
    let register = register
        .iter()
        .map(|(name, initial)| qualified(REGISTER, Arc::new(Field::new(name, initial.data_type(), true))));
    DFSchema::new_with_metadata(events.chain(register).collect(), Default::default())
}
