//! A tumbling window's columns are read off its result, not carried by its rows.
//!
//! `group by item, window_start, window_end` over tumbling windows is `group by item`: what is alive at an instant is
//! one window, and where its result starts tells which. So SQL's aggregate is the one that a fluent program asks for,
//! `tumbling("5m").aggregate(…)`, under a projection that names the columns.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};
use std::sync::Arc;
use whimbrel_plan::nodes::{Node, WithStart, extension, node};
use whimbrel_plan::properties;
use whimbrel_temporal::Lifetimes;

/// The same plan, with the columns of tumbling windows above their aggregates.
pub(crate) fn told_once(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|plan| match &plan {
        LogicalPlan::Aggregate(aggregate) => match Windowed::of(aggregate)? {
            Some(windowed) => Ok(Transformed::yes(windowed.told_once()?)),
            None => Ok(Transformed::no(plan)),
        },
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}

/// An aggregate over tumbling windows whose columns are among its groups.
struct Windowed<'a> {
    aggregate: &'a Aggregate,
    /// Where the window's end becomes a column.
    end: &'a WithStart,
    /// What stands between the two, if anything does.
    between: Option<&'a Projection>,
}

impl<'a> Windowed<'a> {
    fn of(aggregate: &'a Aggregate) -> Result<Option<Windowed<'a>>> {
        let (between, below) = match aggregate.input.as_ref() {
            LogicalPlan::Projection(projection) => (Some(projection), projection.input.as_ref()),
            other => (None, other),
        };
        let Some(Node::WithStart(end)) = node(below) else { return Ok(None) };
        let tumbling = match properties(&end.input)?.lifetimes {
            Lifetimes::Hop { size, hop, .. } => size == hop,
            _ => false,
        };
        let windowed = Windowed { aggregate, end, between };
        Ok((tumbling && windowed.fits()).then_some(windowed))
    }

    /// Whether some groups are of the window alone, and nothing else looks at it.
    fn fits(&self) -> bool {
        let groups = &self.aggregate.group_expr;
        let whole = |expr: &Expr| matches!(expr, Expr::Column(_));
        let looks = |expr: &Expr| expr.column_refs().into_iter().any(|c| self.reads_end(&self.value(c)));
        groups.iter().all(|group| whole(group) && (self.is_window(group) || !looks(group)))
            && groups.iter().any(|group| self.is_window(group))
            && !self.aggregate.aggr_expr.iter().any(looks)
    }

    /// What a column of the aggregate's input is, in columns of the windowed rows.
    fn value(&self, column: &Column) -> Expr {
        let place = self.between.and_then(|p| Some((p, p.schema.maybe_index_of_column(column)?)));
        place.map_or_else(|| Expr::Column(column.clone()), |(p, place)| p.expr[place].clone().unalias())
    }

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

    fn told_once(&self) -> Result<LogicalPlan> {
        let groups = self.aggregate.group_expr.iter().filter(|group| !self.is_window(group)).cloned();
        let calls = self.aggregate.aggr_expr.clone();
        let inner = Aggregate::try_new(Arc::new(self.rows()?), groups.collect(), calls)?;
        let inner = LogicalPlan::Aggregate(inner);
        let Some(time) = properties(&inner)?.time else { return Ok(inner) };
        let ended = extension(WithStart::try_new(inner, self.end.name.clone(), time)?);
        let named = self.aggregate.schema.iter().enumerate().map(|(place, (qualifier, field))| {
            let value = match self.aggregate.group_expr.get(place) {
                Some(Expr::Column(group)) if self.is_window(&Expr::Column(group.clone())) => {
                    self.value(group)
                }
                _ => Expr::Column(Column::new(qualifier.cloned(), field.name())),
            };
            match value {
                Expr::Column(column)
                    if column.relation.as_ref() == qualifier && column.name == *field.name() =>
                {
                    Expr::Column(column)
                }
                value => value.alias_qualified(qualifier.cloned(), field.name()),
            }
        });
        Ok(LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::new(ended))?))
    }

    /// The windowed rows without the columns of their window. A projection that only picks columns is left out: what
    /// nobody reads is not read anyway.
    fn rows(&self) -> Result<LogicalPlan> {
        let Some(between) = self.between else { return Ok(self.end.input.clone()) };
        let own = || between.expr.iter().filter(|expr| !self.reads_end(expr));
        let picks =
            |expr: &Expr| matches!(expr, Expr::Column(column) if self.end.input.schema().has_column(column));
        if own().all(picks) {
            return Ok(self.end.input.clone());
        }
        let own = own().cloned().collect();
        Ok(LogicalPlan::Projection(Projection::try_new(own, Arc::new(self.end.input.clone()))?))
    }
}
