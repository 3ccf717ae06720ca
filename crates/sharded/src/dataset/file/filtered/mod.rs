//! Parquet rows of which only those are wanted that satisfy a predicate, row group by row group.
//!
//! A row group is left out if its statistics say that none of its rows is wanted. Of another, the columns of the
//! predicate are read first, strings as the dictionaries that the file has; of the other columns only the rows that
//! passed, if those are few, so most pages are not even unpacked. A hint that hardly any row fails is not asked again.
//!
//! Invariant: what comes out depends on the file and on the predicate alone.

mod pruning;
mod terms;

use super::parquet::{File, order};
use crate::dataset::predicate::map_columns;
use crate::dataset::{Predicate, Reader};
use crate::error::in_place;
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{concat_batches, filter_record_batch};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::{Result, exec_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column as Place;
use datafusion::physical_expr::utils::collect_columns;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
    RowSelection, RowSelector,
};
use parquet::basic::Encoding;
use pruning::Pruning;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use terms::{Term, cheapest_first, narrowed, plain};

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
    pruning: Option<Pruning>,
    /// How many rows were held against the hints, and how many passed.
    asked: usize,
    passed: usize,
    /// What is left of the span that was begun.
    begun: Option<Rows>,
}

/// Rows on their way out, with the columns in the order of the file.
type Rows = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The rows of a batch that passed, and the columns of those that were looked at.
struct Looked {
    passed: BooleanBuffer,
    rows: RecordBatch,
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
        let mut terms = predicate.map_columns(place)?;
        cheapest_first(&mut terms.required, schema);
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
            begun: None,
        })
    }

    /// With these to be satisfied too, over the columns of the file.
    pub fn with_required(mut self, terms: Vec<Arc<dyn PhysicalExpr>>) -> Filtered {
        self.terms.required.splice(0..0, terms);
        self
    }

    fn useless_hints(&self) -> bool {
        self.asked >= ENOUGH && self.passed as f64 > USELESS * self.asked as f64
    }

    /// The wanted rows of a span.
    fn begin(&mut self, span: &Span) -> Result<Option<Rows>> {
        if self.useless_hints() {
            self.terms.hints.clear();
        }
        let pruning = self.pruning.get_or_insert_with(|| Pruning::new(&self.file, &self.terms));
        if !pruning.may_be_wanted(&self.file, span.group)? {
            return Ok(None);
        }
        let looked_at = places(self.terms.required.iter().chain(&self.terms.hints));
        if looked_at.is_empty() {
            return Ok(Some(self.open(span, &self.columns, None)?));
        }
        let looked = self.look(span, &looked_at)?;
        let kept: usize = looked.iter().map(|batch| batch.rows.num_rows()).sum();
        match kept * FEW < span.length {
            _ if kept == 0 => Ok(None),
            true => self.few(span, &looked_at, looked).map(Some),
            false => self.many(span, &looked_at, looked).map(Some),
        }
    }

    /// Holds the terms against the rows of a span.
    fn look(&mut self, span: &Span, columns: &[usize]) -> Result<Vec<Looked>> {
        let file = self.file.metadata.schema();
        let schema = Arc::new(file.project(columns)?);
        let place = |c: usize| columns.binary_search(&c).ok().map(|at| Place::new(file.field(c).name(), at));
        let term = |term: &Arc<dyn PhysicalExpr>| Term::new(map_columns(term, place)?, &schema);
        let mut required = self.terms.required.iter().map(term).collect::<Result<Vec<_>>>()?;
        let mut hints = self.terms.hints.iter().map(term).collect::<Result<Vec<_>>>()?;
        let alone: BTreeSet<usize> =
            required.iter().chain(&hints).filter_map(|term| Some(columns[term.alone()?])).collect();
        let all: Vec<usize> = (0..columns.len()).collect();
        let mut looked = Vec::new();
        for rows in self.open_as(self.encoded(span.group, &alone)?, span, columns, None)? {
            let mut rows = rows?;
            let mut passed = BooleanBuffer::new_set(rows.num_rows());
            for term in &mut required {
                rows = narrowed(rows, &mut passed, term, &schema)?;
            }
            self.asked += rows.num_rows();
            for term in &mut hints {
                rows = narrowed(rows, &mut passed, term, &schema)?;
            }
            self.passed += rows.num_rows();
            looked.push(Looked { passed, rows: plain(&rows, &all, &schema)? });
        }
        Ok(looked)
    }

    /// Many rows passed: the other columns are read whole.
    fn many(&self, span: &Span, looked_at: &[usize], looked: Vec<Looked>) -> Result<Rows> {
        let whole = Whole::new(self.file.metadata.schema(), &self.columns, looked_at)?;
        if whole.others.is_empty() {
            return Ok(Box::new(looked.into_iter().map(move |batch| whole.of(&batch.rows, None))));
        }
        let rest = self.open(span, &whole.others, None)?;
        Ok(Box::new(looked.into_iter().zip(rest).map(move |(batch, rest)| {
            let rest = filter_record_batch(&rest?, &BooleanArray::new(batch.passed, None))?;
            whole.of(&batch.rows, Some(&rest))
        })))
    }

    /// Few rows passed: of the other columns only those are read.
    fn few(&self, span: &Span, looked_at: &[usize], looked: Vec<Looked>) -> Result<Rows> {
        let whole = Whole::new(self.file.metadata.schema(), &self.columns, looked_at)?;
        let picked = picked(span, &looked);
        let schema = Arc::new(self.file.metadata.schema().project(looked_at)?);
        let looked = concat_batches(&schema, looked.iter().map(|batch| &batch.rows))?;
        let (kept, most) = (looked.num_rows(), self.batch_rows);
        if whole.others.is_empty() {
            let slice = move |at| whole.of(&looked.slice(at, most.min(kept - at)), None);
            return Ok(Box::new((0..kept).step_by(most).map(slice)));
        }
        let rest = self.open(span, &whole.others, Some(picked))?;
        let mut at = 0;
        Ok(Box::new(rest.map(move |rest| {
            let rest = rest?;
            let these = looked.slice(at, rest.num_rows());
            at += rest.num_rows();
            whole.of(&these, Some(&rest))
        })))
    }

    /// The file, read with those of these columns as dictionaries that it has as such throughout a row group.
    fn encoded(&self, group: usize, columns: &BTreeSet<usize>) -> Result<ArrowReaderMetadata> {
        let (metadata, schema) = (&self.file.metadata, self.file.metadata.schema());
        let columns: Vec<usize> = columns
            .iter()
            .copied()
            .filter(|c| schema.field(*c).data_type().is_string())
            .filter(|c| only_dictionary(metadata, group, *c))
            .collect();
        if columns.is_empty() {
            return Ok(metadata.clone());
        }
        let mut fields = schema.fields().to_vec();
        for column in columns {
            let encoded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            fields[column] = Arc::new(fields[column].as_ref().clone().with_data_type(encoded));
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let options = ArrowReaderOptions::new().with_schema(schema);
        ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)
            .map_err(|e| in_place(&self.file.location, e))
    }

    fn open(&self, span: &Span, columns: &[usize], selection: Option<RowSelection>) -> Result<Rows> {
        self.open_as(self.file.metadata.clone(), span, columns, selection)
    }

    fn open_as(
        &self,
        metadata: ArrowReaderMetadata,
        span: &Span,
        columns: &[usize],
        selection: Option<RowSelection>,
    ) -> Result<Rows> {
        let location = self.file.location.clone();
        let Some(input) = location.open_here()? else {
            return exec_err!("`{location}` is not a file of this machine");
        };
        let mask = ProjectionMask::roots(metadata.parquet_schema(), columns.iter().copied());
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(input, metadata)
            .with_row_groups(vec![span.group])
            .with_batch_size(self.batch_rows)
            .with_projection(mask);
        builder = match selection {
            Some(selection) => builder.with_row_selection(selection),
            None => builder.with_offset(span.offset).with_limit(span.length),
        };
        let reader: ParquetRecordBatchReader = builder.build().map_err(|e| in_place(&location, e))?;
        Ok(Box::new(reader.map(move |rows| rows.map_err(|e| in_place(&location, e)))))
    }
}

impl Reader for Filtered {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            while let Some(rows) = self.begun.as_mut().and_then(Iterator::next) {
                let rows = rows?;
                if rows.num_rows() > 0 {
                    return Ok(Some(match &self.order {
                        Some(order) => rows.project(order)?,
                        None => rows,
                    }));
                }
            }
            let Some(span) = self.spans.pop_front() else { return Ok(None) };
            self.begun = self.begin(&span)?;
        }
    }
}

/// Puts columns together that were read in two steps.
struct Whole {
    schema: SchemaRef,
    /// The columns that are read second, as places in the file.
    others: Vec<usize>,
    places: Vec<Step>,
}

/// In which step a column was read, and its place there.
enum Step {
    First(usize),
    Second(usize),
}

impl Whole {
    fn new(file: &Schema, columns: &[usize], looked_at: &[usize]) -> Result<Whole> {
        let mut others = Vec::new();
        let place = |c: &usize| match looked_at.binary_search(c) {
            Ok(at) => Step::First(at),
            Err(_) => {
                others.push(*c);
                Step::Second(others.len() - 1)
            }
        };
        let places = columns.iter().map(place).collect();
        Ok(Whole { schema: Arc::new(file.project(columns)?), others, places })
    }

    fn of(&self, first: &RecordBatch, second: Option<&RecordBatch>) -> Result<RecordBatch> {
        let column = |step: &Step| match step {
            Step::First(at) => Some(Arc::clone(first.column(*at))),
            Step::Second(at) => Some(Arc::clone(second?.column(*at))),
        };
        let Some(columns) = self.places.iter().map(column).collect::<Option<Vec<ArrayRef>>>() else {
            return exec_err!("a column was lost while rows were filtered");
        };
        let options = RecordBatchOptions::new().with_row_count(Some(first.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// Whether all pages of a column are encoded by a dictionary in this row group.
fn only_dictionary(metadata: &ArrowReaderMetadata, group: usize, column: usize) -> bool {
    let group = metadata.metadata().row_group(group);
    let leaf =
        (0..group.num_columns()).find(|leaf| metadata.parquet_schema().get_column_root_idx(*leaf) == column);
    let encodings = leaf.and_then(|leaf| group.column(leaf).page_encoding_stats_mask());
    encodings.is_some_and(|e| e.is_only(Encoding::RLE_DICTIONARY) || e.is_only(Encoding::PLAIN_DICTIONARY))
}

/// The rows that passed, counted from the beginning of the row group.
fn picked(span: &Span, looked: &[Looked]) -> RowSelection {
    let mut mask = BooleanBufferBuilder::new(span.length);
    looked.iter().for_each(|batch| mask.append_buffer(&batch.passed));
    let mut selectors = Vec::new();
    let mut end = 0;
    for (from, to) in mask.finish().set_slices() {
        let skipped = if end == 0 { span.offset + from } else { from - end };
        if skipped > 0 {
            selectors.push(RowSelector::skip(skipped));
        }
        selectors.push(RowSelector::select(to - from));
        end = to;
    }
    selectors.into()
}

/// The columns of these terms, in the order of the file.
fn places<'a>(terms: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>) -> Vec<usize> {
    let columns = terms.flat_map(collect_columns).map(|column| column.index());
    columns.collect::<BTreeSet<_>>().into_iter().collect()
}
