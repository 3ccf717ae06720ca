//! Messages to whoever listens.

use crate::places::{append, apply, everywhere, fresh_namespace, length, publish};
use crate::server::Server;
use std::time::Duration;
use whimbrel_control::{ControlStore, Message, RedisOptions, RedisStore, Transaction};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn messages_come_from_transactions_that_were_applied() {
    everywhere(|place| {
        let store = place.store.as_ref();
        apply(store, vec![publish("a", b"before anybody listens")]);
        let heard = store.subscribe(&["a", "b"]).unwrap();
        let other = store.subscribe(&["b"]).unwrap();
        apply(store, vec![publish("c", b"to nobody"), append("log", b"r")]);
        let conflict = Transaction::new().when(length("log", 7)).then(publish("a", b"never"));
        assert!(!store.commit(&conflict).unwrap().is_committed());
        let all: Vec<u8> = (0..=255).collect();
        let once = Transaction::new().then(publish("a", &all)).then(publish("b", b"last"));
        assert_eq!(store.commit(&once).unwrap(), store.commit(&once).unwrap());
        let message =
            |topic: &str, payload: &[u8]| Some(Message { topic: topic.into(), payload: payload.into() });
        assert_eq!(heard.next(PATIENCE), message("a", &all));
        assert_eq!(heard.next(PATIENCE), message("b", b"last"));
        assert_eq!(other.next(PATIENCE), message("b", b"last"));
        assert_eq!(heard.next(Duration::ZERO), None);
        // One that does not listen any more disturbs nobody.
        drop(other);
        apply(store, vec![publish("b", b"again")]);
        assert_eq!(heard.next(PATIENCE), message("b", b"again"));
    });
}

#[test]
fn silence_is_no_failure() {
    let Some(server) = Server::start(&[]) else { return };
    let timeout = Duration::from_millis(50);
    let options = RedisOptions { timeout, ..RedisOptions::default() };
    let store = RedisStore::open(&server.url(), &fresh_namespace(), options).unwrap();
    let heard = store.subscribe(&["a"]).unwrap();
    assert_eq!(heard.next(timeout * 20), None);
    apply(&store, vec![publish("a", b"hint")]);
    assert_eq!(heard.next(PATIENCE).unwrap().payload, b"hint");
}

#[test]
fn who_listens_does_so_again_after_the_server_was_away() {
    let Some(mut server) = Server::start(&[]) else { return };
    let store = RedisStore::open(&server.url(), &fresh_namespace(), RedisOptions::default()).unwrap();
    let heard = store.subscribe(&["a"]).unwrap();
    server.kill();
    server.restart();
    // What is published before the subscription is back is lost.
    let message = (0..600).find_map(|_| {
        apply(&store, vec![publish("a", b"hint")]);
        heard.next(Duration::from_millis(100))
    });
    assert_eq!(message.unwrap().payload, b"hint");
}
