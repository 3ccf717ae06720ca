//! Views see the rows that their tables have got since the view was made.
//!
//! A view is bound to a table when it is made: it keeps the table's scan, which is called after the table. When the
//! table gets other rows, its scan in every view is one of these. A table that was made anew, with other columns, is
//! another table, and the view keeps the old one.

use crate::catalog::{Table, TableKind, Tables};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::{LogicalPlan, TableScan};
use std::sync::Arc;
use whimbrel_plan::{PlanSource, Source, Stream, source_of};

/// Lets all views see the rows that a table is about to get.
pub(crate) fn see(tables: &mut Tables, name: &str, rows: &Arc<dyn Source>) -> Result<()> {
    let Some(table) = tables.get(name) else { return Ok(()) };
    let columns = rows.info().schema;
    if *table.stream.schema() != columns {
        return Ok(());
    }
    for view in tables.values_mut() {
        let TableKind::View { over_tables } = &view.kind else { continue };
        let over_tables = over_tables.clone().map(|plan| replaced(plan, name, rows)).transpose()?;
        let plan = replaced(view.plan.clone(), name, rows)?;
        let stream = Stream::from_plan(replaced(view.stream.plan().clone(), name, rows)?)?;
        *view = Table { stream, plan, kind: TableKind::View { over_tables } };
    }
    Ok(())
}

/// Whether this scan is one of a table: its name is that of the table and a number.
fn reads(scan: &TableScan, table: &str) -> bool {
    scan.table_name.table().rsplit_once('#').is_some_and(|(name, _)| name == table)
}

fn replaced(plan: LogicalPlan, table: &str, rows: &Arc<dyn Source>) -> Result<LogicalPlan> {
    plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::TableScan(scan) if reads(&scan, table) => {
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
