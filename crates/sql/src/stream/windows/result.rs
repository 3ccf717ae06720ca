//! A window's columns are read off its result, not carried by its rows.
//!
//! `group by item, window_start, window_end` over windows on a grid is `group by item`: what is alive at an
//! instant is one window, and where its result starts tells which. So SQL's aggregate is the one that a
//! fluent program asks for, `tumbling("5m").aggregate(…)` or `hopping("10m", "5m").aggregate(…).chop("5m")`,
//! under a projection that names the columns.

use crate::stream::window_nodes::is_cumulate;
use crate::tree::{transform_expr_up, transform_up};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result, TableReference};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, SubqueryAlias};
use std::sync::Arc;
use whimbrel_plan::calendar::{CalendarWindows, Grid};
use whimbrel_plan::nodes::{
    AlterLifetime, ChangeLifetimes, LifetimeChange, Node, WithStart, extension, node,
};
use whimbrel_plan::properties;
use whimbrel_temporal::Lifetimes;

/// Computes the columns of windows above their aggregates, not in each row.
///
/// # Errors
/// `Plan` if an aggregate cannot be built without them.
pub(crate) fn lift_window_columns(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_up(plan, &mut |plan| match &plan {
        LogicalPlan::Aggregate(aggregate) => match Windowed::of(aggregate)? {
            Some(windowed) => Ok(Transformed::yes(windowed.lifted()?)),
            None => Ok(Transformed::no(plan)),
        },
        LogicalPlan::Projection(outer) => match outer.input.as_ref() {
            LogicalPlan::Projection(inner) if matches!(node(&inner.input), Some(Node::WithStart(_))) => {
                Ok(Transformed::yes(merged(outer, inner)?))
            }
            _ => Ok(Transformed::no(plan)),
        },
        LogicalPlan::SubqueryAlias(alias) => match as_projection(alias)? {
            Some(named) => Ok(Transformed::yes(named)),
            None => Ok(Transformed::no(plan)),
        },
        _ => Ok(Transformed::no(plan)),
    })
}

/// Windows with a name, as a projection to columns of that name.
fn as_projection(alias: &SubqueryAlias) -> Result<Option<LogicalPlan>> {
    let has_end = |plan: &LogicalPlan| matches!(node(plan), Some(Node::WithStart(_)));
    let (values, windows) = match alias.input.as_ref() {
        LogicalPlan::Projection(columns) if has_end(&columns.input) => (columns.expr.clone(), &columns.input),
        windows if has_end(windows) => {
            (windows.schema().columns().into_iter().map(Expr::Column).collect(), &alias.input)
        }
        _ => return Ok(None),
    };
    let named = values.into_iter().zip(alias.schema.iter());
    let named = named.map(|(value, (name, field))| as_named(value.unalias(), name, field.name()));
    Ok(Some(LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::clone(windows))?)))
}

/// Two projections as one.
fn merged(outer: &Projection, inner: &Projection) -> Result<LogicalPlan> {
    let named = outer.expr.iter().zip(outer.schema.iter()).map(|(expr, (qualifier, field))| {
        let value = transform_expr_up(expr.clone(), &mut |e| match &e {
            Expr::Column(column) => match inner.schema.maybe_index_of_column(column) {
                Some(place) => Ok(Transformed::yes(inner.expr[place].clone().unalias())),
                None => Ok(Transformed::no(e)),
            },
            _ => Ok(Transformed::no(e)),
        })?;
        Ok(as_named(value.data.unalias(), qualifier, field.name()))
    });
    let named = named.collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Projection(Projection::try_new(named, Arc::clone(&inner.input))?))
}

/// A value under the name of a column, which a column of that name has already.
fn as_named(value: Expr, qualifier: Option<&TableReference>, name: &str) -> Expr {
    match value {
        Expr::Column(column) if column.relation.as_ref() == qualifier && column.name == name => {
            Expr::Column(column)
        }
        value => value.alias_qualified(qualifier.cloned(), name),
    }
}

/// An aggregate over windows on a grid whose columns are among its groups.
struct Windowed<'a> {
    /// The aggregate.
    aggregate: &'a Aggregate,
    /// Where the window's end becomes a column.
    end: &'a WithStart,
    /// The rows, alive in their windows.
    rows: &'a LogicalPlan,
    /// The beats at which the rows are cut into windows, if these overlap.
    beats: Option<&'a Grid>,
    /// What stands between the aggregate and the column, if anything does.
    between: Option<&'a Projection>,
}

/// Whether these are windows of the calendar that end at beats.
fn hops(alter: &AlterLifetime, beats: &Grid) -> bool {
    let windows = CalendarWindows::of_rules(&alter.start, &alter.duration);
    windows.is_some_and(|windows| *beats == Grid::Calendar(windows.calendar))
}

/// Whether these are windows that end at beats, and begin between them.
fn uneven_hops(change: &LifetimeChange, beats: &Grid) -> bool {
    let LifetimeChange::Hop(windows) = change else { return false };
    *beats == Grid::Ticks { hop: windows.hop, offset: windows.offset }
}

impl<'a> Windowed<'a> {
    /// The aggregate with its windows; `None` if its columns cannot be lifted.
    fn of(aggregate: &'a Aggregate) -> Result<Option<Windowed<'a>>> {
        let (between, below) = match aggregate.input.as_ref() {
            LogicalPlan::Projection(projection) => (Some(projection), projection.input.as_ref()),
            other => (None, other),
        };
        let Some(Node::WithStart(end)) = node(below) else { return Ok(None) };
        let chop = match node(&end.input) {
            Some(Node::ChangeLifetimes(changed)) => changed.beats().map(|beats| (changed, beats)),
            _ => None,
        };
        let (rows, beats) = chop.map_or((&end.input, None), |(chop, beats)| (&chop.input, Some(beats)));
        let windowed = Windowed { aggregate, end, rows, beats, between };
        Ok((windowed.on_grid()? && windowed.fits()).then_some(windowed))
    }

    /// Whether rows come and go at beats only, and one window is alive between two of them.
    fn on_grid(&self) -> Result<bool> {
        let Some(beats) = self.beats else {
            return Ok(match properties(self.rows)?.lifetimes {
                Lifetimes::Hop { size, hop, .. } => size == hop,
                lifetimes => lifetimes == Lifetimes::Tiled,
            });
        };
        Ok(match (properties(self.rows)?.lifetimes, beats) {
            (Lifetimes::Hop { size, hop, offset }, beats) => {
                size % hop == 0 && *beats == Grid::Ticks { hop, offset }
            }
            (_, beats) => match node(self.rows) {
                Some(Node::AlterLifetime(alter)) => is_cumulate(alter) || hops(alter, beats),
                Some(Node::ChangeLifetimes(changed)) => uneven_hops(&changed.change, beats),
                _ => false,
            },
        })
    }

    /// Whether some groups are of the window alone, nothing else looks at it, and it is not all that is asked
    /// for.
    fn fits(&self) -> bool {
        let groups = &self.aggregate.group_expr;
        let is_one = |expr: &Expr| !matches!(expr, Expr::GroupingSet(_));
        let looks = |expr: &Expr| expr.column_refs().into_iter().any(|c| self.reads_end(&self.value(c)));
        let computes =
            groups.iter().any(|group| !self.is_window(group)) || !self.aggregate.aggr_expr.is_empty();
        computes
            && groups.iter().all(|group| is_one(group) && (self.is_window(group) || !looks(group)))
            && groups.iter().any(|group| self.is_window(group))
            && !self.aggregate.aggr_expr.iter().any(looks)
    }

    /// What a column of the aggregate's input is, in columns of the windowed rows.
    fn value(&self, column: &Column) -> Expr {
        let place = self.between.and_then(|p| Some((p, p.schema.maybe_index_of_column(column)?)));
        place.map_or_else(|| Expr::Column(column.clone()), |(p, place)| p.expr[place].clone().unalias())
    }

    /// Whether a value is computed of the end of the window.
    fn reads_end(&self, value: &Expr) -> bool {
        value.column_refs().iter().any(|c| c.name == self.end.name)
    }

    /// Whether a group is a function of the window.
    fn is_window(&self, group: &Expr) -> bool {
        let Expr::Column(column) = group else { return false };
        let value = self.value(column);
        let refs = value.column_refs();
        !refs.is_empty() && refs.iter().all(|c| c.name == self.end.name)
    }

    /// The aggregate without the window among its groups, under a projection that adds the window's columns.
    fn lifted(&self) -> Result<LogicalPlan> {
        let groups = self.aggregate.group_expr.iter().filter(|group| !self.is_window(group)).cloned();
        let calls = self.aggregate.aggr_expr.clone();
        let inner = Aggregate::try_new(Arc::new(self.rows()?), groups.collect(), calls)?;
        let mut inner = LogicalPlan::Aggregate(inner);
        if let Some(beats) = self.beats {
            inner = extension(ChangeLifetimes::try_new(inner, LifetimeChange::Chop(beats.clone()))?);
        }
        let Some(time) = properties(&inner)?.time else { return Ok(inner) };
        let ended = extension(WithStart::try_new(inner, self.end.name.clone(), time)?);
        let named = self.aggregate.schema.iter().enumerate().map(|(place, (qualifier, field))| {
            let value = match self.aggregate.group_expr.get(place) {
                Some(Expr::Column(group)) if self.is_window(&Expr::Column(group.clone())) => {
                    self.value(group)
                }
                // The windows' end is added to columns without qualifiers.
                _ => Expr::Column(Column::new_unqualified(field.name())),
            };
            as_named(value, qualifier, field.name())
        });
        Ok(LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::new(ended))?))
    }

    /// The windowed rows without the columns of their window. A projection that only picks columns is left
    /// out: what nobody reads is not read anyway.
    fn rows(&self) -> Result<LogicalPlan> {
        let Some(between) = self.between else { return Ok(self.rows.clone()) };
        let own = || between.expr.iter().filter(|expr| !self.reads_end(expr));
        let picks =
            |expr: &Expr| matches!(expr, Expr::Column(column) if self.rows.schema().has_column(column));
        if own().all(picks) {
            return Ok(self.rows.clone());
        }
        let own = own().cloned().collect();
        Ok(LogicalPlan::Projection(Projection::try_new(own, Arc::new(self.rows.clone()))?))
    }
}
