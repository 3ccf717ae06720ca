//! What writers that were killed have left in a folder that stands for a bucket: files that are not
//! complete, and folders that are empty. A bucket has none of these: parts of objects are removed by a rule
//! of its own.

use std::fs::{Metadata, read_dir, remove_dir, remove_file};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Removes them below a folder, if they are older than this; how many files there were, and their bytes. What
/// cannot be removed now is found the next time.
pub(crate) fn remove_staged_files(folder: &Path, age: Duration) -> (usize, u64) {
    let before = SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
    let is_old = |found: &Metadata| found.modified().is_ok_and(|modified| modified <= before);
    let (mut count, mut bytes) = (0, 0);
    for entry in read_dir(folder).into_iter().flatten().flatten() {
        let (path, Ok(found)) = (entry.path(), entry.metadata()) else { continue };
        if found.is_dir() {
            let (files, size) = remove_staged_files(&path, age);
            (count, bytes) = (count + files, bytes + size);
            if is_old(&found) {
                // One that is not empty stays.
                let _ = remove_dir(&path);
            }
        } else if is_staged(&path) && is_old(&found) && remove_file(&path).is_ok() {
            (count, bytes) = (count + 1, bytes + found.len());
        }
    }
    (count, bytes)
}

/// Whether a file has the name that it has until it is complete: its own, `#` and a number.
fn is_staged(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.rsplit_once('#').is_some_and(|(_, number)| number.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_complete_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a/1#1", "a/b/2#17", "c/3", "c/4#x"] {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), "part").unwrap();
        }
        assert_eq!(remove_staged_files(folder.path(), Duration::from_secs(3600)), (0, 0));
        assert_eq!(remove_staged_files(folder.path(), Duration::ZERO), (2, 8));
        assert!(path("c/3").exists() && path("c/4#x").exists() && !path("a").exists());
    }
}
