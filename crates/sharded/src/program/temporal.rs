//! The program of a temporal stage: ingress and merge at its inputs, a graph of operators behind them.
//!
//! Invariants: what is pushed to an input of the graph is in order of time; the lane that is needed is one of
//! the input that is furthest behind, so that no operator hoards what cannot be used yet. With `announce`,
//! every output is told how far time has come after each step: an exchange's receivers wait for that.

use super::turns::{Turn, Turns};
use super::{ChannelProgram, Step};
use crate::merge::Gather;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, exec_err};
use whimbrel_temporal::checkpoint::{SavedMessage, decode, encode, open, seal};
use whimbrel_temporal::{BEGINNING, Batch, Graph, INFINITY, Ingress, Message, Other, Time};

/// A temporal stage's channel.
pub struct TemporalProgram {
    inputs: Vec<Input>,
    /// For each lane, its input and its number there.
    lanes: Vec<(usize, usize)>,
    graph: Graph,
    announce: bool,
    /// The instant of the next rows without time that come.
    clock: Time,
    /// What it computes, line by line: a checkpoint is restored only where this is the same.
    description: String,
}

/// An input of a checkpoint: what stands before the graph, the lanes that have ended, how far time has come, and
/// how far the graph knew.
type SavedInput = (Vec<u8>, Vec<bool>, Time, Time);

/// What stands before an input of the graph.
pub(crate) enum Entry {
    /// A stream, or a relation that is alive always, from several lanes.
    Merge { gather: Gather, relation: bool },
    /// Rows of a live source without time: those that come together start together, at an instant of the program's
    /// own clock.
    Arrival { ready: Vec<Message> },
    /// Rows that become events here.
    Ingress { turns: Box<Turns>, ingress: Box<Ingress>, ready: Vec<Message> },
}

struct Input {
    entry: Entry,
    first_lane: usize,
    ended: Vec<bool>,
    /// How far time has come on this input.
    frontier: Time,
    /// How far the graph knows that.
    told: Time,
}

impl Entry {
    /// Rows from so many lanes that become events.
    pub fn ingress(lanes: usize, ingress: Ingress) -> Entry {
        Entry::Ingress { turns: Box::new(Turns::new(lanes)), ingress: Box::new(ingress), ready: Vec::new() }
    }

    /// Rows that live from when they come.
    pub fn arrival() -> Entry {
        Entry::Arrival { ready: Vec::new() }
    }

    fn is_arrival(&self) -> bool {
        matches!(self, Entry::Arrival { .. })
    }

    fn push(&mut self, lane: usize, message: Message) -> Result<()> {
        match self {
            Entry::Arrival { ready } => {
                ready.push(message);
                Ok(())
            }
            Entry::Merge { gather, .. } => gather.push(lane, message),
            Entry::Ingress { turns, .. } => {
                turns.push(lane, message);
                self.admit()
            }
        }
    }

    fn end(&mut self, lane: usize) -> Result<()> {
        match self {
            Entry::Merge { gather, relation: true } => gather.push(lane, Message::Punctuation(INFINITY)),
            Entry::Arrival { ready } => {
                ready.push(Message::Punctuation(INFINITY));
                Ok(())
            }
            // A stream ends with a punctuation; one that stops without has stopped where it was.
            Entry::Merge { .. } => Ok(()),
            Entry::Ingress { turns, .. } => {
                turns.end(lane);
                self.admit()
            }
        }
    }

    /// Lets the rows in whose turn it is.
    fn admit(&mut self) -> Result<()> {
        let Entry::Ingress { turns, ingress, ready } = self else { return Ok(()) };
        loop {
            match turns.next() {
                Turn::Message(Message::Batch(batch)) => ingress.push(batch.rows, ready)?,
                Turn::Message(Message::Punctuation(INFINITY)) => {}
                Turn::Message(Message::Punctuation(time)) => ingress.advance(time, ready)?,
                Turn::Wait(_) => return Ok(()),
                Turn::Over => return ingress.complete(ready),
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        match self {
            Entry::Merge { gather, .. } => gather.save(),
            Entry::Arrival { ready } => {
                let ready: Vec<SavedMessage> = ready.iter().map(SavedMessage::of).collect::<Result<_>>()?;
                encode(&ready)
            }
            Entry::Ingress { turns, ingress, ready } => {
                let ready: Vec<SavedMessage> = ready.iter().map(SavedMessage::of).collect::<Result<_>>()?;
                encode(&(turns.save()?, ingress.save()?, ready))
            }
        }
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        match self {
            Entry::Merge { gather, .. } => gather.restore(state),
            Entry::Arrival { ready } => {
                let messages: Vec<SavedMessage> = decode(state)?;
                *ready = messages.into_iter().map(SavedMessage::message).collect::<Result<_>>()?;
                Ok(())
            }
            Entry::Ingress { turns, ingress, ready } => {
                let (lanes, events, messages): (Vec<u8>, Vec<u8>, Vec<SavedMessage>) = decode(state)?;
                turns.restore(&lanes)?;
                ingress.restore(&events)?;
                *ready = messages.into_iter().map(SavedMessage::message).collect::<Result<_>>()?;
                Ok(())
            }
        }
    }

    fn take(&mut self) -> Vec<Message> {
        match self {
            Entry::Merge { gather, .. } => gather.collect(),
            Entry::Arrival { ready } | Entry::Ingress { ready, .. } => std::mem::take(ready),
        }
    }
}

impl Input {
    fn save(&self) -> Result<SavedInput> {
        Ok((self.entry.save()?, self.ended.clone(), self.frontier, self.told))
    }

    fn restore(&mut self, (entry, ended, frontier, told): SavedInput) -> Result<()> {
        if ended.len() != self.ended.len() {
            return exec_err!("the checkpoint has {} lanes, this input {}", ended.len(), self.ended.len());
        }
        self.entry.restore(&entry)?;
        (self.ended, self.frontier, self.told) = (ended, frontier, told);
        Ok(())
    }

    /// The lane that keeps this input back.
    fn waiting_for(&self) -> Option<usize> {
        let open = |lane: &usize| !self.ended[*lane];
        match &self.entry {
            Entry::Merge { gather, .. } => gather.waiting_for().filter(open),
            // Any of them will do, and none is waited for by itself.
            Entry::Arrival { .. } => None,
            Entry::Ingress { turns, .. } => turns.waiting_for(),
        }
    }

    /// Any lane that has not ended: what it still brings is not used, but it has to be read.
    fn open_lane(&self) -> Option<usize> {
        self.ended.iter().position(|ended| !ended)
    }
}

impl TemporalProgram {
    /// A program of these inputs, each with its number of lanes, before this graph; `description` says what it
    /// computes.
    pub(crate) fn new(
        entries: Vec<(Entry, usize)>,
        graph: Graph,
        announce: bool,
        description: String,
    ) -> TemporalProgram {
        let mut inputs: Vec<Input> = Vec::new();
        let mut all = Vec::new();
        for (entry, lanes) in entries {
            let first_lane = all.len();
            all.extend((0..lanes).map(|lane| (inputs.len(), lane)));
            let (ended, frontier, told) = (vec![false; lanes], BEGINNING, BEGINNING);
            inputs.push(Input { entry, first_lane, ended, frontier, told });
        }
        TemporalProgram { inputs, lanes: all, graph, announce, clock: 0, description }
    }

    /// Moves what is ready from an input to the graph.
    fn feed(&mut self, input: usize, out: &mut Vec<(usize, Message)>) -> Result<()> {
        let state = &mut self.inputs[input];
        for message in state.entry.take() {
            match &message {
                Message::Punctuation(time) => {
                    state.frontier = state.frontier.max(*time);
                    state.told = state.told.max(*time);
                }
                Message::Batch(batch) => {
                    let last = batch.sync.last().copied().unwrap_or(state.frontier);
                    state.frontier = state.frontier.max(last);
                }
            }
            self.graph.push(input, message, out)?;
        }
        if self.announce && state.frontier > state.told {
            state.told = state.frontier;
            self.graph.push(input, Message::Punctuation(state.frontier), out)?;
        }
        Ok(())
    }

    /// The lane that keeps the program back.
    fn needs(&self) -> Step {
        let behind = |(i, input): (usize, &Input)| {
            let lane = input.waiting_for()?;
            Some((input.frontier, i, input.first_lane + lane))
        };
        if let Some((_, _, lane)) = self.inputs.iter().enumerate().filter_map(behind).min() {
            return Step::Needs(lane);
        }
        match self.wanted().as_slice() {
            [] => {}
            [lane] => return Step::Needs(*lane),
            _ => return Step::NeedsAny,
        }
        let open = self.inputs.iter().find_map(|i| Some(i.first_lane + i.open_lane()?));
        open.map_or(Step::Ended, Step::Needs)
    }

    /// Rows without time come: time passes for all inputs whose clock is the program's.
    fn arrive(&mut self, input: usize, rows: RecordBatch) -> Result<()> {
        let sync = vec![self.clock; rows.num_rows()].into();
        self.inputs[input].entry.push(0, Message::Batch(Batch::new(sync, Other::Open, rows)))?;
        self.clock += 1;
        for input in self.inputs.iter_mut().filter(|i| i.entry.is_arrival() && i.open_lane().is_some()) {
            input.entry.push(0, Message::Punctuation(self.clock))?;
        }
        Ok(())
    }
}

impl ChannelProgram for TemporalProgram {
    fn push(&mut self, lane: usize, message: Message) -> Result<()> {
        let (input, lane) = self.lanes[lane];
        match message {
            Message::Batch(batch) if self.inputs[input].entry.is_arrival() => {
                self.arrive(input, batch.compact()?.rows)
            }
            // Who has no time has none to promise.
            Message::Punctuation(_) if self.inputs[input].entry.is_arrival() => Ok(()),
            message => self.inputs[input].entry.push(lane, message),
        }
    }

    fn end(&mut self, lane: usize) -> Result<()> {
        let (input, lane) = self.lanes[lane];
        self.inputs[input].ended[lane] = true;
        self.inputs[input].entry.end(lane)
    }

    fn step(&mut self, out: &mut Vec<(usize, Message)>) -> Result<Step> {
        for input in 0..self.inputs.len() {
            self.feed(input, out)?;
        }
        Ok(self.needs())
    }

    fn wanted(&self) -> Vec<usize> {
        let arrivals = self.inputs.iter().filter(|input| input.entry.is_arrival());
        let mut lanes: Vec<usize> =
            arrivals.filter_map(|input| Some(input.first_lane + input.open_lane()?)).collect();
        if !lanes.is_empty() {
            // Who takes the first that has something comes to each of them in turn.
            let turn = self.clock as usize % lanes.len();
            lanes.rotate_left(turn);
        }
        lanes
    }

    fn save(&self) -> Result<Option<Vec<u8>>> {
        let inputs: Vec<SavedInput> = self.inputs.iter().map(Input::save).collect::<Result<_>>()?;
        seal(&self.description, &encode(&(inputs, self.clock, self.graph.save()?))?).map(Some)
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (inputs, clock, graph): (Vec<SavedInput>, Time, Vec<u8>) =
            decode(open(&self.description, state)?)?;
        if inputs.len() != self.inputs.len() {
            return exec_err!(
                "the checkpoint has {} inputs, this program {}",
                inputs.len(),
                self.inputs.len()
            );
        }
        self.inputs.iter_mut().zip(inputs).try_for_each(|(input, saved)| input.restore(saved))?;
        self.clock = clock;
        self.graph.restore(&graph)
    }

    fn rows_late(&self) -> u64 {
        let late = |input: &Input| match &input.entry {
            Entry::Ingress { ingress, .. } => ingress.dropped(),
            Entry::Merge { .. } | Entry::Arrival { .. } => 0,
        };
        self.inputs.iter().map(late).sum()
    }

    fn take_late(&mut self) -> Vec<RecordBatch> {
        let mut late = Vec::new();
        for input in &mut self.inputs {
            if let Entry::Ingress { ingress, .. } = &mut input.entry {
                late.extend(ingress.take_late());
            }
        }
        late
    }
}
