//! Aggregates whose functions are written in Python.
//!
//! A state that rows can leave again has one of two forms. With the user's `combine`, `deaccumulate` and
//! `difference` it is the user's own state. Without them it has the values of the rows alive, ordered by
//! their starts, and every result is computed from all of them.
//!
//! Invariants: the result of a state without values is null. The interpreter is entered once a call of the
//! engine, not once a row. The first exception is kept until the engine asks for it
//! ([`Accumulator::failure`]), and no function is called after it.

use arrow::array::{Array, BooleanArray, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, plan_err};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_plan::UserFunction;
use whimbrel_temporal::operators::{Accumulator, Rows, UserAggregate, same};
use whimbrel_temporal::{Column, Time};

use crate::error::PythonError;
use crate::shutdown::attach_to_compute;
use crate::{types, values};

/// A Python aggregate, for plans.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Aggregate")]
pub struct NativeAggregate {
    /// The aggregate as part of a plan.
    pub function: UserFunction,
}

/// The user's functions and the type of their results.
#[derive(Debug)]
struct Functions {
    /// The name of the aggregate, for messages.
    name: String,
    /// The type of the result.
    returns: DataType,
    /// Makes the state without values.
    initial: Py<PyAny>,
    /// The state after one more value.
    accumulate: Py<PyAny>,
    /// The result of a state.
    result: Py<PyAny>,
    /// Without it, a state keeps its values if rows can leave it.
    retraction: Option<Retraction>,
}

/// The user's functions that remove values from states, and combine states.
#[derive(Debug)]
struct Retraction {
    /// The state of the values of two states.
    combine: Py<PyAny>,
    /// The state after one value less.
    deaccumulate: Py<PyAny>,
    /// The state of the values that are in one state and not in the other.
    difference: Py<PyAny>,
}

/// The aggregate as the engine calls it.
#[derive(Debug)]
struct PythonAggregate(Arc<Functions>);

#[pymethods]
impl NativeAggregate {
    /// `functions` are initial, accumulate and result; `undo` are combine, deaccumulate and difference.
    #[new]
    #[pyo3(signature = (name, returns, functions, undo))]
    fn new(
        name: String,
        returns: &Bound<'_, PyAny>,
        functions: [Py<PyAny>; 3],
        undo: Option<[Py<PyAny>; 3]>,
    ) -> PyResult<NativeAggregate> {
        let [initial, accumulate, result] = functions;
        let retraction =
            undo.map(|[combine, deaccumulate, difference]| Retraction { combine, deaccumulate, difference });
        let returns = types::extract(returns)?;
        let functions = Functions { name, returns, initial, accumulate, result, retraction };
        Ok(NativeAggregate { function: UserFunction::new(Arc::new(PythonAggregate(Arc::new(functions)))) })
    }
}

impl UserAggregate for PythonAggregate {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn return_type(&self, argument: Option<&DataType>) -> Result<DataType> {
        match argument {
            Some(_) => Ok(self.0.returns.clone()),
            None => plan_err!("{} needs an argument", self.0.name),
        }
    }

    fn accumulator(&self, _argument: Option<&DataType>, is_retracted: bool) -> Box<dyn Accumulator> {
        let keeps_values = is_retracted && self.0.retraction.is_none();
        Box::new(PythonStates {
            functions: self.0.clone(),
            keeps_values,
            states: Vec::new(),
            loaded: Rows::default(),
            nulls: None,
            loaded_from: 0,
            loaded_to: 0,
            failure: Mutex::new(None),
        })
    }
}

/// The start of a row, and its number among all rows ever loaded.
type Place = (Time, u64);

/// The values that were accumulated and not removed.
#[derive(Debug, Default)]
struct State {
    /// The number of values.
    count: i64,
    /// The user's state, if there is a value and values are not kept.
    user_state: Option<Py<PyAny>>,
    /// The values, if they are kept.
    values: BTreeMap<Place, Py<PyAny>>,
}

/// A column of states.
#[derive(Debug)]
struct PythonStates {
    functions: Arc<Functions>,
    /// Whether the states have the values, and not the user's states.
    keeps_values: bool,
    states: Vec<State>,
    /// The batch whose rows are accumulated next.
    loaded: Rows,
    /// The nulls of its argument.
    nulls: Option<NullBuffer>,
    /// The number of the first row of the loaded batch.
    loaded_from: u64,
    /// The number of the first row of the next batch.
    loaded_to: u64,
    /// The first exception.
    failure: Mutex<Option<DataFusionError>>,
}

impl Functions {
    /// Calls one of the functions. The error for what it raises has its arguments.
    fn call<'py>(
        &self,
        name: &str,
        function: &Py<PyAny>,
        arguments: &[Bound<'py, PyAny>],
        py: Python<'py>,
    ) -> Result<Bound<'py, PyAny>> {
        let called = PyTuple::new(py, arguments).and_then(|all| function.bind(py).call1(all));
        called.map_err(|error| {
            let shown: Vec<String> = arguments.iter().map(values::show).collect();
            PythonError::wrap(
                format!("the aggregate {} failed in {name}({})", self.name, shown.join(", ")),
                error,
            )
        })
    }

    /// The user's initial state.
    fn initial<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        self.call("initial", &self.initial, &[], py)
    }

    /// The user's state after one more value.
    fn accumulate<'py>(
        &self,
        state: Bound<'py, PyAny>,
        value: Bound<'py, PyAny>,
        py: Python<'py>,
    ) -> Result<Bound<'py, PyAny>> {
        self.call("accumulate", &self.accumulate, &[state, value], py)
    }

    /// The functions that remove values.
    fn retraction(&self) -> Result<&Retraction> {
        self.retraction.as_ref().ok_or_else(|| {
            DataFusionError::Execution(format!(
                "the aggregate {} was asked to put states together; give it combine, deaccumulate and difference",
                self.name
            ))
        })
    }
}

impl PythonStates {
    /// Whether a row is accumulated: its argument is not null, and it passes the filter.
    fn counts(&self, row: usize) -> bool {
        let passes = |f: &BooleanArray| f.is_valid(row) && f.value(row);
        self.nulls.as_ref().is_none_or(|n| n.is_valid(row)) && self.loaded.filter.as_ref().is_none_or(passes)
    }

    /// The value of a row, if it is accumulated.
    fn value<'py>(&self, row: usize, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        match &self.loaded.argument {
            Some(argument) if self.counts(row) => {
                let cell = values::cell(py, argument.as_ref(), row).map_err(PythonError::pass)?;
                Ok(Some(cell.into_bound(py)))
            }
            _ => Ok(None),
        }
    }

    /// The place of a row among the values of a state.
    fn place(&self, row: usize) -> Place {
        (self.loaded.starts[row], self.loaded_from + row as u64)
    }

    /// Calls Python, unless a call has failed before. The error is kept.
    fn attempt(&mut self, call: impl FnOnce(&mut Self, Python<'_>) -> Result<()>) {
        if self.failure.get_mut().unwrap_or_else(PoisonError::into_inner).is_some() {
            return;
        }
        if let Err(error) = attach_to_compute(|py| call(self, py)).flatten() {
            *self.failure.get_mut().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    /// Adds the value of a row to a state.
    fn add(&mut self, state: usize, row: usize, py: Python<'_>) -> Result<()> {
        let Some(value) = self.value(row, py)? else { return Ok(()) };
        if self.keeps_values {
            let place = self.place(row);
            self.states[state].values.insert(place, value.unbind());
        } else {
            let old = match self.states[state].user_state.take() {
                Some(own) => own.into_bound(py),
                None => self.functions.initial(py)?,
            };
            self.states[state].user_state = Some(self.functions.accumulate(old, value, py)?.unbind());
        }
        self.states[state].count += 1;
        Ok(())
    }

    /// Removes the value of a row from a state.
    fn remove(&mut self, state: usize, row: usize, py: Python<'_>) -> Result<()> {
        let Some(value) = self.value(row, py)? else { return Ok(()) };
        if self.keeps_values {
            let start = self.loaded.starts[row];
            remove_equal(&mut self.states[state].values, start, &value)?;
        } else {
            let functions = self.functions.clone();
            let deaccumulate = &functions.retraction()?.deaccumulate;
            if let Some(own) = self.states[state].user_state.take() {
                let left = functions.call("deaccumulate", deaccumulate, &[own.into_bound(py), value], py)?;
                self.states[state].user_state = Some(left.unbind());
            }
        }
        self.subtract(state, 1);
        Ok(())
    }

    /// Counts fewer values. A state without values is the initial one.
    fn subtract(&mut self, state: usize, values: i64) {
        let state = &mut self.states[state];
        state.count -= values;
        if state.count <= 0 {
            *state = State::default();
        }
    }

    /// Adds the values of another state.
    fn add_state(&mut self, to: usize, from: &State, py: Python<'_>) -> Result<()> {
        if from.count == 0 {
            return Ok(());
        }
        let functions = self.functions.clone();
        let state = &mut self.states[to];
        state.count += from.count;
        state.values.extend(from.values.iter().map(|(place, value)| (*place, value.clone_ref(py))));
        if let Some(added) = &from.user_state {
            let old = match state.user_state.take() {
                Some(own) => own.into_bound(py),
                // To take the object over would make two states share it.
                None => functions.initial(py)?,
            };
            let combine = &functions.retraction()?.combine;
            let both = functions.call("combine", combine, &[old, added.bind(py).clone()], py)?;
            state.user_state = Some(both.unbind());
        }
        Ok(())
    }

    /// Removes the values of another state.
    fn remove_state(&mut self, to: usize, from: &State, py: Python<'_>) -> Result<()> {
        if from.count == 0 {
            return Ok(());
        }
        let functions = self.functions.clone();
        let state = &mut self.states[to];
        for (place, value) in &from.values {
            // An end edge may have removed the equal value of another row in place of its own.
            if state.values.remove(place).is_none() {
                remove_equal(&mut state.values, place.0, value.bind(py))?;
            }
        }
        if let (Some(removed), true) = (&from.user_state, state.count > from.count)
            && let Some(own) = state.user_state.take()
        {
            let difference = &functions.retraction()?.difference;
            let arguments = [own.into_bound(py), removed.bind(py).clone()];
            state.user_state = Some(functions.call("difference", difference, &arguments, py)?.unbind());
        }
        self.subtract(to, from.count);
        Ok(())
    }

    /// The result of a state.
    fn state_result<'py>(&self, state: &State, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        if state.count == 0 {
            return Ok(py.None().into_bound(py));
        }
        let functions = &self.functions;
        let own = match &state.user_state {
            Some(own) => own.bind(py).clone(),
            None => {
                let values = state.values.values().map(|v| v.bind(py).clone());
                values.fold(functions.initial(py), |state, value| functions.accumulate(state?, value, py))?
            }
        };
        functions.call("result", &functions.result, &[own], py)
    }
}

/// Removes one of the values that are equal to `value`, of the rows with this start.
fn remove_equal(
    values: &mut BTreeMap<Place, Py<PyAny>>,
    start: Time,
    value: &Bound<'_, PyAny>,
) -> Result<()> {
    let mut found = None;
    for (place, held) in values.range((start, 0)..=(start, u64::MAX)) {
        let held = held.bind(value.py());
        // NaN is not equal to itself. Its text is.
        if held.eq(value).map_err(PythonError::pass)? || values::show(held) == values::show(value) {
            found = Some(*place);
            break;
        }
    }
    if let Some(place) = found {
        values.remove(&place);
    }
    Ok(())
}

impl Accumulator for PythonStates {
    /// Adds states without values.
    fn grow(&mut self, states: usize) {
        self.states.resize_with(states.max(self.states.len()), State::default);
    }
    fn reset(&mut self, states: &[u32]) {
        states.iter().for_each(|&s| self.states[s as usize] = State::default());
    }
    fn load(&mut self, rows: &Rows) -> Result<()> {
        self.nulls = rows.argument.as_ref().and_then(|a| a.logical_nulls());
        self.loaded = rows.clone();
        self.loaded_from = self.loaded_to;
        self.loaded_to += self.loaded.starts.len() as u64;
        Ok(())
    }
    fn accumulate(&mut self, states: &[u32], first: usize) {
        self.attempt(|column, py| {
            for (row, &state) in (first..).zip(states) {
                column.add(state as usize, row, py)?;
                if row % 1024 == 1023 {
                    py.check_signals().map_err(PythonError::pass)?;
                }
            }
            Ok(())
        });
    }
    fn deaccumulate(&mut self, states: &[u32], first: usize) {
        self.attempt(|column, py| {
            (first..).zip(states).try_for_each(|(row, &state)| column.remove(state as usize, row, py))
        });
    }
    fn combine(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        let other = same::<Self>(other);
        self.attempt(|column, py| {
            to.iter()
                .zip(from)
                .try_for_each(|(&t, &f)| column.add_state(t as usize, &other.states[f as usize], py))
        });
    }
    fn difference(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        let other = same::<Self>(other);
        self.attempt(|column, py| {
            to.iter()
                .zip(from)
                .try_for_each(|(&t, &f)| column.remove_state(t as usize, &other.states[f as usize], py))
        });
    }
    fn result(&self, states: &[u32], out: &mut Column) {
        let Functions { name, returns, .. } = self.functions.as_ref();
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let results = match failure.is_some() {
            true => Ok(new_null_array(returns, states.len())),
            false => attach_to_compute(|py| {
                let objects: Vec<_> = states
                    .iter()
                    .map(|&s| self.state_result(&self.states[s as usize], py))
                    .collect::<Result<_>>()?;
                values::column(name, &objects, returns)
                    .map_err(|error| PythonError::wrap(format!("the aggregate {name} failed"), error))
            })
            .flatten(),
        };
        let appended = results.and_then(|array| out.append(&array));
        if let Err(error) = appended {
            // The engine expects as many rows as states. It reads the failure before the rows.
            let _ = out.append(&new_null_array(returns, states.len()));
            *failure = Some(error);
        }
    }
    fn failure(&mut self) -> Result<()> {
        match self.failure.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn save(&self) -> Result<Vec<u8>> {
        attach_to_compute(|py| pickle_states(self, py))?.map_err(|error| {
            PythonError::wrap(
                format!("a state of the aggregate {} cannot be pickled", self.functions.name),
                error,
            )
        })
    }
    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        attach_to_compute(|py| unpickle_states(self, bytes, py))?.map_err(|error| {
            PythonError::wrap(
                format!("a saved state of the aggregate {} cannot be read", self.functions.name),
                error,
            )
        })
    }
}

/// Pickles the states: a list of `(count, [state] or [], [(start, number, value)])`, and the numbers of rows.
fn pickle_states(column: &PythonStates, py: Python<'_>) -> PyResult<Vec<u8>> {
    let state = |state: &State| {
        let places = state.values.iter().map(|((start, number), v)| (*start, *number, v.clone_ref(py)));
        let own: Vec<_> = state.user_state.iter().map(|own| own.clone_ref(py)).collect();
        (state.count, own, places.collect::<Vec<_>>())
    };
    let states = PyList::new(py, column.states.iter().map(state))?;
    let bytes =
        py.import("pickle")?.call_method1("dumps", ((states, (column.loaded_from, column.loaded_to)),))?;
    Ok(bytes.cast::<PyBytes>()?.as_bytes().to_vec())
}

/// Restores the states of [`pickle_states`].
fn unpickle_states(column: &mut PythonStates, bytes: &[u8], py: Python<'_>) -> PyResult<()> {
    type Saved = (i64, Vec<Py<PyAny>>, Vec<(Time, u64, Py<PyAny>)>);
    let saved = py.import("pickle")?.call_method1("loads", (PyBytes::new(py, bytes),))?;
    let (states, (from, to)): (Vec<Saved>, (u64, u64)) = saved.extract()?;
    let state = |(count, own, values): Saved| State {
        count,
        user_state: own.into_iter().next(),
        values: values.into_iter().map(|(start, number, value)| ((start, number), value)).collect(),
    };
    column.states = states.into_iter().map(state).collect();
    (column.loaded_from, column.loaded_to) = (from, to);
    Ok(())
}
