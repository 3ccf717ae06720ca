//! The first rows of every snapshot, in an order.
//!
//! Invariants: `ranked` holds every row alive, by its rank: the encoded order, then the whole row, so that
//! which of two rows comes first does not depend on when they came; equal rows are told apart by their start
//! and number. An entry's note is the start of the piece of it that has been emitted, or `HIDDEN`; `shown`
//! are the entries that are not hidden. Which rows are visible at an instant is decided once, when time has
//! passed it. Rows that are not among the first are kept: one of the first may leave.

use crate::batch::{Batch, Message};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::rows_out::RowsOut;
use crate::runs::runs;
use crate::synopsis::{EntryId, SavedSynopsis, Synopsis};
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalSortExpr;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The row is not in the result at present.
const HIDDEN: Time = INFINITY;

/// A row's place among all: encoded, its start, its number.
type Rank = (Arc<[u8]>, Time, u64);

/// Keeps the first rows of an order.
///
/// It holds all rows alive. A row takes time logarithmic in them when it comes and when it leaves, and
/// an instant at which any does so takes `skip + fetch` steps.
pub struct TopK {
    order: Vec<PhysicalSortExpr>,
    skip: usize,
    fetch: usize,
    rows: Synopsis,
    ranked: BTreeMap<Rank, EntryId>,
    /// The rank of each entry alive.
    rank_of: BTreeMap<EntryId, Rank>,
    shown: HashSet<EntryId>,
    /// The next row's number.
    number: u64,
    now: Time,
    /// Whether rows came or went at this instant.
    changed: bool,
    out: RowsOut,
}

impl TopK {
    /// `fetch` rows after the first `skip`, in this order.
    pub fn new(order: Vec<PhysicalSortExpr>, skip: usize, fetch: usize) -> TopK {
        TopK {
            order,
            skip,
            fetch,
            rows: Synopsis::default(),
            ranked: BTreeMap::new(),
            rank_of: BTreeMap::new(),
            shown: HashSet::new(),
            number: 0,
            now: BEGINNING,
            changed: false,
            out: RowsOut::default(),
        }
    }

    /// What rows are ordered by: the expressions, then all columns.
    fn encoded(&self, rows: &RecordBatch) -> Result<Rows> {
        let mut columns: Vec<ArrayRef> = Vec::new();
        let mut fields = Vec::new();
        for PhysicalSortExpr { expr, options } in &self.order {
            let values = expr.evaluate(rows)?.into_array(rows.num_rows())?;
            fields.push(SortField::new_with_options(values.data_type().clone(), *options));
            columns.push(values);
        }
        fields.extend(rows.columns().iter().map(|c| SortField::new(c.data_type().clone())));
        columns.extend(rows.columns().iter().cloned());
        Ok(RowConverter::new(fields)?.convert_columns(&columns)?)
    }

    fn batch(&mut self, batch: Batch) -> Result<()> {
        let batch = batch.compact()?;
        let encoded = self.encoded(&batch.rows)?;
        let kept = self.rows.keep(batch.rows.clone());
        for run in runs(&batch.sync) {
            self.advance(batch.sync[run.start]);
            self.changed = true;
            for row in run {
                let bytes: Arc<[u8]> = encoded.row(row).as_ref().into();
                let (sync, other) = (batch.sync[row], batch.other_at(row));
                match Kind::of(sync, other) {
                    Kind::End => self.end(bytes, other, sync),
                    _ => self.start(bytes, (kept, row as u32), sync, other),
                }
            }
        }
        Ok(())
    }

    /// A row starts. It is hidden until time has passed the instant.
    fn start(&mut self, bytes: Arc<[u8]>, row: (u32, u32), start: Time, end: Time) {
        let id = self.rows.insert(0, row, start, end, HIDDEN);
        self.rank(id, (bytes, start, self.number));
    }

    fn rank(&mut self, id: EntryId, rank: Rank) {
        self.number += 1;
        self.ranked.insert(rank.clone(), id);
        self.rank_of.insert(id, rank);
    }

    /// The row with these bytes whose start edge was at `start` ends.
    fn end(&mut self, bytes: Arc<[u8]>, start: Time, end: Time) {
        let equal = (bytes.clone(), start, 0)..=(bytes, start, u64::MAX);
        let open = self.ranked.range(equal).map(|(_, id)| *id).find(|id| self.rows.get(*id).end == INFINITY);
        if let Some(id) = open {
            self.retire(id, end);
        }
    }

    /// A row ends: so does the piece of it that has been emitted.
    fn retire(&mut self, id: EntryId, time: Time) {
        let entry = self.rows.get(id);
        if entry.note != HIDDEN {
            self.out.push(time, entry.note, entry.row);
        }
        self.shown.remove(&id);
        if let Some(rank) = self.rank_of.remove(&id) {
            self.ranked.remove(&rank);
        }
        self.rows.remove(id);
        self.changed = true;
    }

    /// Moves time to `time`, by way of every instant at which a row ends.
    fn advance(&mut self, time: Time) {
        while self.now < time {
            self.commit();
            self.now = self.rows.next_end().unwrap_or(INFINITY).min(time);
            while let Some(id) = self.rows.ending_at(self.now) {
                self.retire(id, self.now);
            }
        }
    }

    /// Time passes `now`: hides the rows that are not among the first any more, shows those that are now.
    fn commit(&mut self) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let first: Vec<EntryId> = self.ranked.values().skip(self.skip).take(self.fetch).copied().collect();
        let among: HashSet<EntryId> = first.iter().copied().collect();
        let mut hidden: Vec<EntryId> = self.shown.difference(&among).copied().collect();
        hidden.sort_unstable_by_key(|id| self.rank_of.get(id));
        for id in hidden {
            let entry = self.rows.get(id);
            self.out.push(self.now, entry.note, entry.row);
            self.rows.note(id, HIDDEN);
        }
        for id in first.into_iter().filter(|id| !self.shown.contains(id)) {
            self.out.push(self.now, INFINITY, self.rows.get(id).row);
            self.rows.note(id, self.now);
        }
        self.shown = among;
    }

    fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.out.flush(&self.rows, out)?;
        self.rows.tidy()
    }
}

impl Operator for TopK {
    fn held(&self) -> Held {
        self.rows.held()
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => {
                self.batch(batch)?;
                self.flush(out)
            }
            Message::Punctuation(time) => {
                self.advance(time);
                self.flush(out)?;
                out.push(Message::Punctuation(time));
                Ok(())
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&(self.rows.save()?, self.now, self.changed))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let saved: SavedSynopsis;
        (saved, self.now, self.changed) = decode(state)?;
        self.rows = Synopsis::restore(saved)?;
        let entries: Vec<(EntryId, Time, Time, (u32, u32))> =
            self.rows.all().map(|(id, e)| (id, e.start, e.note, e.row)).collect();
        let places: Vec<(u32, u32)> = entries.iter().map(|(.., row)| *row).collect();
        if places.is_empty() {
            return Ok(());
        }
        let encoded = self.encoded(&self.rows.gather(places.iter().copied())?)?;
        for (row, (id, start, note, _)) in entries.into_iter().enumerate() {
            self.rank(id, (encoded.row(row).as_ref().into(), start, self.number));
            if note != HIDDEN {
                self.shown.insert(id);
            }
        }
        Ok(())
    }
}
