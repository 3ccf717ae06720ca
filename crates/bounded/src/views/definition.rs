//! The definition of a view: inner joins, filters, groups, and aggregates that can be maintained.
//!
//! Every view is a grouping. One without aggregates is grouped by its columns and the keys of its tables, so
//! that two equal rows stay two. The table of a view has the columns of its query, and hidden columns for
//! maintenance: keys, the number of rows of a group, and the sum behind an average.

use super::layout::Layout;
use super::shape::{Aggregate, Function, Output, Relation, Slot, stored_type};
use crate::compile::Planner;
use crate::datum::Type;
use crate::error::{Error, Result};
use crate::expression::coerced;
use crate::schema::{Schema, Table};
use crate::syntax;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, TableReference};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::sql::sqlparser::ast::{JoinConstraint, JoinOperator, SelectItem, SetExpr, Statement};

/// What a view is.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    /// The joins and their predicates.
    pub input: LogicalPlan,
    /// The tables in it, in the order of the query.
    pub relations: Vec<Relation>,
    /// The expressions of `group by`, over the input.
    pub group: Vec<Expr>,
    /// What is computed of each group.
    pub aggregates: Vec<Aggregate>,
    /// The content of each column.
    pub slots: Vec<Slot>,
    /// The table of the view.
    pub table: Table,
}

impl Definition {
    /// Reads the query of a view.
    ///
    /// # Errors
    /// `Invalid` if the query is wrong, or cannot be maintained.
    pub fn new(schema: &Schema, name: &str, sql: &str) -> Result<Definition> {
        let parsed = syntax::parse(sql)?;
        if !parsed.parameters.is_empty() || parsed.paginate.is_some() || parsed.allowed.is_some() {
            return Err(Error::invalid(
                "a view has no parameters and no pages: group by the column, and give its value when you read the view",
            ));
        }
        check_named_columns(&parsed.statement)?;
        let plan = Planner::new(schema).plan(parsed.statement)?;
        let Shape { input, mut group, calls, outputs } = Shape::of(&plan)?;
        let mut relations = Vec::new();
        let mut conjuncts = Vec::new();
        read(schema, input, &mut relations, &mut conjuncts)?;
        if calls.is_none() {
            add_keys(&relations, &mut group);
        }
        let aggregates = aggregates(calls.unwrap_or_default(), input.schema())?;
        let exprs = group.iter().chain(aggregates.iter().filter_map(|aggregate| aggregate.argument.as_ref()));
        let exprs: Vec<&Expr> = exprs.chain(&conjuncts).collect();
        exprs.iter().try_for_each(|expr| check_no_subquery(expr))?;
        collect_used_columns(&mut relations, exprs.into_iter())?;
        mark_parents(&mut relations, &conjuncts);
        let layout = Layout::of(&relations, input.schema(), &group, &aggregates, outputs)?;
        let (table, slots) = layout.table(name, sql);
        Ok(Definition { input: input.clone(), relations, group, aggregates, slots, table })
    }

    /// The driving relation: the view is filled by its rows, and each of them has a bounded delta.
    pub fn driver(&self) -> Option<&Relation> {
        self.relations.iter().find(|relation| !relation.parent)
    }

    /// The column of a slot.
    pub fn column(&self, slot: Slot) -> Option<usize> {
        self.slots.iter().position(|existing| *existing == slot)
    }
}

/// The parts of a query.
struct Shape<'p> {
    input: &'p LogicalPlan,
    group: Vec<Expr>,
    /// Its aggregates; `None` if it has no grouping.
    calls: Option<Vec<AggregateFunction>>,
    outputs: Vec<Output>,
}

impl Shape<'_> {
    /// Splits the plan of a query into its parts.
    fn of(plan: &LogicalPlan) -> Result<Shape<'_>> {
        let LogicalPlan::Projection(projection) = plan else { return Err(unkeepable(plan)) };
        let names = projection.schema.fields().iter().map(|field| field.name().clone());
        let exprs = projection.expr.iter().map(unaliased);
        let LogicalPlan::Aggregate(aggregate) = projection.input.as_ref() else {
            let outputs = names.enumerate().map(|(at, name)| (Slot::Group(at), name)).collect();
            return Ok(Shape { input: &projection.input, group: exprs.collect(), calls: None, outputs });
        };
        let groups = aggregate.group_expr.len();
        let output = |(expr, name): (Expr, String)| {
            let Expr::Column(column) = expr else {
                return Err(Error::invalid(format!(
                    "{expr}: a view keeps what it groups by and its aggregates; compute with them when you read it"
                )));
            };
            let at = aggregate.schema.index_of_column(&column)?;
            Ok((if at < groups { Slot::Group(at) } else { Slot::Value(at - groups) }, name))
        };
        Ok(Shape {
            input: &aggregate.input,
            group: aggregate.group_expr.iter().map(unaliased).collect(),
            calls: Some(aggregate.aggr_expr.iter().map(call).collect::<Result<_>>()?),
            outputs: exprs.zip(names).map(output).collect::<Result<_>>()?,
        })
    }
}

/// The expression without its names.
fn unaliased(expr: &Expr) -> Expr {
    expr.clone().unalias_nested().data
}

/// Refuses `*` and natural joins, which would change with the columns of a table.
fn check_named_columns(statement: &Statement) -> Result<()> {
    let Statement::Query(query) = statement else { return Ok(()) };
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    let all = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let mut joins = select.from.iter().flat_map(|from| &from.joins);
    let natural = joins.any(|join| {
        matches!(
            &join.join_operator,
            JoinOperator::Join(JoinConstraint::Natural) | JoinOperator::Inner(JoinConstraint::Natural)
        )
    });
    match natural || select.projection.iter().any(all) {
        true => Err(Error::invalid(
            "a view names its columns: with * or a natural join it would be another once a table has more columns",
        )),
        false => Ok(()),
    }
}

/// The aggregate that an expression is.
fn call(expr: &Expr) -> Result<AggregateFunction> {
    match unaliased(expr) {
        Expr::AggregateFunction(call) => Ok(call),
        other => Err(Error::invalid(format!("{other} cannot be kept in a view"))),
    }
}

/// The error for an operator that a view cannot have.
fn unkeepable(plan: &LogicalPlan) -> Error {
    let what = match plan {
        LogicalPlan::Sort(_) => "order by",
        LogicalPlan::Limit(_) => "limit",
        LogicalPlan::Distinct(_) => "distinct",
        LogicalPlan::Union(_) => "union",
        LogicalPlan::Window(_) => "a window function",
        LogicalPlan::Filter(_) | LogicalPlan::Aggregate(_) => "having",
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::Projection(_) => "a subquery",
        LogicalPlan::Join(_) => "an outer join",
        _ => "this",
    };
    Error::invalid(format!(
        "{what} cannot be kept in a view: a view is inner joins of tables, where and group by; \
         sort, limit and filter when you read it"
    ))
}

/// Collects the tables of the joins, and the predicates.
fn read(
    schema: &Schema,
    plan: &LogicalPlan,
    relations: &mut Vec<Relation>,
    conjuncts: &mut Vec<Expr>,
) -> Result<()> {
    let mut relation = |alias: &str, table: &str| {
        let table = schema.table(table)?.clone();
        if table.view.is_some() {
            return Err(Error::invalid(format!("{alias} is a view: a view is of tables")));
        }
        relations.push(Relation { alias: alias.to_string(), table, used: vec![], parent: false });
        Ok(())
    };
    match plan {
        LogicalPlan::TableScan(scan) => relation(scan.table_name.table(), scan.table_name.table()),
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::TableScan(scan) => relation(alias.alias.table(), scan.table_name.table()),
            _ => Err(unkeepable(plan)),
        },
        LogicalPlan::Filter(filter) => {
            conjuncts.extend(split_conjunction(&filter.predicate).into_iter().cloned());
            read(schema, &filter.input, relations, conjuncts)
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            conjuncts.extend(join.on.iter().map(|(left, right)| left.clone().eq(right.clone())));
            conjuncts.extend(join.filter.iter().flat_map(|filter| split_conjunction(filter)).cloned());
            read(schema, &join.left, relations, conjuncts)?;
            read(schema, &join.right, relations, conjuncts)
        }
        other => Err(unkeepable(other)),
    }
}

/// Adds the primary keys of all tables to the groups.
fn add_keys(relations: &[Relation], group: &mut Vec<Expr>) {
    for relation in relations {
        for at in relation.table.key_columns() {
            let name = &relation.table.columns[at].name;
            let key = Expr::Column(Column::new(Some(TableReference::bare(relation.alias.as_str())), name));
            if !group.contains(&key) {
                group.push(key);
            }
        }
    }
}

/// The aggregates of a view, with the types of their arguments.
fn aggregates(calls: Vec<AggregateFunction>, input: &DFSchema) -> Result<Vec<Aggregate>> {
    let one = |call: AggregateFunction| {
        let function = Function::of(&call)?;
        let argument = call.params.args.first().cloned().filter(|_| function != Function::Rows);
        let of = match &argument {
            Some(argument) => stored_type(&coerced(argument.clone(), input)?.get_type(input)?, argument)?,
            None => Type::Int64,
        };
        if matches!(function, Function::Sum | Function::Average) && of == Type::Float64 {
            return Err(Error::invalid(format!(
                "{}: a sum of floating-point numbers drifts as rows come and go: \
                 sum decimals, cast(… as decimal(15, 2))",
                call.func.name()
            )));
        }
        Ok(Aggregate { function, argument, of })
    };
    calls.into_iter().map(one).collect()
}

/// Refuses subqueries: no delta follows their rows.
fn check_no_subquery(expr: &Expr) -> Result<()> {
    let asks = expr.exists(|expr| {
        Ok(matches!(
            expr,
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)
        ))
    })?;
    match asks {
        true => Err(Error::invalid(
            "a subquery cannot be kept in a view: join its table, or ask when you read the view",
        )),
        false => Ok(()),
    }
}

/// Collects the columns of each relation that expressions use.
fn collect_used_columns<'e>(relations: &mut [Relation], exprs: impl Iterator<Item = &'e Expr>) -> Result<()> {
    for expr in exprs {
        expr.apply(|expr| {
            if let Expr::Column(column) = expr
                && let Some(alias) = &column.relation
                && let Some(relation) = relations.iter_mut().find(|relation| relation.alias == alias.table())
                && let Ok(at) = relation.table.column(&column.name)
                && !relation.table.key_columns().contains(&at)
                && !relation.used.contains(&at)
            {
                relation.used.push(at);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(())
}

/// Marks the relations that others refer to. A table that occurs twice is not marked.
fn mark_parents(relations: &mut [Relation], conjuncts: &[Expr]) {
    let all = relations.to_vec();
    for relation in relations.iter_mut() {
        let once = all.iter().filter(|other| other.table.name == relation.table.name).count() == 1;
        let refers = |from: &Relation| {
            from.table.foreign_keys.iter().filter(|key| key.table == relation.table.name).any(|key| {
                key.columns.iter().zip(relation.table.key_columns()).all(|(at, to)| {
                    let from = (from.alias.as_str(), from.table.columns[*at].name.as_str());
                    let to = (relation.alias.as_str(), relation.table.columns[to].name.as_str());
                    conjuncts.iter().any(|conjunct| equates(conjunct, from, to))
                })
            })
        };
        relation.parent = once && all.iter().any(refers);
    }
}

/// Whether a predicate says that two columns are equal.
fn equates(conjunct: &Expr, one: (&str, &str), other: (&str, &str)) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = conjunct else { return false };
    let is = |expr: &Expr, (alias, name): (&str, &str)| match expr {
        Expr::Column(column) => {
            column.name == name && column.relation.as_ref().is_some_and(|of| of.table() == alias)
        }
        _ => false,
    };
    (is(left, one) && is(right, other)) || (is(left, other) && is(right, one))
}
