//! Lanes without time, read in turn: a message of the first, one of the second, and so on.
//!
//! A producer sends a message to each of its targets for every batch it makes, an empty one if need be, so
//! lanes that are fed evenly are read evenly, and the order depends on nothing but what the lanes hold.

use datafusion::common::{Result, exec_err};
use std::collections::VecDeque;
use whimbrel_temporal::Message;
use whimbrel_temporal::checkpoint::{SavedMessage, decode, encode};

/// Lanes and whose turn it is.
#[derive(Debug)]
pub(crate) struct Turns {
    lanes: Vec<Lane>,
    turn: usize,
}

#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Message>,
    ended: bool,
}

/// A lane of a checkpoint: what waits, and whether it has ended.
type SavedLane = (Vec<SavedMessage>, bool);

/// What is there to be read.
pub(crate) enum Turn {
    /// This.
    Message(Message),
    /// Nothing before this lane brings something.
    Wait(usize),
    /// Nothing any more.
    Over,
}

impl Turns {
    pub fn new(lanes: usize) -> Turns {
        Turns { lanes: (0..lanes).map(|_| Lane::default()).collect(), turn: 0 }
    }

    pub fn push(&mut self, lane: usize, message: Message) {
        self.lanes[lane].waiting.push_back(message);
    }

    pub fn end(&mut self, lane: usize) {
        self.lanes[lane].ended = true;
    }

    /// The lane whose turn it is, unless all have ended.
    pub fn waiting_for(&self) -> Option<usize> {
        let lanes = self.lanes.len();
        let open = |lane: &usize| !self.lanes[*lane].ended || !self.lanes[*lane].waiting.is_empty();
        (0..lanes).map(|i| (self.turn + i) % lanes).find(open)
    }

    /// The next message.
    pub fn next(&mut self) -> Turn {
        for _ in 0..self.lanes.len() {
            let turn = self.turn;
            let lane = &mut self.lanes[turn];
            match lane.waiting.pop_front() {
                Some(message) => {
                    self.pass_on();
                    return Turn::Message(message);
                }
                None if lane.ended => self.pass_on(),
                None => return Turn::Wait(turn),
            }
        }
        Turn::Over
    }

    /// What waits, what has ended, and whose turn it is.
    ///
    /// # Errors
    /// `ArrowError` if the columns cannot be written.
    pub fn save(&self) -> Result<Vec<u8>> {
        let lane = |lane: &Lane| -> Result<SavedLane> {
            Ok((lane.waiting.iter().map(SavedMessage::of).collect::<Result<_>>()?, lane.ended))
        };
        let lanes: Vec<SavedLane> = self.lanes.iter().map(lane).collect::<Result<_>>()?;
        encode(&(lanes, self.turn as u64))
    }

    /// Takes over a saved state.
    ///
    /// # Errors
    /// `Execution` if the bytes are not a state of so many lanes; these are as before.
    pub fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (saved, turn): (Vec<SavedLane>, u64) = decode(state)?;
        let turn = turn as usize;
        if saved.len() != self.lanes.len() || turn >= saved.len() {
            return exec_err!("the checkpoint has {} lanes, this input {}", saved.len(), self.lanes.len());
        }
        let lane = |(waiting, ended): SavedLane| -> Result<Lane> {
            Ok(Lane {
                waiting: waiting.into_iter().map(SavedMessage::message).collect::<Result<_>>()?,
                ended,
            })
        };
        self.lanes = saved.into_iter().map(lane).collect::<Result<_>>()?;
        self.turn = turn;
        Ok(())
    }

    fn pass_on(&mut self) {
        self.turn = (self.turn + 1) % self.lanes.len();
    }
}
