//! Terms of a predicate, held against batches one after the other.
//!
//! Comparisons that cost little and cannot fail come first, whatever the order they were written in; those of one column
//! are asked together. A term over one column that is kept as a dictionary is asked of each of its values once, not of
//! each row; all such terms are asked together. What costs more than a comparison is asked once for each run of a value.

use super::super::parquet::File;
use super::numbers::Numbers;
use super::runs::Runs;
use super::stored::plain;
use crate::dataset::predicate::map_columns;
use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::prep_null_mask_filter;
use datafusion::arrow::datatypes::{DataType, Int32Type, Schema, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A term, over a batch of nothing but its own columns.
pub(super) struct Term {
    expr: Arc<dyn PhysicalExpr>,
    /// Where these are among the columns that are looked at, and their types as the term knows them.
    columns: Vec<usize>,
    schema: SchemaRef,
    effort: Effort,
    /// What it says of the numbers of its only column.
    numbers: Option<Arc<Numbers>>,
    /// What it said of the dictionary that was there last.
    known: Option<Verdicts>,
    /// Whether the values of its only column may follow themselves.
    in_runs: bool,
}

/// What a term says of the values of a dictionary.
struct Verdicts {
    dictionary: ArrayData,
    of_values: Vec<bool>,
    of_null: bool,
}

impl Term {
    /// A term over columns of this schema.
    pub fn new(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Term> {
        let columns: BTreeSet<usize> = collect_columns(expr).iter().map(Column::index).collect();
        let columns: Vec<usize> = columns.into_iter().collect();
        let place =
            |c: usize| columns.binary_search(&c).ok().map(|at| Column::new(schema.field(c).name(), at));
        let effort = effort(expr, schema);
        Ok(Term {
            expr: map_columns(expr, place)?,
            schema: Arc::new(schema.project(&columns)?),
            effort,
            in_runs: columns.len() == 1 && effort == Effort::Anything,
            columns,
            numbers: None,
            known: None,
        })
    }

    /// What it says of the numbers that its only column has in some row groups, of so many rows.
    pub fn ask_numbers(&self, file: &File, groups: &[usize], rows: usize) -> Option<Arc<Numbers>> {
        self.alone()?;
        Numbers::of(&self.expr, &self.schema, file, groups, rows).map(Arc::new)
    }

    /// The term, with that.
    pub fn with_numbers(self, numbers: Option<Arc<Numbers>>) -> Term {
        Term { numbers, ..self }
    }

    /// The term, over columns that are read as these: where strings are dictionaries, to ask costs less.
    pub fn over(self, read: &Schema) -> Term {
        let encoded =
            self.alone().is_some_and(|at| matches!(read.field(at).data_type(), DataType::Dictionary(..)));
        let effort = if encoded && self.effort == Effort::Strings { Effort::Encoded } else { self.effort };
        Term { effort, ..self }
    }

    /// The columns it is over.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The only column it is over.
    pub fn alone(&self) -> Option<usize> {
        if let [column] = self.columns[..] { Some(column) } else { None }
    }

    /// For each row whether it is wanted. Strings may be dictionaries, and decimals narrow.
    pub fn holds(&mut self, columns: &[Option<ArrayRef>], rows: usize) -> Result<BooleanBuffer> {
        let Some(columns) = self.columns.iter().map(|c| columns[*c].as_ref()).collect::<Option<Vec<_>>>()
        else {
            return internal_err!("a column of `{}` was taken out before its time", self.expr);
        };
        if let [column] = columns[..] {
            let by_number = self.numbers.as_ref().and_then(|numbers| numbers.hold(column));
            if let Some(holds) = by_number.or_else(|| self.by_dictionary(column)) {
                return Ok(holds);
            }
        }
        let columns = columns.iter().zip(self.schema.fields()).map(|(c, field)| plain(c, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        if let ([column], true) = (columns.as_slice(), self.in_runs) {
            if let Some(runs) = Runs::of(column)? {
                let of_values = self.ask(vec![Arc::clone(&runs.values)], runs.values.len())?;
                return Ok(runs.each(&of_values));
            }
            self.in_runs = false;
        }
        self.ask(columns, rows)
    }

    /// What it says of each row of its columns.
    fn ask(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<BooleanBuffer> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        Ok(without_nulls(self.expr.evaluate(&batch)?.into_array(rows)?.as_boolean()))
    }

    /// None: there is no dictionary, or it has a value that the term fails on, which may be in no row.
    fn by_dictionary(&mut self, column: &ArrayRef) -> Option<BooleanBuffer> {
        let rows = column.as_dictionary_opt::<Int32Type>()?;
        let known = self.known.take().filter(|known| known.dictionary.ptr_eq(&rows.values().to_data()));
        let verdicts = match known {
            Some(known) => known,
            None => Verdicts::new(rows.values(), &self.expr, &self.schema)?,
        };
        let of_row = |row: usize| verdicts.of_values[rows.keys().values()[row] as usize];
        let holds = match rows.nulls() {
            None => BooleanBuffer::collect_bool(rows.len(), of_row),
            Some(nulls) => BooleanBuffer::collect_bool(rows.len(), |row| match nulls.is_valid(row) {
                true => of_row(row),
                false => verdicts.of_null,
            }),
        };
        self.known = Some(verdicts);
        Some(holds)
    }
}

impl Verdicts {
    fn new(dictionary: &ArrayRef, term: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Verdicts> {
        let of = |values: ArrayRef| {
            let values = plain(&values, schema.field(0).data_type()).ok()?;
            let length = values.len();
            // A null may be asked of a column that has none in any row.
            let nullable = schema.field(0).clone().with_nullable(true);
            let values = RecordBatch::try_new(Arc::new(Schema::new(vec![nullable])), vec![values]).ok()?;
            let holds = term.evaluate(&values).ok()?.into_array(length).ok()?;
            Some(without_nulls(holds.as_boolean()).iter().collect::<Vec<bool>>())
        };
        let of_values = of(Arc::clone(dictionary))?;
        let of_null = *of(new_null_array(dictionary.data_type(), 1))?.first()?;
        Some(Verdicts { dictionary: dictionary.to_data(), of_values, of_null })
    }
}

/// The terms in the order in which they are asked, together those that are asked of the same rows.
pub(super) fn steps(mut terms: Vec<Term>) -> Vec<Vec<Term>> {
    terms.sort_by_key(|term| term.effort);
    let mut steps: Vec<Vec<Term>> = Vec::new();
    for term in terms {
        let together = |step: &&mut Vec<Term>| {
            let first = &step[0];
            let alike = first.columns == term.columns && term.effort < Effort::Strings;
            first.effort == term.effort && (alike || term.effort == Effort::Encoded)
        };
        match steps.iter_mut().find(together) {
            Some(step) => step.push(term),
            None => steps.push(vec![term]),
        }
    }
    steps
}

/// What a term costs a row, and whether it can fail: one that can stays behind those that were before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effort {
    Numbers,
    /// Strings that are dictionaries. It costs less to ask of all rows than to move those that passed together.
    Encoded,
    /// Of 16 bytes.
    Wide,
    Strings,
    Anything,
}

fn effort(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Effort {
    let children = || expr.children().into_iter().map(|e| effort(e, schema)).max().unwrap_or(Effort::Numbers);
    if let Some(column) = expr.downcast_ref::<Column>() {
        match schema.field(column.index()).data_type().primitive_width() {
            Some(..=8) => Effort::Numbers,
            Some(_) => Effort::Wide,
            None => Effort::Strings,
        }
    } else if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let harmless = matches!(
            binary.op(),
            Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
                | Operator::And
                | Operator::Or
        );
        if harmless { children() } else { Effort::Anything }
    } else if expr.is::<InListExpr>() || expr.is::<LikeExpr>() {
        children().max(Effort::Strings)
    } else {
        let harmless = expr.is::<Literal>()
            || expr.is::<NotExpr>()
            || expr.is::<IsNullExpr>()
            || expr.is::<IsNotNullExpr>();
        if harmless { children() } else { Effort::Anything }
    }
}

fn without_nulls(holds: &BooleanArray) -> BooleanBuffer {
    match holds.null_count() {
        0 => holds.values().clone(),
        _ => prep_null_mask_filter(holds).values().clone(),
    }
}
