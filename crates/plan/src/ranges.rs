//! Rows that lie in shards by the value of a column.
//!
//! What was written in order of a column can be read so. Two datasets that are cut at the same values lie
//! together: a join on these columns, or an aggregate by one of them, moves nothing.

use datafusion::common::{Result, plan_err};
use std::fmt;
use std::sync::Arc;

/// Which shard has which values of a column of integers without nulls.
///
/// ```
/// use whimbrel_plan::Ranges;
///
/// # fn main() -> datafusion::common::Result<()> {
/// let ranges = Ranges::try_new("k", vec![-5, 3])?;
/// assert_eq!(ranges.shards(), 3);
/// assert_eq!(ranges.range(1), (Some(-5), Some(3)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranges {
    column: String,
    bounds: Arc<[i64]>,
}

impl Ranges {
    /// Each shard but the first begins at one of these bounds, which ascend, and ends before the next.
    ///
    /// # Errors
    /// `Plan` if the bounds do not ascend.
    pub fn try_new(column: impl Into<String>, bounds: impl Into<Arc<[i64]>>) -> Result<Ranges> {
        let (column, bounds) = (column.into(), bounds.into());
        if !bounds.is_sorted_by(|a, b| a < b) {
            return plan_err!("the bounds of ranges have to ascend; those of {column:?} are {bounds:?}");
        }
        Ok(Ranges { column, bounds })
    }

    /// The column.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// Where each shard but the first begins.
    pub fn bounds(&self) -> &Arc<[i64]> {
        &self.bounds
    }

    /// In how many shards the rows are.
    pub fn shards(&self) -> usize {
        self.bounds.len() + 1
    }

    /// The same bounds for another column.
    pub fn of(&self, column: impl Into<String>) -> Ranges {
        Ranges { column: column.into(), bounds: Arc::clone(&self.bounds) }
    }

    /// The first value of a shard, and the first of the next; the outer shards are open.
    pub fn range(&self, shard: usize) -> (Option<i64>, Option<i64>) {
        let from = shard.checked_sub(1).and_then(|i| self.bounds.get(i)).copied();
        (from, self.bounds.get(shard).copied())
    }
}

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by ranges of {}", self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_one_range() {
        let ranges = Ranges::try_new("k", vec![-5, 3]).unwrap();
        assert_eq!(
            (0..ranges.shards()).map(|shard| ranges.range(shard)).collect::<Vec<_>>(),
            [(None, Some(-5)), (Some(-5), Some(3)), (Some(3), None)]
        );
        assert_eq!(Ranges::try_new("k", vec![]).unwrap().range(0), (None, None));
        let error = Ranges::try_new("k", vec![3, 3]).unwrap_err().to_string();
        assert!(error.contains("ascend") && error.contains("\"k\""), "{error}");
    }
}
