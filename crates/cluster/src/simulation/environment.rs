//! What all processes of a simulation share: time, chance, the network, and what was seen so far.
//!
//! Invariant: nothing here depends on anything but the seed, so a run can be repeated.

use crate::backup::{Backup, QueueName, next_frame};
use futures::FutureExt;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use whimbrel_control::{Clock, ManualClock};
use whimbrel_sharded::runtime::Item;
use whimbrel_temporal::Message;

/// How many events a failing run shows.
const TRACE: usize = 60;

/// A process that others may reach: its backup outlives a hang, and is gone with a crash.
pub struct Host {
    /// Where frames can be had.
    pub address: String,
    /// What its channels have sent.
    pub backup: Arc<Backup>,
    is_up: AtomicBool,
    /// Until when it does nothing, and cannot be reached.
    pub hangs_until: Mutex<Duration>,
    /// Until when it cannot reach the store; its channels go on, and others read them.
    pub cut_off_until: Mutex<Duration>,
}

impl Host {
    pub fn new(address: String) -> Arc<Host> {
        let backup = Arc::new(Backup::new(&std::env::temp_dir(), 1 << 20, None));
        let (is_up, hangs_until, cut_off_until) = (AtomicBool::new(true), Mutex::default(), Mutex::default());
        Arc::new(Host { address, backup, is_up, hangs_until, cut_off_until })
    }

    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    pub fn crash(&self) {
        self.is_up.store(false, Ordering::Relaxed);
    }

    pub fn is_working(&self, now: Duration) -> bool {
        self.is_up() && *self.hangs_until.lock().unwrap() <= now
    }

    pub fn reaches_store(&self, now: Duration) -> bool {
        self.is_working(now) && *self.cut_off_until.lock().unwrap() <= now
    }
}

/// What is there beside the processes.
pub struct Environment {
    pub clock: ManualClock,
    chance: Mutex<fastrand::Rng>,
    faults: AtomicBool,
    hosts: Mutex<BTreeMap<String, Arc<Host>>>,
    /// What the first reader of each frame has seen; none of an end.
    seen: Mutex<BTreeMap<(String, usize, u64), Option<i64>>>,
    trace: Mutex<VecDeque<String>>,
    violation: Mutex<Option<String>>,
    /// Lets the others go on while a process waits for an answer of the store.
    pub pause: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Environment {
    pub fn new(seed: u64) -> Arc<Environment> {
        Arc::new(Environment {
            clock: ManualClock::default(),
            chance: Mutex::new(fastrand::Rng::with_seed(seed)),
            faults: AtomicBool::new(true),
            hosts: Mutex::default(),
            seen: Mutex::default(),
            trace: Mutex::default(),
            violation: Mutex::default(),
            pause: OnceLock::new(),
        })
    }

    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    /// A number of a range.
    pub fn number(&self, range: Range<u64>) -> u64 {
        self.chance.lock().unwrap().u64(range)
    }

    /// Whether something happens that does once in so many times.
    pub fn happens(&self, once_in: u64) -> bool {
        self.number(0..once_in) == 0
    }

    /// Whether a fault happens that does once in so many times, while there are faults.
    pub fn fails(&self, once_in: u64) -> bool {
        self.has_faults() && self.happens(once_in)
    }

    pub fn has_faults(&self) -> bool {
        self.faults.load(Ordering::Relaxed)
    }

    pub fn end_faults(&self) {
        self.faults.store(false, Ordering::Relaxed);
        self.note("no more faults".to_string());
    }

    pub fn note(&self, event: String) {
        let mut trace = self.trace.lock().unwrap();
        trace.push_back(format!("{:>9.3} s  {event}", self.now().as_secs_f64()));
        if trace.len() > TRACE {
            trace.pop_front();
        }
    }

    /// The last events.
    pub fn trace(&self) -> String {
        self.trace.lock().unwrap().iter().map(|event| format!("{event}\n")).collect()
    }

    /// Notes that an invariant is broken; the first one counts.
    pub fn violate(&self, violation: String) {
        self.note(format!("BROKEN: {violation}"));
        self.violation.lock().unwrap().get_or_insert(violation);
    }

    pub fn violation(&self) -> Option<String> {
        self.violation.lock().unwrap().clone()
    }

    pub fn add_host(&self, host: &Arc<Host>) {
        self.hosts.lock().unwrap().insert(host.address.clone(), Arc::clone(host));
    }

    /// The frame of a number of a queue at an address, if it can be had now. Whoever reads it, and whichever
    /// attempt has sent it: it has to be what its first reader saw.
    pub fn fetch(&self, address: &str, name: &QueueName, number: u64) -> Option<Option<i64>> {
        let host = self.hosts.lock().unwrap().get(address).cloned()?;
        if !host.is_working(self.now()) {
            return None;
        }
        let queue = host.backup.queue(name)?;
        let frame = next_frame(&queue, &mut queue.length(), number).now_or_never()?.ok()?;
        let found = match frame.item().unwrap() {
            Item::Message(Message::Punctuation(value)) => Some(value),
            Item::End => None,
            Item::Message(Message::Batch(_)) | Item::Marker(_) => panic!("no simulated channel sends this"),
        };
        let key = (name.job.clone(), name.queue, number);
        let first = *self.seen.lock().unwrap().entry(key).or_insert(found);
        if first != found {
            let (job, queue) = (&name.job, name.queue);
            self.violate(format!("frame {number} of queue {queue} of {job} was {first:?}, now {found:?}"));
        }
        Some(found)
    }
}
