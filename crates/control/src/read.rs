//! What can be read of a store, and what is found.

use crate::error::{Error, Result};
use crate::name::check_name;
use crate::transaction::Token;
use std::time::Duration;

/// What to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// A row.
    Row {
        /// The table.
        table: String,
        /// The key of the row.
        row: String,
    },
    /// All rows of a table.
    Rows {
        /// The table.
        table: String,
    },
    /// Records of a log.
    Records {
        /// The log.
        log: String,
        /// The position of the first one.
        from: u64,
        /// How many at most; none to learn only how long the log is.
        limit: u64,
    },
    /// How many elements a queue has.
    Waiting {
        /// The queue.
        queue: String,
    },
    /// Who holds a lease.
    Holding {
        /// The lease.
        lease: String,
    },
}

/// What was found, for each kind of [`Read`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The row, if it is there.
    Row(Option<Row>),
    /// The rows, ordered by their keys.
    Rows(Vec<(String, Row)>),
    /// The records.
    Records(Records),
    /// How many elements.
    Waiting(u64),
    /// The holder, if there is one at this moment.
    Holding(Option<Holding>),
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The version of the transaction that put it.
    pub version: u64,
    /// What it holds.
    pub value: Vec<u8>,
}

/// Some records of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records<R = Vec<u8>> {
    /// How many records the log has, those that were trimmed included.
    pub length: u64,
    /// The position of the first one here: what was asked for, or behind it if that was trimmed.
    pub first: u64,
    /// The records.
    pub records: Vec<R>,
}

/// Who holds a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The holder, as it named itself.
    pub holder: String,
    /// The token of its grant.
    pub token: Token,
    /// How long it still holds the lease, if it does not renew it.
    pub remaining: Duration,
}

impl Read {
    /// What every store checks before it reads.
    ///
    /// # Errors
    /// `Invalid` if a name is empty or too long.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Read::Row { table, row } => check_name(table).and_then(|()| check_name(row)),
            Read::Rows { table: name }
            | Read::Records { log: name, .. }
            | Read::Waiting { queue: name }
            | Read::Holding { lease: name } => check_name(name),
        }
    }
}

impl Found {
    /// The answer to [`Read::Row`].
    ///
    /// # Errors
    /// `Invalid` if something else was asked.
    pub fn row(self) -> Result<Option<Row>> {
        match self {
            Found::Row(row) => Ok(row),
            other => Err(other.is_not("a row")),
        }
    }

    /// The answer to [`Read::Rows`].
    ///
    /// # Errors
    /// `Invalid` if something else was asked.
    pub fn rows(self) -> Result<Vec<(String, Row)>> {
        match self {
            Found::Rows(rows) => Ok(rows),
            other => Err(other.is_not("the rows of a table")),
        }
    }

    /// The answer to [`Read::Records`].
    ///
    /// # Errors
    /// `Invalid` if something else was asked.
    pub fn records(self) -> Result<Records> {
        match self {
            Found::Records(records) => Ok(records),
            other => Err(other.is_not("the records of a log")),
        }
    }

    /// The answer to [`Read::Waiting`].
    ///
    /// # Errors
    /// `Invalid` if something else was asked.
    pub fn waiting(self) -> Result<u64> {
        match self {
            Found::Waiting(elements) => Ok(elements),
            other => Err(other.is_not("the length of a queue")),
        }
    }

    /// The answer to [`Read::Holding`].
    ///
    /// # Errors
    /// `Invalid` if something else was asked.
    pub fn holding(self) -> Result<Option<Holding>> {
        match self {
            Found::Holding(holding) => Ok(holding),
            other => Err(other.is_not("the holder of a lease")),
        }
    }

    fn is_not(&self, wanted: &str) -> Error {
        Error::Invalid(format!("{wanted} is wanted of an answer to another question: {self:?}"))
    }
}
