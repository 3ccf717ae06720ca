//! The catalog as tables: `information_schema.tables` and `.columns`, `duckdb_tables()`, `duckdb_columns()`,
//! `sqlite_master`, `pragma_table_info('t')`.
//!
//! There is one database, `memory`. What has no schema in its name is in `main`.

use super::inlined::Inlined;
use super::tables::{TableKind, Tables, find};
use crate::error::unknown_table;
use crate::files::Files;
use crate::functions::type_names;
use crate::single_shard::single_shard;
use datafusion::arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource};
use std::sync::Arc;
use whimbrel_plan::Stream;

/// The only database.
const DATABASE: &str = "memory";

/// The catalog table of this name.
///
/// # Errors
/// Those of [`Files::table`].
pub(super) fn table(tables: &Tables, files: &dyn Files, name: &str) -> Result<Option<LogicalPlan>> {
    let rows = match name.to_ascii_lowercase().as_str() {
        "information_schema.tables" => table_rows(tables)?,
        "information_schema.columns" => column_rows(tables)?,
        "duckdb_tables" => duckdb_tables(tables)?,
        "duckdb_columns" => duckdb_columns(tables)?,
        "sqlite_master" => sqlite_master(tables)?,
        _ => return Ok(None),
    };
    plan(files, name, rows).map(Some)
}

/// The catalog table function of this name.
///
/// # Errors
/// `Plan` if the argument is no table; those of [`Files::table`].
pub(super) fn function(
    tables: &Tables,
    files: &dyn Files,
    name: &str,
    argument: Option<&str>,
) -> Result<Option<Arc<dyn TableSource>>> {
    let rows = match (name, argument) {
        ("duckdb_tables" | "duckdb_columns", None) => {
            return Ok(table(tables, files, name)?.map(Inlined::source));
        }
        ("pragma_table_info", Some(table)) => pragma_table_info(tables, table)?,
        _ => return Ok(None),
    };
    plan(files, name, rows).map(|plan| Some(Inlined::source(plan)))
}

/// A table of these rows, as a plan.
fn plan(files: &dyn Files, name: &str, rows: RecordBatch) -> Result<LogicalPlan> {
    let source = files.table(rows.schema(), vec![rows])?;
    let rows = Stream::scan(name.rsplit('.').next().unwrap_or(name), source)?;
    Ok(single_shard(&rows)?.plan().clone())
}

/// The schema of a table, and its name in it.
fn schema_and_name(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or(("main", name))
}

/// A column of strings.
fn strings<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// A column of integers.
fn integers(values: impl Iterator<Item = usize>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values.map(|n| n as i64)))
}

/// A batch of nullable columns.
fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, values)| (name, values, true)),
    )?)
}

/// The database, the schema and the name of each of these tables.
fn names<'a>(prefix: [&'a str; 3], of: &[&str]) -> Vec<(&'a str, ArrayRef)> {
    let [database, schema, table] = prefix;
    vec![
        (database, strings(of.iter().map(|_| DATABASE))),
        (schema, strings(of.iter().map(|name| schema_and_name(name).0))),
        (table, strings(of.iter().map(|name| schema_and_name(name).1))),
    ]
}

/// `information_schema.tables`.
fn table_rows(all_tables: &Tables) -> Result<RecordBatch> {
    let all: Vec<&str> = all_tables.keys().map(String::as_str).collect();
    let mut columns = names(["table_catalog", "table_schema", "table_name"], &all);
    let kinds = all_tables.values().map(|table| match table.kind {
        TableKind::View { .. } => "VIEW",
        _ => "BASE TABLE",
    });
    columns.push(("table_type", strings(kinds)));
    batch(columns)
}

/// `duckdb_tables()`: tables that are no views, with their sizes.
fn duckdb_tables(all_tables: &Tables) -> Result<RecordBatch> {
    let tables: Vec<_> =
        all_tables.iter().filter(|(_, table)| !matches!(table.kind, TableKind::View { .. })).collect();
    let all: Vec<&str> = tables.iter().map(|(name, _)| name.as_str()).collect();
    let mut columns = names(["database_name", "schema_name", "table_name"], &all);
    let rows = |kind: &TableKind| match kind {
        TableKind::Memory(memory) => Some(memory.rows.iter().map(|batch| batch.num_rows() as i64).sum()),
        _ => None,
    };
    let sizes: Int64Array = tables.iter().map(|(_, table)| rows(&table.kind)).collect();
    columns.push(("estimated_size", Arc::new(sizes)));
    let widths = tables.iter().map(|(_, table)| table.stream.schema().fields().len());
    columns.push(("column_count", integers(widths)));
    batch(columns)
}

/// `sqlite_master`.
fn sqlite_master(all_tables: &Tables) -> Result<RecordBatch> {
    let kinds = all_tables.values().map(|table| match table.kind {
        TableKind::View { .. } => "view",
        _ => "table",
    });
    let names = || strings(all_tables.keys().map(|name| schema_and_name(name).1));
    batch(vec![("type", strings(kinds)), ("name", names()), ("tbl_name", names())])
}

/// A column of a table.
struct Column {
    /// The name of its table.
    table: String,
    /// Its position, from one.
    place: usize,
    /// Its name.
    name: String,
    /// Its type in SQL.
    type_name: String,
    /// Whether it may be null.
    nullable: bool,
}

/// The columns of all tables and views.
fn all_columns(all_tables: &Tables) -> Vec<Column> {
    let columns = all_tables.iter().flat_map(|(table, known)| {
        known.stream.schema().fields().iter().enumerate().map(|(at, field)| Column {
            table: table.clone(),
            place: at + 1,
            name: field.name().clone(),
            type_name: type_names::name(field.data_type()),
            nullable: field.is_nullable(),
        })
    });
    columns.collect()
}

/// `information_schema.columns`.
fn column_rows(tables: &Tables) -> Result<RecordBatch> {
    let all = all_columns(tables);
    let tables: Vec<&str> = all.iter().map(|column| column.table.as_str()).collect();
    let mut columns = names(["table_catalog", "table_schema", "table_name"], &tables);
    columns.extend([
        ("column_name", strings(all.iter().map(|column| column.name.as_str()))),
        ("ordinal_position", integers(all.iter().map(|column| column.place))),
        ("is_nullable", strings(all.iter().map(|column| if column.nullable { "YES" } else { "NO" }))),
        ("data_type", strings(all.iter().map(|column| column.type_name.as_str()))),
    ]);
    batch(columns)
}

/// `duckdb_columns()`.
fn duckdb_columns(tables: &Tables) -> Result<RecordBatch> {
    let all = all_columns(tables);
    let tables: Vec<&str> = all.iter().map(|column| column.table.as_str()).collect();
    let mut columns = names(["database_name", "schema_name", "table_name"], &tables);
    let nullable: BooleanArray = all.iter().map(|column| Some(column.nullable)).collect();
    columns.extend([
        ("column_name", strings(all.iter().map(|column| column.name.as_str()))),
        ("column_index", integers(all.iter().map(|column| column.place))),
        ("is_nullable", Arc::new(nullable) as ArrayRef),
        ("data_type", strings(all.iter().map(|column| column.type_name.as_str()))),
    ]);
    batch(columns)
}

/// A value as it is written in SQL.
fn literal(value: &Expr) -> String {
    match value {
        Expr::Literal(value, _) => match value.try_as_str() {
            Some(Some(text)) => format!("'{text}'"),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

/// The columns of a table as SQLite and DuckDB describe them.
fn pragma_table_info(all_tables: &Tables, name: &str) -> Result<RecordBatch> {
    let Some((name, table)) = find(all_tables, name) else {
        let known: Vec<&str> = all_tables.keys().map(String::as_str).collect();
        return Err(unknown_table(name, &known));
    };
    let all: Vec<Column> =
        all_columns(all_tables).into_iter().filter(|column| column.table == *name).collect();
    let (defaults, keys) = match &table.kind {
        TableKind::Memory(memory) => (memory.defaults.clone(), memory.constraints.keys.clone()),
        _ => Default::default(),
    };
    let primary: Vec<usize> =
        keys.into_iter().filter(|key| key.primary).flat_map(|key| key.columns).collect();
    let required: BooleanArray =
        all.iter().map(|column| Some(!column.nullable || primary.contains(&(column.place - 1)))).collect();
    let in_key: BooleanArray = all.iter().map(|column| Some(primary.contains(&(column.place - 1)))).collect();
    let defaults: StringArray = all.iter().map(|column| defaults.get(&column.name).map(literal)).collect();
    batch(vec![
        ("cid", integers(all.iter().map(|column| column.place - 1))),
        ("name", strings(all.iter().map(|column| column.name.as_str()))),
        ("type", strings(all.iter().map(|column| column.type_name.as_str()))),
        ("notnull", Arc::new(required)),
        ("dflt_value", Arc::new(defaults)),
        ("pk", Arc::new(in_key)),
    ])
}
