//! `extend_lifetime`: the end of each lifetime moves by a fixed number of ticks (Trill's `ExtendLifetime`;
//! the query language of trill.txt §5.2.5). A lifetime that becomes empty vanishes, and one whose end would
//! be past the last instant that there is never ends.
//!
//! Ends that move forward: intervals and start edges go out at once, and an end edge waits for its new time.
//! Ends that move back ([`Shorten`]) hold rows back instead.

use crate::batch::{Batch, Message, Other};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::held_ends::HeldEnds;
use crate::operators::shorten::Shorten;
use crate::time::{INFINITY, Kind, Time, end_after};
use datafusion::common::{Result, exec_err};
use serde::{Deserialize, Serialize};

/// Moves the ends of lifetimes.
pub struct ExtendLifetime(Extension);

enum Extension {
    /// By so many ticks, which are not negative.
    Longer(i64, Box<HeldEnds>),
    Shorter(Box<Shorten>),
}

/// An extension of a checkpoint.
#[derive(Serialize, Deserialize)]
enum Saved {
    Longer(Vec<u8>),
    Shorter(Vec<u8>),
}

impl ExtendLifetime {
    /// Ends move by `by` ticks: forward, or back if it is negative.
    pub fn new(by: i64) -> ExtendLifetime {
        ExtendLifetime(match by {
            0.. => Extension::Longer(by, Box::default()),
            _ => Extension::Shorter(Box::new(Shorten::new(by))),
        })
    }
}

/// Takes rows whose ends move forward.
fn longer(by: i64, ends: &mut HeldEnds, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
    let batch = batch.compact()?;
    let Some(&last) = batch.sync.last() else { return Ok(()) };
    let edges = (0..batch.len()).any(|row| batch.kind_at(row) == Kind::End);
    if !edges && ends.none_until(last) {
        let other = other_after(&batch, by);
        out.push(Message::Batch(batch.with_times(batch.sync.clone(), other)));
        return Ok(());
    }
    let kept = ends.keep(&batch.rows);
    for row in 0..batch.len() {
        let (sync, other, place) = (batch.sync[row], batch.other_at(row), (kept, row as u32));
        ends.release(sync);
        match Kind::of(sync, other) {
            Kind::Interval | Kind::Start => ends.push(sync, end_after(other, by), place),
            Kind::End => ends.hold(other, end_after(sync, by), place),
        }
    }
    ends.release(last);
    ends.flush(out)
}

/// The later ends of intervals and start edges. The length of all stays one number if that length exists.
fn other_after(batch: &Batch, by: i64) -> Other {
    match &batch.other {
        Other::Open => return Other::Open,
        Other::After(ticks) => {
            if let Some(ticks) = ticks.checked_add(by) {
                return Other::After(ticks);
            }
        }
        Other::Column(_) => {}
    }
    let end = |row: usize| end_after(batch.other_at(row), by);
    Other::Column((0..batch.len()).map(end).collect::<Vec<Time>>().into())
}

impl Operator for ExtendLifetime {
    fn held(&self) -> Held {
        match &self.0 {
            Extension::Longer(_, ends) => ends.held(),
            Extension::Shorter(shorten) => shorten.held(),
        }
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match (&mut self.0, message) {
            (Extension::Longer(by, ends), Message::Batch(batch)) => longer(*by, ends, batch, out),
            (Extension::Longer(_, ends), Message::Punctuation(time)) => {
                ends.release(time.min(INFINITY - 1));
                ends.flush(out)?;
                out.push(Message::Punctuation(time));
                Ok(())
            }
            (Extension::Shorter(shorten), message) => shorten.push(message, out),
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&match &self.0 {
            Extension::Longer(_, ends) => Saved::Longer(encode(&ends.save()?)?),
            Extension::Shorter(shorten) => Saved::Shorter(shorten.save()?),
        })
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        match (&mut self.0, decode(state)?) {
            (Extension::Longer(_, ends), Saved::Longer(saved)) => ends.restore(decode(&saved)?),
            (Extension::Shorter(shorten), Saved::Shorter(saved)) => shorten.restore(&saved),
            _ => exec_err!("the checkpoint is of another extend_lifetime; take a new one"),
        }
    }
}
