//! How long a statement waits for other writers of the same rows, and when it gives up.
//!
//! The pauses between tries grow and are random, so that two statements that collided do not collide again.

use crate::error::{Error, Result};
use crate::random::Random;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The first pause, on average.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
/// The longest one.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// How long a claim may stand unchanged before its writer counts as gone.
const LONGEST_CLAIM: Duration = Duration::from_secs(1);

/// What one call of a statement knows of others that are in its way.
#[derive(Debug)]
pub(crate) struct Contention {
    /// When the statement began.
    began: Instant,
    /// How long it may wait in all.
    timeout: Duration,
    /// The next pause, on average.
    pause: Duration,
    /// What the pauses are drawn from.
    random: Random,
    /// The claims of others that it has met, by their keys, and when it met them first.
    claims: BTreeMap<Vec<u8>, (Vec<u8>, Instant)>,
}

impl Contention {
    /// Nobody was met yet.
    pub fn new(timeout: Duration) -> Contention {
        Contention {
            began: Instant::now(),
            timeout,
            pause: FIRST_PAUSE,
            // Without random numbers pauses are those of another seed: still right, only less well spread.
            random: Random::new(getrandom::u64().unwrap_or_default()),
            claims: BTreeMap::new(),
        }
    }

    /// Pauses before the next try.
    ///
    /// # Errors
    /// `Conflict`, which says this, if there is no time for another one.
    pub fn pause(&mut self, says: impl FnOnce() -> String) -> Result<()> {
        self.pause_or("try again later", says)
    }

    /// The same, with another remedy.
    ///
    /// # Errors
    /// As [`pause`](Contention::pause).
    pub fn pause_or(&mut self, remedy: &str, says: impl FnOnce() -> String) -> Result<()> {
        if self.began.elapsed() >= self.timeout {
            return Err(Error::Conflict(format!("{}, for {:?}: {remedy}", says(), self.timeout)));
        }
        let left = self.timeout.saturating_sub(self.began.elapsed());
        std::thread::sleep(self.pause.mul_f64(2.0 * self.random.unit()).min(left));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }

    /// Whether a claim has stood unchanged for longer than a writer that is at work needs.
    pub fn is_abandoned(&mut self, key: &[u8], claim: &[u8]) -> bool {
        let now = Instant::now();
        match self.claims.get(key) {
            Some((first, met)) if first == claim => {
                now.duration_since(*met) >= LONGEST_CLAIM.min(self.timeout / 5)
            }
            _ => {
                self.claims.insert(key.to_vec(), (claim.to_vec(), now));
                false
            }
        }
    }
}
