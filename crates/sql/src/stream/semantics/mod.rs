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

mod instants;
mod join;

pub(crate) use instants::{Instants, Liveness};

use super::window_nodes::{END, is_cumulate, rows_with_gaps};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, GroupingSet, LogicalPlan, Projection, Union, Window as WindowFunctions,
};
use instants::{Distance, Lifetime, RowKind, after};
use std::collections::BTreeMap;
use whimbrel_plan::calendar::{Calendar, CalendarWindows, Grid};
use whimbrel_plan::nodes::{AlterLifetime, LifetimeChange, MatchRecognize, Node, node};
use whimbrel_plan::{EVENT, properties};
use whimbrel_temporal::{DurationRule, Lifetimes, StartRule};

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
            join::of_join(join, liveness(&join.left)?, liveness(&join.right)?)
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

/// How many ticks the rows of a stream are alive from the instant of their time, if all are equally long.
///
/// # Errors
/// `Plan` as [`liveness`].
pub(super) fn tick_lifetime(plan: &LogicalPlan) -> Result<Option<i64>> {
    Ok(match liveness(plan)? {
        Liveness::From(Instants { lifetime: Some(Lifetime::Ticks(ticks)), .. }) => Some(ticks),
        _ => None,
    })
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
        Some(Node::Require(require)) => liveness(&require.input),
        Some(Node::Exchange(exchange)) => liveness(&exchange.input),
        Some(Node::AlterLifetime(alter)) => match rows_with_gaps(alter) {
            Some(rows) => from(rows, of_gaps),
            None => of_window(alter),
        },
        Some(Node::ChangeLifetimes(changed)) => match &changed.change {
            LifetimeChange::Chop(beats) => of_chop(plan, &changed.input, beats),
            LifetimeChange::Hop(windows) => from(&changed.input, |instants| {
                check_event_time(&instants)?;
                Ok(Instants::results(Lifetime::Ticks(windows.hop)))
            }),
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

/// The rows of a stream, and those of its gaps, as long as before. Which column has their time is said above.
fn of_gaps(instants: Instants) -> Result<Instants> {
    check_event_time(&instants)?;
    Ok(Instants { columns: BTreeMap::new(), ..instants })
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
