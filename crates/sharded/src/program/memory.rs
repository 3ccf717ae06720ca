//! What the relational channels of a query share: memory, and a place for what it has no room for.

use crate::lower::session;
use datafusion::common::Result;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// How many operators a message names that memory was not enough for. (3 is not 0: the compiler unwraps it.)
const NAMED: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// A pool of so many bytes, shared fairly between operators that can spill; without a limit that of the
/// session.
pub(super) fn memory(limit: Option<usize>) -> Result<Arc<RuntimeEnv>> {
    match limit {
        None => Ok(session().runtime_env().clone()),
        Some(bytes) => {
            let pool = TrackConsumersPool::new(FairSpillPool::new(bytes), NAMED);
            RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).build_arc()
        }
    }
}
