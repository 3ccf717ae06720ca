//! Joins the low and the later high values of a key that are less than a window apart.
//!
//! A tick is an epoch. A low value enters at its tick and leaves a window later, a high one leaves at the
//! next tick, so a pair lives for one tick. The join says when a pair comes and goes, in any order; a change
//! by `n` at a tick counts `n` times for each tick that is left, so all changes of a pair add up to one.

use crate::{Events, Totals};
use differential_dataflow::input::InputSession;
use std::cell::Cell;
use std::rc::Rc;
use timely::dataflow::ProbeHandle;
use timely::worker::Worker;

const EVENTS_A_TICK: usize = 10;

/// Ticks that may be in flight. Fewer cost more each, and with more the changes of longer ago are not
/// compacted.
const TICKS_IN_FLIGHT: usize = 10_000;

pub fn join(worker: &mut Worker, events: &Events, window: usize) -> Totals {
    let (index, peers) = (worker.index(), worker.peers());
    let ticks = events.keys.len().div_ceil(EVENTS_A_TICK);
    let last = ticks + window + 1;
    let totals = Rc::new(Cell::new(Totals::default()));
    let seen = Rc::clone(&totals);
    let probe = ProbeHandle::new();
    let mut lows = InputSession::<u64, (i64, i64), i64>::new();
    let mut highs = InputSession::<u64, (i64, i64), i64>::new();
    worker.dataflow::<u64, _, _>(|scope| {
        lows.to_collection(scope)
            .join_map(highs.to_collection(scope), |_, low, high| (*low, *high))
            .inspect(move |((low, high), tick, change)| {
                let pairs = change * (last as i64 - *tick as i64);
                let mut totals = seen.get();
                totals.rows += pairs;
                totals.count += pairs * low;
                totals.sum += pairs * high;
                seen.set(totals);
            })
            .probe_with(&probe);
    });
    for tick in 0..last {
        lows.advance_to(tick as u64);
        highs.advance_to(tick as u64);
        for (key, low) in events.of_tick(tick, index, peers).filter(is_low) {
            lows.update((key, low), 1);
        }
        for (key, high) in events.of_tick(tick, index, peers).filter(is_high) {
            highs.update((key, high), 1);
        }
        if let Some(before) = tick.checked_sub(1) {
            for (key, high) in events.of_tick(before, index, peers).filter(is_high) {
                highs.update((key, high), -1);
            }
        }
        if let Some(before) = tick.checked_sub(window) {
            for (key, low) in events.of_tick(before, index, peers).filter(is_low) {
                lows.update((key, low), -1);
            }
        }
        if tick % TICKS_IN_FLIGHT == 0 {
            lows.flush();
            highs.flush();
            worker.step_while(|| probe.less_than(lows.time()));
        }
    }
    lows.close();
    highs.close();
    worker.step_while(|| !probe.done());
    totals.get()
}

fn is_low((_, value): &(i64, i64)) -> bool {
    *value < 250
}

fn is_high((_, value): &(i64, i64)) -> bool {
    *value >= 750
}

impl Events {
    /// The key and the value of every event of a tick that a worker brings in.
    fn of_tick(&self, tick: usize, worker: usize, workers: usize) -> impl Iterator<Item = (i64, i64)> + '_ {
        let end = self.keys.len();
        let rows = (tick * EVENTS_A_TICK).min(end)..((tick + 1) * EVENTS_A_TICK).min(end);
        rows.filter(move |row| row % workers == worker).map(|row| (self.keys[row], self.values[row]))
    }
}
