//! The length that a list is to have: `list_size(n)` is `n`, if that is not negative.

use super::Mapped;
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    vec![Mapped::exact("list_size", vec![DataType::Int64], |_| Ok(DataType::Int64), checked)]
}

/// The lengths, if none is negative.
fn checked(lengths: &[ArrayRef]) -> Result<ArrayRef> {
    match lengths[0].as_primitive::<Int64Type>().iter().flatten().find(|length| *length < 0) {
        Some(length) => exec_err!("array_resize: a list cannot have {length} values; give a length from 0"),
        None => Ok(Arc::clone(&lengths[0])),
    }
}
