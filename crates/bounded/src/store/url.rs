//! URLs of stores: their settings, and their form without secrets.

use crate::error::{Error, Result};
use std::time::Duration;
use whimbrel_plan::source::redacted;

/// An address without what may be a secret in it.
pub(super) fn shown(url: &str) -> String {
    let url = redacted(url);
    // With slashes forgotten it is a secret as well.
    match (url.split_once(':'), url.rsplit_once('@')) {
        (Some((scheme, rest)), Some((_, host))) => {
            let slashes = &rest[..rest.len() - rest.trim_start_matches('/').len()];
            format!("{scheme}:{slashes}…@{host}")
        }
        _ => url,
    }
}

/// The settings behind the question mark of an address, taken one by one.
pub(super) struct Settings<'u> {
    /// What stands before the question mark.
    pub address: &'u str,
    left: Vec<(&'u str, &'u str)>,
}

impl<'u> Settings<'u> {
    /// The settings of a URL.
    pub fn of(url: &'u str) -> Settings<'u> {
        let (address, settings) = url.split_once('?').unwrap_or((url, ""));
        let pairs = settings.split('&').filter(|pair| !pair.is_empty());
        Settings { address, left: pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect() }
    }

    /// A name: letters, digits and underscores, and what else is allowed.
    ///
    /// # Errors
    /// `Invalid` if the value is no name.
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
    ///
    /// # Errors
    /// `Invalid` if the value is no number.
    pub fn connections(&mut self) -> Result<u16> {
        Ok(self.number("connections")?.unwrap_or(16))
    }

    /// How long a server may take for one call.
    ///
    /// # Errors
    /// `Invalid` if the value is no number.
    pub fn timeout(&mut self) -> Result<Duration> {
        Ok(Duration::from_secs(self.number("timeout")?.unwrap_or(5).into()))
    }

    /// A number that is not zero.
    ///
    /// # Errors
    /// `Invalid` if the value is no number from 1 to 65535.
    pub fn number(&mut self, setting: &str) -> Result<Option<u16>> {
        let Some(number) = self.take(setting) else { return Ok(None) };
        match number.parse() {
            Ok(parsed @ 1..) => Ok(Some(parsed)),
            _ => Err(Error::invalid(format!("`{setting}={number}`: that takes a number from 1 to 65535"))),
        }
    }

    /// Takes the value of a setting.
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
    ///
    /// # Errors
    /// `Invalid` if a setting is left that does not exist.
    pub fn end(&self, settings: &str) -> Result<()> {
        match self.left.first() {
            None => Ok(()),
            Some((name, _)) => {
                Err(Error::invalid(format!("there is no setting `{name}`: there are {settings}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        assert_eq!(shown("mysql://me:secret@here/db"), "mysql://…@here/db");
        assert_eq!(shown("postgres:me:secret@here"), "postgres:…@here");
        assert_eq!(shown("postgres:/me:se/cret@here?password=secret"), "postgres:/…@here?password=***");
    }
}
