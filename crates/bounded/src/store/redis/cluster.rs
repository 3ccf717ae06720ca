//! A Redis Cluster from one thread: which node has which slot, a pipeline to each node, redirects.
//!
//! All pipelines of a round are sent before the first answer is waited for, so the nodes work at the same
//! time.
//!
//! Invariant: a command is sent again only if a node said that it did not run it (`MOVED`, `ASK`, `TRYAGAIN`,
//! `CLUSTERDOWN`, `LOADING`, …). After a connection broke nobody knows whether it ran, so that is an error: a
//! test-and-set that ran twice would say of itself that it failed. The cluster client of the crate `redis`
//! sends again in that case; this is why it is not used here.

use super::link::Link;
use crate::error::{Error, Result};
use redis::{ConnectionInfo, IntoConnectionInfo, ServerErrorKind, Value};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// How long a cluster may be without a node for some slots, or a node may load its file, before this is an
/// error.
const RECOVERY: Duration = Duration::from_secs(2);
/// How long is waited in between.
const PAUSE: Duration = Duration::from_millis(25);
/// How many slots a cluster has.
const SLOTS: u16 = 16_384;

/// Where a cluster can be found.
#[derive(Debug, Clone)]
pub(super) struct Seeds {
    nodes: Vec<Node>,
    /// How to log in, and nothing else, is taken from here.
    login: ConnectionInfo,
    /// How long a node may take to take a connection, or to answer.
    timeout: Duration,
}

/// The address of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Node {
    host: String,
    port: u16,
}

/// A command, and the slot of its keys.
pub(super) struct Command {
    pub slot: u16,
    pub packed: Vec<u8>,
}

/// Connections to the nodes of a cluster.
pub(super) struct Cluster {
    seeds: Seeds,
    /// Who has which slots, from the first to the last.
    owners: Vec<(u16, u16, Node)>,
    links: HashMap<Node, Link>,
}

/// Where a command has to go.
#[derive(Debug, Clone)]
enum Way {
    /// To who has its slot.
    Owner,
    /// To a node that has its slot now.
    Moved(Node),
    /// To a node that is about to get its slot.
    Asking(Node),
}

/// A command that a node has to answer, and whether `ASKING` was sent before it.
struct Sent {
    at: usize,
    asking: bool,
}

/// Why a node did not run a command.
enum Refused {
    Moved(Node),
    Ask(Node),
    NotNow,
}

/// The slot of a key: a checksum of what stands between its braces (CRC-16/XMODEM; Redis Cluster
/// specification).
pub(super) fn slot(tag: &str) -> u16 {
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    });
    crc % SLOTS
}

impl Seeds {
    /// Reads `redis://user:password@host:port,host:port`.
    ///
    /// # Errors
    /// `Invalid` if the address is none.
    pub fn parse(address: &str, timeout: Duration) -> Result<Seeds> {
        let wrong = |what: &str| Error::invalid(format!("`{}`: {what}", super::super::url::shown(address)));
        let hosts = address.strip_prefix("redis://").unwrap_or(address).trim_end_matches('/');
        let (login, hosts) = hosts.rsplit_once('@').map_or(("", hosts), |(login, hosts)| (login, hosts));
        let first = hosts.split(',').next().unwrap_or_default();
        let at = if login.is_empty() { "" } else { "@" };
        let login = format!("redis://{login}{at}{first}").into_connection_info();
        let nodes =
            hosts.split(',').map(|host| Node::parse(host).ok_or_else(|| wrong("a node is host:port")));
        Ok(Seeds {
            nodes: nodes.collect::<Result<_>>()?,
            login: login.map_err(|error| wrong(&error.to_string()))?,
            timeout,
        })
    }
}

impl Node {
    /// Reads `host:port`; an address in brackets is one too.
    fn parse(text: &str) -> Option<Node> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.ends_with(':') => (host, port.parse().ok()?),
            _ => (text, 6379),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (!host.is_empty()).then(|| Node { host: host.to_string(), port })
    }

    /// The error for a node that does not answer.
    fn away(&self, error: impl std::fmt::Display) -> Error {
        Error::Unavailable(format!("Redis node {}:{}: {error}", self.host, self.port))
    }
}

impl Cluster {
    /// Connects to the first node that answers, and learns about the others.
    ///
    /// # Errors
    /// `Unavailable` if no node answers.
    pub fn connect(seeds: &Seeds) -> Result<Cluster> {
        let mut cluster = Cluster { seeds: seeds.clone(), owners: vec![], links: HashMap::new() };
        cluster.learn()?;
        Ok(cluster)
    }

    /// Runs commands, and gives their answers in order.
    ///
    /// # Errors
    /// `Unavailable` if a node does not answer.
    pub fn run(&mut self, commands: &[Command]) -> Result<Vec<Value>> {
        let mut answers: Vec<Option<Value>> = commands.iter().map(|_| None).collect();
        let mut left: Vec<(usize, Way)> = (0..commands.len()).map(|at| (at, Way::Owner)).collect();
        let started = Instant::now();
        while !left.is_empty() {
            let mut refused = Vec::new();
            let mut why = String::new();
            for (node, sent) in self.send(commands, left)? {
                for Sent { at, asking } in sent {
                    match self.receive(&node, asking)? {
                        Ok(answer) => answers[at] = Some(answer),
                        Err((reason, message)) => {
                            refused.push((at, reason));
                            why = message;
                        }
                    }
                }
            }
            if started.elapsed() > RECOVERY && !refused.is_empty() {
                return Err(Error::Unavailable(format!("the Redis cluster is not whole: {why}")));
            }
            left = self.next_ways(refused)?;
        }
        answers
            .into_iter()
            .map(|answer| answer.ok_or_else(|| Error::Internal("Redis left out an answer".to_string())))
            .collect()
    }

    /// Where what was refused has to go now.
    fn next_ways(&mut self, refused: Vec<(usize, Refused)>) -> Result<Vec<(usize, Way)>> {
        if refused.iter().any(|(_, why)| matches!(why, Refused::NotNow)) {
            std::thread::sleep(PAUSE);
        }
        if refused.iter().any(|(_, why)| !matches!(why, Refused::Ask(_))) {
            self.learn()?;
        }
        let way = |why| match why {
            Refused::Ask(node) => Way::Asking(node),
            Refused::Moved(node) => Way::Moved(node),
            Refused::NotNow => Way::Owner,
        };
        Ok(refused.into_iter().map(|(at, why)| (at, way(why))).collect())
    }

    /// Sends a pipeline to each node; says which commands each has.
    fn send(&mut self, commands: &[Command], left: Vec<(usize, Way)>) -> Result<BTreeMap<Node, Vec<Sent>>> {
        let mut pipelines: BTreeMap<Node, (Vec<u8>, Vec<Sent>)> = BTreeMap::new();
        for (at, way) in left {
            let (node, asking) = match way {
                Way::Asking(node) => (node, true),
                Way::Moved(node) => (node, false),
                Way::Owner => (self.owner(commands[at].slot)?, false),
            };
            let (bytes, sent) = pipelines.entry(node).or_default();
            if asking {
                redis::cmd("ASKING").write_packed_command(bytes);
            }
            bytes.extend_from_slice(&commands[at].packed);
            sent.push(Sent { at, asking });
        }
        let mut all = BTreeMap::new();
        for (node, (bytes, sent)) in pipelines {
            let link = self.link(&node)?;
            link.send(&bytes).map_err(|error| node.away(error))?;
            all.insert(node, sent);
        }
        Ok(all)
    }

    /// The next answer of a node; or why it ran nothing, and what it said.
    fn receive(
        &mut self,
        node: &Node,
        asking: bool,
    ) -> Result<std::result::Result<Value, (Refused, String)>> {
        let link = self.link(node)?;
        if asking {
            link.receive().map_err(|error| node.away(error))?;
        }
        let answer = link.receive().map_err(|error| node.away(error))?;
        let Value::ServerError(error) = answer else { return Ok(Ok(answer)) };
        let says = format!(
            "{}:{} says {} {}",
            node.host,
            node.port,
            error.code(),
            error.details().unwrap_or_default()
        );
        let to = error.details().and_then(|says| redirect(says, node));
        let refused = match (error.kind(), to) {
            (Some(ServerErrorKind::Moved), Some(to)) => Refused::Moved(to),
            (Some(ServerErrorKind::Ask), Some(to)) => Refused::Ask(to),
            (
                Some(
                    ServerErrorKind::TryAgain
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::BusyLoading
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::ReadOnly,
                ),
                _,
            ) => Refused::NotNow,
            _ => return Err(Error::Unavailable(format!("Redis: {says}"))),
        };
        Ok(Err((refused, says)))
    }

    /// The node of a slot.
    fn owner(&self, slot: u16) -> Result<Node> {
        let owner = self.owners.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        owner
            .map(|(_, _, node)| node.clone())
            .ok_or_else(|| Error::Unavailable(format!("no node of the Redis cluster has slot {slot}")))
    }

    /// The connection to a node, opened if there is none.
    fn link(&mut self, node: &Node) -> Result<&mut Link> {
        if !self.links.contains_key(node) {
            let Seeds { login, timeout, .. } = &self.seeds;
            let link =
                Link::open(&node.host, node.port, login, *timeout).map_err(|error| node.away(error))?;
            self.links.insert(node.clone(), link);
        }
        self.links.get_mut(node).ok_or_else(|| node.away("no connection"))
    }

    /// Asks for the slots of all nodes: a node that it knows, or one of the seeds.
    fn learn(&mut self) -> Result<()> {
        let owners = self.owners.iter().map(|(_, _, node)| node.clone());
        let mut nodes: Vec<Node> = owners.chain(self.seeds.nodes.iter().cloned()).collect();
        nodes.sort();
        nodes.dedup();
        let mut failed = Vec::new();
        for node in nodes {
            match self.learn_from(&node) {
                Ok(owners) => {
                    self.owners = owners;
                    return Ok(());
                }
                Err(error) => {
                    self.links.remove(&node);
                    failed.push(error.to_string());
                }
            }
        }
        Err(Error::Unavailable(format!("no node of the Redis cluster answers: {}", failed.join("; "))))
    }

    /// Reads the slots of all nodes from one of them.
    fn learn_from(&mut self, node: &Node) -> Result<Vec<(u16, u16, Node)>> {
        let link = self.link(node)?;
        let slots = redis::cmd("CLUSTER").arg("SLOTS").get_packed_command();
        link.send(&slots).map_err(|error| node.away(error))?;
        match link.receive().map_err(|error| node.away(error))? {
            Value::Array(ranges) => {
                let owners: Option<Vec<_>> = ranges.iter().map(|range| owner(range, node)).collect();
                owners.ok_or_else(|| node.away("it does not say who has which slots"))
            }
            // A server that is not part of a cluster has them all.
            Value::ServerError(error)
                if error.details().is_some_and(|says| says.contains("cluster support")) =>
            {
                Ok(vec![(0, SLOTS - 1, node.clone())])
            }
            other => Err(node.away(format!("it does not say who has which slots, but {other:?}"))),
        }
    }
}

/// A range of slots, and who has it. A node that does not know its own name is called as it was asked.
fn owner(range: &Value, from: &Node) -> Option<(u16, u16, Node)> {
    let Value::Array(range) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = range.as_slice() else {
        return None;
    };
    let [host, Value::Int(port), ..] = master.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) if !host.is_empty() => String::from_utf8(host.clone()).ok()?,
        _ => from.host.clone(),
    };
    Some((
        u16::try_from(*first).ok()?,
        u16::try_from(*last).ok()?,
        Node { host, port: u16::try_from(*port).ok()? },
    ))
}

/// Reads `3999 127.0.0.1:6381`.
fn redirect(says: &str, from: &Node) -> Option<Node> {
    let to = says.split_whitespace().nth(1)?;
    match to.strip_prefix(':') {
        Some(port) => Some(Node { host: from.host.clone(), port: port.parse().ok()? }),
        None => Node::parse(to),
    }
}

#[cfg(test)]
mod tests {
    use super::{Node, Result, Seeds, slot};
    use std::time::Duration;

    #[test]
    fn slots_are_those_of_redis() {
        // `cluster keyslot` of a server.
        assert_eq!([slot("foo"), slot("123456789"), slot("")], [12182, 0x31C3, 0]);
    }

    #[test]
    fn addresses() -> Result<()> {
        let node = |host: &str, port| Node { host: host.into(), port };
        let seeds = Seeds::parse("redis://me:secret@a:1,b,[::1]:7", Duration::MAX)?;
        assert_eq!(seeds.nodes, [node("a", 1), node("b", 6379), node("::1", 7)]);
        assert_eq!(seeds.login.redis_settings().username(), Some("me"));
        let wrong = Seeds::parse("redis://me:secret@a:x", Duration::MAX).unwrap_err().to_string();
        assert!(wrong.contains("a node is host:port") && !wrong.contains("secret"), "{wrong}");
        Ok(())
    }
}
