//! Physical expressions that are evaluated in place of one of DataFusion's: what is the same as for that,
//! written once.
//!
//! An [`Evaluate`] holds the original expression and says how it is evaluated; [`SubstituteExpr`] makes an
//! expression of it. To others it is what it was before: its only child, its name and its type are the
//! original's.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// How an expression is evaluated in place of DataFusion.
pub(crate) trait Evaluate: fmt::Debug + Send + Sync + Sized + 'static {
    /// The expression that is replaced.
    fn original(&self) -> &Arc<dyn PhysicalExpr>;

    /// Its type.
    fn data_type(&self) -> &DataType;

    /// Its values.
    ///
    /// # Errors
    /// Those of the original.
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue>;

    /// What takes the place of another form of the expression, whose columns may have moved; none: nothing.
    fn of(original: &Arc<dyn PhysicalExpr>) -> Option<Self>;
}

/// A way to [`Evaluate`], as an expression.
#[derive(Debug)]
pub(crate) struct SubstituteExpr<E>(pub E);

impl<E: Evaluate> PhysicalExpr for SubstituteExpr<E> {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.0.data_type().clone())
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.0.original().nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.0.original().return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.0.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![self.0.original()]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match (children.pop(), children.is_empty()) {
            (Some(only), true) => Ok(E::of(&only).map_or(only, |other| Arc::new(SubstituteExpr(other)))),
            _ => internal_err!("an expression that is replaced has one child"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.original().fmt_sql(f)
    }
}

impl<E: Evaluate> fmt::Display for SubstituteExpr<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.0.original(), f)
    }
}

impl<E: Evaluate> PartialEq for SubstituteExpr<E> {
    fn eq(&self, other: &Self) -> bool {
        self.0.original().eq(other.0.original())
    }
}

impl<E: Evaluate> Eq for SubstituteExpr<E> {}

impl<E: Evaluate> Hash for SubstituteExpr<E> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.original().hash(state);
    }
}
