//! The registers of instances, in columns.
//!
//! Invariants: a slot is counted once for each place that holds it, and free when nobody does; slot
//! [`INITIAL`] has the initial values, is not counted and never freed. Slots that are held never change: an
//! update writes a new one.

use super::automaton::RegisterField;
use crate::checkpoint::{restore_rows, save_rows};
use crate::values::{Form, Value, Values};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, internal_err};
use std::sync::Arc;

/// The slot of the register before the first event.
pub(crate) const INITIAL: u32 = 0;

/// One field of all registers.
#[derive(Debug)]
struct FieldColumn {
    data_type: DataType,
    values: Values,
    valid: Vec<bool>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Registers {
    fields: Vec<FieldColumn>,
    holders: Vec<u32>,
    free: Vec<u32>,
}

impl Registers {
    /// Registers of these fields.
    pub fn new(fields: &[RegisterField]) -> Result<Registers> {
        let column = |field: &RegisterField| FieldColumn::new(field.data_type());
        let mut registers =
            Registers { fields: fields.iter().map(column).collect(), holders: Vec::new(), free: Vec::new() };
        let initial = registers.take();
        debug_assert_eq!(initial, INITIAL);
        for (number, field) in fields.iter().enumerate() {
            registers.write(number, &[INITIAL], &field.initial.to_array()?)?;
        }
        Ok(registers)
    }

    /// A free slot, held once. Its values mean nothing.
    pub fn take(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.holders[slot as usize] = 1;
            return slot;
        }
        self.holders.push(1);
        self.fields.iter_mut().for_each(FieldColumn::grow);
        self.holders.len() as u32 - 1
    }

    /// Holds a slot once more.
    #[inline]
    pub fn hold(&mut self, slot: u32) {
        if slot != INITIAL {
            self.holders[slot as usize] += 1;
        }
    }

    /// Holds a slot once less.
    #[inline]
    pub fn release(&mut self, slot: u32) {
        if slot == INITIAL {
            return;
        }
        let holders = &mut self.holders[slot as usize];
        *holders -= 1;
        if *holders == 0 {
            self.free.push(slot);
        }
    }

    /// Writes one value of a field into each of these slots.
    pub fn write(&mut self, field: usize, slots: &[u32], values: &ArrayRef) -> Result<()> {
        self.fields[field].write(slots, values)
    }

    /// Copies a field from slots to others.
    pub fn copy(&mut self, field: usize, from: &[u32], to: &[u32]) {
        self.fields[field].copy(from, to);
    }

    /// The values of a field in these slots.
    pub fn gather(&self, field: usize, slots: &[u32]) -> Result<ArrayRef> {
        self.fields[field].gather(slots)
    }

    /// How many fields a register has.
    pub fn fields(&self) -> usize {
        self.fields.len()
    }

    /// The values in these slots, for a checkpoint.
    pub fn save(&self, slots: &[u32]) -> Result<Vec<u8>> {
        let columns = (0..self.fields()).map(|field| self.gather(field, slots));
        let fields = self.fields.iter().map(|field| Field::new("field", field.data_type.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(slots.len()));
        let rows = RecordBatch::try_new_with_options(schema, columns.collect::<Result<_>>()?, &options)?;
        save_rows(&rows)
    }

    /// New slots with the values of a checkpoint, in their order, each held once.
    pub fn restore(&mut self, saved: &[u8]) -> Result<Vec<u32>> {
        let rows = restore_rows(saved)?;
        let slots: Vec<u32> = (0..rows.num_rows()).map(|_| self.take()).collect();
        for (field, column) in rows.columns().iter().enumerate() {
            self.write(field, &slots, column)?;
        }
        Ok(slots)
    }

    /// Whether two slots hold the same.
    pub fn same(&self, one: u32, other: u32) -> bool {
        one == other || self.fields.iter().all(|field| field.same(one as usize, other as usize))
    }
}

/// Does the same with the values of a field, whatever form they have.
macro_rules! with_form {
    ($values:expr, $found:ident => $do:expr) => {
        match $values {
            Values::Int($found) => $do,
            Values::Uint($found) => $do,
            Values::Float($found) => $do,
            Values::Decimal($found) => $do,
            Values::Bytes($found) => $do,
            Values::Lists { .. } | Values::Structs(_) => {
                unreachable!("the values of a register are encoded: it has no columns within columns")
            }
        }
    };
}

impl FieldColumn {
    fn new(data_type: DataType) -> FieldColumn {
        let values = match Form::of(&data_type) {
            Form::Int => Values::Int(Vec::new()),
            Form::Uint => Values::Uint(Vec::new()),
            Form::Float => Values::Float(Vec::new()),
            Form::Decimal => Values::Decimal(Vec::new()),
            Form::Bytes => Values::Bytes(Vec::new()),
        };
        FieldColumn { data_type, values, valid: Vec::new() }
    }

    fn grow(&mut self) {
        self.valid.push(false);
        with_form!(&mut self.values, values => values.push(Value::filler()));
    }

    fn write(&mut self, slots: &[u32], array: &ArrayRef) -> Result<()> {
        if array.len() != slots.len() || *array.data_type() != self.data_type {
            return internal_err!("the register takes {}, not {}", self.data_type, array.data_type());
        }
        let nulls = array.logical_nulls();
        for (row, &slot) in slots.iter().enumerate() {
            self.valid[slot as usize] = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        }
        with_form!(&mut self.values, values => write(values, slots, array))
    }

    fn copy(&mut self, from: &[u32], to: &[u32]) {
        for (&from, &to) in from.iter().zip(to) {
            self.valid[to as usize] = self.valid[from as usize];
        }
        with_form!(&mut self.values, values => copy(values, from, to));
    }

    fn gather(&self, slots: &[u32]) -> Result<ArrayRef> {
        let valid = |slot: &u32| self.valid[*slot as usize];
        let nulls = match slots.iter().all(valid) {
            true => None,
            false => Some(slots.iter().map(valid).collect::<NullBuffer>()),
        };
        with_form!(&self.values, values => gather(values, slots, nulls, &self.data_type))
    }

    fn same(&self, one: usize, other: usize) -> bool {
        self.valid[one] == self.valid[other]
            && (!self.valid[one]
                || with_form!(&self.values, values => values[one].exact() == values[other].exact()))
    }
}

fn write<V: Value>(values: &mut [V], slots: &[u32], array: &ArrayRef) -> Result<()> {
    let column = V::column(array)?;
    for (row, &slot) in slots.iter().enumerate() {
        values[slot as usize] = V::get(&column, row);
    }
    Ok(())
}

fn copy<V: Value>(values: &mut [V], from: &[u32], to: &[u32]) {
    for (&from, &to) in from.iter().zip(to) {
        values[to as usize] = values[from as usize].clone();
    }
}

fn gather<V: Value>(
    values: &[V],
    slots: &[u32],
    nulls: Option<NullBuffer>,
    to: &DataType,
) -> Result<ArrayRef> {
    V::array(slots.iter().map(|&slot| values[slot as usize].clone()).collect(), nulls, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int32Array, StringArray};
    use datafusion::common::ScalarValue;

    #[test]
    fn slots_are_reused_when_nobody_holds_them() {
        let fields = [
            RegisterField::new("n", ScalarValue::Int32(Some(7))),
            RegisterField::new("t", ScalarValue::Utf8(None)),
        ];
        let mut registers = Registers::new(&fields).unwrap();
        let slot = registers.take();
        registers.copy(0, &[INITIAL], &[slot]);
        registers.copy(1, &[INITIAL], &[slot]);
        assert!(registers.same(INITIAL, slot));
        registers.write(1, &[slot], &(Arc::new(StringArray::from(vec!["a"])) as ArrayRef)).unwrap();
        assert!(!registers.same(INITIAL, slot));
        let numbers = registers.gather(0, &[slot, INITIAL]).unwrap();
        assert_eq!(numbers.as_ref(), &Int32Array::from(vec![7, 7]));
        let texts = registers.gather(1, &[slot, INITIAL]).unwrap();
        assert_eq!(texts.as_string::<i32>(), &StringArray::from(vec![Some("a"), None]));
        registers.hold(slot);
        registers.release(slot);
        assert_ne!(registers.take(), slot);
        registers.release(slot);
        assert_eq!(registers.take(), slot);
    }
}
