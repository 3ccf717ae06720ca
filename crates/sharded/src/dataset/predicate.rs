//! Predicates that are pushed down to sources.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use std::sync::Arc;

/// Conditions over the columns that a reader gives, which are combined by `and`.
#[derive(Debug, Clone, Default)]
pub struct Predicate {
    /// Rows that fail one of these must not come out.
    pub required: Vec<Arc<dyn PhysicalExpr>>,
    /// Rows that fail one of these may come out: the join that sent them drops such rows. Hints are dynamic
    /// filters; they have values only once the first row is read.
    pub hints: Vec<Arc<dyn PhysicalExpr>>,
}

impl Predicate {
    /// Whether it has no conditions.
    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.hints.is_empty()
    }

    /// The predicate over other columns.
    ///
    /// # Errors
    /// `Internal` if a column has no place.
    pub(crate) fn map_columns(&self, place: impl Fn(usize) -> Option<Column>) -> Result<Predicate> {
        let map = |conditions: &[Arc<dyn PhysicalExpr>]| {
            conditions.iter().map(|condition| map_columns(condition, &place)).collect::<Result<_>>()
        };
        Ok(Predicate { required: map(&self.required)?, hints: map(&self.hints)? })
    }
}

/// The expression over other columns: `place` maps their numbers.
///
/// # Errors
/// `Internal` if a column has no place.
pub(crate) fn map_columns(
    expr: &Arc<dyn PhysicalExpr>,
    place: impl Fn(usize) -> Option<Column>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let map = |expr: Arc<dyn PhysicalExpr>| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        match place(column.index()) {
            Some(column) => Ok(Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>)),
            None => internal_err!("a predicate has a column `{column}` that is not read"),
        }
    };
    Arc::clone(expr).transform_up(map).data()
}
