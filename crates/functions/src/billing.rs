//! Queries that say what they have used once they have ended, and get a bill for it.

use crate::bill::{Bill, Finished};
use crate::prices::Prices;
use datafusion::common::Result;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use whimbrel_sharded::runtime::Execution;

/// A query that says what it has used once it has ended.
pub trait Metered: Send {
    /// Waits for the end, or until an instant; none if it still runs then.
    ///
    /// # Errors
    /// `Internal` if it will never say.
    fn wait(&mut self, until: Option<Instant>) -> Result<Option<(Result<()>, Finished)>>;
}

/// Where the bill of a query goes.
pub struct Account {
    /// When the query began.
    pub began: Instant,
    /// What all of it costs.
    pub prices: Prices,
    /// Where its bill is written.
    pub bills: [Arc<Mutex<Option<Bill>>>; 2],
}

impl Account {
    fn settle(&self, finished: Finished) {
        let bill = Bill { finished, elapsed: self.began.elapsed(), prices: self.prices.clone() };
        for place in &self.bills {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(bill.clone());
        }
    }
}

/// A query whose bill is written when it has ended.
pub struct Billed<Q> {
    query: Q,
    account: Account,
    /// How it ended, once that is known.
    outcome: Option<Result<()>>,
}

impl<Q> Billed<Q> {
    /// A query that has been started.
    pub fn new(query: Q, account: Account) -> Billed<Q> {
        Billed { query, account, outcome: None }
    }
}

impl<Q: Metered> Execution for Billed<Q> {
    fn wait(&mut self, until: Option<Instant>) -> Result<bool> {
        if self.outcome.is_none() {
            let Some((outcome, finished)) = self.query.wait(until)? else { return Ok(false) };
            self.account.settle(finished);
            self.outcome = Some(outcome);
        }
        match self.outcome.replace(Ok(())) {
            Some(Err(error)) => Err(error),
            _ => Ok(true),
        }
    }
}
