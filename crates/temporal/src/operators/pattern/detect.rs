//! `detect`: sequences of events that an automaton accepts (Trill's `Detect`, which its paper names among the
//! operators beyond snapshots).
//!
//! Of each key: an instance of the pattern starts with every event, or only where none is alive. Every event
//! of the key has to take each instance along an arc of the automaton, or the instance is over; so it is
//! `max_duration` ticks after its first event. When an instance comes to a final state, a row comes out that
//! lives from the event to the end of the instance's time, with the key columns and the register. Two ways of
//! an instance to one state with one register are one, and so are two ways to be accepted at one event with
//! one register (Trill emits a row for each way).
//!
//! Invariants: an event at an instant is looked at when time has passed it, unless the caller vouches that no
//! key has two at one; punctuations are handed on at once, for no match is earlier than its last event. Keys
//! without instances are forgotten in sweeps, each of which is paid for by the events before it.

use super::automaton::Automaton;
use super::intake::{Events, Intake, SavedIntake, Together};
use super::matches::Matches;
use super::program::{Program, seen_columns};
use super::registers::Registers;
use super::scan::{SavedScan, Scan};
use super::sweeps::Sweeps;
use super::threads::{SavedThreads, Threads};
use crate::batch::Message;
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::time::{BEGINNING, Time};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{Result, plan_err};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Whether an instance may start while another of its key is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub enum Overlap {
    /// With every event.
    Allowed,
    /// Only with an event that leaves none alive; it may be the last of a match.
    Refused,
}

/// What several events of a key at one instant mean. An automaton that consumes lists takes them as one list
/// in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub enum Simultaneous {
    /// They follow one another in the order of their values, column by column.
    Ordered,
    /// They end every instance of the key and start none, as in Trill.
    Kill,
    /// There are none, as the caller vouches. Events are taken as they come, and matches come out at once.
    Absent,
}

impl Simultaneous {
    pub(crate) fn together(self) -> Together {
        match self {
            Simultaneous::Ordered => Together::Ordered,
            Simultaneous::Kill => Together::Blank,
            Simultaneous::Absent => Together::Absent,
        }
    }
}

/// What runs the program.
#[derive(Debug)]
enum Engine {
    Scan(Scan),
    Threads(Threads),
}

#[derive(Serialize, Deserialize)]
enum SavedEngine {
    Scan(SavedScan),
    Threads(SavedThreads),
}

/// See the module.
pub struct Detect {
    program: Program,
    schema: SchemaRef,
    intake: Intake,
    engine: Engine,
    registers: Registers,
    matches: Matches,
    events: Vec<Events>,
    /// Up to where time has come.
    now: Time,
    sweeps: Sweeps,
}

impl Detect {
    /// Detects what `automaton` accepts among the events of each key, which are rows with the columns of
    /// `input`; no key columns: all are of one key. An instance lives for `max_duration` ticks; a match whose
    /// end would be beyond time does not end.
    ///
    /// # Errors
    /// `Plan` if the duration is not positive, or an expression does not fit: see [`Automaton`].
    pub fn try_new(
        automaton: &Automaton,
        input: &SchemaRef,
        key: Vec<usize>,
        max_duration: i64,
        overlap: Overlap,
        simultaneous: Simultaneous,
    ) -> Result<Detect> {
        if max_duration <= 0 {
            return plan_err!("a pattern lasts {max_duration} ticks at most; it has to be more than none");
        }
        let seen = seen_columns(automaton, input);
        let program = Program::new(automaton, &seen)?;
        let together = match simultaneous {
            _ if automaton.consumes_lists() => Together::Listed,
            simultaneous => simultaneous.together(),
        };
        let overlap = overlap == Overlap::Allowed;
        let engine = match program.has_no_memory() {
            true => Engine::Scan(Scan::new(&program, overlap, max_duration)),
            false => Engine::Threads(Threads::new(overlap, max_duration)),
        };
        let mut fields: Vec<Field> = key.iter().map(|&column| input.field(column).clone()).collect();
        fields.extend(automaton.register().iter().map(|field| field.column()));
        Ok(Detect {
            program,
            schema: Arc::new(Schema::new(fields)),
            intake: Intake::new(input, key, together, seen),
            engine,
            registers: Registers::new(automaton.register())?,
            matches: Matches::default(),
            events: Vec::new(),
            now: BEGINNING,
            sweeps: Sweeps::default(),
        })
    }

    /// The columns of matches: the key, then the register.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Looks at the events that are complete.
    fn take(&mut self, out: &mut Vec<Message>) -> Result<()> {
        let mut all = std::mem::take(&mut self.events);
        for events in all.drain(..) {
            let Detect { program, engine, registers, matches, .. } = self;
            let keys = self.intake.capacity();
            match engine {
                Engine::Scan(scan) => scan.events(program, &events, keys, matches)?,
                Engine::Threads(threads) => threads.events(program, &events, keys, registers, matches)?,
            }
            matches.flush(&events, &self.intake, registers, &self.schema, out)?;
            self.sweeps.count(events.times.len());
            self.now = events.times.last().copied().unwrap_or(self.now);
        }
        self.events = all;
        if self.sweeps.is_due(self.intake.keys(), self.intake.capacity()) {
            self.sweep();
        }
        Ok(())
    }

    /// Forgets the keys without instances.
    fn sweep(&mut self) {
        let Detect { engine, registers, now, intake, .. } = self;
        let keys = 0..intake.capacity() as u32;
        let idle: Vec<bool> = match engine {
            Engine::Scan(scan) => keys.map(|key| scan.retire(key, *now)).collect(),
            Engine::Threads(threads) => keys.map(|key| threads.retire(key, *now, registers)).collect(),
        };
        intake.forget(|key| idle[key as usize]);
        self.sweeps.swept(self.intake.keys());
    }
}

impl Operator for Detect {
    fn held(&self) -> Held {
        let (alive, oldest) = match &self.engine {
            Engine::Scan(scan) => scan.alive(),
            Engine::Threads(threads) => threads.alive(),
        };
        let waiting = self.intake.held();
        Held::saved(alive + waiting.rows, oldest.into_iter().chain(waiting.oldest).min(), self.save())
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => {
                self.intake.push(batch, &mut self.events)?;
                self.take(out)
            }
            Message::Punctuation(time) => {
                self.intake.pass(time, &mut self.events)?;
                self.take(out)?;
                out.push(Message::Punctuation(time));
                Ok(())
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        let engine = match &self.engine {
            Engine::Scan(scan) => SavedEngine::Scan(scan.save()),
            Engine::Threads(threads) => SavedEngine::Threads(threads.save(&self.registers)?),
        };
        encode(&(self.intake.save()?, engine, self.now, self.sweeps))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (intake, engine): (SavedIntake, SavedEngine);
        (intake, engine, self.now, self.sweeps) = decode(state)?;
        self.intake.restore(intake)?;
        match (&mut self.engine, engine) {
            (Engine::Scan(scan), SavedEngine::Scan(saved)) => scan.restore(saved),
            (Engine::Threads(threads), SavedEngine::Threads(saved)) => {
                threads.restore(saved, &mut self.registers)?;
            }
            _ => {
                return datafusion::common::exec_err!(
                    "the checkpoint is of another pattern; restore it there"
                );
            }
        }
        Ok(())
    }
}
