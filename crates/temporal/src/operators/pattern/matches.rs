//! Matches on their way out: the key, and the register.
//!
//! Invariant: a match holds the slot of its register until it is handed out.

use super::intake::{Events, Intake};
use super::registers::Registers;
use crate::batch::{Batch, Message, Other};
use crate::time::Time;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;

/// A match at an event.
#[derive(Debug, Clone, Copy)]
struct Match {
    row: u32,
    register: u32,
    end: Time,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    list: Vec<Match>,
}

impl Matches {
    /// Notes a match at an event, which lives until `end`. The slot of the register is held already.
    #[inline]
    pub fn push(&mut self, row: u32, end: Time, register: u32) {
        self.list.push(Match { row, register, end });
    }

    /// Hands out the matches at some events.
    pub fn flush(
        &mut self,
        events: &Events,
        intake: &Intake,
        registers: &mut Registers,
        schema: &SchemaRef,
        out: &mut Vec<Message>,
    ) -> Result<()> {
        if self.list.is_empty() {
            return Ok(());
        }
        self.list.sort_by_key(|found| found.row);
        let groups: Vec<u32> = self.list.iter().map(|found| events.groups[found.row as usize]).collect();
        let slots: Vec<u32> = self.list.iter().map(|found| found.register).collect();
        let mut columns = intake.key_columns(&groups)?;
        for field in 0..registers.fields() {
            columns.push(registers.gather(field, &slots)?);
        }
        let sync: Vec<Time> = self.list.iter().map(|found| events.times[found.row as usize]).collect();
        let other: Vec<Time> = self.list.iter().map(|found| found.end).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(sync.len()));
        let rows = RecordBatch::try_new_with_options(schema.clone(), columns, &options)?;
        out.push(Message::Batch(Batch::new(sync.into(), Other::Column(other.into()), rows)));
        slots.into_iter().for_each(|slot| registers.release(slot));
        self.list.clear();
        Ok(())
    }
}
