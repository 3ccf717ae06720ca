//! Aggregates that are sums of whole numbers: what a row adds to its group is a vector of words, and the same vector is
//! what leaves with it. Counts, sums and averages of integers are of this kind.
//!
//! Invariant: words wrap, so that what was added and subtracted again leaves nothing, in whatever order.

use super::accumulator::Rows;
use super::calls::Plan;
use super::emit::Results;
use super::function::AggregateFunction;
use super::sums::counted;
use crate::key::words_of;
use crate::values::{Column, Form, Value};
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use datafusion::common::Result;
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

    #[inline(always)]
    pub fn add(&mut self, other: &Change<W>) {
        self.rows += other.rows;
        self.words.iter_mut().zip(other.words).for_each(|(word, by)| *word = word.wrapping_add(by));
    }

    /// What takes it back.
    #[inline(always)]
    pub fn negated(&self) -> Change<W> {
        Change { rows: -self.rows, words: self.words.map(i64::wrapping_neg) }
    }
}

/// Where the words of one aggregate are. `present`: the word that counts its values; none: all rows have one.
#[derive(Debug, Clone, Copy)]
enum Place {
    Rows,
    Present(usize),
    Sum {
        sum: usize,
        present: Option<usize>,
        unsigned: bool,
    },
    /// The upper and the lower half of the values are summed up apart: neither sum can be too large.
    Average {
        high: usize,
        low: usize,
        present: Option<usize>,
        unsigned: bool,
    },
}

impl Place {
    fn present(self) -> Option<usize> {
        match self {
            Place::Rows => None,
            Place::Present(present) => Some(present),
            Place::Sum { present, .. } | Place::Average { present, .. } => present,
        }
    }

    fn words(self) -> [Option<usize>; 3] {
        match self {
            Place::Rows | Place::Present(_) => [self.present(), None, None],
            Place::Sum { sum, present, .. } => [Some(sum), present, None],
            Place::Average { high, low, present, .. } => [Some(high), Some(low), present],
        }
    }
}

/// The words of all aggregates of an operator.
#[derive(Debug)]
pub(super) struct Vectors {
    places: Vec<Place>,
    /// How many words there are.
    pub words: usize,
    loaded: Vec<Loaded>,
}

/// What an aggregate sees of a batch.
#[derive(Debug)]
struct Loaded {
    values: Option<ScalarBuffer<u64>>,
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
                (AggregateFunction::Sum, Some(Form::Int | Form::Uint)) => {
                    Place::Sum { sum: next(), present: partial.then(&mut next), unsigned }
                }
                (AggregateFunction::Average, Some(Form::Int | Form::Uint)) => {
                    Place::Average { high: next(), low: next(), present: partial.then(&mut next), unsigned }
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
            Ok(Loaded { values, take: counted(rows) })
        };
        self.loaded = self.places.iter().zip(rows).map(load).collect::<Result<_>>()?;
        Ok(())
    }

    /// What each of these rows adds to its group.
    pub fn changes<const W: usize>(&self, rows: Range<usize>, out: &mut Vec<Change<W>>) {
        out.clear();
        out.resize(rows.len(), Change { rows: 1, words: [0; W] });
        for (&place, loaded) in self.places.iter().zip(&self.loaded) {
            let values = loaded.values.as_ref().map_or(&[][..], |values| &values[rows.clone()]);
            match place {
                Place::Rows | Place::Present(_) => {}
                Place::Sum { sum, .. } => put(out, sum, values.iter().map(|&value| value as i64)),
                Place::Average { high, low, unsigned, .. } => {
                    match unsigned {
                        true => put(out, high, values.iter().map(|&value| (value >> 32) as i64)),
                        false => put(out, high, values.iter().map(|&value| value as i64 >> 32)),
                    }
                    put(out, low, values.iter().map(|&value| (value & u32::MAX as u64) as i64));
                }
            }
            if let Some(present) = place.present() {
                put(out, present, std::iter::repeat(1));
            }
            if let Some(take) = &loaded.take {
                let taken = |i: usize| take.value(rows.start + i) as i64;
                for word in place.words().into_iter().flatten() {
                    out.iter_mut().enumerate().for_each(|(i, change)| change.words[word] *= taken(i));
                }
            }
        }
    }
}

/// Sets one word of each change.
#[inline(always)]
fn put<const W: usize>(changes: &mut [Change<W>], word: usize, values: impl Iterator<Item = i64>) {
    changes.iter_mut().zip(values).for_each(|(change, value)| change.words[word] = value);
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
            Place::Average { high, low, present, .. } => self.where_present(present, column, |state| {
                let total = ((state.words[high] as i128) << 32) + state.words[low] as i128;
                total as f64 / present.map_or(state.rows, |present| state.words[present]) as f64
            }),
        }
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
