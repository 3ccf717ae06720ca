//! The loop of a channel on a thread of its own: step, send, fetch, take.
//!
//! What differs between runtimes is how items get from one channel to another: their [`Carrier`].

use super::Control;
use super::channel::Channel;
use super::lane::{Item, Poll};
use super::topology::QueueId;
use crossbeam_channel::Select;
use datafusion::common::DataFusionError;

/// Carries items between a channel and others.
pub trait Carrier {
    /// The next item of a queue that the channel reads; waits for it.
    ///
    /// # Errors
    /// `Stopped` if the query is stopped meanwhile; `Failed` if the item cannot be had.
    fn receive(&mut self, queue: QueueId) -> Result<Item, Halt>;

    /// Whether it decides which queue is read next where the program lets it.
    fn chooses(&self) -> bool {
        false
    }

    /// Which of several queues is read next: its place among them. The first is the one whose turn it is.
    ///
    /// # Errors
    /// As [`receive`](Carrier::receive).
    fn choose(&mut self, _queues: &[QueueId]) -> Result<usize, Halt> {
        Ok(0)
    }

    /// Takes an item for a queue that the channel fills. It is sent with the next call of `send`.
    fn put(&mut self, queue: QueueId, item: Item);

    /// Sends what was put; may wait for room.
    ///
    /// # Errors
    /// As [`receive`](Carrier::receive).
    fn send(&mut self) -> Result<(), Halt>;

    /// Whether nobody reads any more what the channel sends.
    fn is_abandoned(&self) -> bool;
}

/// Why a channel ends early.
#[derive(Debug)]
pub enum Halt {
    /// The query was stopped.
    Stopped,
    /// The channel failed.
    Failed(DataFusionError),
}

impl From<DataFusionError> for Halt {
    fn from(error: DataFusionError) -> Halt {
        Halt::Failed(error)
    }
}

/// Steps a channel until it ends; then all queues that it fills have got their end.
///
/// # Errors
/// `Stopped` if the query is stopped; `Failed` with the error of the channel or of its carrier.
pub(super) fn drive(
    channel: &mut Channel,
    carrier: &mut impl Carrier,
    control: &Control,
) -> Result<(), Halt> {
    let mut out = Vec::new();
    loop {
        if control.is_stopped() {
            return Err(Halt::Stopped);
        }
        channel.step(&mut out, control, |queue, item| carrier.put(queue, item))?;
        if channel.has_ended() {
            channel.targets().for_each(|queue| carrier.put(queue, Item::End));
            return carrier.send();
        }
        carrier.send()?;
        if !channel.has_sink() && carrier.is_abandoned() {
            channel.abandon();
            return Ok(());
        }
        if !channel.wanted().is_empty() {
            let (lane, item) = fetch(channel, carrier, control)?;
            channel.take(lane, item)?;
        }
    }
}

/// The next item of one of the lanes that a channel wants; waits for it.
fn fetch(
    channel: &mut Channel,
    carrier: &mut impl Carrier,
    control: &Control,
) -> Result<(usize, Item), Halt> {
    if carrier.chooses() {
        let (lanes, queues): (Vec<usize>, Vec<QueueId>) = channel.turns().into_iter().unzip();
        if queues.len() > 1 {
            let chosen = carrier.choose(&queues)?;
            channel.program.give_turn(lanes[chosen]);
            return Ok((lanes[chosen], carrier.receive(queues[chosen])?));
        }
    }
    loop {
        for number in 0..channel.wanted().len() {
            let lane = channel.wanted()[number];
            match channel.lanes[lane].poll(control)? {
                Poll::Item(item) => return Ok((lane, item)),
                Poll::Queue(queue) => return Ok((lane, carrier.receive(queue)?)),
                Poll::Nothing => {}
            }
        }
        wait(channel, control)?;
    }
}

/// Waits until one of the lanes that a channel wants may have something.
fn wait(channel: &Channel, control: &Control) -> Result<(), Halt> {
    let mut select = Select::new();
    let stopped = select.recv(control.stopped());
    for lane in channel.wanted() {
        channel.lanes[*lane].register(&mut select);
    }
    match select.ready() {
        ready if ready == stopped => Err(Halt::Stopped),
        _ => Ok(()),
    }
}
