//! The columns by which a stream is [partitioned](crate::nodes::Partitioning), followed through a plan.
//!
//! Invariant: what is computed while each partition has a clock of its own is computed for each partition by
//! itself, so every step keeps these columns and has them in its key. A step that would put rows of several
//! partitions together is refused.

use datafusion::common::{DFSchema, Result, plan_err};

/// Where the columns come out of a step; `place` tells that of one column.
pub(crate) fn through(
    columns: &[usize],
    input: &DFSchema,
    step: &str,
    place: impl Fn(usize) -> Option<usize>,
) -> Result<Vec<usize>> {
    match columns.iter().map(|column| place(*column)).collect() {
        Some(places) => Ok(places),
        None => refuse(columns, input, step),
    }
}

/// Checks that the key of a step has the columns.
pub(crate) fn check_key(columns: &[usize], key: &[usize], input: &DFSchema, step: &str) -> Result<()> {
    match columns.iter().all(|column| key.contains(column)) {
        true => Ok(()),
        false => refuse(columns, input, step),
    }
}

/// Checks that a step of two inputs pairs rows of the same partition only; `equal` are the columns that it
/// makes equal.
pub(crate) fn check_pairs(
    left: (&[usize], &DFSchema),
    right: (&[usize], &DFSchema),
    equal: &[(usize, usize)],
    step: &str,
) -> Result<()> {
    let pairs = || left.0.iter().copied().zip(right.0.iter().copied());
    match (left.0.is_empty(), right.0.is_empty()) {
        (true, true) => Ok(()),
        (false, false) if left.0.len() == right.0.len() && pairs().all(|pair| equal.contains(&pair)) => {
            Ok(())
        }
        (true, false) => refuse(right.0, right.1, step),
        _ => refuse(left.0, left.1, step),
    }
}

fn refuse<T>(columns: &[usize], input: &DFSchema, step: &str) -> Result<T> {
    let names: Vec<&str> = columns.iter().map(|column| input.field(*column).name().as_str()).collect();
    let names = names.join(", ");
    plan_err!(
        "{step}: the stream has a clock for each {names}, and rows of several would meet here; keep {names} and \
         have it in the key, or put them in one order first: merge_partitions()"
    )
}
