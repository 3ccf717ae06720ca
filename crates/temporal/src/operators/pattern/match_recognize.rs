//! `match_recognize`: row patterns of SQL (ISO/IEC 9075-2:2016, *row pattern recognition*), one row a match.
//!
//! The rows of a key are in order of their starts, those of one instant in the order of their values. For
//! each row at which a match may begin, exactly the preferred match is found: alternatives from left to
//! right, greedy repetitions rather longer. Where the next one may begin then is said by [`AfterMatch`]. A
//! match is a point at the start of its last row: `[t, t + 1)`.
//!
//! Invariants: a match comes out when it is certain: when no match is preferred to it, and none that begins
//! earlier may skip its first row. Until then the output has not come past the last row of the match, and nor
//! have punctuations. Without `within` a pattern that could go on holds everything back until its key has
//! another row; with it, at most so long. Keys are forgotten in sweeps, unless matches are numbered or rows
//! look back at earlier ones.
//!
//! Differences from the standard: a pattern that may match no row at all is refused, so there are no empty
//! matches; exclusions (`{- -}`) and anchors are not there; measures are fields of the register, which have
//! their final values.

use super::attempts::{AfterMatch, Attempts, Found, SavedAttempts};
use super::automaton::Automaton;
use super::detect::Simultaneous;
use super::intake::{Events, Intake, SavedIntake};
use super::lookback::{Lookback, Previous, with_previous};
use super::program::Program;
use super::registers::Registers;
use super::sweeps::Sweeps;
use crate::batch::{Batch, Message, Other};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::synopsis::SavedSynopsis;
use crate::time::{BEGINNING, INFINITY, Time};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, plan_err};
use serde_bytes::ByteBuf;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;

/// A row pattern, and how it is looked for.
#[derive(Debug, Clone)]
pub struct RowPattern {
    /// What matches. Its expressions are over the columns of a row, those of `previous`, and the register.
    pub automaton: Automaton,
    /// The columns that rows are partitioned by.
    pub key: Vec<usize>,
    /// Columns of earlier rows that are added to each row, see [`with_previous`].
    pub previous: Vec<Previous>,
    /// A match has only rows that start less than so many ticks after its first; none: it may last for ever.
    pub within: Option<i64>,
    /// Where the next match may begin.
    pub after_match: AfterMatch,
    /// The name of a column with the number of the match among those of its key, from 1.
    pub match_number: Option<String>,
    /// What simultaneous rows of a key mean.
    pub simultaneous: Simultaneous,
}

/// See the module.
pub struct MatchRecognize {
    program: Program,
    schema: SchemaRef,
    is_numbered: bool,
    intake: Intake,
    lookback: Lookback,
    attempts: Attempts,
    registers: Registers,
    /// Matches that an earlier one may still come before, by time.
    waiting: BinaryHeap<Reverse<Found>>,
    found: Vec<Found>,
    events: Vec<Events>,
    /// Up to where time has come.
    now: Time,
    /// The last punctuation that was handed on.
    punctuated: Time,
    sweeps: Sweeps,
}

impl MatchRecognize {
    /// Recognizes a pattern among rows with the columns of `input`.
    ///
    /// # Errors
    /// `Plan` if the pattern may match no row, consumes lists, or lasts no time; or an expression or a column
    /// does not fit: see [`Automaton`] and [`with_previous`].
    pub fn try_new(pattern: RowPattern, input: &SchemaRef) -> Result<MatchRecognize> {
        let RowPattern { automaton, key, previous, within, after_match, match_number, simultaneous } =
            pattern;
        if automaton.consumes_lists() {
            return plan_err!("match_recognize looks at rows one by one; the pattern consumes lists of them");
        }
        if let Some(within @ ..=0) = within {
            return plan_err!("a pattern within {within} ticks has no time to match; give it more");
        }
        let seen = with_previous(input, &previous)?;
        let program = Program::new(&automaton, seen.fields())?;
        if program.states[0].accepts {
            return plan_err!("the pattern may match no row at all; make it ask for one at least");
        }
        let mut fields: Vec<Field> = key.iter().map(|&column| input.field(column).clone()).collect();
        fields.extend(automaton.register().iter().map(|field| field.column()));
        let is_numbered = match_number.is_some();
        fields.extend(match_number.map(|name| Field::new(name, DataType::Int64, false)));
        Ok(MatchRecognize {
            program,
            schema: Arc::new(Schema::new(fields)),
            is_numbered,
            intake: Intake::new(input, key, simultaneous.together(), input.fields().to_vec()),
            lookback: Lookback::new(input, previous)?,
            attempts: Attempts::new(after_match, within),
            registers: Registers::new(automaton.register())?,
            waiting: BinaryHeap::new(),
            found: Vec::new(),
            events: Vec::new(),
            now: BEGINNING,
            punctuated: BEGINNING,
            sweeps: Sweeps::default(),
        })
    }

    /// The columns of matches: the key, the register, and the number of the match if it was asked for.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Looks at the rows that are complete; time has come to `time`.
    fn take(&mut self, time: Option<Time>, out: &mut Vec<Message>) -> Result<()> {
        let mut all = std::mem::take(&mut self.events);
        for mut events in all.drain(..) {
            self.lookback.extend(&mut events)?;
            let MatchRecognize { program, attempts, registers, found, .. } = self;
            attempts.events(program, &events, self.intake.capacity(), registers, found)?;
            self.sweeps.count(events.times.len());
            self.now = events.times.last().copied().unwrap_or(self.now);
        }
        self.events = all;
        self.now = time.unwrap_or(self.now);
        self.attempts.pass(self.now, &mut self.registers, &mut self.found)?;
        self.sweep()?;
        self.release(out)
    }

    /// Hands out the matches that no earlier one may come before.
    fn release(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.waiting.extend(self.found.drain(..).map(Reverse));
        let earliest = self.attempts.earliest();
        let mut ready = Vec::new();
        while let Some(&Reverse(found)) = self.waiting.peek()
            && found.time <= earliest
        {
            self.waiting.pop();
            ready.push(found);
        }
        if ready.is_empty() {
            return Ok(());
        }
        let slots: Vec<u32> = ready.iter().map(|found| found.register).collect();
        let groups: Vec<u32> = ready.iter().map(|found| found.group).collect();
        let mut columns = self.intake.key_columns(&groups)?;
        for field in 0..self.registers.fields() {
            columns.push(self.registers.gather(field, &slots)?);
        }
        if self.is_numbered {
            let numbers = Int64Array::from_iter_values(ready.iter().map(|found| found.number));
            columns.push(Arc::new(numbers) as ArrayRef);
        }
        slots.into_iter().for_each(|slot| self.registers.release(slot));
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(ready.len()));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let sync: Vec<Time> = ready.iter().map(|found| found.time).collect();
        out.push(Message::Batch(Batch::new(sync.into(), Other::After(1), rows)));
        Ok(())
    }

    /// Forgets the keys without attempts, if it is time to.
    fn sweep(&mut self) -> Result<()> {
        let (keys, capacity) = (self.intake.keys(), self.intake.capacity());
        if self.is_numbered || !self.lookback.is_empty() || !self.sweeps.is_due(keys, capacity) {
            return Ok(());
        }
        let mut is_idle = Vec::with_capacity(capacity);
        for key in 0..capacity as u32 {
            is_idle.push(self.attempts.retire(key, self.now, &mut self.registers, &mut self.found)?);
        }
        // A match that waits is one of a key.
        let waiting = self.waiting.iter().map(|Reverse(found)| found).chain(&self.found);
        let waiting: HashSet<u32> = waiting.map(|found| found.group).collect();
        self.intake.forget(|key| is_idle[key as usize] && !waiting.contains(&key));
        self.sweeps.swept(self.intake.keys());
        Ok(())
    }
}

impl Operator for MatchRecognize {
    fn held(&self) -> Held {
        let (alive, oldest) = self.attempts.alive();
        let kept = self.intake.held().and(self.lookback.held());
        let rows = alive + self.waiting.len() + kept.rows;
        Held::saved(rows, oldest.into_iter().chain(kept.oldest).min(), self.save())
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => {
                self.intake.push(batch, &mut self.events)?;
                self.take(None, out)
            }
            Message::Punctuation(time) => {
                self.intake.pass(time, &mut self.events)?;
                self.take(Some(time), out)?;
                let time = time.min(self.attempts.earliest());
                if time > self.punctuated || time == INFINITY {
                    self.punctuated = time;
                    out.push(Message::Punctuation(time));
                }
                Ok(())
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        let (attempts, mut slots) = self.attempts.save();
        let waiting: Vec<Found> = self.waiting.iter().map(|Reverse(found)| *found).collect();
        slots.extend(waiting.iter().map(|found| found.register));
        let registers = ByteBuf::from(self.registers.save(&slots)?);
        let times = (self.now, self.punctuated, self.sweeps);
        encode(&(self.intake.save()?, self.lookback.save()?, attempts, waiting, registers, times))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (intake, lookback, attempts): (SavedIntake, SavedSynopsis, SavedAttempts);
        let (waiting, registers): (Vec<Found>, ByteBuf);
        (intake, lookback, attempts, waiting, registers, (self.now, self.punctuated, self.sweeps)) =
            decode(state)?;
        self.intake.restore(intake)?;
        self.lookback.restore(lookback)?;
        let slots = self.registers.restore(&registers)?;
        self.attempts.restore(attempts, &slots);
        let held = waiting.iter().zip(&slots[slots.len() - waiting.len()..]);
        self.waiting = held.map(|(&found, &register)| Reverse(Found { register, ..found })).collect();
        Ok(())
    }
}
