//! The memory of the relational channels of a query: one pool that they share, or one for each.
//!
//! Operators that can spill get a part of the memory, in equal shares. The rest is for operators that cannot:
//! above all for the merge of spilled files, which would otherwise find that all memory is taken.
//!
//! Invariant: an operator that can spill and holds nothing always gets its first reservation. So every
//! operator makes progress, however large a batch is.

use crate::lower::session;
use crate::options::Memory;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, human_readable_size,
};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::SessionConfig;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The share of the memory for operators that can spill, in percent.
const SPILLABLE_SHARE: usize = 50;

/// The bytes that a spilling sort reserves for merging at most.
const MERGE_RESERVATION: usize = 10 << 20;

/// Where the channels of a query take their memory from.
pub(super) enum ChannelMemory {
    /// All from the same.
    Shared(Arc<RuntimeEnv>),
    /// Each from a pool of its own, of so many bytes.
    Own(u64),
}

impl ChannelMemory {
    /// The memory that the options ask for.
    ///
    /// # Errors
    /// If there is no folder for spilled files.
    pub fn new(memory: Memory) -> Result<ChannelMemory> {
        Ok(match memory {
            Memory::Unlimited => ChannelMemory::Shared(session().runtime_env().clone()),
            Memory::Query(bytes) => ChannelMemory::Shared(limited(bytes)?),
            Memory::Channel(bytes) => ChannelMemory::Own(bytes),
        })
    }

    /// The memory of the next channel.
    ///
    /// # Errors
    /// If there is no folder for spilled files.
    pub fn of_channel(&self) -> Result<Arc<RuntimeEnv>> {
        match self {
            ChannelMemory::Shared(memory) => Ok(Arc::clone(memory)),
            ChannelMemory::Own(bytes) => limited(*bytes),
        }
    }
}

/// A pool of so many bytes.
fn limited(bytes: u64) -> Result<Arc<RuntimeEnv>> {
    let pool = LimitedMemoryPool::new(usize::try_from(bytes).unwrap_or(usize::MAX));
    RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).build_arc()
}

/// The settings of operators under a memory limit: smaller batches, reservations and tables.
pub(super) fn settings(config: SessionConfig, memory: &RuntimeEnv) -> SessionConfig {
    let MemoryLimit::Finite(bytes) = memory.memory_pool.memory_limit() else { return config };
    let rows = (bytes >> 14).clamp(512, config.batch_size());
    let mut config =
        config.with_sort_spill_reservation_bytes((bytes >> 5).min(MERGE_RESERVATION)).with_batch_size(rows);
    // Four bytes an entry.
    let entries = &mut config.options_mut().execution.perfect_hash_join_small_build_threshold;
    *entries = (*entries).min(bytes >> 5);
    config
}

/// A memory pool with a limit.
#[derive(Debug)]
struct LimitedMemoryPool {
    limit: usize,
    reserved: Mutex<Reservations>,
}

/// How many bytes are reserved.
#[derive(Debug, Default)]
struct Reservations {
    /// By each operator that can spill.
    spillable: HashMap<usize, usize>,
    /// By all operators that can spill.
    all_spillable: usize,
    /// By all operators that cannot.
    unspillable: usize,
}

impl Reservations {
    /// Changes what an operator has reserved.
    fn change(&mut self, consumer: &MemoryConsumer, change: impl Fn(usize) -> usize) {
        if !consumer.can_spill() {
            self.unspillable = change(self.unspillable);
            return;
        }
        let held = self.spillable.entry(consumer.id()).or_default();
        self.all_spillable -= *held;
        *held = change(*held);
        self.all_spillable += *held;
        if *held == 0 {
            self.spillable.remove(&consumer.id());
        }
    }
}

impl LimitedMemoryPool {
    /// An empty pool of this many bytes.
    fn new(limit: usize) -> LimitedMemoryPool {
        LimitedMemoryPool { limit, reserved: Mutex::default() }
    }

    /// The bytes for all operators that can spill.
    fn spillable(&self) -> usize {
        self.limit / 100 * SPILLABLE_SHARE
    }

    /// A panic elsewhere leaves it consistent: every change is made in one step.
    fn lock(&self) -> MutexGuard<'_, Reservations> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an operator may reserve so much more.
    fn allows(&self, reserved: &Reservations, reservation: &MemoryReservation, more: usize) -> bool {
        let consumer = reservation.consumer();
        let own = reserved.spillable.get(&consumer.id()).copied().unwrap_or(0);
        let fits = reserved.unspillable + reserved.all_spillable + more <= self.limit;
        if !consumer.can_spill() {
            // Their part stays theirs, also where a partition of a window has reserved more than there is. A
            // small request never fails.
            return fits
                || reserved.unspillable + more <= self.limit - self.spillable()
                || more <= self.limit >> 10;
        }
        // A second reservation of an operator is for merging or sorting what the first holds: it cannot spill
        // then.
        if own > reservation.size() {
            return fits;
        }
        let sharers = reserved.spillable.len() + usize::from(own == 0);
        own == 0 || own + more <= self.spillable() / sharers
    }
}

impl MemoryPool for LimitedMemoryPool {
    fn name(&self) -> &str {
        "limited memory"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.lock().change(reservation.consumer(), |held| held + additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.lock().change(reservation.consumer(), |held| held.saturating_sub(shrink));
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut reserved = self.lock();
        let consumer = reservation.consumer();
        if !self.allows(&reserved, reservation, additional) {
            let taken = reserved.unspillable + reserved.all_spillable;
            return Err(exhausted(self.limit, consumer.name(), taken, additional));
        }
        reserved.change(consumer, |held| held + additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        let reserved = self.lock();
        reserved.all_spillable + reserved.unspillable
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

impl fmt::Display for LimitedMemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of memory", human_readable_size(self.limit))
    }
}

/// The error of an operator that needs more memory than there is.
fn exhausted(limit: usize, operator: &str, reserved: usize, more: usize) -> DataFusionError {
    let size = human_readable_size;
    // The name ends with the number of the partition, of which there is one.
    let operator = operator.split('[').next().unwrap_or(operator);
    DataFusionError::ResourcesExhausted(format!(
        "the memory limit of {} is too low: {operator} needs {} more, and {} are taken; give the query \
         more memory, or ask for fewer rows or columns at once",
        size(limit),
        size(more),
        size(reserved),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consumer(pool: &Arc<dyn MemoryPool>, spills: bool) -> MemoryReservation {
        MemoryConsumer::new("Sort[0]").with_can_spill(spills).register(pool)
    }

    #[test]
    fn operators_that_spill_leave_room_for_others() {
        let pool: Arc<dyn MemoryPool> = Arc::new(LimitedMemoryPool::new(1000));
        let (first, second) = (consumer(&pool, true), consumer(&pool, true));
        assert!(first.try_grow(500).is_ok());
        assert!(first.try_grow(1).is_err(), "half of it");
        assert!(second.try_grow(100).is_ok(), "who has nothing gets something");
        assert!(second.try_grow(100).is_ok());
        assert!(second.try_grow(100).is_err(), "half of the half");
        let merge = consumer(&pool, false);
        assert!(merge.try_grow(500).is_ok(), "the other half");
        let error = merge.try_grow(1).unwrap_err().to_string();
        assert!(error.contains("1000.0 B is too low: Sort needs 1.0 B more"), "{error}");
        first.free();
        let merging = second.new_empty();
        assert!(merging.try_grow(300).is_ok(), "what is gathered has to be merged");
        merging.free();
        assert!(merge.try_grow(300).is_ok());
        assert!(second.try_grow(300).is_ok(), "the only one left has all of the half");
        drop((first, second, merge));
        assert_eq!(pool.reserved(), 0);
    }
}
