//! The constraints of a table in memory: keys, `check` conditions, and foreign keys. They are checked
//! whenever the table gets rows, before it has them.
//!
//! Invariants: an index that is not unique constrains nothing, and only its name is kept; a row with a null
//! in a key differs from all others, except in a primary key, which has no nulls.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{DFSchema, HashSet, Result, exec_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;

/// The constraints of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Constraints {
    /// Primary key and unique constraints.
    pub keys: Vec<Key>,
    /// Check constraints.
    pub checks: Vec<Check>,
    /// Foreign keys.
    pub foreign_keys: Vec<ForeignKey>,
    /// The names of indexes that are not unique.
    pub indexes: Vec<String>,
}

/// Columns in which no two rows agree.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// The name of the index that it was made by.
    pub index: Option<String>,
    /// The positions of the columns.
    pub columns: Vec<usize>,
    /// Whether it is the primary key, which has no nulls.
    pub primary: bool,
}

/// A condition that is false for no row.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    /// The condition as it was written.
    pub text: String,
    /// The condition over the columns of the table.
    pub condition: Expr,
}

/// Columns whose values are those of a key of another table.
#[derive(Debug, Clone)]
pub(crate) struct ForeignKey {
    /// The positions of the columns.
    pub columns: Vec<usize>,
    /// The other table, and its columns.
    pub table: String,
    /// The positions of the columns of the other table.
    pub key: Vec<usize>,
}

impl Constraints {
    /// Checks keys and conditions; foreign keys need the other tables.
    ///
    /// # Errors
    /// `Execution`, with the constraint, if a row violates it.
    pub fn check_rows(
        &self,
        state: &SessionState,
        table: &str,
        schema: &SchemaRef,
        rows: &[RecordBatch],
    ) -> Result<()> {
        self.keys.iter().try_for_each(|key| key.check(table, schema, rows))?;
        self.checks.iter().try_for_each(|check| check.check(state, table, schema, rows))
    }

    /// Drops the index of this name. Returns whether there was one.
    pub fn drop_index(&mut self, name: &str) -> bool {
        let before = self.keys.len() + self.indexes.len();
        self.indexes.retain(|index| index != name);
        self.keys.retain(|key| key.index.as_deref() != Some(name));
        self.keys.len() + self.indexes.len() < before
    }

    /// Whether there is an index of this name.
    pub fn has_index(&self, name: &str) -> bool {
        self.indexes.iter().any(|index| index == name)
            || self.keys.iter().any(|key| key.index.as_deref() == Some(name))
    }
}

impl Key {
    /// Checks that no two rows agree in the key, and that a primary key has no nulls.
    fn check(&self, table: &str, schema: &SchemaRef, rows: &[RecordBatch]) -> Result<()> {
        let fields = self.columns.iter().map(|at| SortField::new(schema.field(*at).data_type().clone()));
        let converter = RowConverter::new(fields.collect())?;
        let mut seen = HashSet::new();
        for batch in rows {
            let columns: Vec<_> = self.columns.iter().map(|at| batch.column(*at).clone()).collect();
            let values = converter.convert_columns(&columns)?;
            for (at, value) in values.iter().enumerate() {
                if columns.iter().any(|column| column.is_null(at)) {
                    if self.primary {
                        return exec_err!(
                            "table {table}: {} is the primary key, and cannot be null",
                            self.column_names(schema)
                        );
                    }
                    continue;
                }
                if !seen.insert(value.owned()) {
                    let what = if self.primary { "is the primary key" } else { "is unique" };
                    return exec_err!(
                        "table {table}: {} {what}, and there would be two rows of the same",
                        self.column_names(schema)
                    );
                }
            }
        }
        Ok(())
    }

    /// The names of the key columns, for a message.
    fn column_names(&self, schema: &SchemaRef) -> String {
        let names: Vec<&str> = self.columns.iter().map(|at| schema.field(*at).name().as_str()).collect();
        names.join(", ")
    }
}

impl Check {
    /// Checks that the condition is false for no row.
    fn check(
        &self,
        state: &SessionState,
        table: &str,
        schema: &SchemaRef,
        rows: &[RecordBatch],
    ) -> Result<()> {
        let names = DFSchema::try_from(schema.as_ref().clone())?;
        let condition = state.create_physical_expr(self.condition.clone(), &names)?;
        for batch in rows {
            let holds = condition.evaluate(batch)?.into_array(batch.num_rows())?;
            if holds.as_boolean_opt().is_some_and(|holds| holds.false_count() > 0) {
                return exec_err!("table {table}: a row would break check ({})", self.text);
            }
        }
        Ok(())
    }
}
