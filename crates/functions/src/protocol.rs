//! What the coordinator and functions tell each other, as JSON: function services take and give nothing else.

use crate::bucket::BucketAddress;
use crate::hedged_store::Stragglers;
use crate::object::AttemptId;
use crate::usage::Usage;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Range;
use whimbrel_sharded::error::Failure;

/// How large the payload of an invocation may be, and that of its answer (a limit of AWS Lambda).
pub const PAYLOAD_LIMIT: usize = 6 << 20;

/// Bytes within JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inline(pub Bytes);

impl Serialize for Inline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Inline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Inline, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(|bytes| Inline(bytes.into())).map_err(serde::de::Error::custom)
    }
}

/// An invocation: work of one query, which is done in its order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Invocation {
    /// The name of the query.
    pub job: String,
    /// Its specification.
    pub spec: SpecAddress,
    /// What is to be done.
    pub work: Vec<Work>,
    /// How many reads run at the same time.
    pub parallel_reads: u32,
    /// Where objects are.
    pub bucket: BucketAddress,
    /// How requests that take too long are treated.
    pub stragglers: Stragglers,
}

/// One attempt at a piece of work, which makes one output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// What is done.
    pub kind: WorkKind,
    /// The attempt.
    pub attempt: Inline,
    /// What it reads. A lane that no input has a section of is empty.
    pub inputs: Vec<Input>,
    /// How many partitions its output has.
    pub partitions: u32,
    /// The key of the object that it writes.
    pub output: String,
    /// An output of at most so many bytes is put into the answer, and no object is written.
    pub inline_bytes: u64,
}

/// What a piece of work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkKind {
    /// The task of this number: a channel of the plan. Its lanes are its queues, in their order.
    Task(u32),
    /// Partitions of several objects are put into one (starling.txt §4.2). Each lane is a partition of the
    /// output.
    Combine,
}

/// Where the specification of a query is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpecAddress {
    /// Here.
    Inline(Inline),
    /// In an object of so many bytes.
    Object(String, u64),
}

/// A part of an input: so many bytes for a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// The lane.
    pub lane: u32,
    /// How many bytes.
    pub bytes: u64,
}

/// What one or more lanes hold, section after section, or where that is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// These bytes.
    Inline {
        /// All sections.
        bytes: Inline,
        /// How they are divided.
        sections: Vec<Section>,
    },
    /// A range of an object.
    Object {
        /// The key.
        key: String,
        /// The tag of the object, if its store has tags.
        tag: Option<String>,
        /// Where the first section begins.
        start: u64,
        /// How the range is divided.
        sections: Vec<Section>,
    },
    /// Partitions of an object that may not be there yet.
    Expected {
        /// The key.
        key: String,
        /// How many partitions the object has.
        partitions: u32,
        /// The first one that is read; others follow it.
        first: u32,
        /// The lane of each.
        lanes: Vec<u32>,
    },
}

impl Input {
    /// How many bytes it has, if that is known.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Input::Inline { bytes, .. } => Some(bytes.0.len() as u64),
            Input::Object { sections, .. } => Some(sections.iter().map(|section| section.bytes).sum()),
            Input::Expected { .. } => None,
        }
    }
}

/// The answer to an invocation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What each piece of work made, or why it failed. What comes after a failure was not begun.
    pub outcomes: Vec<Result<WorkOutput, WorkError>>,
    /// What was used of the bucket.
    pub usage: Usage,
    /// How many requests for the specification are among that.
    pub spec_gets: u64,
    /// How many rows were read from sources.
    pub rows_read: u64,
    /// How many rows came too late.
    pub rows_late: u64,
    /// For how long it ran, in milliseconds.
    pub milliseconds: u64,
}

/// Why work failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkError {
    /// The error.
    pub failure: Failure,
    /// What is done about it.
    pub remedy: Remedy,
}

/// What is done about work that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remedy {
    /// Nothing: it would fail again.
    None,
    /// Another attempt may succeed.
    AnotherAttempt,
    /// It was begun too early: what it waited for did not come.
    Later,
}

/// What a piece of work made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkOutput {
    /// Where it is.
    pub place: OutputPlace,
    /// Where each partition ends; the first one begins after the index.
    pub ends: Vec<u64>,
    /// Where the first partition begins.
    pub start: u64,
}

/// Where an output is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputPlace {
    /// Here: all bytes of the object.
    Inline(Inline),
    /// In an object, whose tag this is.
    Object {
        /// The key.
        key: String,
        /// The tag, if the store has tags.
        tag: Option<String>,
    },
}

impl Work {
    /// The attempt, as a number.
    pub fn attempt_id(&self) -> AttemptId {
        self.attempt.0.iter().fold(0, |id, byte| id << 8 | AttemptId::from(*byte))
    }
}

impl WorkOutput {
    /// Where a partition is.
    pub fn range(&self, partition: usize) -> Range<u64> {
        let end = self.ends.get(partition).copied().unwrap_or(self.start);
        let start = partition.checked_sub(1).map_or(self.start, |before| self.ends[before]);
        start.min(end)..end
    }

    /// Partitions that follow each other, as one input for these lanes; none if they are empty.
    pub fn input(&self, first: usize, lanes: &[u32]) -> Option<Input> {
        let range = |place: usize| self.range(first + place);
        let sections = lanes.iter().enumerate().map(|(place, lane)| {
            let range = range(place);
            Section { lane: *lane, bytes: range.end - range.start }
        });
        let sections: Vec<Section> = sections.filter(|section| section.bytes > 0).collect();
        if sections.is_empty() {
            return None;
        }
        let (start, end) = (range(0).start, range(lanes.len() - 1).end);
        Some(match &self.place {
            OutputPlace::Inline(bytes) => {
                let bytes = bytes.0.slice(start as usize..end as usize);
                Input::Inline { bytes: Inline(bytes), sections }
            }
            OutputPlace::Object { key, tag } => {
                Input::Object { key: key.clone(), tag: tag.clone(), start, sections }
            }
        })
    }
}
