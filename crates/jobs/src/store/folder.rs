//! A state store in a folder.
//!
//! Invariant: an object gets its name only when its bytes are on the disk, and the name is on the disk
//! before the call returns: the file is synchronized, then renamed or linked, then its folder is
//! synchronized (PostgreSQL's `durable_rename` does the same). An error of `fsync` is passed on at once:
//! what it covered may be lost, and a second call would not say so.

use super::{Access, StateStore};
use crate::error::in_file;
use datafusion::common::{Result, exec_err};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};
use whimbrel_sharded::FolderLock;

/// How the name of a file ends that is being written.
const PARTIAL: &str = ".partial";

/// A store in a folder of this machine.
#[derive(Debug)]
pub struct FolderStore {
    root: PathBuf,
    _lock: Option<FolderLock>,
}

impl FolderStore {
    /// Opens a folder, which is made if need be.
    ///
    /// # Errors
    /// `Execution` if another process has it and it is not to be shared, or it cannot be written.
    pub fn open(root: &Path, access: Access) -> Result<FolderStore> {
        create_folder(root)?;
        if access == Access::Shared {
            return Ok(FolderStore { root: root.to_path_buf(), _lock: None });
        }
        // On a file system without locks, records that are created once keep processes apart.
        match FolderLock::take(root)? {
            lock @ Some(_) => Ok(FolderStore { root: root.to_path_buf(), _lock: lock }),
            None => exec_err!(
                "another process runs a job with `{}`; stop it, or give this one a folder of its own",
                root.display()
            ),
        }
    }

    /// Writes a file of another name, which is no object's, and synchronizes it. Its name is of this call
    /// only: an earlier run of the job may write the same object.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(TempPath, PathBuf)> {
        let path = self.root.join(name);
        let folder = path.parent().unwrap_or(&self.root);
        if !folder.is_dir() {
            create_folder(folder)?;
        }
        let write = || {
            let mut file = named_file(folder)?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            Ok(file.into_temp_path())
        };
        let temporary = write().map_err(|e: std::io::Error| in_file(&path, e))?;
        Ok((temporary, path))
    }
}

impl StateStore for FolderStore {
    fn put(&self, objects: Vec<(String, Vec<u8>)>) -> Result<()> {
        let mut folders = BTreeSet::new();
        for (name, bytes) in &objects {
            let (temporary, path) = self.write(name, bytes)?;
            temporary.persist(&path).map_err(|e| in_file(&path, e.error))?;
            folders.extend(path.parent().map(Path::to_path_buf));
        }
        folders.iter().try_for_each(|folder| sync_folder(folder))
    }

    fn create(&self, name: &str, bytes: Vec<u8>) -> Result<bool> {
        let (temporary, path) = self.write(name, &bytes)?;
        // A link, unlike a rename, fails if the name is taken.
        let linked = fs::hard_link(&temporary, &path);
        drop(temporary);
        match linked {
            Ok(()) => path.parent().map_or(Ok(()), sync_folder).map(|()| true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(in_file(&path, error)),
        }
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.root.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(in_file(&path, error)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.root.join(folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(in_file(&path, error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|e| in_file(&path, e))?.file_name().to_string_lossy().into_owned();
            // A file that was being written when its process was killed is no object.
            if !name.ends_with(PARTIAL) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn remove(&self, names: &[String]) -> Result<()> {
        for name in names {
            let path = self.root.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(in_file(&path, error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        self.root.display().to_string()
    }
}

/// A file of a name that no other call has, which others may read as far as the process lets them.
fn named_file(folder: &Path) -> std::io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.suffix(PARTIAL);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// Makes a folder and those above it; their names are durable.
///
/// # Errors
/// If it cannot be made.
pub fn create_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|e| in_file(folder, e))?;
    let absolute = std::path::absolute(folder).map_err(|e| in_file(folder, e))?;
    // Folders above may belong to others, who may not let us open them.
    absolute.ancestors().skip(1).take(2).for_each(|above| _ = sync_folder(above));
    Ok(())
}

/// Makes the names in a folder durable.
///
/// # Errors
/// If the system cannot do that.
pub fn sync_folder(folder: &Path) -> Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| in_file(folder, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_whole_and_created_once() {
        let root = std::env::temp_dir().join(format!("whimbrel-store-{}", std::process::id()));
        let store = FolderStore::open(&root, Access::Exclusive).unwrap();
        assert!(store.create("tape/1", b"one".to_vec()).unwrap());
        assert!(!store.create("tape/1", b"two".to_vec()).unwrap());
        store.put(vec![("tape/2".into(), b"2".to_vec()), ("blocks/x".into(), vec![])]).unwrap();
        fs::write(root.join("tape/3.partial"), "half").unwrap();
        assert_eq!(store.list("tape").unwrap(), ["1", "2"]);
        assert_eq!(store.get("tape/1").unwrap().as_deref(), Some(b"one".as_slice()));
        store.remove(&["tape/1".to_string(), "tape/9".to_string()]).unwrap();
        assert_eq!(store.get("tape/1").unwrap(), None);
        let second = FolderStore::open(&root, Access::Exclusive).unwrap_err().to_string();
        assert!(second.contains("another process"), "{second}");
        let shared = FolderStore::open(&root, Access::Shared).unwrap();
        assert!(!shared.create("tape/2", b"other".to_vec()).unwrap());
        assert_eq!(store.get("tape/2").unwrap().as_deref(), Some(b"2".as_slice()));
        drop(store);
        FolderStore::open(&root, Access::Exclusive).unwrap();
        fs::remove_dir_all(&root).unwrap();
    }
}
