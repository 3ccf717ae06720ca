//! The program of a temporal stage: an adapter at each input, which ingests or merges, and a graph of
//! operators behind.
//!
//! Invariants: each input of the graph gets messages in order of time. The lane that is needed next is
//! one of the input that is furthest behind, so that no operator buffers more than it must. With
//! `announce`, a punctuation follows the rows of every step: the consumers of an exchange wait for it. While
//! the graph has more to do, the program is [ready](Step::Ready) to step again, and has no checkpoint.

use super::clock::InputClock;
use super::lanes::{LaneOrder, Lanes, Next};
use super::{ChannelProgram, Step};
use crate::merge::Gather;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, exec_err};
use serde_bytes::ByteBuf;
use whimbrel_temporal::checkpoint::{SavedMessage, decode, encode, open, seal};
use whimbrel_temporal::{Batch, Graph, INFINITY, Ingress, Message, NodeActivity, Other, Time};

/// The program of a temporal channel.
pub struct TemporalProgram {
    inputs: Vec<Input>,
    /// For each lane its input, and its number there.
    lanes: Vec<(usize, usize)>,
    graph: Graph,
    announce: bool,
    /// The instant of the next rows that arrive without time.
    clock: Time,
    /// What it computes, line by line: a checkpoint is restored only into a program with the same
    /// description.
    description: String,
}

/// An input in a checkpoint: its adapter, which lanes have ended, and its clock.
type SavedInput = (ByteBuf, Vec<bool>, InputClock);

/// Turns the messages of lanes into an ordered input of the graph.
pub(crate) enum InputAdapter {
    /// Merges the lanes of a stream, or of a relation that is always alive.
    Merge { gather: Gather, relation: bool },
    /// Gives rows of a live source without time the instant of their arrival, by the clock of the
    /// program. Rows of one batch arrive together.
    Arrival { ready: Vec<Message> },
    /// Turns rows into events by their time columns.
    Ingress { round_robin: Box<Lanes>, ingress: Box<Ingress>, ready: Vec<Message> },
}

/// An input of the graph, with the lanes that feed it.
struct Input {
    adapter: InputAdapter,
    first_lane: usize,
    ended: Vec<bool>,
    clock: InputClock,
}

impl InputAdapter {
    /// The adapter for rows from so many lanes that become events.
    pub fn ingress(lanes: usize, ingress: Ingress) -> InputAdapter {
        InputAdapter::Ingress {
            round_robin: Box::new(Lanes::new(lanes, LaneOrder::RoundRobin)),
            ingress: Box::new(ingress),
            ready: Vec::new(),
        }
    }

    /// The adapter for rows that live from their arrival on.
    pub fn arrival() -> InputAdapter {
        InputAdapter::Arrival { ready: Vec::new() }
    }

    /// Whether rows get the instant of their arrival here.
    fn is_arrival(&self) -> bool {
        matches!(self, InputAdapter::Arrival { .. })
    }

    /// Takes the next message of a lane.
    fn push(&mut self, lane: usize, message: Message) -> Result<()> {
        match self {
            InputAdapter::Arrival { ready } => {
                ready.push(message);
                Ok(())
            }
            InputAdapter::Merge { gather, .. } => gather.push(lane, message),
            InputAdapter::Ingress { round_robin, .. } => {
                round_robin.push(lane, message);
                self.ingest()
            }
        }
    }

    /// Takes the end of a lane.
    fn end(&mut self, lane: usize) -> Result<()> {
        match self {
            InputAdapter::Merge { gather, relation: true } => {
                gather.push(lane, Message::Punctuation(INFINITY))
            }
            InputAdapter::Arrival { ready } => {
                ready.push(Message::Punctuation(INFINITY));
                Ok(())
            }
            // A stream ends with a punctuation.
            InputAdapter::Merge { .. } => Ok(()),
            InputAdapter::Ingress { round_robin, .. } => {
                round_robin.end(lane);
                self.ingest()
            }
        }
    }

    /// Ingests the rows that are next in the round-robin order.
    fn ingest(&mut self) -> Result<()> {
        let InputAdapter::Ingress { round_robin, ingress, ready } = self else { return Ok(()) };
        loop {
            match round_robin.next() {
                Next::Message(Message::Batch(batch)) => ingress.push(batch.rows, ready)?,
                Next::Message(Message::Punctuation(INFINITY)) => {}
                Next::Message(Message::Punctuation(time)) => ingress.advance(time, ready)?,
                Next::Blocked(_) => return Ok(()),
                Next::Ended => return ingress.complete(ready),
            }
        }
    }

    /// The state as bytes.
    fn save(&self) -> Result<Vec<u8>> {
        match self {
            InputAdapter::Merge { gather, .. } => gather.save(),
            InputAdapter::Arrival { ready } => {
                let ready: Vec<SavedMessage> = ready.iter().map(SavedMessage::of).collect::<Result<_>>()?;
                encode(&ready)
            }
            InputAdapter::Ingress { round_robin, ingress, ready } => {
                let ready: Vec<SavedMessage> = ready.iter().map(SavedMessage::of).collect::<Result<_>>()?;
                encode(&(ByteBuf::from(round_robin.save()?), ByteBuf::from(ingress.save()?), ready))
            }
        }
    }

    /// Takes over a saved state.
    fn restore(&mut self, state: &[u8]) -> Result<()> {
        match self {
            InputAdapter::Merge { gather, .. } => gather.restore(state),
            InputAdapter::Arrival { ready } => {
                let messages: Vec<SavedMessage> = decode(state)?;
                *ready = messages.into_iter().map(SavedMessage::message).collect::<Result<_>>()?;
                Ok(())
            }
            InputAdapter::Ingress { round_robin, ingress, ready } => {
                let (lanes, events, messages): (Vec<u8>, Vec<u8>, Vec<SavedMessage>) = decode(state)?;
                round_robin.restore(&lanes)?;
                ingress.restore(&events)?;
                *ready = messages.into_iter().map(SavedMessage::message).collect::<Result<_>>()?;
                Ok(())
            }
        }
    }

    /// The messages that are ready for the graph.
    fn take_ready(&mut self) -> Vec<Message> {
        match self {
            InputAdapter::Merge { gather, .. } => gather.collect(),
            InputAdapter::Arrival { ready } | InputAdapter::Ingress { ready, .. } => std::mem::take(ready),
        }
    }
}

impl Input {
    /// The state of the input.
    fn save(&self) -> Result<SavedInput> {
        Ok((self.adapter.save()?.into(), self.ended.clone(), self.clock))
    }

    /// Takes over a saved state.
    fn restore(&mut self, (adapter, ended, clock): SavedInput) -> Result<()> {
        if ended.len() != self.ended.len() {
            return exec_err!("the checkpoint has {} lanes, this input {}", ended.len(), self.ended.len());
        }
        self.adapter.restore(&adapter)?;
        (self.ended, self.clock) = (ended, clock);
        Ok(())
    }

    /// The lane that this input needs next.
    fn blocked_lane(&self) -> Option<usize> {
        let open = |lane: &usize| !self.ended[*lane];
        match &self.adapter {
            InputAdapter::Merge { gather, .. } => gather.blocked_lane().filter(open),
            // Any lane will do.
            InputAdapter::Arrival { .. } => None,
            InputAdapter::Ingress { round_robin, .. } => round_robin.blocked_lane(),
        }
    }

    /// A lane that has not ended: it has to be read to its end, even if its messages are not used.
    fn open_lane(&self) -> Option<usize> {
        self.ended.iter().position(|ended| !ended)
    }
}

impl TemporalProgram {
    /// A program of these inputs, each with its number of lanes, and this graph; `description` says what
    /// it computes.
    pub(crate) fn new(
        adapters: Vec<(InputAdapter, usize)>,
        graph: Graph,
        announce: bool,
        description: String,
    ) -> TemporalProgram {
        let mut inputs: Vec<Input> = Vec::new();
        let mut all = Vec::new();
        for (adapter, lanes) in adapters {
            let first_lane = all.len();
            all.extend((0..lanes).map(|lane| (inputs.len(), lane)));
            inputs.push(Input { adapter, first_lane, ended: vec![false; lanes], clock: InputClock::new() });
        }
        TemporalProgram { inputs, lanes: all, graph, announce, clock: 0, description }
    }

    /// Puts the messages of all inputs that are ready into the graph.
    fn feed(&mut self) {
        for (number, input) in self.inputs.iter_mut().enumerate() {
            for message in input.adapter.take_ready() {
                input.clock.note(&message);
                self.graph.enqueue(number, message);
            }
            if let Some(punctuation) = self.announce.then(|| input.clock.announce()).flatten() {
                self.graph.enqueue(number, punctuation);
            }
        }
    }

    /// What the program needs next.
    fn needs(&self) -> Step {
        let behind = |(i, input): (usize, &Input)| {
            let lane = input.blocked_lane()?;
            Some((input.clock.frontier, i, input.first_lane + lane))
        };
        if let Some((_, _, lane)) = self.inputs.iter().enumerate().filter_map(behind).min() {
            return Step::Needs(lane);
        }
        match self.candidate_lanes().as_slice() {
            [] => {}
            [lane] => return Step::Needs(*lane),
            _ => return Step::NeedsAny,
        }
        let open = self.inputs.iter().find_map(|i| Some(i.first_lane + i.open_lane()?));
        open.map_or(Step::Ended, Step::Needs)
    }

    /// Rows without time arrive. The clock advances for all inputs that use it, from one even instant to the
    /// next: at the odd ones between them rows are forgotten (`AllowedLateness`).
    fn arrive(&mut self, input: usize, rows: RecordBatch) -> Result<()> {
        let sync = vec![self.clock; rows.num_rows()].into();
        self.inputs[input].adapter.push(0, Message::Batch(Batch::new(sync, Other::Open, rows)))?;
        self.clock += 2;
        for input in self.inputs.iter_mut().filter(|i| i.adapter.is_arrival() && i.open_lane().is_some()) {
            input.adapter.push(0, Message::Punctuation(self.clock))?;
        }
        Ok(())
    }
}

impl ChannelProgram for TemporalProgram {
    fn push(&mut self, lane: usize, message: Message) -> Result<()> {
        let (input, lane) = self.lanes[lane];
        match message {
            Message::Batch(batch) if self.inputs[input].adapter.is_arrival() => {
                self.arrive(input, batch.compact()?.rows)
            }
            // A source without time makes no promises about it.
            Message::Punctuation(_) if self.inputs[input].adapter.is_arrival() => Ok(()),
            message => self.inputs[input].adapter.push(lane, message),
        }
    }

    fn end(&mut self, lane: usize) -> Result<()> {
        let (input, lane) = self.lanes[lane];
        self.inputs[input].ended[lane] = true;
        self.inputs[input].adapter.end(lane)
    }

    fn step(&mut self, out: &mut Vec<(usize, Message)>) -> Result<Step> {
        self.feed();
        match self.graph.proceed(out)? {
            true => Ok(Step::Ready),
            false => Ok(self.needs()),
        }
    }

    fn candidate_lanes(&self) -> Vec<usize> {
        let arrivals = self.inputs.iter().filter(|input| input.adapter.is_arrival());
        let mut lanes: Vec<usize> =
            arrivals.filter_map(|input| Some(input.first_lane + input.open_lane()?)).collect();
        if !lanes.is_empty() {
            // A driver that takes the first lane with a message comes to each lane in turn.
            let first = (self.clock / 2) as usize % lanes.len();
            lanes.rotate_left(first);
        }
        lanes
    }

    fn activity(&self) -> Vec<NodeActivity> {
        self.graph.activity()
    }

    fn save(&self) -> Result<Option<Vec<u8>>> {
        let inputs: Vec<SavedInput> = self.inputs.iter().map(Input::save).collect::<Result<_>>()?;
        seal(&self.description, &encode(&(inputs, self.clock, ByteBuf::from(self.graph.save()?)))?).map(Some)
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (inputs, clock, graph): (Vec<SavedInput>, Time, ByteBuf) =
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
        let late = |input: &Input| match &input.adapter {
            InputAdapter::Ingress { ingress, .. } => ingress.dropped(),
            InputAdapter::Merge { .. } | InputAdapter::Arrival { .. } => 0,
        };
        self.inputs.iter().map(late).sum::<u64>() + self.graph.rows_late()
    }

    fn take_late(&mut self) -> Vec<RecordBatch> {
        let mut late = self.graph.take_late();
        for input in &mut self.inputs {
            if let InputAdapter::Ingress { ingress, .. } = &mut input.adapter {
                late.extend(ingress.take_late());
            }
        }
        late
    }
}
