//! `ranges`: the rows of one range of a value to the same consumer; the ranges of the consumers follow each
//! other in an order.
//!
//! Values are compared as bytes that are in that order, in the form in which a sort compares them: NaN is one
//! value, and so is zero.

use super::Partitioner;
use super::targets::send;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ExprSchemable, SortExpr};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;
use whimbrel_plan::{canonical_values, physical};
use whimbrel_temporal::Batch;

/// Sends rows to consumers by the range of a value.
pub(super) struct Ranges {
    value: Arc<dyn PhysicalExpr>,
    converter: RowConverter,
    /// Where each range but the first begins, as bytes.
    bounds: Vec<OwnedRow>,
    /// The consumer of each row of the current batch. The buffer is kept.
    targets: Vec<u32>,
}

impl Ranges {
    /// A partitioner by the ranges that begin at these values.
    ///
    /// # Errors
    /// `Plan` if the value cannot be evaluated over these columns or has no order, or the bounds are of
    /// another type or do not follow each other.
    pub fn new(by: &SortExpr, bounds: &[ScalarValue], schema: &DFSchema) -> Result<Ranges> {
        let options = SortOptions { descending: !by.asc, nulls_first: by.nulls_first };
        let kind = by.expr.get_type(schema)?;
        if let Some(other) = bounds.iter().find(|bound| bound.data_type() != kind || bound.is_null()) {
            return plan_err!("the bounds of ranges of {} are of type {kind}, and {other} is not", by.expr);
        }
        let converter = RowConverter::new(vec![SortField::new_with_options(kind, options)])?;
        let mut ranges =
            Ranges { value: physical(&by.expr, schema)?, converter, bounds: vec![], targets: vec![] };
        if !bounds.is_empty() {
            let rows = ranges.rows(&ScalarValue::iter_to_array(bounds.iter().cloned())?)?;
            ranges.bounds = rows.iter().map(|row| row.owned()).collect();
        }
        match ranges.bounds.is_sorted_by(|a, b| a < b) {
            true => Ok(ranges),
            false => plan_err!("the ranges of {} do not follow each other: {bounds:?}", by.expr),
        }
    }

    /// Values as bytes.
    fn rows(&self, values: &ArrayRef) -> Result<datafusion::arrow::row::Rows> {
        Ok(self.converter.convert_columns(&[canonical_values(values)])?)
    }
}

impl Partitioner for Ranges {
    fn partition(&mut self, batch: Batch, parts: &mut [Option<Batch>]) -> Result<()> {
        if self.bounds.len() >= parts.len() {
            return plan_err!("{} ranges for {} consumers", self.bounds.len() + 1, parts.len());
        }
        let rows = self.rows(&self.value.evaluate(&batch.rows)?.into_array(batch.len())?)?;
        let target = |row| self.bounds.partition_point(|bound| bound.row() <= row) as u32;
        self.targets.clear();
        self.targets.extend(rows.iter().map(target));
        send(&batch, &self.targets, parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Float64Array, RecordBatch};
    use datafusion::logical_expr::{Expr, col};
    use whimbrel_temporal::Other;

    /// The values that each of so many consumers gets, as text.
    fn sent(by: &SortExpr, bounds: &[f64], values: &[Option<f64>], consumers: usize) -> Vec<Vec<String>> {
        let column: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        let rows = RecordBatch::try_from_iter_with_nullable([("f", column, true)]).unwrap();
        let schema = DFSchema::try_from(rows.schema()).unwrap();
        let bounds: Vec<ScalarValue> = bounds.iter().map(|bound| ScalarValue::from(*bound)).collect();
        let mut ranges = Ranges::new(by, &bounds, &schema).unwrap();
        let mut parts = vec![None; consumers];
        let batch = Batch::new(vec![0; values.len()].into(), Other::Open, rows);
        ranges.partition(batch, &mut parts).unwrap();
        let values = |batch: Batch| {
            let column = Arc::clone(batch.rows.column(0));
            (0..batch.len()).map(move |row| ScalarValue::try_from_array(&column, row).unwrap().to_string())
        };
        parts.into_iter().map(|part| part.into_iter().flat_map(values).collect()).collect()
    }

    #[test]
    fn ranges_follow_the_order_of_a_sort() {
        let values = [Some(-0.0), None, Some(f64::NAN), Some(1.5), Some(-f64::NAN), Some(0.0), Some(-3.0)];
        let by: Expr = col("f");
        assert_eq!(
            sent(&by.clone().sort(true, false), &[0.0, 2.0], &values, 4),
            [vec!["-3"], vec!["-0", "1.5", "0"], vec!["NULL", "NaN", "NaN"], vec![]]
        );
        assert_eq!(
            sent(&by.sort(false, true), &[2.0, 0.0], &values, 3),
            [vec!["NULL", "NaN", "NaN"], vec!["1.5"], vec!["-0", "0", "-3"]]
        );
    }

    #[test]
    fn bounds_that_make_no_ranges_are_refused() {
        let schema = DFSchema::try_from(datafusion::arrow::datatypes::Schema::new(vec![
            datafusion::arrow::datatypes::Field::new(
                "n",
                datafusion::arrow::datatypes::DataType::Int64,
                true,
            ),
        ]))
        .unwrap();
        let by = col("n").sort(true, true);
        for bounds in [
            vec![ScalarValue::from(2_i64), ScalarValue::from(2_i64)],
            vec![ScalarValue::from(2_i32)],
            vec![ScalarValue::Int64(None)],
        ] {
            assert!(Ranges::new(&by, &bounds, &schema).is_err(), "{bounds:?}");
        }
        assert!(Ranges::new(&by, &[], &schema).is_ok());
    }
}
