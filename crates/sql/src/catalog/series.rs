//! `generate_series` and `range` as tables: the list of the function of that name, unnested; for many numbers
//! a source that generates them.

use datafusion::common::{DFSchema, Result, ScalarValue, UnnestOptions, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use std::sync::Arc;
use whimbrel_plan::{Series, Stream};

/// More numbers come from a source: a list of them would be part of the plan.
const MAX_LISTED: u64 = 8192;

/// The numbers or timestamps from a first to a last, in a column with the name of the function. The last is
/// part of `generate_series` and not of `range`. A bound that is null gives none.
///
/// # Errors
/// `Plan` for other numbers of arguments.
pub(crate) fn series(state: &SessionState, name: &str, args: Vec<Expr>) -> Result<LogicalPlan> {
    let name = name.to_ascii_lowercase();
    let Some(function) = state.scalar_functions().get(&name) else {
        return plan_err!("there is no function {name:?}");
    };
    if args.is_empty() || args.len() > 3 {
        return plan_err!("{name} takes a last value, or a first and a last one, and a step");
    }
    if let Some(numbers) = numbers(&name, &args)?.filter(|numbers| numbers.count() > MAX_LISTED) {
        return Ok(Stream::scan(&name, Arc::new(numbers))?.plan().clone());
    }
    let list = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args));
    let unnested = UnnestOptions::new().with_preserve_nulls(false);
    let list = LogicalPlanBuilder::empty(true).project([list.alias(&name)])?;
    list.unnest_columns_with_options(vec![name.into()], unnested)?.build()
}

/// The series, if its arguments are constant integers.
fn numbers(name: &str, args: &[Expr]) -> Result<Option<Series>> {
    let context = SimplifyContext::builder().with_schema(Arc::new(DFSchema::empty())).build();
    let simplifier = ExprSimplifier::new(context);
    let number = |arg: &Expr| match simplifier.simplify(arg.clone()) {
        Ok(Expr::Literal(ScalarValue::Int64(number), _)) => number,
        _ => None,
    };
    let Some(numbers) = args.iter().map(number).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let (first, last, step) = match numbers.as_slice() {
        [last] => (0, *last, 1),
        [first, last] => (*first, *last, 1),
        [first, last, step] => (*first, *last, *step),
        _ => return Ok(None),
    };
    // The function of that name refuses a step of 0.
    match step {
        0 => Ok(None),
        step => Series::new(name, first, last, step, name == "generate_series").map(Some),
    }
}
