//! Groups that are forgotten some time after their last row.
//!
//! A key whose last row has gone tends to come again, and to forget a group costs as much as to make one. So
//! groups are forgotten all at once, when as many are new as there were: there are never more than three
//! times as many as were needed at one time, beside a thousand.

use super::Groups;
use crate::key::Key;
use datafusion::common::Result;
use std::ops::Range;

/// So many groups are not worth a look at all of them.
const FEW: usize = 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct LingeringGroups {
    groups: Groups,
    /// How many groups there were when some were forgotten.
    kept: usize,
}

impl LingeringGroups {
    /// Takes over these groups.
    pub fn new(groups: Groups) -> LingeringGroups {
        LingeringGroups { kept: groups.len(), groups }
    }

    /// The groups, for a checkpoint.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// As [`Groups::capacity`].
    pub fn capacity(&self) -> usize {
        self.groups.capacity()
    }

    /// As [`Groups::intern`].
    pub fn intern(&mut self, key: &Key, rows: Range<usize>, groups: &mut Vec<u32>) -> Result<()> {
        self.groups.intern(key, rows, groups)
    }

    /// Forgets the groups that are gone, if enough groups have been made since that was done last. Only then
    /// it is asked which are.
    pub fn forget<F: Fn(u32) -> bool>(&mut self, gone: impl FnOnce() -> F) {
        if self.groups.len() > self.kept + FEW + self.groups.capacity() / 2 {
            self.groups.remove_all(gone());
            self.kept = self.groups.len();
        }
    }
}
