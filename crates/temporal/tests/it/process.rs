//! Operators of a user's own against the oracle: however rows are cut into batches, and from checkpoints.

use crate::equal::cases;
use crate::generate::{Kinds, NUMBER, TEXT, dice, streams};
use crate::model::{Event, Value};
use crate::oracle::{Events, in_order};
use crate::plan::{Plan, Step, check};
use arrow::array::{Array, AsArray, Int64Array, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::common::Result;
use proptest::prelude::*;
use std::sync::Arc;
use whimbrel_temporal::operators::{Process, Processed, UserOperator, UserProcess};

/// How many rows are made of one: none of a null, and 0 to 2 by its number.
fn copies(number: Option<i64>) -> usize {
    number.map_or(0, |number| number.rem_euclid(3) as usize)
}

/// Gives for each row, some times, how many rows started before it. The last column is the start.
#[derive(Debug)]
struct Earlier;

impl UserOperator for Earlier {
    fn name(&self) -> &str {
        "earlier"
    }

    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("earlier", DataType::Int64, true)]))
    }

    fn start(&self) -> Result<Box<dyn UserProcess>> {
        Ok(Box::new(Counted { earlier: 0, now: i64::MIN, at_once: 0 }))
    }
}

/// How many rows started before an instant, and how many at it.
struct Counted {
    earlier: i64,
    now: i64,
    at_once: i64,
}

impl UserProcess for Counted {
    fn process(&mut self, rows: &RecordBatch) -> Result<Processed> {
        assert!(rows.num_rows() > 0, "an operator is not called for nothing");
        let numbers = rows.column(NUMBER).as_primitive::<Int64Type>();
        let starts = rows.column(rows.num_columns() - 1).as_primitive::<Int64Type>();
        let (mut earlier, mut made_of) = (Vec::new(), Vec::new());
        for (row, start) in starts.values().iter().enumerate() {
            assert!(*start >= self.now, "rows come in the order of their starts");
            if *start > self.now {
                (self.earlier, self.now, self.at_once) = (self.earlier + self.at_once, *start, 0);
            }
            self.at_once += 1;
            for _ in 0..copies(numbers.is_valid(row).then(|| numbers.value(row))) {
                earlier.push(self.earlier);
                made_of.push(row as u32);
            }
        }
        let rows = RecordBatch::try_from_iter([("earlier", Arc::new(Int64Array::from(earlier)) as _)])?;
        // Where one row is made of each, nothing has to be said.
        let one_each = made_of.iter().enumerate().all(|(at, of)| at == *of as usize);
        let one_each = one_each && made_of.len() == starts.len();
        let made_of = (!one_each).then(|| UInt32Array::from(made_of));
        Ok(Processed { rows: rows.with_schema(Earlier.schema())?, made_of })
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok([self.earlier, self.now, self.at_once].iter().flat_map(|n| n.to_le_bytes()).collect())
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let numbers: Vec<i64> =
            state.chunks(8).map(|bytes| i64::from_le_bytes(bytes.try_into().expect("eight bytes"))).collect();
        (self.earlier, self.now, self.at_once) = (numbers[0], numbers[1], numbers[2]);
        Ok(())
    }
}

/// The engine's operator, which keeps the text; it follows `WithStart`.
pub fn operator(input: &SchemaRef) -> Process {
    Process::try_new(&Earlier, input, vec![TEXT]).expect("an operator")
}

/// What it gives.
pub fn expected(events: &Events) -> Events {
    let earlier = |event: &Event| events.iter().filter(|other| other.start < event.start).count();
    let made = events.iter().flat_map(|event| {
        let number = match event.row[NUMBER] {
            Value::Int(number) => Some(number),
            _ => None,
        };
        let row = vec![event.row[TEXT].clone(), Value::Int(earlier(event) as i64)];
        vec![Event { row, ..*event }; copies(number)]
    });
    in_order(made.collect())
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn points_are_processed(stream in streams(Kinds::Points, 40), dice in dice()) {
        check(&Plan::of(Step::WithStart).then(Step::Process), &[stream], &dice);
    }

    #[test]
    fn intervals_are_processed(stream in streams(Kinds::Intervals, 40), dice in dice()) {
        check(&Plan::of(Step::WithStart).then(Step::Process), &[stream], &dice);
    }
}
