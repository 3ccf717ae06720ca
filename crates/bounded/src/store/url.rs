//! Stores by their address.

use super::{EmbeddedStore, MemoryStore, PostgresStore, RedisStore, Store};
use crate::error::{Error, Result};
use std::time::Duration;

/// The address of every kind of store.
const SCHEMES: &str = "a file (`app.redb`), `memory:`, `postgres://user@host/database?table=app`, \
     `redis://host:port,host:port?name=app`";

/// Opens the store at an address.
///
/// # Errors
/// `Invalid` if there is no such kind of address, `Unavailable` if the store is away.
pub(crate) fn open(url: &str) -> Result<Box<dyn Store>> {
    if url == "memory:" {
        return Ok(Box::new(MemoryStore::default()));
    }
    match scheme(url) {
        Some("postgres" | "postgresql") => Ok(Box::new(PostgresStore::open(url)?)),
        Some("redis") => Ok(Box::new(RedisStore::open(url)?)),
        // For a path that looks like another address.
        Some("file") => Ok(Box::new(EmbeddedStore::open(&url["file:".len()..])?)),
        Some(_) => {
            Err(Error::invalid(format!("`{}` is no address of a store: there are {SCHEMES}", shown(url))))
        }
        None if url.is_empty() => {
            Err(Error::invalid(format!("the address of a store is empty: there are {SCHEMES}")))
        }
        None => Ok(Box::new(EmbeddedStore::open(url)?)),
    }
}

/// What stands before the first colon, unless it is part of a path; one letter is a drive.
fn scheme(url: &str) -> Option<&str> {
    let (scheme, _) = url.split_once(':')?;
    (scheme.len() > 1 && !scheme.contains(['/', '\\', '.'])).then_some(scheme)
}

/// An address without what may be a secret in it.
pub(super) fn shown(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        _ => url.to_string(),
    }
}

/// The settings behind the question mark of an address, taken one by one.
pub(super) struct Settings<'u> {
    /// What stands before the question mark.
    pub address: &'u str,
    left: Vec<(&'u str, &'u str)>,
}

impl<'u> Settings<'u> {
    pub fn of(url: &'u str) -> Settings<'u> {
        let (address, settings) = url.split_once('?').unwrap_or((url, ""));
        let pairs = settings.split('&').filter(|pair| !pair.is_empty());
        Settings { address, left: pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect() }
    }

    /// A name: letters, digits and underscores, and what else is allowed.
    pub fn name(&mut self, setting: &str, also: char) -> Result<Option<&'u str>> {
        let Some(name) = self.take(setting) else { return Ok(None) };
        let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == also;
        match !name.is_empty() && name.len() <= 63 && name.chars().all(fits) {
            true => Ok(Some(name)),
            false => Err(Error::invalid(format!(
                "`{setting}={name}`: a name has up to 63 letters, digits and underscores"
            ))),
        }
    }

    /// How many connections there are, at most.
    pub fn connections(&mut self) -> Result<u16> {
        Ok(self.number("connections")?.unwrap_or(16))
    }

    /// How long a server may take for one call.
    pub fn timeout(&mut self) -> Result<Duration> {
        Ok(Duration::from_secs(self.number("timeout")?.unwrap_or(5).into()))
    }

    /// A number that is not zero.
    pub fn number(&mut self, setting: &str) -> Result<Option<u16>> {
        let Some(number) = self.take(setting) else { return Ok(None) };
        match number.parse() {
            Ok(parsed @ 1..) => Ok(Some(parsed)),
            _ => Err(Error::invalid(format!("`{setting}={number}`: that takes a number from 1 to 65535"))),
        }
    }

    fn take(&mut self, setting: &str) -> Option<&'u str> {
        let at = self.left.iter().position(|(name, _)| *name == setting)?;
        Some(self.left.remove(at).1)
    }

    /// The address with the settings that nobody took.
    pub fn rest(&self) -> String {
        let left: Vec<String> = self.left.iter().map(|(name, value)| format!("{name}={value}")).collect();
        match left.is_empty() {
            true => self.address.to_string(),
            false => format!("{}?{}", self.address, left.join("&")),
        }
    }

    /// Nothing may be left.
    pub fn end(&self, known: &str) -> Result<()> {
        match self.left.first() {
            None => Ok(()),
            Some((name, _)) => {
                Err(Error::invalid(format!("there is no setting `{name}`: there are {known}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{scheme, shown};

    #[test]
    fn schemes() {
        assert_eq!(scheme("app.redb"), None);
        assert_eq!(scheme("/data/a:b/app.redb"), None);
        assert_eq!(scheme(r"C:\app.redb"), None);
        assert_eq!(scheme("mysql://here"), Some("mysql"));
        assert_eq!(scheme("mem:"), Some("mem"));
        assert_eq!(shown("mysql://me:secret@here/db"), "mysql://…@here/db");
    }
}
