//! The driver of a channel: which lane is needed, what is done with an item of it, where the output goes.
//!
//! A runtime gives a channel one item after the other, each of a lane that the channel
//! [wants](Channel::wanted), and carries what comes out. Which lanes these are depends on the program and
//! on the markers alone, so every runtime gives a program the same tape.
//!
//! Invariants: a lane that has a marker is not read on before all others have it too, or have ended. At a
//! marker a program has done all that it can do with what it was given.

use super::Control;
use super::epoch::{ChannelState, Marker, Report};
use super::lane::{Item, Lane};
use super::route::{Outlet, Route};
use super::topology::QueueId;
use crate::options::Sink;
use crate::program::{ChannelId, ChannelProgram, Step};
use crossbeam_channel::Sender;
use datafusion::common::{Result, internal_err};
use std::sync::atomic::Ordering;
use whimbrel_temporal::Message;

/// One instance of a stage, with its program.
pub(super) struct Channel {
    pub id: ChannelId,
    pub program: Box<dyn ChannelProgram>,
    pub lanes: Vec<Lane>,
    pub outlets: Vec<Outlet>,
    /// How far each lane has been read.
    reached: Vec<Reached>,
    /// What the program needs.
    step: Step,
    /// The lanes of which the next item is needed: of any of them.
    wanted: Vec<usize>,
    /// The marker that all lanes have, until it is handed on.
    passing: Option<Marker>,
    /// How many late rows have been counted.
    late: u64,
    /// Whether the job knows the counters of its operators.
    is_watched: bool,
    epochs: Option<Epochs>,
}

/// How a channel takes part in epochs.
pub(super) struct Epochs {
    /// Whether it hands markers on. A relational channel is done before any of its consumers ends an
    /// epoch.
    pub passes_markers: bool,
    pub reports: Sender<Report>,
}

/// How far a lane has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    Open,
    Marker,
    End,
}

impl Channel {
    /// A channel that has not been connected yet.
    pub fn new(
        id: ChannelId,
        program: Box<dyn ChannelProgram>,
        outputs: usize,
        epochs: Option<Epochs>,
    ) -> Channel {
        let outlets = (0..outputs).map(|_| Outlet::default()).collect();
        let (lanes, reached, wanted) = (vec![], vec![], vec![]);
        let (step, passing, late, is_watched) = (Step::Ready, None, 0, false);
        Channel { id, program, lanes, outlets, reached, step, wanted, passing, late, is_watched, epochs }
    }

    /// Adds a lane behind the others.
    pub fn add_lane(&mut self, lane: Lane) {
        self.lanes.push(lane);
        self.reached.push(Reached::Open);
    }

    /// Lets an output be taken by a sink.
    pub fn set_sink(&mut self, output: usize, sink: Sink) {
        self.outlets[output].sink = Some(sink);
    }

    /// Goes on from a state; one that had ended stays so.
    ///
    /// # Errors
    /// Those of the program; `Execution` if the state has other lanes or routes.
    pub fn restore(&mut self, state: Option<&ChannelState>) -> Result<()> {
        let Some(state) = state else {
            self.step = Step::Ended;
            return Ok(());
        };
        if state.ended.len() != self.lanes.len() {
            return internal_err!("{} has {} lanes, not {}", self.id, self.lanes.len(), state.ended.len());
        }
        let reached = state.ended.iter().map(|ended| if *ended { Reached::End } else { Reached::Open });
        self.reached = reached.collect();
        let mut routes: Vec<&mut Route> =
            self.outlets.iter_mut().flat_map(|outlet| &mut outlet.routes).collect();
        if state.routes.len() != routes.len() {
            return internal_err!("{} has {} routes, not {}", self.id, routes.len(), state.routes.len());
        }
        routes.iter_mut().zip(&state.routes).try_for_each(|(route, state)| route.restore(state))?;
        self.program.restore(&state.program)
    }

    /// Whether it has handed out everything.
    pub fn has_ended(&self) -> bool {
        self.step == Step::Ended
    }

    /// Whether it makes a part of the result.
    pub fn has_sink(&self) -> bool {
        self.outlets.iter().any(|o| o.sink.is_some())
    }

    /// The lanes of which it needs the next item, in the order in which they should be tried; none if it
    /// can step without one, or has ended.
    pub fn wanted(&self) -> &[usize] {
        &self.wanted
    }

    /// The lanes that may be read instead of the one that is needed, which is the first, and their queues.
    pub fn turns(&self) -> Vec<(usize, QueueId)> {
        let Step::Needs(_) = self.step else { return vec![] };
        let lanes = self.program.candidate_lanes().into_iter();
        lanes.filter_map(|lane| self.lanes[lane].queue().map(|queue| (lane, queue))).collect()
    }

    /// Takes the next item of a lane.
    ///
    /// # Errors
    /// Those of the program.
    pub fn take(&mut self, lane: usize, item: Item) -> Result<()> {
        match item {
            Item::Message(message) => self.program.push(lane, message),
            // A state that was restored knows of the ends before it.
            Item::End if self.reached[lane] == Reached::End => Ok(()),
            Item::End => {
                self.reached[lane] = Reached::End;
                self.program.end(lane)
            }
            Item::Marker(marker) => {
                if self.epochs.as_ref().is_some_and(|epochs| epochs.passes_markers) {
                    self.reached[lane] = Reached::Marker;
                    self.passing = Some(marker);
                }
                Ok(())
            }
        }
    }

    /// Steps, and delivers what comes out to queues and sinks.
    ///
    /// # Errors
    /// Those of the program, of partitioners and sinks.
    pub fn step(
        &mut self,
        out: &mut Vec<(usize, Message)>,
        control: &Control,
        mut to: impl FnMut(QueueId, Item),
    ) -> Result<()> {
        if !std::mem::replace(&mut self.is_watched, true) {
            control.watch((self.id.stage, self.id.channel), self.program.activity());
        }
        if self.has_ended() {
            self.report(|channel| Report::Ended(channel.id));
            return Ok(());
        }
        self.step = self.program.step(out)?;
        self.count_late(control);
        self.deliver(out, control, &mut to)?;
        if let Some(marker) = self.passing
            && !self.reached.contains(&Reached::Open)
            && !matches!(self.step, Step::Ready | Step::Ended)
        {
            self.pass(marker, &mut to)?;
        }
        self.choose_lanes();
        if self.has_ended() {
            self.report(|channel| Report::Ended(channel.id));
        }
        Ok(())
    }

    /// Ends the channel, whose output nobody reads any more.
    pub fn abandon(&mut self) {
        self.step = Step::Ended;
        self.report(|channel| Report::Ended(channel.id));
    }

    /// All outgoing queues.
    pub fn targets(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.outlets.iter().flat_map(|outlet| &outlet.routes).flat_map(|route| route.targets()).copied()
    }

    /// Decides which lanes are needed next.
    fn choose_lanes(&mut self) {
        self.wanted.clear();
        let is_open = |lane: &usize| self.reached[*lane] == Reached::Open;
        match self.step {
            Step::Ready | Step::Ended => {}
            // What comes before the marker in other lanes is kept by the program until it needs it.
            Step::Needs(lane) if self.reached[lane] == Reached::Marker => {
                self.wanted.extend((0..self.reached.len()).find(is_open));
            }
            Step::Needs(lane) => self.wanted.push(lane),
            Step::NeedsAny if self.epochs.is_some() => {
                // In epochs, which lane is read next must not depend on which has rows first.
                let candidates = self.program.candidate_lanes();
                let open = candidates.into_iter().find(is_open);
                self.wanted.extend(open.or_else(|| (0..self.reached.len()).find(is_open)));
            }
            Step::NeedsAny => self.wanted.extend(self.program.candidate_lanes()),
        }
    }

    /// Hands a marker on, and reads on behind it.
    fn pass(&mut self, marker: Marker, to: &mut impl FnMut(QueueId, Item)) -> Result<()> {
        if marker.snapshot {
            let Some(program) = self.program.save()? else {
                return internal_err!("{} passes a marker and has no checkpoints", self.id);
            };
            let ended = self.reached.iter().map(|reached| *reached == Reached::End).collect();
            let routes = self.outlets.iter().flat_map(|outlet| &outlet.routes).map(Route::save).collect();
            let state = ChannelState { ended, program, routes };
            self.report(|channel| Report::Saved(channel.id, marker.epoch, state));
        }
        self.targets().for_each(|queue| to(queue, Item::Marker(marker)));
        self.report(|channel| Report::Passed(channel.id, marker));
        self.passing = None;
        for reached in self.reached.iter_mut().filter(|reached| **reached == Reached::Marker) {
            *reached = Reached::Open;
        }
        Ok(())
    }

    /// Reports to the coordinator, if there is one. One that is gone has stopped the job.
    fn report(&self, report: impl FnOnce(&Channel) -> Report) {
        if let Some(epochs) = &self.epochs {
            let _ = epochs.reports.send(report(self));
        }
    }

    /// Counts late rows and hands them to their callback.
    fn count_late(&mut self, control: &Control) {
        let late = self.program.rows_late();
        if late != self.late {
            control.rows_late.fetch_add(late - self.late, Ordering::Relaxed);
            self.late = late;
            let rows = self.program.take_late();
            if let Some(callback) = &control.late {
                rows.into_iter().for_each(|rows| callback(rows));
            }
        }
    }

    /// Delivers what came out of a step.
    fn deliver(
        &mut self,
        out: &mut Vec<(usize, Message)>,
        control: &Control,
        mut to: impl FnMut(QueueId, Item),
    ) -> Result<()> {
        for (output, message) in out.drain(..) {
            let Outlet { routes, sink } = &mut self.outlets[output];
            for route in routes {
                route.send(&message, &mut to)?;
            }
            let Some(sink) = sink else { continue };
            if control.is_stopped() {
                return Ok(());
            }
            let message = match message {
                Message::Batch(batch) => Message::Batch(batch.compact()?),
                punctuation => punctuation,
            };
            if let Message::Batch(batch) = &message {
                control.rows_out.fetch_add(batch.len() as u64, Ordering::Relaxed);
            }
            sink(message)?;
        }
        Ok(())
    }
}
