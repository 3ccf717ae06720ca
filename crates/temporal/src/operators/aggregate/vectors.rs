//! Aggregates that are sums of whole numbers: what a row adds to its group is a vector of words, and the same
//! vector is what leaves with it. Counts, sums and averages of integers are of this kind.
//!
//! Invariant: words wrap, so that what was added and subtracted again leaves nothing, in whatever order. What
//! is handed out has not: a sum of numbers of 64 bits is kept in two words, and refused where it needs them.

use super::accumulator::Rows;
use super::calls::{Argument, Plan, Results};
use super::carried::TOO_LARGE;
use super::function::AggregateFunction;
use super::state_column::selection;
use crate::key::words_of;
use crate::values::{Column, Form, Value};
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use datafusion::common::Result;
use std::iter::repeat;
use std::ops::Range;

/// What some rows of a group add to it: how many they are, and the words of all aggregates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change<const W: usize> {
    pub rows: i64,
    pub words: [i64; W],
}

impl<const W: usize> Change<W> {
    /// What no rows add.
    pub const NONE: Change<W> = Change { rows: 0, words: [0; W] };

    /// What takes it back.
    #[inline(always)]
    pub fn negated(&self) -> Change<W> {
        Change { rows: -self.rows, words: self.words.map(i64::wrapping_neg) }
    }

    /// The sum whose halves these words are.
    #[inline(always)]
    fn sum(&self, high: usize, low: usize) -> i128 {
        (i128::from(self.words[high]) << 32) + i128::from(self.words[low])
    }
}

/// Where the words of one aggregate are. `present`: the word that counts its values; none: all rows have one.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// The number of rows, which a change has beside its words.
    Rows,
    Present(usize),
    /// Of numbers of 32 bits at most, of which no sum can be too large.
    Sum {
        sum: usize,
        present: Option<usize>,
        unsigned: bool,
    },
    /// The upper and the lower half of the values are summed up apart: neither sum can be too large.
    Halves {
        high: usize,
        low: usize,
        present: Option<usize>,
        unsigned: bool,
        average: bool,
    },
}

/// The words of all aggregates of an operator.
#[derive(Debug)]
pub(super) struct Vectors {
    places: Vec<Place>,
    /// How many words there are.
    pub words: usize,
    loaded: Vec<Loaded>,
}

/// Whether a sum of fewer than 2^32 of them is one of 64 bits.
fn is_narrow(argument: &Argument) -> bool {
    argument.data_type.primitive_width().is_none_or(|bytes| bytes <= 4)
}

/// What an aggregate reads of a batch.
#[derive(Debug)]
struct Loaded {
    /// The words of the argument; none: its values do not matter.
    values: Option<ScalarBuffer<u64>>,
    /// Which rows count; none: all.
    take: Option<BooleanBuffer>,
}

impl Vectors {
    /// The words of the plan's aggregates, if all of them are of this kind.
    pub fn of(plan: &Plan) -> Option<Vectors> {
        let mut words = 0;
        let mut next = || {
            words += 1;
            words - 1
        };
        let mut places = Vec::new();
        for (call, argument) in plan.calls_by_argument() {
            let partial = call.filter.is_some() || argument.is_some_and(|argument| argument.nullable);
            let of = argument.map(|argument| Form::of(&argument.data_type));
            let unsigned = of == Some(Form::Uint);
            places.push(match (&call.function, of) {
                (AggregateFunction::Count, _) if partial => Place::Present(next()),
                (AggregateFunction::Count, _) => Place::Rows,
                (AggregateFunction::Sum, Some(Form::Int | Form::Uint)) if argument.is_some_and(is_narrow) => {
                    Place::Sum { sum: next(), present: partial.then(&mut next), unsigned }
                }
                (AggregateFunction::Sum | AggregateFunction::Average, Some(Form::Int | Form::Uint)) => {
                    let average = matches!(call.function, AggregateFunction::Average);
                    let (high, low, present) = (next(), next(), partial.then(&mut next));
                    Place::Halves { high, low, present, unsigned, average }
                }
                _ => return None,
            });
        }
        Some(Vectors { places, words, loaded: Vec::new() })
    }

    /// Says which batch the next rows are of.
    pub fn load(&mut self, rows: &[Rows]) -> Result<()> {
        let load = |(place, rows): (&Place, &Rows)| {
            let values = match place {
                Place::Rows | Place::Present(_) => None,
                _ => rows.argument.as_ref().map(words_of).transpose()?,
            };
            Ok(Loaded { values, take: selection(rows) })
        };
        self.loaded = self.places.iter().zip(rows).map(load).collect::<Result<_>>()?;
        Ok(())
    }

    /// Appends what each of these rows adds to its group.
    pub fn changes<const W: usize>(&self, rows: Range<usize>, out: &mut Vec<Change<W>>) {
        let first = out.len();
        out.resize(first + rows.len(), Change { rows: 1, words: [0; W] });
        self.write(rows, &mut PerRow(&mut out[first..]));
    }

    /// Adds what these rows add to the states of their groups.
    pub fn add<const W: usize>(&self, rows: Range<usize>, groups: &[u32], states: &mut [Change<W>]) {
        let mut sums = IntoGroups { groups, states, counted: false };
        self.write(rows, &mut sums);
        if !sums.counted {
            sums.put([], repeat([]));
        }
    }

    /// Writes the words of these rows, an aggregate after the other.
    fn write(&self, rows: Range<usize>, to: &mut impl Target) {
        for (&place, loaded) in self.places.iter().zip(&self.loaded) {
            let values = loaded.values.as_ref().map_or(&[][..], |values| &values[rows.clone()]).iter();
            let counts = loaded.take.as_ref();
            let mut to = Masked { counts, first: rows.start, to };
            match place {
                Place::Rows => {}
                Place::Present(present) => to.put([present], repeat([1])),
                Place::Sum { sum, present: None, .. } => to.put([sum], values.map(|&value| [value as i64])),
                Place::Sum { sum, present: Some(present), .. } => {
                    to.put([sum, present], values.map(|&value| [value as i64, 1]));
                }
                Place::Halves { high, low, present, unsigned, .. } => {
                    let upper = |value: u64| if unsigned { (value >> 32) as i64 } else { value as i64 >> 32 };
                    let lower = |value: u64| (value & u32::MAX as u64) as i64;
                    to.put([high, low], values.map(|&value| [upper(value), lower(value)]));
                    if let Some(present) = present {
                        to.put([present], repeat([1]));
                    }
                }
            }
        }
    }
}

/// What some words of each row are put into.
trait Target {
    /// Takes the values of these words of each row, one row after another.
    fn put<const N: usize>(&mut self, words: [usize; N], values: impl Iterator<Item = [i64; N]>);
}

/// A change for each row, in which the words are set.
struct PerRow<'a, const W: usize>(&'a mut [Change<W>]);

impl<const W: usize> Target for PerRow<'_, W> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, words: [usize; N], values: impl Iterator<Item = [i64; N]>) {
        for (change, values) in self.0.iter_mut().zip(values) {
            words.iter().zip(values).for_each(|(&word, value)| change.words[word] = value);
        }
    }
}

/// The states of the rows' groups, to which the words are added. The rows are counted with the first of them,
/// for the next change of a state waits for the one before.
struct IntoGroups<'a, const W: usize> {
    groups: &'a [u32],
    states: &'a mut [Change<W>],
    counted: bool,
}

impl<const W: usize> Target for IntoGroups<'_, W> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, words: [usize; N], values: impl Iterator<Item = [i64; N]>) {
        let rows = !std::mem::replace(&mut self.counted, true) as i64;
        for (&group, values) in self.groups.iter().zip(values) {
            let state = &mut self.states[group as usize];
            state.rows += rows;
            for (&word, value) in words.iter().zip(values) {
                state.words[word] = state.words[word].wrapping_add(value);
            }
        }
    }
}

/// The rows from `first` on, of which those count whose bit is set; none: all.
struct Masked<'a, T> {
    counts: Option<&'a BooleanBuffer>,
    first: usize,
    to: &'a mut T,
}

impl<T: Target> Target for Masked<'_, T> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, words: [usize; N], values: impl Iterator<Item = [i64; N]>) {
        match self.counts {
            None => self.to.put(words, values),
            Some(counts) => {
                let counted = |(row, values): (usize, [i64; N])| {
                    let by = counts.value(row) as i64;
                    values.map(|value| value * by)
                };
                self.to.put(words, (self.first..).zip(values).map(counted));
            }
        }
    }
}

/// The results of some groups, of which `states` is all that was added to them.
pub(super) struct Totals<'a, const W: usize> {
    pub vectors: &'a Vectors,
    pub states: &'a [Change<W>],
}

impl<const W: usize> Results for Totals<'_, W> {
    fn append(&self, columns: &mut [Column]) {
        for (place, column) in self.vectors.places.iter().zip(columns) {
            self.one(*place, column);
        }
    }
}

impl<const W: usize> Totals<'_, W> {
    fn one(&self, place: Place, column: &mut Column) {
        match place {
            Place::Rows => column.extend(self.states.iter().map(|state| state.rows)),
            Place::Present(present) => column.extend(self.states.iter().map(|state| state.words[present])),
            Place::Sum { sum, present, unsigned: false } => {
                self.where_present(present, column, |state| state.words[sum]);
            }
            Place::Sum { sum, present, unsigned: true } => {
                self.where_present(present, column, |state| state.words[sum] as u64);
            }
            Place::Halves { high, low, present, average: true, .. } => {
                self.where_present(present, column, |state| {
                    let count = present.map_or(state.rows, |present| state.words[present]);
                    state.sum(high, low) as f64 / count as f64
                });
            }
            Place::Halves { high, low, present, unsigned: false, .. } => {
                self.where_it_fits::<i64>(high, low, present, column);
            }
            Place::Halves { high, low, present, unsigned: true, .. } => {
                self.where_it_fits::<u64>(high, low, present, column);
            }
        }
    }

    /// Appends sums; refuses what is too large for its type.
    fn where_it_fits<V: Value + TryFrom<i128> + Default>(
        &self,
        high: usize,
        low: usize,
        present: Option<usize>,
        column: &mut Column,
    ) {
        let sum = |state: &Change<W>| V::try_from(state.sum(high, low));
        if self.states.iter().any(|state| sum(state).is_err()) {
            return column.refuse(TOO_LARGE);
        }
        // All of them have just been looked at.
        self.where_present(present, column, |state| sum(state).unwrap_or_default());
    }

    /// Appends what `result` says; null where no value was counted.
    fn where_present<V: Value>(
        &self,
        present: Option<usize>,
        column: &mut Column,
        result: impl Fn(&Change<W>) -> V,
    ) {
        let any = |state: &Change<W>| present.is_none_or(|present| state.words[present] > 0);
        match self.states.iter().all(any) {
            true => column.extend(self.states.iter().map(result)),
            false => {
                column.extend_optional(self.states.iter().map(|state| any(state).then(|| result(state))))
            }
        }
    }
}
