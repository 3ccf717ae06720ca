//! Leases: one holder at a time, tokens that never come twice, and no commit without the lease.

use crate::places::{Place, append, apply, everywhere, fresh_namespace, grant, held};
use crate::server::Server;
use std::sync::Arc;
use std::time::Duration;
use whimbrel_control::{
    ControlStore, Effect, Lease, ManualClock, MemoryStore, Outcome, Read, RedisOptions, RedisStore, Token,
    Transaction,
};

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(20);

fn acquire(place: &Place, holder: &str, ttl: Duration) -> Option<Lease> {
    Lease::acquire(&place.store, "l", holder, ttl).unwrap()
}

#[test]
fn one_holder_at_a_time() {
    everywhere(|place| {
        let first = acquire(place, "a", LONG).unwrap();
        assert!(acquire(place, "b", LONG).is_none());
        let holding = Lease::holding(place.store.as_ref(), "l").unwrap().unwrap();
        assert_eq!((holding.holder.as_str(), holding.token), ("a", first.token()));
        assert!(!holding.remaining.is_zero() && holding.remaining <= LONG);
        assert!(first.renew(LONG).unwrap());
        assert!(first.clone().release().unwrap());
        assert!(!first.renew(LONG).unwrap());
        assert!(!first.clone().release().unwrap());
        assert_eq!(Lease::holding(place.store.as_ref(), "l").unwrap(), None);
        let second = acquire(place, "b", LONG).unwrap();
        assert!(second.token() > first.token());
        // A holder of before does not give away the lease of another.
        assert!(!first.release().unwrap());
        assert!(second.renew(LONG).unwrap());
    });
}

#[test]
fn tokens_never_come_twice() {
    everywhere(|place| {
        let lapsing = acquire(place, "a", SHORT).unwrap();
        place.pass(SHORT * 2);
        assert_eq!(Lease::holding(place.store.as_ref(), "l").unwrap(), None);
        let released = acquire(place, "a", LONG).unwrap();
        assert!(released.token() > lapsing.token());
        assert!(released.clone().release().unwrap());
        let removed = acquire(place, "a", LONG).unwrap();
        assert!(removed.token() > released.token());
        place.store.remove_all().unwrap();
        assert_eq!(Lease::holding(place.store.as_ref(), "l").unwrap(), None);
        let last = acquire(place, "a", LONG).unwrap();
        assert!(last.token() > removed.token());
        // By force, from whoever holds it.
        assert!(Token(apply(place.store.as_ref(), vec![grant("l", "b", LONG)])) > last.token());
        assert!(!last.renew(LONG).unwrap());
    });
}

#[test]
fn a_holder_whose_lease_lapsed_cannot_commit() {
    everywhere(|place| {
        let store = place.store.as_ref();
        let write = |lease: &Lease| {
            store.commit(&Transaction::new().when(lease.held()).then(append("log", b"r"))).unwrap()
        };
        let lapsed = acquire(place, "a", SHORT).unwrap();
        place.pass(SHORT * 2);
        // Nobody else has it, but it is not held either, and comes not back.
        assert_eq!(write(&lapsed), Outcome::Conflict { condition: 0 });
        assert!(!lapsed.renew(LONG).unwrap());
        let next = acquire(place, "b", LONG).unwrap();
        assert_eq!(write(&lapsed), Outcome::Conflict { condition: 0 });
        assert!(write(&next).is_committed());
        let log = store.read(&Read::Records { log: "log".into(), from: 0, limit: 9 }).unwrap();
        assert_eq!(log.records().unwrap().length, 1);
    });
}

#[test]
fn a_lease_and_what_it_is_for_are_taken_together() {
    everywhere(|place| {
        let token = apply(place.store.as_ref(), vec![grant("l", "a", LONG), append("log", b"taken over")]);
        let lease = Lease::of(&place.store, "l", Token(token));
        assert_eq!(lease.held(), held("l", token));
        let renewals = [lease.renewal(LONG), Lease::of(&place.store, "l", Token(token + 7)).renewal(LONG)];
        let outcomes = place.store.commit_all(&renewals).unwrap();
        assert_eq!(outcomes.iter().map(Outcome::is_committed).collect::<Vec<_>>(), [true, false]);
        // A lease that nobody holds is neither renewed nor released.
        let (free, ttl) = ("free".to_string(), LONG);
        apply(
            place.store.as_ref(),
            vec![Effect::Renew { lease: free.clone(), ttl }, Effect::Release { lease: free }],
        );
        assert_eq!(Lease::holding(place.store.as_ref(), "free").unwrap(), None);
    });
}

#[test]
fn a_clock_that_is_set_back_does_not_prolong_a_lease() {
    let clock = ManualClock::default();
    clock.set(Duration::from_secs(100_000));
    let store: Arc<dyn ControlStore> = Arc::new(MemoryStore::new(clock.clone()));
    let lease = Lease::acquire(&store, "l", "a", SHORT).unwrap().unwrap();
    clock.set(Duration::from_secs(50_000));
    let holding = Lease::holding(store.as_ref(), "l").unwrap().unwrap();
    assert_eq!((holding.token, holding.remaining), (lease.token(), SHORT));
    clock.advance(SHORT);
    assert!(Lease::acquire(&store, "l", "b", SHORT).unwrap().is_some());
}

#[test]
fn a_server_whose_clock_is_set_back_does_not_prolong_a_lease() {
    let Some(server) = Server::start(&[]) else { return };
    let name = fresh_namespace();
    let store: Arc<dyn ControlStore> =
        Arc::new(RedisStore::open(&server.url(), &name, RedisOptions::default()).unwrap());
    let lease = Lease::acquire(&store, "l", "a", SHORT).unwrap().unwrap();
    // A lease that was granted for a short time and ends in the far future: so it looks when the clock was
    // far ahead at that time.
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let ahead = format!("{} 9999999999999 {} a", lease.token().0, SHORT.as_millis());
    let leases = format!("{{{name}}}:leases");
    redis::cmd("HSET").arg(leases).arg("l").arg(ahead).exec(&mut connection).unwrap();
    let holding = Lease::holding(store.as_ref(), "l").unwrap().unwrap();
    assert!(holding.token == lease.token() && holding.remaining <= SHORT);
    std::thread::sleep(SHORT * 2);
    assert!(Lease::acquire(&store, "l", "b", SHORT).unwrap().is_some());
}
