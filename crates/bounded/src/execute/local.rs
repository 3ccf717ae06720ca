//! Expressions over rows, and the local operators: filter, project, sort, merge, distinct (piql.txt §5.2.2).
//!
//! Parameters are columns of one row that follow the columns of the rows: `$1` is the same in all rows.
//! Expressions are made physical once, when a statement is prepared.

use super::call::Call;
use super::rows::Rows;
use crate::datum::Datum;
use crate::error::{Error, Result};
use crate::expression::Columns;
use crate::expression::physical;
use crate::keys::{self, KeyOrder};
use crate::plan::ParameterType;
use crate::syntax::parameter_number;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use datafusion::arrow::compute::{
    SortColumn, SortOptions, and, lexsort_to_indices, prep_null_mask_filter, take,
};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, SortExpr};
use datafusion::physical_expr::PhysicalExpr;
use std::collections::HashSet;
use std::sync::Arc;

/// The columns of expressions: those of the rows, then the parameters.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub schema: DFSchema,
    arrow: SchemaRef,
    columns: usize,
    lists: Vec<bool>,
}

impl Scope {
    /// # Errors
    /// `Internal` if a column is not in the scope.
    pub fn new(columns: &Columns, parameters: &[ParameterType]) -> Result<Scope> {
        let mut all = Columns(columns.0.clone());
        // A left join makes nulls of columns that are not null in the store.
        all.0.iter_mut().for_each(|(_, field)| field.set_nullable(true));
        let width = all.0.len();
        for (at, parameter) in parameters.iter().enumerate() {
            all.0.push((None, Field::new(format!("${}", at + 1), parameter.of.clone(), true)));
        }
        let schema = all.schema()?;
        let arrow = Arc::new(Schema::new(schema.fields().iter().cloned().collect::<Vec<_>>()));
        let lists = parameters.iter().map(|parameter| parameter.list.is_some()).collect();
        Ok(Scope { schema, arrow, columns: width, lists })
    }

    /// The position of a column in the rows.
    ///
    /// # Errors
    /// `Internal` if the column is not in the scope.
    pub fn place(&self, column: &Column) -> Result<usize> {
        Ok(self.schema.index_of_column(column)?)
    }

    /// The expression with parameters as columns.
    ///
    /// # Errors
    /// `Internal` if a parameter is unknown.
    pub fn bound(&self, expr: &Expr) -> Result<Expr> {
        let mut list = false;
        let bound = expr.clone().transform(|expr| {
            Ok(match expr {
                Expr::Placeholder(Placeholder { id, .. }) => {
                    list |= parameter_number(&id).is_some_and(|at| self.lists.get(at) == Some(&true));
                    Transformed::yes(Expr::Column(Column::new_unqualified(id)))
                }
                other => Transformed::no(other),
            })
        })?;
        match list {
            true => Err(Error::invalid(
                "a list stands in `column in (? limit n)`, next to other predicates by `and`",
            )),
            false => Ok(bound.data),
        }
    }
}

/// A lowered expression.
#[derive(Debug, Clone)]
pub(crate) struct Local {
    expr: Arc<dyn PhysicalExpr>,
    /// The column, if the expression is nothing else.
    column: Option<usize>,
    scope: Arc<Scope>,
}

impl Local {
    /// # Errors
    /// `Internal` if a column is not in the scope.
    pub fn new(expr: &Expr, scope: &Arc<Scope>) -> Result<Local> {
        let bound = scope.bound(expr)?;
        let column = match &bound {
            Expr::Column(column) => Some(scope.place(column)?).filter(|at| *at < scope.columns),
            _ => None,
        };
        let expr = physical(bound, &scope.schema)?;
        Ok(Local { expr, column, scope: scope.clone() })
    }

    /// # Errors
    /// `Data` if the expression fails for a row.
    pub fn value(&self, rows: &Rows, call: &Call<'_>) -> Result<ArrayRef> {
        match self.column {
            Some(at) => Ok(rows.columns[at].clone()),
            None => self.compute(&with_parameters(&self.scope, rows, call)?),
        }
    }

    fn compute(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        Ok(self.expr.evaluate(batch)?.into_array(batch.num_rows())?)
    }
}

/// The rows followed by the parameters.
pub(crate) fn with_parameters(scope: &Scope, rows: &Rows, call: &Call<'_>) -> Result<RecordBatch> {
    let mut columns = rows.columns[..scope.columns].to_vec();
    for value in &call.values {
        columns.push(match rows.len {
            1 => value.clone(),
            len => take(value, &UInt32Array::from(vec![0; len]), None)?,
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len));
    Ok(RecordBatch::try_new_with_options(scope.arrow.clone(), columns, &options)?)
}

/// Values of several expressions over the same rows.
pub(crate) fn values(exprs: &[Local], rows: &Rows, call: &Call<'_>) -> Result<Vec<ArrayRef>> {
    let mut batch: Option<RecordBatch> = None;
    let mut out = Vec::with_capacity(exprs.len());
    for expr in exprs {
        if let Some(at) = expr.column {
            out.push(rows.columns[at].clone());
            continue;
        }
        if batch.is_none() {
            batch = Some(with_parameters(&expr.scope, rows, call)?);
        }
        if let Some(batch) = &batch {
            out.push(expr.compute(batch)?);
        }
    }
    Ok(out)
}

/// A mask of the rows for which all expressions are true.
pub(crate) fn all_true(exprs: &[Local], rows: &Rows, call: &Call<'_>) -> Result<BooleanArray> {
    let mut keep: Option<BooleanArray> = None;
    for value in values(exprs, rows, call)? {
        let value = match value.null_count() {
            0 => value.as_boolean().clone(),
            _ => prep_null_mask_filter(value.as_boolean()),
        };
        keep = Some(match keep {
            Some(keep) => and(&keep, &value)?,
            None => value,
        });
    }
    Ok(keep.unwrap_or_else(|| BooleanArray::from(vec![true; rows.len])))
}

/// A key of an order.
#[derive(Debug, Clone)]
pub(crate) struct SortKey {
    expr: Local,
    options: SortOptions,
}

impl SortKey {
    /// # Errors
    /// `Internal` if a column is not in the scope.
    pub fn new(key: &SortExpr, scope: &Arc<Scope>) -> Result<SortKey> {
        let options = SortOptions { descending: !key.asc, nulls_first: key.nulls_first };
        Ok(SortKey { expr: Local::new(&key.expr, scope)?, options })
    }
}

/// The rows in order, or the first of them.
pub(crate) fn sort(keys: &[SortKey], rows: &Rows, call: &Call<'_>, first: Option<usize>) -> Result<Rows> {
    if rows.len < 2 {
        return Ok(rows.clone());
    }
    let columns = keys
        .iter()
        .map(|key| Ok(SortColumn { values: key.expr.value(rows, call)?, options: Some(key.options) }));
    let order = lexsort_to_indices(&columns.collect::<Result<Vec<_>>>()?, first)?;
    rows.take(&order)
}

/// Rows without duplicates; the first of equal rows stays.
pub(crate) fn distinct(rows: &Rows) -> Result<Rows> {
    if rows.columns.is_empty() {
        return Ok(rows.first(1));
    }
    let fields = rows.columns.iter().map(|column| SortField::new(column.data_type().clone()));
    let converter = RowConverter::new(fields.collect())?;
    let keys = converter.convert_columns(&rows.columns)?;
    let mut seen = HashSet::new();
    let keep: Vec<u32> = keys
        .iter()
        .enumerate()
        .filter(|(_, key)| seen.insert(key.as_ref().to_vec()))
        .map(|(at, _)| at as u32)
        .collect();
    rows.take(&UInt32Array::from(keep))
}

/// The positions of the first rows, ordered by position in the index, then by prefix.
pub(crate) fn merge(
    rows: &Rows,
    position: usize,
    prefix: usize,
    reverse: bool,
    first: usize,
) -> Result<Rows> {
    let (positions, prefixes) =
        (rows.columns[position].as_binary::<i32>(), rows.columns[prefix].as_binary::<i32>());
    let mut order: Vec<u32> = (0..rows.len as u32).collect();
    order.sort_unstable_by(|a, b| {
        let (a, b) = (*a as usize, *b as usize);
        let by_position = positions.value(a).cmp(positions.value(b));
        let by_position = if reverse { by_position.reverse() } else { by_position };
        by_position.then_with(|| prefixes.value(a).cmp(prefixes.value(b)))
    });
    order.truncate(first);
    rows.take(&UInt32Array::from(order))
}

/// The first rows behind a position in a total order, with their positions as another column.
pub(crate) fn page(keys: &[SortKey], rows: &Rows, call: &Call<'_>, first: usize) -> Result<Rows> {
    let columns = keys.iter().map(|key| key.expr.value(rows, call)).collect::<Result<Vec<_>>>()?;
    let mut positions = Vec::with_capacity(rows.len);
    for row in 0..rows.len {
        let mut position = Vec::new();
        for (key, column) in keys.iter().zip(&columns) {
            let order = KeyOrder { descending: key.options.descending, nulls_first: key.options.nulls_first };
            keys::encode(Datum::of(column, row)?, order, &mut position);
        }
        positions.push(position);
    }
    let behind = |at: &u32| call.place.as_ref().is_none_or(|place| positions[*at as usize] > place.position);
    let mut order: Vec<u32> = (0..rows.len as u32).filter(behind).collect();
    order.sort_by(|a, b| positions[*a as usize].cmp(&positions[*b as usize]));
    order.truncate(first);
    let kept: BinaryArray = order.iter().map(|at| Some(&positions[*at as usize])).collect();
    let mut rows = rows.take(&UInt32Array::from(order))?;
    rows.columns.push(Arc::new(kept));
    Ok(rows)
}
