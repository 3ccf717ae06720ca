//! What the rows of a source have to satisfy to be wanted.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use std::sync::Arc;

/// Conditions on the columns that a reader gives, all of which have to hold.
#[derive(Debug, Clone, Default)]
pub struct Predicate {
    /// A row that does not satisfy one of these must not come out.
    pub required: Vec<Arc<dyn PhysicalExpr>>,
    /// A row that does not satisfy one of these is of no use, but does no harm: what the build side of a join says of
    /// the probe side. Its values are known only once the first row is asked for.
    pub hints: Vec<Arc<dyn PhysicalExpr>>,
}

impl Predicate {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.hints.is_empty()
    }

    /// The same with every column put in the place of another.
    pub(crate) fn map_columns(&self, place: impl Fn(usize) -> Option<Column>) -> Result<Predicate> {
        let map = |terms: &[Arc<dyn PhysicalExpr>]| {
            terms.iter().map(|term| map_columns(term, &place)).collect::<Result<_>>()
        };
        Ok(Predicate { required: map(&self.required)?, hints: map(&self.hints)? })
    }
}

/// The expression with every column put in the place of another.
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
