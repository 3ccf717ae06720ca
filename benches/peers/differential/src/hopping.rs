//! Counts and sums events per key over hopping windows.
//!
//! A hop is an epoch: the events of the hop before it enter, those that entered ten hops ago leave, and
//! `count_total` keeps the count and the sum of each key. What it says is a change from one hop to the next,
//! so a row `(count, sum)` that stands for `n` windows is counted `n` times in the totals, which makes them
//! comparable with those of engines that write a row a window.

use crate::{Events, Totals};
use differential_dataflow::input::InputSession;
use differential_dataflow::operators::CountTotal;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use timely::dataflow::ProbeHandle;
use timely::worker::Worker;

const EVENTS_A_HOP: usize = 1000;
const HOPS_A_WINDOW: usize = 10;

/// Epochs that may be in flight. With fewer, differential dataflow pays for an epoch more than for its
/// events.
const EPOCHS_IN_FLIGHT: usize = 100;

/// What is added up of a key: how many events, and the sum of their values.
type Weight = (i64, i64);

/// The last epoch: all events have left.
fn last_hop(events: &Events) -> usize {
    events.keys.len().div_ceil(EVENTS_A_HOP) + HOPS_A_WINDOW
}

/// The rows of the hop before `hop`.
fn entering(events: &Events, hop: usize) -> Range<usize> {
    let end = events.keys.len();
    ((hop - 1) * EVENTS_A_HOP).min(end)..(hop * EVENTS_A_HOP).min(end)
}

pub fn hopping(worker: &mut Worker, events: &Events) -> Totals {
    let (index, peers, last) = (worker.index(), worker.peers(), last_hop(events));
    let totals = Rc::new(Cell::new(Totals::default()));
    let seen = Rc::clone(&totals);
    let probe = ProbeHandle::new();
    let mut input = InputSession::<u64, i64, Weight>::new();
    worker.dataflow::<u64, _, _>(|scope| {
        input
            .to_collection(scope)
            .count_total()
            .inspect(move |((_, (count, sum)), hop, change)| {
                let windows = *change as i64 * (last as i64 - *hop as i64);
                let mut totals = seen.get();
                totals.rows += windows;
                totals.count += windows * count;
                totals.sum += windows * sum;
                seen.set(totals);
            })
            .probe_with(&probe);
    });
    for hop in 1..=last {
        input.advance_to(hop as u64);
        for row in entering(events, hop).filter(|row| row % peers == index) {
            input.update(events.keys[row], (1, events.values[row]));
        }
        if hop > HOPS_A_WINDOW {
            for row in entering(events, hop - HOPS_A_WINDOW).filter(|row| row % peers == index) {
                input.update(events.keys[row], (-1, -events.values[row]));
            }
        }
        if hop % EPOCHS_IN_FLIGHT == 0 {
            input.flush();
            worker.step_while(|| probe.less_than(input.time()));
        }
    }
    input.close();
    worker.step_while(|| !probe.done());
    totals.get()
}
