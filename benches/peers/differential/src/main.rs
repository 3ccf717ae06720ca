//! Counts and sums events per key over hopping windows with differential dataflow, and says how long it took.
//!
//! ```text
//! differential-peer FILE WORKERS
//! ```
//!
//! `FILE` holds little-endian `i64`s: all keys, then all values. Event `i` happens at tick `i / 10`. Windows
//! are 1000 ticks long and move on every 100 ticks. A hop is an epoch: the events of the hop before it enter,
//! those that entered ten hops ago leave, and `count_total` keeps the count and the sum of each key. What it
//! says is a change from one hop to the next, so a row `(count, sum)` that stands for `n` windows is counted
//! `n` times in the totals, which makes them comparable with those of engines that write a row a window.

use differential_dataflow::input::InputSession;
use differential_dataflow::operators::CountTotal;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use timely::dataflow::ProbeHandle;
use timely::worker::Worker;

const EVENTS_A_HOP: usize = 1000;
const HOPS_A_WINDOW: usize = 10;

/// Epochs that may be in flight. With fewer, differential dataflow pays for an epoch more than for its
/// events.
const EPOCHS_IN_FLIGHT: usize = 100;

/// What is added up of a key: how many events, and the sum of their values.
type Weight = (i64, i64);

struct Events {
    keys: Vec<i64>,
    values: Vec<i64>,
}

impl Events {
    fn read(path: &str) -> std::io::Result<Self> {
        let bytes = std::fs::read(path)?;
        let mut keys: Vec<i64> =
            bytes.as_chunks::<8>().0.iter().map(|word| i64::from_le_bytes(*word)).collect();
        let values = keys.split_off(keys.len() / 2);
        Ok(Events { keys, values })
    }

    /// The last epoch: all events have left.
    fn last_hop(&self) -> usize {
        self.keys.len().div_ceil(EVENTS_A_HOP) + HOPS_A_WINDOW
    }

    /// The rows of the hop before `hop`.
    fn entering(&self, hop: usize) -> std::ops::Range<usize> {
        let end = self.keys.len();
        ((hop - 1) * EVENTS_A_HOP).min(end)..(hop * EVENTS_A_HOP).min(end)
    }
}

/// Result rows, and the sums of their two columns, over all windows.
#[derive(Clone, Copy, Default)]
struct Totals {
    rows: i64,
    count: i64,
    sum: i64,
}

fn work(worker: &mut Worker, events: &Events) -> Totals {
    let (index, peers, last) = (worker.index(), worker.peers(), events.last_hop());
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
        for row in events.entering(hop).filter(|row| row % peers == index) {
            input.update(events.keys[row], (1, events.values[row]));
        }
        if hop > HOPS_A_WINDOW {
            for row in events.entering(hop - HOPS_A_WINDOW).filter(|row| row % peers == index) {
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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(workers)) = (arguments.next(), arguments.next()) else {
        return Err("usage: differential-peer FILE WORKERS".into());
    };
    let events = Arc::new(Events::read(&path)?);
    let start = Instant::now();
    let guards =
        timely::execute(timely::Config::process(workers.parse()?), move |worker| work(worker, &events))?;
    let mut all = Totals::default();
    for totals in guards.join() {
        let totals = totals?;
        all.rows += totals.rows;
        all.count += totals.count;
        all.sum += totals.sum;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(r#"{{"seconds": {seconds}, "rows": {}, "count": {}, "sum": {}}}"#, all.rows, all.count, all.sum);
    Ok(())
}
