//! `alter table`: the rows are written again with other columns, operation by operation.
//!
//! Invariant: a column that a constraint reads stays as it is.
//!
//! ```sql
//! alter table t add column y int default 0, alter column y type bigint;
//! alter table t rename column y to z;
//! ```

use super::target::writable;
use crate::catalog::{Memory, find};
use crate::session::planned::Planned;
use crate::session::state::Session;
use crate::syntax::Emit;
use crate::syntax::names;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::{DFSchema, Result, ScalarValue, not_impl_err, plan_err};
use datafusion::logical_expr::{Expr, cast as cast_expr};
use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption, Ident,
    RenameTableNameKind,
};
use std::sync::Arc;
use whimbrel_plan::names::unknown_column;

/// `alter table`, operation by operation.
///
/// # Errors
/// `Plan` if the table, a column or the operation is unknown, or a constraint uses the column; `Execution` if
/// the rows do not fit.
pub(super) fn table(session: &mut Session, alter: AlterTable) -> Result<Planned> {
    if alter.if_exists && find(&session.tables, &names::table(&alter.name)?).is_none() {
        return Ok(Planned::Done("nothing to alter".to_string()));
    }
    let mut name = writable(session, &alter.name)?;
    for operation in alter.operations {
        name = altered(session, name, operation)?;
    }
    Ok(Planned::Done(format!("table {name} altered")))
}

/// The table after an operation, by its name.
fn altered(session: &mut Session, table: String, operation: AlterTableOperation) -> Result<String> {
    let schema = session.tables[&table].stream.schema().clone();
    let memory = session.memory(&table)?.clone();
    let rows = Rows { schema, memory };
    let rows = match operation {
        AlterTableOperation::RenameTable { table_name } => return renamed(session, table, &table_name),
        AlterTableOperation::AddColumn { if_not_exists, column_def, .. } => {
            let there = rows.schema.field_with_name(&names::ident(&column_def.name)).is_ok();
            match there {
                true if if_not_exists => return Ok(table),
                true => return plan_err!("table {table} has a column {} already", column_def.name),
                false => rows.with_column(session, column_def)?,
            }
        }
        AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
            column_names.iter().try_fold(rows, |rows, column| rows.without(column, if_exists))?
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            rows.with_name(&old_column_name, &new_column_name)?
        }
        AlterTableOperation::AlterColumn { column_name, op } => rows.changed(session, &column_name, op)?,
        other => return not_impl_err!("alter table {table}: {other} is not there"),
    };
    session.put_table(&table, rows.schema, rows.memory)?;
    Ok(table)
}

/// `rename to`.
fn renamed(session: &mut Session, table: String, to: &RenameTableNameKind) -> Result<String> {
    let (RenameTableNameKind::As(to) | RenameTableNameKind::To(to)) = to;
    let name = names::table(to)?;
    if find(&session.tables, &name).is_some() {
        return plan_err!("there is a table {name:?} already");
    }
    let schema = session.tables[&table].stream.schema().clone();
    let memory = session.memory(&table)?.clone();
    session.tables.remove(&table);
    session.put_table(&name, schema, memory)?;
    Ok(name)
}

/// The columns and rows of a table.
struct Rows {
    /// The columns.
    schema: SchemaRef,
    /// The rows, defaults and constraints.
    memory: Memory,
}

impl Rows {
    /// The position of a column.
    fn position(&self, column: &Ident) -> Result<usize> {
        let name = names::ident(column);
        self.schema.index_of(&name).map_err(|_| {
            let known: Vec<&str> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
            unknown_column(&name, &known)
        })
    }

    /// The position of a column that no constraint reads.
    fn free(&self, column: &Ident) -> Result<usize> {
        let at = self.position(column)?;
        let name = self.schema.field(at).name();
        let constraints = &self.memory.constraints;
        let checked = |condition: &Expr| condition.column_refs().iter().any(|c| c.name == *name);
        match constraints.keys.iter().any(|key| key.columns.contains(&at))
            || constraints.checks.iter().any(|check| checked(&check.condition))
        {
            true => plan_err!("column {name:?} is part of a key or of a check; it cannot be changed"),
            false => Ok(at),
        }
    }

    /// The table with these columns, and rows for them.
    fn replaced(
        self,
        fields: Vec<FieldRef>,
        columns: impl Fn(&RecordBatch) -> Result<Vec<datafusion::arrow::array::ArrayRef>>,
    ) -> Result<Rows> {
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let rows = self.memory.rows.iter().map(|batch| {
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            Ok(RecordBatch::try_new_with_options(schema.clone(), columns(batch)?, &options)?)
        });
        let rows = rows.collect::<Result<Vec<_>>>()?;
        Ok(Rows { schema, memory: Memory { rows, ..self.memory } })
    }

    /// `add column`: existing rows get its default.
    fn with_column(self, session: &Session, column: ColumnDef) -> Result<Rows> {
        let default = column.options.iter().find_map(|option| match &option.option {
            ColumnOption::Default(value) => Some(value.clone()),
            _ => None,
        });
        let field = session.planner(Emit::Final, |p, _| p.build_schema(vec![column]))?.fields()[0].clone();
        let value = match default {
            Some(value) => constant(session, value, field.data_type())?,
            None => ScalarValue::try_from(field.data_type())?,
        };
        let fields = self.schema.fields().iter().cloned().chain([field.clone()]).collect();
        let mut rows = self.replaced(fields, |batch| {
            let new = value.to_array_of_size(batch.num_rows())?;
            Ok(batch.columns().iter().cloned().chain([new]).collect())
        })?;
        if !value.is_null() {
            rows.memory.defaults.insert(field.name().clone(), Expr::Literal(value, None));
        }
        Ok(rows)
    }

    /// `drop column`.
    fn without(self, column: &Ident, if_exists: bool) -> Result<Rows> {
        if if_exists && self.position(column).is_err() {
            return Ok(self);
        }
        let at = self.free(column)?;
        if self.schema.fields().len() == 1 {
            return plan_err!("a table has a column at least; drop table takes it away");
        }
        let mut fields = self.schema.fields().to_vec();
        let gone = fields.remove(at);
        let mut rows = self.replaced(fields, |batch| {
            let mut columns = batch.columns().to_vec();
            columns.remove(at);
            Ok(columns)
        })?;
        rows.memory.defaults.remove(gone.name());
        for place in rows.memory.constraints.keys.iter_mut().flat_map(|key| &mut key.columns) {
            *place -= usize::from(*place > at);
        }
        Ok(rows)
    }

    /// `rename column`.
    fn with_name(self, column: &Ident, name: &Ident) -> Result<Rows> {
        let at = self.free(column)?;
        let name = names::ident(name);
        if self.schema.field_with_name(&name).is_ok() {
            return plan_err!("there is a column {name:?} already");
        }
        let mut fields = self.schema.fields().to_vec();
        let old =
            std::mem::replace(&mut fields[at], Arc::new(self.schema.field(at).clone().with_name(&name)));
        let mut rows = self.replaced(fields, |batch| Ok(batch.columns().to_vec()))?;
        if let Some(default) = rows.memory.defaults.remove(old.name()) {
            rows.memory.defaults.insert(name, default);
        }
        Ok(rows)
    }

    /// `alter column`: its default, its type, or whether it may be null.
    fn changed(self, session: &Session, column: &Ident, change: AlterColumnOperation) -> Result<Rows> {
        let at = self.position(column)?;
        let field = self.schema.field(at).clone();
        match change {
            AlterColumnOperation::SetNotNull => self.with_field(at, field.with_nullable(false)),
            AlterColumnOperation::DropNotNull => self.with_field(at, field.with_nullable(true)),
            AlterColumnOperation::SetDefault { value } => {
                let value = constant(session, value, field.data_type())?;
                let mut rows = self;
                rows.memory.defaults.insert(field.name().clone(), Expr::Literal(value, None));
                Ok(rows)
            }
            AlterColumnOperation::DropDefault => {
                let mut rows = self;
                rows.memory.defaults.remove(field.name());
                Ok(rows)
            }
            AlterColumnOperation::SetDataType { data_type, using: None, .. } => {
                self.free(column)?;
                let name = Ident::with_quote('"', field.name());
                let column = ColumnDef { name, data_type, options: vec![] };
                let new = session.planner(Emit::Final, |p, _| p.build_schema(vec![column]))?.field(0).clone();
                self.with_field(at, new.with_nullable(field.is_nullable()))
            }
            other => not_impl_err!("alter column {column}: {other} is not there"),
        }
    }

    /// The rows with a column of another field, cast to its type.
    fn with_field(self, at: usize, field: Field) -> Result<Rows> {
        let mut fields = self.schema.fields().to_vec();
        let kind = field.data_type().clone();
        fields[at] = Arc::new(field);
        self.replaced(fields, |batch| {
            let mut columns = batch.columns().to_vec();
            columns[at] = cast(&columns[at], &kind)?;
            Ok(columns)
        })
    }
}

/// The value of an expression without columns.
fn constant(session: &Session, value: ast::Expr, kind: &DataType) -> Result<ScalarValue> {
    let expr = session
        .planner(Emit::Final, |p, _| p.sql_to_expr(value, &DFSchema::empty(), &mut Default::default()))?;
    let expr = session.state.create_physical_expr(cast_expr(expr, kind.clone()), &DFSchema::empty())?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
    ScalarValue::try_from_array(&expr.evaluate(&row)?.into_array(1)?, 0)
}
