//! Whether a query over streams with time says what it says over tables of their rows.
//!
//! An operator of a stream looks at what is alive at one instant. SQL speaks of all rows. The two agree where
//! a query keeps instants apart itself: it groups by the end of a window, or pairs rows of equal windows.
//! Here it is derived which columns of a plan tell the instants at which its rows are alive, and a step that
//! SQL means over rows of several instants is refused. A stream that ends can answer it all the same, as the
//! table of its rows.
//!
//! Invariant: rows with equal values in a column that tells the instant live equally long from there, and
//! rows with different ones never live together. Streams whose lifetimes are not made here, intervals and
//! fluent windows, are taken as changing relations, and every step of them has its meaning there.

use super::interval_join::{self, Times};
use super::windows;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, JoinType, Result, ScalarValue, plan_err};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, GroupingSet, Join, LogicalPlan, Operator,
    Projection, Union,
};
use std::collections::BTreeMap;
use whimbrel_plan::calendar::{Calendar, CalendarWindows, Grid};
use whimbrel_plan::nodes::{AlterLifetime, Node, node};
use whimbrel_plan::properties;
use whimbrel_temporal::{DurationRule, Lifetimes, StartRule};

/// When rows are alive.
#[derive(Debug, Clone)]
pub(crate) enum Alive {
    /// Those of a table: always.
    Always,
    /// From an instant on.
    From(Moments),
    /// As a stream says that was not made here.
    Unknown,
}

/// Instants from which rows are alive.
#[derive(Debug, Clone)]
pub(crate) struct Moments {
    /// The columns that tell the instant, and how far from it each of them is.
    columns: BTreeMap<usize, Distance>,
    /// How long the rows live; none: as long as rows of no other plan.
    length: Option<Length>,
    rows: Rows,
}

/// How far a value is from an instant.
#[derive(Debug, Clone, PartialEq)]
enum Distance {
    /// So many ticks after it.
    After(i64),
    /// At a beginning of windows of a calendar: so many steps from that of the window that holds what is so
    /// many ticks after it.
    Boundary(Calendar, i64, i64),
}

/// How long rows live.
#[derive(Debug, Clone, PartialEq)]
enum Length {
    /// So many ticks.
    Ticks(i64),
    /// From one beginning of windows of a calendar to the next.
    Window(Calendar),
}

/// What rows are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rows {
    /// Events as they came, or pairs of such; what their time is called.
    Events(String),
    /// Results: of a window from its end on, of an instant at it.
    Results,
    /// Events that are told later than at their time, which no column says.
    Late,
}

impl Length {
    /// From one beat to the next.
    fn between(beats: &Grid) -> Length {
        match beats {
            Grid::Ticks { hop, .. } => Length::Ticks(*hop),
            Grid::Calendar(calendar) => Length::Window(calendar.clone()),
        }
    }
}

impl Moments {
    /// Whether this column is the instant itself.
    pub fn are(&self, column: usize) -> bool {
        self.columns.get(&column) == Some(&Distance::After(0))
    }

    fn results(length: Length) -> Moments {
        Moments { columns: BTreeMap::new(), length: Some(length), rows: Rows::Results }
    }

    /// Events as they come, or pairs of them.
    fn points(columns: impl IntoIterator<Item = usize>, rows: Rows) -> Moments {
        let columns = columns.into_iter().map(|place| (place, Distance::After(0))).collect();
        Moments { columns, length: Some(Length::Ticks(1)), rows }
    }

    /// Whether rows live as long as those.
    fn as_long_as(&self, other: &Moments) -> bool {
        self.length.is_some() && self.length == other.length
    }

    /// The same instants of other rows.
    fn told(self) -> Moments {
        let rows = if self.rows == Rows::Late { Rows::Late } else { Rows::Results };
        Moments { rows, ..self }
    }

    /// Those of another plan, whose columns are found in other places.
    fn moved(&self, place: impl Fn(usize) -> Option<usize>) -> Moments {
        let columns =
            self.columns.iter().filter_map(|(column, after)| Some((place(*column)?, after.clone())));
        Moments { columns: columns.collect(), ..self.clone() }
    }
}

/// Refuses a plan that asks for rows of several instants at once.
pub(crate) fn check(plan: LogicalPlan) -> Result<LogicalPlan> {
    alive(&plan).map(|_| plan)
}

/// When the rows of a plan are alive.
pub(crate) fn alive(plan: &LogicalPlan) -> Result<Alive> {
    match plan {
        LogicalPlan::TableScan(_) | LogicalPlan::Values(_) | LogicalPlan::EmptyRelation(_) => {
            Ok(Alive::Always)
        }
        LogicalPlan::Filter(filter) => alive(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => alive(&alias.input),
        LogicalPlan::Projection(projection) => {
            from(&projection.input, |moments| of_projection(projection, moments))
        }
        LogicalPlan::Aggregate(aggregate) => {
            from(&aggregate.input, |moments| of_aggregate(aggregate, moments))
        }
        LogicalPlan::Distinct(Distinct::All(input)) => from(input, of_distinct),
        LogicalPlan::Union(union) => of_union(union),
        LogicalPlan::Join(join) => {
            // Sides that cannot meet are refused for that.
            properties(plan)?;
            of_join(join)
        }
        LogicalPlan::Unnest(unnest) => from(&unnest.input, |moments| {
            let name = |column| unnest.input.schema().field(column).name();
            Ok(moments.moved(|column| unnest.schema.index_of_column_by_name(None, name(column))))
        }),
        LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => from(plan.inputs()[0], |_| {
            plan_err!(
                "rows of a stream come in the order of time, and none of them is the last: order by and limit have no \
                 meaning on it; leave them out, or add emit changes after order by and limit, for the first rows so far"
            )
        }),
        LogicalPlan::Extension(_) => of_node(plan),
        _ => unknown(plan),
    }
}

/// What is derived from the instants of a step's input.
fn from(input: &LogicalPlan, derive: impl FnOnce(Moments) -> Result<Moments>) -> Result<Alive> {
    match alive(input)? {
        Alive::From(moments) => derive(moments).map(Alive::From),
        other => Ok(other),
    }
}

fn unknown(plan: &LogicalPlan) -> Result<Alive> {
    plan.inputs().into_iter().try_for_each(|input| alive(input).map(|_| ()))?;
    Ok(if properties(plan)?.time.is_none() { Alive::Always } else { Alive::Unknown })
}

fn of_projection(projection: &Projection, moments: Moments) -> Result<Moments> {
    let input = projection.input.schema();
    let told = projection.expr.iter().enumerate();
    let columns = told.filter_map(|(place, expr)| Some((place, after(expr, input, &moments)?))).collect();
    Ok(Moments { columns, ..moments })
}

/// How far from the instant an expression is, if it tells the instant.
fn after(expr: &Expr, input: &DFSchema, moments: &Moments) -> Option<Distance> {
    if let Some((calendar, at, Expr::Literal(ScalarValue::Int64(Some(steps)), _))) =
        Calendar::of_boundary(expr)
    {
        // The instants are such beginnings, so that no two of them share one.
        let own = moments.length == Some(Length::Window(calendar.clone()));
        return match after(at, input, moments)? {
            Distance::After(ticks @ (-1 | 0)) if own => Some(Distance::Boundary(calendar, ticks, *steps)),
            _ => None,
        };
    }
    match expr {
        Expr::Alias(alias) => after(&alias.expr, input, moments),
        Expr::Cast(cast) => {
            let kept = keeps_ticks(&cast.expr.get_type(input).ok()?, cast.field.data_type());
            kept.then(|| after(&cast.expr, input, moments))?
        }
        Expr::Column(column) => moments.columns.get(&input.maybe_index_of_column(column)?).cloned(),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let ticks = ticks(right, left, input)?;
            let Distance::After(after) = after(left, input, moments)? else { return None };
            Some(Distance::After(match op {
                Operator::Plus => after.checked_add(ticks)?,
                Operator::Minus => after.checked_sub(ticks)?,
                _ => return None,
            }))
        }
        _ => None,
    }
}

/// Whether a cast gives different instants different values.
fn keeps_ticks(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Int64, DataType::Timestamp(..)) | (DataType::Timestamp(..), DataType::Int64) => true,
        (DataType::Timestamp(a, _), DataType::Timestamp(b, _)) => a <= b,
        _ => from == to,
    }
}

/// The ticks of a length of time that stands beside an instant.
fn ticks(length: &Expr, instant: &Expr, input: &DFSchema) -> Option<i64> {
    let Expr::Literal(value, _) = length else { return None };
    interval_join::literal_duration(value)?.ticks(&instant.get_type(input).ok()?, "window").ok()
}

fn of_aggregate(aggregate: &Aggregate, moments: Moments) -> Result<Moments> {
    let input = aggregate.input.schema();
    let told = groups_everywhere(&aggregate.group_expr).into_iter().filter_map(|group| {
        let place = aggregate.schema.maybe_index_of_column(group.try_as_col()?)?;
        Some((place, after(group, input, &moments)?))
    });
    let columns: BTreeMap<_, _> = told.collect();
    match (columns.is_empty(), &moments.rows) {
        (false, _) => Ok(Moments { columns, ..moments }.told()),
        (true, Rows::Events(time)) => plan_err!(
            "an aggregate over a stream of events would speak of every instant by itself: aggregate windows of time, from \
             tumble(…, {time}, interval '5' minute); or add emit changes for what there is so far; or group by {time}"
        ),
        (true, _) => plan_err!(
            "an aggregate over windows of a stream speaks of one window at a time: group by {} too, or what else tells the \
             instant of its rows; or add emit changes, for what there is so far of all of them",
            windows::END
        ),
    }
}

/// The groups that are in every grouping set.
fn groups_everywhere(groups: &[Expr]) -> Vec<&Expr> {
    match groups {
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => match sets.split_first() {
            Some((first, rest)) => {
                first.iter().filter(|group| rest.iter().all(|set| set.contains(group))).collect()
            }
            None => vec![],
        },
        [Expr::GroupingSet(_)] => vec![],
        groups => groups.iter().collect(),
    }
}

fn of_distinct(moments: Moments) -> Result<Moments> {
    match moments.columns.is_empty() {
        false => Ok(moments.told()),
        true => plan_err!(
            "the different rows of a stream are those of one instant: select its time, or {} too; or add emit changes, for \
             those there are so far",
            windows::END
        ),
    }
}

/// A column tells the instant if it does so in every part, and rows of every part live as long.
fn of_union(union: &Union) -> Result<Alive> {
    let mut all: Option<Alive> = None;
    for input in &union.inputs {
        let part = alive(input)?;
        all = Some(match all {
            None => part,
            Some(before) => beside(before, part),
        });
    }
    Ok(all.unwrap_or(Alive::Always))
}

fn beside(a: Alive, b: Alive) -> Alive {
    match (a, b) {
        (Alive::Always, Alive::Always) => Alive::Always,
        (Alive::From(a), Alive::From(b)) => {
            let mut columns = a.columns.clone();
            columns.retain(|column, after| a.as_long_as(&b) && b.columns.get(column) == Some(after));
            let rows = if b.rows == Rows::Late { Rows::Late } else { a.told().rows };
            Alive::From(Moments { columns, length: b.length, rows })
        }
        (Alive::From(some), Alive::Always) | (Alive::Always, Alive::From(some)) => {
            Alive::From(Moments { columns: BTreeMap::new(), ..some.told() })
        }
        _ => Alive::Unknown,
    }
}

fn of_join(join: &Join) -> Result<Alive> {
    if windows::is_session(join) {
        return alive(&join.left);
    }
    match (alive(&join.left)?, alive(&join.right)?) {
        (Alive::From(left), Alive::From(right)) => of_moments(join, &left, &right),
        (Alive::From(left), Alive::Always) => with_table(join, &left, Side::Left),
        (Alive::Always, Alive::From(right)) => with_table(join, &right, Side::Right),
        // What is alive at the instant of an event is joined with it.
        (Alive::From(left), Alive::Unknown)
            if left.length == Some(Length::Ticks(1))
                && matches!(join.join_type, JoinType::Inner | JoinType::Left) =>
        {
            Ok(Alive::From(left.told()))
        }
        (Alive::Always, Alive::Always) => Ok(Alive::Always),
        _ => Ok(Alive::Unknown),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// Where the columns of a join's side come out.
fn placed(join: &Join, moments: &Moments, side: Side) -> Moments {
    let comes_out = match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => side == Side::Left,
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => side == Side::Right,
        _ => true,
    };
    let one = matches!(join.join_type, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark);
    let before = if side == Side::Right && !one { join.left.schema().fields().len() } else { 0 };
    moments.moved(|column| comes_out.then_some(before + column))
}

/// A stream with a table, whose rows are alive always: each row of the stream finds what it finds in the
/// table. Rows of the table are asked at every instant.
fn with_table(join: &Join, moments: &Moments, stream: Side) -> Result<Alive> {
    let asks_the_stream = match join.join_type {
        JoinType::Inner => true,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => stream == Side::Left,
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            stream == Side::Right
        }
        JoinType::Full => false,
    };
    match asks_the_stream {
        true => Ok(Alive::From(placed(join, moments, stream).told())),
        false => plan_err!(
            "whether a row of a table has a partner in a stream would be answered anew at every instant: keep the rows of \
             the stream, and not those of the table; or add emit changes, for the partners there are so far"
        ),
    }
}

/// Two streams: rows of equal instants, or events so far apart.
fn of_moments(join: &Join, left: &Moments, right: &Moments) -> Result<Alive> {
    let inner = join.join_type == JoinType::Inner;
    if at_once(join, left, right) && (inner || left.as_long_as(right)) {
        let mut both = placed(join, left, Side::Left).told();
        both.columns.extend(placed(join, right, Side::Right).columns);
        both.length = shorter(left, right);
        // A side that may be null tells nothing.
        match join.join_type {
            JoinType::Left => both.columns.retain(|place, _| *place < join.left.schema().fields().len()),
            JoinType::Right => both.columns.retain(|place, _| *place >= join.left.schema().fields().len()),
            JoinType::Full => both.columns.clear(),
            _ => {}
        }
        return Ok(Alive::From(both));
    }
    match (&left.rows, &right.rows) {
        (Rows::Events(_), Rows::Events(_)) => of_events(join, left, right),
        _ => plan_err!(
            "a join of streams pairs rows of one window, and this one looks at others: and a.{} = b.{}; or add emit \
             changes, for the pairs there are so far",
            windows::END,
            windows::END
        ),
    }
}

/// How long pairs live whose rows start together.
fn shorter(left: &Moments, right: &Moments) -> Option<Length> {
    match (&left.length, &right.length) {
        (Some(Length::Ticks(l)), Some(Length::Ticks(r))) => Some(Length::Ticks(*l.min(r))),
        (l, r) if l == r => l.clone(),
        _ => None,
    }
}

/// Events whose times lie apart by so much; the join is said in lifetimes later.
fn of_events(join: &Join, left: &Moments, right: &Moments) -> Result<Alive> {
    let instant = |moments: &Moments| moments.columns.keys().copied().find(|column| moments.are(*column));
    let (Some(l), Some(r)) = (instant(left), instant(right)) else { return Ok(Alive::Unknown) };
    let (lo, hi) = Times { left: l, right: r }.bounds(join)?;
    let later = match (lo, hi) {
        (Some(lo), _) if lo >= 0 => Some(r + join.left.schema().fields().len()),
        (_, Some(hi)) if hi <= 0 => Some(l),
        _ => None,
    };
    // Joins without bounds are refused where they are said in lifetimes.
    Ok(Alive::From(match later {
        Some(place) if join.join_type == JoinType::Inner => {
            let time = join.schema.field(place).name().clone();
            Moments::points([place], Rows::Events(time))
        }
        _ => Moments::points([], Rows::Late),
    }))
}

/// Whether an equality says that the instants of both sides are the same.
fn at_once(join: &Join, left: &Moments, right: &Moments) -> bool {
    let (l, r) = (join.left.schema(), join.right.schema());
    let same = |a: &Expr, b: &Expr| {
        let instants = after(a, l, left).zip(after(b, r, right));
        instants.is_some_and(|(a, b)| a == b)
    };
    let in_filter = |term: &Expr| match term {
        Expr::BinaryExpr(BinaryExpr { left: a, op: Operator::Eq, right: b }) => same(a, b) || same(b, a),
        _ => false,
    };
    join.on.iter().any(|(a, b)| same(a, b)) || join.filter.iter().flat_map(split_conjunction).any(in_filter)
}

fn of_node(plan: &LogicalPlan) -> Result<Alive> {
    match node(plan) {
        Some(Node::Ingress(ingress)) => Ok(match (&ingress.time.end, &ingress.time.kind) {
            (None, None) => {
                let place = plan.schema().index_of_column_by_name(None, &ingress.time.start);
                Alive::From(Moments::points(place, Rows::Events(ingress.time.start.clone())))
            }
            _ => Alive::Unknown,
        }),
        Some(Node::ReKey(rekey)) => alive(&rekey.input),
        Some(Node::Exchange(exchange)) => alive(&exchange.input),
        Some(Node::AlterLifetime(alter)) => of_window(alter),
        Some(Node::Chop(chop)) => match (alive(&chop.input)?, properties(plan)?.lifetimes) {
            (Alive::From(moments), _) if moments.length == Some(Length::between(&chop.beats)) => {
                Ok(Alive::From(moments))
            }
            (Alive::From(_), Lifetimes::Hop { size, hop, .. }) if size == hop => {
                Ok(Alive::From(Moments::results(Length::Ticks(hop))))
            }
            _ => Ok(Alive::Unknown),
        },
        Some(Node::Session(session)) => from(&session.input, |moments| {
            moments_of_time(&moments)?;
            Ok(Moments::results(Length::Ticks(1)))
        }),
        Some(Node::PointAtEnd(points)) => from(&points.input, |_| Ok(Moments::results(Length::Ticks(1)))),
        Some(Node::WithStart(start)) => from(&start.input, |mut moments| {
            moments.columns.insert(start.input.schema().fields().len(), Distance::After(0));
            Ok(moments)
        }),
        _ => unknown(plan),
    }
}

/// The windows of a stream of events: from the end of one to the end of the next.
fn of_window(alter: &AlterLifetime) -> Result<Alive> {
    let Alive::From(moments) = alive(&alter.input)? else { return Ok(Alive::Unknown) };
    moments_of_time(&moments)?;
    Ok(match (&*alter.start, &*alter.duration) {
        (StartRule::Snap { hop, .. }, DurationRule::Constant(_)) => {
            Alive::From(Moments::results(Length::Ticks(*hop)))
        }
        (StartRule::Snap { hop, .. }, DurationRule::ByStart(_)) if windows::is_cumulate(alter) => {
            Alive::From(Moments::results(Length::Ticks(*hop)))
        }
        (StartRule::By(next), DurationRule::ByStart(_)) if windows::is_cumulate(alter) => {
            match Calendar::of_boundary(next) {
                Some((calendar, ..)) => Alive::From(Moments::results(Length::Window(calendar))),
                None => Alive::Unknown,
            }
        }
        (start, duration) => match CalendarWindows::of_rules(start, duration) {
            Some(windows) => Alive::From(Moments::results(Length::Window(windows.calendar))),
            None => Alive::Unknown,
        },
    })
}

/// Refuses windows of rows that are told later than at the time that a window is to be of.
fn moments_of_time(moments: &Moments) -> Result<()> {
    match moments.rows {
        Rows::Late => plan_err!(
            "these rows of a join are told when it is certain which partners they have, later than at their time: make \
             windows of the streams first, and join these"
        ),
        _ => Ok(()),
    }
}
