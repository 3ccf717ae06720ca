//! What a node holds of DataFusion's trees: its inputs and its expressions.
//!
//! DataFusion derives the comparison and the hash of plans and expressions, and derived code is inlined down
//! to the syntax tree inside a plan. [`Subtree`] stops it: nodes derive theirs from its functions, which are
//! not inlined, so a new kind of node adds no copy of that code.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// A plan or expressions, compared and hashed by functions that are compiled once. It is read like what it
/// holds.
#[derive(Debug, Clone)]
pub struct Subtree<T>(T);

impl<T> From<T> for Subtree<T> {
    fn from(tree: T) -> Self {
        Subtree(tree)
    }
}

impl<T> Subtree<T> {
    /// The plan or the expressions.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Subtree<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Display> fmt::Display for Subtree<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: PartialEq> PartialEq for Subtree<T> {
    #[inline(never)]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T: Eq> Eq for Subtree<T> {}

impl<T: PartialOrd> PartialOrd for Subtree<T> {
    #[inline(never)]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

impl<T: Hash> Hash for Subtree<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(&self.0, state);
    }
}

/// One kind of hasher for all callers.
#[inline(never)]
fn hash<T: Hash>(tree: &T, mut state: &mut dyn Hasher) {
    tree.hash(&mut state);
}
