//! Lanes without time, read in turn: a message of the first, one of the second, and so on.
//!
//! A producer sends a message to each of its targets for every batch it makes, an empty one if need be, so
//! lanes that are fed evenly are read evenly, and the order depends on nothing but what the lanes hold.

use std::collections::VecDeque;
use whimbrel_temporal::Message;

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

    fn pass_on(&mut self) {
        self.turn = (self.turn + 1) % self.lanes.len();
    }
}
