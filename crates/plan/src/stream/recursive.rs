//! What follows from what is known, and from that, and so on: SQL's `with recursive`.

use super::Stream;
use crate::source::scan_again;
use arrow::datatypes::{Field, Schema};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::{LogicalPlanBuilder, TableScan};
use std::sync::Arc;

impl Stream {
    /// These rows, what `step` makes of them, what it makes of that, and so on until nothing comes; with
    /// `distinct`, every row once, and until nothing new comes. Relations in one shard only.
    ///
    /// `step` gives as many columns, of the same types. `name` is for people.
    ///
    /// # Errors
    /// `Plan` if this is a stream or has several shards, or the columns of the step are others; those of the
    /// step.
    pub fn recursive(
        &self,
        name: &str,
        distinct: bool,
        step: impl FnOnce(Stream) -> Result<Stream>,
    ) -> Result<Stream> {
        self.untimed("recursive", "what follows from a row may be late")?;
        if self.properties.shards != 1 {
            return plan_err!(
                "recursive: rows in {} shards do not meet; reshard(1) first",
                self.properties.shards
            );
        }
        let fields = self.schema().fields().iter().map(|f| Field::clone(f).with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let (name, rows) =
            scan_again(name, |name| provider_as_source(Arc::new(CteWorkTable::new(name, schema))))?;
        let next = step(Stream::from_plan(rows)?)?;
        let query =
            LogicalPlanBuilder::from(self.input()).to_recursive_query(name, next.input(), distinct)?;
        self.then(query.build()?)
    }
}

/// Whether this is the table that a recursive query reads its own rows from.
pub fn is_work_table(scan: &TableScan) -> bool {
    source_as_provider(&scan.source).is_ok_and(|table| table.is::<CteWorkTable>())
}
