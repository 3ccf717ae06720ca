//! Views read the rows that their tables have now.
//!
//! A view is bound to its tables when it is created: it keeps their scans, which are named after the tables.
//! When a table gets other rows, its scans in all views are rebound to them. A view over a table that was
//! dropped, or created again with other columns, is refused.
//!
//! ```sql
//! create view totals as select k, sum(x) as total from t group by k;
//! insert into t values (1, 2);  -- the scan of t in totals is rebound to the new rows
//! drop table t;                 -- from now on totals is refused
//! ```

use super::tables::{Table, TableKind, Tables, find};
use crate::syntax::names;
use crate::syntax::walk::walk_relations;
use crate::tree::transform_down_with_subqueries;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{LogicalPlan, TableScan};
use datafusion::sql::sqlparser::ast::Query;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use whimbrel_plan::{PlanSource, Source, Stream, source_of};

/// The tables and views that a query names, with their columns.
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

/// Refuses a view over tables that were dropped or have other columns.
///
/// # Errors
/// `Plan`, with the view and the table.
pub(super) fn check_readable(tables: &Tables, view: &str) -> Result<()> {
    check_tables(tables, view, &mut BTreeSet::new())
}

/// Checks the tables of a view, and of the views that it reads; these may read it in turn, after a
/// `create or replace`.
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

/// Rebinds all views to the rows that a table is about to get.
///
/// # Errors
/// `Plan` if a rebound plan has other columns.
pub(crate) fn rebind_views(tables: &mut Tables, name: &str, rows: &Arc<dyn Source>) -> Result<()> {
    for view in tables.values_mut() {
        let TableKind::View { over_tables, reads } = &view.kind else { continue };
        let reads = reads.clone();
        let over_tables = over_tables.clone().map(|plan| rebound(plan, name, rows)).transpose()?;
        let plan = rebound(view.plan.clone(), name, rows)?;
        let stream = Stream::from_plan(rebound(view.stream.plan().clone(), name, rows)?)?;
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

/// Whether a scan reads a table: its name is that of the table and a number.
fn is_scan_of(scan: &TableScan, table: &str) -> bool {
    scan.table_name.table().rsplit_once('#').is_some_and(|(name, _)| name == table)
}

/// The plan with the scans of a table over other rows.
fn rebound(plan: LogicalPlan, table: &str, rows: &Arc<dyn Source>) -> Result<LogicalPlan> {
    transform_down_with_subqueries(plan, &mut |node| match node {
        LogicalPlan::TableScan(scan)
            if is_scan_of(&scan, table) && fits(&scan.source.schema(), &rows.info().schema) =>
        {
            // A planned view reads its tables in shards.
            let shards = source_of(&scan).map_or(1, |source| source.info().shards);
            let rows = rows.with_shards(shards).unwrap_or_else(|| Arc::clone(rows));
            let source = Arc::new(PlanSource(rows));
            Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
        }
        other => Ok(Transformed::no(other)),
    })
}
