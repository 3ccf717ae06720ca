//! One connection to a master.
//!
//! Invariants: a connection that was opened leads to a master that has the slot of the namespace; every call
//! ends after some time; after a failure the connection is not used again, with the exception of a script
//! that is not there, for its answers were all received.

use super::script::{Argument, Script};
use super::servers::{Address, Servers};
use super::wire::Wire;
use crate::error::Error;
use redis::{Cmd, ErrorKind, RedisError, Value, cmd};
use std::borrow::Borrow;
use std::fmt;
use std::time::Duration;

/// A connection, and the names of the scripts there.
pub struct Link {
    wire: Wire,
    address: Address,
    timeout: Duration,
    scripts: [String; Script::ALL.len()],
}

/// Why a call did not get what it asked for.
#[derive(Debug)]
pub enum Failure {
    /// The server is away or cannot do it now: another may be the master, or this one again in a moment.
    Lost(String),
    /// Another server of the Redis Cluster has the slot.
    Moved(Address),
    /// The server forgot the scripts.
    NoScript,
    /// Trying again does not help.
    Refused(Error),
}

/// What a call returns.
pub type Attempt<T> = Result<T, Failure>;

/// What servers say that is over after a while or after a failover.
const PASSING: [&str; 11] = [
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "ASK",
    "UNBLOCKED",
    "BUSY",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
];
/// What servers say to who may not do something.
const FORBIDDEN: [&str; 3] = ["NOAUTH", "WRONGPASS", "NOPERM"];

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Lost(why) => f.write_str(why),
            Failure::Moved(to) => write!(f, "the slot of the namespace moved to {to}"),
            Failure::NoScript => f.write_str("the server forgot the scripts that it was just told"),
            Failure::Refused(error) => error.fmt(f),
        }
    }
}

impl Link {
    /// Connects to a server that has to be a master, and to have the slot of a key.
    pub fn open(servers: &Servers, address: &Address, key: &str, timeout: Duration) -> Attempt<Link> {
        let wire = Wire::open(servers, address, timeout).map_err(|error| cannot_connect(address, &error))?;
        let mut link = Link { wire, address: address.clone(), timeout, scripts: Default::default() };
        link.expect_master()?;
        // Moved or still loading: before anything depends on it.
        link.run(&[cmd("EXISTS").arg(key)])?;
        link.load_scripts()?;
        Ok(link)
    }

    /// Refuses a replica. It also refuses the socket that, while a server of this machine is away, was given
    /// the server's port and so is connected to itself: it says back what it is told.
    fn expect_master(&mut self) -> Attempt<()> {
        let role = match self.run(&[cmd("ROLE")]) {
            // Who may not ask learns it from the first write.
            Err(Failure::Refused(Error::Invalid(_))) => return Ok(()),
            role => role?.pop(),
        };
        match role {
            Some(Value::Array(role)) if role.first() == Some(&Value::BulkString(b"master".to_vec())) => {
                Ok(())
            }
            _ => Err(Failure::Lost(format!("Redis at {} is no master", self.address))),
        }
    }

    fn load_scripts(&mut self) -> Attempt<()> {
        let loads = Script::ALL.map(|script| cmd("SCRIPT").arg("LOAD").arg(script.text()).clone());
        for (script, name) in Script::ALL.into_iter().zip(self.run(&loads)?) {
            match name {
                Value::BulkString(name) => {
                    self.scripts[script as usize] = String::from_utf8_lossy(&name).into_owned();
                }
                other => return Err(self.strange(&format!("`SCRIPT LOAD` with {other:?}"))),
            }
        }
        Ok(())
    }

    /// Runs commands, and gives their answers.
    pub fn run(&mut self, commands: &[impl Borrow<Cmd>]) -> Attempt<Vec<Value>> {
        let mut packed = Vec::new();
        commands.iter().for_each(|command| command.borrow().write_packed_command(&mut packed));
        self.wire.send(&packed).map_err(|error| self.away(&error))?;
        let mut answers = Vec::with_capacity(commands.len());
        for _ in commands {
            answers.push(self.wire.receive().map_err(|error| self.away(&error))?);
        }
        match answers.iter().find_map(|answer| self.refusal(answer)) {
            Some(failure) => Err(failure),
            None => Ok(answers),
        }
    }

    /// Runs a command that the server may take longer for.
    pub fn run_for(&mut self, more: Duration, command: &Cmd) -> Attempt<Vec<Value>> {
        let set =
            |link: &mut Link, timeout| link.wire.set_read_timeout(timeout).map_err(|error| link.away(&error));
        set(self, self.timeout + more)?;
        let answers = self.run(&[command])?;
        set(self, self.timeout)?;
        Ok(answers)
    }

    /// Runs a script and then commands.
    pub fn script(
        &mut self,
        script: Script,
        key: &str,
        arguments: &[Argument<'_>],
        then: &[Cmd],
    ) -> Attempt<Vec<Value>> {
        let call = |how: &str, script: &str| {
            let mut call = cmd(how);
            call.arg(script).arg(1).arg(key);
            arguments.iter().for_each(|argument| {
                call.arg(argument.as_ref());
            });
            let mut commands = vec![call];
            commands.extend_from_slice(then);
            commands
        };
        match self.run(&call("EVALSHA", &self.scripts[script as usize])) {
            Err(Failure::NoScript) => self.run(&call("EVAL", script.text())),
            answers => answers,
        }
    }

    /// The connection itself, to listen.
    pub fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// The failure for an answer that a server does not give.
    pub fn strange(&self, what: &str) -> Failure {
        Failure::Refused(Error::Damaged(format!(
            "Redis at {} answered {what}: the control store needs Redis 6.2 or later",
            self.address
        )))
    }

    fn away(&self, error: &RedisError) -> Failure {
        Failure::Lost(format!("Redis at {}: {error}", self.address))
    }

    /// What an answer means that is an error.
    fn refusal(&self, answer: &Value) -> Option<Failure> {
        let Value::ServerError(error) = answer else { return None };
        let details = error.details().unwrap_or_default();
        // Scripts of older servers say `ERR Error running script: -READONLY …`.
        let says = |words: &[&str]| {
            words.contains(&error.code())
                || details.split_whitespace().any(|word| words.contains(&word.trim_start_matches('-')))
        };
        let told = format!("Redis at {} says: {} {details}", self.address, error.code());
        let moved = || Address::parse(details.split_whitespace().nth(1)?);
        Some(match error.code() {
            "NOSCRIPT" => Failure::NoScript,
            "MOVED" => moved().map_or(Failure::Lost(told), Failure::Moved),
            _ if says(&PASSING) => Failure::Lost(told),
            _ if says(&FORBIDDEN) => Failure::Refused(Error::Invalid(format!(
                "{told}: give the address a user who may do it, and their password"
            ))),
            _ => Failure::Refused(Error::Damaged(format!(
                "{told}: the control store needs Redis 6.2 or later, and keys that nothing else writes"
            ))),
        })
    }
}

/// Why there is no connection.
fn cannot_connect(address: &Address, error: &RedisError) -> Failure {
    let told = format!("Redis at {address}: {error}");
    match error.kind() {
        ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => Failure::Refused(Error::Invalid(
            format!("{told}: check user, password and database of the address"),
        )),
        _ => Failure::Lost(told),
    }
}
