//! Whether a query over streams with time means the same as over tables of their rows.
//!
//! A temporal operator sees the rows that are alive at one instant; SQL sees all rows. The two agree where a
//! query keeps instants apart itself: it groups by the end of a window, or joins rows of equal windows. Here
//! it is derived which columns of a plan determine the instant from which a row is alive, and an operator
//! that SQL means over rows of several instants is refused. A bounded stream can answer such a query all the
//! same, as the table of its rows.
//!
//! Invariant: rows with equal values in a column that determines the instant are alive equally long from
//! there, and rows with different values are never alive together. Streams whose lifetimes are not made here,
//! intervals and fluent windows, are changing relations, for which every operator has its temporal meaning.

use super::interval_join::{self, Times};
use super::window_nodes::{END, is_cumulate};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, JoinType, Result, ScalarValue, plan_err};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, GroupingSet, Join, LogicalPlan, Operator,
    Projection, Union, Window as WindowFunctions,
};
use std::collections::BTreeMap;
use whimbrel_plan::calendar::{Calendar, CalendarWindows, Grid};
use whimbrel_plan::nodes::{AlterLifetime, LifetimeChange, MatchRecognize, Node, node};
use whimbrel_plan::{EVENT, properties};
use whimbrel_temporal::{DurationRule, Lifetimes, StartRule};

/// When rows are alive.
#[derive(Debug, Clone)]
pub(crate) enum Liveness {
    /// Always: rows of a table.
    Always,
    /// From an instant on: rows of a stream of events or of windows.
    From(Instants),
    /// As the lifetimes of a stream say that were not made here.
    Unknown,
}

/// The instants from which rows are alive.
#[derive(Debug, Clone)]
pub(crate) struct Instants {
    /// The columns that determine the instant, and the distance of each from it.
    columns: BTreeMap<usize, Distance>,
    /// How long the rows are alive; `None` if not as long as rows of any other plan.
    lifetime: Option<Lifetime>,
    /// What the rows are.
    rows: RowKind,
}

/// The distance of a value from an instant.
#[derive(Debug, Clone, PartialEq)]
enum Distance {
    /// So many ticks after it.
    After(i64),
    /// The start of a calendar window: so many windows from the one that has the instant, shifted by so many
    /// ticks.
    Boundary(Calendar, i64, i64),
}

/// How long rows are alive.
#[derive(Debug, Clone, PartialEq)]
enum Lifetime {
    /// So many ticks.
    Ticks(i64),
    /// From the start of a calendar window to the start of the next.
    Window(Calendar),
}

/// The kind of the rows of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RowKind {
    /// Events, or pairs of events, and the name of their time.
    Events(String),
    /// Results of a window, from its end on, or of an instant.
    Results,
    /// Events that are output later than at their time, without a column for that.
    Late,
}

impl Lifetime {
    /// From one beat of a grid to the next.
    fn between(beats: &Grid) -> Lifetime {
        match beats {
            Grid::Ticks { hop, .. } => Lifetime::Ticks(*hop),
            Grid::Calendar(calendar) => Lifetime::Window(calendar.clone()),
        }
    }
}

impl Instants {
    /// Whether a column is the instant itself.
    pub fn contains(&self, column: usize) -> bool {
        self.columns.get(&column) == Some(&Distance::After(0))
    }

    /// Results that live so long, without a column for their instant.
    fn results(length: Lifetime) -> Instants {
        Instants { columns: BTreeMap::new(), lifetime: Some(length), rows: RowKind::Results }
    }

    /// The instants of events, or of pairs of them.
    fn points(columns: impl IntoIterator<Item = usize>, rows: RowKind) -> Instants {
        let columns = columns.into_iter().map(|place| (place, Distance::After(0))).collect();
        Instants { columns, lifetime: Some(Lifetime::Ticks(1)), rows }
    }

    /// Whether the rows are alive as long as others.
    fn lives_as_long_as(&self, other: &Instants) -> bool {
        self.lifetime.is_some() && self.lifetime == other.lifetime
    }

    /// The same instants, of results.
    fn of_results(self) -> Instants {
        let rows = if self.rows == RowKind::Late { RowKind::Late } else { RowKind::Results };
        Instants { rows, ..self }
    }

    /// The same instants, with the columns in other places.
    fn moved(&self, place: impl Fn(usize) -> Option<usize>) -> Instants {
        let columns =
            self.columns.iter().filter_map(|(column, after)| Some((place(*column)?, after.clone())));
        Instants { columns: columns.collect(), ..self.clone() }
    }
}

/// Refuses a plan with an operator over rows of several instants.
///
/// # Errors
/// `Plan`, with what to write instead.
pub(crate) fn check(plan: LogicalPlan) -> Result<LogicalPlan> {
    liveness(&plan).map(|_| plan)
}

/// When the rows of a plan are alive.
///
/// # Errors
/// `Plan` if an operator of the plan is over rows of several instants.
pub(crate) fn liveness(plan: &LogicalPlan) -> Result<Liveness> {
    match plan {
        LogicalPlan::TableScan(_) | LogicalPlan::Values(_) | LogicalPlan::EmptyRelation(_) => {
            Ok(Liveness::Always)
        }
        LogicalPlan::Filter(filter) => liveness(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => liveness(&alias.input),
        LogicalPlan::Projection(projection) => {
            from(&projection.input, |instants| of_projection(projection, instants))
        }
        LogicalPlan::Aggregate(aggregate) => {
            from(&aggregate.input, |instants| of_aggregate(aggregate, instants))
        }
        LogicalPlan::Distinct(Distinct::All(input)) => from(input, of_distinct),
        LogicalPlan::Window(window) => from(&window.input, |instants| of_window_functions(window, instants)),
        LogicalPlan::Union(union) => of_union(union),
        LogicalPlan::Join(join) => {
            // Inputs that cannot be joined are refused for that reason.
            properties(plan)?;
            of_join(join)
        }
        LogicalPlan::Unnest(unnest) => from(&unnest.input, |instants| {
            let name = |column| unnest.input.schema().field(column).name();
            Ok(instants.moved(|column| unnest.schema.index_of_column_by_name(None, name(column))))
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

/// Derives the instants of a plan from those of its input.
fn from(input: &LogicalPlan, derive: impl FnOnce(Instants) -> Result<Instants>) -> Result<Liveness> {
    match liveness(input)? {
        Liveness::From(instants) => derive(instants).map(Liveness::From),
        other => Ok(other),
    }
}

/// A plan without a rule: over tables, or of unknown lifetimes.
fn unknown(plan: &LogicalPlan) -> Result<Liveness> {
    plan.inputs().into_iter().try_for_each(|input| liveness(input).map(|_| ()))?;
    Ok(if properties(plan)?.time.is_none() { Liveness::Always } else { Liveness::Unknown })
}

/// The columns of a projection that determine the instant.
fn of_projection(projection: &Projection, instants: Instants) -> Result<Instants> {
    let input = projection.input.schema();
    let exprs = projection.expr.iter().enumerate();
    let columns = exprs.filter_map(|(place, expr)| Some((place, after(expr, input, &instants)?))).collect();
    Ok(Instants { columns, ..instants })
}

/// The distance of an expression from the instant, if it determines the instant.
fn after(expr: &Expr, input: &DFSchema, instants: &Instants) -> Option<Distance> {
    if let Some((calendar, at, Expr::Literal(ScalarValue::Int64(Some(steps)), _))) =
        Calendar::of_boundary(expr)
    {
        // The instants are starts of such windows, so no two of them are in one.
        let own = instants.lifetime == Some(Lifetime::Window(calendar.clone()));
        return match after(at, input, instants)? {
            Distance::After(ticks @ (-1 | 0)) if own => Some(Distance::Boundary(calendar, ticks, *steps)),
            _ => None,
        };
    }
    match expr {
        Expr::Alias(alias) => after(&alias.expr, input, instants),
        Expr::Cast(cast) => {
            let kept = keeps_ticks(&cast.expr.get_type(input).ok()?, cast.field.data_type());
            kept.then(|| after(&cast.expr, input, instants))?
        }
        Expr::Column(column) => instants.columns.get(&input.maybe_index_of_column(column)?).cloned(),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let ticks = ticks(right, left, input)?;
            let Distance::After(after) = after(left, input, instants)? else { return None };
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

/// The ticks of an interval that is added to an instant.
fn ticks(length: &Expr, instant: &Expr, input: &DFSchema) -> Option<i64> {
    let Expr::Literal(value, _) = length else { return None };
    interval_join::literal_duration(value)?.ticks(&instant.get_type(input).ok()?, "window").ok()
}

/// The groups of an aggregate that determine the instant; without one it is refused.
fn of_aggregate(aggregate: &Aggregate, instants: Instants) -> Result<Instants> {
    let input = aggregate.input.schema();
    let groups = groups_everywhere(&aggregate.group_expr).into_iter().filter_map(|group| {
        let place = aggregate.schema.maybe_index_of_column(group.try_as_col()?)?;
        Some((place, after(group, input, &instants)?))
    });
    let columns: BTreeMap<_, _> = groups.collect();
    match (columns.is_empty(), &instants.rows) {
        (false, _) => Ok(Instants { columns, ..instants }.of_results()),
        (true, RowKind::Events(time)) => plan_err!(
            "an aggregate over a stream of events would speak of every instant by itself: aggregate windows of time, from \
             tumble(…, {time}, interval '5' minute); or add emit changes for what there is so far; or group by {time}"
        ),
        (true, _) => plan_err!(
            "an aggregate over windows of a stream speaks of one window at a time: group by {} too, or what else tells the \
             instant of its rows; or add emit changes, for what there is so far of all of them",
            END
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

/// Rows beside functions of the rows of their partition, which are those of one instant.
fn of_window_functions(window: &WindowFunctions, instants: Instants) -> Result<Instants> {
    let input = window.input.schema();
    for function in &window.window_expr {
        let Expr::WindowFunction(function) = function.clone().unalias_nested().data else { continue };
        if !function.params.partition_by.iter().any(|by| after(by, input, &instants).is_some()) {
            return plan_err!(
                "over (…) on a stream is about the rows of one instant: partition by {END} too, or by what else tells the \
                 instant of its rows; or add emit changes, for the rows there are so far"
            );
        }
    }
    // The columns of the input come first, in their places.
    Ok(instants.of_results())
}

/// The different rows of a stream, if a column determines the instant.
fn of_distinct(instants: Instants) -> Result<Instants> {
    match instants.columns.is_empty() {
        false => Ok(instants.of_results()),
        true => plan_err!(
            "the different rows of a stream are those of one instant: select its time, or {} too; or add emit changes, for \
             those there are so far",
            END
        ),
    }
}

/// A column determines the instant if it does so in every input, and the rows of all inputs are alive equally
/// long.
fn of_union(union: &Union) -> Result<Liveness> {
    let mut all: Option<Liveness> = None;
    for input in &union.inputs {
        let part = liveness(input)?;
        all = Some(match all {
            None => part,
            Some(before) => united(before, part),
        });
    }
    Ok(all.unwrap_or(Liveness::Always))
}

/// The rows of two inputs of a union.
fn united(a: Liveness, b: Liveness) -> Liveness {
    match (a, b) {
        (Liveness::Always, Liveness::Always) => Liveness::Always,
        (Liveness::From(a), Liveness::From(b)) => {
            let mut columns = a.columns.clone();
            columns.retain(|column, after| a.lives_as_long_as(&b) && b.columns.get(column) == Some(after));
            let rows = if b.rows == RowKind::Late { RowKind::Late } else { a.of_results().rows };
            Liveness::From(Instants { columns, lifetime: b.lifetime, rows })
        }
        (Liveness::From(some), Liveness::Always) | (Liveness::Always, Liveness::From(some)) => {
            Liveness::From(Instants { columns: BTreeMap::new(), ..some.of_results() })
        }
        _ => Liveness::Unknown,
    }
}

/// The pairs of a join.
fn of_join(join: &Join) -> Result<Liveness> {
    match (liveness(&join.left)?, liveness(&join.right)?) {
        (Liveness::From(left), Liveness::From(right)) => join_streams(join, &left, &right),
        (Liveness::From(left), Liveness::Always) => join_table(join, &left, Side::Left),
        (Liveness::Always, Liveness::From(right)) => join_table(join, &right, Side::Right),
        // An event is joined with the rows that are alive at its instant.
        (Liveness::From(left), Liveness::Unknown)
            if left.lifetime == Some(Lifetime::Ticks(1))
                && matches!(join.join_type, JoinType::Inner | JoinType::Left) =>
        {
            Ok(Liveness::From(left.of_results()))
        }
        (Liveness::Always, Liveness::Always) => Ok(Liveness::Always),
        _ => Ok(Liveness::Unknown),
    }
}

/// A side of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The left input.
    Left,
    /// The right input.
    Right,
}

/// The instants of one side of a join, by the columns of its result.
fn from_side(join: &Join, instants: &Instants, side: Side) -> Instants {
    let comes_out = match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => side == Side::Left,
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => side == Side::Right,
        _ => true,
    };
    let one = matches!(join.join_type, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark);
    let before = if side == Side::Right && !one { join.left.schema().fields().len() } else { 0 };
    instants.moved(|column| comes_out.then_some(before + column))
}

/// A stream and a table: a row of the stream has the same partners at every instant, and a row of the table
/// has not.
fn join_table(join: &Join, instants: &Instants, stream: Side) -> Result<Liveness> {
    let keeps_stream_rows = match join.join_type {
        JoinType::Inner => true,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => stream == Side::Left,
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            stream == Side::Right
        }
        JoinType::Full => false,
    };
    match keeps_stream_rows {
        true => Ok(Liveness::From(from_side(join, instants, stream).of_results())),
        false => plan_err!(
            "whether a row of a table has a partner in a stream would be answered anew at every instant: keep the rows of \
             the stream, and not those of the table; or add emit changes, for the partners there are so far"
        ),
    }
}

/// Two streams: rows of equal instants, or events with bounds on the difference of their times.
fn join_streams(join: &Join, left: &Instants, right: &Instants) -> Result<Liveness> {
    let inner = join.join_type == JoinType::Inner;
    if is_at_same_instant(join, left, right) && (inner || left.lives_as_long_as(right)) {
        let mut both = from_side(join, left, Side::Left).of_results();
        both.columns.extend(from_side(join, right, Side::Right).columns);
        both.lifetime = shorter_lifetime(left, right);
        // A side that may be null determines nothing.
        match join.join_type {
            JoinType::Left => both.columns.retain(|place, _| *place < join.left.schema().fields().len()),
            JoinType::Right => both.columns.retain(|place, _| *place >= join.left.schema().fields().len()),
            JoinType::Full => both.columns.clear(),
            _ => {}
        }
        return Ok(Liveness::From(both));
    }
    match (&left.rows, &right.rows) {
        (RowKind::Events(_), RowKind::Events(_)) => of_events(join, left, right),
        _ => plan_err!(
            "a join of streams pairs rows of one window, and this one looks at others: and a.{} = b.{}; or add emit \
             changes, for the pairs there are so far",
            END,
            END
        ),
    }
}

/// How long pairs of rows are alive that start together.
fn shorter_lifetime(left: &Instants, right: &Instants) -> Option<Lifetime> {
    match (&left.lifetime, &right.lifetime) {
        (Some(Lifetime::Ticks(l)), Some(Lifetime::Ticks(r))) => Some(Lifetime::Ticks(*l.min(r))),
        (l, r) if l == r => l.clone(),
        _ => None,
    }
}

/// Events with bounds on the difference of their times; the join is lowered later.
fn of_events(join: &Join, left: &Instants, right: &Instants) -> Result<Liveness> {
    let instant =
        |instants: &Instants| instants.columns.keys().copied().find(|column| instants.contains(*column));
    let (Some(l), Some(r)) = (instant(left), instant(right)) else { return Ok(Liveness::Unknown) };
    let (lo, hi) = Times { left: l, right: r }.bounds(join)?;
    let later = match (lo, hi) {
        (Some(lo), _) if lo >= 0 => Some(r + join.left.schema().fields().len()),
        (_, Some(hi)) if hi <= 0 => Some(l),
        _ => None,
    };
    // A join without bounds is refused when it is lowered.
    Ok(Liveness::From(match later {
        Some(place) if join.join_type == JoinType::Inner => {
            let time = join.schema.field(place).name().clone();
            Instants::points([place], RowKind::Events(time))
        }
        _ => Instants::points([], RowKind::Late),
    }))
}

/// Whether an equality makes the instants of both sides the same.
fn is_at_same_instant(join: &Join, left: &Instants, right: &Instants) -> bool {
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

/// A node of the temporal algebra.
fn of_node(plan: &LogicalPlan) -> Result<Liveness> {
    match node(plan) {
        Some(Node::Ingress(ingress)) => Ok(match (&ingress.time.end, &ingress.time.kind) {
            (None, None) => {
                let place = plan.schema().index_of_column_by_name(None, &ingress.time.start);
                Liveness::From(Instants::points(place, RowKind::Events(ingress.time.start.clone())))
            }
            _ => Liveness::Unknown,
        }),
        Some(Node::ReKey(rekey)) => liveness(&rekey.input),
        Some(Node::Exchange(exchange)) => liveness(&exchange.input),
        Some(Node::AlterLifetime(alter)) => of_window(alter),
        Some(Node::ChangeLifetimes(changed)) => match &changed.change {
            LifetimeChange::Chop(beats) => of_chop(plan, &changed.input, beats),
            LifetimeChange::Hop(windows) => from(&changed.input, |instants| {
                check_event_time(&instants)?;
                Ok(Instants::results(Lifetime::Ticks(windows.hop)))
            }),
            _ if changed.keeps_lifetimes() => liveness(&changed.input),
            LifetimeChange::PointAtEnd => from(&changed.input, |_| Ok(Instants::results(Lifetime::Ticks(1)))),
            _ => Ok(Liveness::Unknown),
        },
        Some(Node::MatchRecognize(matches)) => {
            from(&matches.input, |instants| of_matches(matches, &instants))
        }
        Some(Node::Session(session)) => from(&session.input, |instants| {
            check_event_time(&instants)?;
            Ok(Instants::results(Lifetime::Ticks(1)))
        }),
        Some(Node::WithStart(start)) => from(&start.input, |mut instants| {
            instants.columns.insert(start.input.schema().fields().len(), Distance::After(0));
            Ok(instants)
        }),
        _ => unknown(plan),
    }
}

/// The instants of matches: a field of the register that becomes the time of every row is that of the last.
fn of_matches(matches: &MatchRecognize, instants: &Instants) -> Result<Instants> {
    check_event_time(instants)?;
    let events = matches.input.schema();
    let times = instants.columns.keys().filter(|place| instants.contains(**place));
    let times: Vec<&str> = times.map(|place| events.field(*place).name().as_str()).collect();
    let mut is_time = vec![true; matches.rows.register.len()];
    // Visiting does not fail.
    let _ = matches.rows.pattern.try_map_elements(&mut |element, _| {
        for (field, is_time) in is_time.iter_mut().enumerate() {
            let update = element.update.iter().find(|(updated, _)| *updated == field);
            *is_time &= update.is_some_and(|(_, value)| {
                matches!(value, Expr::Column(of) if of.relation.as_ref().is_some_and(|r| r.table() == EVENT)
                    && times.contains(&of.name.as_str()))
            });
        }
        Ok(element.clone())
    });
    let key = matches.key.len();
    let columns = (0..is_time.len()).filter(|field| is_time[*field]).map(|field| key + field);
    match columns.collect::<Vec<_>>().as_slice() {
        [] => Ok(Instants::results(Lifetime::Ticks(1))),
        columns => {
            let name = matches.rows.register[columns[0] - key].0.clone();
            Ok(Instants::points(columns.iter().copied(), RowKind::Events(name)))
        }
    }
}

/// The pieces of lifetimes.
fn of_chop(plan: &LogicalPlan, input: &LogicalPlan, beats: &Grid) -> Result<Liveness> {
    match (liveness(input)?, properties(plan)?.lifetimes) {
        (Liveness::From(instants), _) if instants.lifetime == Some(Lifetime::between(beats)) => {
            Ok(Liveness::From(instants))
        }
        (Liveness::From(_), Lifetimes::Hop { size, hop, .. }) if size == hop => {
            Ok(Liveness::From(Instants::results(Lifetime::Ticks(hop))))
        }
        _ => Ok(Liveness::Unknown),
    }
}

/// The windows of a stream of events: from the end of one to the end of the next.
fn of_window(alter: &AlterLifetime) -> Result<Liveness> {
    let Liveness::From(instants) = liveness(&alter.input)? else { return Ok(Liveness::Unknown) };
    check_event_time(&instants)?;
    Ok(match (&*alter.start, &*alter.duration) {
        (StartRule::Snap { hop, .. }, DurationRule::Constant(_)) => {
            Liveness::From(Instants::results(Lifetime::Ticks(*hop)))
        }
        (StartRule::Snap { hop, .. }, DurationRule::ByStart(_)) if is_cumulate(alter) => {
            Liveness::From(Instants::results(Lifetime::Ticks(*hop)))
        }
        (StartRule::By(next), DurationRule::ByStart(_)) if is_cumulate(alter) => {
            match Calendar::of_boundary(next) {
                Some((calendar, ..)) => Liveness::From(Instants::results(Lifetime::Window(calendar))),
                None => Liveness::Unknown,
            }
        }
        (start, duration) => match CalendarWindows::of_rules(start, duration) {
            Some(windows) => Liveness::From(Instants::results(Lifetime::Window(windows.calendar))),
            None => Liveness::Unknown,
        },
    })
}

/// Refuses windows of rows that are output later than at their time.
fn check_event_time(instants: &Instants) -> Result<()> {
    match instants.rows {
        RowKind::Late => plan_err!(
            "these rows of a join are told when it is certain which partners they have, later than at their time: make \
             windows of the streams first, and join these"
        ),
        _ => Ok(()),
    }
}
