//! Subqueries in expressions, as relations of the block around them.
//!
//! - `exists (…)` and `x in (select y …)` become a left join of which only the **first** row for each row is
//!   kept. The subquery itself becomes `key is not null`, which can be negated or be part of a larger
//!   expression.
//! - A conjunct whose subquery names at most one row becomes an inner join, so the search may begin with
//!   either side.
//! - `x in (select y …)` without outer columns can also be joined first: its distinct values are a derived
//!   relation. Both ways are compiled, and the cheaper one is used.
//! - `(select name from …)` becomes a left join by a unique key, or one that keeps the first row of `order by
//!   … limit 1`.
//! - `(select count(*) from …)` becomes a left join whose rows are aggregated for each row. One without outer
//!   columns that is not a search in one table becomes a derived relation of one row.
//!
//! Invariant: none of these changes the number of rows, except by a predicate of the block.

use super::block::{Around, Block, Matches, Relation, Rows};
use super::compiler::{Compiler, is_joins};
use super::error::CompileError;
use super::expressions::{column, columns, equality, relations, substitute, substitute_order};
use super::min_max::first_row_plan;
use super::predicates::column_type;
use crate::datum::Type;
use crate::error::Error;
use crate::plan::unparse;
use crate::schema::Table;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Distinct, Expr, FetchType, LogicalPlan, SkipType, SortExpr, Subquery};
use std::sync::Arc;

/// A subquery that searches for a row of one table.
struct Lookup {
    /// The relation, as the block calls it.
    alias: String,
    /// The table.
    table: Arc<Table>,
    /// The predicates on it.
    predicates: Vec<Expr>,
    /// The columns that the subquery selects.
    outputs: Vec<Expr>,
    /// The order in which the first row is the result.
    order: Vec<SortExpr>,
    /// Its `limit`. No predicate can be added to a subquery with a limit.
    limit: Option<u64>,
}

impl Compiler<'_> {
    /// The expression with its subqueries turned into relations of the block.
    pub(super) fn rewrite_subqueries(
        &self,
        expr: Expr,
        around: Around<'_>,
        block: &mut Block,
    ) -> Result<Expr, CompileError> {
        let mut failed = None;
        let expr = expr.transform_down(|expr| {
            let rewritten = match &expr {
                Expr::Exists(exists) => self.exists(exists, around, block),
                Expr::InSubquery(within) => self.in_subquery(within, around, block),
                Expr::ScalarSubquery(subquery) => self.scalar_subquery(subquery, around, block),
                _ => return Ok(Transformed::no(expr)),
            };
            Ok(match rewritten {
                Ok(rewritten) => Transformed::new(rewritten, true, TreeNodeRecursion::Jump),
                Err(error) => {
                    failed = Some(error);
                    Transformed::new(expr, false, TreeNodeRecursion::Stop)
                }
            })
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(expr.map_err(Error::from)?.data),
        }
    }

    /// The same for a conjunct; `None` if a join implies it.
    pub(super) fn rewrite_conjunct(
        &self,
        expr: Expr,
        around: Around<'_>,
        block: &mut Block,
    ) -> Result<Option<Expr>, CompileError> {
        let (subquery, equal) = match &expr {
            Expr::Exists(Exists { subquery, negated: false }) => (subquery, None),
            Expr::InSubquery(InSubquery { expr, subquery, negated: false }) => (subquery, Some(expr)),
            _ => return self.rewrite_subqueries(expr, around, block).map(Some),
        };
        let aliases = self.aliases.borrow().clone();
        let lookup =
            self.lookup(&subquery.subquery, around)?.filter(|l| equal.is_none() || l.limit.is_none());
        let alone = equal.filter(|_| subquery.outer_ref_columns.is_empty());
        block.can_put_subqueries_first |= alone.is_some();
        match (lookup, alone) {
            (lookup, Some(expr)) if block.subqueries_first || lookup.is_none() => {
                self.aliases.replace(aliases);
                let values = LogicalPlan::Distinct(Distinct::All(subquery.subquery.clone()));
                let outputs = self.derived_relation(&values, block)?;
                Ok(outputs.into_iter().next().map(|value| expr.as_ref().clone().eq(value)))
            }
            (Some(mut lookup), _) => {
                lookup
                    .predicates
                    .extend(equal.map(|expr| expr.as_ref().clone().eq(lookup.outputs[0].clone())));
                if lookup.finds_one(block) {
                    block.conjuncts.append(&mut lookup.predicates);
                    block.relations.push(Relation::stored(lookup.alias, lookup.table));
                    return Ok(None);
                }
                Ok(Some(lookup.join(block)))
            }
            (None, _) => Err(unsupported_subquery("exists (…)")),
        }
    }

    /// A semi join: true for the rows of the left side that have a match in the right side.
    pub(super) fn semi_join(
        &self,
        right: &LogicalPlan,
        predicates: impl Fn(&[Expr]) -> Result<Vec<Expr>, CompileError>,
        around: Around<'_>,
        block: &mut Block,
    ) -> Result<Expr, CompileError> {
        let lookup = self.lookup(right, around)?.filter(|lookup| lookup.limit.is_none());
        let mut lookup = lookup.ok_or_else(|| unsupported_subquery("intersect or except"))?;
        let equalities = predicates(&lookup.outputs)?;
        for (left, right) in equalities.iter().filter_map(equality) {
            if self.may_be_null(left, block) && lookup.may_be_null(right) {
                return Err(Error::invalid(
                    "intersect and except take nulls for equal, and no index does: leave out columns that may be null",
                )
                .into());
            }
        }
        lookup.predicates.extend(equalities);
        Ok(lookup.join(block))
    }

    /// `exists (…)` as a test of a left join's key.
    fn exists(&self, exists: &Exists, around: Around<'_>, block: &mut Block) -> Result<Expr, CompileError> {
        let lookup = self.lookup(&exists.subquery.subquery, around)?;
        let found = lookup.ok_or_else(|| unsupported_subquery("exists (…)"))?.join(block);
        Ok(if exists.negated { negate(found) } else { found })
    }

    /// `x in (select …)` within a larger expression, as a test of a left join's key.
    fn in_subquery(
        &self,
        within: &InSubquery,
        around: Around<'_>,
        block: &mut Block,
    ) -> Result<Expr, CompileError> {
        let lookup = self.lookup(&within.subquery.subquery, around)?.filter(|lookup| lookup.limit.is_none());
        let mut lookup = lookup.ok_or_else(|| unsupported_subquery("in (select …)"))?;
        let (expr, value) = (within.expr.as_ref().clone(), lookup.outputs[0].clone());
        // With a null on either side the result is null, which a lookup cannot return.
        if self.may_be_null(&expr, block) || lookup.may_be_null(&value) {
            return Err(Error::invalid(format!(
                "{} or {} may be null, and `in` is then neither true nor false: write exists (select … where … = …)",
                unparse(&expr),
                unparse(&value)
            ))
            .into());
        }
        lookup.predicates.push(expr.eq(value));
        let found = lookup.join(block);
        Ok(if within.negated { negate(found) } else { found })
    }

    /// `(select …)` as a column of a left join or of a derived relation.
    fn scalar_subquery(
        &self,
        subquery: &Subquery,
        around: Around<'_>,
        block: &mut Block,
    ) -> Result<Expr, CompileError> {
        if is_one_row(&subquery.subquery) {
            let outputs = match self.aggregate_subquery(&subquery.subquery, around, block)? {
                Some(outputs) => outputs,
                None if subquery.outer_ref_columns.is_empty() => {
                    self.derived_relation(&subquery.subquery, block)?
                }
                None => vec![],
            };
            return outputs.into_iter().next().ok_or_else(|| unsupported_subquery("(select …)"));
        }
        let lookup = self.lookup_first(&subquery.subquery, around)?;
        let lookup = lookup.filter(|lookup| lookup.limit == Some(1) || lookup.finds_one(block));
        let lookup = lookup.ok_or_else(|| unsupported_subquery("(select …)"))?;
        let value = lookup.outputs[0].clone();
        if !matches!(value, Expr::Column(_)) {
            return Err(Error::invalid(format!(
                "a subquery in an expression selects a column: compute {value} outside of it"
            ))
            .into());
        }
        lookup.join(block);
        Ok(value)
    }

    /// Aggregates over the rows of a search in one table, computed for each outer row; `None` if the subquery
    /// is more than that.
    fn aggregate_subquery(
        &self,
        plan: &LogicalPlan,
        around: Around<'_>,
        block: &mut Block,
    ) -> Result<Option<Vec<Expr>>, CompileError> {
        match plan {
            LogicalPlan::Projection(projection) => {
                let Some(inputs) = self.aggregate_subquery(&projection.input, around, block)? else {
                    return Ok(None);
                };
                let schema = projection.input.schema();
                let outputs = projection
                    .expr
                    .iter()
                    .map(|expr| resolve_outer_columns(substitute(expr, schema, &inputs)?, around));
                outputs.collect::<Result<_, _>>().map(Some)
            }
            LogicalPlan::SubqueryAlias(alias) => self.aggregate_subquery(&alias.input, around, block),
            LogicalPlan::Aggregate(aggregate) if is_joins(&aggregate.input) => {
                let aliases = self.aliases.borrow().clone();
                let Some(lookup) = self.lookup(&aggregate.input, around)? else { return Ok(None) };
                // A minimum or maximum over any number of rows is read by an index, as a derived relation.
                if lookup.max_rows(block).is_none() && first_row_plan(aggregate)?.is_some() {
                    self.aliases.replace(aliases);
                    return Ok(None);
                }
                let schema = aggregate.input.schema();
                let fold = |(at, expr)| {
                    let expr = resolve_outer_columns(substitute(expr, schema, &lookup.outputs)?, around)?;
                    // No column of a table has such a name.
                    Ok((expr, format!("#{at}")))
                };
                let folds = aggregate
                    .aggr_expr
                    .iter()
                    .enumerate()
                    .map(fold)
                    .collect::<Result<Vec<_>, CompileError>>()?;
                let outputs = folds.iter().map(|(_, name)| column(&lookup.alias, name)).collect();
                lookup.join_as(Matches::Fold(folds), block);
                Ok(Some(outputs))
            }
            _ => Ok(None),
        }
    }

    /// A subquery as a search for any row of one table; `None` if it is more than that.
    fn lookup(&self, plan: &LogicalPlan, around: Around<'_>) -> Result<Option<Lookup>, CompileError> {
        Ok(self.lookup_first(plan, around)?.map(|lookup| Lookup { order: vec![], ..lookup }))
    }

    /// The same for the first row in the order of the subquery.
    fn lookup_first(&self, plan: &LogicalPlan, around: Around<'_>) -> Result<Option<Lookup>, CompileError> {
        let mut block = Block::default();
        let mut shape = Shape::default();
        let Some(outputs) = self.lookup_shape(plan, &mut block, &mut shape)? else { return Ok(None) };
        let [Relation { alias, rows: Rows::Stored(table), outer: None, .. }] = block.relations.as_slice()
        else {
            return Ok(None);
        };
        let resolve = |expr: Expr| resolve_outer_columns(expr, around);
        let order = shape.order.into_iter();
        Ok(Some(Lookup {
            alias: alias.clone(),
            table: table.clone(),
            predicates: block.conjuncts.into_iter().map(resolve).collect::<Result<_, _>>()?,
            outputs: outputs.into_iter().map(resolve).collect::<Result<_, _>>()?,
            order: order
                .map(|key| Ok(SortExpr { expr: resolve(key.expr)?, ..key }))
                .collect::<Result<_, CompileError>>()?,
            limit: shape.limit,
        }))
    }

    /// Removes order, limit and distinct, which only decide which row is the first.
    fn lookup_shape(
        &self,
        plan: &LogicalPlan,
        block: &mut Block,
        shape: &mut Shape,
    ) -> Result<Option<Vec<Expr>>, CompileError> {
        match plan {
            LogicalPlan::Limit(limit) => match (limit.get_skip_type()?, limit.get_fetch_type()?) {
                (SkipType::Literal(0), FetchType::Literal(Some(rows))) if rows > 0 => {
                    shape.limit = Some(rows as u64);
                    self.lookup_shape(&limit.input, block, shape)
                }
                _ => Ok(None),
            },
            LogicalPlan::Sort(sort) => {
                let Some(outputs) = self.lookup_shape(&sort.input, block, shape)? else { return Ok(None) };
                shape.order = substitute_order(&sort.expr, &sort.input, &outputs)?;
                Ok(Some(outputs))
            }
            LogicalPlan::Distinct(Distinct::All(input)) => self.lookup_shape(input, block, shape),
            LogicalPlan::Projection(projection) if !is_joins(&projection.input) => {
                let Some(inputs) = self.lookup_shape(&projection.input, block, shape)? else {
                    return Ok(None);
                };
                let schema = projection.input.schema();
                let outputs = projection.expr.iter().map(|expr| substitute(expr, schema, &inputs));
                outputs.collect::<Result<_, _>>().map(Some)
            }
            joins if is_joins(joins) => self.flatten(joins, block).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether an expression of the block can be null.
    fn may_be_null(&self, expr: &Expr, block: &Block) -> bool {
        match expr {
            Expr::Literal(value, _) => value.is_null(),
            Expr::Column(column) => block.relations.iter().all(|relation| match &relation.rows {
                Rows::Stored(table) => {
                    let here = column.relation.as_ref().is_some_and(|r| r.table() == relation.alias);
                    !here || relation.outer.is_some() || nullable(table, &column.name)
                }
                Rows::Derived(_) => true,
            }),
            _ => true,
        }
    }
}

/// The order and limit of a subquery.
#[derive(Default)]
struct Shape {
    order: Vec<SortExpr>,
    limit: Option<u64>,
}

impl Lookup {
    /// Whether its predicates find at most one row, for each outer row.
    fn finds_one(&self, block: &Block) -> bool {
        self.max_rows(block) == Some(1)
    }

    /// The most rows that it finds for each outer row, if the schema limits them.
    fn max_rows(&self, block: &Block) -> Option<u64> {
        let here = |expr: &Expr| match expr {
            Expr::Column(column) => column
                .relation
                .as_ref()
                .filter(|relation| relation.table() == self.alias)
                .and_then(|_| self.table.column(&column.name).ok()),
            _ => None,
        };
        let is_key_value = |at: usize, other: &Expr| match other {
            // A value of another type cannot be a key.
            Expr::Column(column) => column_type(column, block)
                .is_some_and(|of| Type::same_keys(&of, &self.table.columns[at].of.arrow())),
            other => columns(other).is_empty(),
        };
        let equal = self.predicates.iter().filter_map(equality).filter_map(|(left, right)| {
            match (here(left), here(right)) {
                (Some(at), None) if is_key_value(at, right) => Some(at),
                (None, Some(at)) if is_key_value(at, left) => Some(at),
                _ => None,
            }
        });
        let equal: Vec<usize> = equal.collect();
        self.table.max_rows_with(&equal)
    }

    /// Whether a column of the subquery's table may be null.
    fn may_be_null(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Column(column) => nullable(&self.table, &column.name),
            _ => true,
        }
    }

    /// Joins the relation, and returns the test whether a row was found.
    fn join(mut self, block: &mut Block) -> Expr {
        let key = self.table.key_columns()[0];
        let found = column(&self.alias, &self.table.columns[key].name).is_not_null();
        let first = Matches::First(std::mem::take(&mut self.order));
        self.join_as(first, block);
        found
    }

    /// Adds the relation to the block, as the right side of a left join.
    fn join_as(self, kept: Matches, block: &mut Block) {
        let kept_by: Vec<&Expr> = match &kept {
            Matches::All => vec![],
            Matches::First(order) => order.iter().map(|key| &key.expr).collect(),
            Matches::Fold(folds) => folds.iter().map(|(expr, _)| expr).collect(),
        };
        let spoken_of = self.predicates.iter().chain(kept_by).flat_map(relations);
        let after = spoken_of.filter(|alias| *alias != self.alias).collect();
        let outer = Some(self.predicates);
        block.relations.push(Relation { outer, kept, after, ..Relation::stored(self.alias, self.table) });
    }
}

/// Whether a column of a table may be null; unknown columns may.
fn nullable(table: &Table, column: &str) -> bool {
    table.column(column).map_or(true, |at| table.columns[at].is_nullable())
}

/// The opposite test, without a `not` that would hide its meaning.
fn negate(found: Expr) -> Expr {
    match found {
        Expr::IsNotNull(key) => Expr::IsNull(key),
        other => Expr::Not(Box::new(other)),
    }
}

/// Outer columns replaced by the expressions that they stand for.
fn resolve_outer_columns(expr: Expr, around: Around<'_>) -> Result<Expr, CompileError> {
    let replaced = expr.transform(|expr| {
        Ok(match &expr {
            Expr::OuterReferenceColumn(_, column) => {
                Transformed::yes(around.outputs[around.schema.index_of_column(column)?].clone())
            }
            _ => Transformed::no(expr),
        })
    });
    Ok(replaced.map_err(Error::from)?.data)
}

/// Whether a plan has one row whatever is in the store.
fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// The error for a subquery that is more than a search in one table.
fn unsupported_subquery(what: &str) -> CompileError {
    Error::invalid(format!(
        "the subquery of {what} is more than a search for a row of one table by a key: write it as a join, or ask twice"
    ))
    .into()
}
