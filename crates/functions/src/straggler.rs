//! Requests that take longer than expected are sent a second time (starling.txt §5).
//!
//! A request of `b` bytes beside `c` others is expected to take `r = l + b·c/t`. The paper writes
//! `r = l + b/(t·c)`, which falls as more requests share the throughput of one function, and duplicates far
//! too early under parallel reads; it can be chosen. The expectation is multiplied by how much longer than
//! that requests have taken so far.
//!
//! Duplicates have a budget, a part of all requests, so that a store that is slow as a whole is not asked
//! twice as much; and there are none while the store says that it is asked too much.

use crate::meter::Meter;
use object_store::Result;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many of the last requests tell how fast the store is.
const WINDOW: usize = 64;

/// After so many requests they are believed.
const ENOUGH: usize = 8;

/// Duplicates that may be sent before any budget has been earned.
const FIRST_DUPLICATES: f64 = 2.0;

/// How the parallel requests of a function share its throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Sharing {
    /// They share it: `r = l + b·c/t`.
    #[default]
    Shared,
    /// As the paper has it: `r = l + b/(t·c)`.
    Literal,
}

/// When a request is late.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StragglerModel {
    /// The latency of the store, in seconds.
    pub latency: f64,
    /// The throughput of a function, in bytes a second.
    pub throughput: f64,
    /// How many times the expected time a request may take.
    pub factor: f64,
    /// How many duplicates there may be for each request; 0 for none.
    pub budget: f64,
    /// How parallel requests share the throughput.
    pub sharing: Sharing,
}

impl StragglerModel {
    /// Of reads: 15 ms and 150 MB/s, as measured in starling.txt §5.1.
    pub const READS: StragglerModel = StragglerModel {
        latency: 0.015,
        throughput: 150e6,
        factor: 3.0,
        budget: 0.05,
        sharing: Sharing::Shared,
    };

    /// Of writes, from their first byte on. Few are made, and each is waited for, so more of them may be
    /// duplicated (starling.txt §5.2: 31 %).
    pub const WRITES: StragglerModel =
        StragglerModel { latency: 0.05, budget: 0.35, ..StragglerModel::READS };

    /// Of writes, from the time on when all bytes have been sent: the store has only to answer.
    pub const ANSWERS: StragglerModel =
        StragglerModel { latency: 0.05, throughput: 1e9, ..StragglerModel::WRITES };

    /// The same, but that no request is sent twice.
    #[must_use]
    pub fn without_duplicates(self) -> StragglerModel {
        StragglerModel { budget: 0.0, ..self }
    }

    /// The time that a request of so many bytes is expected to take, beside others.
    fn expected(&self, bytes: u64, concurrent: usize) -> f64 {
        let (bytes, concurrent) = (bytes as f64, concurrent.max(1) as f64);
        self.latency
            + match self.sharing {
                Sharing::Shared => bytes * concurrent / self.throughput,
                Sharing::Literal => bytes / (self.throughput * concurrent),
            }
    }
}

/// The requests of one kind that a function makes.
#[derive(Debug)]
pub struct Requests {
    model: StragglerModel,
    running: AtomicUsize,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// How many times the expected time the last requests took.
    ratios: VecDeque<f64>,
    /// The duplicates that may be sent.
    budget: f64,
}

impl Requests {
    /// Requests that behave like this until it is known better.
    pub fn new(model: StragglerModel) -> Requests {
        let seen = Seen { ratios: VecDeque::new(), budget: FIRST_DUPLICATES };
        Requests { model, running: AtomicUsize::new(0), seen: Mutex::new(seen) }
    }

    /// When a request that begins now is late.
    pub fn deadline(&self, bytes: u64) -> Duration {
        self.deadline_of(&self.model, bytes)
    }

    /// When a part of a request is late that has a model of its own.
    pub fn deadline_of(&self, model: &StragglerModel, bytes: u64) -> Duration {
        let expected = model.expected(bytes, self.running.load(Ordering::Relaxed) + 1);
        Duration::from_secs_f64(expected * self.scale() * model.factor)
    }

    /// How many times the expected time a usual request takes: the median, and not less than one.
    fn scale(&self) -> f64 {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.ratios.len() < ENOUGH {
            return 1.0;
        }
        let mut ratios: Vec<f64> = seen.ratios.iter().copied().collect();
        let middle = ratios.len() / 2;
        ratios.select_nth_unstable_by(middle, f64::total_cmp);
        ratios[middle].max(1.0)
    }

    /// Takes a duplicate from the budget, if there is one.
    fn take_duplicate(&self) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = self.model.budget > 0.0 && seen.budget >= 1.0;
        seen.budget -= f64::from(u8::from(is_there));
        is_there
    }

    fn learn(&self, took: Duration, expected: f64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.ratios.push_back(took.as_secs_f64() / expected);
        if seen.ratios.len() > WINDOW {
            seen.ratios.pop_front();
        }
        seen.budget += self.model.budget;
    }

    /// The answer to a request, or to its duplicate if it is `late`.
    ///
    /// # Errors
    /// That of the request, if its duplicate gives no answer.
    pub async fn first_answer<T, A, B>(
        &self,
        meter: &Meter,
        bytes: u64,
        request: A,
        late: impl Future<Output = ()>,
        duplicate: impl FnOnce() -> B,
    ) -> Result<T>
    where
        A: Future<Output = Result<T>>,
        B: Future<Output = Result<T>>,
    {
        let concurrent = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        let expected = self.model.expected(bytes, concurrent);
        let began = Instant::now();
        let answer = self.race(meter, request, late, duplicate).await;
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.learn(began.elapsed(), expected);
        answer
    }

    async fn race<T, A, B>(
        &self,
        meter: &Meter,
        request: A,
        late: impl Future<Output = ()>,
        duplicate: impl FnOnce() -> B,
    ) -> Result<T>
    where
        A: Future<Output = Result<T>>,
        B: Future<Output = Result<T>>,
    {
        tokio::pin!(request);
        tokio::select! {
            biased;
            answer = &mut request => return answer,
            () = late => {}
        }
        if meter.is_throttled() || !self.take_duplicate() {
            return request.await;
        }
        meter.count_duplicate();
        let duplicate = duplicate();
        tokio::pin!(duplicate);
        tokio::select! {
            answer = &mut request => match answer {
                Ok(answer) => Ok(answer),
                Err(error) => duplicate.await.map_err(|_| error),
            },
            answer = &mut duplicate => match answer {
                Ok(answer) => Ok(answer),
                Err(_) => request.await,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_requests_share_the_throughput() {
        let shared = StragglerModel::READS;
        let literal = StragglerModel { sharing: Sharing::Literal, ..shared };
        let milliseconds = |model: StragglerModel| (model.expected(256 << 10, 16) * 1000.0).round();
        assert_eq!((milliseconds(shared), milliseconds(literal)), (43.0, 15.0));
    }

    #[test]
    fn a_slow_store_is_expected_to_be_slow() {
        let requests = Requests::new(StragglerModel::READS);
        let before = requests.deadline(0);
        for _ in 0..ENOUGH {
            requests.learn(Duration::from_millis(150), 0.015);
        }
        assert_eq!(requests.deadline(0).as_millis(), before.as_millis() * 10);
    }

    #[tokio::test]
    async fn a_late_request_is_sent_again_within_the_budget() {
        let (requests, meter) = (Requests::new(StragglerModel::READS), Meter::default());
        let mut answers = Vec::new();
        for _ in 0..30 {
            let slow = async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok("first")
            };
            let late = tokio::time::sleep(Duration::from_millis(1));
            let again = || async { Ok("second") };
            answers.push(requests.first_answer(&meter, 0, slow, late, again).await.unwrap());
        }
        let duplicates = answers.iter().filter(|answer| **answer == "second").count();
        // Two at first, and one for each twenty requests.
        assert_eq!((duplicates as u64, duplicates), (meter.usage().hedged, 3));
    }

    #[tokio::test]
    async fn the_duplicate_does_not_hide_an_answer() {
        let (requests, meter) = (Requests::new(StragglerModel::READS), Meter::default());
        let slow = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(1)
        };
        let fails = || async {
            Err(object_store::Error::NotImplemented { operation: String::new(), implementer: String::new() })
        };
        let answer = requests.first_answer(&meter, 0, slow, std::future::ready(()), fails).await;
        assert_eq!(answer.unwrap(), 1);
    }
}
