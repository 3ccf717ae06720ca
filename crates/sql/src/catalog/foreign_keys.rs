//! Foreign keys: the values of some columns are those of a key of another table.
//!
//! Invariant: looked at whenever a table gets rows, before it has them: those of the table itself, and those of tables that refer
//! to it. A row of which a column is null refers to nothing.

use super::constraints::ForeignKey;
use super::tables::{Memory, Table, TableKind, Tables, find};
use datafusion::arrow::array::Array;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{HashSet, Result, exec_err};

/// Whether all references hold if a table gets these rows.
///
/// # Errors
/// `Execution`, with the tables, if they do not.
pub(crate) fn check_references(tables: &Tables, name: &str, schema: &SchemaRef, rows: &Memory) -> Result<()> {
    for reference in &rows.constraints.foreign_keys {
        let there = if reference.table == name { &rows.rows } else { rows_of(tables, &reference.table) };
        reference.holds(name, schema, &rows.rows, there)?;
    }
    for (other, table) in tables.iter().filter(|(other, _)| *other != name) {
        if let TableKind::Memory(memory) = &table.kind {
            for reference in memory.constraints.foreign_keys.iter().filter(|r| r.table == name) {
                reference.holds(other, table.stream.schema(), &memory.rows, &rows.rows)?;
            }
        }
    }
    Ok(())
}

/// The table that refers to another one, if there is one.
pub(crate) fn referring<'a>(tables: &'a Tables, name: &str) -> Option<&'a String> {
    let refers = |other: &String, table: &Table| match &table.kind {
        TableKind::Memory(memory) => {
            other != name && memory.constraints.foreign_keys.iter().any(|reference| reference.table == name)
        }
        _ => false,
    };
    tables.iter().find(|(other, table)| refers(other, table)).map(|(other, _)| other)
}

fn rows_of<'a>(tables: &'a Tables, name: &str) -> &'a [RecordBatch] {
    match find(tables, name) {
        Some((_, Table { kind: TableKind::Memory(memory), .. })) => &memory.rows,
        _ => &[],
    }
}

impl ForeignKey {
    fn holds(
        &self,
        name: &str,
        schema: &SchemaRef,
        rows: &[RecordBatch],
        there: &[RecordBatch],
    ) -> Result<()> {
        let kinds: Vec<DataType> =
            self.columns.iter().map(|at| schema.field(*at).data_type().clone()).collect();
        let converter = RowConverter::new(kinds.iter().cloned().map(SortField::new).collect())?;
        let known: HashSet<OwnedRow> =
            values(&converter, &kinds, &self.key, there)?.into_iter().flatten().collect();
        match values(&converter, &kinds, &self.columns, rows)?.iter().flatten().all(|row| known.contains(row))
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
