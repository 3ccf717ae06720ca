//! Redis Cluster as a store: keys spread over partitions by a hash, ordered within each.
//!
//! A partition is two keys of Redis with the same tag, so both are in one slot, on one node: a sorted set
//! with all keys of the partition, ordered byte by byte, and a hash with their values. A key belongs to the
//! partition of its first part (the number of the index, and the value of the index's first column), so what
//! a query reads for one value of that column is one range of one sorted set. A range that its first part
//! does not say is asked for in every partition, and put in order here; the planner counts that
//! ([`Order::WithinPartition`]).
//!
//! A round is one pipeline to each node that has a part of it. What reads or writes both keys of a partition
//! is a script, which Redis runs without anything in between; so test-and-set of one key is all that is
//! atomic.
//!
//! Invariant: a key is in the sorted set if and only if it is in the hash.
//!
//! What lasts is what the servers are told to keep: with `appendfsync always` a commit is on the disk of its
//! node when it returns; with `everysec`, Redis' own choice, the last seconds before a crash can be lost, of
//! the process too. A replica that takes over may lack what its node acknowledged last. Not here: TLS, reads
//! from replicas.

mod cluster;
mod link;

use super::interface::{
    Atomicity, Capabilities, Condition, Entries, Found, Order, Outcome, Read, Store, Write,
};
use super::memory::check_key_by_key;
use super::pool::Pool;
use super::url::Settings;
use crate::error::{Error, Result};
use crate::keys;
use cluster::{Cluster, Command, Seeds};
use redis::{Value, cmd};

/// How many partitions a new store gets, if the address does not say.
const PARTITIONS: u16 = 64;

/// The first keys of a range, or the last ones, and then their values; Lua passes on some thousands at a
/// time.
const RANGE: &str = "
local order = ARGV[4] == '1' and 'ZREVRANGEBYLEX' or 'ZRANGEBYLEX'
local keys = redis.call(order, KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
local found = {keys}
for first = 1, #keys, 5000 do
  found[#found + 1] = redis.call('HMGET', KEYS[2], unpack(keys, first, math.min(first + 4999, #keys)))
end
return found";

/// Writes a key if it has certain values, each `0` for none or `1` and the value; says which one it has not.
const SET: &str = "
local held = redis.call('HGET', KEYS[2], ARGV[1])
held = held and '1' .. held or '0'
for at = 4, #ARGV do
  if ARGV[at] ~= held then return at - 4 end
end
if ARGV[2] == 'put' then
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
  redis.call('ZADD', KEYS[1], 0, ARGV[1])
else
  redis.call('HDEL', KEYS[2], ARGV[1])
  redis.call('ZREM', KEYS[1], ARGV[1])
end
return -1";

/// A store in a Redis Cluster.
///
/// ```no_run
/// use whimbrel_bounded::{Database, RedisStore};
///
/// let store = RedisStore::open("redis://localhost:7001,localhost:7002,localhost:7003?name=app")?;
/// let db = Database::open(store)?;
/// # Ok::<(), whimbrel_bounded::Error>(())
/// ```
pub struct RedisStore {
    pool: Pool<Cluster>,
    seeds: Seeds,
    partitions: Vec<Partition>,
}

/// The names of a partition's two keys, and their slot.
struct Partition {
    slot: u16,
    keys: String,
    values: String,
}

/// Where a request is answered.
enum Answer {
    One,
    /// In all partitions: their answers have to be put together.
    Everywhere,
}

impl RedisStore {
    /// What a new store can do, if its address does not say how many partitions it has.
    pub(crate) const AS_NEW: Capabilities = Capabilities {
        order: Order::WithinPartition { partitions: PARTITIONS as u64 },
        atomicity: Atomicity::Key,
        batched_ranges: true,
        counts: true,
    };

    /// Opens a store by some nodes of its cluster; the others are found.
    ///
    /// `redis://user:password@host:port,host:port`. Settings: `name` (`whimbrel` if it is not given) tells
    /// stores of one cluster apart; `partitions` (64) is how many parts keys are spread over, which is
    /// written down when the store is made and never changes: more let a cluster grow larger, and make what
    /// asks all of them dearer; `connections` (at most, to each node; 16); `timeout` (seconds that a node may
    /// take to answer; 5).
    ///
    /// # Errors
    /// `Invalid` if the address is none, or the store has another number of partitions; `Unavailable` if no
    /// node answers.
    pub fn open(url: &str) -> Result<RedisStore> {
        let mut settings = Settings::of(url);
        let name = settings.name("name", '-')?.unwrap_or("whimbrel");
        let wanted = settings.number("partitions")?;
        let (connections, timeout) = (settings.connections()?, settings.timeout()?);
        settings.end("`name`, `partitions`, `connections` and `timeout`")?;
        let seeds = Seeds::parse(settings.address, timeout)?;
        let pool = Pool::new(connections, timeout);
        let connect = || Cluster::connect(&seeds);
        let partitions =
            pool.with(connect, |cluster| settled(cluster, name, wanted.unwrap_or(PARTITIONS)))?;
        if let Some(wanted) = wanted
            && wanted != partitions
        {
            return Err(Error::invalid(format!(
                "the store `{name}` has {partitions} partitions, not {wanted}: leave `partitions` out, or make a store of another name"
            )));
        }
        let partitions = (0..partitions).map(|number| Partition::new(name, number)).collect();
        Ok(RedisStore { pool, seeds, partitions })
    }

    /// Connects to a cluster, and checks how it is partitioned.
    fn connect(&self) -> Result<Cluster> {
        Cluster::connect(&self.seeds)
    }

    /// The partition of a key: by the number of its index and its first part, if it has one.
    fn partition(&self, key: &[u8]) -> &Partition {
        let first = keys::first_part(key).unwrap_or(key.len());
        let hash = blake3::hash(&key[..first]);
        let [a, b, c, d, ..] = *hash.as_bytes();
        &self.partitions[u32::from_be_bytes([a, b, c, d]) as usize % self.partitions.len()]
    }

    /// The one partition of a range, if it is within one.
    fn partition_of(&self, from: &[u8], to: &[u8]) -> Option<&Partition> {
        let first = &from[..keys::first_part(from)?];
        (to <= keys::prefix_end(first).as_slice()).then(|| self.partition(from))
    }

    /// The commands for a request.
    fn ask(&self, request: &Read, commands: &mut Vec<Command>) -> Answer {
        let (from, to) = match request {
            Read::Get(key) => {
                commands.push(self.partition(key).get(key));
                return Answer::One;
            }
            Read::Range { from, to, .. } | Read::Count { from, to, .. } => (from, to),
        };
        match self.partition_of(from, to) {
            Some(partition) => {
                commands.extend(partition.scan(request));
                Answer::One
            }
            None => {
                commands.extend(self.partitions.iter().filter_map(|partition| partition.scan(request)));
                Answer::Everywhere
            }
        }
    }
}

/// The number of partitions of a store: what was written down first.
fn settled(cluster: &mut Cluster, name: &str, wanted: u16) -> Result<u16> {
    let key = format!("{{{name}}}:partitions");
    let slot = cluster::slot(name);
    let write = cmd("SETNX").arg(&key).arg(wanted).get_packed_command();
    let read = cmd("GET").arg(&key).get_packed_command();
    let answers = cluster.run(&[Command { slot, packed: write }, Command { slot, packed: read }])?;
    let number = match answers.as_slice() {
        [_, Value::BulkString(number)] => std::str::from_utf8(number).ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    number.ok_or_else(|| Error::Internal(format!("`{key}` in Redis is not a number of partitions")))
}

impl Partition {
    /// An empty command.
    fn new(name: &str, number: u16) -> Partition {
        let tag = format!("{name}:{number}");
        Partition {
            slot: cluster::slot(&tag),
            keys: format!("{{{tag}}}:keys"),
            values: format!("{{{tag}}}:values"),
        }
    }

    /// The value of a key.
    fn get(&self, key: &[u8]) -> Command {
        let packed = cmd("HGET").arg(&self.values).arg(key).get_packed_command();
        Command { slot: self.slot, packed }
    }

    /// What of a range is here.
    fn scan(&self, request: &Read) -> Option<Command> {
        let packed = match request {
            Read::Get(_) => return None,
            Read::Range { from, to, limit, reverse } => {
                let (from, to) = (lex('[', from), lex('(', to));
                let (first, last) = if *reverse { (to, from) } else { (from, to) };
                // Less than nothing is everything to Redis.
                let limit = i64::try_from(*limit).unwrap_or(-1);
                let mut range = cmd("EVAL");
                range.arg(RANGE).arg(2).arg(&self.keys).arg(&self.values);
                range.arg(first).arg(last).arg(limit).arg(i32::from(*reverse)).get_packed_command()
            }
            Read::Count { from, to, .. } => {
                cmd("ZLEXCOUNT").arg(&self.keys).arg(lex('[', from)).arg(lex('(', to)).get_packed_command()
            }
        };
        Some(Command { slot: self.slot, packed })
    }

    /// Sets a key if it does not exist.
    fn set(&self, conditions: &[Condition], write: &Write) -> Command {
        let (operation, value) = match write {
            Write::Put(_, value) => ("put", value.as_slice()),
            Write::Delete(_) => ("delete", &[][..]),
        };
        let mut set = cmd("EVAL");
        set.arg(SET).arg(2).arg(&self.keys).arg(&self.values).arg(write.key()).arg(operation).arg(value);
        for condition in conditions {
            match condition {
                Condition::Same { value: Some(value), .. } => set.arg([b"1", value.as_slice()].concat()),
                _ => set.arg("0"),
            };
        }
        Command { slot: self.slot, packed: set.get_packed_command() }
    }
}

/// An end of a range as Redis reads it.
fn lex(with: char, key: &[u8]) -> Vec<u8> {
    let mut end = vec![with as u8];
    end.extend_from_slice(key);
    end
}

/// Makes an answer of those of some partitions.
fn found(request: &Read, answers: Vec<Value>) -> Result<Found> {
    match request {
        Read::Get(_) => match answers.into_iter().next() {
            Some(Value::Nil) => Ok(Found::Value(None)),
            Some(Value::BulkString(value)) => Ok(Found::Value(Some(value))),
            _ => Err(strange()),
        },
        Read::Count { up_to, .. } => {
            let mut count = 0;
            for answer in answers {
                let Value::Int(here) = answer else { return Err(strange()) };
                count += usize::try_from(here).unwrap_or(0);
            }
            Ok(Found::Count(count.min(*up_to)))
        }
        Read::Range { limit, reverse, .. } => {
            let partitions = answers.len();
            let mut pairs = Vec::new();
            for answer in answers {
                pairs.extend(self::pairs(answer).ok_or_else(strange)?);
            }
            if partitions > 1 {
                pairs.sort_unstable();
                if *reverse {
                    pairs.reverse();
                }
            }
            let mut entries = Entries::default();
            pairs.iter().take(*limit).for_each(|(key, value)| entries.push(key, value));
            Ok(Found::Entries(entries))
        }
    }
}

/// What [`RANGE`] returned: a list of keys, and lists with their values.
fn pairs(answer: Value) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let Value::Array(lists) = answer else { return None };
    let mut texts = lists.into_iter().map(|list| match list {
        Value::Array(list) => list.into_iter().map(text).collect::<Option<Vec<_>>>(),
        _ => None,
    });
    let keys = texts.next()??;
    let values: Vec<_> = texts.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
    (keys.len() == values.len()).then(|| keys.into_iter().zip(values).collect())
}

/// A reply as text.
fn text(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(text) => Some(text),
        _ => None,
    }
}

/// The error for a reply of another type.
fn strange() -> Error {
    Error::Internal(
        "Redis gave another answer than was asked for: keys of this store were written by something else"
            .to_string(),
    )
}

impl Store for RedisStore {
    fn capabilities(&self) -> Capabilities {
        let order = Order::WithinPartition { partitions: self.partitions.len() as u64 };
        Capabilities { order, ..RedisStore::AS_NEW }
    }

    fn read(&self, requests: &[Read]) -> Result<Vec<Found>> {
        let mut commands = Vec::with_capacity(requests.len());
        let kinds: Vec<Answer> = requests.iter().map(|request| self.ask(request, &mut commands)).collect();
        let answers = self.pool.with_again(|| self.connect(), |cluster| cluster.run(&commands))?;
        let mut answers = answers.into_iter();
        let found_values = kinds.into_iter().zip(requests).map(|(kinds, request)| {
            let partitions = match kinds {
                Answer::One => 1,
                Answer::Everywhere => self.partitions.len(),
            };
            found(request, answers.by_ref().take(partitions).collect())
        });
        found_values.collect()
    }

    fn commit(&self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome> {
        check_key_by_key(conditions, writes)?;
        let commands: Vec<Command> =
            writes.iter().map(|write| self.partition(write.key()).set(conditions, write)).collect();
        for answer in self.pool.with(|| self.connect(), |cluster| cluster.run(&commands))? {
            match answer {
                Value::Int(-1) => {}
                Value::Int(failed) => return Ok(Outcome::Failed(usize::try_from(failed).unwrap_or(0))),
                _ => return Err(strange()),
            }
        }
        Ok(Outcome::Done)
    }
}
