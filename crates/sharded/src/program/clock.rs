//! How far an input of a graph has come, and what the graph has been told of it.

use serde::{Deserialize, Serialize};
use whimbrel_temporal::{BEGINNING, Message, Time};

/// See the module.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct InputClock {
    /// No row before this time will come on this input.
    pub frontier: Time,
    /// The last time that the graph was told.
    announced: Time,
}

impl InputClock {
    /// The clock of an input from which nothing has come.
    pub fn new() -> InputClock {
        InputClock { frontier: BEGINNING, announced: BEGINNING }
    }

    /// Takes note of a message that goes into the graph.
    pub fn note(&mut self, message: &Message) {
        match message {
            Message::Punctuation(time) => {
                self.frontier = self.frontier.max(*time);
                self.announced = self.announced.max(*time);
            }
            Message::Batch(batch) => {
                let last = batch.sync.last().copied().unwrap_or(self.frontier);
                self.frontier = self.frontier.max(last);
            }
        }
    }

    /// The punctuation that tells the graph how far the input has come, if it does not know.
    pub fn announce(&mut self) -> Option<Message> {
        (self.frontier > self.announced).then(|| {
            self.announced = self.frontier;
            Message::Punctuation(self.frontier)
        })
    }
}
