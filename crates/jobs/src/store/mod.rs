//! Where a job keeps its state: a folder of this machine, or of an object store.
//!
//! A store holds small objects under names with folders in them (`tape/0000000001`). What was written is
//! there after a crash, whole or not at all. Some objects are created once: who creates one first has it,
//! and every other process learns that it came second.

mod folder;
mod objects;

use datafusion::common::Result;
use std::sync::Arc;
use whimbrel_plan::source::local_path;

pub use folder::{FolderStore, create_folder, sync_folder};
pub use objects::ObjectsStore;

/// Keeps named objects durably.
pub trait StateStore: Send + Sync {
    /// Writes objects, all of which are durable once it returns; objects of these names are replaced.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no room; `Execution` if they cannot be written.
    fn put(&self, objects: Vec<(String, Vec<u8>)>) -> Result<()>;

    /// Creates an object; false if one of this name is there already.
    ///
    /// # Errors
    /// As [`put`](StateStore::put).
    fn create(&self, name: &str, bytes: Vec<u8>) -> Result<bool>;

    /// An object, if it is there.
    ///
    /// # Errors
    /// `Execution` if it cannot be read.
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>>;

    /// The names of the objects in a folder, without the folder, in order.
    ///
    /// # Errors
    /// As [`get`](StateStore::get).
    fn list(&self, folder: &str) -> Result<Vec<String>>;

    /// Removes objects; those that are not there are no error.
    ///
    /// # Errors
    /// As [`put`](StateStore::put).
    fn remove(&self, names: &[String]) -> Result<()>;

    /// What it is, in messages.
    fn describe(&self) -> String;
}

/// Who else may write to a folder of this machine. Folders of object stores are always shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nobody: a lock keeps other processes out, so that a second start of a job is refused at once.
    Exclusive,
    /// An earlier run that has not noticed that another one has taken its job over, and may hold a lock while
    /// it is stopped. Records that are created once keep the two apart.
    Shared,
}

/// Opens the store at a path or a URL, which is made if need be.
///
/// # Errors
/// `Plan` if the URL is none of a store; `Execution` if another process has it and it is not to be shared, or
/// it cannot be written.
pub fn open(location: &str, access: Access) -> Result<Arc<dyn StateStore>> {
    let path = location.strip_prefix("file://").unwrap_or(location);
    match path.contains("://") {
        true => Ok(Arc::new(ObjectsStore::open(location)?)),
        false => Ok(Arc::new(FolderStore::open(local_path(path)?, access)?)),
    }
}
