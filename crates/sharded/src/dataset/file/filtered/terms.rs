//! Terms of a predicate, held against batches one after the other.
//!
//! Comparisons that cost little and cannot fail come first, whatever the order they were written in. A term over one
//! column that is kept as a dictionary is asked of each of its values once, not of each row.

use crate::dataset::predicate::map_columns;
use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions,
    new_null_array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{cast, filter, prep_null_mask_filter};
use datafusion::arrow::datatypes::{Int32Type, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use std::sync::Arc;

/// A term over the columns that are looked at.
pub(super) struct Term {
    expr: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    /// If it is over one column alone: that, and the term over a batch of nothing else.
    alone: Option<(usize, Arc<dyn PhysicalExpr>)>,
    /// What it said of the dictionary that was there last.
    known: Option<Verdicts>,
}

/// What a term says of the values of a dictionary.
struct Verdicts {
    dictionary: ArrayData,
    of_values: BooleanArray,
    of_null: bool,
}

impl Term {
    /// A term over columns of this schema.
    pub fn new(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Term> {
        let columns: Vec<usize> = collect_columns(&expr).iter().map(Column::index).collect();
        let alone = match columns[..] {
            [column] => {
                let name = schema.field(column).name();
                Some((column, map_columns(&expr, |_| Some(Column::new(name, 0)))?))
            }
            _ => None,
        };
        Ok(Term { expr, columns, alone, known: None })
    }

    /// The only column it is over.
    pub fn alone(&self) -> Option<usize> {
        self.alone.as_ref().map(|(column, _)| *column)
    }

    /// For each row whether it is wanted. `schema` has the types of the columns as the term knows them; in `rows`
    /// strings may be dictionaries.
    fn holds(&mut self, rows: &RecordBatch, schema: &SchemaRef) -> Result<BooleanArray> {
        if let Some(holds) = self.by_dictionary(rows, schema) {
            return Ok(holds);
        }
        let rows = plain(rows, &self.columns, schema)?;
        let holds = self.expr.evaluate(&rows)?.into_array(rows.num_rows())?;
        Ok(without_nulls(holds.as_boolean()))
    }

    /// None: there is no dictionary, or it has a value that the term fails on, which may be in no row.
    fn by_dictionary(&mut self, rows: &RecordBatch, schema: &SchemaRef) -> Option<BooleanArray> {
        let (column, term) = self.alone.as_ref()?;
        let rows = rows.column(*column).as_dictionary_opt::<Int32Type>()?;
        let known = self.known.take().filter(|known| known.dictionary.ptr_eq(&rows.values().to_data()));
        let verdicts = match known {
            Some(known) => known,
            None => Verdicts::new(rows.values(), term, &schema.project(&[*column]).ok()?)?,
        };
        let of_row = |key: &i32| verdicts.of_values.values().value(*key as usize);
        let holds: BooleanBuffer = match rows.nulls() {
            None => rows.keys().values().iter().map(of_row).collect(),
            Some(_) => {
                rows.keys().iter().map(|key| key.map_or(verdicts.of_null, |key| of_row(&key))).collect()
            }
        };
        self.known = Some(verdicts);
        Some(BooleanArray::new(holds, None))
    }
}

impl Verdicts {
    fn new(dictionary: &ArrayRef, term: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Verdicts> {
        let schema = Arc::new(schema.clone());
        let of = |values: ArrayRef| {
            let values = cast(&values, schema.field(0).data_type()).ok()?;
            let length = values.len();
            // A null may be asked of a column that has none in any row.
            let nullable = schema.field(0).clone().with_nullable(true);
            let values = RecordBatch::try_new(Arc::new(Schema::new(vec![nullable])), vec![values]).ok()?;
            let holds = term.evaluate(&values).ok()?.into_array(length).ok()?;
            Some(without_nulls(holds.as_boolean()))
        };
        let of_values = of(Arc::clone(dictionary))?;
        let of_null = of(new_null_array(dictionary.data_type(), 1))?.value(0);
        Some(Verdicts { dictionary: dictionary.to_data(), of_values, of_null })
    }
}

/// Puts the terms in the order in which they are asked.
pub(super) fn cheapest_first(terms: &mut [Arc<dyn PhysicalExpr>], schema: &Schema) {
    terms.sort_by_key(|term| effort(term, schema));
}

/// What a term costs a row, and whether it can fail: one that can stays behind those that were before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effort {
    Numbers,
    Strings,
    Anything,
}

fn effort(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Effort {
    let children = || expr.children().into_iter().map(|e| effort(e, schema)).max().unwrap_or(Effort::Numbers);
    if let Some(column) = expr.downcast_ref::<Column>() {
        match schema.field(column.index()).data_type().is_primitive() {
            true => Effort::Numbers,
            false => Effort::Strings,
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

/// The rows that satisfy one more term; of `passed`, which says of the first rows which are these, the others are
/// taken out.
pub(super) fn narrowed(
    rows: RecordBatch,
    passed: &mut BooleanBuffer,
    term: &mut Term,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    if rows.num_rows() == 0 {
        return Ok(rows);
    }
    let holds = term.holds(&rows, schema)?;
    let kept = holds.true_count();
    if kept == rows.num_rows() {
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
    let columns = rows.columns().iter().map(|c| filter(c, &holds)).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(kept));
    Ok(RecordBatch::try_new_with_options(rows.schema(), columns, &options)?)
}

/// The rows with these columns as the schema has them.
pub(super) fn plain(rows: &RecordBatch, columns: &[usize], schema: &SchemaRef) -> Result<RecordBatch> {
    let same = |c: &usize| rows.column(*c).data_type() == schema.field(*c).data_type();
    if columns.iter().all(same) {
        return Ok(rows.clone());
    }
    let mut fields = rows.schema().fields().to_vec();
    let mut arrays = rows.columns().to_vec();
    for &column in columns {
        fields[column] = Arc::clone(&schema.fields()[column]);
        arrays[column] = cast(&arrays[column], schema.field(column).data_type())?;
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?)
}

fn without_nulls(holds: &BooleanArray) -> BooleanArray {
    match holds.null_count() {
        0 => holds.clone(),
        _ => prep_null_mask_filter(holds),
    }
}
