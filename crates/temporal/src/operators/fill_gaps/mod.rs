//! `fill_gaps`: a row for each cell of a grid in which a key has none.
//!
//! Cells are `[offset + k·period, offset + (k + 1)·period)`. A gap of a key is a stretch of time, as long as
//! can be, that begins where one of its rows ends and in which none is alive. Each cell that lies within a
//! gap gets a row of the key, alive over the cell, with the other columns as each column's [`Fill`] says;
//! rows that come pass unchanged. Before its first row a key has no gap. With a `max_gap` a key is forgotten
//! at the first instant of the grid that is at least so many ticks after its last row ended: cells up to
//! there are filled, and its next row is like a first one. What comes out then depends on the relation only.
//! Without, a gap that no row ends has cells without end; they are filled as far as time has come: to the
//! last instant at which a row starts or ends, or that a punctuation before the end of the stream names.
//!
//! The previous row of a gap is, of the key's rows that end where the gap begins, the one that started last;
//! the next row is one that starts where the gap ends. Of several such rows the last in the order of all
//! columns is taken.
//!
//! That a cell is empty is known when it is over. Its row starts where the cell does, so until then rows
//! that start later are held, and punctuations too, if some key may be in a gap over the whole cell. Where a
//! column is [`Fill::Linear`], everything after the begin of a gap is held until the gap ends or its key is
//! forgotten.
//!
//! Invariants: `rows` has the rows alive, with [`ALIVE`] as their note, and of each key the row that ended
//! last, with its end, until a row of the key starts. `gaps` are the keys in a gap, with its begin; a cell is
//! filled when time comes to its end. Of a linear fill a gap stays in it until time has passed the instant at
//! which it is `closing`, when all rows that start then are known.

mod fill;
mod reorder_buffer;

pub use fill::Fill;

use crate::batch::{Batch, Message};
use crate::groups::Groups;
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::open_edges::no_start_edge;
use crate::rules::BATCH_ROWS;
use crate::runs::runs;
use crate::synopsis::{EntryId, RowRef, SavedSynopsis, Synopsis};
use crate::time::{BEGINNING, INFINITY, Kind, Time, end_after, last_on_grid, next_on_grid};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, plan_err};
use fill::{FilledCell, Filling, greater};
use reorder_buffer::{ReorderBuffer, SavedBuffer};
use std::collections::BTreeSet;

/// The note of a row that is alive: no row ends there.
const ALIVE: Time = BEGINNING;

/// Fills the gaps of keys.
///
/// It holds the rows alive and one more of each key in a gap. A cell takes a step for each row in it that is
/// made.
pub struct FillGaps {
    key: Vec<usize>,
    period: i64,
    offset: i64,
    max_gap: Option<i64>,
    filling: Filling,
    groups: Groups,
    rows: Synopsis,
    /// By group.
    keys: Vec<KeyState>,
    /// The begin of each gap, and its group.
    gaps: BTreeSet<(Time, u32)>,
    /// The groups in a gap of which a row starts now, if a fill is linear.
    closing: BTreeSet<u32>,
    now: Time,
    /// Cells that have been filled and are not in the buffer yet.
    cells: Vec<FilledCell>,
    buffer: ReorderBuffer,
}

/// What is there of a key.
#[derive(Debug, Clone, Copy, Default)]
struct KeyState {
    /// How many of its rows are alive.
    alive: usize,
    /// The row that ended last, unless one has started since.
    previous: Option<EntryId>,
}

impl FillGaps {
    /// Over a stream of these columns: for each `key` the cells of the grid `offset + k·period` in which it
    /// has no row, at most until `max_gap` ticks after its last one. `fills` are for the columns that are not
    /// in the key, in their order.
    ///
    /// # Errors
    /// `Plan` if the period or the maximum is not positive, if there is not one fill for each column, or if a
    /// fill does not fit its column: a value of another type, a null where there are none, a line through
    /// values that are no numbers.
    pub fn new(
        schema: SchemaRef,
        key: Vec<usize>,
        fills: Vec<Fill>,
        (period, offset): (i64, i64),
        max_gap: Option<i64>,
    ) -> Result<FillGaps> {
        if period <= 0 || max_gap.is_some_and(|ticks| ticks <= 0) {
            return plan_err!(
                "fill_gaps: a period of {period} ticks, at most {max_gap:?}; both are positive"
            );
        }
        let types: Vec<DataType> = key.iter().map(|&c| schema.field(c).data_type().clone()).collect();
        Ok(FillGaps {
            filling: Filling::new(schema, &key, fills)?,
            key,
            period,
            offset,
            max_gap,
            groups: Groups::new(&types),
            rows: Synopsis::default(),
            keys: Vec::new(),
            gaps: BTreeSet::new(),
            closing: BTreeSet::new(),
            now: BEGINNING,
            cells: Vec::new(),
            buffer: ReorderBuffer::default(),
        })
    }

    /// Takes rows, in order of time: what happens before each of them happens first.
    fn batch(&mut self, batch: Batch) -> Result<()> {
        let mut batch = batch.compact()?;
        let key = batch.key(&self.key)?;
        let kept = self.rows.keep(batch.rows.clone());
        let mut numbers = Vec::new();
        for run in runs(&batch.sync) {
            self.advance(batch.sync[run.start])?;
            numbers.clear();
            self.groups.intern(&key, run.clone(), &mut numbers)?;
            self.keys.resize(self.groups.capacity().max(self.keys.len()), KeyState::default());
            for (row, &group) in run.zip(&numbers) {
                self.row(&batch, row, group, (kept, row as u32))?;
            }
        }
        self.buffer.push_input(batch);
        Ok(())
    }

    /// Takes a row of a group: it starts now, or one that is alive ends.
    fn row(&mut self, batch: &Batch, row: usize, group: u32, place: RowRef) -> Result<()> {
        let other = batch.other_at(row);
        if batch.kind_at(row) != Kind::End {
            self.close_gap(group);
            self.rows.insert(group, place, self.now, other, ALIVE);
            self.keys[group as usize].alive += 1;
            return Ok(());
        }
        // A row that has ended already comes after those alive that are equal to it.
        match self.rows.open_edge(group, other, &batch.rows, row) {
            Some(id) if self.rows.get(id).note == ALIVE => self.end(id),
            _ => no_start_edge(other, self.now),
        }
    }

    /// A row of this group starts now.
    fn close_gap(&mut self, group: u32) {
        let Some(previous) = self.keys[group as usize].previous else { return };
        let gap = (self.rows.get(previous).note, group);
        if self.filling.is_linear() && self.gaps.contains(&gap) {
            self.closing.insert(group);
        } else {
            self.gaps.remove(&gap);
            self.drop_previous(group);
        }
    }

    fn drop_previous(&mut self, group: u32) {
        if let Some(previous) = self.keys[group as usize].previous.take() {
            self.rows.remove(previous);
        }
    }

    /// A row ends now.
    fn end(&mut self, id: EntryId) -> Result<()> {
        let row = self.rows.get(id).clone();
        self.rows.remove(id);
        let KeyState { alive, previous } = &mut self.keys[id.group as usize];
        *alive -= 1;
        if *alive == 0 {
            self.gaps.insert((self.now, id.group));
        }
        let ended = self.rows.insert(id.group, row.row, row.start, INFINITY, self.now);
        let dropped = match *previous {
            Some(before) if self.rows.get(before).note == self.now && greater(&self.rows, before, ended)? => {
                Some(ended)
            }
            before => {
                *previous = Some(ended);
                before
            }
        };
        dropped.into_iter().for_each(|id| self.rows.remove(id));
        Ok(())
    }

    /// Moves time to `time`, by way of every instant at which a row ends or a cell is filled.
    fn advance(&mut self, time: Time) -> Result<()> {
        while self.now < time {
            self.commit()?;
            let end = self.rows.next_end().unwrap_or(INFINITY);
            let cell_end = self.next_cell_end();
            self.now = end.min(cell_end).min(time);
            if self.now == cell_end && cell_end < INFINITY {
                self.close_cell()?;
            }
            while let Some(id) = self.rows.ending_at(self.now) {
                self.end(id)?;
            }
        }
        Ok(())
    }

    /// The next instant at which a cell is over that is to be filled, or a key forgotten.
    fn next_cell_end(&self) -> Time {
        let Some(&(first, _)) = self.gaps.first() else { return INFINITY };
        let on_grid = |time, inclusive| next_on_grid(time, self.period, self.offset, inclusive);
        let forgotten = self.max_gap.map_or(INFINITY, |ticks| on_grid(end_after(first, ticks), true));
        let filled = match self.filling.is_linear() {
            true => INFINITY,
            false => on_grid(self.now, false).max(end_after(on_grid(first, true), self.period)),
        };
        filled.min(forgotten)
    }

    /// A cell ends now: it is filled for the keys that are in a gap over all of it, of which those that have
    /// been in it too long are forgotten.
    fn close_cell(&mut self) -> Result<()> {
        let linear = self.filling.is_linear();
        let cell = self.now.saturating_sub(self.period);
        if !linear {
            for &(_, group) in self.gaps.range(..=(cell, u32::MAX)) {
                let previous = self.keys[group as usize].previous;
                self.cells.extend(previous.map(|id| FilledCell::new(cell, self.rows.get(id).row)));
            }
            self.collect_cells(BATCH_ROWS)?;
        }
        let Some(ticks) = self.max_gap else { return Ok(()) };
        while let Some(&(since, group)) = self.gaps.first()
            && end_after(since, ticks) <= self.now
        {
            if linear {
                self.fill(group, None)?;
            }
            self.gaps.remove(&(since, group));
            self.drop_previous(group);
            self.groups.remove(group);
        }
        Ok(())
    }

    /// Fills the cells of a group's gap that are over by now, on a line to the row that ends the gap.
    fn fill(&mut self, group: u32, next: Option<EntryId>) -> Result<()> {
        let Some(previous) = self.keys[group as usize].previous else { return Ok(()) };
        let (previous, next) = (self.rows.get(previous).clone(), next.map(|id| self.rows.get(id).clone()));
        let mut cell = next_on_grid(previous.note, self.period, self.offset, true);
        while let Some(end) = cell.checked_add(self.period)
            && end <= self.now
        {
            let filled = FilledCell::new(cell, previous.row);
            self.cells.push(match &next {
                Some(next) => filled.on_line(previous.start, next.start, next.row),
                None => filled,
            });
            self.collect_cells(BATCH_ROWS)?;
            cell = end;
        }
        Ok(())
    }

    /// Makes rows of the cells, once there are so many.
    fn collect_cells(&mut self, least: usize) -> Result<()> {
        if self.cells.len() >= least
            && let Some(cells) =
                self.filling.rows(std::mem::take(&mut self.cells), self.period, &self.rows)?
        {
            self.buffer.push_cells(cells);
        }
        Ok(())
    }

    /// Time passes `now`: gaps that end now are filled.
    fn commit(&mut self) -> Result<()> {
        for group in std::mem::take(&mut self.closing) {
            let started = self.rows.of(group).filter(|(_, row)| row.note == ALIVE && row.start == self.now);
            let started: Vec<EntryId> = started.map(|(id, _)| id).collect();
            let mut next = None;
            for id in started {
                next = match next {
                    Some(other) if greater(&self.rows, other, id)? => Some(other),
                    _ => Some(id),
                };
            }
            self.fill(group, next)?;
            if let Some(previous) = self.keys[group as usize].previous {
                self.gaps.remove(&(self.rows.get(previous).note, group));
            }
            self.drop_previous(group);
        }
        Ok(())
    }

    /// The stream has ended: rows end that are to, and gaps are filled as far as they go.
    fn finish(&mut self) -> Result<()> {
        while let Some(end) = self.rows.next_end() {
            self.advance(end)?;
        }
        self.commit()?;
        match self.max_gap {
            Some(_) => self.advance(INFINITY)?,
            None if self.filling.is_linear() => {
                let gaps: Vec<u32> = self.gaps.iter().map(|(_, group)| *group).collect();
                gaps.into_iter().try_for_each(|group| self.fill(group, None))?;
            }
            None => {}
        }
        self.gaps.clear();
        self.now = INFINITY;
        Ok(())
    }

    /// The instant before which nothing comes out any more: the first cell that may still be filled.
    fn frontier(&self) -> Time {
        let Some(&(since, _)) = self.gaps.first() else { return self.now };
        let first = next_on_grid(since, self.period, self.offset, true);
        match self.filling.is_linear() {
            true => first.min(self.now),
            false => first.max(last_on_grid(self.now, self.period, self.offset)).min(self.now),
        }
    }

    /// Hands out what no later row can come before, and gives up rows that nobody needs.
    fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.collect_cells(0)?;
        self.buffer.release(self.frontier(), out)?;
        self.rows.tidy()
    }
}

impl Operator for FillGaps {
    fn held(&self) -> Held {
        self.rows.held().and(self.buffer.held())
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => {
                self.batch(batch)?;
                self.flush(out)
            }
            Message::Punctuation(time) => {
                match time {
                    INFINITY => self.finish()?,
                    _ => self.advance(time)?,
                }
                self.flush(out)?;
                out.push(Message::Punctuation(self.frontier()));
                Ok(())
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        let FillGaps { groups, rows, gaps, closing, now, buffer, .. } = self;
        encode(&(groups, rows.save()?, gaps, closing, now, buffer.save()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (rows, buffer): (SavedSynopsis, SavedBuffer);
        (self.groups, rows, self.gaps, self.closing, self.now, buffer) = decode(state)?;
        self.buffer = ReorderBuffer::restore(buffer)?;
        self.rows = Synopsis::restore(rows)?;
        self.keys = vec![KeyState::default(); self.groups.capacity()];
        for (id, row) in self.rows.all() {
            let state = &mut self.keys[id.group as usize];
            match row.note {
                ALIVE => state.alive += 1,
                _ => state.previous = Some(id),
            }
        }
        Ok(())
    }
}
