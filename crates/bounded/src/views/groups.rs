//! The groups of a view: changes collected for them, and the rows that follow.
//!
//! Invariants: a group without rows is no row of the view, unless there is no `group by`. Sums are exact: of
//! integers and decimals, never of floats. When the minimum or maximum of a group is removed, the next one is
//! read from the store.

use super::delta::Maintained;
use super::overlay::Overlay;
use super::shape::{Function, Slot};
use crate::datum::{ColumnBuilder, Datum, Type};
use crate::error::{Error, Result};
use crate::keys::{self, KeyOrder};
use crate::mutation::{RowChange, Versions};
use crate::record;
use crate::schema::{Schema, Table};
use crate::store::{Found, Read, Store};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::ScalarValue;
use std::collections::BTreeMap;

/// Changes of the groups of a view, by their keys.
pub(super) struct GroupChanges {
    groups: BTreeMap<Vec<u8>, Group>,
    /// The watermark while the view is being filled: joined rows with a larger driving key are not counted.
    until: Option<Option<Vec<u8>>>,
}

/// The changes of one group.
struct Group {
    /// The values that it is grouped by.
    values: Vec<ArrayRef>,
    rows: i64,
    aggregates: Vec<AggregateChange>,
}

/// The change of an aggregate.
#[derive(Clone, Default)]
struct AggregateChange {
    count: i64,
    sum: i128,
    /// Values that are added and removed, as ordered bytes, for minimum and maximum.
    added: Vec<Vec<u8>>,
    removed: Vec<Vec<u8>>,
}

impl GroupChanges {
    /// No changes.
    pub fn new() -> GroupChanges {
        GroupChanges { groups: BTreeMap::new(), until: None }
    }

    /// No changes yet, of a view that is filled up to this driving row.
    pub fn up_to(driver: Option<Vec<u8>>) -> GroupChanges {
        GroupChanges { groups: BTreeMap::new(), until: Some(driver) }
    }

    /// Adds a group without changes.
    pub fn add_group(&mut self, view: &Maintained, values: Vec<ArrayRef>, key: Vec<u8>) {
        let aggregates = vec![AggregateChange::default(); view.definition.aggregates.len()];
        self.groups.entry(key).or_insert_with(|| Group { values, rows: 0, aggregates });
    }

    /// Adds the rows of a delta, or subtracts them.
    ///
    /// # Errors
    /// `Data` if a sum overflows, `Internal` if a column has another type than its view.
    pub fn add(&mut self, view: &Maintained, batch: &RecordBatch, sign: i64) -> Result<()> {
        let definition = &view.definition;
        let (groups, arguments) = batch.columns().split_at(definition.group.len());
        for at in 0..batch.num_rows() {
            if !self.counts(view, arguments, at)? {
                continue;
            }
            let mut key = view.view.primary().prefix();
            for column in groups {
                keys::encode(Datum::of(column, at)?, KeyOrder::ASCENDING, &mut key);
            }
            let group = self.groups.entry(key).or_insert_with(|| Group {
                values: groups.iter().map(|column| column.slice(at, 1)).collect(),
                rows: 0,
                aggregates: vec![AggregateChange::default(); definition.aggregates.len()],
            });
            group.rows += sign;
            let mut arguments = arguments.iter();
            for (aggregate, sum) in definition.aggregates.iter().zip(&mut group.aggregates) {
                let Some(argument) = aggregate.argument.as_ref().and_then(|_| arguments.next()) else {
                    continue;
                };
                sum.add(aggregate.function, Datum::of(argument, at)?, sign)?;
            }
        }
        Ok(())
    }

    /// Whether the driving row of a joined row is up to the watermark.
    fn counts(&self, view: &Maintained, columns: &[ArrayRef], at: usize) -> Result<bool> {
        let Some(until) = &self.until else { return Ok(true) };
        let Some(until) = until else { return Ok(false) };
        let Some(driver) = view.definition.driver() else { return Ok(true) };
        let mut key = driver.table.primary().prefix();
        let parts = &driver.table.primary().parts;
        for (part, column) in parts.iter().zip(&columns[columns.len() - parts.len()..]) {
            keys::encode(Datum::of(column, at)?, part.order, &mut key);
        }
        Ok(key <= *until)
    }

    /// The changes of the view's rows; `None` if another writer changed them meanwhile.
    ///
    /// # Errors
    /// `Data` if a sum overflows, `Unavailable` if the store does not answer.
    pub fn row_changes(
        self,
        store: &dyn Store,
        overlay: &Overlay<'_>,
        schema: &Schema,
        versions: &Versions,
        view: &Maintained,
    ) -> Result<Option<Vec<RowChange>>> {
        let groups: Vec<(Vec<u8>, Group)> = self.groups.into_iter().collect();
        if groups.is_empty() {
            return Ok(Some(vec![]));
        }
        let found = store.read(&groups.iter().map(|(key, _)| Read::Get(key.clone())).collect::<Vec<_>>())?;
        let mut changes = Vec::with_capacity(groups.len());
        for ((key, group), found) in groups.into_iter().zip(found) {
            let Found::Value(before) = found else {
                return Err(Error::Internal("the store gave another answer than was asked for".to_string()));
            };
            let mut totals = Totals::of(view, before.as_ref())?;
            let Some(stays) = totals.add(overlay, view, &group)? else { return Ok(None) };
            if !stays && before.is_none() {
                continue;
            }
            let columns = if stays { Some(totals.row(view, &group)?) } else { None };
            let change =
                RowChange::new(schema, &view.view, key, before, columns.as_deref(), 0, versions.next())?;
            changes.push(change);
        }
        Ok(Some(changes))
    }
}

impl AggregateChange {
    /// Adds a value, or removes it if the sign is negative.
    fn add(&mut self, function: Function, value: Datum<'_>, sign: i64) -> Result<()> {
        if value == Datum::Null {
            return Ok(());
        }
        self.count += sign;
        match (function, value) {
            (Function::Sum | Function::Average, Datum::Int(value)) => {
                self.sum += i128::from(value) * i128::from(sign)
            }
            (Function::Sum | Function::Average, Datum::Decimal(value)) => {
                let sum = value.checked_mul(sign.into()).and_then(|value| self.sum.checked_add(value));
                self.sum = sum.ok_or_else(too_large)?;
            }
            (Function::Min | Function::Max, value) => {
                let mut key = Vec::new();
                keys::encode(value, KeyOrder::ASCENDING, &mut key);
                if sign > 0 { &mut self.added } else { &mut self.removed }.push(key);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The error for a sum that overflows.
fn too_large() -> Error {
    Error::Data("a sum of a view is larger than its type: cast what is summed to a wider one".to_string())
}

/// The content of a group's row.
struct Totals {
    rows: i64,
    aggregates: Vec<Total>,
}

/// The content of an aggregate.
#[derive(Clone, Default)]
struct Total {
    count: i64,
    sum: i128,
    /// As bytes in order.
    extreme: Option<Vec<u8>>,
}

impl Totals {
    /// The content of a stored row; an empty group if there is none.
    fn of(view: &Maintained, record: Option<&Vec<u8>>) -> Result<Totals> {
        let mut totals =
            Totals { rows: 0, aggregates: vec![Total::default(); view.definition.aggregates.len()] };
        let Some(batch) = row(&view.view, record)? else { return Ok(totals) };
        for (slot, column) in view.definition.slots.iter().zip(batch.columns()) {
            let value = Datum::of(column, 0)?;
            let number = match value {
                Datum::Int(value) => i128::from(value),
                Datum::Decimal(value) => value,
                _ => 0,
            };
            match slot {
                Slot::Group(_) => {}
                Slot::Rows => totals.rows = number as i64,
                Slot::Count(at) => totals.aggregates[*at].count = number as i64,
                Slot::Sum(at) => totals.aggregates[*at].sum = number,
                Slot::Value(at) => match view.definition.aggregates[*at].function {
                    Function::Count => totals.aggregates[*at].count = number as i64,
                    Function::Sum => totals.aggregates[*at].sum = number,
                    Function::Min | Function::Max if value != Datum::Null => {
                        let mut key = Vec::new();
                        keys::encode(value, KeyOrder::ASCENDING, &mut key);
                        totals.aggregates[*at].extreme = Some(key);
                    }
                    Function::Rows | Function::Average | Function::Min | Function::Max => {}
                },
            }
        }
        Ok(totals)
    }

    /// Applies the changes. Returns whether the group has rows, or is the only group there can be; `None` for
    /// a negative count, which only a concurrent write can cause.
    fn add(&mut self, overlay: &Overlay<'_>, view: &Maintained, group: &Group) -> Result<Option<bool>> {
        self.rows += group.rows;
        if self.rows < 0 {
            return Ok(None);
        }
        for (total, more) in self.aggregates.iter_mut().zip(&group.aggregates) {
            total.count += more.count;
            total.sum = total.sum.checked_add(more.sum).ok_or_else(too_large)?;
        }
        let stays = self.rows > 0 || group.values.is_empty();
        if stays {
            for (at, more) in group.aggregates.iter().enumerate() {
                self.extreme(overlay, view, group, at, more)?;
            }
        }
        Ok(Some(stays))
    }

    /// Updates a minimum or maximum; reads the next one if the current one was removed.
    fn extreme(
        &mut self,
        overlay: &Overlay<'_>,
        view: &Maintained,
        group: &Group,
        at: usize,
        more: &AggregateChange,
    ) -> Result<()> {
        let (Some(next), total) = (&view.extremes[at], &mut self.aggregates[at]) else { return Ok(()) };
        let least = view.definition.aggregates[at].function == Function::Min;
        let better = |a: &Vec<u8>, b: &Vec<u8>| if least { a < b } else { a > b };
        let goes = more
            .removed
            .iter()
            .any(|removed| total.extreme.as_ref().is_none_or(|current| !better(current, removed)));
        if !goes {
            for value in &more.added {
                if total.extreme.as_ref().is_none_or(|current| better(value, current)) {
                    total.extreme = Some(value.clone());
                }
            }
            return Ok(());
        }
        let values = group.values.iter().map(|column| Ok(ScalarValue::try_from_array(column, 0)?));
        let batch = next.run(overlay, &values.collect::<Result<Vec<_>>>()?)?;
        total.extreme = None;
        if batch.num_rows() > 0 && !batch.column(0).is_null(0) {
            let mut key = Vec::new();
            keys::encode(Datum::of(batch.column(0), 0)?, KeyOrder::ASCENDING, &mut key);
            total.extreme = Some(key);
        }
        Ok(())
    }

    /// The row as columns of one value.
    fn row(&self, view: &Maintained, group: &Group) -> Result<Vec<ArrayRef>> {
        let columns = view.view.columns.iter().zip(&view.definition.slots).map(|(column, slot)| {
            let mut builder = ColumnBuilder::new(column.of, 1, 16)?;
            match slot {
                Slot::Group(at) => builder.append(Datum::of(&group.values[*at], 0)?)?,
                Slot::Rows => builder.append(Datum::Int(self.rows))?,
                Slot::Count(at) => builder.append(Datum::Int(self.aggregates[*at].count))?,
                Slot::Sum(at) => builder.append(number(column.of, self.aggregates[*at].sum)?)?,
                Slot::Value(at) => self.value(view, *at, column.of, &mut builder)?,
            }
            Ok(builder.finish())
        });
        columns.collect()
    }

    /// Appends the result of an aggregate.
    fn value(&self, view: &Maintained, at: usize, of: Type, builder: &mut ColumnBuilder) -> Result<()> {
        let total = &self.aggregates[at];
        let aggregate = &view.definition.aggregates[at];
        match aggregate.function {
            Function::Rows => builder.append(Datum::Int(self.rows)),
            Function::Count => builder.append(Datum::Int(total.count)),
            Function::Sum | Function::Average if total.count == 0 => builder.append(Datum::Null),
            Function::Sum => builder.append(number(of, total.sum)?),
            Function::Average => builder.append(average(aggregate.of, of, total)?),
            Function::Min | Function::Max => match &total.extreme {
                None => builder.append(Datum::Null),
                Some(key) => {
                    builder.append(keys::decode(of, KeyOrder::ASCENDING, &mut key.as_slice())?.datum())
                }
            },
        }
    }
}

/// A sum as a value of its column's type.
fn number(of: Type, value: i128) -> Result<Datum<'static>> {
    match of {
        Type::Decimal(..) => Ok(Datum::Decimal(value)),
        _ => i64::try_from(value).map(Datum::Int).map_err(|_| too_large()),
    }
}

/// Averages as DataFusion computes them: integers as floats, decimals with up to four more digits, truncated.
fn average(from: Type, to: Type, total: &Total) -> Result<Datum<'static>> {
    match (from, to) {
        (Type::Decimal(_, from), Type::Decimal(_, to)) => {
            let scaled =
                total.sum.checked_mul(10_i128.pow((to - from).max(0) as u32)).ok_or_else(too_large)?;
            Ok(Datum::Decimal(scaled / i128::from(total.count)))
        }
        _ => Ok(Datum::Float(total.sum as f64 / total.count as f64)),
    }
}

/// A record as columns of one value.
pub(super) fn row(table: &Table, record: Option<&Vec<u8>>) -> Result<Option<RecordBatch>> {
    record.map(|record| record::batch(table, std::iter::once(record.as_slice()))).transpose()
}
