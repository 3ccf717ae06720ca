//! Indexes: the parts that their keys are made of.
//!
//! Every key in the store begins with the number of an index. Records stand under the number of the primary
//! key, and entries under the numbers of the other indexes.

use crate::keys::KeyOrder;
use serde::{Deserialize, Serialize};

/// An index, or the primary key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// The number that its keys begin with.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: IndexKind,
    /// The parts of its keys.
    pub parts: Vec<KeyPart>,
    /// Whether queries may use it.
    pub state: IndexState,
}

/// The kind of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexKind {
    /// The records themselves.
    Primary,
    /// At most one row for each key.
    Unique,
    /// To find rows in an order.
    Ordinary,
}

/// Whether every row is in an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexState {
    /// Writes maintain it; older rows are being added.
    Building,
    /// Queries may use it.
    Ready,
}

/// A part of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPart {
    /// The value that it has for a row.
    pub part: Part,
    /// How it is ordered.
    pub order: KeyOrder,
}

/// The value of a part of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// A column.
    Column(usize),
    /// Each word of some columns: a row has as many entries as words.
    Words(Vec<usize>),
}

impl KeyPart {
    /// A column in ascending order.
    pub fn ascending(column: usize) -> KeyPart {
        KeyPart { part: Part::Column(column), order: KeyOrder::ASCENDING }
    }

    /// The column, if it is one.
    pub fn column(&self) -> Option<usize> {
        match self.part {
            Part::Column(at) => Some(at),
            Part::Words(_) => None,
        }
    }
}

impl Index {
    /// The number of an index that is in no schema yet.
    pub(crate) const UNNUMBERED: u32 = 0;

    /// An index that is in no schema yet.
    pub(crate) fn new(name: String, kind: IndexKind, parts: Vec<KeyPart>) -> Index {
        Index { id: Index::UNNUMBERED, name, kind, parts, state: IndexState::Ready }
    }

    /// The columns among its parts, in order.
    pub fn columns(&self) -> Vec<usize> {
        self.parts.iter().filter_map(KeyPart::column).collect()
    }

    /// What the keys of this index begin with.
    pub fn prefix(&self) -> Vec<u8> {
        self.id.to_be_bytes().to_vec()
    }
}
