//! `clip`: ends a row when the next row of its key starts on the right (trill.txt §5.2.4), or after so many
//! ticks.
//!
//! Invariants of [`Clip`]: only a right row that starts strictly later than a left one clips it; the right
//! side has no state. What starts at an instant is emitted when time has passed it, as an interval if it also
//! ends by then.

use crate::batch::{Batch, Message};
use crate::groups::Groups;
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::keyed_inputs::{Arrival, KeyedInputs, Pairing, SavedInputs};
use crate::operators::rows_out::RowsOut;
use crate::runs::runs;
use crate::synopsis::{EntryId, SavedSynopsis, Synopsis};
use crate::time::{BEGINNING, INFINITY, Kind, Time, end_after};
use arrow::datatypes::DataType;
use datafusion::common::Result;

/// Ends left rows when right rows of their key start.
pub struct Clip {
    inputs: KeyedInputs,
    state: State,
}

#[derive(Debug)]
struct State {
    left: Synopsis,
    now: Time,
    /// The left rows that started now; they are not emitted yet.
    arrived: Vec<EntryId>,
    rows: RowsOut,
}

impl Clip {
    /// A row's key are these columns of its side.
    pub fn new(left_key: Vec<usize>, right_key: Vec<usize>) -> Clip {
        let state = State {
            left: Synopsis::default(),
            now: BEGINNING,
            arrived: Vec::new(),
            rows: RowsOut::default(),
        };
        Clip { inputs: KeyedInputs::new(left_key, right_key), state }
    }
}

impl Pairing for State {
    fn synopsis(&mut self, side: usize) -> Option<&mut Synopsis> {
        (side == 0).then_some(&mut self.left)
    }

    fn arrive(&mut self, row: Arrival) {
        match row.side {
            0 => self.left_row(row),
            _ if row.matches && row.kind() != Kind::End => self.clip(row.group),
            _ => {}
        }
    }

    fn advance(&mut self, time: Time) {
        while self.now < time {
            self.commit(time);
            self.now = self.left.next_end().unwrap_or(INFINITY).min(time);
            while let Some(id) = self.left.ending_at(self.now) {
                self.retire(id);
            }
        }
    }

    fn empty_groups(&self) -> impl Fn(u32) -> bool {
        |group| self.left.is_empty(group)
    }

    fn flush(&mut self, out: &mut Vec<Message>) -> Result<bool> {
        self.rows.flush(&self.left, out)?;
        self.left.tidy()?;
        Ok(false)
    }
}

impl State {
    fn left_row(&mut self, row: Arrival) {
        let other = row.other();
        match row.kind() {
            Kind::End => {
                let open = self.left.open_edge(row.group, other, &row.batch.rows, row.row);
                open.into_iter().for_each(|id| self.retire(id));
            }
            _ => self.arrived.push(self.left.insert(row.group, row.place, self.now, other, 0)),
        }
    }

    /// A right row of this group starts now.
    fn clip(&mut self, group: u32) {
        let older: Vec<EntryId> =
            self.left.of(group).filter(|(_, e)| e.start < self.now).map(|(id, _)| id).collect();
        older.into_iter().for_each(|id| self.retire(id));
    }

    /// A row that has been emitted ends now.
    fn retire(&mut self, id: EntryId) {
        let entry = self.left.get(id);
        self.rows.push(self.now, entry.start, entry.row);
        self.left.remove(id);
    }

    /// Time passes `now`, and nothing comes before `horizon`.
    fn commit(&mut self, horizon: Time) {
        for id in std::mem::take(&mut self.arrived) {
            let entry = self.left.get(id);
            if entry.end <= horizon && entry.end < INFINITY {
                self.rows.push(self.now, entry.end, entry.row);
                self.left.remove(id);
            } else {
                self.rows.push(self.now, INFINITY, entry.row);
            }
        }
    }
}

impl Operator for Clip {
    fn held(&self) -> Held {
        self.inputs.held().and(self.state.left.held())
    }

    fn inputs(&self) -> usize {
        2
    }

    fn push(&mut self, input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        self.inputs.push(&mut self.state, input, message, out)
    }

    fn save(&self) -> Result<Vec<u8>> {
        let State { left, now, .. } = &self.state;
        // The entries that arrived at the present instant are known by their start.
        encode(&(self.inputs.save()?, now, left.save()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let Clip { inputs, state: own } = self;
        let (saved, left): (SavedInputs, SavedSynopsis);
        (saved, own.now, left) = decode(state)?;
        inputs.restore(saved)?;
        own.left = Synopsis::restore(left)?;
        own.arrived = own.left.started_at(own.now);
        Ok(())
    }
}

/// Ends rows after so many ticks at the latest.
///
/// An interval is cut at once; a start edge is ended when its time has come, unless its end edge came
/// earlier.
pub struct ClipConstant {
    limit: i64,
    /// All columns: equal start edges are one group.
    groups: Option<Groups>,
    /// Start edges that have not ended; the `end` of an entry is the limit of its life.
    open: Synopsis,
    now: Time,
    rows: RowsOut,
}

impl ClipConstant {
    /// Cuts lifetimes at `limit` ticks; positive.
    pub fn new(limit: i64) -> ClipConstant {
        ClipConstant {
            limit,
            groups: None,
            open: Synopsis::default(),
            now: BEGINNING,
            rows: RowsOut::default(),
        }
    }

    fn batch(&mut self, batch: Batch) -> Result<()> {
        let mut batch = batch.compact()?;
        let types: Vec<DataType> = batch.rows.columns().iter().map(|c| c.data_type().clone()).collect();
        let key = batch.identity()?;
        let kept = self.open.keep(batch.rows.clone());
        let mut numbers = Vec::new();
        for run in runs(&batch.sync) {
            self.advance(batch.sync[run.start]);
            numbers.clear();
            self.groups.get_or_insert_with(|| Groups::new(&types)).intern(&key, run.clone(), &mut numbers)?;
            for (row, &group) in run.zip(&numbers) {
                self.row(&batch, row, group, (kept, row as u32));
            }
            numbers.iter().for_each(|&group| self.forget_if_empty(group));
        }
        Ok(())
    }

    fn row(&mut self, batch: &Batch, row: usize, group: u32, place: (u32, u32)) {
        let (sync, other) = (batch.sync[row], batch.other_at(row));
        match Kind::of(sync, other) {
            Kind::Interval => self.rows.push(sync, other.min(end_after(sync, self.limit)), place),
            Kind::Start => {
                self.rows.push(sync, INFINITY, place);
                self.open.insert(group, place, sync, end_after(sync, self.limit), 0);
            }
            Kind::End => {
                let id = self.open.of(group).find(|(_, e)| e.start == other).map(|(id, _)| id);
                if let Some(id) = id {
                    self.rows.push(sync, other, self.open.get(id).row);
                    self.open.remove(id);
                }
            }
        }
    }

    fn forget_if_empty(&mut self, group: u32) {
        if self.open.is_empty(group)
            && let Some(groups) = &mut self.groups
        {
            groups.remove(group);
        }
    }

    /// Ends what has lived long enough at `time` or before.
    fn advance(&mut self, time: Time) {
        while let Some(end) = self.open.next_end()
            && end <= time
        {
            while let Some(id) = self.open.ending_at(end) {
                let entry = self.open.get(id);
                let group = id.group;
                self.rows.push(end, entry.start, entry.row);
                self.open.remove(id);
                self.forget_if_empty(group);
            }
        }
        self.now = time;
    }
}

impl Operator for ClipConstant {
    fn held(&self) -> Held {
        self.open.held()
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch)?,
            Message::Punctuation(time) => {
                self.advance(time);
                self.rows.flush(&self.open, out)?;
                out.push(Message::Punctuation(time));
            }
        }
        self.rows.flush(&self.open, out)?;
        self.open.tidy()
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&(&self.groups, self.now, self.open.save()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let open: SavedSynopsis;
        (self.groups, self.now, open) = decode(state)?;
        self.open = Synopsis::restore(open)?;
        Ok(())
    }
}
