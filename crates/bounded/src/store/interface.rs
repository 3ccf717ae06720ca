//! What a store has to do: the trait, and the requests, answers and conditions that it speaks of.

use crate::error::Result;

/// A key/value store.
pub trait Store: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Answers requests, in their order. They may be done in parallel and need not see the same instant.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer.
    fn read(&self, requests: &[Read]) -> Result<Vec<Found>>;

    /// Makes the writes if all conditions are true; says which one was not. With [`Atomicity::Batch`]
    /// conditions and writes are one transaction, and `Done` means durable. With [`Atomicity::Key`] there are
    /// either conditions and one write, all of the same key, or no conditions and any number of writes, each
    /// of which happens or not.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer; then it is not known whether the writes were made.
    fn commit(&self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome>;
}

/// What a store can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// In what order ranges can be read.
    pub order: Order,
    /// What is written as one.
    pub atomicity: Atomicity,
    /// Whether many ranges of one call cost about as much as one.
    pub batched_ranges: bool,
    /// Whether counting a range is cheaper than reading it.
    pub counts: bool,
}

/// In what order ranges can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All keys are in one order.
    Global,
    /// Keys are spread over partitions by a hash of the number of the index and its first part, and ordered
    /// within each. A range that its first part does not say is asked for in every partition, and counts as
    /// that many requests.
    WithinPartition {
        /// How many there are.
        partitions: u64,
    },
}

impl Order {
    /// How many partitions a range with so many parts of its key known has to be asked for in.
    pub(crate) fn partitions(self, known_parts: usize) -> u64 {
        match self {
            Order::WithinPartition { partitions } if known_parts == 0 => partitions,
            Order::Global | Order::WithinPartition { .. } => 1,
        }
    }
}

/// What is written as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atomicity {
    /// One key: test-and-set.
    Key,
    /// A whole commit.
    Batch,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// The value of a key.
    Get(Vec<u8>),
    /// The first keys and values of `[from, to)`, or the last ones, from the end.
    Range {
        /// Where it begins.
        from: Vec<u8>,
        /// Behind the last key.
        to: Vec<u8>,
        /// How many, at most.
        limit: usize,
        /// From the end.
        reverse: bool,
    },
    /// How many keys are in `[from, to)`, counted up to a number.
    Count {
        /// Where it begins.
        from: Vec<u8>,
        /// Behind the last key.
        to: Vec<u8>,
        /// Where counting stops.
        up_to: usize,
    },
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The value, if the key is there.
    Value(Option<Vec<u8>>),
    /// The keys and values, in the order asked for.
    Entries(Entries),
    /// How many.
    Count(usize),
}

impl Found {
    /// How many keys and values came back, and their bytes.
    pub(crate) fn size(&self) -> (u64, u64) {
        match self {
            Found::Value(value) => (u64::from(value.is_some()), value.as_ref().map_or(0, Vec::len) as u64),
            Found::Entries(entries) => (entries.len() as u64, entries.bytes.len() as u64),
            Found::Count(_) => (0, 0),
        }
    }
}

/// Keys and values, in one piece of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries {
    bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
}

impl Entries {
    /// Appends one.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((middle, self.bytes.len()));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Key and value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        starts
            .zip(&self.ends)
            .map(|(start, (middle, end))| (&self.bytes[start..*middle], &self.bytes[*middle..*end]))
    }
}

/// What has to be true for a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The key has this value, or is not there.
    Same {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Option<Vec<u8>>,
    },
    /// The key is there.
    Exists(Vec<u8>),
    /// There are at most so many keys in `[from, to)`, before the writes.
    AtMost {
        /// Where it begins.
        from: Vec<u8>,
        /// Behind the last key.
        to: Vec<u8>,
        /// How many.
        keys: usize,
    },
}

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Gives it a value.
    Put(Vec<u8>, Vec<u8>),
    /// Takes it away.
    Delete(Vec<u8>),
}

impl Write {
    /// The key.
    pub fn key(&self) -> &[u8] {
        match self {
            Write::Put(key, _) | Write::Delete(key) => key,
        }
    }
}

/// What became of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The writes were made.
    Done,
    /// Nothing was written: the condition at this place was not true.
    Failed(usize),
}

/// A store behind a pointer is a store.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<S: Store + ?Sized> Store for $pointer {
            fn capabilities(&self) -> Capabilities {
                (**self).capabilities()
            }

            fn read(&self, requests: &[Read]) -> Result<Vec<Found>> {
                (**self).read(requests)
            }

            fn commit(&self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome> {
                (**self).commit(conditions, writes)
            }
        }
    )*};
}

forward!(Box<S>, std::sync::Arc<S>);
