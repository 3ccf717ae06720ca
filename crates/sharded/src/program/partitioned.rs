//! The program of a temporal stage whose streams have a clock for each partition (trill.txt §5.4): a device
//! that is slow makes no other late, and none waits for it.
//!
//! Invariants: rows of one partition keep their order, those of several have none. Whether a row is late
//! depends on the rows before it and not on how they were cut into batches: with a lag, no row may be
//! earlier than the latest of all rows before it by more than that. An output that other stages read is put
//! in order and handed out up to its low watermark, so that nobody else has to know partitions.

use super::lanes::{LaneOrder, Lanes, Next};
use super::ordered_rows::OrderedRows;
use super::partitions::{PartitionFactory, Partitions, SavedPartition, split};
use super::{ChannelProgram, Step};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::arrow::row::SortField;
use datafusion::common::{Result, exec_err};
use serde_bytes::ByteBuf;
use whimbrel_temporal::checkpoint::{SavedMessage, decode, encode, open, seal};
use whimbrel_temporal::{BEGINNING, INFINITY, Message, NodeActivity, Time};

/// The word for a low watermark in the column of the kinds of rows.
const LOW_WATERMARK: &str = "low_watermark";

/// An input of the program.
pub(crate) struct PartitionedInput {
    /// How many lanes feed it.
    pub lanes: usize,
    /// The columns that tell partitions apart.
    pub partition: Vec<usize>,
    /// The column of the times, and of the kinds of rows if there is one.
    pub start: usize,
    pub kind: Option<usize>,
    /// How much earlier than the latest row another may be, in ticks; none: as much as it likes.
    pub lag: Option<i64>,
}

struct Input {
    settings: PartitionedInput,
    first_lane: usize,
    round_robin: Lanes,
    ended: bool,
    /// The latest time of all rows.
    high: Time,
}

/// See the module.
pub(crate) struct PartitionedProgram {
    inputs: Vec<Input>,
    /// For each lane its input, and its number there.
    lanes: Vec<(usize, usize)>,
    partitions: Partitions,
    /// The rows of each output that are held back to be put in order; none: rows go out as they come.
    held: Vec<Option<OrderedRows>>,
    /// How far each output has been punctuated.
    punctuated: Vec<Time>,
    announce: bool,
    description: String,
}

/// The program in a checkpoint: its lanes with the latest times, its partitions, what is held back, and how
/// far outputs have been punctuated.
type Saved =
    (Vec<(ByteBuf, bool, Time)>, (Vec<Time>, Vec<SavedPartition>), Vec<Vec<SavedMessage>>, Vec<Time>);

impl PartitionedProgram {
    /// A program of these inputs; `is_ordered` says which outputs are put in order.
    ///
    /// # Errors
    /// Those of `make`; `Plan` if columns cannot tell partitions apart.
    pub fn new(
        inputs: Vec<PartitionedInput>,
        types: &[DataType],
        make: PartitionFactory,
        is_ordered: &[bool],
        announce: bool,
        description: String,
    ) -> Result<PartitionedProgram> {
        let fields = types.iter().map(|of| SortField::new(of.clone())).collect();
        let mut lanes = Vec::new();
        let input = |(number, settings): (usize, PartitionedInput)| {
            let first_lane = lanes.len();
            lanes.extend((0..settings.lanes).map(|lane| (number, lane)));
            let round_robin = Lanes::new(settings.lanes, LaneOrder::RoundRobin);
            Input { settings, first_lane, round_robin, ended: false, high: BEGINNING }
        };
        let inputs = inputs.into_iter().enumerate().map(input).collect();
        Ok(PartitionedProgram {
            inputs,
            lanes,
            partitions: Partitions::new(make, fields)?,
            held: is_ordered.iter().map(|ordered| ordered.then(OrderedRows::default)).collect(),
            punctuated: vec![BEGINNING; is_ordered.len()],
            announce,
            description,
        })
    }

    /// Takes the messages of an input that are next in the round-robin order.
    fn ingest(&mut self, input: usize, out: &mut Vec<(usize, Message)>) -> Result<()> {
        while !self.inputs[input].ended {
            match self.inputs[input].round_robin.next() {
                Next::Message(Message::Batch(batch)) => self.rows(input, &batch.compact()?.rows, out)?,
                Next::Message(Message::Punctuation(INFINITY)) => {}
                Next::Message(Message::Punctuation(time)) => self.partitions.advance(input, time, out)?,
                Next::Blocked(_) => return Ok(()),
                Next::Ended => {
                    self.inputs[input].ended = true;
                    self.partitions.for_each(|partition| partition.complete(input, out))?;
                }
            }
        }
        Ok(())
    }

    /// Takes rows of an input: those between two low watermarks at a time.
    fn rows(&mut self, input: usize, rows: &RecordBatch, out: &mut Vec<(usize, Message)>) -> Result<()> {
        let settings = &self.inputs[input].settings;
        let Some(kind) = settings.kind else { return self.between_watermarks(input, rows, out) };
        let kinds = cast(rows.column(kind), &DataType::Utf8)?;
        let times = cast(rows.column(settings.start), &DataType::Int64)?;
        let (kinds, times) = (kinds.as_string::<i32>(), times.as_primitive::<Int64Type>());
        let mut first = 0;
        for row in 0..rows.num_rows() {
            if kinds.is_valid(row) && kinds.value(row) == LOW_WATERMARK {
                self.between_watermarks(input, &rows.slice(first, row - first), out)?;
                let time = if times.is_null(row) { INFINITY } else { times.value(row) };
                self.partitions.advance(input, time, out)?;
                first = row + 1;
            }
        }
        self.between_watermarks(input, &rows.slice(first, rows.num_rows() - first), out)
    }

    /// Takes rows without low watermarks among them, each partition's together.
    fn between_watermarks(
        &mut self,
        input: usize,
        rows: &RecordBatch,
        out: &mut Vec<(usize, Message)>,
    ) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let settings = &self.inputs[input].settings;
        let columns: Vec<ArrayRef> =
            settings.partition.iter().map(|column| rows.column(*column).clone()).collect();
        let numbers = self.partitions.numbers(&columns)?;
        let late = self.late(input, rows)?;
        let mut first = 0;
        for (row, low) in late {
            self.push(input, &rows.slice(first, row - first), &numbers[first..row], out)?;
            self.partitions.advance(input, low, out)?;
            first = row;
        }
        self.push(input, &rows.slice(first, rows.num_rows() - first), &numbers[first..], out)?;
        match self.inputs[input].settings.lag {
            Some(lag) => self.partitions.advance(input, self.inputs[input].high.saturating_sub(lag), out),
            None => Ok(()),
        }
    }

    /// The rows that are late by the lag, with the low watermark before each.
    fn late(&mut self, input: usize, rows: &RecordBatch) -> Result<Vec<(usize, Time)>> {
        let input = &mut self.inputs[input];
        let Some(lag) = input.settings.lag else { return Ok(vec![]) };
        let times = cast(rows.column(input.settings.start), &DataType::Int64)?;
        let times = times.as_primitive::<Int64Type>();
        let mut late = Vec::new();
        for row in (0..rows.num_rows()).filter(|row| times.is_valid(*row)) {
            let (time, low) = (times.value(row), input.high.saturating_sub(lag));
            if time < low {
                late.push((row, low));
            }
            input.high = input.high.max(time);
        }
        Ok(late)
    }

    /// Pushes rows into their partitions.
    fn push(
        &mut self,
        input: usize,
        rows: &RecordBatch,
        numbers: &[usize],
        out: &mut Vec<(usize, Message)>,
    ) -> Result<()> {
        for (number, rows) in split(rows, numbers)? {
            self.partitions.partition(number).push(input, rows, self.announce, out)?;
        }
        Ok(())
    }

    /// Puts what came out in order where that is asked for, and adds the low watermarks of the outputs.
    fn hand_out(&mut self, produced: Vec<(usize, Message)>, out: &mut Vec<(usize, Message)>) -> Result<()> {
        for (output, message) in produced {
            match (&mut self.held[output], message) {
                (Some(held), Message::Batch(batch)) => held.push(batch),
                (_, message) => out.push((output, message)),
            }
        }
        for output in 0..self.held.len() {
            let low = self.partitions.passed(output);
            if low <= self.punctuated[output] {
                continue;
            }
            self.punctuated[output] = low;
            if let Some(held) = &mut self.held[output] {
                out.extend(held.take_before(low)?.map(|batch| (output, Message::Batch(batch))));
            }
            out.push((output, Message::Punctuation(low)));
        }
        Ok(())
    }

    /// The lane of the input that is furthest behind.
    fn needs(&self) -> Step {
        let lane = |(number, input): (usize, &Input)| {
            let lane = input.round_robin.blocked_lane()?;
            Some((self.partitions.low(number).max(input.high), number, input.first_lane + lane))
        };
        let behind = self.inputs.iter().enumerate().filter_map(lane).min();
        behind.map_or(Step::Ended, |(_, _, lane)| Step::Needs(lane))
    }
}

impl ChannelProgram for PartitionedProgram {
    fn push(&mut self, lane: usize, message: Message) -> Result<()> {
        let (input, lane) = self.lanes[lane];
        self.inputs[input].round_robin.push(lane, message);
        Ok(())
    }

    fn end(&mut self, lane: usize) -> Result<()> {
        let (input, lane) = self.lanes[lane];
        self.inputs[input].round_robin.end(lane);
        Ok(())
    }

    fn step(&mut self, out: &mut Vec<(usize, Message)>) -> Result<Step> {
        let mut produced = Vec::new();
        for input in 0..self.inputs.len() {
            self.ingest(input, &mut produced)?;
        }
        self.hand_out(produced, out)?;
        Ok(self.needs())
    }

    fn activity(&self) -> Vec<NodeActivity> {
        self.partitions.activity()
    }

    fn save(&self) -> Result<Option<Vec<u8>>> {
        let input = |input: &Input| Ok((input.round_robin.save()?.into(), input.ended, input.high));
        let held = |held: &Option<OrderedRows>| -> Result<Vec<SavedMessage>> {
            let batches = held.iter().flat_map(OrderedRows::batches);
            batches.map(|batch| SavedMessage::of(&Message::Batch(batch.clone()))).collect()
        };
        let saved: Saved = (
            self.inputs.iter().map(input).collect::<Result<_>>()?,
            self.partitions.save()?,
            self.held.iter().map(held).collect::<Result<_>>()?,
            self.punctuated.clone(),
        );
        seal(&self.description, &encode(&saved)?).map(Some)
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (inputs, partitions, held, punctuated): Saved = decode(open(&self.description, state)?)?;
        if inputs.len() != self.inputs.len() || held.len() != self.held.len() {
            return exec_err!("the checkpoint is of another query");
        }
        for (input, (lanes, ended, high)) in self.inputs.iter_mut().zip(inputs) {
            input.round_robin.restore(&lanes)?;
            (input.ended, input.high) = (ended, high);
        }
        self.partitions.restore(partitions)?;
        for (held, saved) in self.held.iter_mut().zip(held) {
            let Some(held) = held else { continue };
            for message in saved {
                if let Message::Batch(batch) = message.message()? {
                    held.push(batch);
                }
            }
        }
        self.punctuated = punctuated;
        Ok(())
    }

    fn rows_late(&self) -> u64 {
        self.partitions.dropped()
    }

    fn take_late(&mut self) -> Vec<RecordBatch> {
        self.partitions.take_late()
    }
}
