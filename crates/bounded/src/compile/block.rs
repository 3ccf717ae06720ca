//! A tree of joins as a flat list of relations and predicates (piql.txt Algorithm 1, lines 1 and 2).
//!
//! The search for a join order and the pushdown of predicates work on this list.
//!
//! Invariant: after flattening, every expression is over columns `alias.column` of the relations, and aliases
//! are unique in the query. Projections and aliases between the joins are replaced by their expressions.

use super::compiler::Compiler;
use super::error::CompileError;
use super::expressions::{column, requalify, substitute};
use super::part::Required;
use crate::error::Error;
use crate::plan::{Chain, Step};
use crate::schema::Table;
use datafusion::common::{DFSchema, JoinType};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, SortExpr};
use std::sync::Arc;

/// The query around a subquery: its columns, and the expressions of the block that they stand for.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    /// The schema of the outer plan.
    pub schema: &'a DFSchema,
    /// The expressions that its columns stand for.
    pub outputs: &'a [Expr],
}

/// Relations and predicates.
#[derive(Debug, Clone, Default)]
pub(super) struct Block {
    /// The relations, in the order of the query.
    pub relations: Vec<Relation>,
    /// The predicates that every row has to meet.
    pub conjuncts: Vec<Expr>,
    /// `x in (select …)` is joined before the relation of `x`, where that is possible.
    pub subqueries_first: bool,
    /// The block has a subquery for which that is possible.
    pub can_put_subqueries_first: bool,
}

/// A relation of a block.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    /// What expressions call it.
    pub alias: String,
    /// Where its rows come from.
    pub rows: Rows,
    /// The condition of a left join, if this is its right side.
    pub outer: Option<Vec<Expr>>,
    /// Which of its matches a left join keeps.
    pub kept: Matches,
    /// Relations that have to be joined before it.
    pub after: Vec<String>,
}

/// Which matches a left join keeps for each row.
#[derive(Debug, Clone)]
pub(super) enum Matches {
    All,
    /// The first in this order.
    First(Vec<SortExpr>),
    /// Aggregates over them, with their names.
    Fold(Vec<(Expr, String)>),
}

impl Relation {
    /// Whether joining it keeps the number of rows.
    pub fn keeps_row_count(&self) -> bool {
        !matches!(self.kept, Matches::All)
    }
}

/// Where the rows of a relation come from.
#[derive(Debug, Clone)]
pub(super) enum Rows {
    /// A table of the store.
    Stored(Arc<Table>),
    /// A part of the query that was compiled separately.
    Derived(Chain),
}

impl Compiler<'_> {
    /// Flattens joins, filters and projections. Returns the output columns as expressions of the block.
    pub(super) fn flatten(&self, plan: &LogicalPlan, block: &mut Block) -> Result<Vec<Expr>, CompileError> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let table = self.schema.table(scan.table_name.table())?.clone();
                let alias = self.alias(&table.name);
                let all: Vec<usize> = (0..table.visible().len()).collect();
                let columns = scan.projection.as_ref().unwrap_or(&all);
                let outputs = columns.iter().map(|at| column(&alias, &table.columns[*at].name)).collect();
                block.relations.push(Relation::stored(alias, table));
                Ok(outputs)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let before = block.relations.len();
                let mut outputs = self.flatten(&alias.input, block)?;
                if let [relation] = &mut block.relations[before..] {
                    let renamed = self.alias(alias.alias.table());
                    let old = std::mem::replace(&mut relation.alias, renamed.clone());
                    relation.rename_columns();
                    outputs = outputs
                        .into_iter()
                        .map(|expr| requalify(expr, &old, &renamed))
                        .collect::<Result<_, _>>()?;
                    for expr in &mut block.conjuncts {
                        *expr = requalify(expr.clone(), &old, &renamed)?;
                    }
                }
                Ok(outputs)
            }
            LogicalPlan::Projection(projection) => {
                let inputs = self.flatten(&projection.input, block)?;
                let around = Around { schema: projection.input.schema(), outputs: &inputs };
                let mut output =
                    |expr| self.rewrite_subqueries(substitute(expr, around.schema, &inputs)?, around, block);
                projection.expr.iter().map(&mut output).collect()
            }
            LogicalPlan::Filter(filter) => {
                let inputs = self.flatten(&filter.input, block)?;
                let around = Around { schema: filter.input.schema(), outputs: &inputs };
                for predicate in
                    split_conjunction_owned(substitute(&filter.predicate, around.schema, &inputs)?)
                {
                    let predicate = self.rewrite_conjunct(predicate, around, block)?;
                    block.conjuncts.extend(predicate);
                }
                Ok(inputs)
            }
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => Ok(vec![]),
            LogicalPlan::Join(join) => self.flatten_join(join, block),
            other => self.derived_relation(other, block),
        }
    }

    /// Flattens both sides of a join. The right side of a left join has to be one table.
    fn flatten_join(&self, join: &Join, block: &mut Block) -> Result<Vec<Expr>, CompileError> {
        let (first, second) = match join.join_type {
            JoinType::Inner | JoinType::Left => (&join.left, &join.right),
            JoinType::Right => (&join.right, &join.left),
            JoinType::LeftSemi | JoinType::LeftAnti => return self.flatten_semi_join(join, block),
            other => {
                return Err(Error::invalid(format!(
                    "a {other} join is not supported: write it as an inner or a left join"
                ))
                .into());
            }
        };
        let mut first_outputs = self.flatten(first, block)?;
        let (relations, conjuncts) = (block.relations.len(), block.conjuncts.len());
        let mut second_outputs = self.flatten(second, block)?;
        if join.join_type == JoinType::Right {
            std::mem::swap(&mut first_outputs, &mut second_outputs);
        }
        let outputs: Vec<Expr> = first_outputs.into_iter().chain(second_outputs).collect();
        let mut predicates = Vec::new();
        for (left, right) in &join.on {
            predicates.push(substitute(&left.clone().eq(right.clone()), &join.schema, &outputs)?);
        }
        if let Some(filter) = &join.filter {
            predicates.extend(split_conjunction_owned(substitute(filter, &join.schema, &outputs)?));
        }
        if join.join_type == JoinType::Inner {
            block.conjuncts.extend(predicates);
            return Ok(outputs);
        }
        let after = block.relations[..relations].iter().map(|relation| relation.alias.clone()).collect();
        match &mut block.relations[relations..] {
            [relation] if relation.outer.is_none() && matches!(relation.rows, Rows::Stored(_)) => {
                // Predicates on the right side alone are part of the join's condition.
                predicates.extend(block.conjuncts.drain(conjuncts..));
                relation.outer = Some(predicates);
                relation.after = after;
                Ok(outputs)
            }
            _ => Err(Error::invalid("the optional side of a left join is one table: join others one by one")
                .into()),
        }
    }

    /// Flattens a semi join or an anti join, which `intersect` and `except` are.
    fn flatten_semi_join(&self, join: &Join, block: &mut Block) -> Result<Vec<Expr>, CompileError> {
        let left = self.flatten(&join.left, block)?;
        let predicates = |right: &[Expr]| {
            let sides = join.on.iter().map(|(l, r)| {
                let l = substitute(l, join.left.schema(), &left)?;
                Ok(l.eq(substitute(r, join.right.schema(), right)?))
            });
            sides.collect()
        };
        let around = Around { schema: join.left.schema(), outputs: &left };
        let found = self.semi_join(&join.right, predicates, around, block)?;
        block.conjuncts.push(match (join.join_type, found) {
            (JoinType::LeftAnti, Expr::IsNotNull(key)) => Expr::IsNull(key),
            (_, found) => found,
        });
        Ok(left)
    }

    /// Compiles any other operator separately, as a derived relation.
    pub(super) fn derived_relation(
        &self,
        plan: &LogicalPlan,
        block: &mut Block,
    ) -> Result<Vec<Expr>, CompileError> {
        let part = self.part(plan, &Required::default())?;
        let alias = self.alias("derived");
        let mut names: Vec<String> = Vec::new();
        for field in plan.schema().fields() {
            let taken = names.contains(field.name());
            names.push(if taken {
                format!("{}_{}", field.name(), names.len())
            } else {
                field.name().clone()
            });
        }
        let outputs = names.iter().map(|name| column(&alias, name)).collect();
        let mut chain = part.chain;
        let columns = part.outputs.into_iter().zip(names).collect();
        chain.steps.push(Step::Project { columns, qualifier: Some(alias.clone()) });
        block.relations.push(Relation {
            alias,
            rows: Rows::Derived(chain),
            outer: None,
            kept: Matches::All,
            after: vec![],
        });
        Ok(outputs)
    }
}

impl Relation {
    /// A table of the store as an inner relation.
    pub fn stored(alias: String, table: Arc<Table>) -> Relation {
        Relation { alias, rows: Rows::Stored(table), outer: None, kept: Matches::All, after: vec![] }
    }

    /// The last step of a derived relation names its columns.
    fn rename_columns(&mut self) {
        if let Rows::Derived(chain) = &mut self.rows
            && let Some(Step::Project { qualifier, .. }) = chain.steps.last_mut()
        {
            *qualifier = Some(self.alias.clone());
        }
    }
}
