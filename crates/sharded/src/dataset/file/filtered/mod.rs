//! Parquet files read with a predicate, row group by row group: statistics first, then the columns of the
//! predicate, then the others (late materialization).
//!
//! A row group is skipped if its statistics exclude every row. Of another, the columns of the predicate are
//! read first, in the encoding of the file ([`encoding`]). If few rows pass, only these are read of the other
//! columns, so that most pages are not even decompressed. Hints that let nearly all rows pass are dropped.
//!
//! How a conjunct is evaluated depends on its column: by a lookup in an [`IntegerBitmap`] where a column has
//! few integers, once per value of a dictionary, once per run of equal values (`runs`), or row by row
//! ([`Conjunct`]). A [`Selection`] keeps the rows that have passed so far.
//!
//! Invariant: what comes out depends on the file and on the predicate alone.

mod conjuncts;
mod encoding;
mod integer_bitmap;
mod pruning;
mod runs;
mod selection;

use super::block_reader::BlockReader;
use super::pages::{Pages, rows};
use super::parquet::{File, Span, order};
use crate::dataset::{Predicate, Reader};
use crate::error::in_place;
use conjuncts::{Conjunct, in_steps};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{concat_batches, filter_record_batch};
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column as Place;
use datafusion::physical_expr::utils::collect_columns;
use encoding::decode;
use integer_bitmap::IntegerBitmap;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowSelection};
use pruning::Pruning;
use selection::Selection;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The other columns are read for the rows that passed only, if fewer than one row in this many passed.
const SELECTIVE: usize = 5;

/// Hints are dropped if more than this share of the rows passed them.
const USELESS_SHARE: f64 = 0.7;

/// How many rows have to be tested before hints are dropped.
const MIN_TESTED: usize = 20_000;

/// The rows of some spans of a file that satisfy a predicate.
pub(super) struct FilteredReader {
    file: Arc<File>,
    /// The metadata that reads decimals as narrow as the file has them.
    narrow: ArrowReaderMetadata,
    spans: VecDeque<Span>,
    /// The columns that come out, as places in the file, ascending.
    columns: Vec<usize>,
    /// The order in which they come out, if it is another.
    order: Option<Vec<usize>>,
    batch_rows: usize,
    /// The predicate, over the columns of the file.
    predicate: Predicate,
    /// Made with the first span: hints have no values before the first row is asked for.
    pruning: Option<Pruning>,
    /// A bitmap for each hint, where one pays. Made with the first span.
    bitmaps: Option<Vec<Option<Arc<IntegerBitmap>>>>,
    /// How many rows were tested by the hints, and how many passed.
    tested: usize,
    passed: usize,
    /// What is left of the current span.
    current: Option<Rows>,
    /// How many rows the spans have, and those of them that were read or skipped.
    rows: usize,
    rows_passed: usize,
}

/// Batches with the columns in the order of the file.
type Rows = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// Which rows of a batch passed, and their values in the columns of the predicate that come out.
struct Selected {
    passed: BooleanBuffer,
    rows: RecordBatch,
}

impl FilteredReader {
    /// A reader of these columns of these spans.
    ///
    /// # Errors
    /// `Internal` if the predicate has a column that is not read; those of a footer that cannot be used.
    pub fn new(
        file: &Arc<File>,
        spans: Vec<Span>,
        projection: Option<&[usize]>,
        batch_rows: usize,
        predicate: &Predicate,
    ) -> Result<FilteredReader> {
        let schema = file.metadata.schema();
        let columns: Vec<usize> = match projection {
            Some(columns) => columns.to_vec(),
            None => (0..schema.fields().len()).collect(),
        };
        let place = |i: usize| columns.get(i).map(|c| Place::new(schema.field(*c).name(), *c));
        let predicate = predicate.map_columns(place)?;
        Ok(FilteredReader {
            narrow: encoding::with_narrow_decimals(file)?,
            file: Arc::clone(file),
            rows: spans.iter().map(|span| span.length).sum(),
            rows_passed: 0,
            spans: spans.into(),
            order: order(projection),
            columns: columns.iter().copied().collect::<BTreeSet<_>>().into_iter().collect(),
            batch_rows,
            predicate,
            pruning: None,
            bitmaps: None,
            tested: 0,
            passed: 0,
            current: None,
        })
    }

    /// With more conditions, over the columns of the file.
    pub fn with_required(mut self, conditions: Vec<Arc<dyn PhysicalExpr>>) -> FilteredReader {
        self.predicate.required.splice(0..0, conditions);
        self
    }

    /// Whether the hints let nearly all rows pass.
    fn hints_are_useless(&self) -> bool {
        self.tested >= MIN_TESTED && self.passed as f64 > USELESS_SHARE * self.tested as f64
    }

    /// The rows of a span that satisfy the predicate.
    fn open_span(&mut self, span: &Span) -> Result<Option<Rows>> {
        if self.hints_are_useless() {
            self.predicate.hints.clear();
        }
        let pruning = self.pruning.get_or_insert_with(|| Pruning::new(&self.file, &self.predicate));
        if !pruning.may_match(&self.file, span.row_group)? {
            return Ok(None);
        }
        let tested = columns_of(self.predicate.required.iter().chain(&self.predicate.hints));
        if tested.is_empty() {
            return Ok(Some(self.open_as(self.file.metadata.clone(), span, &self.columns, None)?));
        }
        let first: Vec<usize> =
            tested.iter().copied().filter(|c| self.columns.binary_search(c).is_ok()).collect();
        let selected = self.select(span, &tested, &first)?;
        let late = LateColumns::new(self.file.metadata.schema(), &self.columns, &first)?;
        let kept: usize = selected.iter().map(|batch| batch.rows.num_rows()).sum();
        match kept * SELECTIVE < span.length {
            _ if kept == 0 => Ok(None),
            true => self.read_selected(span, late, selected).map(Some),
            false => self.read_and_filter(span, late, selected).map(Some),
        }
    }

    /// Tests the predicate on a span: reads these columns, and keeps those of them that come out, `first`.
    fn select(&mut self, span: &Span, columns: &[usize], first: &[usize]) -> Result<Vec<Selected>> {
        let file = self.file.metadata.schema();
        let schema = file.project(columns)?;
        let place = |c: usize| columns.binary_search(&c).ok().map(|at| Place::new(file.field(c).name(), at));
        let predicate = self.predicate.map_columns(place)?;
        let conjuncts = |exprs: &[Arc<dyn PhysicalExpr>]| {
            exprs.iter().map(|expr| Conjunct::new(expr, &schema)).collect::<Result<Vec<_>>>()
        };
        let required = conjuncts(&predicate.required)?;
        let hints = self.with_bitmaps(span, conjuncts(&predicate.hints)?);
        let single = required.iter().chain(&hints).filter_map(Conjunct::only_column);
        let single = single.map(|at| columns[at]).collect();
        let metadata = encoding::with_dictionaries(&self.file, &self.narrow, span.row_group, &single)?;
        let read = metadata.schema().project(columns)?;
        let steps = |conjuncts: Vec<Conjunct>| {
            in_steps(conjuncts.into_iter().map(|c| c.over(&read, span.length)).collect())
        };
        let comes_out: Vec<bool> = columns.iter().map(|c| first.binary_search(c).is_ok()).collect();
        let (mut hints, comes_out) = with_live_columns(steps(hints), comes_out);
        let (mut required, _) = with_live_columns(steps(required), comes_out);
        let places: Vec<usize> = first.iter().filter_map(|c| columns.binary_search(c).ok()).collect();
        let schema = Arc::new(schema.project(&places)?);
        let mut selected = Vec::new();
        for rows in self.open_as(metadata, span, columns, None)? {
            let mut selection = Selection::new(&rows?);
            for step in &mut required {
                selection.apply(&mut step.conjuncts, &step.live)?;
            }
            self.tested += selection.rows();
            for step in &mut hints {
                selection.apply(&mut step.conjuncts, &step.live)?;
            }
            self.passed += selection.rows();
            let (passed, rows) = selection.finish(&places, &schema)?;
            selected.push(Selected { passed, rows });
        }
        let found: usize = selected.iter().map(|batch| batch.passed.len()).sum();
        if found < span.length {
            let (location, fewer) = (&self.file.location, span.length - found);
            return exec_err!("`{location}`: it is damaged: it has {fewer} rows fewer than its footer says");
        }
        Ok(selected)
    }

    /// The hints with their bitmaps, which cover this span and those behind it.
    fn with_bitmaps(&mut self, span: &Span, hints: Vec<Conjunct>) -> Vec<Conjunct> {
        let bitmaps = self.bitmaps.get_or_insert_with(|| {
            let spans = || std::iter::once(span).chain(&self.spans);
            let row_groups: Vec<usize> = spans().map(|span| span.row_group).collect();
            let rows = spans().map(|span| span.length).sum();
            hints.iter().map(|hint| hint.bitmap(&self.file, &row_groups, rows)).collect()
        });
        hints.into_iter().zip(bitmaps).map(|(hint, bitmap)| hint.with_bitmap(bitmap.clone())).collect()
    }

    /// Reads all rows of the other columns, and filters them.
    fn read_and_filter(&self, span: &Span, late: LateColumns, selected: Vec<Selected>) -> Result<Rows> {
        if late.others.is_empty() {
            return Ok(Box::new(selected.into_iter().map(move |batch| late.assemble(&batch.rows, None))));
        }
        let rest = self.open(span, &late.others, None)?;
        Ok(Box::new(selected.into_iter().zip(rest).map(move |(batch, rest)| {
            let rest = filter_record_batch(&rest?, &BooleanArray::new(batch.passed, None))?;
            late.assemble(&batch.rows, Some(&rest))
        })))
    }

    /// Reads only the rows that passed of the other columns.
    fn read_selected(&self, span: &Span, late: LateColumns, selected: Vec<Selected>) -> Result<Rows> {
        let Some(first) = selected.first() else { return Ok(Box::new(std::iter::empty())) };
        let passed = row_selection(span, &selected);
        let tested = concat_batches(&first.rows.schema(), selected.iter().map(|batch| &batch.rows))?;
        let (kept, most) = (tested.num_rows(), self.batch_rows);
        if late.others.is_empty() {
            let slice = move |at| late.assemble(&tested.slice(at, most.min(kept - at)), None);
            return Ok(Box::new((0..kept).step_by(most).map(slice)));
        }
        let rest = self.open(span, &late.others, Some(passed))?;
        let mut at = 0;
        Ok(Box::new(rest.map(move |rest| {
            let rest = rest?;
            let these = tested.slice(at, rest.num_rows());
            at += rest.num_rows();
            late.assemble(&these, Some(&rest))
        })))
    }

    /// Columns in the encoding of the file.
    fn open(&self, span: &Span, columns: &[usize], selection: Option<RowSelection>) -> Result<Rows> {
        self.open_as(self.narrow.clone(), span, columns, selection)
    }

    /// Columns in the types that the metadata names; all rows of the span, if there is no selection.
    fn open_as(
        &self,
        metadata: ArrowReaderMetadata,
        span: &Span,
        columns: &[usize],
        selection: Option<RowSelection>,
    ) -> Result<Rows> {
        let location = self.file.location.clone();
        let Some(input) = location.open_local()? else {
            return exec_err!("`{location}` is not a file of this machine");
        };
        let input =
            BlockReader::new(input, &metadata, &[span.row_group]).map_err(|e| in_place(&location, e))?;
        let columns = ProjectionMask::roots(metadata.parquet_schema(), columns.iter().copied());
        let pages = Pages {
            metadata: &metadata,
            row_groups: &[span.row_group],
            columns,
            batch_rows: self.batch_rows,
        };
        let selection = selection.unwrap_or_else(|| rows(span.offset, span.length));
        let reader = pages.read(input, selection).map_err(|e| in_place(&location, e))?;
        Ok(Box::new(reader.map(move |rows| rows.map_err(|e| in_place(&location, e)))))
    }
}

impl Reader for FilteredReader {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            while let Some(rows) = self.current.as_mut().and_then(Iterator::next) {
                let rows = rows?;
                if rows.num_rows() > 0 {
                    return Ok(Some(match &self.order {
                        Some(order) => rows.project(order)?,
                        None => rows,
                    }));
                }
            }
            let Some(span) = self.spans.pop_front() else { return Ok(None) };
            self.current = self.open_span(&span)?;
            self.rows_passed += span.length;
        }
    }

    fn share(&self) -> f64 {
        self.rows_passed as f64 / self.rows.max(1) as f64
    }
}

/// Conjuncts that are tested on the same rows, and which columns are still needed after them.
struct Step {
    conjuncts: Vec<Conjunct>,
    live: Vec<bool>,
}

/// The steps with the columns that are live after each, given those that are live after the last. Also
/// returns those that are live before the first.
fn with_live_columns(steps: Vec<Vec<Conjunct>>, mut live: Vec<bool>) -> (Vec<Step>, Vec<bool>) {
    let mut all = Vec::with_capacity(steps.len());
    for conjuncts in steps.into_iter().rev() {
        let after = live.clone();
        conjuncts.iter().flat_map(Conjunct::columns).for_each(|column| live[*column] = true);
        all.push(Step { conjuncts, live: after });
    }
    all.reverse();
    (all, live)
}

/// Assembles batches of columns that were read in two steps: those of the predicate first, the others later.
struct LateColumns {
    schema: SchemaRef,
    /// The columns that are read later, as places in the file.
    others: Vec<usize>,
    places: Vec<ReadIn>,
}

/// In which step a column was read, and its place there.
enum ReadIn {
    First(usize),
    Second(usize),
}

impl LateColumns {
    /// The columns that come out, of which `first` are read first.
    fn new(file: &Schema, columns: &[usize], first: &[usize]) -> Result<LateColumns> {
        let mut others = Vec::new();
        let place = |c: &usize| match first.binary_search(c) {
            Ok(at) => ReadIn::First(at),
            Err(_) => {
                others.push(*c);
                ReadIn::Second(others.len() - 1)
            }
        };
        let places = columns.iter().map(place).collect();
        Ok(LateColumns { schema: Arc::new(file.project(columns)?), others, places })
    }

    /// A batch of the columns that were read first and those that were read second.
    fn assemble(&self, first: &RecordBatch, second: Option<&RecordBatch>) -> Result<RecordBatch> {
        let column = |(from, field): (&ReadIn, &FieldRef)| match (from, second) {
            (ReadIn::First(at), _) => Ok(Arc::clone(first.column(*at))),
            (ReadIn::Second(at), Some(second)) => decode(second.column(*at), field.data_type()),
            (ReadIn::Second(_), None) => {
                internal_err!("the column `{}` was lost while rows were filtered", field.name())
            }
        };
        let columns = self.places.iter().zip(self.schema.fields()).map(column);
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(first.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// The rows that passed, counted from the beginning of the row group.
fn row_selection(span: &Span, selected: &[Selected]) -> RowSelection {
    let mut mask = BooleanBufferBuilder::new(span.offset + span.length);
    mask.append_n(span.offset, false);
    selected.iter().for_each(|batch| mask.append_buffer(&batch.passed));
    RowSelection::from_boolean_buffer(mask.finish())
}

/// The columns of these expressions, in the order of the file.
fn columns_of<'a>(exprs: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>) -> Vec<usize> {
    let columns = exprs.flat_map(collect_columns).map(|column| column.index());
    columns.collect::<BTreeSet<_>>().into_iter().collect()
}
