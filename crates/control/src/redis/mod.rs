//! A store in Redis, or in one slot of a Redis Cluster.
//!
//! Invariants:
//! - Every key begins with `{namespace}`, and so do the names of channels. Keys are known by name, or from an
//!   index of them that the scripts keep; nothing looks through the keys of a server.
//! - A call whose answer was lost is sent again, to whoever is the master then, until its deadline. A
//!   transaction goes with its id, and its outcome is written together with its effects: if the first one
//!   arrived, also if it arrives late, the second one is answered with the first outcome.
//! - Time is `TIME` of the server, read once in each script. Expiry of keys would go by the same clock, which
//!   may be set, and a replica that takes over has another one; but a lease that is a text with its own
//!   length can be cut to that length when the clock was set back. When it was set forward, leases lapse
//!   early; the tokens keep that safe.
//! - With `replicas`, neither commits nor reads are answered before so many replicas have all that they
//!   depend on: what anybody was told outlives the master, if the replica that takes over is one that has it.
//!   Of several, promote the one with the largest offset, and let an old master come back as a replica only.
//!
//! What a server loses it did not have: without `appendfsync always` or `replicas`, a crash or a failover can
//! take back what was acknowledged, and then versions and tokens come a second time. [`Durability`] says so.
//! Nor may the server evict keys: `maxmemory-policy noeviction`, which is what Redis does unless told
//! otherwise.
//!
//! Not here: TLS; Sentinel; reading from replicas; more than one slot.

mod answer;
mod durability;
mod link;
mod pool;
mod relay;
mod script;
mod servers;
mod wire;

use crate::error::{Error, Result};
use crate::name::{check_name, check_topics};
use crate::read::{Found, Read};
use crate::relay::Subscription;
use crate::store::ControlStore;
use crate::transaction::{Outcome, REMEMBERED, Transaction};
use link::{Attempt, Failure, Link};
use pool::Pool;
use redis::{Cmd, Value, cmd};
use script::{Argument, Script, commit_arguments, read_arguments};
use servers::Servers;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use durability::{Disk, Durability};

/// How a store is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisOptions {
    /// How many replicas have to have a commit before it is acknowledged. One that took over from its master
    /// needs as many, so have more of them than this.
    pub replicas: usize,
    /// How long a server may take to take a connection, or to answer; not more than a quarter of
    /// [`REMEMBERED`].
    pub timeout: Duration,
    /// How long a call is tried again while no server answers; not more than half of [`REMEMBERED`].
    pub deadline: Duration,
}

impl Default for RedisOptions {
    fn default() -> RedisOptions {
        RedisOptions { replicas: 0, timeout: Duration::from_secs(5), deadline: Duration::from_secs(30) }
    }
}

/// A control store in Redis 6.2 or later.
///
/// ```no_run
/// use whimbrel_control::{RedisOptions, RedisStore};
///
/// let options = RedisOptions { replicas: 1, ..RedisOptions::default() };
/// let store = RedisStore::open("redis://:secret@red-a:6379,red-b:6379", "cluster-7", options)?;
/// if let Some(warning) = store.durability()?.warning() {
///     eprintln!("{warning}");
/// }
/// # Ok::<(), whimbrel_control::Error>(())
/// ```
pub struct RedisStore {
    pool: Arc<Pool>,
    /// What all keys begin with: the namespace in braces.
    base: String,
    options: RedisOptions,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStore").field(&self.describe()).finish()
    }
}

impl RedisStore {
    /// Opens the store of a cluster by `redis://user:password@host:port/database`. Of several servers
    /// (`redis://a:1,b:2`) the one that is the master is used; who is, is found out whenever a connection
    /// breaks. A namespace has letters, digits, `_`, `-` and `.`.
    ///
    /// A user of the server needs the keys and channels that begin with `{namespace}`; one who may not ask
    /// for `ROLE` takes the first server that answers for the master.
    ///
    /// # Errors
    /// `Invalid` if the address, the namespace or an option is wrong, or the servers refuse user and
    /// password; `Unavailable` if there is no master before the deadline.
    pub fn open(url: &str, namespace: &str, options: RedisOptions) -> Result<RedisStore> {
        let servers = Servers::parse(url)?;
        check_name(namespace)?;
        if !namespace.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter)) {
            return Err(Error::Invalid(format!(
                "the namespace `{namespace}` of the control store has other letters than a-z, A-Z, 0-9, `_`, \
                 `-` and `.`"
            )));
        }
        let timeouts = Duration::from_millis(1)..=REMEMBERED / 4;
        if !timeouts.contains(&options.timeout) || options.deadline > REMEMBERED / 2 {
            return Err(Error::Invalid(format!(
                "a control store has a timeout of {timeouts:?} and a deadline of up to {:?}, not {options:?}",
                REMEMBERED / 2
            )));
        }
        let base = format!("{{{namespace}}}");
        let pool = Arc::new(Pool::new(servers, &base, options.timeout, options.deadline));
        pool.with(|_| Ok(()))?;
        Ok(RedisStore { pool, base, options })
    }

    /// What of a commit outlives the server, as the server is set up now.
    ///
    /// # Errors
    /// `Unavailable` if the store is away.
    pub fn durability(&self) -> Result<Durability> {
        let get = |setting: &str| cmd("CONFIG").arg("GET").arg(setting).clone();
        let commands = [get("appendonly"), get("appendfsync")];
        let settings = self.pool.with(|link| match link.run(&commands) {
            Err(Failure::Refused(_)) => Ok(vec![]),
            settings => settings,
        })?;
        let is = |at: usize, value: &str| match settings.get(at) {
            Some(Value::Array(pair)) => pair.get(1) == Some(&Value::BulkString(value.into())),
            _ => false,
        };
        let disk = match (is(0, "yes"), is(0, "no"), is(1, "always")) {
            (true, _, true) => Disk::Always,
            (true, ..) => Disk::Later,
            (_, true, _) => Disk::Nothing,
            _ => Disk::Unknown,
        };
        Ok(Durability { disk, replicas: self.options.replicas })
    }

    /// The name of a key or a channel.
    fn key(&self, kind: &str, name: &str) -> String {
        format!("{}:{kind}:{name}", self.base)
    }

    /// Runs a script, and waits for the replicas.
    fn script(&self, script: Script, arguments: &[Argument<'_>]) -> Result<Value> {
        let then = self.replication();
        self.pool.with(|link| {
            let answers = link.script(script, &self.base, arguments, &then)?;
            self.expect_replicas(link, answers)
        })
    }

    /// What waits until replicas have all that was written before. `WAIT` is about the writes of its
    /// connection only; what a script read may be another's, so this connection writes something behind it.
    fn replication(&self) -> Vec<Cmd> {
        if self.options.replicas == 0 {
            return vec![];
        }
        let mut write = cmd("SET");
        write.arg(format!("{}:awaited", self.base)).arg("").arg("PX").arg(1000);
        // The server gives up before the connection does.
        let patience = (self.options.timeout / 2).as_millis().max(1);
        let wait = cmd("WAIT").arg(self.options.replicas).arg(patience.to_string()).clone();
        vec![write, wait]
    }

    /// The answer of a script, if enough replicas have what it depends on.
    fn expect_replicas(&self, link: &Link, answers: Vec<Value>) -> Attempt<Value> {
        let wanted = i64::try_from(self.options.replicas).unwrap_or(i64::MAX);
        match (answers.last(), wanted) {
            (_, 0) => {}
            (Some(Value::Int(reached)), _) if *reached >= wanted => {}
            (Some(Value::Int(reached)), _) => {
                return Err(Failure::Lost(format!("{reached} replicas have it, and {wanted} should")));
            }
            (other, _) => return Err(link.strange(&format!("`WAIT` with {other:?}"))),
        }
        answers.into_iter().next().ok_or_else(|| link.strange("nothing"))
    }
}

impl ControlStore for RedisStore {
    fn commit_all(&self, transactions: &[Transaction]) -> Result<Vec<Outcome>> {
        transactions.iter().try_for_each(Transaction::check)?;
        if transactions.is_empty() {
            return Ok(vec![]);
        }
        let answer = self.script(Script::Commit, &commit_arguments(transactions))?;
        answer::outcomes(answer, transactions.len())
    }

    fn read_all(&self, reads: &[Read]) -> Result<Vec<Found>> {
        reads.iter().try_for_each(Read::check)?;
        if reads.is_empty() {
            return Ok(vec![]);
        }
        answer::found(self.script(Script::Read, &read_arguments(reads))?, reads)
    }

    fn wait_for_element(&self, queue: &str, at_most: Duration) -> Result<()> {
        check_name(queue)?;
        let key = self.key("queue", queue);
        let started = Instant::now();
        loop {
            // In slices, so that a server that vanished is noticed. No time at all would be for ever.
            let slice = at_most.saturating_sub(started.elapsed()).min(self.options.timeout);
            if slice < Duration::from_millis(1) {
                return Ok(());
            }
            // The first element is moved to where it is: that takes nothing away, so the answer may get lost.
            let mut wait = cmd("BLMOVE");
            wait.arg(&key).arg(&key).arg("LEFT").arg("LEFT").arg(slice.as_secs_f64());
            match self.pool.with(|link| link.run_for(slice, &wait))?.pop() {
                Some(Value::Nil) => {}
                _ => return Ok(()),
            }
        }
    }

    fn subscribe(&self, topics: &[&str]) -> Result<Subscription> {
        check_topics(topics)?;
        relay::subscribe(&self.pool, &self.key("topic", ""), topics)
    }

    fn remove_all(&self) -> Result<()> {
        self.script(Script::Remove, &[]).map(|_| ())
    }

    fn describe(&self) -> String {
        format!("{}, namespace `{}`", self.pool.servers(), self.base.trim_matches(['{', '}']))
    }
}
