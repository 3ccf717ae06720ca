//! Connections to the master, shared by threads.
//!
//! Invariants: a connection is used by one thread at a time. When one fails, those that lie idle are closed,
//! for what broke one has most likely broken them; the next call looks for the master again. A process that
//! was forked leaves the connections of its parent alone.

use super::link::{Attempt, Failure, Link};
use super::servers::{Address, Servers};
use crate::error::{Error, Result};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many connections are kept for later.
const IDLE_MAX: usize = 16;
/// The first pause between two attempts; each next one is twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How many servers may send on to another one before one of them is the right one.
const MOVES_MAX: usize = 4;

/// Connections, and how to get more.
pub struct Pool {
    servers: Servers,
    /// A key whose slot the master has.
    key: String,
    /// How long a server may take to answer.
    timeout: Duration,
    /// How long a call is tried again.
    deadline: Duration,
    state: Mutex<State>,
}

struct State {
    idle: Vec<Link>,
    /// Where the master was last.
    master: Option<Address>,
    /// The process that made the connections.
    process: u32,
}

impl Pool {
    /// A pool without connections.
    pub fn new(servers: Servers, key: &str, timeout: Duration, deadline: Duration) -> Pool {
        let state = State { idle: vec![], master: None, process: std::process::id() };
        Pool { servers, key: key.to_string(), timeout, deadline, state: Mutex::new(state) }
    }

    /// The servers that it connects to.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// How long a server may take to answer.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.process != std::process::id() {
            // Closing them would say goodbye to the server in the name of the parent, which goes on using
            // them.
            std::mem::take(&mut state.idle).into_iter().for_each(std::mem::forget);
            state.process = std::process::id();
        }
        state
    }

    /// Does something that can be done again, until it succeeds or the deadline is over.
    ///
    /// # Errors
    /// `Unavailable` at the deadline; others at once.
    pub fn with<T>(&self, mut work: impl FnMut(&mut Link) -> Attempt<T>) -> Result<T> {
        self.retry(|| self.lend(&mut work))
    }

    /// Makes attempts until one succeeds or the deadline is over.
    ///
    /// # Errors
    /// As [`with`](Pool::with).
    pub fn retry<T>(&self, mut attempt: impl FnMut() -> Attempt<T>) -> Result<T> {
        let started = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let why = match attempt() {
                Ok(done) => return Ok(done),
                Err(Failure::Refused(error)) => return Err(error),
                Err(passing) => passing,
            };
            if started.elapsed() + pause > self.deadline {
                return Err(Error::Unavailable(format!(
                    "the control store {} could not be used for {:?}; try again when it can: {why}",
                    self.servers, self.deadline
                )));
            }
            std::thread::sleep(jittered(pause));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Does something once with a connection: one that lies idle, or a new one.
    fn lend<T>(&self, work: &mut impl FnMut(&mut Link) -> Attempt<T>) -> Attempt<T> {
        let idle = self.state().idle.pop();
        let mut link = match idle {
            Some(link) => link,
            None => self.connect()?,
        };
        let done = work(&mut link);
        let closed = {
            let mut state = self.state();
            match &done {
                Ok(_) if state.idle.len() < IDLE_MAX => {
                    state.idle.push(link);
                    vec![]
                }
                Ok(_) => vec![link],
                Err(_) => std::mem::take(&mut state.idle),
            }
        };
        // Closing talks to the server: not while others wait for the lock.
        drop(closed);
        done
    }

    /// Connects to the master: where it was last, or wherever it is now.
    pub fn connect(&self) -> Attempt<Link> {
        let last = self.state().master.clone();
        let mut left: VecDeque<Address> = last.into_iter().chain(self.servers.addresses.clone()).collect();
        let mut moves = 0;
        let mut reasons = Vec::new();
        while let Some(address) = left.pop_front() {
            left.retain(|other| *other != address);
            match Link::open(&self.servers, &address, &self.key, self.timeout) {
                Ok(link) => {
                    self.state().master = Some(address);
                    return Ok(link);
                }
                Err(Failure::Moved(to)) if moves < MOVES_MAX => {
                    moves += 1;
                    left.push_front(to);
                }
                Err(Failure::Refused(error)) => return Err(Failure::Refused(error)),
                Err(passing) => reasons.push(passing.to_string()),
            }
        }
        self.state().master = None;
        Err(Failure::Lost(reasons.join("; ")))
    }
}

/// Something between half of it and one and a half, so that those who lost the same server do not all come
/// back in the same moment.
fn jittered(pause: Duration) -> Duration {
    let chance = getrandom::u32().map_or(0.5, |bits| f64::from(bits) / f64::from(u32::MAX));
    pause.mul_f64(0.5 + chance)
}
