//! Files that get their names when they are complete.
//!
//! Until then a file has a hidden name in the same folder, so that no reader takes it for a complete one. Its
//! writer holds a lock on it. A file that a killed process has left behind is not locked; the next writer of
//! the same path removes it.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The suffix of incomplete files.
const SUFFIX: &str = ".partial";

/// The incomplete files of this process.
static INCOMPLETE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The set of incomplete files; a panic elsewhere leaves it consistent.
fn incomplete() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    INCOMPLETE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all incomplete files of this process, which is about to end, whatever its threads do.
pub fn remove_partial_files() {
    for path in std::mem::take(&mut *incomplete()) {
        // The next writer removes what cannot be removed here.
        let _ = std::fs::remove_file(path);
    }
}

/// A file that is being written; it is removed if it is dropped before it is published.
///
/// ```
/// use std::io::Write;
/// use whimbrel_sharded::action::Partial;
///
/// let path = std::env::temp_dir().join(format!("whimbrel-doc-{}.csv", std::process::id()));
/// let partial = Partial::create(&path)?;
/// partial.file()?.write_all(b"n\n1\n")?;
/// assert!(!path.exists());
/// partial.publish()?;
/// assert_eq!(std::fs::read_to_string(&path)?, "n\n1\n");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Partial {
    /// Holds the lock.
    file: File,
    /// Where it is until it is published.
    temporary: PathBuf,
    path: PathBuf,
}

impl Partial {
    /// Begins a file for this path, and removes files for it that were abandoned.
    ///
    /// # Errors
    /// If no file can be made in the folder of the path.
    pub fn create(path: &Path) -> Result<Partial> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        remove_abandoned(path, &format!(".{name}."));
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let temporary = path.with_file_name(format!(".{name}.{}-{number}{SUFFIX}", std::process::id()));
            // It is in the set before it exists, so that it is removed whenever the process ends.
            incomplete().insert(temporary.clone());
            let file = match File::create_new(&temporary) {
                // A process of the same number in another container has this name.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    incomplete().remove(&temporary);
                    continue;
                }
                file => file?,
            };
            // Another writer may take it for abandoned before it is locked. On a file system without locks no
            // file is ever taken for abandoned.
            let is_taken = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
            if !is_taken && temporary.exists() {
                return Ok(Partial { file, temporary, path: path.to_path_buf() });
            }
        }
    }

    /// The file, for writing.
    ///
    /// # Errors
    /// If the process has too many files open.
    pub fn file(&self) -> Result<File> {
        self.file.try_clone()
    }

    /// Gives the file its name. Its writer must have been closed.
    ///
    /// # Errors
    /// If the file cannot be renamed.
    pub fn publish(self) -> Result<()> {
        std::fs::rename(&self.temporary, &self.path)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        incomplete().remove(&self.temporary);
        // A published file has its name, and is not found here.
        let _ = std::fs::remove_file(&self.temporary);
    }
}

/// Removes the incomplete files whose names have this beginning and that no process writes.
fn remove_abandoned(path: &Path, beginning: &str) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A folder that cannot be listed is reported when the file is created.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(beginning) || !name.ends_with(SUFFIX) {
            continue;
        }
        // The lock is held until the file is removed, so that no other writer takes it.
        if let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn abandoned_files_are_removed_and_others_are_not() {
        let folder = std::env::temp_dir().join(format!("whimbrel-partial-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.csv");
        let left = [".x.csv.1.partial", ".x.csv.77-3.partial"].map(|name| folder.join(name));
        let others = [".y.csv.1.partial", ".x.csv.keep"].map(|name| folder.join(name));
        left.iter().chain(&others).for_each(|path| std::fs::write(path, "half").unwrap());
        let first = Partial::create(&path).unwrap();
        assert!(left.iter().all(|path| !path.exists()));
        assert!(others.iter().all(|path| path.exists()));
        let second = Partial::create(&path).unwrap();
        assert!(first.temporary.exists(), "it is being written");
        first.file().unwrap().write_all(b"whole").unwrap();
        first.publish().unwrap();
        drop(second);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
