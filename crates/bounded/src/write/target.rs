//! The target of a write: its table, the columns that it changes, and what it returns.

use super::literals::check_literals;
use crate::compile::{Planner, check};
use crate::error::{Error, Result};
use crate::mutation::WriteKind;
use crate::plan::{Chain, Source, Step};
use crate::schema::{Index, IndexKind, KeyPart, Schema, Table, fresh_name};
use crate::syntax::{self, Parsed, Returning};
use crate::views::Maintained;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, WriteOp};
use std::sync::Arc;

/// What a statement writes, and where.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// What is done with the rows.
    pub kind: WriteKind,
    /// The table.
    pub table: Arc<Table>,
    /// The columns that can change: all of them, unless it is an update.
    pub changed: Vec<usize>,
    /// The views that are kept.
    pub views: Arc<Vec<Maintained>>,
}

/// The query for the rows of a write, and the write's target.
pub(crate) fn plan_target(
    schema: &Schema,
    parsed: &Parsed,
    logical: LogicalPlan,
) -> Result<(LogicalPlan, Option<Target>)> {
    let LogicalPlan::Dml(dml) = logical else {
        return match logical {
            LogicalPlan::Ddl(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Copy(_) => Err(Error::invalid(
                "a statement is a query, insert, upsert, update, delete, or a change of the schema",
            )),
            query => Ok((query, None)),
        };
    };
    let table = schema.table(dml.table_name.table())?.clone();
    if table.view.is_some() {
        return Err(Error::invalid(format!("{} is a view: its rows follow from its tables", table.name)));
    }
    let kind = match dml.op {
        WriteOp::Insert(InsertOp::Append) if parsed.upsert => WriteKind::Upsert,
        WriteOp::Insert(InsertOp::Append) => WriteKind::Insert,
        WriteOp::Update => WriteKind::Update,
        WriteOp::Delete => WriteKind::Delete,
        _ => return Err(Error::invalid("rows are written by insert, upsert, update and delete")),
    };
    if kind != WriteKind::Delete {
        check_literals(&table, &dml.input)?;
    }
    let all = (0..table.columns.len()).collect();
    let (query, changed) = match kind {
        WriteKind::Update => before_and_after(&table, &dml.input)?,
        _ => (dml.input.as_ref().clone(), all),
    };
    Ok((query, Some(Target { kind, table, changed, views: Arc::default() })))
}

/// The projection from the columns of a table to those that a write returns.
pub(crate) fn returning_chain(schema: &Schema, table: &Table, returning: &Returning) -> Result<Chain> {
    let items: Vec<String> = returning.items.iter().map(ToString::to_string).collect();
    let alias = returning.alias.as_ref().map_or_else(String::new, |alias| format!(" as {alias}"));
    let select = syntax::parse(&format!(
        "select {} from {}{alias}",
        items.join(", "),
        syntax::quote_name(&table.name)
    ))?;
    let plan = Planner::new(schema).plan(select.statement)?;
    let projection = match &plan {
        LogicalPlan::Projection(projection)
            if matches!(*projection.input, LogicalPlan::TableScan(_) | LogicalPlan::SubqueryAlias(_)) =>
        {
            projection
        }
        _ => {
            return Err(Error::invalid(
                "returning has expressions of the rows that were written, and no others",
            ));
        }
    };
    let names = projection.schema.fields().iter().map(|field| field.name().clone());
    projection.expr.iter().try_for_each(check)?;
    if !select.parameters.is_empty() {
        return Err(Error::invalid("returning takes no parameters: compute with the rows that come back"));
    }
    let columns = projection.expr.iter().cloned().map(unqualified).zip(names);
    let columns = columns.map(|(expr, name)| Ok((expr?, name))).collect::<Result<_>>()?;
    let fields = table.arrow_schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    Ok(Chain {
        source: Source::Values { fields, rows: vec![] },
        steps: vec![Step::Project { columns, qualifier: None }],
    })
}

/// The expression with columns that name no relation.
fn unqualified(expr: Expr) -> Result<Expr> {
    let expr = expr.transform(|expr| {
        Ok(match expr {
            Expr::Column(column) => Transformed::yes(Expr::Column(Column::new_unqualified(column.name))),
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            other => Transformed::no(other),
        })
    });
    Ok(expr?.data)
}

/// The query for an update: the old values of all columns, then the new ones; and the columns that are set.
fn before_and_after(table: &Table, input: &LogicalPlan) -> Result<(LogicalPlan, Vec<usize>)> {
    let LogicalPlan::Projection(after) = input else {
        return Err(Error::invalid("update sets columns of one table: update t set a = ? where key = ?"));
    };
    let before = after.input.schema().columns().into_iter().take(table.columns.len());
    let before = before.enumerate().map(|(at, column)| Expr::Column(column).alias(format!("before{at}")));
    let after_exprs =
        after.expr.iter().enumerate().map(|(at, expr)| expr.clone().unalias().alias(format!("after{at}")));
    let exprs: Vec<Expr> = before.chain(after_exprs).collect();
    let is_set = |at: &usize| match after.expr[*at].clone().unalias() {
        Expr::Column(column) => column.name != table.columns[*at].name,
        _ => true,
    };
    let changed = (0..after.expr.len()).filter(is_set).collect();
    Ok((LogicalPlanBuilder::from(after.input.as_ref().clone()).project(exprs)?.build()?, changed))
}

/// Missing indexes on references to a table.
pub(crate) fn reference_indexes(schema: &Schema, table: &Table) -> Vec<(String, Index)> {
    let missing =
        schema.references_to(&table.name).filter(|(from, key)| from.index_on(&key.columns).is_none());
    missing
        .map(|(from, key)| {
            let parts: Vec<KeyPart> = key.columns.iter().copied().map(KeyPart::ascending).collect();
            (from.name.clone(), Index::new(fresh_name(from, &parts), IndexKind::Ordinary, parts))
        })
        .collect()
}
