//! The address of a store: some servers, and how to log in.
//!
//! Invariant: user and password leave this module only towards a server. Nothing that is shown has them.

use crate::error::{Error, Result};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};
use std::fmt;

/// Some servers, one of which is the master.
#[derive(Clone)]
pub struct Servers {
    /// Where they are.
    pub addresses: Vec<Address>,
    /// How to log in, and the number of the database; its own address is not used.
    login: ConnectionInfo,
    /// Whether connections are encrypted, and servers have to prove who they are.
    is_encrypted: bool,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

impl Servers {
    /// Reads `redis://user:password@host:port,host:port/database`; `rediss://` is Redis over TLS.
    ///
    /// # Errors
    /// `Invalid` if it is no such address.
    pub fn parse(url: &str) -> Result<Servers> {
        let is_encrypted = url.starts_with("rediss://");
        let Some(rest) = url.strip_prefix("redis://").or_else(|| url.strip_prefix("rediss://")) else {
            return Err(Error::Invalid(
                "the address of a control store is `redis://user:password@host:port,host:port/database`"
                    .to_string(),
            ));
        };
        // The last one: an `@` within a password is no mistake that is worth an error.
        let (login, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        let wrong = |what: &str| Error::Invalid(format!("`redis://{rest}`: {what}"));
        let addresses: Option<Vec<_>> = hosts.split(',').map(Address::parse).collect();
        let database = match database {
            "" => 0,
            number => {
                number.parse::<u16>().map_err(|_| wrong("behind the `/` is the number of a database"))?
            }
        };
        let at = if login.is_empty() { "" } else { "@" };
        // The error may show a part of the password.
        let login = format!("redis://{login}{at}localhost").into_connection_info().map_err(|_| {
            wrong("before the `@` is `user:password`; write letters that mean something in URLs as %2F")
        })?;
        let settings = login.redis_settings().clone().set_db(database.into());
        Ok(Servers {
            addresses: addresses.ok_or_else(|| wrong("a server is `host` or `host:port`"))?,
            login: login.set_redis_settings(settings),
            is_encrypted,
        })
    }

    /// Whether connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// How to connect to one server.
    pub fn connection(&self, to: &Address) -> ConnectionInfo {
        let (host, port) = (to.host.clone(), to.port);
        self.login.clone().set_addr(match self.is_encrypted {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        })
    }
}

impl Address {
    /// The name or the number of its machine.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Where it listens there.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reads `host`, `host:port` or `[address]:port`.
    pub fn parse(text: &str) -> Option<Address> {
        let (host, port) = match text.strip_prefix('[') {
            Some(bracketed) => {
                bracketed.split_once(']').map(|(host, port)| (host, port.strip_prefix(':')))?
            }
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(6379), str::parse).ok()?;
        let fits = !host.is_empty() && !host.contains(|letter: char| "?#/ ".contains(letter));
        fits.then(|| Address { host: host.to_string(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        let scheme = if self.is_encrypted { "rediss" } else { "redis" };
        write!(f, "{scheme}://{}/{}", addresses.join(","), self.login.redis_settings().db())
    }
}

#[cfg(test)]
mod tests {
    use super::Servers;

    #[test]
    fn addresses() {
        for (url, shown) in [
            ("redis://a", "redis://a:6379/0"),
            ("redis://a:1,b:2/3", "redis://a:1,b:2/3"),
            ("redis://me:s3cr@t@[::1]:7,b", "redis://[::1]:7,b:6379/0"),
            ("redis://:s3cret@a/", "redis://a:6379/0"),
            ("rediss://:s3cret@a:1,b", "rediss://a:1,b:6379/0"),
        ] {
            assert_eq!(Servers::parse(url).map(|servers| servers.to_string()), Ok(shown.to_string()));
        }
        let login = Servers::parse("redis://me:s3cr%2Ft@a").expect("an address").login;
        assert_eq!(login.redis_settings().username(), Some("me"));
        assert_eq!(login.redis_settings().password(), Some("s3cr/t"));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (url, says) in [
            ("http://me:s3cret@a", "redis://user:password@host"),
            ("redis://me:s3cret@a:x", "host:port"),
            ("redis://me:s3cret@a,,b", "host:port"),
            ("redis://me:s3cret@a?replicas=1", "host:port"),
            ("redis://me:s3cret@a/first", "number of a database"),
            ("redis://me:s3cret/@a", "%2F"),
        ] {
            let error = Servers::parse(url).map(|servers| servers.to_string()).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("s3cret"), "{url}: {error}");
        }
    }
}
