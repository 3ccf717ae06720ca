//! A correlated subquery for all outer rows at once: the dependent join of Neumann and Kemper (2015, §3),
//! pushed down to where no outer column is read any more.
//!
//! The *bindings* of a subquery are the different values of the outer columns that it reads. For a query `q`,
//! `evaluate(q)` has the rows of `q` for every binding, behind the values of the binding, its *keys*. Every
//! operator has a rule: a filter and a projection read the keys as columns; an aggregate, a window and a
//! limit work on each binding by itself; an uncorrelated input is repeated for every binding.
//!
//! Invariants: `evaluate(q)` has the keys first, and behind them the columns of `q`, with their names and in
//! their order. An aggregate without groups has one row for every binding, even one without rows to
//! aggregate.

use super::expressions::contains_subquery;
use super::scalar_subquery::values_as_selects;
use crate::columns::fresh_name;
use crate::tree::{is_same_expr, transform_expr_up, visit_expr, visit_plan};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchema, JoinConstraint, JoinType, NullEquality, Result, not_impl_err, plan_err,
};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, FetchType, Join, Limit, LogicalPlan, LogicalPlanBuilder,
    Operator, Projection, SkipType, Sort, SortExpr, Union, Window, WindowFunctionDefinition, binary_expr,
    ident, lit,
};
use std::sync::Arc;

/// The outer columns that a plan reads. Those that subqueries in its expressions read are theirs.
pub(super) fn outer_columns(plan: &LogicalPlan) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    // The visitors never fail.
    let _ = visit_plan(plan, &mut |plan| {
        for expr in plan.expressions() {
            visit_expr(&expr, &mut |e| match e {
                Expr::OuterReferenceColumn(_, column) => {
                    if !columns.contains(column) {
                        columns.push(column.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                }
                Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) => {
                    Ok(TreeNodeRecursion::Jump)
                }
                _ => Ok(TreeNodeRecursion::Continue),
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    columns
}

/// The different values of outer columns that a subquery is computed for.
pub(super) struct Bindings {
    /// The outer columns.
    columns: Vec<Column>,
    /// The names of the keys.
    names: Vec<String>,
    /// The keys, each combination once.
    values: LogicalPlan,
}

impl Bindings {
    /// The bindings of a query over the outer rows. Columns from farther out are left to the query that has
    /// them.
    ///
    /// # Errors
    /// `Plan` if a key is no column of the rows.
    pub fn of(rows: &LogicalPlan, query: &LogicalPlan) -> Result<Bindings> {
        let columns = outer_columns(query).into_iter().filter(|column| rows.schema().has_column(column));
        let columns: Vec<Column> = columns.collect();
        let names = names(columns.len());
        let keys = columns.iter().zip(&names).map(|(column, name)| Expr::Column(column.clone()).alias(name));
        let values = LogicalPlanBuilder::from(rows.clone()).project(keys)?.distinct()?.build()?;
        Ok(Bindings { columns, names, values })
    }

    /// How many keys there are.
    pub fn width(&self) -> usize {
        self.names.len()
    }

    /// The keys, as columns.
    pub fn keys(&self) -> Vec<Expr> {
        self.names.iter().map(|name| ident(name.as_str())).collect()
    }

    /// The outer rows, joined with what was computed for their bindings.
    ///
    /// # Errors
    /// `Plan` if the condition reads other columns.
    pub fn join(
        &self,
        rows: LogicalPlan,
        answers: LogicalPlan,
        kind: JoinType,
        condition: Option<Expr>,
    ) -> Result<LogicalPlan> {
        let on = self.columns.iter().cloned().map(Expr::Column).zip(self.keys()).collect::<Vec<_>>();
        let (condition, nulls) = match on.is_empty() {
            true => (Some(condition.unwrap_or_else(|| lit(true))), NullEquality::NullEqualsNothing),
            false => (condition, NullEquality::NullEqualsNull),
        };
        join(rows, answers, on, condition, kind, nulls)
    }

    /// The rows of a query for every binding, behind the keys.
    ///
    /// # Errors
    /// `NotImplemented` if an operator of the query has no rule.
    pub fn evaluate(&self, query: &LogicalPlan) -> Result<LogicalPlan> {
        if !self.is_read_by(query) {
            return self.repeated(query);
        }
        match query {
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::Filter(filter) => {
                let rows = LogicalPlanBuilder::from(self.evaluate(&filter.input)?);
                rows.filter(self.bound(filter.predicate.clone())?)?.build()
            }
            LogicalPlan::SubqueryAlias(alias) => {
                self.with_names_of(self.evaluate(&alias.input)?, query.schema())
            }
            LogicalPlan::Subquery(lateral) => self.evaluate(&lateral.subquery),
            // Rows have an order only where a limit asks for it.
            LogicalPlan::Sort(Sort { input, fetch: None, .. }) => self.evaluate(input),
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                LogicalPlanBuilder::from(self.evaluate(input)?).distinct()?.build()
            }
            LogicalPlan::Union(union) => {
                let inputs = union.inputs.iter().map(|input| Ok(Arc::new(self.evaluate(input)?)));
                let union = Union::try_new_with_loose_types(inputs.collect::<Result<Vec<_>>>()?)?;
                self.with_names_of(LogicalPlan::Union(union), query.schema())
            }
            LogicalPlan::Unnest(unnest) => LogicalPlanBuilder::from(self.evaluate(&unnest.input)?)
                .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
                .build(),
            LogicalPlan::Join(join) => self.join_within_bindings(join),
            LogicalPlan::Values(values) => self.evaluate(&values_as_selects(values)?),
            other => not_impl_err!(
                "a subquery reads {} from outside in a step that cannot be computed for all rows at once ({}); join the \
                 tables instead",
                self.columns[0],
                other.display()
            ),
        }
    }

    /// Whether a plan reads these columns.
    fn is_read_by(&self, plan: &LogicalPlan) -> bool {
        outer_columns(plan).iter().any(|column| self.columns.contains(column))
    }

    /// An uncorrelated query, repeated for every binding.
    fn repeated(&self, query: &LogicalPlan) -> Result<LogicalPlan> {
        let is_one_row = matches!(query, LogicalPlan::EmptyRelation(empty) if empty.produce_one_row);
        match (self.columns.is_empty(), is_one_row) {
            (true, _) => Ok(query.clone()),
            (false, true) => Ok(self.values.clone()),
            (false, false) => {
                LogicalPlanBuilder::from(self.values.clone()).cross_join(query.clone())?.build()
            }
        }
    }

    /// An expression with keys in place of outer columns.
    fn bound(&self, expr: Expr) -> Result<Expr> {
        let inside = transform_expr_up(expr, &mut |e| match &e {
            Expr::OuterReferenceColumn(_, column) => {
                match self.columns.iter().position(|known| known == column) {
                    Some(at) => Ok(Transformed::yes(ident(self.names[at].as_str()))),
                    None => Ok(Transformed::no(e)),
                }
            }
            _ => Ok(Transformed::no(e)),
        })?;
        Ok(inside.data)
    }

    /// The same, with the name of the expression.
    fn bound_and_named(&self, expr: &Expr) -> Result<Expr> {
        let (relation, name) = expr.qualified_name();
        let inside = self.bound(expr.clone())?;
        Ok(if is_same_expr(&inside, expr) { inside } else { inside.alias_qualified(relation, name) })
    }

    /// The keys, and behind them the columns with the names of a schema.
    fn with_names_of(&self, plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
        let columns = plan.schema().columns().into_iter().skip(self.width()).zip(schema.iter());
        let columns = columns.map(|(column, (relation, field))| {
            let same = column.relation.as_ref() == relation && column.name == *field.name();
            let value = Expr::Column(column);
            if same { value } else { value.alias_qualified(relation.cloned(), field.name()) }
        });
        let columns: Vec<Expr> = self.keys().into_iter().chain(columns).collect();
        LogicalPlanBuilder::from(plan).project(columns)?.build()
    }

    /// A projection, with the keys before its columns.
    fn projection(&self, projection: &Projection) -> Result<LogicalPlan> {
        let rows = self.evaluate(&projection.input)?;
        let own =
            projection.expr.iter().map(|expr| self.bound_and_named(expr)).collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(rows).project(self.keys().into_iter().chain(own))?.build()
    }

    /// The first rows of every binding, by their numbers.
    fn limit(&self, limit: &Limit) -> Result<LogicalPlan> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return plan_err!("limit and offset in a subquery that reads from outside take numbers");
        };
        let (order, input): (Vec<SortExpr>, &LogicalPlan) = match limit.input.as_ref() {
            // A projection keeps the rows, so they may be counted before.
            LogicalPlan::Projection(projection) => {
                let counted = Limit { input: projection.input.clone(), ..limit.clone() };
                let own = projection.expr.clone();
                let input = Arc::new(LogicalPlan::Limit(counted));
                return self.projection(&Projection::try_new(own, input)?);
            }
            LogicalPlan::Sort(sort) => (sort.expr.clone(), sort.input.as_ref()),
            other => (vec![], other),
        };
        let rows = self.evaluate(input)?;
        let wanted: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
        let order = order.into_iter().map(|by| Ok(SortExpr { expr: self.bound(by.expr)?, ..by }));
        let row_number = WindowFunctionDefinition::WindowUDF(row_number_udwf());
        let order = order.collect::<Result<Vec<_>>>()?;
        let number = Expr::from(WindowFunction::new(row_number, vec![])).partition_by(self.keys());
        let number = if order.is_empty() { number } else { number.order_by(order) }.build()?;
        let name = names(1).swap_remove(0);
        let rows = LogicalPlanBuilder::from(rows).window([number.alias(&name)])?;
        let bound = |rows: usize| lit(u64::try_from(rows).unwrap_or(u64::MAX));
        let after = ident(name.as_str()).gt(bound(skip));
        let until = fetch.map(|fetch| ident(name.as_str()).lt_eq(bound(skip.saturating_add(fetch))));
        let kept = until.into_iter().fold(after, Expr::and);
        rows.filter(kept)?.project(wanted)?.build()
    }

    /// An aggregate, grouped by the keys too.
    fn aggregate(&self, aggregate: &Aggregate) -> Result<LogicalPlan> {
        if aggregate.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
            return not_impl_err!(
                "grouping sets in a subquery that reads {} from outside; group by one set, or join the tables instead",
                self.columns[0]
            );
        }
        if aggregate.group_expr.is_empty() {
            return self.aggregate_of_all(aggregate);
        }
        let groups =
            aggregate.group_expr.iter().map(|e| self.bound_and_named(e)).collect::<Result<Vec<_>>>()?;
        let own = aggregate.aggr_expr.iter().map(|e| self.bound_and_named(e)).collect::<Result<Vec<_>>>()?;
        let rows = LogicalPlanBuilder::from(self.evaluate(&aggregate.input)?);
        rows.aggregate(self.keys().into_iter().chain(groups), own)?.build()
    }

    /// An aggregate without groups: every binding is joined with its rows, if there are any, and these are
    /// aggregated.
    fn aggregate_of_all(&self, aggregate: &Aggregate) -> Result<LogicalPlan> {
        let found = names(1).swap_remove(0);
        let paired = self.with_rows(&aggregate.input, &found)?;
        let own = aggregate.aggr_expr.iter().map(|expr| {
            let (relation, name) = expr.qualified_name();
            Ok(of_matches(self.bound(expr.clone())?, &found)?.unalias().alias_qualified(relation, name))
        });
        let own = own.collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(paired).aggregate(self.keys(), own)?.build()
    }

    /// Every binding with the rows of a query, which have true in a column `found`; or with one row that has
    /// null there.
    fn with_rows(&self, query: &LogicalPlan, found: &str) -> Result<LogicalPlan> {
        let marked = |rows: LogicalPlan| {
            let columns = rows.schema().columns().into_iter().map(Expr::Column);
            let columns: Vec<Expr> = columns.chain([lit(true).alias(found)]).collect();
            LogicalPlanBuilder::from(rows).project(columns)?.build()
        };
        let (mut rows, mut conditions) = (query, Vec::new());
        while let LogicalPlan::Filter(filter) = rows {
            conditions.push(self.bound(filter.predicate.clone())?);
            rows = filter.input.as_ref();
        }
        // The usual case: outer columns are compared with uncorrelated rows. A join takes no subquery in its
        // condition.
        if !self.is_read_by(rows) && !conditions.iter().any(contains_subquery) {
            let builder = LogicalPlanBuilder::from(self.values.clone());
            let condition = conjunction(conditions).unwrap_or_else(|| lit(true));
            return builder.join_on(marked(rows.clone())?, JoinType::Left, [condition])?.build();
        }
        let other = self.renamed()?;
        let on = self.keys().into_iter().zip(other.keys()).collect();
        let rows = marked(other.evaluate(query)?)?;
        join(self.values.clone(), rows, on, None, JoinType::Left, NullEquality::NullEqualsNull)
    }

    /// The same bindings with other names.
    fn renamed(&self) -> Result<Bindings> {
        let names = names(self.width());
        let keys = self.keys().into_iter().zip(&names).map(|(key, name)| key.alias(name));
        let values = LogicalPlanBuilder::from(self.values.clone()).project(keys)?.build()?;
        Ok(Bindings { columns: self.columns.clone(), names, values })
    }

    /// A window function over each binding by itself.
    fn window(&self, window: &Window) -> Result<LogicalPlan> {
        let own = window.window_expr.iter().map(|expr| {
            let (relation, name) = expr.qualified_name();
            let inside = transform_expr_up(self.bound(expr.clone())?, &mut |e| match e {
                Expr::WindowFunction(mut function) => {
                    function.params.partition_by.extend(self.keys());
                    Ok(Transformed::yes(Expr::WindowFunction(function)))
                }
                e => Ok(Transformed::no(e)),
            })?;
            // The optimizer looks for the function below one alias, not below two.
            Ok(inside.data.unalias().alias_qualified(relation, name))
        });
        let own = own.collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(self.evaluate(&window.input)?).window(own)?.build()
    }

    /// A join of rows that have the same binding.
    fn join_within_bindings(&self, of: &Join) -> Result<LogicalPlan> {
        use JoinType::{
            Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi,
        };
        let (reads_left, reads_right) = (self.is_read_by(&of.left), self.is_read_by(&of.right));
        // A side whose rows are kept without a partner is kept for every binding.
        let (left, right) = match of.join_type {
            Inner if reads_right => (reads_left, true),
            Inner | Left | LeftSemi | LeftAnti | LeftMark => (true, reads_right),
            Right | RightSemi | RightAnti | RightMark => (reads_left, true),
            Full => (true, true),
        };
        let other = self.renamed()?;
        let same = match of.null_equality {
            NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
            NullEquality::NullEqualsNothing => Operator::Eq,
        };
        let on =
            of.on.iter().map(|(l, r)| Ok(binary_expr(self.bound(l.clone())?, same, self.bound(r.clone())?)));
        let filter = of.filter.iter().map(|filter| self.bound(filter.clone()));
        let mut conditions = on.chain(filter).collect::<Result<Vec<_>>>()?;
        let right_keys = if left { other.keys() } else { self.keys() };
        if left && right {
            let same = self.keys().into_iter().zip(other.keys());
            conditions.extend(same.map(|(l, r)| binary_expr(l, Operator::IsNotDistinctFrom, r)));
        }
        let left_rows = if left { self.evaluate(&of.left)? } else { of.left.as_ref().clone() };
        let right_rows = match (left, right) {
            (true, true) => other.evaluate(&of.right)?,
            (false, true) => self.evaluate(&of.right)?,
            _ => of.right.as_ref().clone(),
        };
        let condition = conjunction(conditions);
        let joined =
            join(left_rows, right_rows, vec![], condition, of.join_type, NullEquality::NullEqualsNothing)?;
        let keys = match of.join_type {
            Full => coalesced(self.keys(), &other.keys()),
            Right | RightSemi | RightAnti | RightMark => right_keys,
            _ if left => self.keys(),
            _ => right_keys,
        };
        let keys = keys.into_iter().zip(&self.names).map(|(key, name)| match &key {
            Expr::Column(column) if column.name == *name => key,
            _ => key.alias(name),
        });
        let own = of.schema.columns().into_iter().map(Expr::Column);
        LogicalPlanBuilder::from(joined).project(keys.chain(own).collect::<Vec<_>>())?.build()
    }
}

/// Keys of a full join, in which either side may be null.
fn coalesced(left: Vec<Expr>, right: &[Expr]) -> Vec<Expr> {
    let both = left.into_iter().zip(right);
    both.map(|(left, right)| datafusion::functions::core::expr_fn::coalesce(vec![left, right.clone()]))
        .collect()
}

/// An aggregate of the rows that have true in the column `found`.
fn of_matches(expr: Expr, found: &str) -> Result<Expr> {
    let changed = transform_expr_up(expr, &mut |e| match e {
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            let found = ident(found);
            params.filter = Some(Box::new(match params.filter.take() {
                Some(filter) => found.and(*filter),
                None => found,
            }));
            Ok(Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params })))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(changed.data)
}

/// A join of these sides.
fn join(
    left: LogicalPlan,
    right: LogicalPlan,
    on: Vec<(Expr, Expr)>,
    condition: Option<Expr>,
    kind: JoinType,
    nulls: NullEquality,
) -> Result<LogicalPlan> {
    let (left, right) = (Arc::new(left), Arc::new(right));
    Ok(LogicalPlan::Join(Join::try_new(left, right, on, condition, kind, JoinConstraint::On, nulls, false)?))
}

/// Fresh names for keys.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|_| fresh_name("binding")).collect()
}
