//! `generate_series` and `range` as tables: the list that the function of that name gives, unnested.

use datafusion::common::{Result, UnnestOptions, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use std::sync::Arc;

/// The numbers or instants from a first to a last, one a row in a column that is called after the function; the last belongs to `generate_series` and not to
/// `range`. There are none up to null.
pub(crate) fn series(state: &SessionState, name: &str, args: Vec<Expr>) -> Result<LogicalPlan> {
    let name = name.to_ascii_lowercase();
    let Some(function) = state.scalar_functions().get(&name) else {
        return plan_err!("there is no function {name:?}");
    };
    if args.is_empty() || args.len() > 3 {
        return plan_err!("{name} takes a last value, or a first and a last one, and a step");
    }
    let list = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args));
    let unnested = UnnestOptions::new().with_preserve_nulls(false);
    let list = LogicalPlanBuilder::empty(true).project([list.alias(&name)])?;
    list.unnest_columns_with_options(vec![name.into()], unnested)?.build()
}
