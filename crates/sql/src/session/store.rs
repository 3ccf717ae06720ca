//! Writes rows into a table in memory.
//!
//! Invariants: afterwards the constraints hold for all rows of the table, or nothing has changed; an updated
//! row keeps its place; `on conflict do update` updates a row once in a statement, as in PostgreSQL and
//! DuckDB.
//!
//! Each kind of statement gives its rows in one form:
//! - `insert`: the new rows;
//! - `update`, `delete`: all rows of the table, with a last column that marks the changed or deleted ones;
//! - `merge`: all rows of the table and the new ones, with a last column that has an [`Action`].

use super::planned::{Action, Conflict, Merge, Returning, Store, StoreMode, Stored};
use super::state::Session;
use crate::catalog::{Key, Memory, Table, TableKind, find};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use datafusion::arrow::compute::{
    cast, concat_batches, filter_record_batch, interleave_record_batch, not, take_record_batch,
};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{HashMap, Result, exec_err, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use std::sync::Arc;

/// Writes the rows of a statement.
///
/// # Errors
/// `Plan` if there is no such table, `Execution` if a row breaks a constraint.
pub(super) fn write(
    session: &mut Session,
    store: &Store,
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
) -> Result<Stored> {
    if store.mode == StoreMode::Create {
        let count = rows.iter().map(RecordBatch::num_rows).sum();
        let schema = nullable(&schema);
        let rows = rows.iter().map(|batch| cast_columns(&schema, batch)).collect::<Result<_>>()?;
        session.put_table(&store.table, schema, Memory { rows, ..Memory::default() })?;
        return Ok(Stored { rows: count, returned: None });
    }
    let Some((_, Table { stream, kind: TableKind::Memory(old), .. })) = find(&session.tables, &store.table)
    else {
        return plan_err!("there is no table {:?} that could be written into", store.table);
    };
    let (schema, old) = (stream.schema().clone(), old.clone());
    let change = match store.mode {
        StoreMode::Update | StoreMode::Delete => apply_marks(store, &schema, &old, &rows)?,
        StoreMode::Merge => apply_actions(store, &schema, &old, &rows)?,
        _ => {
            let rows = rows.iter().map(|batch| table_columns(&schema, batch)).collect::<Result<Vec<_>>>()?;
            match (&store.mode, &store.conflict) {
                (StoreMode::Replace, _) => Change { written: rows.clone(), rows },
                (_, Conflict::Fail) => {
                    Change { written: rows.clone(), rows: [old.rows.clone(), rows].concat() }
                }
                (_, conflict) => Conflicts { state: &session.state, schema: &schema, old: &old }
                    .resolve(conflict, &rows)?,
            }
        }
    };
    let returned = match &store.returning {
        Some(returning) => Some(returning.rows(&session.state, &schema, &change.written)?),
        None => None,
    };
    session.put_table(&store.table, schema, Memory { rows: change.rows, ..old })?;
    Ok(Stored { rows: change.written.iter().map(RecordBatch::num_rows).sum(), returned })
}

/// The rows of a table after a statement.
struct Change {
    /// All its rows.
    rows: Vec<RecordBatch>,
    /// Rows that were inserted, updated or deleted.
    written: Vec<RecordBatch>,
}

/// The columns of a table in a batch that may have more.
fn table_columns(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns()[..schema.fields().len()].to_vec();
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// A batch cast to the types of a table.
fn cast_columns(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| Ok(cast(column, field.data_type())?));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns.collect::<Result<_>>()?, &options)?)
}

/// The schema with nullable columns: the next insert may have nulls. A column of untyped nulls becomes one of
/// integers, as in DuckDB.
fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|f| match f.data_type() {
        DataType::Null => Field::new(f.name(), DataType::Int32, true),
        _ => Field::clone(f).with_nullable(true),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// An update or delete: all rows of the table, with a last column that marks changed or deleted ones.
fn apply_marks(store: &Store, schema: &SchemaRef, old: &Memory, rows: &[RecordBatch]) -> Result<Change> {
    let count = |rows: &[RecordBatch]| rows.iter().map(RecordBatch::num_rows).sum::<usize>();
    if count(rows) != count(&old.rows) {
        return exec_err!(
            "update {}: several rows of the other table fit one row; say in where which of them is meant",
            store.table
        );
    }
    let mut change = Change { rows: vec![], written: vec![] };
    for batch in rows {
        let marks = batch.column(schema.fields().len()).as_boolean();
        let batch = table_columns(schema, batch)?;
        change.written.push(filter_record_batch(&batch, marks)?);
        change.rows.push(match store.mode {
            StoreMode::Delete => filter_record_batch(&batch, &not(marks)?)?,
            _ => batch,
        });
    }
    Ok(change)
}

/// A merge: all rows of the table and new ones, with a last column that has an [`Action`].
fn apply_actions(store: &Store, schema: &SchemaRef, old: &Memory, rows: &[RecordBatch]) -> Result<Change> {
    let mut change = Change { rows: vec![], written: vec![] };
    let mut existing = 0;
    for batch in rows {
        let actions = cast(batch.column(schema.fields().len()), &DataType::Int64)?;
        let actions = actions.as_primitive::<Int64Type>().values();
        let batch = table_columns(schema, batch)?;
        let filter = |wanted: &dyn Fn(i64) -> bool| {
            filter_record_batch(&batch, &actions.iter().map(|action| Some(wanted(*action))).collect())
        };
        existing += actions.iter().filter(|action| **action != Action::Insert as i64).count();
        change.rows.push(filter(&|action| action != Action::Delete as i64)?);
        change.written.push(filter(&|action| action != Action::Keep as i64)?);
    }
    if existing != old.rows.iter().map(RecordBatch::num_rows).sum::<usize>() {
        return exec_err!(
            "merge into {}: several rows of the other table match one row; say in on which of them is meant",
            store.table
        );
    }
    Ok(change)
}

/// Rows inserted into a table that may have their keys.
struct Conflicts<'a> {
    /// Evaluates expressions.
    state: &'a SessionState,
    /// The columns of the table.
    schema: &'a SchemaRef,
    /// The existing rows.
    old: &'a Memory,
}

/// Where a row is: among the existing or the inserted ones; and its number.
type Place = (usize, usize);

/// The existing rows, and the inserted ones.
const EXISTING: usize = 0;
/// The inserted rows.
const INSERTED: usize = 1;

impl Conflicts<'_> {
    /// The rows of the table after the insert.
    fn resolve(&self, conflict: &Conflict, rows: &[RecordBatch]) -> Result<Change> {
        let existing = concat_batches(self.schema, &self.old.rows)?;
        let inserted = concat_batches(self.schema, rows)?;
        let keys = self.keys(conflict)?;
        let mut index = Index::new(&keys, &existing, &inserted)?;
        (0..existing.num_rows()).for_each(|at| index.add((EXISTING, at)));
        let mut places: Vec<Option<Place>> =
            (0..existing.num_rows()).map(|at| Some((EXISTING, at))).collect();
        // The index in `places` of each inserted row.
        let mut arrived: Vec<usize> = vec![0; inserted.num_rows()];
        let mut changed: Vec<(Place, usize)> = vec![];
        for at in 0..inserted.num_rows() {
            let others = index.conflicts((INSERTED, at));
            match (conflict, others.first()) {
                (_, None) | (Conflict::Fail, _) => {}
                (Conflict::Skip(_), Some(_)) => continue,
                (Conflict::Replace, Some(_)) => {
                    for other in &others {
                        index.remove(*other);
                        places[if other.0 == EXISTING { other.1 } else { arrived[other.1] }] = None;
                    }
                }
                (Conflict::Update(_), Some(other)) => {
                    changed.push((*other, at));
                    continue;
                }
            }
            index.add((INSERTED, at));
            arrived[at] = places.len();
            places.push(Some((INSERTED, at)));
        }
        let mut written: Vec<Place> = places.iter().flatten().filter(|p| p.0 == INSERTED).copied().collect();
        let mut sources = vec![&existing, &inserted];
        let updated;
        if let Conflict::Update(merge) = conflict {
            let (batch, kept) = self.update(merge, &existing, &inserted, &changed)?;
            for (number, at) in kept.into_iter().enumerate() {
                places[at] = Some((sources.len(), number));
                written.push((sources.len(), number));
            }
            updated = batch;
            sources.push(&updated);
        }
        let places: Vec<Place> = places.into_iter().flatten().collect();
        Ok(Change {
            rows: vec![interleave_record_batch(&sources, &places)?],
            written: vec![interleave_record_batch(&sources, &written)?],
        })
    }

    /// The keys that may conflict.
    fn keys(&self, conflict: &Conflict) -> Result<Vec<&Key>> {
        let all = || self.old.constraints.keys.iter();
        let columns = match conflict {
            Conflict::Skip(Some(columns)) => columns,
            Conflict::Update(merge) => &merge.key,
            _ => return Ok(all().collect()),
        };
        let same = |key: &&Key| {
            key.columns.len() == columns.len() && columns.iter().all(|column| key.columns.contains(column))
        };
        match all().find(same) {
            Some(key) => Ok(vec![key]),
            None => plan_err!(
                "on conflict: there is no primary key and no unique constraint of exactly these columns"
            ),
        }
    }

    /// The existing rows that are updated, with their new values; and their numbers.
    fn update(
        &self,
        merge: &Merge,
        existing: &RecordBatch,
        inserted: &RecordBatch,
        pairs: &[(Place, usize)],
    ) -> Result<(RecordBatch, Vec<usize>)> {
        let mut seen: HashMap<Place, ()> = HashMap::new();
        if pairs.iter().any(|(place, _)| place.0 != EXISTING || seen.insert(*place, ()).is_some()) {
            return exec_err!("on conflict: two rows of the insert have the same key; give one of them");
        }
        let mut pairs: Vec<(usize, usize)> = pairs.iter().map(|(place, at)| (place.1, *at)).collect();
        let mut both = self.joined(merge, existing, inserted, &pairs)?;
        if let Some(condition) = &merge.condition {
            let marks = self.value(condition, merge, &both)?;
            let marks = marks.as_boolean();
            let mut marked = marks.iter();
            pairs.retain(|_| marked.next().flatten() == Some(true));
            both = filter_record_batch(&both, marks)?;
        }
        let mut columns = both.columns()[..self.schema.fields().len()].to_vec();
        for (at, value) in &merge.assigned {
            columns[*at] = self.value(value, merge, &both)?;
        }
        let rows = RecordBatch::try_new(self.schema.clone(), columns)?;
        Ok((rows, pairs.into_iter().map(|(existing, _)| existing).collect()))
    }

    /// Existing rows joined with the inserted ones that conflict with them.
    fn joined(
        &self,
        merge: &Merge,
        existing: &RecordBatch,
        inserted: &RecordBatch,
        pairs: &[(usize, usize)],
    ) -> Result<RecordBatch> {
        let of = |batch: &RecordBatch, numbers: Vec<usize>| {
            take_record_batch(batch, &UInt64Array::from_iter_values(numbers.into_iter().map(|n| n as u64)))
        };
        let left = of(existing, pairs.iter().map(|(existing, _)| *existing).collect())?;
        let right = of(inserted, pairs.iter().map(|(_, inserted)| *inserted).collect())?;
        let columns = [left.columns(), right.columns()].concat();
        Ok(RecordBatch::try_new(merge.columns.inner().clone(), columns)?)
    }

    /// An expression over joined rows.
    fn value(&self, value: &Expr, merge: &Merge, rows: &RecordBatch) -> Result<ArrayRef> {
        let value = self.state.create_physical_expr(value.clone(), &merge.columns)?;
        value.evaluate(rows)?.into_array(rows.num_rows())
    }
}

/// The key of each row; `None` where one of its columns is null.
type RowKeys = Vec<Option<Box<[u8]>>>;

/// The rows by their keys.
struct Index {
    /// For each key, its values in the existing rows and in the inserted ones.
    values: Vec<[RowKeys; 2]>,
    /// For each key, the row of each value.
    rows: Vec<HashMap<Box<[u8]>, Place>>,
}

impl Index {
    /// An index without rows.
    fn new(keys: &[&Key], existing: &RecordBatch, inserted: &RecordBatch) -> Result<Index> {
        let values = keys.iter().map(|key| {
            let fields =
                key.columns.iter().map(|at| SortField::new(existing.column(*at).data_type().clone()));
            let converter = RowConverter::new(fields.collect())?;
            Ok([key_values(key, &converter, existing)?, key_values(key, &converter, inserted)?])
        });
        Ok(Index { values: values.collect::<Result<_>>()?, rows: vec![HashMap::new(); keys.len()] })
    }

    /// The rows that share a key with this one.
    fn conflicts(&self, (side, at): Place) -> Vec<Place> {
        let keys = self.values.iter().zip(&self.rows);
        keys.filter_map(|(values, rows)| rows.get(values[side][at].as_ref()?).copied()).collect()
    }

    /// Adds a row.
    fn add(&mut self, place: Place) {
        for (values, rows) in self.values.iter().zip(&mut self.rows) {
            if let Some(value) = &values[place.0][place.1] {
                rows.insert(value.clone(), place);
            }
        }
    }

    /// Removes a row.
    fn remove(&mut self, place: Place) {
        for (values, rows) in self.values.iter().zip(&mut self.rows) {
            if let Some(value) = &values[place.0][place.1] {
                rows.remove(value);
            }
        }
    }
}

/// The key of each row of a batch.
fn key_values(key: &Key, converter: &RowConverter, batch: &RecordBatch) -> Result<RowKeys> {
    let columns: Vec<ArrayRef> = key.columns.iter().map(|at| batch.column(*at).clone()).collect();
    let rows = converter.convert_columns(&columns)?;
    let null = |at: usize| columns.iter().any(|column| column.is_null(at));
    Ok(rows.iter().enumerate().map(|(at, row)| (!null(at)).then(|| row.as_ref().into())).collect())
}

impl Returning {
    /// The rows of `returning`.
    fn rows(&self, state: &SessionState, schema: &SchemaRef, rows: &[RecordBatch]) -> Result<RecordBatch> {
        let rows = concat_batches(schema, rows)?;
        let rows = RecordBatch::try_new(self.columns.inner().clone(), rows.columns().to_vec())?;
        let values = self.values.iter().map(|value| {
            let value = state.create_physical_expr(value.clone(), &self.columns)?;
            value.evaluate(&rows)?.into_array(rows.num_rows())
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let fields = self.schema.fields().iter().zip(&values);
        let fields: Vec<Field> =
            fields.map(|(field, value)| Field::new(field.name(), value.data_type().clone(), true)).collect();
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), values)?)
    }
}
