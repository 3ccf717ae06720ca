//! Interval joins of streams of points, and `exists` and `not exists` with times.
//!
//! A row of a stream that was read with a time is a point in time, and a temporal join pairs rows that are
//! alive together. SQL means something else by
//! `a join b on a.k = b.k and b.time between a.time and a.time + interval '10' minute`: pairs whose times are
//! that far apart. Such joins are lowered to temporal joins of rows with longer lifetimes:
//!
//! - *pairs*: with `lo ≤ b.time - a.time ≤ hi`, a row of `a` lives `max(hi, 0)` longer and one of `b`
//!   `max(-lo, 0)`. Then the two are alive together, first at the later of their times: there the pair is a
//!   point. The condition stays.
//! - *semi and anti joins*: a row of `a` waits until its last possible partner has come, `max(hi, 0)` after
//!   it, and is joined then; a row of `b` lives while a row of `a` that it may match is joined. So a row
//!   without a partner is output when it is certain that none comes.
//!
//! Invariant: both bounds are known, so that state is bounded. A join without them is refused: it would pair
//! rows of one instant, which nobody means.
//!
//! ```sql
//! -- A pair lives as a point at b.time: a lives ten minutes longer, b as long as before.
//! select * from a join b on a.k = b.k and b.time between a.time and a.time + interval '10' minute;
//! -- A row of a without b is output ten minutes later.
//! select * from a where not exists (
//!     select 1 from b where a.k = b.k and b.time between a.time and a.time + interval '10' minute
//! );
//! ```

use crate::functions::INTERVAL_LENGTH;
use crate::tree::{any_plan, transform_up};
use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, JoinType, Result, ScalarValue, plan_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Projection, lit,
};
use std::sync::Arc;
use whimbrel_plan::nodes::{AlterLifetime, Node, extension, node};
use whimbrel_plan::{Duration, properties};
use whimbrel_temporal::{DurationRule, StartRule};

/// Lowers the interval joins of a plan to joins of lifetimes.
///
/// # Errors
/// `Plan` if the join of two streams sets no bounds on their times.
pub(crate) fn lower_interval_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_up(plan, &mut |plan| match &plan {
        LogicalPlan::Join(join) => match IntervalJoin::of(join)? {
            Some(interval) => Ok(Transformed::yes(interval.lower(join)?)),
            None => Ok(Transformed::no(plan)),
        },
        _ => Ok(Transformed::no(plan)),
    })
}

/// The index of the column with the time of a plan's rows, if they are points.
pub(crate) fn time_column(plan: &LogicalPlan) -> Option<usize> {
    match plan {
        LogicalPlan::Filter(filter) => time_column(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => time_column(&alias.input),
        LogicalPlan::Projection(projection) => {
            let place = time_column(&projection.input)?;
            let passes = |expr: &Expr| {
                let value = expr.clone().unalias();
                let column = value.try_as_col()?;
                projection.input.schema().maybe_index_of_column(column)
            };
            projection.expr.iter().position(|expr| passes(expr) == Some(place))
        }
        _ => match node(plan)? {
            Node::Ingress(ingress) if ingress.time.end.is_none() => {
                plan.schema().index_of_column_by_name(None, &ingress.time.start)
            }
            Node::ReKey(rekey) => time_column(&rekey.input),
            Node::Require(of) => time_column(&of.input),
            Node::Exchange(exchange) => time_column(&exchange.input),
            Node::AlterLifetime(points) => time_column_of_pairs(points),
            _ => None,
        },
    }
}

/// The index of the time of pairs, where it is known which side is the later one.
fn time_column_of_pairs(points: &AlterLifetime) -> Option<usize> {
    let LogicalPlan::Join(join) = &*points.input else { return None };
    let times = Times::of(join)?;
    let (lo, hi) = times.bounds(join).ok()?;
    match (lo?, hi?) {
        (lo, _) if lo >= 0 => Some(times.right + join.left.schema().fields().len()),
        (_, hi) if hi <= 0 => Some(times.left),
        _ => None,
    }
}

/// The indexes of the time columns of a join's sides.
pub(crate) struct Times {
    /// The time column of the left side.
    pub left: usize,
    /// The time column of the right side.
    pub right: usize,
}

/// A sum `l · left + r · right + ticks` of the times of both sides.
type Sum = (i64, i64, i128);

impl Times {
    /// The times of a join, before or after its sides got longer lifetimes.
    fn of(join: &Join) -> Option<Times> {
        let side = |plan: &LogicalPlan| match plan {
            LogicalPlan::Extension(_) if lowered_side(plan).is_some() => time_column(lowered_side(plan)?),
            plan => time_column(plan),
        };
        Some(Times { left: side(&join.left)?, right: side(&join.right)? })
    }

    /// The lower and the upper bound of the right time minus the left time.
    ///
    /// # Errors
    /// `Plan` if a duration is not a whole number of ticks.
    pub fn bounds(&self, join: &Join) -> Result<(Option<i64>, Option<i64>)> {
        let (mut lo, mut hi) = (None::<i64>, None::<i64>);
        let mut narrow = |low: Option<i64>, high: Option<i64>| {
            lo = lo.max(low);
            hi = match (hi, high) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        };
        for (left, right) in &join.on {
            if let Some(apart) = self.difference(join, right, left) {
                narrow(Some(-apart.1), Some(-apart.1));
            }
        }
        for term in join.filter.iter().flat_map(split_conjunction) {
            let (low, high) = self.bound(join, term);
            narrow(low, high);
        }
        Ok((lo, hi))
    }

    /// The bounds that one condition sets.
    fn bound(&self, join: &Join, term: &Expr) -> (Option<i64>, Option<i64>) {
        match term {
            Expr::Between(between) if !between.negated => {
                let low = self.compared(join, &between.expr, Operator::GtEq, &between.low);
                let high = self.compared(join, &between.expr, Operator::LtEq, &between.high);
                let greater = [low.0, high.0].into_iter().flatten().max();
                (greater, [low.1, high.1].into_iter().flatten().min())
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => self.compared(join, left, *op, right),
            _ => (None, None),
        }
    }

    /// The bounds that a comparison sets.
    fn compared(&self, join: &Join, left: &Expr, op: Operator, right: &Expr) -> (Option<i64>, Option<i64>) {
        let Some((sign, ticks)) = self.difference(join, left, right) else { return (None, None) };
        // `sign · (right - left) + ticks op 0`: a negative sign swaps the bounds.
        let op = if sign > 0 { Some(op) } else { op.swap() };
        let limit = -sign * ticks;
        match op {
            Some(Operator::Eq) => (Some(limit), Some(limit)),
            Some(Operator::LtEq) => (None, Some(limit)),
            Some(Operator::Lt) => (None, Some(limit - 1)),
            Some(Operator::GtEq) => (Some(limit), None),
            Some(Operator::Gt) => (Some(limit + 1), None),
            _ => (None, None),
        }
    }

    /// `a - b` as a sign and ticks: `sign · (right - left) + ticks`.
    fn difference(&self, join: &Join, a: &Expr, b: &Expr) -> Option<(i64, i64)> {
        let (a, b) = (self.sum(join, a)?, self.sum(join, b)?);
        let ticks = i64::try_from(a.2 - b.2).ok()?;
        match (a.0 - b.0, a.1 - b.1) {
            (-1, 1) => Some((1, ticks)),
            (1, -1) => Some((-1, ticks)),
            _ => None,
        }
    }

    /// An expression as a sum of the times of both sides and ticks.
    fn sum(&self, join: &Join, expr: &Expr) -> Option<Sum> {
        match expr {
            Expr::Alias(alias) => self.sum(join, &alias.expr),
            Expr::Cast(cast) if keeps_ticks(join, cast) => self.sum(join, &cast.expr),
            Expr::Column(column) => {
                match (
                    join.left.schema().maybe_index_of_column(column),
                    join.right.schema().maybe_index_of_column(column),
                ) {
                    (Some(place), None) if place == self.left => Some((1, 0, 0)),
                    (None, Some(place)) if place == self.right => Some((0, 1, 0)),
                    _ => None,
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (a, b) = (self.sum(join, left)?, self.sum(join, right)?);
                match op {
                    Operator::Plus => Some((a.0 + b.0, a.1 + b.1, a.2 + b.2)),
                    Operator::Minus => Some((a.0 - b.0, a.1 - b.1, a.2 - b.2)),
                    _ => None,
                }
            }
            // Intervals are compared by their lengths.
            Expr::ScalarFunction(call) if call.name() == INTERVAL_LENGTH => match call.args.as_slice() {
                [interval] => self.sum(join, interval),
                _ => None,
            },
            Expr::Literal(value, _) => {
                let time = properties(&join.left).ok()?.time?;
                let length = match value {
                    ScalarValue::Decimal128(Some(nanos), _, 0) => Duration::Nanos(*nanos),
                    value => literal_duration(value)?,
                };
                Some((0, 0, length.ticks(&time, "join").ok()?.into()))
            }
            _ => None,
        }
    }
}

/// Whether a cast keeps all ticks of a timestamp or an interval.
fn keeps_ticks(join: &Join, cast: &Cast) -> bool {
    let of_side = |side: &LogicalPlan| cast.expr.get_type(side.schema()).ok();
    match (of_side(&join.left).or_else(|| of_side(&join.right)), cast.field.data_type()) {
        (_, DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Duration(TimeUnit::Nanosecond)) => true,
        (_, DataType::Interval(IntervalUnit::MonthDayNano)) => true,
        (Some(DataType::Timestamp(from, _)), DataType::Timestamp(to, _)) => from <= *to,
        _ => false,
    }
}

/// The duration of a literal interval.
pub(crate) fn literal_duration(value: &ScalarValue) -> Option<Duration> {
    /// A day in nanoseconds.
    const DAY: i128 = 86_400_000_000_000;
    Some(match value {
        ScalarValue::IntervalMonthDayNano(Some(i)) if i.months == 0 => {
            Duration::Nanos(i128::from(i.days) * DAY + i128::from(i.nanoseconds))
        }
        ScalarValue::IntervalDayTime(Some(i)) => {
            Duration::Nanos(i128::from(i.days) * DAY + i128::from(i.milliseconds) * 1_000_000)
        }
        ScalarValue::DurationSecond(Some(n)) => Duration::Nanos(i128::from(*n) * 1_000_000_000),
        ScalarValue::DurationMillisecond(Some(n)) => Duration::Nanos(i128::from(*n) * 1_000_000),
        ScalarValue::DurationMicrosecond(Some(n)) => Duration::Nanos(i128::from(*n) * 1_000),
        ScalarValue::DurationNanosecond(Some(n)) => Duration::Nanos((*n).into()),
        ScalarValue::Int64(Some(ticks)) => Duration::Ticks(*ticks),
        _ => return None,
    })
}

/// The rows of a side that got longer lifetimes here.
fn lowered_side(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    match node(plan)? {
        Node::AlterLifetime(alter) if alter.label.starts_with(LABEL) => Some(&alter.input),
        _ => None,
    }
}

/// The name of the time of a plan's rows, if they are points of a source or of an interval join.
fn time_name(plan: &LogicalPlan) -> Option<String> {
    match plan {
        LogicalPlan::Filter(filter) => time_name(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => time_name(&alias.input),
        LogicalPlan::Projection(projection) => time_name(&projection.input),
        _ => match node(plan)? {
            Node::Ingress(ingress) => ingress.time.end.is_none().then(|| ingress.time.start.clone()),
            Node::ReKey(rekey) => time_name(&rekey.input),
            Node::Require(of) => time_name(&of.input),
            Node::Exchange(exchange) => time_name(&exchange.input),
            Node::AlterLifetime(points) => {
                let place = time_column_of_pairs(points)?;
                Some(points.input.schema().field(place).name().clone())
            }
            _ => None,
        },
    }
}

/// Refuses a join one side of which is an interval join without a time column.
fn check_time_columns(join: &Join) -> Result<Option<IntervalJoin>> {
    let has_no_time = |plan: &LogicalPlan| {
        time_name(plan).is_none() && any_plan(plan, &mut |below| lowered_side(below).is_some())
    };
    match has_no_time(&join.left) || has_no_time(&join.right) {
        false => Ok(None),
        true => plan_err!(
            "one side of this join is itself a join over times whose rows have no one time: join in another order, so \
             that each join looks at what comes after the one before it, or aggregate windows of it first"
        ),
    }
}

/// How the lifetimes of the sides are labelled.
const LABEL: &str = "alive for a join";

/// A join whose times are between `lo` and `hi` ticks apart.
struct IntervalJoin {
    /// The time columns.
    times: Times,
    /// The least difference of the right and the left time.
    lo: i64,
    /// The greatest difference of the right and the left time.
    hi: i64,
}

impl IntervalJoin {
    /// `None` if the join is not one of points, or only of points at the same time.
    fn of(join: &Join) -> Result<Option<IntervalJoin>> {
        let timed = |plan: &LogicalPlan| Ok::<_, DataFusionError>(properties(plan)?.time.is_some());
        if !timed(&join.left)? || !timed(&join.right)? {
            return Ok(None);
        }
        let (Some(left), Some(right)) = (time_name(&join.left), time_name(&join.right)) else {
            return check_time_columns(join);
        };
        let bounds = Times::of(join).map(|times| Ok::<_, DataFusionError>((times.bounds(join)?, times)));
        match bounds.transpose()? {
            Some(((Some(0), Some(0)), _)) => Ok(None),
            Some(((Some(lo), Some(hi)), times)) => Ok(Some(IntervalJoin { times, lo, hi })),
            _ => plan_err!(
                "a join of two streams of events has to say how far apart their times may be, both ways, as in and \
                 b.{right} between a.{left} and a.{left} + interval '10' minute; for events at the same instant, and \
                 b.{right} = a.{left}"
            ),
        }
    }

    /// The join of rows with longer lifetimes.
    fn lower(&self, join: &Join) -> Result<LogicalPlan> {
        match join.join_type {
            JoinType::Inner => self.pairs(join),
            JoinType::Left => self.outer(join, &[JoinType::LeftAnti]),
            JoinType::Right => self.outer(join, &[JoinType::RightAnti]),
            JoinType::Full => self.outer(join, &[JoinType::LeftAnti, JoinType::RightAnti]),
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::RightSemi | JoinType::RightAnti => {
                self.semi_or_anti(join, join.join_type)
            }
            JoinType::LeftMark | JoinType::RightMark => plan_err!(
                "exists over streams of events stands by itself, or after and: put what is under or into queries of \
                 their own, with union all"
            ),
        }
    }

    /// The pairs, each a point at the later of its two times.
    fn pairs(&self, join: &Join) -> Result<LogicalPlan> {
        let left = with_lifetimes(&join.left, StartRule::Keep, self.hi.max(0).saturating_add(1))?;
        let right =
            with_lifetimes(&join.right, StartRule::Keep, self.lo.min(0).saturating_neg().saturating_add(1))?;
        let pairs = with_sides(join, JoinType::Inner, left, right, join.filter.clone())?;
        with_lifetimes(&pairs, StartRule::Keep, 1)
    }

    /// The rows of a side with a partner, or without: output when the last possible partner has come.
    fn semi_or_anti(&self, join: &Join, kind: JoinType) -> Result<LogicalPlan> {
        let left = matches!(kind, JoinType::LeftSemi | JoinType::LeftAnti);
        // Seen from the side whose rows are output.
        let (lo, hi) = if left { (self.lo, self.hi) } else { (-self.hi, -self.lo) };
        let wait = hi.max(0);
        let waiting = |plan: &LogicalPlan| with_lifetimes(plan, StartRule::Shift(wait), 1);
        let partner = |plan: &LogicalPlan| {
            with_lifetimes(plan, StartRule::Shift(wait - hi), (hi - lo).max(0).saturating_add(1))
        };
        let (l, r) = match left {
            true => (waiting(&join.left)?, partner(&join.right)?),
            false => (partner(&join.left)?, waiting(&join.right)?),
        };
        // The lifetimes imply the conditions on times, unless no time satisfies them.
        let stays = |term: &&Expr| lo > hi || self.times.bound(join, term) == (None, None);
        let rest = join.filter.iter().flat_map(split_conjunction).filter(stays).cloned();
        with_sides(join, kind, l, r, conjunction(rest))
    }

    /// The pairs, and the rows of outer sides that have no partner, padded with nulls.
    fn outer(&self, join: &Join, anti_joins: &[JoinType]) -> Result<LogicalPlan> {
        let fields: Vec<_> = join.schema.iter().collect();
        let name = |place: usize| format!("c{place}");
        let mut all: Option<LogicalPlanBuilder> = None;
        let parts = [JoinType::Inner].iter().chain(anti_joins);
        for kind in parts {
            let part = match kind {
                JoinType::Inner => self.pairs(join)?,
                kind => self.semi_or_anti(join, *kind)?,
            };
            let value = |(place, (qualifier, field)): (usize, &(Option<&_>, &Arc<_>))| {
                let column = datafusion::common::Column::from((*qualifier, *field));
                let field: &datafusion::arrow::datatypes::Field = field;
                let value = match part.schema().has_column(&column) {
                    true => Expr::Column(column),
                    false => lit(ScalarValue::try_from(field.data_type())?),
                };
                Ok(value.alias(name(place)))
            };
            let values = fields.iter().enumerate().map(value).collect::<Result<Vec<_>>>()?;
            let rows = LogicalPlan::Projection(Projection::try_new(values, Arc::new(part))?);
            all = Some(match all {
                None => LogicalPlanBuilder::from(rows),
                Some(all) => all.union(rows)?,
            });
        }
        let Some(all) = all else { return plan_err!("a join has pairs") };
        let named = fields.iter().enumerate().map(|(place, (qualifier, field))| {
            datafusion::logical_expr::ident(name(place)).alias_qualified(qualifier.cloned(), field.name())
        });
        all.project(named.collect::<Vec<_>>())?.build()
    }
}

/// The join with these sides.
fn with_sides(
    join: &Join,
    kind: JoinType,
    left: LogicalPlan,
    right: LogicalPlan,
    filter: Option<Expr>,
) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Join(Join::try_new(
        Arc::new(left),
        Arc::new(right),
        join.on.clone(),
        filter,
        kind,
        join.join_constraint,
        join.null_equality,
        join.null_aware && kind == JoinType::LeftAnti,
    )?))
}

/// The rows with lifetimes of so many ticks.
fn with_lifetimes(plan: &LogicalPlan, start: StartRule<Expr>, ticks: i64) -> Result<LogicalPlan> {
    let label = match &start {
        StartRule::Shift(by) if *by != 0 => format!("{LABEL}, {by} later for {ticks}"),
        _ => format!("{LABEL} for {ticks}"),
    };
    let start = if let StartRule::Shift(0) = start { StartRule::Keep } else { start };
    Ok(extension(AlterLifetime::try_new(plan.clone(), start, DurationRule::Constant(ticks), label)?))
}
