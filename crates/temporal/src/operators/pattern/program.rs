//! An automaton made ready to run over the columns of a stream.
//!
//! Invariants: there are no arcs that consume nothing: a state has the arcs of all states that are reached
//! from it by such, in order of preference. Equal expressions are one. A condition is split in two: what asks
//! for the event alone, which is evaluated once for a whole batch (a *filter*), and what asks for the
//! register (a *test*), which is evaluated for the instances that need it.

use super::automaton::{Automaton, Element, Expr, Label};
use super::reader::Reader;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, plan_err};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr::utils::{collect_columns, conjunction_opt};
use std::ops::Range;
use std::sync::Arc;

/// A state, without arcs that consume nothing.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// Its arcs, in order of preference.
    pub arcs: Range<usize>,
    /// How many of them are preferred to accepting.
    pub preferred: usize,
    /// Whether an instance here is a match.
    pub accepts: bool,
}

/// A way that consumes something. Expressions are given by their numbers; none: there is nothing to ask, or
/// to change.
#[derive(Debug, Clone)]
pub(crate) struct Arrow {
    pub filter: Option<usize>,
    pub test: Option<usize>,
    pub update: Option<usize>,
    pub to: u32,
    pub variable: Option<usize>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Program {
    /// Instances start in the first.
    pub states: Vec<State>,
    pub arcs: Vec<Arrow>,
    pub filters: Vec<Reader>,
    pub tests: Vec<Reader>,
    /// New values of some fields, by their numbers.
    pub updates: Vec<Vec<(usize, Reader)>>,
}

/// Where instances start.
pub(crate) const START: u32 = 0;

/// The columns of events as an automaton sees them: lists of values, if it consumes lists.
pub(crate) fn seen_columns(automaton: &Automaton, input: &Schema) -> Vec<FieldRef> {
    let seen = |field: &FieldRef| match automaton.consumes_lists() {
        true => {
            let item = Field::new_list_field(field.data_type().clone(), true);
            Arc::new(Field::new(field.name(), DataType::List(Arc::new(item)), false))
        }
        false => field.clone(),
    };
    input.fields().iter().map(seen).collect()
}

impl Program {
    /// The program of an automaton over such events.
    ///
    /// # Errors
    /// `Plan` if a condition is not a truth value, a field of the register is set to a value of another type,
    /// or an expression reads a column that does not exist.
    pub fn new(automaton: &Automaton, event: &[FieldRef]) -> Result<Program> {
        let mut fields = event.to_vec();
        fields.extend(automaton.register().iter().map(|field| Arc::new(field.column())));
        let mut build = Build {
            automaton,
            outgoing: outgoing(automaton),
            schema: Schema::new(fields),
            event: event.len(),
            numbers: vec![None; automaton.states()],
            queue: Vec::new(),
            program: Program {
                states: Vec::new(),
                arcs: Vec::new(),
                filters: Vec::new(),
                tests: Vec::new(),
                updates: Vec::new(),
            },
        };
        build.number(automaton.start());
        let mut next = 0;
        while let Some(&state) = build.queue.get(next) {
            build.state(state)?;
            next += 1;
        }
        Ok(build.program)
    }

    /// Whether what an instance does depends on its state and the event alone, and nothing is noted.
    pub fn has_no_memory(&self) -> bool {
        self.tests.is_empty() && self.updates.is_empty()
    }

    /// The arcs of a state.
    #[inline]
    pub fn arcs_of(&self, state: u32) -> &[Arrow] {
        &self.arcs[self.states[state as usize].arcs.clone()]
    }

    /// The numbers of a state's arcs that are preferred to accepting.
    #[inline]
    pub fn preferred(&self, state: u32) -> Range<usize> {
        let State { arcs, preferred, .. } = &self.states[state as usize];
        arcs.start..arcs.start + preferred
    }
}

/// The numbers of the arcs that leave each state, in their order.
fn outgoing(automaton: &Automaton) -> Vec<Vec<usize>> {
    let mut outgoing = vec![Vec::new(); automaton.states()];
    for (number, arc) in automaton.arcs().iter().enumerate() {
        outgoing[arc.from].push(number);
    }
    outgoing
}

/// A program that is being built.
struct Build<'a> {
    automaton: &'a Automaton,
    outgoing: Vec<Vec<usize>>,
    /// The columns of events and of the register.
    schema: Schema,
    /// How many of them are the event's.
    event: usize,
    /// The new numbers of the automaton's states that are the target of an arc.
    numbers: Vec<Option<u32>>,
    /// Those states, by their new numbers.
    queue: Vec<usize>,
    program: Program,
}

impl Build<'_> {
    fn number(&mut self, state: usize) -> u32 {
        match self.numbers[state] {
            Some(number) => number,
            None => {
                let number = self.queue.len() as u32;
                self.numbers[state] = Some(number);
                self.queue.push(state);
                number
            }
        }
    }

    /// Adds a state with the arcs of all that is reached from it without consuming anything.
    fn state(&mut self, state: usize) -> Result<()> {
        let first = self.program.arcs.len();
        let (arcs, accepting) = self.closure(state);
        for &arc in &arcs {
            let arc = &self.automaton.arcs()[arc];
            let (Label::Event(element) | Label::List(element)) = &arc.label else { continue };
            let to = self.number(arc.to);
            let arrow = self.arrow(element, to)?;
            self.program.arcs.push(arrow);
        }
        self.program.states.push(State {
            arcs: first..self.program.arcs.len(),
            preferred: accepting.unwrap_or(arcs.len()),
            accepts: accepting.is_some(),
        });
        Ok(())
    }

    /// The arcs that consume something, of all states that are reached without, in order of preference; and
    /// how many come before accepting, if that can be reached. What is reached twice is preferred where it is
    /// reached first.
    fn closure(&self, state: usize) -> (Vec<usize>, Option<usize>) {
        let (mut arcs, mut accepting) = (Vec::new(), None);
        let mut seen = vec![false; self.automaton.states()];
        seen[state] = true;
        let mut stack = vec![(state, 0)];
        while let Some((state, next)) = stack.last_mut() {
            let Some(&arc) = self.outgoing[*state].get(*next) else {
                if self.automaton.is_final(*state) && accepting.is_none() {
                    accepting = Some(arcs.len());
                }
                stack.pop();
                continue;
            };
            *next += 1;
            let to = self.automaton.arcs()[arc].to;
            match self.automaton.arcs()[arc].label {
                Label::Epsilon if seen[to] => {}
                Label::Epsilon => {
                    seen[to] = true;
                    stack.push((to, 0));
                }
                _ => arcs.push(arc),
            }
        }
        (arcs, accepting)
    }

    fn arrow(&mut self, element: &Element, to: u32) -> Result<Arrow> {
        let (filter, test) = match &element.condition {
            Some(condition) => self.condition(condition)?,
            None => (None, None),
        };
        let update = self.update(&element.update)?;
        Ok(Arrow { filter, test, update, to, variable: element.variable })
    }

    /// The filter and the test of a condition.
    fn condition(&mut self, condition: &Expr) -> Result<(Option<usize>, Option<usize>)> {
        let data_type = condition.data_type(&self.schema)?;
        if data_type != DataType::Boolean {
            return plan_err!(
                "the condition {condition} of the pattern is not a truth value but {data_type}"
            );
        }
        let parts = split_conjunction(condition).into_iter().cloned();
        let reads_register = |part: &Expr| collect_columns(part).iter().any(|c| c.index() >= self.event);
        let (tests, filters): (Vec<Expr>, Vec<Expr>) = parts.partition(reads_register);
        let reader = |parts| conjunction_opt(parts).map(|expr| Reader::new(&expr, &self.schema)).transpose();
        let (filter, test) = (reader(filters)?, reader(tests)?);
        let filter = filter.map(|filter| place(&mut self.program.filters, filter));
        Ok((filter, test.map(|test| place(&mut self.program.tests, test))))
    }

    fn update(&mut self, update: &[(usize, Expr)]) -> Result<Option<usize>> {
        let mut readers = Vec::new();
        for (field, value) in update {
            let (wanted, found) =
                (self.automaton.register()[*field].data_type(), value.data_type(&self.schema)?);
            if wanted != found {
                let name = &self.automaton.register()[*field].name;
                return plan_err!("the pattern sets {name}, which is {wanted}, to {value}, which is {found}");
            }
            readers.push((*field, Reader::new(value, &self.schema)?));
        }
        Ok((!readers.is_empty()).then(|| place(&mut self.program.updates, readers)))
    }
}

/// The place of an item in a list; it is appended if it is not there.
fn place<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|other| *other == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}
