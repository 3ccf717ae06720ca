//! Plans: the builder of whimbrel-plan, method by method. What is checked is checked there.

use datafusion::logical_expr::{Expr, GroupingSet, SortExpr};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyDeltaAccess, PyDict, PyString};
use whimbrel_plan::{
    Agg, AggFunction, Call as AggregateCall, Duration, Groups, JoinHow, JoinKind, Scope, Stream,
};
use whimbrel_temporal::{Closed, DurationRule, Lifetimes, StartRule};

use crate::aggregate::NativeAggregate;
use crate::counts::Count;
use crate::error::{OrRaise, Raised, invalid};
use crate::expr::{NativeExpr, exprs};
use crate::program::NativeProgram;
use crate::table::NativeSchema;
use crate::{types, values};

/// A sharded stream: a plan and what is known of it.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Plan")]
pub struct NativePlan {
    /// The builder.
    pub stream: Stream,
}

/// A length of time as Python gives it.
pub struct Length(pub Duration);

impl<'py> FromPyObject<'_, 'py> for Length {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Length> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Length(Duration::Text(text.to_string())));
        }
        if let Ok(delta) = object.cast::<PyDelta>() {
            let seconds = i128::from(delta.get_days()) * 86_400 + i128::from(delta.get_seconds());
            let micros = seconds * 1_000_000 + i128::from(delta.get_microseconds());
            // pandas has timedeltas that are finer.
            let nanos: i128 = object.getattr("nanoseconds").and_then(|n| n.extract()).unwrap_or_default();
            return Ok(Length(Duration::Nanos(micros * 1_000 + nanos)));
        }
        if let Some(nanos) = numpy_duration(&object)? {
            return Ok(Length(Duration::Nanos(nanos.into())));
        }
        if let Some(whole) = whole(&object)? {
            return Ok(Length(Duration::Ticks(whole)));
        }
        Err(invalid(format!(
            "{} is no duration; write \"5m\" or a timedelta, or on a logical clock an integer",
            values::show(&object)
        )))
    }
}

/// The nanoseconds of a `timedelta64`.
fn numpy_duration(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if object.get_type().name()? != "timedelta64" {
        return Ok(None);
    }
    let exact = |unit: &str| object.call_method1("astype", (unit,));
    // What is longer than nanoseconds can count comes back as another length.
    let nanos = exact("timedelta64[ns]").and_then(|nanos| {
        let same = nanos.eq(object)?;
        let count: i64 = nanos.call_method1("astype", ("int64",))?.extract()?;
        Ok(same.then_some(count))
    });
    match nanos {
        Ok(Some(count)) => Ok(Some(count)),
        _ => Err(invalid(format!("{} is no duration of so many nanoseconds", values::show(object)))),
    }
}

/// A whole number, of Python or of a library such as NumPy; a truth value is none.
fn whole(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let truth = object.is_instance_of::<PyBool>() || object.get_type().name()?.to_cow()?.starts_with("bool");
    if truth || !object.hasattr("__index__")? {
        return Ok(None);
    }
    match object.extract() {
        Ok(whole) => Ok(Some(whole)),
        Err(_) => Err(invalid(format!("{} is too large a number for a duration", values::show(object)))),
    }
}

/// An aggregate: its name, its function (by name, or a user's), of what, over which rows.
type Call<'py> = (String, Bound<'py, PyAny>, Option<NativeExpr>, Option<NativeExpr>);

type Keys = Vec<(NativeExpr, NativeExpr)>;

fn pairs(keys: Keys) -> Vec<(Expr, Expr)> {
    keys.into_iter().map(|(left, right)| (left.expr(), right.expr())).collect()
}

fn closed(side: &str) -> PyResult<Closed> {
    match side {
        "left" => Ok(Closed::Left),
        "right" => Ok(Closed::Right),
        other => Err(invalid(format!("closed is \"left\" or \"right\", not \"{other}\""))),
    }
}

fn scope(scope: &str) -> PyResult<Scope> {
    match scope {
        "global" => Ok(Scope::Global),
        "local" => Ok(Scope::Local),
        other => Err(invalid(format!("scope is \"global\" or \"local\", not \"{other}\""))),
    }
}

fn join_kind(how: &str) -> PyResult<JoinKind> {
    use JoinKind::{Anti, Cross, Full, Inner, Left, Mark, Semi};
    const KINDS: [JoinKind; 7] = [Inner, Left, Full, Cross, Semi, Anti, Mark];
    KINDS.into_iter().find(|kind| kind.name() == how).ok_or_else(|| {
        invalid(format!("how is one of {}, not \"{how}\"", KINDS.map(JoinKind::name).join(", ")))
    })
}

fn aggregate_function(given: &Bound<'_, PyAny>) -> PyResult<AggFunction> {
    const FUNCTIONS: [AggFunction; 8] = [
        AggFunction::Count,
        AggFunction::Sum,
        AggFunction::Average,
        AggFunction::Min,
        AggFunction::Max,
        AggFunction::First,
        AggFunction::Last,
        AggFunction::CountDistinct,
    ];
    if let Ok(user) = given.cast::<NativeAggregate>() {
        return Ok(AggFunction::User(user.get().function.clone()));
    }
    let name: String = given.extract()?;
    FUNCTIONS
        .into_iter()
        .find(|function| function.name() == name)
        .ok_or_else(|| invalid(format!("there is no aggregate \"{name}\"")))
}

/// One aggregate: a call as it is, or a function of an argument.
fn call(
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

fn grouping(kind: &str, sets: Vec<Vec<NativeExpr>>) -> GroupingSet {
    let mut sets: Vec<Vec<Expr>> = sets.into_iter().map(exprs).collect();
    match kind {
        "rollup" => GroupingSet::Rollup(sets.swap_remove(0)),
        "cube" => GroupingSet::Cube(sets.swap_remove(0)),
        _ => GroupingSet::GroupingSets(sets),
    }
}

impl NativePlan {
    fn wrap(stream: datafusion::error::Result<Stream>) -> PyResult<NativePlan> {
        Ok(NativePlan { stream: stream.or_raise()? })
    }

    fn ticks(&self, length: &Length, what: &str) -> PyResult<i64> {
        match &self.stream.properties().time {
            Some(time) => length.0.ticks(time, what).or_raise(),
            None => {
                Err(invalid(format!("{what} needs a stream with time: name its time column, time=\"…\"")))
            }
        }
    }

    fn start_rule(&self, kind: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<StartRule<Expr>> {
        match (kind, value) {
            ("keep", _) => Ok(StartRule::Keep),
            ("shift", Some(by)) => Ok(StartRule::Shift(self.ticks(&by.extract()?, "alter_lifetime: start")?)),
            ("by", Some(expr)) => Ok(StartRule::By(expr.extract::<NativeExpr>()?.expr())),
            (other, _) => Err(invalid(format!("there is no start rule \"{other}\""))),
        }
    }

    fn duration_rule(&self, kind: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<DurationRule<Expr>> {
        match (kind, value) {
            ("keep", _) => Ok(DurationRule::Keep),
            ("infinite", _) => Ok(DurationRule::Infinite),
            ("constant", Some(length)) => {
                Ok(DurationRule::Constant(self.ticks(&length.extract()?, "alter_lifetime: duration")?))
            }
            ("by_start", Some(expr)) => Ok(DurationRule::ByStart(expr.extract::<NativeExpr>()?.expr())),
            ("by_lifetime", Some(expr)) => Ok(DurationRule::ByLifetime(expr.extract::<NativeExpr>()?.expr())),
            (other, _) => Err(invalid(format!("there is no duration rule \"{other}\""))),
        }
    }
}

#[pymethods]
impl NativePlan {
    /// A plan is a value that nothing changes.
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(invalid(
            "a plan cannot be pickled: it holds sources and functions of this process. Send the function that builds it, \
             or the text of stream.to_python(), and build it there; or send its rows, stream.to_arrow()",
        ))
    }

    fn schema(&self) -> NativeSchema {
        NativeSchema(self.stream.schema().clone())
    }

    fn properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (known, dict) = (self.stream.properties(), PyDict::new(py));
        dict.set_item("time", known.time.as_ref().map(types::name))?;
        dict.set_item("key", &known.key)?;
        dict.set_item("bounded", known.bounded)?;
        dict.set_item("shards", known.shards)?;
        dict.set_item("groups", known.groups)?;
        Ok(dict)
    }

    fn explain(&self) -> PyResult<String> {
        self.stream.explain().or_raise()
    }

    fn to_python(&self) -> PyResult<NativeProgram> {
        Ok(NativeProgram { program: self.stream.to_python().or_raise()? })
    }

    fn where_(&self, predicate: NativeExpr) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.where_(predicate.expr()))
    }

    fn select(&self, columns: Vec<NativeExpr>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.select(exprs(columns)))
    }

    fn with_columns(&self, columns: Vec<NativeExpr>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.with_columns(exprs(columns)))
    }

    fn drop(&self, columns: Vec<String>) -> PyResult<NativePlan> {
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        NativePlan::wrap(self.stream.drop(&columns))
    }

    fn select_many(&self, list: NativeExpr, name: &str, nulls: bool) -> PyResult<NativePlan> {
        NativePlan::wrap(match nulls {
            true => self.stream.select_many_or_null(list.expr(), name),
            false => self.stream.select_many(list.expr(), name),
        })
    }

    fn with_start(&self, name: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.with_start(name))
    }

    /// `None`: for ever.
    fn alter_duration(&self, duration: Option<Length>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.alter_duration(duration.map(|d| d.0)))
    }

    fn alter_lifetime(
        &self,
        start: (String, Option<Bound<'_, PyAny>>),
        duration: (String, Option<Bound<'_, PyAny>>),
    ) -> PyResult<NativePlan> {
        let start = self.start_rule(&start.0, start.1.as_ref())?;
        let duration = self.duration_rule(&duration.0, duration.1.as_ref())?;
        NativePlan::wrap(self.stream.alter_lifetime(start, duration))
    }

    fn shift(&self, by: Length) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.shift(by.0))
    }

    fn tumbling(&self, size: Length, offset: Length, side: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.tumbling(size.0, offset.0, closed(side)?))
    }

    fn hopping(&self, size: Length, hop: Length, offset: Length, side: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.hopping(size.0, hop.0, offset.0, closed(side)?))
    }

    fn sliding(&self, size: Length, side: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.sliding(size.0, closed(side)?))
    }

    #[pyo3(signature = (timeout, max_duration))]
    fn session(&self, timeout: Length, max_duration: Option<Length>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.session(timeout.0, max_duration.map(|d| d.0)))
    }

    fn chop(&self, period: Length, offset: Length) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.chop(period.0, offset.0))
    }

    fn clip_constant(&self, limit: Length) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.clip_constant(limit.0))
    }

    fn clip(&self, other: &NativePlan, on: Keys) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.clip(&other.stream, pairs(on)))
    }

    fn point_at_end(&self) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.point_at_end())
    }

    /// `sets`: rollup, cube or sets, and the columns of each set.
    #[pyo3(signature = (aggregates, sets = None))]
    fn aggregate(
        &self,
        aggregates: Vec<Call<'_>>,
        sets: Option<(String, Vec<Vec<NativeExpr>>)>,
    ) -> PyResult<NativePlan> {
        let calls = aggregates
            .into_iter()
            .map(|(name, function, argument, filter)| Ok((name, call(&function, argument, filter)?)));
        let groups = sets.map_or(Groups::Key, |(kind, sets)| Groups::Sets(grouping(&kind, sets)));
        NativePlan::wrap(self.stream.aggregate_by(groups, calls.collect::<PyResult<_>>()?))
    }

    fn with_windows(&self, calls: Vec<(String, NativeExpr)>) -> PyResult<NativePlan> {
        let calls = calls.into_iter().map(|(name, call)| (name, call.expr()));
        NativePlan::wrap(self.stream.with_windows(calls.collect()))
    }

    fn group_apply(&self, key: Vec<NativeExpr>, query: &Bound<'_, PyAny>) -> PyResult<NativePlan> {
        let apply = |group: Stream| -> PyResult<Stream> {
            let result = query.call1((NativePlan { stream: group },))?;
            Ok(result.cast::<NativePlan>()?.get().stream.clone())
        };
        NativePlan::wrap(self.stream.group_apply(exprs(key), |group| apply(group).map_err(Raised::pass)))
    }

    fn union(&self, other: &NativePlan) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.union(&other.stream))
    }

    fn changes(&self) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.changes())
    }

    /// Whether rows that are handed out over a live source stay.
    fn final_at_once(&self) -> bool {
        let known = self.stream.properties();
        known.bounded || known.time.is_some() || known.lifetimes == Lifetimes::StartEdges
    }

    fn distinct(&self) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.distinct())
    }

    #[pyo3(signature = (other, on, how, suffix, filter, nulls_equal, null_aware, colocated))]
    #[expect(clippy::too_many_arguments, reason = "the settings of one call, each with a name in Python")]
    fn join(
        &self,
        other: &NativePlan,
        on: Keys,
        how: &str,
        suffix: String,
        filter: Option<NativeExpr>,
        nulls_equal: bool,
        null_aware: bool,
        colocated: bool,
    ) -> PyResult<NativePlan> {
        let filter = filter.map(|f| f.expr());
        let how = JoinHow { kind: join_kind(how)?, suffix, filter, nulls_equal, null_aware, colocated };
        NativePlan::wrap(self.stream.join_as(&other.stream, pairs(on), &how))
    }

    fn where_exists(&self, other: &NativePlan, on: Keys) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.where_exists(&other.stream, pairs(on)))
    }

    fn where_not_exists(&self, other: &NativePlan, on: Keys) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.where_not_exists(&other.stream, pairs(on)))
    }

    /// Each column with whether it ascends and whether nulls come first.
    fn sort(&self, by: Vec<(NativeExpr, bool, bool)>) -> PyResult<NativePlan> {
        let by = by
            .into_iter()
            .map(|(column, ascending, nulls_first)| SortExpr::new(column.expr(), ascending, nulls_first));
        NativePlan::wrap(self.stream.sort(by.collect()))
    }

    #[pyo3(signature = (skip, fetch))]
    fn limit(&self, skip: Count, fetch: Option<Count>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.limit(skip.0, fetch.map(|count| count.0)))
    }

    fn recursive(&self, name: &str, step: &Bound<'_, PyAny>, distinct: bool) -> PyResult<NativePlan> {
        let step = |rows: Stream| -> PyResult<Stream> {
            let result = step.call1((NativePlan { stream: rows },))?;
            Ok(result.cast::<NativePlan>()?.get().stream.clone())
        };
        NativePlan::wrap(self.stream.recursive(name, distinct, |rows| step(rows).map_err(Raised::pass)))
    }

    fn rekey(&self, key: Vec<NativeExpr>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.rekey(exprs(key)))
    }

    fn colocated(&self, key: Vec<NativeExpr>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.colocated(exprs(key)))
    }

    fn redistribute(&self, shards: Count, among: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.redistribute(Some(shards.0), scope(among)?))
    }

    fn reshard(&self, shards: Count, among: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.reshard(Some(shards.0), scope(among)?))
    }

    fn broadcast(&self, shards: Count, among: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.broadcast(Some(shards.0), scope(among)?))
    }

    fn multicast(&self, to: NativeExpr, shards: Count, among: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.multicast(to.expr(), Some(shards.0), scope(among)?))
    }
}
