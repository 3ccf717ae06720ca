//! Parquet rows of which only those are wanted that satisfy a predicate, row group by row group.
//!
//! A row group is left out if its statistics say that none of its rows is wanted. Of another, the columns of the
//! predicate are read first, as the file has them ([`stored`]); of the other columns only the rows that passed, if
//! those are few, so most pages are not even unpacked. A hint that hardly any row fails is not asked again.
//!
//! Invariant: what comes out depends on the file and on the predicate alone.

mod numbers;
mod pruning;
mod runs;
mod sieve;
mod stored;
mod terms;

use super::chunks::Chunks;
use super::pages::{Pages, rows};
use super::parquet::{File, order};
use crate::dataset::{Predicate, Reader};
use crate::error::in_place;
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
use numbers::Numbers;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowSelection};
use pruning::Pruning;
use sieve::Sieve;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use stored::plain;
use terms::{Term, steps};

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
    /// Reads decimals as narrow as they are in the file.
    narrow: ArrowReaderMetadata,
    spans: VecDeque<Span>,
    /// The columns that come out, as places in the file, and their order if they are not in that of the file.
    columns: Vec<usize>,
    order: Option<Vec<usize>>,
    batch_rows: usize,
    /// Over the places of the file's columns.
    terms: Predicate,
    /// Made when the first rows are asked for: hints have no values before. The second: what each hint says of numbers.
    pruning: Option<Pruning>,
    numbers: Option<Vec<Option<Arc<Numbers>>>>,
    /// How many rows were held against the hints, and how many passed.
    asked: usize,
    passed: usize,
    /// What is left of the span that was begun.
    begun: Option<Rows>,
}

/// Rows on their way out, with the columns in the order of the file.
type Rows = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The rows of a batch that passed, and the columns of those that were looked at and come out.
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
        let terms = predicate.map_columns(place)?;
        Ok(Filtered {
            narrow: stored::narrow(file)?,
            file: Arc::clone(file),
            spans: spans.into(),
            order: order(projection),
            columns: columns.iter().copied().collect::<BTreeSet<_>>().into_iter().collect(),
            batch_rows,
            terms,
            pruning: None,
            numbers: None,
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
            return Ok(Some(self.open_as(self.file.metadata.clone(), span, &self.columns, None)?));
        }
        let first: Vec<usize> =
            looked_at.iter().copied().filter(|c| self.columns.binary_search(c).is_ok()).collect();
        let looked = self.look(span, &looked_at, &first)?;
        let whole = Whole::new(self.file.metadata.schema(), &self.columns, &first)?;
        let kept: usize = looked.iter().map(|batch| batch.rows.num_rows()).sum();
        match kept * FEW < span.length {
            _ if kept == 0 => Ok(None),
            true => self.few(span, whole, looked).map(Some),
            false => self.many(span, whole, looked).map(Some),
        }
    }

    /// Holds the terms against the rows of a span. `first`: those of the columns that come out.
    fn look(&mut self, span: &Span, columns: &[usize], first: &[usize]) -> Result<Vec<Looked>> {
        let file = self.file.metadata.schema();
        let schema = file.project(columns)?;
        let place = |c: usize| columns.binary_search(&c).ok().map(|at| Place::new(file.field(c).name(), at));
        let terms = self.terms.map_columns(place)?;
        let each = |terms: &[Arc<dyn PhysicalExpr>]| {
            terms.iter().map(|term| Term::new(term, &schema)).collect::<Result<Vec<_>>>()
        };
        let (required, hints) = (each(&terms.required)?, self.by_number(span, each(&terms.hints)?));
        let alone = required.iter().chain(&hints).filter_map(Term::alone).map(|at| columns[at]).collect();
        let metadata = stored::encoded(&self.file, &self.narrow, span.group, &alone)?;
        let read = metadata.schema().project(columns)?;
        let in_steps = |terms: Vec<Term>| steps(terms.into_iter().map(|term| term.over(&read)).collect());
        let comes_out: Vec<bool> = columns.iter().map(|c| first.binary_search(c).is_ok()).collect();
        let (mut hints, comes_out) = with_wanted(in_steps(hints), comes_out);
        let (mut required, _) = with_wanted(in_steps(required), comes_out);
        let places: Vec<usize> = first.iter().filter_map(|c| columns.binary_search(c).ok()).collect();
        let schema = Arc::new(schema.project(&places)?);
        let mut looked = Vec::new();
        for rows in self.open_as(metadata, span, columns, None)? {
            let mut sieve = Sieve::new(&rows?);
            for step in &mut required {
                sieve.narrow(&mut step.terms, &step.wanted)?;
            }
            self.asked += sieve.rows();
            for step in &mut hints {
                sieve.narrow(&mut step.terms, &step.wanted)?;
            }
            self.passed += sieve.rows();
            let (passed, rows) = sieve.finish(&places, &schema)?;
            looked.push(Looked { passed, rows });
        }
        let found: usize = looked.iter().map(|batch| batch.passed.len()).sum();
        if found < span.length {
            let (location, fewer) = (&self.file.location, span.length - found);
            return exec_err!("`{location}`: it is damaged: it has {fewer} rows fewer than its footer says");
        }
        Ok(looked)
    }

    /// Hints with what they say of the numbers in this span and those behind it.
    fn by_number(&mut self, span: &Span, hints: Vec<Term>) -> Vec<Term> {
        let numbers = self.numbers.get_or_insert_with(|| {
            let spans = || std::iter::once(span).chain(&self.spans);
            let groups: Vec<usize> = spans().map(|span| span.group).collect();
            let rows = spans().map(|span| span.length).sum();
            hints.iter().map(|hint| hint.ask_numbers(&self.file, &groups, rows)).collect()
        });
        hints.into_iter().zip(numbers).map(|(hint, numbers)| hint.with_numbers(numbers.clone())).collect()
    }

    /// Many rows passed: the other columns are read whole.
    fn many(&self, span: &Span, whole: Whole, looked: Vec<Looked>) -> Result<Rows> {
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
    fn few(&self, span: &Span, whole: Whole, looked: Vec<Looked>) -> Result<Rows> {
        let Some(first) = looked.first() else { return Ok(Box::new(std::iter::empty())) };
        let picked = picked(span, &looked);
        let looked = concat_batches(&first.rows.schema(), looked.iter().map(|batch| &batch.rows))?;
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

    /// Columns as the file has them.
    fn open(&self, span: &Span, columns: &[usize], selection: Option<RowSelection>) -> Result<Rows> {
        self.open_as(self.narrow.clone(), span, columns, selection)
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
        let input = Chunks::new(input, &metadata, &[span.group]).map_err(|e| in_place(&location, e))?;
        let columns = ProjectionMask::roots(metadata.parquet_schema(), columns.iter().copied());
        let pages =
            Pages { metadata: &metadata, groups: &[span.group], columns, batch_rows: self.batch_rows };
        let selection = selection.unwrap_or_else(|| rows(span.offset, span.length));
        let reader = pages.read(input, selection).map_err(|e| in_place(&location, e))?;
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

/// Terms that are asked of the same rows, and which of the columns that are looked at are wanted after them.
struct Step {
    terms: Vec<Term>,
    wanted: Vec<bool>,
}

/// Says of each step which columns are wanted after it, if these are after the last; and which before the first.
fn with_wanted(steps: Vec<Vec<Term>>, mut wanted: Vec<bool>) -> (Vec<Step>, Vec<bool>) {
    let mut all = Vec::with_capacity(steps.len());
    for terms in steps.into_iter().rev() {
        let after = wanted.clone();
        terms.iter().flat_map(Term::columns).for_each(|column| wanted[*column] = true);
        all.push(Step { terms, wanted: after });
    }
    all.reverse();
    (all, wanted)
}

/// Puts columns together that were read in two steps.
struct Whole {
    schema: SchemaRef,
    /// The columns that are read second, as places in the file.
    others: Vec<usize>,
    places: Vec<Origin>,
}

/// In which step a column was read, and its place there.
enum Origin {
    First(usize),
    Second(usize),
}

impl Whole {
    fn new(file: &Schema, columns: &[usize], first: &[usize]) -> Result<Whole> {
        let mut others = Vec::new();
        let place = |c: &usize| match first.binary_search(c) {
            Ok(at) => Origin::First(at),
            Err(_) => {
                others.push(*c);
                Origin::Second(others.len() - 1)
            }
        };
        let places = columns.iter().map(place).collect();
        Ok(Whole { schema: Arc::new(file.project(columns)?), others, places })
    }

    fn of(&self, first: &RecordBatch, second: Option<&RecordBatch>) -> Result<RecordBatch> {
        let column = |(from, field): (&Origin, &FieldRef)| match (from, second) {
            (Origin::First(at), _) => Ok(Arc::clone(first.column(*at))),
            (Origin::Second(at), Some(second)) => plain(second.column(*at), field.data_type()),
            (Origin::Second(_), None) => {
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
fn picked(span: &Span, looked: &[Looked]) -> RowSelection {
    let mut mask = BooleanBufferBuilder::new(span.offset + span.length);
    mask.append_n(span.offset, false);
    looked.iter().for_each(|batch| mask.append_buffer(&batch.passed));
    RowSelection::from_boolean_buffer(mask.finish())
}

/// The columns of these terms, in the order of the file.
fn places<'a>(terms: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>) -> Vec<usize> {
    let columns = terms.flat_map(collect_columns).map(|column| column.index());
    columns.collect::<BTreeSet<_>>().into_iter().collect()
}
