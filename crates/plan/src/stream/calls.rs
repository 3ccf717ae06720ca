//! What DataFusion computes over several rows, beyond the aggregates of every stream: its other aggregates,
//! sets of groups, window functions. Relations only: they have no meaning that a changing relation could keep
//! up with.

use super::Stream;
use crate::aggregate::Agg;
use crate::names::{column, names};
use crate::resolve::resolve_call;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder};
use std::collections::HashSet;
use std::sync::Arc;

/// The column that tells by which set of columns a row was grouped: bit by bit, the last column first,
/// whether it was left out.
pub const GROUPING_ID: &str = "grouping_id";

/// One aggregate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Call {
    /// One that every stream has.
    Agg(Box<Agg>),
    /// Any of DataFusion's, with all that can be said of it; relations only.
    Relational(Box<AggregateFunction>),
}

impl From<Agg> for Call {
    fn from(agg: Agg) -> Call {
        Call::Agg(Box::new(agg))
    }
}

/// By what rows are grouped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Groups {
    /// By the current key.
    Key,
    /// By several sets of columns, one after the other; relations only. The column [`GROUPING_ID`] follows
    /// theirs.
    Sets(GroupingSet),
}

impl Call {
    pub(crate) fn expr(&self, schema: &DFSchema) -> Result<Expr> {
        match self {
            Call::Agg(agg) => agg.expr(schema),
            Call::Relational(call) => {
                resolve_call(Expr::AggregateFunction(call.as_ref().clone()), schema, call.func.name())
            }
        }
    }
}

impl Stream {
    /// Aggregates over the rows alive together, per group: the columns of the groups, then one column an
    /// aggregate.
    ///
    /// # Errors
    /// `Plan` if none is named, two have one name, the types of their arguments do not fit, or it takes a
    /// relation and this is a stream.
    pub fn aggregate_by(&self, groups: Groups, calls: Vec<(String, Call)>) -> Result<Stream> {
        if calls.is_empty() && groups == Groups::Key {
            return plan_err!("aggregate: name at least one, such as n=count()");
        }
        let relational = calls.iter().find_map(|(_, call)| match call {
            Call::Relational(call) => Some(call.func.name()),
            Call::Agg(_) => None,
        });
        if let (Some(name), Some(_)) = (relational, &self.properties.time) {
            return plan_err!(
                "aggregate: `agg.{name}` is for relations, and this is a stream; streams have aggregates of \
                 their own: count, sum, avg, min, max, first, last, count_distinct, median, percentile, var, \
                 std, product, top_k and others"
            );
        }
        let group = match groups {
            Groups::Key => self.key_exprs(),
            Groups::Sets(sets) => vec![Expr::GroupingSet(self.checked_sets(sets)?)],
        };
        let sets = group.iter().any(|e| matches!(e, Expr::GroupingSet(_)));
        let columns = group_names(&group);
        let mut seen: HashSet<&str> = columns.iter().map(String::as_str).collect();
        if let Some((twice, _)) = calls.iter().find(|(name, _)| !seen.insert(name)) {
            return plan_err!(
                "aggregate: there would be two columns named {twice:?} (key columns stay); rename one"
            );
        }
        let exprs = calls
            .iter()
            .map(|(name, call)| Ok(call.expr(self.df_schema())?.alias(name)))
            .collect::<Result<Vec<_>>>()?;
        let aggregate = Aggregate::try_new(Arc::clone(&self.plan), group, exprs)?;
        let plan = self.then(LogicalPlan::Aggregate(aggregate))?;
        if !sets {
            return Ok(plan);
        }
        let output = names(plan.df_schema()).into_iter().map(|name| match name {
            Aggregate::INTERNAL_GROUPING_ID => (GROUPING_ID.to_string(), column(name)),
            name => (name.to_string(), column(name)),
        });
        plan.project(output.collect())
    }

    /// All columns and these, each a window function (an aggregate, or `row_number()` and its like, `over`
    /// something); one with the name of an old column takes its place. Inside `group_apply` it looks at the
    /// rows of its group. On a stream it looks at the rows of each snapshot.
    ///
    /// # Errors
    /// `Plan` if one is no window function, or if the types of its arguments do not fit.
    pub fn with_windows(&self, calls: Vec<(String, Expr)>) -> Result<Stream> {
        let mut named = Vec::new();
        let mut exprs: Vec<Expr> = Vec::new();
        for (name, call) in calls {
            let Expr::WindowFunction(mut function) = call else {
                return plan_err!("{name}: {call} is no window function; say over what, .over(…)");
            };
            function.params.partition_by.splice(0..0, self.groups.iter().map(column));
            let call = resolve_call(Expr::WindowFunction(function), self.df_schema(), "over")?;
            named.push((name, column(call.schema_name().to_string())));
            if !exprs.contains(&call) {
                exprs.push(call);
            }
        }
        let windows = self.then(LogicalPlanBuilder::window_plan(self.input(), exprs)?)?;
        let mut output: Vec<(String, Expr)> = Vec::new();
        for old in names(self.df_schema()) {
            match named.iter().position(|(name, _)| name == old) {
                Some(_) if self.key().iter().any(|k| k == old) => {
                    return plan_err!("over: {old:?} is in the current key; choose another name, or rekey");
                }
                Some(i) => output.push(named.remove(i)),
                None => output.push((old.to_string(), column(old))),
            }
        }
        output.extend(named);
        windows.project(output)
    }

    /// The sets with columns that exist.
    fn checked_sets(&self, sets: GroupingSet) -> Result<GroupingSet> {
        if !self.groups.is_empty() {
            return plan_err!("grouping sets: not inside group_apply, which has its groups");
        }
        self.untimed("grouping sets", "group by one key after the other, and union what they give")?;
        let checked = |exprs: Vec<Expr>| {
            exprs
                .into_iter()
                .map(|e| Ok(crate::resolve::resolve(e, self.df_schema(), "grouping sets")?.unalias()))
        };
        Ok(match sets {
            GroupingSet::Rollup(exprs) => GroupingSet::Rollup(checked(exprs).collect::<Result<_>>()?),
            GroupingSet::Cube(exprs) => GroupingSet::Cube(checked(exprs).collect::<Result<_>>()?),
            GroupingSet::GroupingSets(sets) => GroupingSet::GroupingSets(
                sets.into_iter().map(|set| checked(set).collect::<Result<_>>()).collect::<Result<_>>()?,
            ),
        })
    }
}

/// The names of the columns that rows are grouped by.
fn group_names(group: &[Expr]) -> Vec<String> {
    let name = |e: &Expr| e.schema_name().to_string();
    match group {
        [Expr::GroupingSet(sets)] => {
            let columns = sets.distinct_expr().into_iter().map(name);
            columns.chain([GROUPING_ID.to_string()]).collect()
        }
        group => group.iter().map(name).collect(),
    }
}
