//! Recomputes a group from all of its rows when one comes or goes.
//!
//! For functions that cannot be undone otherwise, as SQL's window functions. A change costs as much as its
//! group is large; only the rows that come out differently are emitted.
//!
//! Invariants: `rows[g]` are the rows of group `g` alive now, encoded, first by their order, and how often
//! each is there, which is never 0; `emitted[g]` are the rows that were emitted of it and not ended, with the
//! start of each. Within an instant rows are taken in as they come, and the `touched` groups are computed
//! once, when time has passed it.
//!
//! Rows that are alive together may start and end together, as those of windows one after the other. Then
//! what is emitted are intervals, and nobody has to wait for their ends.

use crate::batch::{Batch, Message, Other};
use crate::checkpoint::{restore_rows, save_rows};
use crate::groups::Groups;
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::runs::runs;
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{cast, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalSortExpr;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// From the rows of a group, in their order, to the rows that are emitted of it.
pub type Compute = Box<dyn Fn(&RecordBatch) -> Result<RecordBatch> + Send>;

/// A row, encoded.
type Row = Box<[u8]>;

/// The rows of a group, and how often each is there.
type Alive = BTreeMap<Row, i64>;

/// The rows that are emitted of a group, and the start of each.
type Emitted = Option<(RecordBatch, Vec<Time>)>;

/// See the module.
pub struct RecomputeGroups {
    key: Vec<usize>,
    order: Vec<PhysicalSortExpr>,
    input: SchemaRef,
    output: SchemaRef,
    compute: Compute,
    /// Whether rows that are alive together start and end together.
    is_tiled: bool,
    groups: Option<Groups>,
    rows: Vec<Alive>,
    emitted: Vec<Emitted>,
    /// The rows that end at each coming instant, with their groups.
    ends: BTreeMap<Time, Vec<(u32, Row)>>,
    touched: Vec<u32>,
    now: Time,
    pending: Vec<Message>,
}

impl RecomputeGroups {
    /// Groups by these columns, whose rows `compute` gets in this order, equal ones by all columns; it gives
    /// rows with the columns of `output`.
    pub fn new(
        input: SchemaRef,
        key: Vec<usize>,
        order: Vec<PhysicalSortExpr>,
        output: SchemaRef,
        compute: Compute,
    ) -> RecomputeGroups {
        RecomputeGroups {
            key,
            order,
            input,
            output,
            compute,
            is_tiled: false,
            groups: None,
            rows: Vec::new(),
            emitted: Vec::new(),
            ends: BTreeMap::new(),
            touched: Vec::new(),
            now: BEGINNING,
            pending: Vec::new(),
        }
    }

    /// The same, over rows of which those that are alive together start and end together.
    pub fn tiled(self) -> RecomputeGroups {
        RecomputeGroups { is_tiled: true, ..self }
    }

    /// Encodes rows so that the order of the bytes is that of the group: first what it is ordered by, then
    /// all columns.
    fn converter(&self) -> Result<RowConverter> {
        let mut fields = Vec::new();
        for PhysicalSortExpr { expr, options } in &self.order {
            fields.push(SortField::new_with_options(expr.data_type(&self.input)?, *options));
        }
        fields.extend(self.input.fields().iter().map(|f| SortField::new(f.data_type().clone())));
        Ok(RowConverter::new(fields)?)
    }

    fn encoded(&self, rows: &RecordBatch) -> Result<Vec<Row>> {
        let order = self.order.iter().map(|by| by.expr.evaluate(rows)?.into_array(rows.num_rows()));
        let mut columns: Vec<ArrayRef> = order.collect::<Result<_>>()?;
        columns.extend(rows.columns().iter().cloned());
        if columns.is_empty() {
            // The converter takes rows without columns for no rows.
            return Ok(vec![Row::default(); rows.num_rows()]);
        }
        let encoded = self.converter()?.convert_columns(&columns)?;
        Ok(encoded.iter().map(|row| row.as_ref().into()).collect())
    }

    /// The rows of a group in their order.
    fn decoded(&self, alive: &Alive) -> Result<RecordBatch> {
        let converter = self.converter()?;
        let parser = converter.parser();
        let count = alive.values().map(|n| *n.max(&0) as usize).sum();
        let rows = alive.iter().flat_map(|(bytes, &n)| std::iter::repeat_n(bytes, n.max(0) as usize));
        let columns = converter.convert_rows(rows.map(|bytes| parser.parse(bytes)))?;
        let own = columns.into_iter().skip(self.order.len()).zip(self.input.fields());
        // Dictionaries come back as their values.
        let typed = own.map(|(column, field)| match column.data_type() == field.data_type() {
            true => Ok(column),
            false => Ok(cast(&column, field.data_type())?),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let columns = typed.collect::<Result<_>>()?;
        Ok(RecordBatch::try_new_with_options(self.input.clone(), columns, &options)?)
    }

    fn batch(&mut self, batch: Batch) -> Result<()> {
        let mut batch = batch.compact()?;
        let key = batch.key(&self.key)?;
        let types: Vec<DataType> =
            self.key.iter().map(|&c| batch.rows.column(c).data_type().clone()).collect();
        let encoded = self.encoded(&batch.rows)?;
        for run in runs(&batch.sync) {
            self.advance(batch.sync[run.start])?;
            let mut numbers = Vec::new();
            let groups = self.groups.get_or_insert_with(|| Groups::new(&types));
            groups.intern(&key, run.clone(), &mut numbers)?;
            let capacity = groups.capacity().max(self.rows.len());
            self.rows.resize_with(capacity, Alive::new);
            self.emitted.resize_with(capacity, || None);
            for (row, group) in run.zip(numbers) {
                let bytes = encoded[row].clone();
                let kind = batch.kind_at(row);
                if kind == Kind::Interval {
                    self.ends.entry(batch.other_at(row)).or_default().push((group, bytes.clone()));
                }
                self.change(group, bytes, if kind == Kind::End { -1 } else { 1 });
            }
        }
        Ok(())
    }

    /// So many rows like this one come, or go.
    fn change(&mut self, group: u32, row: Row, by: i64) {
        self.touched.push(group);
        let alive = &mut self.rows[group as usize];
        let count = alive.entry(row.clone()).or_default();
        *count += by;
        if *count == 0 {
            alive.remove(&row);
        }
    }

    fn advance(&mut self, time: Time) -> Result<()> {
        while self.now < time {
            self.commit()?;
            let end = self.ends.first_key_value().map_or(INFINITY, |(&end, _)| end);
            self.now = end.min(time);
            for (group, row) in self.ends.remove(&self.now).unwrap_or_default() {
                self.change(group, row, -1);
            }
        }
        Ok(())
    }

    /// Time passes `now`: the touched groups are computed, and what differs is emitted.
    fn commit(&mut self) -> Result<()> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        let (mut ended, mut begun) = (Vec::new(), Vec::new());
        let end = self.ends.first_key_value().map_or(INFINITY, |(&end, _)| end);
        for group in touched {
            let alive = &self.rows[group as usize];
            let new = match alive.is_empty() {
                true => RecordBatch::new_empty(self.output.clone()),
                false => (self.compute)(&self.decoded(alive)?)?,
            };
            if self.is_tiled && new.num_rows() > 0 {
                begun.push(new);
                continue;
            }
            let starts = self.replace(group, &new, &mut ended)?;
            let fresh: Vec<u32> =
                (0..).zip(&starts).filter(|(_, s)| **s == self.now).map(|(i, _)| i).collect();
            begun.push(take_record_batch(&new, &UInt32Array::from(fresh))?);
            if new.num_rows() > 0 {
                self.emitted[group as usize] = Some((new, starts));
            } else if let Some(groups) = &mut self.groups {
                groups.remove(group);
            }
        }
        let (rows, starts): (Vec<RecordBatch>, Vec<Vec<Time>>) = ended.into_iter().unzip();
        self.emit(&rows, starts.concat())?;
        let count = begun.iter().map(RecordBatch::num_rows).sum();
        self.emit(&begun, vec![if self.is_tiled { end } else { INFINITY }; count])
    }

    /// The starts of a group's new rows; those that were emitted and are not among them are `ended`.
    fn replace(
        &mut self,
        group: u32,
        new: &RecordBatch,
        ended: &mut Vec<(RecordBatch, Vec<Time>)>,
    ) -> Result<Vec<Time>> {
        let Some((old, old_starts)) = self.emitted[group as usize].take() else {
            return Ok(vec![self.now; new.num_rows()]);
        };
        let fields = self.output.fields().iter().map(|f| SortField::new(f.data_type().clone())).collect();
        let converter = RowConverter::new(fields)?;
        let (old_rows, new_rows) =
            (converter.convert_columns(old.columns())?, converter.convert_columns(new.columns())?);
        let mut places: HashMap<&[u8], Vec<usize>> = HashMap::new();
        for place in (0..old.num_rows()).rev() {
            places.entry(old_rows.row(place).data()).or_default().push(place);
        }
        let mut stays = vec![false; old.num_rows()];
        let mut starts = Vec::with_capacity(new.num_rows());
        for row in 0..new.num_rows() {
            let same = places.get_mut(new_rows.row(row).data()).and_then(Vec::pop);
            starts.push(same.map_or(self.now, |place| old_starts[place]));
            same.into_iter().for_each(|place| stays[place] = true);
        }
        let gone: Vec<u32> =
            (0..).zip(&stays).filter(|(_, stays)| !**stays).map(|(place, _)| place).collect();
        let gone_starts = gone.iter().map(|&place| old_starts[place as usize]).collect();
        ended.push((take_record_batch(&old, &UInt32Array::from(gone))?, gone_starts));
        Ok(starts)
    }

    /// Emits rows at the present instant; `other` are their starts if they end; their ends, as far as
    /// they are known, if they begin.
    fn emit(&mut self, rows: &[RecordBatch], other: Vec<Time>) -> Result<()> {
        if !other.is_empty() {
            let rows = concat_batches(&self.output, rows)?;
            let sync = vec![self.now; other.len()].into();
            self.pending.push(Message::Batch(Batch::new(sync, Other::Column(other.into()), rows)));
        }
        Ok(())
    }
}

impl Operator for RecomputeGroups {
    fn held(&self) -> Held {
        let rows = self.rows.iter().flat_map(|group| group.values()).sum::<i64>() as usize;
        let starts = self.emitted.iter().flatten().flat_map(|(_, starts)| starts);
        Held::saved(rows, starts.min().copied(), self.save())
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => {
                self.batch(batch)?;
                out.append(&mut self.pending);
            }
            Message::Punctuation(time) => {
                self.advance(time)?;
                out.append(&mut self.pending);
                out.push(Message::Punctuation(time));
            }
        }
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>> {
        let emitted = |group: &Emitted| {
            group.as_ref().map(|(rows, starts)| Ok((save_rows(rows)?, starts.clone()))).transpose()
        };
        let emitted: Vec<Option<(Vec<u8>, Vec<Time>)>> =
            self.emitted.iter().map(emitted).collect::<Result<_>>()?;
        encode(&(&self.groups, &self.rows, emitted, &self.ends, &self.touched, self.now))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let saved: Vec<Option<(Vec<u8>, Vec<Time>)>>;
        (self.groups, self.rows, saved, self.ends, self.touched, self.now) = decode(state)?;
        let emitted = |group: Option<(Vec<u8>, Vec<Time>)>| {
            group.map(|(rows, starts)| Ok((restore_rows(&rows)?, starts))).transpose()
        };
        self.emitted = saved.into_iter().map(emitted).collect::<Result<_>>()?;
        Ok(())
    }
}
