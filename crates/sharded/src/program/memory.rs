//! What the relational channels of a query share: memory, and a place for what it has no room for.
//!
//! Operators that can write what they hold to files get a part of the memory, in equal shares; the rest is for those
//! that cannot: what merges the files again, above all, which would otherwise find that everything is taken.
//!
//! Invariant: an operator that can spill and holds nothing gets what it asks for first, so everybody gets on, whatever
//! a batch of rows takes.

use crate::lower::session;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, human_readable_size,
};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::SessionConfig;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which part of the memory operators get that can spill, in percent.
const SPILLABLE: usize = 50;

/// How many bytes a sort that spills keeps for merging, at most.
const MERGED: usize = 10 << 20;

/// Without a limit the memory of the session, else a pool of so many bytes.
pub(super) fn memory(limit: Option<usize>) -> Result<Arc<RuntimeEnv>> {
    match limit {
        None => Ok(session().runtime_env().clone()),
        Some(bytes) => RuntimeEnvBuilder::new().with_memory_pool(Arc::new(Pool::new(bytes))).build_arc(),
    }
}

/// The settings of operators that have so much memory: what they always keep free, and how much they merge at once.
pub(super) fn settings(config: SessionConfig, memory: &RuntimeEnv) -> SessionConfig {
    let MemoryLimit::Finite(bytes) = memory.memory_pool.memory_limit() else { return config };
    let rows = (bytes >> 14).clamp(512, config.batch_size());
    let mut config = config.with_sort_spill_reservation_bytes((bytes >> 5).min(MERGED)).with_batch_size(rows);
    // Four bytes a place, whatever is in it.
    let places = &mut config.options_mut().execution.perfect_hash_join_small_build_threshold;
    *places = (*places).min(bytes >> 5);
    config
}

/// So many bytes of memory.
#[derive(Debug)]
struct Pool {
    limit: usize,
    held: Mutex<Held>,
}

/// Who holds what.
#[derive(Debug, Default)]
struct Held {
    /// What each operator holds that can spill, and all of them.
    spillable: HashMap<usize, usize>,
    all_spillable: usize,
    others: usize,
}

impl Held {
    fn change(&mut self, consumer: &MemoryConsumer, change: impl Fn(usize) -> usize) {
        if !consumer.can_spill() {
            self.others = change(self.others);
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

impl Pool {
    fn new(limit: usize) -> Pool {
        Pool { limit, held: Mutex::default() }
    }

    /// What operators get together that can spill.
    fn spillable(&self) -> usize {
        self.limit / 100 * SPILLABLE
    }

    /// Every change is one step.
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an operator may have so much more.
    fn allows(&self, held: &Held, reservation: &MemoryReservation, more: usize) -> bool {
        let consumer = reservation.consumer();
        let own = held.spillable.get(&consumer.id()).copied().unwrap_or(0);
        let fits = held.others + held.all_spillable + more <= self.limit;
        if !consumer.can_spill() {
            // Their part is theirs, also where a partition of a window has taken more than there is; and nobody fails
            // for want of next to nothing.
            return fits || held.others + more <= self.limit - self.spillable() || more <= self.limit >> 10;
        }
        // What an operator takes beside what it gathers it takes to merge or to sort that: it cannot spill then.
        if own > reservation.size() {
            return fits;
        }
        let sharers = held.spillable.len() + usize::from(own == 0);
        own == 0 || own + more <= self.spillable() / sharers
    }
}

impl MemoryPool for Pool {
    fn name(&self) -> &str {
        "memory of a query"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.lock().change(reservation.consumer(), |held| held + additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.lock().change(reservation.consumer(), |held| held.saturating_sub(shrink));
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut held = self.lock();
        let consumer = reservation.consumer();
        if !self.allows(&held, reservation, additional) {
            let reserved = held.others + held.all_spillable;
            return Err(exhausted(self.limit, consumer.name(), reserved, additional));
        }
        held.change(consumer, |held| held + additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        let held = self.lock();
        held.all_spillable + held.others
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of memory", human_readable_size(self.limit))
    }
}

fn exhausted(limit: usize, who: &str, held: usize, more: usize) -> DataFusionError {
    let size = human_readable_size;
    // An operator's name ends with the number of its partition, of which there is one.
    let who = who.split('[').next().unwrap_or(who);
    DataFusionError::ResourcesExhausted(format!(
        "the memory limit of {} is too low: {who} needs {} more, and {} are taken; give the query more memory, or ask \
         for fewer rows or columns at once",
        size(limit),
        size(more),
        size(held),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consumer(pool: &Arc<dyn MemoryPool>, spills: bool) -> MemoryReservation {
        MemoryConsumer::new("Sort[0]").with_can_spill(spills).register(pool)
    }

    #[test]
    fn who_can_spill_leaves_room_for_others() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Pool::new(1000));
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
        let beside = second.new_empty();
        assert!(beside.try_grow(300).is_ok(), "what is gathered has to be merged");
        beside.free();
        assert!(merge.try_grow(300).is_ok());
        assert!(second.try_grow(300).is_ok(), "whoever is left has all of the half");
        drop((first, second, merge));
        assert_eq!(pool.reserved(), 0);
    }
}
