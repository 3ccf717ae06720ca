//! Locks on folders: one process at a time writes what is in them.

use crate::error::in_file;
use datafusion::common::Result;
use std::fs::{File, TryLockError};
use std::path::Path;

/// A lock on a folder, for as long as it is kept. It ends with its process.
#[derive(Debug)]
pub struct FolderLock {
    file: File,
}

impl FolderLock {
    /// Takes the lock of a folder, by a file in it; none if somebody else has it. On a file system without
    /// locks everybody gets one.
    ///
    /// ```
    /// use whimbrel_sharded::FolderLock;
    ///
    /// let folder = std::env::temp_dir().join(format!("whimbrel-doc-lock-{}", std::process::id()));
    /// std::fs::create_dir_all(&folder)?;
    /// let lock = FolderLock::take(&folder)?;
    /// assert!(lock.is_some() && FolderLock::take(&folder)?.is_none());
    /// drop(lock);
    /// assert!(FolderLock::take(&folder)?.is_some());
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Execution` if the file cannot be made.
    pub fn take(folder: &Path) -> Result<Option<FolderLock>> {
        let path = folder.join("lock");
        let file = File::options().create(true).append(true).open(&path).map_err(|e| in_file(&path, e))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(None),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(FolderLock { file })),
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // A child of a fork that has not begun its program yet has the file open too, and with it the lock.
        let _ = self.file.unlock();
    }
}
