//! `stitch`: lifetimes of equal payload that touch become one (Trill's `Stitch`, the inverse of its `Chop`).
//! The relation stays the same; what changes is into how many rows it is divided.
//!
//! Rows are a multiset: each end takes at most one start along. Where there is a choice, the rows that began
//! first go on, and of pieces that began together the one that ends first belongs to the row that began
//! first. So the rows that come out depend on the lifetimes that come in, and not on their order.
//!
//! What comes out are edges: a start edge where a row begins, an end edge where it ends and no other goes on.
//! Both are known when time has passed the instant. A row whose payload no earlier row has goes on with
//! nothing, so its start edge goes out at once.
//!
//! Invariants: `alive` counts the rows that have come out and not ended; `ends` are the ends of intervals
//! that are alive; `ends_now` and `starts_now` are what happened at the instant `now`. A row is known by its
//! payload, which is the key of its group; a group without rows is forgotten when its last rows have been
//! handed out.

use crate::batch::{Batch, Message, Other};
use crate::groups::{Groups, KeyColumns};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::open_edges::no_start_edge;
use crate::runs::runs;
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use std::collections::BTreeMap;

/// Rows alive, with how many there are of each: a group, the start of the present piece, that of the row.
type Alive = BTreeMap<(u32, Time, Time), u64>;

/// Joins lifetimes that touch.
pub struct Stitch {
    schema: SchemaRef,
    types: Vec<DataType>,
    groups: Groups,
    alive: Alive,
    /// The group and the start of each interval that ends at an instant to come.
    ends: BTreeMap<Time, Vec<(u32, Time)>>,
    now: Time,
    /// By group and start, how many rows had a piece that ended now.
    ends_now: BTreeMap<(u32, Time), u64>,
    /// How many pieces began now, of groups that had rows before.
    starts_now: BTreeMap<u32, u64>,
    /// Sync time, other time and group of the rows that go out.
    out: Vec<(Time, Time, u32)>,
    /// Groups that may have lost their last row.
    emptied: Vec<u32>,
}

impl Stitch {
    /// Over a stream of these columns.
    pub fn new(schema: SchemaRef) -> Stitch {
        let types: Vec<DataType> = schema.fields().iter().map(|f| f.data_type().clone()).collect();
        Stitch {
            groups: Groups::new(&types),
            schema,
            types,
            alive: Alive::new(),
            ends: BTreeMap::new(),
            now: BEGINNING,
            ends_now: BTreeMap::new(),
            starts_now: BTreeMap::new(),
            out: Vec::new(),
            emptied: Vec::new(),
        }
    }

    fn batch(&mut self, batch: Batch) -> Result<()> {
        let mut batch = batch.compact()?;
        let key = batch.identity()?;
        let mut numbers = Vec::new();
        self.groups.intern(&key, 0..batch.len(), &mut numbers)?;
        for run in runs(&batch.sync) {
            self.advance(batch.sync[run.start])?;
            for row in run {
                let (group, other) = (numbers[row], batch.other_at(row));
                match batch.kind_at(row) {
                    Kind::End => self.end(group, other)?,
                    Kind::Start => self.begin(group),
                    Kind::Interval => {
                        self.ends.entry(other).or_default().push((group, self.now));
                        self.begin(group);
                    }
                }
            }
        }
        self.emptied.extend(numbers);
        Ok(())
    }

    /// A piece of this group begins now.
    fn begin(&mut self, group: u32) {
        let older = self.alive.range((group, BEGINNING, BEGINNING)..(group, self.now, BEGINNING)).next();
        match older.is_none() && !self.has_ends_now(group) {
            true => self.start(group, 1),
            false => *self.starts_now.entry(group).or_default() += 1,
        }
    }

    /// Whether a piece of this group ends now.
    fn has_ends_now(&self, group: u32) -> bool {
        self.ends_now.range((group, BEGINNING)..=(group, INFINITY)).next().is_some()
    }

    /// So many rows of this group start now.
    fn start(&mut self, group: u32, rows: u64) {
        if rows > 0 {
            *self.alive.entry((group, self.now, self.now)).or_default() += rows;
            self.out.extend((0..rows).map(|_| (self.now, INFINITY, group)));
        }
    }

    /// The piece of this group that began at `start` ends now: it is of the row that began first.
    fn end(&mut self, group: u32, start: Time) -> Result<()> {
        let pieces = (group, start, BEGINNING)..=(group, start, INFINITY);
        let Some((&piece, count)) = self.alive.range_mut(pieces).next() else {
            return no_start_edge(start, self.now);
        };
        *count -= 1;
        if *count == 0 {
            self.alive.remove(&piece);
        }
        *self.ends_now.entry((group, piece.2)).or_default() += 1;
        Ok(())
    }

    fn advance(&mut self, time: Time) -> Result<()> {
        while self.now < time {
            self.commit();
            let end = self.ends.first_key_value().map_or(INFINITY, |(&end, _)| end);
            self.now = end.min(time);
            for (group, start) in self.ends.remove(&self.now).unwrap_or_default() {
                self.end(group, start)?;
            }
        }
        Ok(())
    }

    /// Time passes `now`: rows that ended go on with pieces that began, as far as there are any.
    fn commit(&mut self) {
        let mut starts = std::mem::take(&mut self.starts_now);
        for ((group, start), rows) in std::mem::take(&mut self.ends_now) {
            let pieces = starts.get_mut(&group);
            let go_on = pieces.as_deref().map_or(0, |pieces| rows.min(*pieces));
            if let Some(pieces) = pieces
                && go_on > 0
            {
                *pieces -= go_on;
                *self.alive.entry((group, self.now, start)).or_default() += go_on;
            }
            self.out.extend((go_on..rows).map(|_| (self.now, start, group)));
            self.emptied.push(group);
        }
        starts.into_iter().for_each(|(group, rows)| self.start(group, rows));
    }

    fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        if !self.out.is_empty() {
            let groups: Vec<u32> = self.out.iter().map(|(.., group)| *group).collect();
            let mut keys = KeyColumns::new(&self.types);
            self.groups.append(&groups, &mut keys);
            let options = RecordBatchOptions::new().with_row_count(Some(groups.len()));
            let columns = keys.finish(&self.types)?;
            let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
            let (sync, other): (Vec<Time>, Vec<Time>) =
                self.out.drain(..).map(|(sync, other, _)| (sync, other)).unzip();
            out.push(Message::Batch(Batch::new(sync.into(), Other::Column(other.into()), rows)));
        }
        for group in std::mem::take(&mut self.emptied) {
            self.forget_if_empty(group);
        }
        Ok(())
    }

    fn forget_if_empty(&mut self, group: u32) {
        let alive = self.alive.range((group, BEGINNING, BEGINNING)..=(group, INFINITY, INFINITY)).next();
        if alive.is_none() && !self.has_ends_now(group) && !self.starts_now.contains_key(&group) {
            self.groups.remove(group);
        }
    }
}

impl Operator for Stitch {
    fn held(&self) -> Held {
        let rows = self.alive.values().sum::<u64>() as usize;
        Held::saved(rows, self.alive.keys().map(|(.., start)| *start).min(), self.save())
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => {
                self.batch(batch)?;
                self.flush(out)
            }
            Message::Punctuation(time) => {
                self.advance(time)?;
                self.flush(out)?;
                out.push(Message::Punctuation(time));
                Ok(())
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&(&self.groups, &self.alive, &self.ends, self.now, &self.ends_now, &self.starts_now))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        (self.groups, self.alive, self.ends, self.now, self.ends_now, self.starts_now) = decode(state)?;
        Ok(())
    }
}
