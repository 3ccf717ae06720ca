//! The pools of functions that a query uses: one, or two of which one's own machines carry the base load and
//! functions elsewhere the spikes (Cackle and Pixels-Turbo divide load in this way).
//!
//! Invariants: an invocation holds a place of its pool until it has ended; queries share the places of a base
//! pool. An invocation goes to the base pool if that has a place, and elsewhere once work has waited for one
//! for as long as it may.

use crate::bill::PoolKind;
use crate::invoke::Invoke;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// For so long a base pool is not asked again that cannot be reached.
const UNREACHABLE: Duration = Duration::from_secs(5);

/// For so long a pool is not asked again that has refused an invocation, or lost one.
const REFUSED: Duration = Duration::from_millis(100);

/// Functions that are invoked in one way.
#[derive(Clone)]
pub struct Pool {
    /// Who invokes them.
    pub invoker: Arc<dyn Invoke>,
    /// The megabytes of memory of each.
    pub memory: u32,
    /// Places for invocations that run at the same time.
    places: Arc<Semaphore>,
}

impl Pool {
    /// A pool with so many places.
    pub fn new(invoker: Arc<dyn Invoke>, concurrency: usize, memory: u32) -> Pool {
        let places = Arc::new(Semaphore::new(concurrency.min(Semaphore::MAX_PERMITS)));
        Pool { invoker, memory, places }
    }
}

/// A pool of one's own machines, which is used before another one.
#[derive(Clone)]
pub struct BasePool {
    /// The pool.
    pub pool: Pool,
    /// How long work waits for one of its places before it goes elsewhere; none: until there is one.
    pub wait: Option<Duration>,
}

/// The pools of one query.
pub struct Pools {
    elastic: Pool,
    base: Option<BasePool>,
    /// Since when work has waited for a place of the base pool.
    waiting_since: Option<Instant>,
    /// When the elastic and the base pool may be asked again.
    not_before: [Option<Instant>; 2],
}

/// A place for an invocation.
pub struct Place {
    /// Where it is.
    pub pool: PoolKind,
    _permit: OwnedSemaphorePermit,
}

impl Pools {
    /// The pools of a query that begins.
    pub fn new(elastic: Pool, base: Option<BasePool>) -> Pools {
        Pools { elastic, base, waiting_since: None, not_before: [None; 2] }
    }

    /// A pool of this query.
    pub fn pool(&self, kind: PoolKind) -> &Pool {
        match (kind, &self.base) {
            (PoolKind::Base, Some(base)) => &base.pool,
            _ => &self.elastic,
        }
    }

    /// A place for the next invocation, if there is one. Work that `is_ready` waits if there is none.
    pub fn place(&mut self, now: Instant, is_ready: bool) -> Option<Place> {
        if let Some(base) = &self.base {
            if let Some(place) = self.place_of(PoolKind::Base, now) {
                self.waiting_since = None;
                return Some(place);
            }
            let since = if is_ready { self.waiting_since.unwrap_or(now) } else { now };
            self.waiting_since = is_ready.then_some(since);
            base.wait.filter(|wait| now.saturating_duration_since(since) >= *wait)?;
        }
        self.place_of(PoolKind::Elastic, now)
    }

    fn place_of(&self, pool: PoolKind, now: Instant) -> Option<Place> {
        if self.not_before[pool as usize].is_some_and(|instant| now < instant) {
            return None;
        }
        let permit = Arc::clone(&self.pool(pool).places).try_acquire_owned().ok()?;
        Some(Place { pool, _permit: permit })
    }

    /// A pool runs as many invocations as it may, or has lost one.
    pub fn refuse(&mut self, pool: PoolKind, now: Instant) {
        self.not_before[pool as usize] = Some(now + REFUSED);
    }

    /// A pool cannot be reached.
    pub fn lose(&mut self, pool: PoolKind, now: Instant) {
        let has_another = self.base.as_ref().is_some_and(|base| base.wait.is_some());
        let pause = if pool == PoolKind::Base && has_another { UNREACHABLE } else { REFUSED };
        self.not_before[pool as usize] = Some(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invoke::{InvokeError, Invoked};
    use crate::protocol::Invocation;
    use futures::future::BoxFuture;

    struct Nobody;

    impl Invoke for Nobody {
        fn invoke(self: Arc<Nobody>, _: Invocation) -> BoxFuture<'static, Result<Invoked, InvokeError>> {
            Box::pin(async { Err(InvokeError::Throttled) })
        }
    }

    fn pool(places: usize) -> Pool {
        Pool::new(Arc::new(Nobody), places, 1024)
    }

    fn pools(base: &Pool, wait: Option<Duration>) -> Pools {
        Pools::new(pool(2), Some(BasePool { pool: base.clone(), wait }))
    }

    fn kind(place: Option<&Place>) -> Option<PoolKind> {
        place.map(|place| place.pool)
    }

    #[test]
    fn spikes_go_elsewhere_when_the_base_pool_is_full() {
        let (mut pools, now) = (pools(&pool(1), Some(Duration::ZERO)), Instant::now());
        let places: Vec<_> = (0..4).map(|_| pools.place(now, true)).collect();
        let kinds: Vec<_> = places.iter().map(|place| kind(place.as_ref())).collect();
        assert_eq!(kinds, [Some(PoolKind::Base), Some(PoolKind::Elastic), Some(PoolKind::Elastic), None]);
        drop(places);
        assert_eq!(kind(pools.place(now, true).as_ref()), Some(PoolKind::Base));
    }

    #[test]
    fn queries_share_the_places_of_a_base_pool() {
        let (base, now) = (pool(1), Instant::now());
        let mut queries = [(); 2].map(|()| pools(&base, Some(Duration::ZERO)));
        let places: Vec<_> = queries.iter_mut().map(|query| query.place(now, true)).collect();
        let kinds: Vec<_> = places.iter().map(|place| kind(place.as_ref())).collect();
        assert_eq!(kinds, [Some(PoolKind::Base), Some(PoolKind::Elastic)]);
    }

    #[test]
    fn work_waits_for_the_base_pool_as_long_as_it_may() {
        let (base, now) = (pool(1), Instant::now());
        let (mut patient, mut never) = (pools(&base, Some(Duration::from_secs(2))), pools(&base, None));
        let held = patient.place(now, true);
        let later = |seconds| now + Duration::from_secs(seconds);
        // Nothing waits while nothing is ready.
        assert_eq!(kind(patient.place(later(1), false).as_ref()), None);
        assert_eq!(kind(patient.place(later(4), true).as_ref()), None);
        assert_eq!(kind(patient.place(later(5), true).as_ref()), None);
        assert_eq!(kind(patient.place(later(6), true).as_ref()), Some(PoolKind::Elastic));
        assert_eq!(kind(never.place(later(1000), true).as_ref()), None);
        drop(held);
        assert_eq!(kind(never.place(later(1000), true).as_ref()), Some(PoolKind::Base));
    }

    #[test]
    fn a_base_pool_that_is_gone_is_done_without() {
        let (mut pools, now) = (pools(&pool(4), Some(Duration::ZERO)), Instant::now());
        pools.lose(PoolKind::Base, now);
        assert_eq!(kind(pools.place(now, true).as_ref()), Some(PoolKind::Elastic));
        assert_eq!(kind(pools.place(now + UNREACHABLE, true).as_ref()), Some(PoolKind::Base));
    }
}
