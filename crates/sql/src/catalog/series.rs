//! `generate_series` and `range` as tables: the list that the function of that name gives, unnested; of many numbers, a source
//! that makes them as they are asked for.

use datafusion::common::{DFSchema, Result, ScalarValue, UnnestOptions, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use std::sync::Arc;
use whimbrel_plan::{Series, Stream};

/// More numbers are not put into a list: a planner would carry it around.
const LISTED: u64 = 8192;

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
    if let Some(numbers) = numbers(&name, &args)?.filter(|numbers| numbers.count() > LISTED) {
        return Ok(Stream::scan(&name, Arc::new(numbers))?.plan().clone());
    }
    let list = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args));
    let unnested = UnnestOptions::new().with_preserve_nulls(false);
    let list = LogicalPlanBuilder::empty(true).project([list.alias(&name)])?;
    list.unnest_columns_with_options(vec![name.into()], unnested)?.build()
}

/// The numbers that are asked for, if they are numbers, and known by now.
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
    // A step of 0 is what the function of that name says something about.
    match step {
        0 => Ok(None),
        step => Series::new(name, first, last, step, name == "generate_series").map(Some),
    }
}
