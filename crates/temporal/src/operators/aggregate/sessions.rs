//! The aggregate over each session: the rows are added up as they come, and none is kept.
//!
//! The same comes out as of an aggregate over the [windows](crate::operators::Session::windows) of sessions
//! by their key, for the rows of a session that has ended are points at one instant, and no other session of
//! the key ends then.
//!
//! Invariants: `slots[g]` is the state of the session of group `g`, if it has one; `ended` is empty between
//! two pushes.

use super::calls::{AggregateCall, Plan, Results, ResultsOf, States};
use super::leaving::Leaving;
use super::output_batch::{OutputBatch, Snapshots};
use crate::batch::{Batch, Message};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::point_at_end;
use crate::operators::session::{EndedSession, Extents, SessionCap};
use crate::rules::BATCH_ROWS;
use crate::time::{INFINITY, Kind, Time};
use crate::values::Column;
use arrow::array::BooleanArray;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, internal_err};
use serde_bytes::ByteBuf;
use std::sync::Arc;

/// Aggregates over each session, which has one row once it has ended: a point there.
pub struct SessionAggregate {
    plan: Plan,
    /// The key's columns, the first instant and the end of the session, then a column for each call.
    schema: SchemaRef,
    sessions: Extents,
    states: States,
    slots: Vec<u32>,
    /// How many states there are, free ones included.
    places: u32,
    free: Vec<u32>,
    /// The sessions that are over, and their states.
    ended: Vec<EndedSession>,
    ended_slots: Vec<u32>,
    output: OutputBatch,
    numbers: Vec<u32>,
}

impl SessionAggregate {
    /// Aggregates `calls` over the rows of a stream with this schema, for each session by the `key` columns
    /// that ends `timeout` ticks after its last row, or at its cap. Its first instant and its end have the
    /// type `time`.
    ///
    /// # Errors
    /// `Plan` if an aggregate does not take its argument's type. `Internal` if one asks in which order rows
    /// started: those of a session that has ended start together.
    pub fn new(
        input: SchemaRef,
        (key, timeout, cap): (Vec<usize>, i64, Option<SessionCap>),
        time: &DataType,
        calls: Vec<AggregateCall>,
    ) -> Result<SessionAggregate> {
        let plan = Plan::new(input, key, calls)?;
        if plan.is_ordered() {
            return internal_err!("an aggregate over sessions as they come asks in which order rows started");
        }
        let (keys, results) = plan.schema.fields().split_at(plan.key.len());
        let instant = |name: &str| Arc::new(Field::new(name, time.clone(), false));
        let fields = keys.iter().cloned().chain([instant("first"), instant("end")]);
        let schema = Arc::new(Schema::new(fields.chain(results.iter().cloned()).collect::<Vec<_>>()));
        let mut with_instants = plan.clone();
        with_instants.schema = schema.clone();
        let output = OutputBatch::new(&with_instants, Some(1));
        Ok(SessionAggregate {
            schema,
            sessions: Extents::new(plan.key.clone(), timeout, cap),
            states: plan.states(Leaving::Never)?,
            slots: Vec::new(),
            places: 0,
            free: Vec::new(),
            ended: Vec::new(),
            ended_slots: Vec::new(),
            output,
            numbers: Vec::new(),
            plan,
        })
    }

    /// The columns of the result: those of the key, the first instant and the end of the session, and one for
    /// each call.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn batch(&mut self, batch: Batch) -> Result<()> {
        let mut batch = without_ends(batch).compact()?;
        let mut numbers = std::mem::take(&mut self.numbers);
        self.sessions.number(&mut batch, &mut numbers)?;
        self.slots.resize(self.sessions.capacity(), 0);
        for (number, &time) in numbers.iter_mut().zip(batch.sync.iter()) {
            self.advance(time);
            let group = *number;
            if self.sessions.extend(group, time) {
                self.slots[group as usize] = self.occupy();
            }
            *number = self.slots[group as usize];
        }
        self.states.grow(self.places as usize);
        self.states.load(&self.plan.evaluate(&batch)?)?;
        self.states.accumulate(&numbers, 0);
        self.numbers = numbers;
        Ok(())
    }

    /// Finds a place for a state.
    fn occupy(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.places += 1;
            self.places - 1
        })
    }

    /// Ends the sessions that are over at `time`. Their states are read out at the end of the push, when all
    /// their rows have been added.
    #[inline]
    fn advance(&mut self, time: Time) {
        while let Some(session) = self.sessions.next_ended(time) {
            self.ended_slots.push(self.slots[session.group as usize]);
            self.ended.push(session);
        }
    }

    /// Emits the sessions that are over.
    fn emit(&mut self, out: &mut Vec<Message>) -> Result<()> {
        let (Some(last), Some(keys)) = (self.ended.last(), self.sessions.groups()) else { return Ok(()) };
        point_at_end::next(last.end)?;
        for (ended, slots) in self.ended.chunks(BATCH_ROWS).zip(self.ended_slots.chunks(BATCH_ROWS)) {
            let groups: Vec<u32> = ended.iter().map(|session| session.group).collect();
            let results = &SessionResults { ended, calls: self.states.results(slots, &[]) };
            let ends = ended.iter().map(|session| session.end);
            self.output.rows_at(ends, Snapshots { keys, groups: &groups, results });
            self.output.flush(out)?;
        }
        self.states.reset(&self.ended_slots);
        self.free.append(&mut self.ended_slots);
        self.ended.clear();
        Ok(())
    }
}

/// The batch without its end edges, which say nothing that a session asks for.
fn without_ends(mut batch: Batch) -> Batch {
    let is_end = |row| batch.kind_at(row) == Kind::End;
    if (0..batch.len()).any(is_end) {
        let keep: BooleanArray = (0..batch.len()).map(|row| Some(!is_end(row))).collect();
        batch.retain(&keep);
    }
    batch
}

/// The first instants and the ends of sessions, and the results of the calls.
struct SessionResults<'a> {
    ended: &'a [EndedSession],
    calls: ResultsOf<'a>,
}

impl Results for SessionResults<'_> {
    fn append(&self, columns: &mut [Column]) {
        if let [first, end, results @ ..] = columns {
            first.extend(self.ended.iter().map(|session| session.first));
            end.extend(self.ended.iter().map(|session| session.end));
            self.calls.append(results);
        }
    }
}

impl Operator for SessionAggregate {
    fn held(&self) -> Held {
        Held::saved(self.sessions.len(), self.sessions.oldest(), self.save())
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => {
                self.batch(batch)?;
                self.emit(out)?;
            }
            Message::Punctuation(time) => {
                self.advance(time.min(INFINITY - 1));
                self.emit(out)?;
                out.push(Message::Punctuation(time));
            }
        }
        self.states.failure()
    }

    fn save(&self) -> Result<Vec<u8>> {
        let states = (&self.slots, self.places, &self.free, self.states.save()?);
        encode(&(ByteBuf::from(self.sessions.save()?), states))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (sessions, states): (Vec<u8>, Vec<ByteBuf>);
        (sessions, (self.slots, self.places, self.free, states)) = decode(state)?;
        self.sessions.restore(&sessions)?;
        self.states.restore(&states)
    }
}
