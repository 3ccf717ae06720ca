//! Stores opened by their URL.

use super::embedded::EmbeddedStore;
use super::interface::Store;
use super::memory::MemoryStore;
use super::postgres::PostgresStore;
use super::redis::RedisStore;
use super::url::shown;
use crate::error::{Error, Result};

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

#[cfg(test)]
mod tests {
    use super::scheme;

    #[test]
    fn schemes() {
        assert_eq!(scheme("app.redb"), None);
        assert_eq!(scheme("/data/a:b/app.redb"), None);
        assert_eq!(scheme(r"C:\app.redb"), None);
        assert_eq!(scheme("mysql://here"), Some("mysql"));
        assert_eq!(scheme("mem:"), Some("mem"));
    }
}
