//! Merges time-ordered inputs into one order.
//!
//! Invariants: rows come out by sync time, ties by input number and then by arrival; a row comes out as soon
//! as, and not before, no input can still bring one that belongs before it. So the order does not depend on
//! how the inputs were cut into messages. Where the inputs do not interleave, batches pass through uncut
//! (trill.txt §6.1).
//!
//! An [`eager`](TimeMerge::eager) merge is for who puts the rows of an instant in order himself: these come
//! as they arrived, none waits for a row of its own instant.

use crate::batch::{Batch, Message};
use crate::checkpoint::SavedBatch;
use crate::held::{Held, memory_of};
use crate::runs::leading;
use crate::time::{BEGINNING, INFINITY, Time};
use datafusion::common::Result;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::collections::VecDeque;
use std::ops::Range;

/// A merge of a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedMerge {
    /// Of each input the batches that wait, the frontier and the last punctuation.
    inputs: Vec<(Vec<SavedBatch>, Time, Time)>,
    watermark: Time,
    eager: bool,
}

/// One input.
#[derive(Debug)]
struct Input<B> {
    /// Batches of which at least one row is not out yet.
    waiting: VecDeque<B>,
    /// Rows of the first waiting batch that are already out.
    taken: usize,
    /// No row before this will arrive.
    frontier: Time,
    /// A punctuation at the frontier is among what was pushed (else the frontier is a row's sync time).
    punctuated: Time,
    /// The sync time of the next row, or the time before which none will come; and whether it is a row.
    head: (Time, bool),
}

impl<B: Borrow<Batch>> Input<B> {
    /// An input with these batches.
    fn new(waiting: VecDeque<B>, frontier: Time, punctuated: Time) -> Input<B> {
        let mut input = Input { waiting, taken: 0, frontier, punctuated, head: (frontier, false) };
        input.find_head();
        input
    }

    /// Looks for the next row, after rows have come or gone.
    #[inline]
    fn find_head(&mut self) {
        self.head = match self.waiting.front() {
            Some(batch) => (batch.borrow().sync[self.taken], true),
            None => (self.frontier, false),
        };
    }
}

/// Merges `n` inputs by time.
///
/// A stretch of rows of one input is found in time linear in the number of inputs and logarithmic in its
/// rows, and is a slice of its batch. Trill merges pairs of inputs in a tree (trill.txt §6.1). What waits may
/// be more than a batch: whoever knows something of it beside its rows computes that once, when it comes.
#[derive(Debug)]
pub struct TimeMerge<B = Batch> {
    inputs: Vec<Input<B>>,
    /// The last punctuation that came out.
    watermark: Time,
    /// Rows do not wait for others of their own instant.
    eager: bool,
}

impl Iterator for TimeMerge {
    type Item = (usize, Message);

    /// The next rows of the merged order, with the input they come from, or the next punctuation (then the
    /// input means nothing); none until more is pushed.
    fn next(&mut self) -> Option<(usize, Message)> {
        if let Some(input) = self.first() {
            return Some((input, Message::Batch(self.take(input))));
        }
        self.punctuation().map(|time| (0, Message::Punctuation(time)))
    }
}

impl TimeMerge {
    /// A merge of so many inputs, from none of which anything has come.
    pub fn new(inputs: usize) -> TimeMerge {
        TimeMerge::of(inputs)
    }

    /// Takes the next message of an input.
    pub fn push(&mut self, input: usize, message: Message) {
        match message {
            Message::Punctuation(time) => self.punctuate(input, time),
            Message::Batch(batch) => {
                // Sync times of absent rows are as good as any: they too bound what follows.
                if let Some(&last) = batch.sync.last() {
                    self.reach(input, last);
                    self.wait(input, batch);
                }
            }
        }
    }

    /// Takes from `input` as many rows as come before the next row of any other.
    fn take(&mut self, input: usize) -> Batch {
        let rows = self.stretch(input);
        let part = self.inputs[input].waiting[0].slice(rows.start, rows.len());
        self.pass(input, rows.end);
        part
    }
}

impl<B: Borrow<Batch>> TimeMerge<B> {
    /// A merge of so many inputs of whatever waits.
    pub(crate) fn of(inputs: usize) -> TimeMerge<B> {
        let input = |_| Input::new(VecDeque::new(), BEGINNING, BEGINNING);
        TimeMerge { inputs: (0..inputs).map(input).collect(), watermark: BEGINNING, eager: false }
    }

    /// The same, but rows do not wait for others of their own instant: their order within it means nothing.
    pub(crate) fn eager(self) -> TimeMerge<B> {
        TimeMerge { eager: true, ..self }
    }

    /// A punctuation of an input.
    pub(crate) fn punctuate(&mut self, input: usize, time: Time) {
        self.reach(input, time);
        let state = &mut self.inputs[input];
        state.punctuated = state.punctuated.max(time);
    }

    /// No row of this input before `time` will come.
    pub(crate) fn reach(&mut self, input: usize, time: Time) {
        let state = &mut self.inputs[input];
        state.frontier = state.frontier.max(time);
        state.find_head();
    }

    /// The next rows of an input, which has reached the last of them; there is one at least.
    pub(crate) fn wait(&mut self, input: usize, batch: B) {
        debug_assert!(!batch.borrow().is_empty());
        self.inputs[input].waiting.push_back(batch);
        self.inputs[input].find_head();
    }

    /// The next punctuation of the merged order, if it is next.
    ///
    /// If the input that is behind is so by the time of a row, that row is out and says how far time has
    /// come; if it is by a punctuation, that is handed on, whether the inputs ahead of it have punctuated or
    /// not.
    pub(crate) fn punctuation(&mut self) -> Option<Time> {
        let time = self.inputs.iter().map(|i| i.head.0).min()?;
        (time > self.watermark && self.inputs.iter().any(|i| i.punctuated == time)).then(|| {
            self.watermark = time;
            time
        })
    }

    /// The input whose news has to come before anything else can; none if rows are ready or all inputs have
    /// ended.
    pub fn waiting_for(&self) -> Option<usize> {
        if self.first().is_some() {
            return None;
        }
        let (input, state) = self.inputs.iter().enumerate().min_by_key(|(i, s)| (s.head.0, *i))?;
        (!state.head.1 && state.frontier < INFINITY).then_some(input)
    }

    /// The rows that wait. The memory of what waits is counted where `counts` says so.
    pub(crate) fn held(&self, counts: impl Fn(&B) -> bool) -> Held {
        let waiting = || self.inputs.iter().flat_map(|input| &input.waiting);
        let first = |input: &Input<B>| input.waiting.front().map(|first| first.borrow().sync[input.taken]);
        let taken: usize = self.inputs.iter().map(|input| input.taken).sum();
        Held {
            rows: waiting().map(|batch| batch.borrow().len()).sum::<usize>() - taken,
            bytes: memory_of(waiting().filter(|batch| counts(batch)).map(|batch| &batch.borrow().rows)),
            oldest: self.inputs.iter().filter_map(first).min(),
        }
    }

    /// How many messages of an input wait.
    pub fn buffered(&self, input: usize) -> usize {
        self.inputs[input].waiting.len()
    }

    /// The first of what waits of an input; there is one.
    pub(crate) fn front(&mut self, input: usize) -> &mut B {
        &mut self.inputs[input].waiting[0]
    }

    /// The rows of the front of `input` before `end` are out. Returns the front if that was the last of it.
    pub(crate) fn pass(&mut self, input: usize, end: usize) -> Option<B> {
        let state = &mut self.inputs[input];
        state.taken = end;
        let passed = if end < state.waiting[0].borrow().len() {
            None
        } else {
            state.taken = 0;
            state.waiting.pop_front()
        };
        state.find_head();
        passed
    }

    /// What waits, for a checkpoint.
    pub(crate) fn save(&self) -> Result<SavedMerge> {
        let mut inputs = Vec::new();
        for input in &self.inputs {
            let rest = |(i, batch): (usize, &B)| {
                let batch = batch.borrow();
                let taken = if i == 0 { input.taken } else { 0 };
                SavedBatch::of(&batch.slice(taken, batch.len() - taken))
            };
            let waiting = input.waiting.iter().enumerate().map(rest).collect::<Result<_>>()?;
            inputs.push((waiting, input.frontier, input.punctuated));
        }
        Ok(SavedMerge { inputs, watermark: self.watermark, eager: self.eager })
    }

    /// The merge that was saved. `of` makes what waits of a batch of an input.
    pub(crate) fn restore(
        saved: SavedMerge,
        mut of: impl FnMut(usize, Batch) -> Result<B>,
    ) -> Result<TimeMerge<B>> {
        let mut inputs = Vec::new();
        for (input, (waiting, frontier, punctuated)) in saved.inputs.into_iter().enumerate() {
            let waiting =
                waiting.into_iter().map(|saved| of(input, saved.batch()?)).collect::<Result<_>>()?;
            inputs.push(Input::new(waiting, frontier, punctuated));
        }
        Ok(TimeMerge { inputs, watermark: saved.watermark, eager: saved.eager })
    }

    /// The input whose next row is next of all, if that is certain.
    pub(crate) fn first(&self) -> Option<usize> {
        let place = |(i, s): &(usize, &Input<B>)| {
            let (time, is_row) = s.head;
            (time, self.eager && !is_row, *i)
        };
        let (input, state) = self.inputs.iter().enumerate().min_by_key(place)?;
        state.head.1.then_some(input)
    }

    /// The rows of the front of `input`, whose next row is next of all, that come before the next row of any
    /// other.
    pub(crate) fn stretch(&self, input: usize) -> Range<usize> {
        let until = |i: usize, s: &Input<B>| match i < input && !self.eager {
            true => s.head.0,
            false => s.head.0.saturating_add(1),
        };
        let limit =
            self.inputs.iter().enumerate().filter(|(i, _)| *i != input).map(|(i, s)| until(i, s)).min();
        let ended = self.inputs.iter().enumerate().all(|(i, s)| i == input || s.head == (INFINITY, false));
        let state = &self.inputs[input];
        let rest = &state.waiting[0].borrow().sync[state.taken..];
        let count = match limit {
            Some(limit) if !ended => leading(rest, 1, |&t| t < limit),
            _ => rest.len(),
        };
        state.taken..state.taken + count
    }
}
