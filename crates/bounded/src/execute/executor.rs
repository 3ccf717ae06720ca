//! How the requests of a call are handed to the store.

use crate::error::Result;
use crate::store::{Found, Read, Store};

/// How the requests of a call are handed to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Executor {
    /// Row by row, only as many as the result needs: the fewest requests, the most rounds.
    Lazy,
    /// One request after the other, each with its whole limit.
    Simple,
    /// All requests of a round at once: the fewest rounds.
    #[default]
    Parallel,
}

/// Sends requests as the executor does.
pub(super) fn ask(store: &dyn Store, executor: Executor, requests: &[Read]) -> Result<Vec<Found>> {
    match executor {
        _ if requests.is_empty() => Ok(vec![]),
        Executor::Parallel => store.read(requests),
        Executor::Simple | Executor::Lazy => {
            let answers = requests.iter().map(|request| store.read(std::slice::from_ref(request)));
            Ok(answers.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
        }
    }
}
