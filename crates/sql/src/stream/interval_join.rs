//! Joins of streams of points whose times may lie apart: interval joins, and `exists` and `not exists` with times.
//!
//! A row of a stream that was read with a time is a point in time, and a join pairs rows that are alive together. SQL
//! means something else by `a join b on a.k = b.k and b.time between a.time and a.time + interval '10' minute`: pairs
//! whose times are so far apart. That is said in lifetimes here, before the plan is run:
//!
//! - *pairs*: with `lo ≤ b.time - a.time ≤ hi`, a row of `a` lives `max(hi, 0)` longer and one of `b` `max(-lo, 0)`. The
//!   two meet exactly then, and first at the later of their times: there the pair is a point. The condition stays.
//! - *partners*: a row of `a` waits until its last possible partner has come, `max(hi, 0)` after it, and is looked at
//!   then; a row of `b` lives while some row of `a` that it fits is looked at. So a row without a partner is told when
//!   it is certain that none comes.
//!
//! Invariant: both bounds are known, so that rows can be forgotten. A join that does not say them is refused: it would
//! find what happens at one instant, which nobody means.

use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, JoinType, Result, ScalarValue, plan_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Projection, lit,
};
use std::sync::Arc;
use whimbrel_plan::nodes::{AlterLifetime, Node, extension, node};
use whimbrel_plan::{Duration, properties};
use whimbrel_temporal::{DurationRule, StartRule};

/// The same plan, with what its joins say of times in the lifetimes of their rows.
pub(crate) fn lower_interval_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|plan| match &plan {
        LogicalPlan::Join(join) => match Apart::of(join)? {
            Some(apart) => Ok(Transformed::yes(apart.joined(join)?)),
            None => Ok(Transformed::no(plan)),
        },
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}

/// The place of the column that holds the time of a plan's rows, if they are points and one does.
pub(crate) fn instant(plan: &LogicalPlan) -> Option<usize> {
    match plan {
        LogicalPlan::Filter(filter) => instant(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => instant(&alias.input),
        LogicalPlan::Projection(projection) => {
            let place = instant(&projection.input)?;
            let passes = |expr: &Expr| {
                let plain = expr.clone().unalias();
                let column = plain.try_as_col()?;
                projection.input.schema().maybe_index_of_column(column)
            };
            projection.expr.iter().position(|expr| passes(expr) == Some(place))
        }
        _ => match node(plan)? {
            Node::Ingress(ingress) if ingress.time.end.is_none() => {
                plan.schema().index_of_column_by_name(None, &ingress.time.start)
            }
            Node::ReKey(rekey) => instant(&rekey.input),
            Node::Exchange(exchange) => instant(&exchange.input),
            Node::AlterLifetime(points) => pair(points),
            _ => None,
        },
    }
}

/// The time of pairs, where one side is never the earlier one.
fn pair(points: &AlterLifetime) -> Option<usize> {
    let LogicalPlan::Join(join) = &*points.input else { return None };
    let times = Times::of(join)?;
    let (lo, hi) = times.bounds(join).ok()?;
    match (lo?, hi?) {
        (lo, _) if lo >= 0 => Some(times.right + join.left.schema().fields().len()),
        (_, hi) if hi <= 0 => Some(times.left),
        _ => None,
    }
}

/// Where the two sides of a join have their times.
pub(crate) struct Times {
    pub left: usize,
    pub right: usize,
}

/// A sum of times of both sides and ticks: so often the left one, so often the right one, so many ticks.
type Sum = (i64, i64, i128);

impl Times {
    /// Those of a join below which times have not been dealt with.
    fn of(join: &Join) -> Option<Times> {
        let side = |plan: &LogicalPlan| match plan {
            // A side that was stretched has the column of the rows that it was made of.
            LogicalPlan::Extension(_) if stretched_side(plan).is_some() => instant(stretched_side(plan)?),
            plan => instant(plan),
        };
        Some(Times { left: side(&join.left)?, right: side(&join.right)? })
    }

    /// The least and the greatest of what the right time may be after the left one.
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

    /// What one condition says of how far the right time is after the left one.
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

    fn compared(&self, join: &Join, left: &Expr, op: Operator, right: &Expr) -> (Option<i64>, Option<i64>) {
        let Some((sign, ticks)) = self.difference(join, left, right) else { return (None, None) };
        // `sign · (right - left) + ticks op 0`, in which the greatest is the least if the sign is turned.
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

    /// `a - b` as the right time less the left one, or the reverse (a sign of -1), and ticks.
    fn difference(&self, join: &Join, a: &Expr, b: &Expr) -> Option<(i64, i64)> {
        let (a, b) = (self.sum(join, a)?, self.sum(join, b)?);
        let ticks = i64::try_from(a.2 - b.2).ok()?;
        match (a.0 - b.0, a.1 - b.1) {
            (-1, 1) => Some((1, ticks)),
            (1, -1) => Some((-1, ticks)),
            _ => None,
        }
    }

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
            Expr::Literal(value, _) => {
                let time = properties(&join.left).ok()?.time?;
                Some((0, 0, length(value)?.ticks(&time, "join").ok()?.into()))
            }
            _ => None,
        }
    }
}

/// Whether a cast loses nothing of an instant or a length.
fn keeps_ticks(join: &Join, cast: &Cast) -> bool {
    let of_side = |side: &LogicalPlan| cast.expr.get_type(side.schema()).ok();
    match (of_side(&join.left).or_else(|| of_side(&join.right)), cast.field.data_type()) {
        (_, DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Duration(TimeUnit::Nanosecond)) => true,
        (_, DataType::Interval(IntervalUnit::MonthDayNano)) => true,
        (Some(DataType::Timestamp(from, _)), DataType::Timestamp(to, _)) => from <= *to,
        _ => false,
    }
}

/// A length of time that stands in a query.
pub(crate) fn length(value: &ScalarValue) -> Option<Duration> {
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

/// The rows of a side that was stretched.
fn stretched_side(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    match node(plan)? {
        Node::AlterLifetime(alter) if alter.label.starts_with(LABEL) => Some(&alter.input),
        _ => None,
    }
}

/// What the time of a plan's rows is called, if they are points that come from a source or from an interval join.
fn events(plan: &LogicalPlan) -> Option<String> {
    match plan {
        LogicalPlan::Filter(filter) => events(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => events(&alias.input),
        LogicalPlan::Projection(projection) => events(&projection.input),
        _ => match node(plan)? {
            Node::Ingress(ingress) => ingress.time.end.is_none().then(|| ingress.time.start.clone()),
            Node::ReKey(rekey) => events(&rekey.input),
            Node::Exchange(exchange) => events(&exchange.input),
            Node::AlterLifetime(points) => {
                let place = pair(points)?;
                Some(points.input.schema().field(place).name().clone())
            }
            _ => None,
        },
    }
}

/// Refuses a join whose one side is a join over times, and has no column that says when its rows are.
fn after_another(join: &Join) -> Result<Option<Apart>> {
    let joined = |plan: &LogicalPlan| -> Result<bool> {
        Ok(events(plan).is_none() && plan.exists(|below| Ok(stretched_side(below).is_some()))?)
    };
    match joined(&join.left)? || joined(&join.right)? {
        false => Ok(None),
        true => plan_err!(
            "one side of this join is itself a join over times whose rows have no one time: join in another order, so \
             that each join looks at what comes after the one before it, or aggregate windows of it first"
        ),
    }
}

/// What the lifetimes of the sides are called.
const LABEL: &str = "alive for a join";

/// How far apart the times of a join's sides may be.
struct Apart {
    times: Times,
    lo: i64,
    hi: i64,
}

impl Apart {
    /// None: the join is not one of points in time, or of points at the same time.
    fn of(join: &Join) -> Result<Option<Apart>> {
        let timed = |plan: &LogicalPlan| Ok::<_, DataFusionError>(properties(plan)?.time.is_some());
        if !timed(&join.left)? || !timed(&join.right)? {
            return Ok(None);
        }
        let (Some(left), Some(right)) = (events(&join.left), events(&join.right)) else {
            return after_another(join);
        };
        let bounds = Times::of(join).map(|times| Ok::<_, DataFusionError>((times.bounds(join)?, times)));
        match bounds.transpose()? {
            Some(((Some(0), Some(0)), _)) => Ok(None),
            Some(((Some(lo), Some(hi)), times)) => Ok(Some(Apart { times, lo, hi })),
            _ => plan_err!(
                "a join of two streams of events has to say how far apart their times may be, both ways, as in and \
                 b.{right} between a.{left} and a.{left} + interval '10' minute; for events at the same instant, and \
                 b.{right} = a.{left}"
            ),
        }
    }

    fn joined(&self, join: &Join) -> Result<LogicalPlan> {
        match join.join_type {
            JoinType::Inner => self.pairs(join),
            JoinType::Left => self.outer(join, &[JoinType::LeftAnti]),
            JoinType::Right => self.outer(join, &[JoinType::RightAnti]),
            JoinType::Full => self.outer(join, &[JoinType::LeftAnti, JoinType::RightAnti]),
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::RightSemi | JoinType::RightAnti => {
                self.partners(join, join.join_type)
            }
            JoinType::LeftMark | JoinType::RightMark => plan_err!(
                "exists over streams of events stands by itself, or after and: put what is under or into queries of \
                 their own, with union all"
            ),
        }
    }

    /// The pairs, each a point at the later of its two times.
    fn pairs(&self, join: &Join) -> Result<LogicalPlan> {
        let left = lived(&join.left, StartRule::Keep, self.hi.max(0).saturating_add(1))?;
        let right = lived(&join.right, StartRule::Keep, self.lo.min(0).saturating_neg().saturating_add(1))?;
        let pairs = over(join, JoinType::Inner, left, right, join.filter.clone())?;
        lived(&pairs, StartRule::Keep, 1)
    }

    /// The rows of a side with a partner, or without: told when the last possible one has come.
    fn partners(&self, join: &Join, kind: JoinType) -> Result<LogicalPlan> {
        let left = matches!(kind, JoinType::LeftSemi | JoinType::LeftAnti);
        // Seen from the side whose rows are told.
        let (lo, hi) = if left { (self.lo, self.hi) } else { (-self.hi, -self.lo) };
        let wait = hi.max(0);
        let looked_at = |plan: &LogicalPlan| lived(plan, StartRule::Shift(wait), 1);
        let partner =
            |plan: &LogicalPlan| lived(plan, StartRule::Shift(wait - hi), (hi - lo).max(0).saturating_add(1));
        let (l, r) = match left {
            true => (looked_at(&join.left)?, partner(&join.right)?),
            false => (partner(&join.left)?, looked_at(&join.right)?),
        };
        // The lifetimes say what the conditions on times do, unless no time satisfies them.
        let says = |term: &&Expr| lo > hi || self.times.bound(join, term) == (None, None);
        let rest = join.filter.iter().flat_map(split_conjunction).filter(says).cloned();
        over(join, kind, l, r, conjunction(rest))
    }

    /// The pairs, and the rows of these sides that have no partner, padded with nulls.
    fn outer(&self, join: &Join, alone: &[JoinType]) -> Result<LogicalPlan> {
        let fields: Vec<_> = join.schema.iter().collect();
        let name = |place: usize| format!("c{place}");
        let mut all: Option<LogicalPlanBuilder> = None;
        let parts = [JoinType::Inner].iter().chain(alone);
        for kind in parts {
            let part = match kind {
                JoinType::Inner => self.pairs(join)?,
                kind => self.partners(join, *kind)?,
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

/// The join of these sides.
fn over(
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

/// The rows with other lifetimes, of so many ticks.
fn lived(plan: &LogicalPlan, start: StartRule<Expr>, ticks: i64) -> Result<LogicalPlan> {
    let label = match &start {
        StartRule::Shift(by) if *by != 0 => format!("{LABEL}, {by} later for {ticks}"),
        _ => format!("{LABEL} for {ticks}"),
    };
    let start = if let StartRule::Shift(0) = start { StartRule::Keep } else { start };
    Ok(extension(AlterLifetime::try_new(plan.clone(), start, DurationRule::Constant(ticks), label)?))
}
