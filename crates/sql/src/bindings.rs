//! A subquery for all values from outside at once: the dependent join of Neumann and Kemper (2015, §3), taken down to where
//! nothing is read from outside any more.
//!
//! The *bindings* of a subquery are the different values that the columns which it reads from outside have. For a query `q`,
//! `each(q)` has the rows of `q` for every binding, with the binding's values before them. Every operator has a rule:
//! a filter and a projection read the values as columns, an aggregate, a window and a limit treat every binding by itself, and
//! what reads nothing from outside is there for every binding.
//!
//! Invariants: `each(q)` has the keys first, and behind them the columns of `q`, by the same names and in their order.
//! An aggregate without groups has one row for every binding, even where it has no rows to aggregate.

use crate::{fresh, single};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
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

/// The columns that a plan reads from outside. What subqueries in its expressions read is theirs.
pub(crate) fn outside(plan: &LogicalPlan) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    // The closures never fail.
    let _ = plan.apply(|plan| {
        plan.apply_expressions(|expr| {
            expr.apply(|e| match e {
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
            })
        })
    });
    columns
}

/// The different values from outside that a subquery is computed for.
pub(crate) struct Bindings {
    /// The columns from outside.
    columns: Vec<Column>,
    /// What their values are called in here.
    names: Vec<String>,
    /// The values, each combination once.
    values: LogicalPlan,
}

impl Bindings {
    /// Those of a query over the rows outside. Columns from farther outside are left to whoever knows them.
    pub fn of(rows: &LogicalPlan, query: &LogicalPlan) -> Result<Bindings> {
        let columns = outside(query).into_iter().filter(|column| rows.schema().has_column(column));
        let columns: Vec<Column> = columns.collect();
        let names = names(columns.len());
        let keys = columns.iter().zip(&names).map(|(column, name)| Expr::Column(column.clone()).alias(name));
        let values = LogicalPlanBuilder::from(rows.clone()).project(keys)?.distinct()?.build()?;
        Ok(Bindings { columns, names, values })
    }

    /// How many columns they have.
    pub fn width(&self) -> usize {
        self.names.len()
    }

    /// The keys, as columns.
    pub fn keys(&self) -> Vec<Expr> {
        self.names.iter().map(|name| ident(name.as_str())).collect()
    }

    /// The rows from outside, joined with what was computed for their bindings.
    pub fn meet(
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
    pub fn each(&self, query: &LogicalPlan) -> Result<LogicalPlan> {
        if !self.is_read_by(query) {
            return self.paired(query);
        }
        match query {
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::Filter(filter) => {
                let rows = LogicalPlanBuilder::from(self.each(&filter.input)?);
                rows.filter(self.inside(filter.predicate.clone())?)?.build()
            }
            LogicalPlan::SubqueryAlias(alias) => self.called(self.each(&alias.input)?, query.schema()),
            LogicalPlan::Subquery(lateral) => self.each(&lateral.subquery),
            // Rows have an order only where a limit asks for it.
            LogicalPlan::Sort(Sort { input, fetch: None, .. }) => self.each(input),
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                LogicalPlanBuilder::from(self.each(input)?).distinct()?.build()
            }
            LogicalPlan::Union(union) => {
                let inputs = union.inputs.iter().map(|input| Ok(Arc::new(self.each(input)?)));
                let union = Union::try_new_with_loose_types(inputs.collect::<Result<Vec<_>>>()?)?;
                self.called(LogicalPlan::Union(union), query.schema())
            }
            LogicalPlan::Unnest(unnest) => LogicalPlanBuilder::from(self.each(&unnest.input)?)
                .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
                .build(),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Values(values) => self.each(&single::selected(values)?),
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
        outside(plan).iter().any(|column| self.columns.contains(column))
    }

    /// What reads nothing from outside, for every binding.
    fn paired(&self, query: &LogicalPlan) -> Result<LogicalPlan> {
        let is_one_row = matches!(query, LogicalPlan::EmptyRelation(empty) if empty.produce_one_row);
        match (self.columns.is_empty(), is_one_row) {
            (true, _) => Ok(query.clone()),
            (false, true) => Ok(self.values.clone()),
            (false, false) => {
                LogicalPlanBuilder::from(self.values.clone()).cross_join(query.clone())?.build()
            }
        }
    }

    /// An expression in which the columns from outside are keys.
    fn inside(&self, expr: Expr) -> Result<Expr> {
        let inside = expr.transform_up(|e| match &e {
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

    /// The same, by the name that it has.
    fn named(&self, expr: &Expr) -> Result<Expr> {
        let (relation, name) = expr.qualified_name();
        let inside = self.inside(expr.clone())?;
        Ok(if inside == *expr { inside } else { inside.alias_qualified(relation, name) })
    }

    /// Behind the keys, the columns by the names that a schema gives them.
    fn called(&self, plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
        let columns = plan.schema().columns().into_iter().skip(self.width()).zip(schema.iter());
        let columns = columns.map(|(column, (relation, field))| {
            let same = column.relation.as_ref() == relation && column.name == *field.name();
            let value = Expr::Column(column);
            if same { value } else { value.alias_qualified(relation.cloned(), field.name()) }
        });
        let columns: Vec<Expr> = self.keys().into_iter().chain(columns).collect();
        LogicalPlanBuilder::from(plan).project(columns)?.build()
    }

    fn projection(&self, projection: &Projection) -> Result<LogicalPlan> {
        let rows = self.each(&projection.input)?;
        let own = projection.expr.iter().map(|expr| self.named(expr)).collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(rows).project(self.keys().into_iter().chain(own))?.build()
    }

    /// The first rows of every binding: those with the first numbers.
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
        let rows = self.each(input)?;
        let wanted: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
        let order = order.into_iter().map(|by| Ok(SortExpr { expr: self.inside(by.expr)?, ..by }));
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
        let groups = aggregate.group_expr.iter().map(|e| self.named(e)).collect::<Result<Vec<_>>>()?;
        let own = aggregate.aggr_expr.iter().map(|e| self.named(e)).collect::<Result<Vec<_>>>()?;
        let rows = LogicalPlanBuilder::from(self.each(&aggregate.input)?);
        rows.aggregate(self.keys().into_iter().chain(groups), own)?.build()
    }

    /// An aggregate without groups: every binding is joined with its rows, if it has any, and these are aggregated.
    fn aggregate_of_all(&self, aggregate: &Aggregate) -> Result<LogicalPlan> {
        let found = names(1).swap_remove(0);
        let paired = self.with_rows(&aggregate.input, &found)?;
        let own = aggregate.aggr_expr.iter().map(|expr| {
            let (relation, name) = expr.qualified_name();
            Ok(only(self.inside(expr.clone())?, &found)?.unalias().alias_qualified(relation, name))
        });
        let own = own.collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(paired).aggregate(self.keys(), own)?.build()
    }

    /// Every binding with the rows of a query, in which a column is true, and at least once: then it is null.
    fn with_rows(&self, query: &LogicalPlan, found: &str) -> Result<LogicalPlan> {
        let marked = |rows: LogicalPlan| {
            let columns = rows.schema().columns().into_iter().map(Expr::Column);
            let columns: Vec<Expr> = columns.chain([lit(true).alias(found)]).collect();
            LogicalPlanBuilder::from(rows).project(columns)?.build()
        };
        let (mut rows, mut conditions) = (query, Vec::new());
        while let LogicalPlan::Filter(filter) = rows {
            conditions.push(self.inside(filter.predicate.clone())?);
            rows = filter.input.as_ref();
        }
        // The usual case: what is read from outside is compared with rows that read nothing. A subquery has no place in the
        // condition of a join.
        if !self.is_read_by(rows) && !conditions.iter().any(single::asks) {
            let builder = LogicalPlanBuilder::from(self.values.clone());
            let condition = conjunction(conditions).unwrap_or_else(|| lit(true));
            return builder.join_on(marked(rows.clone())?, JoinType::Left, [condition])?.build();
        }
        let other = self.again()?;
        let on = self.keys().into_iter().zip(other.keys()).collect();
        let rows = marked(other.each(query)?)?;
        join(self.values.clone(), rows, on, None, JoinType::Left, NullEquality::NullEqualsNull)
    }

    /// The same bindings by other names.
    fn again(&self) -> Result<Bindings> {
        let names = names(self.width());
        let keys = self.keys().into_iter().zip(&names).map(|(key, name)| key.alias(name));
        let values = LogicalPlanBuilder::from(self.values.clone()).project(keys)?.build()?;
        Ok(Bindings { columns: self.columns.clone(), names, values })
    }

    /// A window of every binding by itself.
    fn window(&self, window: &Window) -> Result<LogicalPlan> {
        let own = window.window_expr.iter().map(|expr| {
            let (relation, name) = expr.qualified_name();
            let inside = self.inside(expr.clone())?.transform_up(|e| match e {
                Expr::WindowFunction(mut function) => {
                    function.params.partition_by.extend(self.keys());
                    Ok(Transformed::yes(Expr::WindowFunction(function)))
                }
                e => Ok(Transformed::no(e)),
            })?;
            // The optimizer looks below one name for the function, and not below two.
            Ok(inside.data.unalias().alias_qualified(relation, name))
        });
        let own = own.collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(self.each(&window.input)?).window(own)?.build()
    }

    /// A join of rows of the same binding.
    fn join(&self, of: &Join) -> Result<LogicalPlan> {
        use JoinType::{
            Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi,
        };
        let (reads_left, reads_right) = (self.is_read_by(&of.left), self.is_read_by(&of.right));
        // Rows that are kept whether they are joined or not are kept for every binding.
        let (left, right) = match of.join_type {
            Inner if reads_right => (reads_left, true),
            Inner | Left | LeftSemi | LeftAnti | LeftMark => (true, reads_right),
            Right | RightSemi | RightAnti | RightMark => (reads_left, true),
            Full => (true, true),
        };
        let other = self.again()?;
        let same = match of.null_equality {
            NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
            NullEquality::NullEqualsNothing => Operator::Eq,
        };
        let on = of
            .on
            .iter()
            .map(|(l, r)| Ok(binary_expr(self.inside(l.clone())?, same, self.inside(r.clone())?)));
        let filter = of.filter.iter().map(|filter| self.inside(filter.clone()));
        let mut conditions = on.chain(filter).collect::<Result<Vec<_>>>()?;
        let right_keys = if left { other.keys() } else { self.keys() };
        if left && right {
            let same = self.keys().into_iter().zip(other.keys());
            conditions.extend(same.map(|(l, r)| binary_expr(l, Operator::IsNotDistinctFrom, r)));
        }
        let left_rows = if left { self.each(&of.left)? } else { of.left.as_ref().clone() };
        let right_rows = match (left, right) {
            (true, true) => other.each(&of.right)?,
            (false, true) => self.each(&of.right)?,
            _ => of.right.as_ref().clone(),
        };
        let condition = conjunction(conditions);
        let joined =
            join(left_rows, right_rows, vec![], condition, of.join_type, NullEquality::NullEqualsNothing)?;
        let keys = match of.join_type {
            Full => either(self.keys(), &other.keys()),
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

/// Keys that may stand on either side.
fn either(left: Vec<Expr>, right: &[Expr]) -> Vec<Expr> {
    let both = left.into_iter().zip(right);
    both.map(|(left, right)| datafusion::functions::core::expr_fn::coalesce(vec![left, right.clone()]))
        .collect()
}

/// The aggregate of rows that were found.
fn only(expr: Expr, found: &str) -> Result<Expr> {
    let changed = expr.transform_up(|e| match e {
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

/// So many names that nothing else has.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|_| fresh::name("binding")).collect()
}
