//! Files in the making, which get their names when they are complete.
//!
//! Until then a file has a hidden name beside its place, so that nobody takes it for a whole one. Its writer holds a
//! lock on it. What a killed process has left behind is not locked, and is removed by the next writer of the same
//! path.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How the names of files in the making end.
const SUFFIX: &str = ".partial";

/// All files that this process has in the making.
static IN_THE_MAKING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Every change of the set is one step.
fn in_the_making() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    IN_THE_MAKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all files that this process has in the making: for one that is about to end, whatever its threads do.
pub fn remove_partial_files() {
    for beside in std::mem::take(&mut *in_the_making()) {
        // What cannot be removed is left to the next writer.
        let _ = std::fs::remove_file(beside);
    }
}

/// A file in the making; dropped before it is published, it is gone.
#[derive(Debug)]
pub struct Partial {
    /// Holds the lock.
    file: File,
    beside: PathBuf,
    path: PathBuf,
}

impl Partial {
    /// Begins a file that is to be at this path, and removes what others have left behind there.
    ///
    /// # Errors
    /// If no file can be made in the folder of the path.
    pub fn create(path: &Path) -> Result<Partial> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        remove_abandoned(path, &format!(".{name}."));
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let beside = path.with_file_name(format!(".{name}.{}-{number}{SUFFIX}", std::process::id()));
            // Before it is there, so that it is removed whenever the process ends.
            in_the_making().insert(beside.clone());
            let file = match File::create_new(&beside) {
                // A process of that number in another container.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    in_the_making().remove(&beside);
                    continue;
                }
                file => file?,
            };
            // Whoever took it for abandoned holds the lock, or has removed it. A file system may know no locks; then nothing
            // can be said of what others have left.
            let is_taken = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
            if !is_taken && beside.exists() {
                return Ok(Partial { file, beside, path: path.to_path_buf() });
            }
        }
    }

    /// The file, to be written.
    ///
    /// # Errors
    /// If the process has too many files open.
    pub fn file(&self) -> Result<File> {
        self.file.try_clone()
    }

    /// Gives the file its name. Who wrote it has closed it.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn publish(self) -> Result<()> {
        std::fs::rename(&self.beside, &self.path)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        in_the_making().remove(&self.beside);
        // Published, it is not there any more; else nobody wants it.
        let _ = std::fs::remove_file(&self.beside);
    }
}

/// Removes the files in the making whose names begin so and that nobody makes any more.
fn remove_abandoned(path: &Path, beginning: &str) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Who cannot list the folder will say so when it makes the file.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(beginning) || !name.ends_with(SUFFIX) {
            continue;
        }
        // The lock is held until the file is gone, so that nobody goes on to write it.
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
    fn what_was_left_behind_is_removed_and_what_is_made_is_not() {
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
        assert!(first.beside.exists(), "somebody makes it");
        first.file().unwrap().write_all(b"whole").unwrap();
        first.publish().unwrap();
        drop(second);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
