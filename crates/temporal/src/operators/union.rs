//! `union`: the rows of all inputs, in order of time, ties by input (trill.txt §6.1).

use crate::batch::Message;
use crate::held::Held;
use crate::merge::TimeMerge;
use crate::operator::{Operator, decode, encode};
use datafusion::common::Result;

/// A merge of streams with the same columns.
pub struct Union {
    inputs: usize,
    merge: TimeMerge,
}

impl Union {
    /// A union of so many inputs.
    pub fn new(inputs: usize) -> Union {
        Union { inputs, merge: TimeMerge::new(inputs) }
    }
}

impl Operator for Union {
    fn inputs(&self) -> usize {
        self.inputs
    }

    fn held(&self) -> Held {
        self.merge.held(|_| true)
    }

    fn push(&mut self, input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        self.merge.push(input, message);
        out.extend(self.merge.by_ref().map(|(_, message)| message));
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&self.merge.save()?)
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.merge = TimeMerge::restore(decode(state)?, |_, batch| Ok(batch))?;
        Ok(())
    }
}
