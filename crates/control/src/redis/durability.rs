//! What a store keeps when its server stops.

use std::fmt;

/// What of an acknowledged commit outlives a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durability {
    /// What the server writes to its disk.
    pub disk: Disk,
    /// How many replicas have a commit before it is acknowledged.
    pub replicas: usize,
}

/// What a server writes to its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// Nothing that a commit waits for: what was acknowledged can be lost when the server stops.
    Nothing,
    /// Commits of the last second or two can be lost when the server stops (`appendfsync everysec` or `no`).
    Later,
    /// A commit, before it is acknowledged (`appendfsync always`).
    Always,
    /// The server does not say.
    Unknown,
}

impl Durability {
    /// What callers should warn of; none if what is acknowledged outlives the server.
    pub fn warning(&self) -> Option<String> {
        (self.replicas == 0 && self.disk != Disk::Always).then(|| self.to_string())
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.disk {
            Disk::Nothing => "the control store is in the memory of its server: set `appendonly yes` there",
            Disk::Later => {
                "the control store's server writes commits to its disk a second later: set \
                 `appendfsync always` there if that is too late"
            }
            Disk::Always => "the control store's server writes commits to its disk at once",
            Disk::Unknown => {
                "the control store's server does not say whether it writes commits to its disk: \
                 `CONFIG GET` is forbidden there"
            }
        })?;
        match self.replicas {
            0 => f.write_str(", and no replica has them for certain: see `replicas`"),
            replicas => write!(f, ", and {replicas} of its replicas have them"),
        }
    }
}
