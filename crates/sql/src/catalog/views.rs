//! Views see the rows that their tables have got since the view was made.
//!
//! A view is bound to a table when it is made: it keeps the table's scan, which is called after the table. When the
//! table gets other rows, its scan in every view is one of these. A view over a table that is not there any more, or was
//! made anew with other columns, has no rows to answer with and is refused.

use super::tables::{Table, TableKind, Tables, find};
use crate::syntax::names;
use crate::syntax::walk::walk_relations;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{LogicalPlan, TableScan};
use datafusion::sql::sqlparser::ast::Query;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use whimbrel_plan::{PlanSource, Source, Stream, source_of};

/// The tables and views whose names a query has, with their columns.
pub(crate) fn read_by(tables: &Tables, query: &Query) -> BTreeMap<String, SchemaRef> {
    let mut read = BTreeMap::new();
    let own: Vec<String> = query
        .with
        .iter()
        .flat_map(|with| &with.cte_tables)
        .map(|cte| names::ident(&cte.alias.name))
        .collect();
    // The visitor never breaks off.
    let _: ControlFlow<()> = walk_relations(query, |name| {
        let known = names::table(name).ok().filter(|name| !own.contains(name));
        if let Some((name, table)) = known.and_then(|name| find(tables, &name)) {
            read.insert(name.clone(), table.stream.schema().clone());
        }
        ControlFlow::Continue(())
    });
    read
}

/// Refuses a view over tables that are not there any more.
pub(super) fn check_readable(tables: &Tables, view: &str) -> Result<()> {
    check_tables(tables, view, &mut BTreeSet::new())
}

/// The same; a view may name one that was made anew over it.
fn check_tables<'a>(tables: &'a Tables, view: &'a str, checked: &mut BTreeSet<&'a str>) -> Result<()> {
    if !checked.insert(view) {
        return Ok(());
    }
    let Some(Table { kind: TableKind::View { reads, .. }, .. }) = tables.get(view) else { return Ok(()) };
    for (name, columns) in reads {
        match tables.get(name) {
            None => {
                return plan_err!(
                    "view {view} reads {name}, which is not there any more: create it again, or drop view {view}"
                );
            }
            Some(table) if !fits(columns, table.stream.schema()) => {
                return plan_err!(
                    "view {view} reads {name}, whose columns are others by now: write create or replace view {view} …"
                );
            }
            Some(_) => check_tables(tables, name, checked)?,
        }
    }
    Ok(())
}

/// Lets all views see the rows that a table is about to get.
pub(crate) fn rebind_views(tables: &mut Tables, name: &str, rows: &Arc<dyn Source>) -> Result<()> {
    for view in tables.values_mut() {
        let TableKind::View { over_tables, reads } = &view.kind else { continue };
        let reads = reads.clone();
        let over_tables = over_tables.clone().map(|plan| replaced(plan, name, rows)).transpose()?;
        let plan = replaced(view.plan.clone(), name, rows)?;
        let stream = Stream::from_plan(replaced(view.stream.plan().clone(), name, rows)?)?;
        *view = Table { stream, plan, kind: TableKind::View { over_tables, reads } };
    }
    Ok(())
}

/// Whether rows with the columns `now` can stand where there were `before`.
fn fits(before: &Schema, now: &Schema) -> bool {
    let same = |(before, now): (&Arc<Field>, &Arc<Field>)| {
        let named = before.name() == now.name() && before.data_type() == now.data_type();
        named && (before.is_nullable() || !now.is_nullable())
    };
    before.fields().len() == now.fields().len() && before.fields().iter().zip(now.fields()).all(same)
}

/// Whether this scan is one of a table: its name is that of the table and a number.
fn reads(scan: &TableScan, table: &str) -> bool {
    scan.table_name.table().rsplit_once('#').is_some_and(|(name, _)| name == table)
}

fn replaced(plan: LogicalPlan, table: &str, rows: &Arc<dyn Source>) -> Result<LogicalPlan> {
    plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::TableScan(scan)
            if reads(&scan, table) && fits(&scan.source.schema(), &rows.info().schema) =>
        {
            // A view that is planned already reads its tables in shards.
            let shards = source_of(&scan).map_or(1, |source| source.info().shards);
            let rows = rows.with_shards(shards).unwrap_or_else(|| Arc::clone(rows));
            let source = Arc::new(PlanSource(rows));
            Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}
