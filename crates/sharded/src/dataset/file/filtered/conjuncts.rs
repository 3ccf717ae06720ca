//! The conjuncts of a predicate, evaluated in the order of their cost.
//!
//! Comparisons that cost little and cannot fail come first, whatever the order they were written in; those of
//! one column are evaluated together. A conjunct over one dictionary-encoded column is evaluated once per
//! value of the dictionary, not once per row, if there are fewer values than rows; all such conjuncts are
//! evaluated together. One that costs more than a comparison is evaluated once per run of equal values.

use super::super::parquet::File;
use super::encoding::decode;
use super::integer_bitmap::IntegerBitmap;
use super::runs::ValueRuns;
use crate::dataset::predicate::map_columns;
use crate::texts;
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

/// So many values of a dictionary are evaluated together: the results of a step stay in the cache.
const EVALUATED_TOGETHER: usize = 8192;

/// A conjunct, over a batch of nothing but its own columns.
pub(super) struct Conjunct {
    expr: Arc<dyn PhysicalExpr>,
    /// The places of its columns among those that are read for the predicate.
    columns: Vec<usize>,
    /// Their types as the expression expects them.
    schema: SchemaRef,
    cost: Cost,
    /// Its value for each integer of its only column.
    bitmap: Option<Arc<IntegerBitmap>>,
    /// How many rows have the same dictionary: those of the span.
    span_rows: usize,
    /// Its values for the dictionary of the batch before.
    mask: Option<DictionaryMask>,
    /// Whether its only column may have runs of equal values.
    by_runs: bool,
}

/// For each value of a dictionary whether it satisfies a conjunct.
struct DictionaryMask {
    dictionary: ArrayData,
    of_values: Vec<bool>,
    of_null: bool,
}

impl Conjunct {
    /// A conjunct over columns of this schema.
    ///
    /// # Errors
    /// `Internal` if it has a column that the schema has not.
    pub fn new(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Conjunct> {
        let columns: BTreeSet<usize> = collect_columns(expr).iter().map(Column::index).collect();
        let columns: Vec<usize> = columns.into_iter().collect();
        let place =
            |c: usize| columns.binary_search(&c).ok().map(|at| Column::new(schema.field(c).name(), at));
        let cost = cost(expr, schema);
        let own = schema.project(&columns)?;
        Ok(Conjunct {
            expr: texts::specialize(map_columns(expr, place)?, &own)?,
            schema: Arc::new(own),
            cost,
            by_runs: columns.len() == 1 && cost == Cost::Fallible,
            columns,
            bitmap: None,
            span_rows: 0,
            mask: None,
        })
    }

    /// Its bitmap over the integers that its only column has in some row groups of `rows` rows in all, if one
    /// pays.
    pub fn bitmap(&self, file: &File, row_groups: &[usize], rows: usize) -> Option<Arc<IntegerBitmap>> {
        self.only_column()?;
        IntegerBitmap::of(&self.expr, &self.schema, file, row_groups, rows).map(Arc::new)
    }

    /// The same conjunct, looked up in this bitmap.
    pub fn with_bitmap(self, bitmap: Option<Arc<IntegerBitmap>>) -> Conjunct {
        Conjunct { bitmap, ..self }
    }

    /// The same conjunct over columns of these types, in a span of so many rows. Dictionaries make it
    /// cheaper.
    pub fn over(self, read: &Schema, span_rows: usize) -> Conjunct {
        let encoded = self
            .only_column()
            .is_some_and(|at| matches!(read.field(at).data_type(), DataType::Dictionary(..)));
        let cost = if encoded && self.cost == Cost::Strings { Cost::Dictionary } else { self.cost };
        Conjunct { cost, span_rows, ..self }
    }

    /// The columns it is over.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The only column it is over.
    pub fn only_column(&self) -> Option<usize> {
        if let [column] = self.columns[..] { Some(column) } else { None }
    }

    /// For each row whether it satisfies the conjunct. Strings may be dictionaries, and decimals narrow. The
    /// rows are this share of a batch.
    ///
    /// # Errors
    /// Those of the expression; `Internal` if a column was dropped too early.
    pub fn evaluate(
        &mut self,
        columns: &[Option<ArrayRef>],
        rows: usize,
        share: f64,
    ) -> Result<BooleanBuffer> {
        let Some(columns) = self.columns.iter().map(|c| columns[*c].as_ref()).collect::<Option<Vec<_>>>()
        else {
            return internal_err!("a column of `{}` was dropped too early", self.expr);
        };
        if let [column] = columns[..] {
            let by_bitmap = self.bitmap.as_ref().and_then(|bitmap| bitmap.lookup(column));
            if let Some(holds) = by_bitmap.or_else(|| self.by_dictionary(column, share)) {
                return Ok(holds);
            }
        }
        let columns = columns.iter().zip(self.schema.fields()).map(|(c, field)| decode(c, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        if let ([column], true) = (columns.as_slice(), self.by_runs) {
            if let Some(runs) = ValueRuns::of(column)? {
                let of_runs = self.evaluate_rows(vec![Arc::clone(&runs.values)], runs.values.len())?;
                return Ok(runs.expand(&of_runs));
            }
            self.by_runs = false;
        }
        self.evaluate_rows(columns, rows)
    }

    /// Evaluates the expression row by row.
    fn evaluate_rows(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<BooleanBuffer> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        Ok(without_nulls(self.expr.evaluate(&batch)?.into_array(rows)?.as_boolean()))
    }

    /// Evaluates the conjunct once per value of a dictionary. None: the column has no dictionary, or one with
    /// more values than this share of the span has rows, or evaluation fails on one of its values, which may
    /// be in no row.
    fn by_dictionary(&mut self, column: &ArrayRef, share: f64) -> Option<BooleanBuffer> {
        let rows = column.as_dictionary_opt::<Int32Type>()?;
        let last = self.mask.take().filter(|mask| mask.dictionary.ptr_eq(&rows.values().to_data()));
        let pays = rows.values().len() as f64 <= self.span_rows as f64 * share;
        let mask = match last {
            Some(mask) => mask,
            None if pays => DictionaryMask::new(rows.values(), &self.expr, &self.schema)?,
            None => return None,
        };
        let of_row = |row: usize| mask.of_values[rows.keys().values()[row] as usize];
        let holds = match rows.nulls() {
            None => BooleanBuffer::collect_bool(rows.len(), of_row),
            Some(nulls) => BooleanBuffer::collect_bool(rows.len(), |row| match nulls.is_valid(row) {
                true => of_row(row),
                false => mask.of_null,
            }),
        };
        self.mask = Some(mask);
        Some(holds)
    }
}

impl DictionaryMask {
    /// Evaluates a conjunct for each value of a dictionary, and for null.
    fn new(dictionary: &ArrayRef, expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<DictionaryMask> {
        // The column may be declared without nulls.
        let nullable = Arc::new(Schema::new(vec![schema.field(0).clone().with_nullable(true)]));
        let of = |values: ArrayRef| {
            let values = decode(&values, nullable.field(0).data_type()).ok()?;
            let length = values.len();
            let values = RecordBatch::try_new(Arc::clone(&nullable), vec![values]).ok()?;
            let holds = expr.evaluate(&values).ok()?.into_array(length).ok()?;
            Some(without_nulls(holds.as_boolean()))
        };
        let mut of_values = Vec::with_capacity(dictionary.len());
        for start in (0..dictionary.len()).step_by(EVALUATED_TOGETHER) {
            let values = dictionary.slice(start, EVALUATED_TOGETHER.min(dictionary.len() - start));
            of_values.extend(of(values)?.iter());
        }
        let of_null = of(new_null_array(dictionary.data_type(), 1))?.value(0);
        Some(DictionaryMask { dictionary: dictionary.to_data(), of_values, of_null })
    }
}

/// The conjuncts in the order of their cost; those of one step are evaluated on the same rows.
pub(super) fn in_steps(mut conjuncts: Vec<Conjunct>) -> Vec<Vec<Conjunct>> {
    conjuncts.sort_by_key(|conjunct| conjunct.cost);
    let mut steps: Vec<Vec<Conjunct>> = Vec::new();
    for conjunct in conjuncts {
        let same_step = |step: &&mut Vec<Conjunct>| {
            let first = &step[0];
            let alike = first.columns == conjunct.columns && conjunct.cost < Cost::Strings;
            first.cost == conjunct.cost && (alike || conjunct.cost == Cost::Dictionary)
        };
        match steps.iter_mut().find(same_step) {
            Some(step) => step.push(conjunct),
            None => steps.push(vec![conjunct]),
        }
    }
    steps
}

/// What a conjunct costs a row. One that may fail is the most expensive: it stays behind those that were
/// written before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cost {
    /// Comparisons of at most eight bytes.
    Narrow,
    /// Dictionary-encoded strings: to test all rows costs less than to compact those that passed.
    Dictionary,
    /// Comparisons of 16 bytes.
    Wide,
    Strings,
    /// Anything else, which may fail.
    Fallible,
}

/// The cost of an expression over columns of this schema.
fn cost(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Cost {
    let children = || expr.children().into_iter().map(|e| cost(e, schema)).max().unwrap_or(Cost::Narrow);
    if let Some(column) = expr.downcast_ref::<Column>() {
        match schema.field(column.index()).data_type().primitive_width() {
            Some(..=8) => Cost::Narrow,
            Some(_) => Cost::Wide,
            None => Cost::Strings,
        }
    } else if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let infallible = matches!(
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
        if infallible { children() } else { Cost::Fallible }
    } else if expr.is::<InListExpr>() || expr.is::<LikeExpr>() {
        children().max(Cost::Strings)
    } else {
        let infallible = expr.is::<Literal>()
            || expr.is::<NotExpr>()
            || expr.is::<IsNullExpr>()
            || expr.is::<IsNotNullExpr>();
        if infallible { children() } else { Cost::Fallible }
    }
}

/// The bits of a test, where a null is no match.
fn without_nulls(holds: &BooleanArray) -> BooleanBuffer {
    match holds.null_count() {
        0 => holds.values().clone(),
        _ => prep_null_mask_filter(holds).values().clone(),
    }
}
