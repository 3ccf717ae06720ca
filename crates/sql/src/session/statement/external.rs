//! `create external table`: files under a name, timed or not.
//!
//! ```sql
//! create external table clicks stored as csv location 'clicks/*.csv'
//!     options (time 'at', disorder '5 seconds');
//! ```

use super::options::options_map;
use crate::catalog::{Table, TableKind, find};
use crate::files::{FileOptions, Format};
use crate::session::planned::Planned;
use crate::session::state::Session;
use crate::stream::durations::duration;
use crate::syntax::Emit;
use crate::syntax::names;
use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::CreateExternalTable;
use datafusion::sql::sqlparser::ast::{ColumnOption, ColumnOptionDef};
use std::collections::BTreeMap;
use std::sync::Arc;
use whimbrel_plan::names::unknown_column;
use whimbrel_plan::{Stream, TimeSpec};
use whimbrel_temporal::{Disorder, IngressOptions};

/// `create external table`.
///
/// # Errors
/// `Plan` if the name is taken or an option makes no sense; those of [`Files::open`](crate::Files::open).
pub(super) fn create(session: &mut Session, table: CreateExternalTable) -> Result<Planned> {
    let name = names::table(&table.name)?;
    if find(&session.tables, &name).is_some() {
        if table.if_not_exists {
            return Ok(Planned::Done(format!("{name} is there already")));
        }
        if !table.or_replace {
            return plan_err!("there is a table {name:?} already; drop it first, or write create or replace");
        }
    }
    if !table.table_partition_cols.is_empty() {
        return plan_err!(
            "table {name}: columns in the names of folders cannot be read; leave out partitioned by"
        );
    }
    check_columns(&name, &table)?;
    let mut options = options_map(table.options)?;
    let time = Time::take(&mut options);
    let schema = match table.columns.is_empty() {
        true => None,
        false => Some(Arc::new(session.planner(Emit::Final, |p, _| p.build_schema(table.columns))?)),
    };
    let format: Format = table.file_type.parse()?;
    let shards = match options.remove("shards") {
        Some(text) => Some(text.parse().map_err(|_| {
            datafusion::common::plan_datafusion_err!("table {name}: shards = {text:?} is not a number")
        })?),
        None => session.shards,
    };
    let file = FileOptions { format: Some(format), shards, schema, options };
    let mut stream = Stream::scan(&name, session.files.open(&table.locations.join("\n"), &file)?)?;
    if let Some(time) = time? {
        stream = time.ingress(&name, &stream)?;
    }
    session.tables.insert(name.clone(), Table::of(stream, TableKind::External)?);
    Ok(Planned::Done(format!("table {name} created")))
}

/// Refuses what files have not, though tables in memory do.
fn check_columns(name: &str, table: &CreateExternalTable) -> Result<()> {
    let is_null_option =
        |option: &ColumnOptionDef| matches!(option.option, ColumnOption::Null | ColumnOption::NotNull);
    let column = table.columns.iter().find(|column| !column.options.iter().all(is_null_option));
    if let Some(column) = column {
        return plan_err!(
            "table {name}: column {} of a file is read as it is; leave out what stands behind its type, or copy \
             the rows into a table that was created with it",
            column.name
        );
    }
    if !table.constraints.is_empty() {
        return plan_err!(
            "table {name}: the rows of files are not checked; leave out the constraint, or copy the rows into a \
             table that was created with it"
        );
    }
    match table.order_exprs.is_empty() {
        true => Ok(()),
        false => {
            plan_err!("table {name}: files have no order here; leave out with order, and write order by")
        }
    }
}

/// The time of a table.
struct Time {
    /// The column with the start of a row.
    start: String,
    /// The column with its end, if there is one.
    end: Option<String>,
    /// How late rows may be.
    latency: Option<String>,
    /// What happens to later rows.
    late: Disorder,
}

impl Time {
    /// Takes the options of time out of the options.
    fn take(options: &mut BTreeMap<String, String>) -> Result<Option<Time>> {
        let start = options.remove("time");
        let end = options.remove("end");
        let latency = options.remove("disorder");
        let late = match options.remove("late").as_deref() {
            None if latency.is_some() => Disorder::Drop,
            None | Some("raise") => Disorder::Raise,
            Some("adjust") => Disorder::Adjust,
            Some("drop") => Disorder::Drop,
            Some(other) => {
                return plan_err!(
                    "late = {other:?}: late rows are dropped, adjusted (late = 'adjust'), or fail (late = 'raise')"
                );
            }
        };
        match start {
            Some(start) => Ok(Some(Time { start, end, latency, late })),
            None if end.is_some() || latency.is_some() => {
                plan_err!("end and disorder say how to deal with time; give its column too, time = '…'")
            }
            None => Ok(None),
        }
    }

    /// The stream with this time.
    fn ingress(self, table: &str, stream: &Stream) -> Result<Stream> {
        let schema = stream.schema();
        let Ok(clock) = schema.field_with_name(&self.start) else {
            let known: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            return Err(unknown_column(&self.start, &known).context(format!("table {table}")));
        };
        let latency = match &self.latency {
            None => 0,
            Some(text) => duration(text).ticks(clock.data_type(), "disorder")?,
        };
        let time = TimeSpec { start: self.start, end: self.end, kind: None };
        let options =
            IngressOptions { disorder: self.late, reorder_latency: latency, ..IngressOptions::default() };
        stream.ingress(time, options)
    }
}
