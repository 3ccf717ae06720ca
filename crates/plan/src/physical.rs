//! From logical to physical expressions, the one way it is done everywhere.
//!
//! The result reads columns by position: it fits any batch whose columns stand in the order of the schema.

use crate::coalesce::avoid_duplicates;
use crate::constants;
use datafusion::common::{DFSchema, Result};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use std::sync::{Arc, LazyLock};

/// DataFusion's defaults: the rewrites that some of its functions need before they can run.
static STATE: LazyLock<SessionState> =
    LazyLock::new(|| SessionStateBuilder::new().with_default_features().build());

/// A logical expression over a schema, type-coerced, simplified, and made executable.
///
/// # Errors
/// `Plan` if the expression names a column that the schema has not, or its types do not fit together.
pub fn physical(expr: &Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    let simplifier = simplifier(schema);
    let expr = simplifier.coerce(expr.clone(), schema)?;
    let expr = avoid_duplicates(expr)?.data;
    STATE.create_physical_expr(constants::simplify(expr, simplifier)?, schema)
}

/// DataFusion's simplifier over a schema, with the present as `now()`.
pub(crate) fn simplifier(schema: &DFSchema) -> ExprSimplifier {
    let context =
        SimplifyContext::builder().with_schema(Arc::new(schema.clone())).with_current_time().build();
    ExprSimplifier::new(context)
}
