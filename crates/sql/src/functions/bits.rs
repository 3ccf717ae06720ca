//! Whole numbers by their digits: `bin`, `bit_count`.

use super::Mapped;
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    let whole = || vec![DataType::Int64];
    vec![
        Mapped::exact(
            "bin",
            whole(),
            |_| Ok(DataType::Utf8),
            |numbers| {
                let digits = |n: i64| format!("{n:b}");
                let numbers = numbers[0].as_primitive::<Int64Type>().iter();
                Ok(Arc::new(numbers.map(|n| n.map(digits)).collect::<StringArray>()) as ArrayRef)
            },
        ),
        Mapped::exact(
            "bit_count",
            whole(),
            |_| Ok(DataType::Int64),
            |numbers| {
                let ones = |n: i64| i64::from(n.count_ones());
                Ok(Arc::new(numbers[0].as_primitive::<Int64Type>().unary::<_, Int64Type>(ones) as Int64Array)
                    as ArrayRef)
            },
        ),
    ]
}
