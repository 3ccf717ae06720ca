//! Foreign keys: the values of some columns are those of a key of another table.
//!
//! Invariant: checked whenever a table gets rows, before it has them: its own foreign keys, and those of
//! tables that refer to it. A row with a null in a foreign key refers to nothing.

use super::constraints::ForeignKey;
use super::tables::{Memory, Table, TableKind, Tables, find};
use datafusion::arrow::array::Array;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{HashSet, Result, exec_err};

/// Checks the foreign keys of a table that gets these rows, and of the tables that refer to it.
///
/// # Errors
/// `Execution`, with both tables, if a value is missing.
pub(crate) fn check_foreign_keys(
    tables: &Tables,
    name: &str,
    schema: &SchemaRef,
    rows: &Memory,
) -> Result<()> {
    for key in &rows.constraints.foreign_keys {
        let referenced = if key.table == name { &rows.rows } else { rows_of(tables, &key.table) };
        key.check(name, schema, &rows.rows, referenced)?;
    }
    for (other, table) in tables.iter().filter(|(other, _)| *other != name) {
        if let TableKind::Memory(memory) = &table.kind {
            for key in memory.constraints.foreign_keys.iter().filter(|r| r.table == name) {
                key.check(other, table.stream.schema(), &memory.rows, &rows.rows)?;
            }
        }
    }
    Ok(())
}

/// A table that refers to another one, if there is one.
pub(crate) fn referring<'a>(tables: &'a Tables, name: &str) -> Option<&'a String> {
    let refers = |other: &String, table: &Table| match &table.kind {
        TableKind::Memory(memory) => {
            other != name && memory.constraints.foreign_keys.iter().any(|key| key.table == name)
        }
        _ => false,
    };
    tables.iter().find(|(other, table)| refers(other, table)).map(|(other, _)| other)
}

/// The rows of a table in memory.
fn rows_of<'a>(tables: &'a Tables, name: &str) -> &'a [RecordBatch] {
    match find(tables, name) {
        Some((_, Table { kind: TableKind::Memory(memory), .. })) => &memory.rows,
        _ => &[],
    }
}

impl ForeignKey {
    /// Checks that the values of the foreign key are among those of the referenced rows.
    fn check(
        &self,
        name: &str,
        schema: &SchemaRef,
        rows: &[RecordBatch],
        referenced: &[RecordBatch],
    ) -> Result<()> {
        let kinds: Vec<DataType> =
            self.columns.iter().map(|at| schema.field(*at).data_type().clone()).collect();
        let converter = RowConverter::new(kinds.iter().cloned().map(SortField::new).collect())?;
        let keys: HashSet<OwnedRow> =
            values(&converter, &kinds, &self.key, referenced)?.into_iter().flatten().collect();
        match values(&converter, &kinds, &self.columns, rows)?.iter().flatten().all(|row| keys.contains(row))
        {
            true => Ok(()),
            false => {
                let columns: Vec<&str> =
                    self.columns.iter().map(|at| schema.field(*at).name().as_str()).collect();
                exec_err!(
                    "table {name}: {} refers to {}, and there would be a value that is not there",
                    columns.join(", "),
                    self.table
                )
            }
        }
    }
}

/// The values of columns, a row each; none where one is null.
fn values(
    converter: &RowConverter,
    kinds: &[DataType],
    columns: &[usize],
    rows: &[RecordBatch],
) -> Result<Vec<Option<OwnedRow>>> {
    let mut values = Vec::new();
    for batch in rows {
        let columns = columns.iter().zip(kinds).map(|(at, kind)| cast(batch.column(*at), kind));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let converted = converter.convert_columns(&columns)?;
        for (at, row) in converted.iter().enumerate() {
            let null = columns.iter().any(|column| column.is_null(at));
            values.push((!null).then(|| row.owned()));
        }
    }
    Ok(values)
}
