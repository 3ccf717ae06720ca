//! Lanes without time, read round-robin: a message of the first, one of the second, and so on. Those of an
//! exchange [in the order of shards](whimbrel_plan::Movement::InOrder) are read one after the other.
//!
//! For every batch a producer sends a message to each of its consumers, an empty one if need be. So lanes
//! advance evenly, and the order depends on the contents of the lanes only.

use datafusion::common::{Result, exec_err};
use std::collections::VecDeque;
use whimbrel_temporal::Message;
use whimbrel_temporal::checkpoint::{SavedMessage, decode, encode};

/// Lanes that are read in a fixed order.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    /// The lane that is read next.
    next: usize,
    order: LaneOrder,
}

/// In which order lanes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneOrder {
    /// A message of each in turn.
    RoundRobin,
    /// All of one before the next.
    Sequential,
}

/// A lane: the messages that wait, and whether more may follow.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Message>,
    ended: bool,
}

/// A lane in a checkpoint: the messages that wait, and whether it has ended.
type SavedLane = (Vec<SavedMessage>, bool);

/// The next message, if it is there.
pub(crate) enum Next {
    /// The message.
    Message(Message),
    /// This lane has to bring a message first.
    Blocked(usize),
    /// All lanes have ended.
    Ended,
}

impl Lanes {
    /// So many lanes, all empty.
    pub fn new(lanes: usize, order: LaneOrder) -> Lanes {
        Lanes { lanes: (0..lanes).map(|_| Lane::default()).collect(), next: 0, order }
    }

    /// Appends a message to a lane.
    pub fn push(&mut self, lane: usize, message: Message) {
        self.lanes[lane].waiting.push_back(message);
    }

    /// Ends a lane: no message follows.
    pub fn end(&mut self, lane: usize) {
        self.lanes[lane].ended = true;
    }

    /// The lane that is read next; none if all have ended.
    pub fn blocked_lane(&self) -> Option<usize> {
        let lanes = self.lanes.len();
        let open = |lane: &usize| !self.lanes[*lane].ended || !self.lanes[*lane].waiting.is_empty();
        (0..lanes).map(|i| (self.next + i) % lanes).find(open)
    }

    /// The lanes that may be read next: those that may bring more, from the one whose turn it is on.
    pub fn candidates(&self) -> impl Iterator<Item = usize> + '_ {
        let lanes = self.lanes.len();
        let open = (0..lanes).map(move |i| (self.next + i) % lanes).filter(|lane| !self.lanes[*lane].ended);
        open.take(match self.order {
            LaneOrder::RoundRobin => lanes,
            LaneOrder::Sequential => 1,
        })
    }

    /// Gives a lane the next turn.
    pub fn give_turn(&mut self, lane: usize) {
        self.next = lane;
    }

    /// The next message.
    pub fn next(&mut self) -> Next {
        for _ in 0..self.lanes.len() {
            let next = self.next;
            let lane = &mut self.lanes[next];
            match lane.waiting.pop_front() {
                Some(message) => {
                    if self.order == LaneOrder::RoundRobin {
                        self.advance();
                    }
                    return Next::Message(message);
                }
                None if lane.ended => self.advance(),
                None => return Next::Blocked(next),
            }
        }
        Next::Ended
    }

    /// The state as bytes.
    ///
    /// # Errors
    /// `ArrowError` if the columns cannot be written.
    pub fn save(&self) -> Result<Vec<u8>> {
        let lane = |lane: &Lane| -> Result<SavedLane> {
            Ok((lane.waiting.iter().map(SavedMessage::of).collect::<Result<_>>()?, lane.ended))
        };
        let lanes: Vec<SavedLane> = self.lanes.iter().map(lane).collect::<Result<_>>()?;
        encode(&(lanes, self.next as u64))
    }

    /// Takes over a saved state.
    ///
    /// # Errors
    /// `Execution` if the bytes are not a state of so many lanes; these are as before.
    pub fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (saved, next): (Vec<SavedLane>, u64) = decode(state)?;
        let next = next as usize;
        if saved.len() != self.lanes.len() || next >= saved.len() {
            return exec_err!("the checkpoint has {} lanes, this input {}", saved.len(), self.lanes.len());
        }
        let lane = |(waiting, ended): SavedLane| -> Result<Lane> {
            Ok(Lane {
                waiting: waiting.into_iter().map(SavedMessage::message).collect::<Result<_>>()?,
                ended,
            })
        };
        self.lanes = saved.into_iter().map(lane).collect::<Result<_>>()?;
        self.next = next;
        Ok(())
    }

    /// Goes on to the next lane.
    fn advance(&mut self) {
        self.next = (self.next + 1) % self.lanes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instants of the punctuations that can be read, and the lane that blocks more.
    fn drain(lanes: &mut Lanes) -> (Vec<i64>, Option<usize>) {
        let mut read = Vec::new();
        loop {
            match lanes.next() {
                Next::Message(Message::Punctuation(time)) => read.push(time),
                Next::Message(Message::Batch(_)) => unreachable!("no batch was pushed"),
                Next::Blocked(lane) => return (read, Some(lane)),
                Next::Ended => return (read, None),
            }
        }
    }

    #[test]
    fn lanes_are_read_in_turn_or_one_after_the_other() {
        for (order, first, rest) in [
            (LaneOrder::RoundRobin, vec![1, 10, 2], vec![20, 3]),
            (LaneOrder::Sequential, vec![1, 2], vec![3, 10, 20]),
        ] {
            let mut lanes = Lanes::new(2, order);
            [1, 2].into_iter().for_each(|time| lanes.push(0, Message::Punctuation(time)));
            lanes.push(1, Message::Punctuation(10));
            let (read, blocked) = drain(&mut lanes);
            assert_eq!(read, first);
            let mut restored = Lanes::new(2, order);
            restored.restore(&lanes.save().unwrap()).unwrap();
            assert_eq!(restored.blocked_lane(), blocked);
            let candidates: Vec<usize> = restored.candidates().collect();
            match order {
                LaneOrder::RoundRobin => assert_eq!((blocked, candidates), (Some(1), vec![1, 0])),
                LaneOrder::Sequential => assert_eq!((blocked, candidates), (Some(0), vec![0])),
            }
            restored.push(1, Message::Punctuation(20));
            restored.push(0, Message::Punctuation(3));
            [0, 1].into_iter().for_each(|lane| restored.end(lane));
            assert_eq!(drain(&mut restored), (rest, None));
        }
    }
}
