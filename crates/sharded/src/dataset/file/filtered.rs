//! Parquet rows of which only those are wanted that satisfy a predicate, row group by row group.
//!
//! A row group is left out if its statistics say that none of its rows is wanted. Of another, the columns of the
//! predicate are read first; of the other columns only the rows that passed, if those are few, so most pages are not
//! even unpacked. A hint that hardly any row fails is not asked again.
//!
//! Invariant: what comes out depends on the file and on the predicate alone.

use super::parquet::{File, order};
use crate::dataset::predicate::map_columns;
use crate::dataset::{Predicate, Reader};
use crate::error::in_place;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions,
    UInt64Array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{concat_batches, filter, filter_record_batch, prep_null_mask_filter};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, Result, ScalarValue, exec_err};
use datafusion::physical_expr::expressions::Column as Place;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{
    ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

/// Rows are picked while their columns are unpacked if fewer than one in so many are wanted.
const FEW: usize = 5;

/// A hint is given up if more than this share of the rows that were looked at passed.
const USELESS: f64 = 0.7;

/// How many rows have to be looked at before a hint is given up.
const ENOUGH: usize = 20_000;

/// Part of a row group: `length` rows from `offset` on.
pub(super) struct Span {
    pub group: usize,
    pub offset: usize,
    pub length: usize,
}

/// The wanted rows of some spans of a file.
pub(super) struct Filtered {
    file: Arc<File>,
    spans: VecDeque<Span>,
    /// The columns that come out, as places in the file, and their order if they are not in that of the file.
    columns: Vec<usize>,
    order: Option<Vec<usize>>,
    batch_rows: usize,
    /// Over the places of the file's columns.
    terms: Predicate,
    /// Made when the first rows are asked for: hints have no values before.
    pruning: Option<Option<Arc<PruningPredicate>>>,
    /// How many rows were held against the hints, and how many passed.
    asked: usize,
    passed: usize,
    ready: VecDeque<RecordBatch>,
}

impl Filtered {
    pub fn new(
        file: &Arc<File>,
        spans: Vec<Span>,
        projection: Option<&[usize]>,
        batch_rows: usize,
        predicate: &Predicate,
    ) -> Result<Filtered> {
        let schema = file.metadata.schema();
        let columns: Vec<usize> = match projection {
            Some(columns) => columns.to_vec(),
            None => (0..schema.fields().len()).collect(),
        };
        let place = |i: usize| columns.get(i).map(|c| Place::new(schema.field(*c).name(), *c));
        let terms = predicate.map_columns(place)?;
        Ok(Filtered {
            file: Arc::clone(file),
            spans: spans.into(),
            order: order(projection),
            columns: columns.iter().copied().collect::<BTreeSet<_>>().into_iter().collect(),
            batch_rows,
            terms,
            pruning: None,
            asked: 0,
            passed: 0,
            ready: VecDeque::new(),
        })
    }

    /// Whether the statistics of a row group allow wanted rows.
    fn may_be_wanted(&mut self, group: usize) -> Result<bool> {
        let schema = self.file.metadata.schema();
        let terms = &self.terms;
        let pruning = self.pruning.get_or_insert_with(|| {
            let all = conjunction(terms.required.iter().chain(&terms.hints).cloned());
            PruningPredicateBuilder::new().with_file_schema(schema.clone()).build(all)
        });
        let Some(pruning) = pruning else { return Ok(true) };
        Ok(pruning.prune(&Group { file: &self.file, group })?.first().copied().unwrap_or(true))
    }

    fn useless_hints(&self) -> bool {
        self.asked >= ENOUGH && self.passed as f64 > USELESS * self.asked as f64
    }

    /// Puts the wanted rows of a span into `ready`.
    fn read(&mut self, span: &Span) -> Result<()> {
        if self.useless_hints() {
            self.terms.hints.clear();
        }
        if !self.may_be_wanted(span.group)? {
            return Ok(());
        }
        let looked_at = places(self.terms.required.iter().chain(&self.terms.hints));
        if looked_at.is_empty() {
            return self.read_all(span);
        }
        let (mask, looked) = self.wanted(span, &looked_at)?;
        let kept = mask.count_set_bits();
        if kept == 0 {
            return Ok(());
        }
        let others: Vec<usize> = self.columns.iter().copied().filter(|c| !looked_at.contains(c)).collect();
        let rest = match others.is_empty() {
            true => None,
            false => Some(self.rest(span, &others, &mask, kept)?),
        };
        self.assemble(&looked_at, looked, &others, rest, kept)
    }

    fn read_all(&mut self, span: &Span) -> Result<()> {
        for rows in self.open(span, &self.columns, None)? {
            let rows = rows.map_err(|e| in_place(&self.file.location, e))?;
            self.hand_out(rows)?;
        }
        Ok(())
    }

    /// Which rows of a span are wanted, and these columns of those.
    fn wanted(&mut self, span: &Span, columns: &[usize]) -> Result<(BooleanBuffer, RecordBatch)> {
        let within = |c: usize| columns.binary_search(&c).ok();
        let schema = self.file.metadata.schema().clone();
        let place = |c: usize| within(c).map(|at| Place::new(schema.field(c).name(), at));
        let terms = |terms: &[Arc<dyn PhysicalExpr>]| {
            terms.iter().map(|term| map_columns(term, place)).collect::<Result<Vec<_>>>()
        };
        let (required, hints) = (terms(&self.terms.required)?, terms(&self.terms.hints)?);
        let reader = self.open(span, columns, None)?;
        let narrow = Arc::new(schema.project(columns)?);
        let mut mask = BooleanBufferBuilder::new(span.length);
        let mut kept = Vec::new();
        for rows in reader {
            let mut rows = rows.map_err(|e| in_place(&self.file.location, e))?;
            let mut passed = BooleanBuffer::new_set(rows.num_rows());
            for term in &required {
                rows = narrowed(rows, &mut passed, term)?;
            }
            let before = rows.num_rows();
            for term in &hints {
                rows = narrowed(rows, &mut passed, term)?;
            }
            self.asked += before;
            self.passed += rows.num_rows();
            mask.append_buffer(&passed);
            kept.push(rows);
        }
        Ok((mask.finish(), concat_batches(&narrow, &kept)?))
    }

    /// These columns of the wanted rows.
    fn rest(&self, span: &Span, columns: &[usize], mask: &BooleanBuffer, kept: usize) -> Result<RecordBatch> {
        let schema = Arc::new(self.file.metadata.schema().project(columns)?);
        let few = kept * FEW < span.length;
        let selection = few.then(|| picked(span, mask));
        let mut found = Vec::new();
        let mut at = 0;
        for rows in self.open(span, columns, selection)? {
            let rows = rows.map_err(|e| in_place(&self.file.location, e))?;
            found.push(match few {
                true => rows,
                false => {
                    let these = BooleanArray::new(mask.slice(at, rows.num_rows()), None);
                    at += rows.num_rows();
                    filter_record_batch(&rows, &these)?
                }
            });
        }
        Ok(concat_batches(&schema, &found)?)
    }

    /// Puts the columns together that were read in two steps.
    fn assemble(
        &mut self,
        looked_at: &[usize],
        looked: RecordBatch,
        others: &[usize],
        rest: Option<RecordBatch>,
        kept: usize,
    ) -> Result<()> {
        let column = |c: &usize| -> Option<ArrayRef> {
            match looked_at.binary_search(c) {
                Ok(at) => Some(looked.column(at).clone()),
                Err(_) => Some(rest.as_ref()?.column(others.binary_search(c).ok()?).clone()),
            }
        };
        let Some(columns) = self.columns.iter().map(column).collect::<Option<Vec<_>>>() else {
            return exec_err!("`{}`: a column was lost while rows were filtered", self.file.location);
        };
        let schema = Arc::new(self.file.metadata.schema().project(&self.columns)?);
        let options = RecordBatchOptions::new().with_row_count(Some(kept));
        let rows = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let mut at = 0;
        while at < kept {
            let length = self.batch_rows.min(kept - at);
            self.hand_out(rows.slice(at, length))?;
            at += length;
        }
        Ok(())
    }

    fn hand_out(&mut self, rows: RecordBatch) -> Result<()> {
        self.ready.push_back(match &self.order {
            Some(order) => rows.project(order)?,
            None => rows,
        });
        Ok(())
    }

    fn open(
        &self,
        span: &Span,
        columns: &[usize],
        selection: Option<RowSelection>,
    ) -> Result<ParquetRecordBatchReader> {
        let Some(input) = self.file.location.open_here()? else {
            return exec_err!("`{}` is not a file of this machine", self.file.location);
        };
        let metadata = self.file.metadata.clone();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), columns.iter().copied());
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(input, metadata)
            .with_row_groups(vec![span.group])
            .with_batch_size(self.batch_rows)
            .with_projection(mask);
        builder = match selection {
            Some(selection) => builder.with_row_selection(selection),
            None => builder.with_offset(span.offset).with_limit(span.length),
        };
        builder.build().map_err(|e| in_place(&self.file.location, e))
    }
}

/// The rows of a mask, counted from the beginning of the row group.
fn picked(span: &Span, mask: &BooleanBuffer) -> RowSelection {
    let mut selectors = Vec::new();
    let mut end = 0;
    for (from, to) in mask.set_slices() {
        let skipped = if end == 0 { span.offset + from } else { from - end };
        if skipped > 0 {
            selectors.push(RowSelector::skip(skipped));
        }
        selectors.push(RowSelector::select(to - from));
        end = to;
    }
    selectors.into()
}

/// The rows that satisfy one more term; of `passed`, which says of the first rows which are these, the others are
/// taken out.
fn narrowed(
    rows: RecordBatch,
    passed: &mut BooleanBuffer,
    term: &Arc<dyn PhysicalExpr>,
) -> Result<RecordBatch> {
    if rows.num_rows() == 0 {
        return Ok(rows);
    }
    let holds = term.evaluate(&rows)?.into_array(rows.num_rows())?;
    let holds = match holds.as_boolean() {
        some if some.null_count() > 0 => prep_null_mask_filter(some),
        all => all.clone(),
    };
    if holds.true_count() == rows.num_rows() {
        return Ok(rows);
    }
    *passed = match passed.count_set_bits() == passed.len() {
        true => holds.values().clone(),
        false => {
            let mut both = BooleanBufferBuilder::new(passed.len());
            both.append_n(passed.len(), false);
            let still = passed.set_indices().zip(holds.values().iter()).filter(|(_, holds)| *holds);
            still.for_each(|(row, _)| both.set_bit(row, true));
            both.finish()
        }
    };
    let schema = rows.schema();
    let columns = rows.columns().iter().map(|c| filter(c, &holds)).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(holds.true_count()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

/// The columns of these terms, in the order of the file.
fn places<'a>(terms: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>) -> Vec<usize> {
    let columns = terms.flat_map(collect_columns).map(|column| column.index());
    columns.collect::<BTreeSet<_>>().into_iter().collect()
}

impl Reader for Filtered {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(rows) = self.ready.pop_front() {
                return Ok(Some(rows));
            }
            let Some(span) = self.spans.pop_front() else { return Ok(None) };
            self.read(&span)?;
        }
    }
}

/// What the footer says of a row group.
struct Group<'a> {
    file: &'a File,
    group: usize,
}

impl Group<'_> {
    fn converter(&self, column: &Column) -> Option<StatisticsConverter<'_>> {
        let metadata = &self.file.metadata;
        StatisticsConverter::try_new(&column.name, metadata.schema(), metadata.parquet_schema()).ok()
    }

    fn row_group(&self) -> &parquet::file::metadata::RowGroupMetaData {
        self.file.metadata.metadata().row_group(self.group)
    }
}

impl PruningStatistics for Group<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.converter(column)?.row_group_mins([self.row_group()]).ok()
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.converter(column)?.row_group_maxes([self.row_group()]).ok()
    }

    fn num_containers(&self) -> usize {
        1
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let counts = self.converter(column)?.row_group_null_counts([self.row_group()]).ok()?;
        Some(Arc::new(counts))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from(vec![self.row_group().num_rows() as u64])))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
