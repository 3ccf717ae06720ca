//! The methods of a plan: the builder of whimbrel-plan, method by method.
//!
//! A method converts its arguments, calls the builder, and wraps the result. What is checked is checked in
//! the builder; here only names are resolved (`how="left"`, `closed="right"`), because the builder has enums
//! for them.
//!
//! A lambda of Python that builds a part of the plan is called with a plan and returns one. What it raises
//! passes through the builder as it is.

use datafusion::logical_expr::{Expr, SortExpr};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Arc;
use whimbrel_plan::nodes::Fill;
use whimbrel_plan::{Groups, JoinHow, Stream, column, stage_shards, with_stage_shards};
use whimbrel_temporal::{DurationRule, Lifetimes, StartRule};

use crate::arguments::{Count, Length};
use crate::choices::{Call, Keys, call, closed, grouping, join_kind, pairs, scope, session_cap};
use crate::error::{OrRaise, PythonError, invalid};
use crate::expr::{NativeExpr, exprs};
use crate::pattern::{self, NativePattern, Register};
use crate::plan::NativePlan;
use crate::process::NativeOperator;
use crate::program::NativeProgram;
use crate::references::PythonReferences;
use crate::shutdown::detach;
use crate::table::NativeSchema;
use crate::types;

impl NativePlan {
    /// A duration in ticks of the time column.
    fn ticks(&self, length: &Length, what: &str) -> PyResult<i64> {
        match &self.stream.properties().time {
            Some(time) => length.0.ticks(time, what).or_raise(),
            None => {
                Err(invalid(format!("{what} needs a stream with time: name its time column, time=\"…\"")))
            }
        }
    }

    /// The rule for starts, by its name.
    fn start_rule(&self, kind: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<StartRule<Expr>> {
        match (kind, value) {
            ("keep", _) => Ok(StartRule::Keep),
            ("shift", Some(by)) => Ok(StartRule::Shift(self.ticks(&by.extract()?, "alter_lifetime: start")?)),
            ("by", Some(expr)) => Ok(StartRule::By(expr.extract::<NativeExpr>()?.expr())),
            (other, _) => Err(invalid(format!("there is no start rule \"{other}\""))),
        }
    }

    /// The rule for durations, by its name.
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
    /// A plan is immutable: a copy is the same plan.
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// A plan is pickled as its bytes.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        // Whoever unpickles runs code of whoever pickled in any case.
        Ok((slf.get_type().getattr("unpickle")?, (slf.get().to_bytes(slf.py(), true)?,)))
    }

    /// The columns of the stream.
    fn schema(&self) -> NativeSchema {
        NativeSchema(self.stream.schema().clone())
    }

    /// The properties that Python shows: time, key, bounded, shards, groups, sorted.
    fn properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (properties, dict) = (self.stream.properties(), PyDict::new(py));
        dict.set_item("time", properties.time.as_ref().map(types::name))?;
        dict.set_item("key", &properties.key)?;
        dict.set_item("bounded", properties.bounded)?;
        dict.set_item("shards", properties.shards)?;
        dict.set_item("groups", properties.groups)?;
        dict.set_item("sorted", &properties.sorted)?;
        Ok(dict)
    }

    /// The plan as text.
    fn explain(&self) -> PyResult<String> {
        self.stream.explain().or_raise()
    }

    /// The stages of the plan, that of the result first: how many shards each has, whether there may be any
    /// number of them, and whether it reads a source.
    fn stage_shards(&self) -> PyResult<Vec<(usize, bool, bool)>> {
        let stages = stage_shards(self.stream.plan()).or_raise()?;
        Ok(stages.into_iter().map(|stage| (stage.shards, stage.is_free, stage.reads_source)).collect())
    }

    /// The plan with so many shards in its stages, where there may be any number.
    fn with_stage_shards(&self, shards: Vec<usize>) -> PyResult<NativePlan> {
        NativePlan::wrap(with_stage_shards(self.stream.plan(), &shards).and_then(Stream::from_plan))
    }

    /// The plan as bytes, which any process reads; functions of Python are pickled or refused.
    #[pyo3(signature = (pickle = false))]
    fn to_bytes<'py>(&self, py: Python<'py>, pickle: bool) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = detach(py, || self.stream.to_bytes(&PythonReferences::shared(pickle))).or_raise()?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The plan of bytes that were pickled.
    #[staticmethod]
    fn unpickle(py: Python<'_>, bytes: &[u8]) -> PyResult<NativePlan> {
        NativePlan::from_bytes(py, bytes, true)
    }

    /// The plan of bytes; functions of Python are unpickled or refused.
    #[staticmethod]
    #[pyo3(signature = (bytes, pickle = false))]
    fn from_bytes(py: Python<'_>, bytes: &[u8], pickle: bool) -> PyResult<NativePlan> {
        NativePlan::wrap(detach(py, || Stream::from_bytes(bytes, &PythonReferences::shared(pickle))))
    }

    /// The plan as a program that builds it.
    fn to_python(&self) -> PyResult<NativeProgram> {
        Ok(NativeProgram { program: self.stream.to_python().or_raise()? })
    }

    /// Rows for which a predicate is true.
    fn where_(&self, predicate: NativeExpr) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.where_(predicate.expr()))
    }

    /// Computes columns.
    fn select(&self, columns: Vec<NativeExpr>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.select(exprs(columns)))
    }

    /// Adds or replaces columns.
    fn with_columns(&self, columns: Vec<NativeExpr>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.with_columns(exprs(columns)))
    }

    /// Removes columns.
    fn drop(&self, columns: Vec<String>) -> PyResult<NativePlan> {
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        NativePlan::wrap(self.stream.drop(&columns))
    }

    /// A row for each item of a list.
    fn select_many(&self, list: NativeExpr, name: &str, nulls: bool) -> PyResult<NativePlan> {
        NativePlan::wrap(match nulls {
            true => self.stream.select_many_or_null(list.expr(), name),
            false => self.stream.select_many(list.expr(), name),
        })
    }

    /// Adds the start of the lifetime as a column.
    fn with_start(&self, name: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.with_start(name))
    }

    /// Without a duration, lifetimes have no end.
    fn alter_duration(&self, duration: Option<Length>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.alter_duration(duration.map(|d| d.0)))
    }

    /// Changes starts and durations of lifetimes by rules.
    fn alter_lifetime(
        &self,
        start: (String, Option<Bound<'_, PyAny>>),
        duration: (String, Option<Bound<'_, PyAny>>),
    ) -> PyResult<NativePlan> {
        let start = self.start_rule(&start.0, start.1.as_ref())?;
        let duration = self.duration_rule(&duration.0, duration.1.as_ref())?;
        NativePlan::wrap(self.stream.alter_lifetime(start, duration))
    }

    /// Moves lifetimes.
    fn shift(&self, by: Length) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.shift(by.0))
    }

    /// Windows of a size, one after the other.
    fn tumbling(&self, size: Length, offset: Length, side: &str, zone: Option<&str>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.tumbling_in(size.0, offset.0, closed(side)?, zone))
    }

    /// Windows of a size, one each hop.
    fn hopping(
        &self,
        size: Length,
        hop: Length,
        offset: Length,
        side: &str,
        zone: Option<&str>,
    ) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.hopping_in(size.0, hop.0, offset.0, closed(side)?, zone))
    }

    /// A window before each change.
    fn sliding(&self, size: Length, side: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.sliding(size.0, closed(side)?))
    }

    /// Windows that end when no row comes for a while.
    #[pyo3(signature = (timeout, max_duration, cap, start))]
    fn session(
        &self,
        timeout: Length,
        max_duration: Option<Length>,
        cap: &str,
        start: Option<&str>,
    ) -> PyResult<NativePlan> {
        let cap = session_cap(cap)?;
        let cap = max_duration.map(|most| cap(most.0));
        NativePlan::wrap(match start {
            Some(start) => self.stream.session_windows(timeout.0, cap, start),
            None => self.stream.session(timeout.0, cap),
        })
    }

    /// Cuts lifetimes at the multiples of a period.
    fn chop(&self, period: Length, offset: Length, zone: Option<&str>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.chop_in(period.0, offset.0, zone))
    }

    /// Limits the length of lifetimes.
    fn clip_constant(&self, limit: Length) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.clip_constant(limit.0))
    }

    /// Ends lifetimes when a row of another stream with the same key comes.
    fn clip(&self, other: &NativePlan, on: Keys) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.clip(&other.stream, pairs(on)))
    }

    /// Moves the ends of lifetimes.
    fn extend(&self, by: Length) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.extend(by.0))
    }

    /// Requires that lifetimes are so long.
    fn require_duration(&self, duration: Option<Length>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.require_duration(duration.map(|d| d.0)))
    }

    /// Requires that rows come in the order of these columns.
    fn require_sorted(&self, columns: Vec<String>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.require_sorted(columns.iter().map(column).collect()))
    }

    /// Requires that no two rows start together.
    fn require_distinct_starts(&self) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.require_distinct_starts())
    }

    /// Puts touching lifetimes of equal rows together.
    fn stitch(&self) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.stitch())
    }

    /// Snaps lifetimes to a grid.
    fn quantize(
        &self,
        size: Length,
        period: Length,
        progress: Option<Length>,
        offset: Length,
    ) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.quantize(size.0, period.0, progress.map(|p| p.0), offset.0))
    }

    /// Detects sequences of events.
    fn detect(
        &self,
        pattern: NativePattern,
        register: Register,
        max_duration: Length,
        overlap: bool,
        simultaneous: &str,
    ) -> PyResult<NativePlan> {
        let (overlap, simultaneous) = pattern::detection(overlap, simultaneous)?;
        let register = pattern::constants(&register)?;
        NativePlan::wrap(self.stream.detect(&pattern.0, register, max_duration.0, overlap, simultaneous))
    }

    /// Runs an operator of the user's own over batches.
    fn process(&self, operator: &Bound<'_, NativeOperator>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.process(Arc::clone(&operator.get().operator)))
    }

    /// Hopping windows whose rows live from grid instant to grid instant.
    fn hopping_snapped(&self, size: Length, hop: Length, offset: Length, side: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.hopping_snapped(size.0, hop.0, offset.0, closed(side)?))
    }

    /// Fills the gaps of keys; columns that are not named get nulls there.
    fn fill_gaps(
        &self,
        period: Length,
        offset: Length,
        max_gap: Option<Length>,
        constants: Vec<(String, NativeExpr)>,
        previous: Vec<String>,
        linear: Vec<String>,
    ) -> PyResult<NativePlan> {
        let constants = pattern::constants(&constants)?.into_iter();
        let mut fills: Vec<(String, Fill)> =
            constants.map(|(name, value)| (name, Fill::Constant(value))).collect();
        fills.extend(previous.into_iter().map(|name| (name, Fill::Previous)));
        fills.extend(linear.into_iter().map(|name| (name, Fill::Linear)));
        NativePlan::wrap(self.stream.fill_gaps(period.0, offset.0, max_gap.map(|gap| gap.0), fills))
    }

    /// Pairs events with those that follow them.
    fn followed_by(
        &self,
        other: &NativePlan,
        on: Keys,
        within: Option<Length>,
        suffix: &str,
    ) -> PyResult<NativePlan> {
        let within = within.map(|within| within.0);
        NativePlan::wrap(self.stream.followed_by(&other.stream, pairs(on), within, suffix))
    }

    /// Makes each lifetime a point at its end.
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

    /// Adds columns of window functions.
    fn with_windows(&self, calls: Vec<(String, NativeExpr)>) -> PyResult<NativePlan> {
        let calls = calls.into_iter().map(|(name, call)| (name, call.expr()));
        NativePlan::wrap(self.stream.with_windows(calls.collect()))
    }

    /// Applies a query to each group.
    fn group_apply(&self, key: Vec<NativeExpr>, query: &Bound<'_, PyAny>) -> PyResult<NativePlan> {
        let apply = |group: Stream| -> PyResult<Stream> {
            let result = query.call1((NativePlan { stream: group },))?;
            Ok(result.cast::<NativePlan>()?.get().stream.clone())
        };
        NativePlan::wrap(self.stream.group_apply(exprs(key), |group| apply(group).map_err(PythonError::pass)))
    }

    /// The rows of both streams.
    fn union(&self, other: &NativePlan) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.union(&other.stream))
    }

    /// Drops late rows of a live relation, and forgets old ones.
    fn allow_lateness(&self, time: &str, lateness: Length, retention: Length) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.allow_lateness(time, lateness.0, retention.0))
    }

    /// The changes of the result, as rows.
    fn changes(&self) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.changes())
    }

    /// Whether rows that come out of a live source are never changed later.
    fn final_at_once(&self) -> bool {
        let properties = self.stream.properties();
        properties.bounded || properties.time.is_some() || properties.lifetimes == Lifetimes::StartEdges
    }

    /// Rows without duplicates.
    fn distinct(&self) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.distinct())
    }

    /// Joins two streams.
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

    /// Rows that have a partner in another stream.
    fn where_exists(&self, other: &NativePlan, on: Keys) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.where_exists(&other.stream, pairs(on)))
    }

    /// Rows that have no partner in another stream.
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

    /// Some of the first rows.
    #[pyo3(signature = (skip, fetch))]
    fn limit(&self, skip: Count, fetch: Option<Count>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.limit(skip.0, fetch.map(|count| count.0)))
    }

    /// Repeats a step on its own result until there are no new rows.
    fn recursive(&self, name: &str, step: &Bound<'_, PyAny>, distinct: bool) -> PyResult<NativePlan> {
        let step = |rows: Stream| -> PyResult<Stream> {
            let result = step.call1((NativePlan { stream: rows },))?;
            Ok(result.cast::<NativePlan>()?.get().stream.clone())
        };
        NativePlan::wrap(self.stream.recursive(name, distinct, |rows| step(rows).map_err(PythonError::pass)))
    }

    /// Changes the key.
    fn rekey(&self, key: Vec<NativeExpr>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.rekey(exprs(key)))
    }

    /// Requires that rows with equal keys are in the same shard.
    fn colocated(&self, key: Vec<NativeExpr>) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.colocated(exprs(key)))
    }

    /// Moves rows to the shard of their key.
    fn redistribute(&self, shards: Count, among: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.redistribute(Some(shards.0), scope(among)?))
    }

    /// Spreads rows evenly over shards.
    fn reshard(&self, shards: Count, among: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.reshard(Some(shards.0), scope(among)?))
    }

    /// Deals out runs of rows that are equal in these columns.
    fn reshard_runs(&self, key: Vec<String>, shards: Count) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.reshard_runs(key.iter().map(column).collect(), Some(shards.0)))
    }

    /// Puts the rows of all partitions in one order.
    fn merge_partitions(&self) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.merge_partitions())
    }

    /// Copies all rows to every shard.
    fn broadcast(&self, shards: Count, among: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.broadcast(Some(shards.0), scope(among)?))
    }

    /// Moves the rows of an exchange to a virtual cluster.
    fn at(&self, location: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.at(location))
    }

    /// Copies rows to the shards of a list.
    fn multicast(&self, to: NativeExpr, shards: Count, among: &str) -> PyResult<NativePlan> {
        NativePlan::wrap(self.stream.multicast(to.expr(), Some(shards.0), scope(among)?))
    }
}
