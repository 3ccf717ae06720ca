//! Users, passwords and databases; what a server is set up to keep.

use crate::places::{append, apply};
use crate::server::Server;
use std::time::Duration;
use whimbrel_control::{ControlStore, Disk, Error, RedisOptions, RedisStore};

fn open(address: &str) -> Result<RedisStore, Error> {
    let options = RedisOptions { deadline: Duration::from_secs(10), ..RedisOptions::default() };
    RedisStore::open(address, "n", options)
}

#[test]
fn passwords_are_needed_and_not_shown() {
    let Some(server) = Server::start(&["--requirepass", "s3cret"]) else { return };
    let at = format!("127.0.0.1:{}", server.port);
    for login in ["", ":wr0ng@", "me:wr0ng@"] {
        let error = open(&format!("redis://{login}{at}")).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{login}: {error:?}");
        assert!(!error.to_string().contains("wr0ng"), "{error}");
    }
    let store = open(&format!("redis://:s3cret@{at}/3")).unwrap();
    apply(&store, vec![append("log", b"r")]);
    for shown in [format!("{store:?}"), store.describe()] {
        assert!(!shown.contains("s3cret") && shown.contains(&format!("{at}/3")), "{shown}");
    }
    let keys = |database: u8| -> u64 {
        let client = redis::Client::open(format!("redis://:s3cret@{at}/{database}")).unwrap();
        redis::cmd("DBSIZE").query(&mut client.get_connection().unwrap()).unwrap()
    };
    assert!((keys(0), keys(3) > 0) == (0, true));
}

#[test]
fn a_user_may_be_forbidden_to_ask_how_the_server_is_set_up() {
    let Some(server) = Server::start(&[]) else { return };
    let _: String = server.ask("ACL SETUSER worker on >pw ~{n}* &{n}* +@all -@admin");
    let store = open(&format!("redis://worker:pw@127.0.0.1:{}", server.port)).unwrap();
    apply(&store, vec![append("log", b"r")]);
    let durability = store.durability().unwrap();
    assert_eq!(durability.disk, Disk::Unknown);
    assert!(durability.warning().is_some());
    // Another namespace is none of its business.
    let url = format!("redis://worker:pw@127.0.0.1:{}", server.port);
    let error = RedisStore::open(&url, "other", RedisOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
}

#[test]
fn what_a_server_keeps() {
    let Some(server) = Server::start(&[]) else { return };
    for (settings, disk, warns) in [
        ("appendfsync always", Disk::Always, false),
        ("appendfsync everysec", Disk::Later, true),
        ("appendonly no", Disk::Nothing, true),
    ] {
        let _: String = server.ask(&format!("CONFIG SET {settings}"));
        let durability = open(&server.url()).unwrap().durability().unwrap();
        assert_eq!((durability.disk, durability.warning().is_some()), (disk, warns), "{durability}");
    }
    let options = RedisOptions { deadline: Duration::from_secs(100), ..RedisOptions::default() };
    assert!(matches!(RedisStore::open(&server.url(), "n", options), Err(Error::Invalid(_))));
}
