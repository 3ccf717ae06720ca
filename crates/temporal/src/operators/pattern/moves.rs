//! Arcs that instances may take at an event: their tests, and what they note, evaluated for many instances at
//! once.
//!
//! Invariants: moves stay in their order. Until a move is [updated](Moves::update) its register is the one
//! that its instance had before, which somebody else holds; afterwards the move holds its own.

use super::program::Program;
use super::reader::Reader;
use super::registers::Registers;
use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take;
use datafusion::common::Result;

/// An instance may take an arc at an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    /// The event: a row of the batch.
    pub row: u32,
    pub register: u32,
    /// The number of the arc.
    pub arc: u32,
    /// Whose move it is, as its owner counts.
    pub owner: u32,
}

/// See the module. The memory is kept from one event to the next.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    pub list: Vec<Move>,
    /// Which moves ask for each test, or each update.
    asking: Vec<Vec<u32>>,
    keep: Vec<bool>,
    rows: Vec<u32>,
    slots: Vec<u32>,
}

impl Moves {
    /// Takes out the moves whose tests fail.
    pub fn test(&mut self, program: &Program, events: &RecordBatch, registers: &Registers) -> Result<()> {
        if program.tests.is_empty() || self.list.is_empty() {
            return Ok(());
        }
        self.ask(program.tests.len(), |arc| program.arcs[arc].test);
        self.keep.clear();
        self.keep.resize(self.list.len(), true);
        for (number, test) in program.tests.iter().enumerate() {
            if self.asking[number].is_empty() {
                continue;
            }
            self.select(number);
            let columns = self.columns(test, events, registers)?;
            let truth = test.truth(columns, self.rows.len())?;
            for (place, &asks) in self.asking[number].iter().enumerate() {
                self.keep[asks as usize] = truth.is_valid(place) && truth.value(place);
            }
        }
        let mut keep = self.keep.iter();
        self.list.retain(|_| keep.next().is_none_or(|&keep| keep));
        Ok(())
    }

    /// Gives each move the register that its instance has after the event.
    pub fn update(
        &mut self,
        program: &Program,
        events: &RecordBatch,
        registers: &mut Registers,
    ) -> Result<()> {
        self.ask(program.updates.len(), |arc| program.arcs[arc].update);
        for &Move { arc, register, .. } in &self.list {
            if program.arcs[arc as usize].update.is_none() {
                registers.hold(register);
            }
        }
        for (number, update) in program.updates.iter().enumerate() {
            if self.asking[number].is_empty() {
                continue;
            }
            self.select(number);
            let mut values = Vec::with_capacity(update.len());
            for (field, value) in update {
                let columns = self.columns(value, events, registers)?;
                values.push((*field, value.evaluate(columns, self.rows.len())?));
            }
            let slots: Vec<u32> = self.slots.iter().map(|_| registers.take()).collect();
            for field in 0..registers.fields() {
                match values.iter().find(|(changed, _)| *changed == field) {
                    Some((_, values)) => registers.write(field, &slots, values)?,
                    None => registers.copy(field, &self.slots, &slots),
                }
            }
            for (&asks, slot) in self.asking[number].iter().zip(slots) {
                self.list[asks as usize].register = slot;
            }
        }
        Ok(())
    }

    /// Notes which moves ask for each of so many expressions.
    fn ask(&mut self, expressions: usize, of: impl Fn(usize) -> Option<usize>) {
        self.asking.iter_mut().for_each(Vec::clear);
        if self.asking.len() < expressions {
            self.asking.resize_with(expressions, Vec::new);
        }
        for (place, Move { arc, .. }) in (0..).zip(&self.list) {
            if let Some(expression) = of(*arc as usize) {
                self.asking[expression].push(place);
            }
        }
    }

    /// Notes the events and the registers of the moves that ask for an expression.
    fn select(&mut self, expression: usize) {
        let Moves { list, asking, rows, slots, .. } = self;
        rows.clear();
        slots.clear();
        for &asks in &asking[expression] {
            let Move { row, register, .. } = list[asks as usize];
            rows.push(row);
            slots.push(register);
        }
    }

    /// The columns that an expression reads, for the moves that were selected.
    fn columns(&self, reader: &Reader, events: &RecordBatch, registers: &Registers) -> Result<Vec<ArrayRef>> {
        let own = events.num_columns();
        let rows = UInt32Array::from(self.rows.clone());
        let column = |&column: &usize| match column < own {
            true => Ok(take(events.column(column), &rows, None)?),
            false => registers.gather(column - own, &self.slots),
        };
        reader.columns.iter().map(column).collect()
    }
}
