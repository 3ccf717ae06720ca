//! Tapes: what the programs of a query were given, and what they handed out.
//!
//! A [`TapeRecorder`] keeps the tape of each channel, and a digest of each message that came out of it.
//! Messages are numbered where they come out, so that a task has the same name in every process. A digest
//! covers values, order and the bounds of batches: all that a consumer can see.

use super::{ChannelProgram, Step};
use crate::dataset::Predicate;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, exec_err};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_temporal::checkpoint::{SavedMessage, encode};
use whimbrel_temporal::{Message, NodeActivity};

/// A channel of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChannelId {
    /// The number of its stage.
    pub stage: usize,
    /// Its number in the stage.
    pub channel: usize,
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stage {}, channel {}", self.stage, self.channel)
    }
}

/// A task: the step of a channel that handed out one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId {
    /// The channel.
    pub channel: ChannelId,
    /// The number of the message among all that the channel handed out.
    pub sequence: u64,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {} of {}", self.sequence, self.channel)
    }
}

/// What a program was given.
#[derive(Debug, Clone)]
pub enum TapeEntry {
    /// The next message of a lane.
    Message(usize, Message),
    /// The end of a lane.
    End(usize),
}

/// A message that a program handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Produced {
    /// The number of the output.
    pub output: usize,
    /// The digest of the message.
    pub digest: [u8; 32],
}

/// What is known of a channel that has run.
#[derive(Debug, Clone, Default)]
pub struct ChannelTape {
    /// What it was given, in order.
    pub entries: Vec<TapeEntry>,
    /// What it handed out, in order.
    pub produced: Vec<Produced>,
}

/// Keeps the tapes of the channels of a query.
#[derive(Debug, Default)]
pub struct TapeRecorder {
    tapes: Mutex<BTreeMap<ChannelId, ChannelTape>>,
}

impl TapeRecorder {
    /// The tapes so far.
    pub fn tapes(&self) -> BTreeMap<ChannelId, ChannelTape> {
        // Every change is one insertion, so a panic elsewhere leaves whole tapes.
        self.tapes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn update(&self, channel: ChannelId, change: impl FnOnce(&mut ChannelTape)) {
        change(self.tapes.lock().unwrap_or_else(PoisonError::into_inner).entry(channel).or_default());
    }
}

/// A message with its number, by what a consumer can see of it.
fn produced(output: usize, message: &Message) -> Result<Produced> {
    let message = match message {
        // Absent rows are not seen.
        Message::Batch(batch) => SavedMessage::of(&Message::Batch(batch.clone().compact()?))?,
        Message::Punctuation(_) => SavedMessage::of(message)?,
    };
    Ok(Produced { output, digest: *blake3::hash(&encode(&message)?).as_bytes() })
}

impl ChannelTape {
    /// Gives a new program of the same channel what the first one was given. It has to hand out the same.
    ///
    /// # Errors
    /// `Execution` with the first task that differs; what the program fails with.
    pub fn replay(&self, channel: ChannelId, program: &mut dyn ChannelProgram) -> Result<()> {
        let mut entries = self.entries.iter();
        let mut sequence = 0_usize;
        let mut out = Vec::new();
        loop {
            let step = program.step(&mut out)?;
            for (output, message) in out.drain(..) {
                let task = TaskId { channel, sequence: sequence as u64 };
                if self.produced.get(sequence) != Some(&produced(output, &message)?) {
                    return exec_err!("{task} differs from what the channel handed out first");
                }
                sequence += 1;
            }
            let entry = match step {
                Step::Ready => continue,
                Step::Ended => break,
                Step::Needs(_) | Step::NeedsAny => entries.next(),
            };
            match entry {
                Some(TapeEntry::Message(lane, message)) => program.push(*lane, message.clone())?,
                Some(TapeEntry::End(lane)) => program.end(*lane)?,
                // The channel was stopped here, because nobody read on.
                None => break,
            }
        }
        match sequence == self.produced.len() {
            true => Ok(()),
            false => exec_err!(
                "{channel} handed out {} messages, and {sequence} when it was replayed",
                self.produced.len()
            ),
        }
    }
}

/// A program whose tape is kept.
pub(super) struct RecordedProgram {
    pub program: Box<dyn ChannelProgram>,
    pub channel: ChannelId,
    pub recorder: Arc<TapeRecorder>,
}

impl ChannelProgram for RecordedProgram {
    fn push(&mut self, lane: usize, message: Message) -> Result<()> {
        self.recorder.update(self.channel, |tape| {
            tape.entries.push(TapeEntry::Message(lane, message.clone()));
        });
        self.program.push(lane, message)
    }

    fn end(&mut self, lane: usize) -> Result<()> {
        self.recorder.update(self.channel, |tape| tape.entries.push(TapeEntry::End(lane)));
        self.program.end(lane)
    }

    fn candidate_lanes(&self) -> Vec<usize> {
        self.program.candidate_lanes()
    }

    fn activity(&self) -> Vec<NodeActivity> {
        self.program.activity()
    }

    fn give_turn(&mut self, lane: usize) {
        self.program.give_turn(lane);
    }

    fn step(&mut self, out: &mut Vec<(usize, Message)>) -> Result<Step> {
        let first = out.len();
        let step = self.program.step(out)?;
        let new = out[first..].iter().map(|(output, message)| produced(*output, message));
        let new = new.collect::<Result<Vec<_>>>()?;
        self.recorder.update(self.channel, |tape| tape.produced.extend(new));
        Ok(step)
    }

    fn predicate(&self, lane: usize) -> Option<Predicate> {
        self.program.predicate(lane)
    }

    fn save(&self) -> Result<Option<Vec<u8>>> {
        self.program.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.program.restore(state)
    }

    fn rows_late(&self) -> u64 {
        self.program.rows_late()
    }

    fn take_late(&mut self) -> Vec<RecordBatch> {
        self.program.take_late()
    }
}
