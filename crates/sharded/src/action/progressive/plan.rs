//! The plan of a progressive query: a table arrives in parts, and the result is kept up to date.
//!
//! The table with the most rows is read in parts; all others are there from the beginning. Every scan of it,
//! with the filters and projections right above, becomes a stream whose time is the number of the part, and
//! [`Accumulate`] makes a growing relation of that. So at the end of a part the result is that of the query
//! over the rows that have been read.
//!
//! An order and a limit of the result are not kept up to date: they are applied to each early result.

use crate::dataset::{MemoryDataset, OpenSource, ProgressiveDataset};
use crate::stage::final_steps;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, internal_err, plan_err};
use datafusion::logical_expr::{
    Expr, Filter, LogicalPlan, Projection, SubqueryAlias, TableScan, TableScanBuilder, ident,
};
use std::collections::HashSet;
use std::sync::Arc;
use whimbrel_plan::nodes::{Accumulate, Ingress, TimeSpec, extension};
use whimbrel_plan::{PlanSource, Source, Stream, source_of};
use whimbrel_temporal::IngressOptions;

/// The plan of a progressive query.
pub(super) struct ProgressivePlan {
    /// The changes of the result before its last steps. Its columns are numbered.
    pub changes: Stream,
    /// The relation before the last steps.
    relation: LogicalPlan,
    /// The steps that order and limit the result, from the last to the first.
    last_steps: Vec<LogicalPlan>,
}

impl ProgressivePlan {
    /// The plan of a query over tables, whose largest table arrives in so many parts.
    ///
    /// # Errors
    /// `Plan` if a source of the query does not end, rows have a time, or a step cannot be kept up to date.
    pub fn of(query: &Stream, parts: u32) -> Result<ProgressivePlan> {
        check(query)?;
        let last_steps: Vec<LogicalPlan> = final_steps(query.plan()).into_iter().cloned().collect();
        let relation = match last_steps.last() {
            Some(first) => first.inputs()[0].clone(),
            None => query.plan().clone(),
        };
        let growing = match largest_table(&relation)? {
            Some(table) => in_parts(relation.clone(), &table, parts)?,
            None => relation.clone(),
        };
        let changes = Stream::from_plan(numbered(growing)?)?.changes()?;
        Ok(ProgressivePlan { changes, relation, last_steps })
    }

    /// The columns of the rows that change.
    pub fn columns(&self) -> SchemaRef {
        let changes = self.changes.schema();
        Arc::new(Schema::new(changes.fields()[1..].to_vec()))
    }

    /// The result of the last steps, over the rows that they read.
    ///
    /// # Errors
    /// `Plan` if the plan cannot be rebuilt.
    pub fn result(&self, rows: MemoryDataset) -> Result<Stream> {
        let rows = Stream::scan("early", Arc::new(rows))?;
        let named = renumbered(rows.plan().clone(), self.relation.schema())?;
        let over = |input, step: &LogicalPlan| step.with_new_exprs(step.expressions(), vec![input]);
        Stream::from_plan(self.last_steps.iter().rev().try_fold(named, over)?)
    }
}

/// Refuses a query over what is not a table.
fn check(query: &Stream) -> Result<()> {
    let known = query.properties();
    if known.time.is_some() {
        return plan_err!(
            "early results are those of tables, and this is a stream with time: its windows come out as time passes"
        );
    }
    if !known.bounded {
        return plan_err!(
            "early results are those of tables, and a live source has no share that has been read; take .changes(), \
             or emit changes in SQL"
        );
    }
    Ok(())
}

/// The table with the most rows, or one of which nobody knows how many it has; none if there are no tables.
fn largest_table(plan: &LogicalPlan) -> Result<Option<Arc<dyn Source>>> {
    let mut largest: Option<(usize, Arc<dyn Source>)> = None;
    plan.apply_with_subqueries(|step| {
        if let LogicalPlan::TableScan(scan) = step
            && let Some(source) = source_of(scan)
        {
            let rows = source.statistics().num_rows.get_value().copied().unwrap_or(usize::MAX);
            if largest.as_ref().is_none_or(|(most, _)| rows > *most) {
                largest = Some((rows, source));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(largest.map(|(_, source)| source))
}

/// The plan with a table that arrives in so many parts.
fn in_parts(plan: LogicalPlan, table: &Arc<dyn Source>, parts: u32) -> Result<LogicalPlan> {
    plan.transform_down_with_subqueries(|step| match reads_only(&step, table) {
        true => Ok(Transformed::new(growing(&step, parts)?, true, TreeNodeRecursion::Jump)),
        false => Ok(Transformed::no(step)),
    })
    .data()
}

/// Whether a plan filters and projects the rows of a table, and does nothing else.
fn reads_only(plan: &LogicalPlan, table: &Arc<dyn Source>) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => source_of(scan).is_some_and(|source| Arc::ptr_eq(&source, table)),
        LogicalPlan::Filter(Filter { input, .. })
        | LogicalPlan::Projection(Projection { input, .. })
        | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => reads_only(input, table),
        _ => false,
    }
}

/// The rows of a plan over one table as a relation that grows, part by part.
fn growing(rows: &LogicalPlan, parts: u32) -> Result<LogicalPlan> {
    let part = free_name(rows)?;
    let with_part = with_part(rows, &part, parts)?;
    let columns = with_part.schema().columns();
    let Some((number, own)) = columns.split_last() else { return internal_err!("a table without columns") };
    let numbered = own.iter().enumerate().map(|(at, column)| place(column).alias(numbered_name(at)));
    let numbered = numbered.chain([place(number).alias(&part)]).collect();
    let numbered = LogicalPlan::Projection(Projection::try_new(numbered, Arc::new(with_part))?);
    let events = Ingress::try_new(numbered, TimeSpec::point(&part), IngressOptions::default())?;
    renumbered(extension(Accumulate::try_new(extension(events))?), rows.schema())
}

/// A name that no column below has.
fn free_name(plan: &LogicalPlan) -> Result<String> {
    let mut taken = HashSet::new();
    plan.apply(|step| {
        taken.extend(step.schema().fields().iter().map(|field| field.name().clone()));
        if let LogicalPlan::TableScan(scan) = step {
            taken.extend(scan.source.schema().fields().iter().map(|field| field.name().clone()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut name = "part".to_string();
    while taken.contains(&name) {
        name.push('_');
    }
    Ok(name)
}

/// The rows with the number of their part as a last column.
fn with_part(plan: &LogicalPlan, part: &str, parts: u32) -> Result<LogicalPlan> {
    let input =
        || Ok::<_, datafusion::error::DataFusionError>(Arc::new(with_part(plan.inputs()[0], part, parts)?));
    Ok(match plan {
        LogicalPlan::TableScan(scan) => LogicalPlan::TableScan(scan_with_part(scan, part, parts)?),
        LogicalPlan::Filter(filter) => {
            LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), input()?)?)
        }
        LogicalPlan::Projection(projection) => {
            let input = input()?;
            let number = last_column(&input);
            let exprs = projection.expr.iter().cloned().chain(number).collect();
            LogicalPlan::Projection(Projection::try_new(exprs, input)?)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input()?, alias.alias.clone())?)
        }
        other => return internal_err!("this step does not read one table: {}", other.display()),
    })
}

/// The last column of a plan.
fn last_column(plan: &LogicalPlan) -> Option<Expr> {
    plan.schema().columns().pop().map(Expr::Column)
}

/// A scan of the same columns, and of the number of the part.
fn scan_with_part(scan: &TableScan, part: &str, parts: u32) -> Result<TableScan> {
    let Some(source) = source_of(scan) else {
        return internal_err!("the table {} has no source", scan.table_name);
    };
    let own = source.info().schema.fields().len();
    let mut columns: Vec<usize> = scan.projection.clone().unwrap_or_else(|| (0..own).collect());
    columns.push(own);
    let numbered = OpenSource(Arc::new(ProgressiveDataset::try_new(source, part, parts)?));
    TableScanBuilder::new(scan.table_name.clone(), Arc::new(PlanSource(Arc::new(numbered))))
        .with_projection(Some(columns))
        .with_filters(scan.filters.clone())
        .build()
}

/// The plan with numbered columns: its own may have equal names.
fn numbered(plan: LogicalPlan) -> Result<LogicalPlan> {
    let columns = plan.schema().columns().into_iter().enumerate();
    let columns = columns.map(|(at, column)| Expr::Column(column).alias(numbered_name(at))).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

/// The first columns of a plan with numbered columns, under the names of a schema.
fn renumbered(plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    let named = schema.iter().enumerate().map(|(at, (qualifier, field))| -> Expr {
        ident(numbered_name(at)).alias_qualified(qualifier.cloned(), field.name())
    });
    Ok(LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::new(plan))?))
}

/// The name of the column at a place.
fn numbered_name(place: usize) -> String {
    format!("c{place}")
}

/// A column as an expression.
fn place(column: &Column) -> Expr {
    Expr::Column(column.clone())
}
