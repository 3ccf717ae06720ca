//! Names of tables, rows, logs, queues, topics, leases and holders.

use crate::error::{Error, Result};

/// The longest name, in bytes.
const NAME_MAX: usize = 1024;

/// Refuses what is no name.
///
/// # Errors
/// `Invalid` if it is empty or too long.
pub fn check_name(name: &str) -> Result<()> {
    match name.len() {
        1..=NAME_MAX => Ok(()),
        0 => Err(Error::Invalid("a name in the control store is empty: give it one".to_string())),
        length => Err(Error::Invalid(format!(
            "a name in the control store has {length} bytes, which begin with `{}`: {NAME_MAX} are the most",
            name.chars().take(32).collect::<String>()
        ))),
    }
}

/// Refuses topics to which nobody can listen.
///
/// # Errors
/// `Invalid` if there are none, or one is no name.
pub fn check_topics(topics: &[&str]) -> Result<()> {
    match topics.is_empty() {
        true => Err(Error::Invalid("a subscription has no topics: name one".to_string())),
        false => topics.iter().try_for_each(|topic| check_name(topic)),
    }
}
