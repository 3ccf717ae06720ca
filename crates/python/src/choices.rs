//! The choices of the builder by the names and shapes that Python gives them.

use datafusion::logical_expr::{Expr, GroupingSet};
use pyo3::prelude::*;
use std::num::NonZeroUsize;
use whimbrel_plan::{Agg, AggFunction, Call as AggregateCall, Duration, JoinKind, Scope};
use whimbrel_temporal::Closed;
use whimbrel_temporal::operators::{Fraction, SessionCap};

use crate::aggregate::NativeAggregate;
use crate::error::{OrRaise, invalid};
use crate::expr::{NativeExpr, exprs};

/// An aggregate: its name, its function (a name, or a user's function), its argument, its filter.
pub type Call<'py> = (String, Bound<'py, PyAny>, Option<NativeExpr>, Option<NativeExpr>);

/// The columns of a join, each of the left with one of the right.
pub type Keys = Vec<(NativeExpr, NativeExpr)>;

/// The pairs of columns as expressions.
pub fn pairs(keys: Keys) -> Vec<(Expr, Expr)> {
    keys.into_iter().map(|(left, right)| (left.expr(), right.expr())).collect()
}

/// The side on which a window is closed.
pub fn closed(side: &str) -> PyResult<Closed> {
    match side {
        "left" => Ok(Closed::Left),
        "right" => Ok(Closed::Right),
        other => Err(invalid(format!("closed is \"left\" or \"right\", not \"{other}\""))),
    }
}

/// How the longest duration of a session counts.
pub fn session_cap(cap: &str) -> PyResult<fn(Duration) -> SessionCap<Duration>> {
    match cap {
        "first" => Ok(SessionCap::After),
        "grid" => Ok(SessionCap::OnGrid),
        other => Err(invalid(format!("cap is \"first\" or \"grid\", not \"{other}\""))),
    }
}

/// The shards among which rows move.
pub fn scope(scope: &str) -> PyResult<Scope> {
    match scope {
        "global" => Ok(Scope::Global),
        "local" => Ok(Scope::Local),
        other => Err(invalid(format!("scope is \"global\" or \"local\", not \"{other}\""))),
    }
}

/// The kind of a join, by its name.
pub fn join_kind(how: &str) -> PyResult<JoinKind> {
    use JoinKind::{Anti, Cross, Full, Inner, Left, Mark, Right, Semi};
    const KINDS: [JoinKind; 8] = [Inner, Left, Right, Full, Cross, Semi, Anti, Mark];
    KINDS.into_iter().find(|kind| kind.name() == how).ok_or_else(|| {
        invalid(format!("how is one of {}, not \"{how}\"", KINDS.map(JoinKind::name).join(", ")))
    })
}

/// An aggregate: one of the engine, by its name, or one of the user.
pub fn aggregate_function(given: &Bound<'_, PyAny>) -> PyResult<AggFunction> {
    const FUNCTIONS: [AggFunction; 19] = [
        AggFunction::Count,
        AggFunction::Sum,
        AggFunction::Average,
        AggFunction::Min,
        AggFunction::Max,
        AggFunction::First,
        AggFunction::Last,
        AggFunction::CountDistinct,
        AggFunction::Variance { population: false },
        AggFunction::Variance { population: true },
        AggFunction::StandardDeviation { population: false },
        AggFunction::StandardDeviation { population: true },
        AggFunction::SumOfSquares,
        AggFunction::AverageOfSquares,
        AggFunction::Product,
        AggFunction::MaxBy,
        AggFunction::MinBy,
        AggFunction::Collect,
        AggFunction::Single,
    ];
    if let Ok(user) = given.cast::<NativeAggregate>() {
        return Ok(AggFunction::User(user.get().function.clone()));
    }
    if let Ok((name, fraction)) = given.extract::<(String, f64)>() {
        let fraction = Fraction::new(fraction).or_raise()?;
        return Ok(AggFunction::Percentile { fraction, continuous: name == "percentile_cont" });
    }
    if let Ok((_, k, ties, descending)) = given.extract::<(String, NonZeroUsize, bool, bool)>() {
        return Ok(AggFunction::TopK { k, ties, descending });
    }
    let name: String = given.extract()?;
    FUNCTIONS
        .into_iter()
        .find(|function| function.name() == name)
        .ok_or_else(|| invalid(format!("there is no aggregate \"{name}\"")))
}

/// One aggregate: a complete call, or a function and its argument.
pub fn call(
    function: &Bound<'_, PyAny>,
    argument: Option<NativeExpr>,
    filter: Option<NativeExpr>,
) -> PyResult<AggregateCall> {
    if let Ok(expr) = function.extract::<NativeExpr>()
        && let Expr::AggregateFunction(call) = expr.expr()
    {
        return Ok(AggregateCall::Relational(Box::new(call)));
    }
    let function = aggregate_function(function)?;
    Ok(Agg { function, argument: argument.map(|e| e.expr()), filter: filter.map(|e| e.expr()) }.into())
}

/// The sets of grouping columns of an aggregate.
pub fn grouping(kind: &str, sets: Vec<Vec<NativeExpr>>) -> GroupingSet {
    let mut sets: Vec<Vec<Expr>> = sets.into_iter().map(exprs).collect();
    match kind {
        "rollup" => GroupingSet::Rollup(sets.swap_remove(0)),
        "cube" => GroupingSet::Cube(sets.swap_remove(0)),
        _ => GroupingSet::GroupingSets(sets),
    }
}
