//! Where the files of a folder are: on this machine, or in an object store.

use crate::error::in_file;
use crate::identity::new_number;
use crate::store::{Access, FolderStore, ObjectsStore, StateStore, create_folder, sync_folder};
use datafusion::common::Result;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

const JOB: &str = "_job";
const STAGING: &str = "_job/staging";

/// A folder that files are staged in, and then get their names in.
pub(super) trait Place: Send {
    /// Where the records of commits are.
    fn log(&self) -> &dyn StateStore;

    /// An empty file to write to.
    ///
    /// # Errors
    /// If there can be none.
    fn create(&self) -> Result<File>;

    /// Keeps the file that was made last, durably, under a name in the staging folder.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no room; `Execution` if it cannot be kept.
    fn stage(&self, file: File, name: &str) -> Result<()>;

    /// Gives a staged file its name in the folder, durably, unless it has it; false if it is in neither
    /// place.
    ///
    /// # Errors
    /// `Execution` if it cannot be named.
    fn publish(&self, staged: &str, name: &str) -> Result<bool>;

    /// Removes what is staged: a run that was killed had not committed it.
    ///
    /// # Errors
    /// `Execution` if something cannot be removed.
    fn clear(&self) -> Result<()>;

    /// What it is, in messages.
    fn describe(&self) -> String;
}

/// A folder of this machine.
pub(super) struct FolderPlace {
    folder: PathBuf,
    /// The name under which a file is written: of this process only, for an earlier run may still write too.
    open: String,
    log: FolderStore,
}

impl FolderPlace {
    /// Opens a folder, which is made if need be.
    ///
    /// # Errors
    /// `Execution` if it cannot be written, or another process has it.
    pub fn open(folder: &Path, access: Access) -> Result<FolderPlace> {
        create_folder(folder)?;
        create_folder(&folder.join(STAGING))?;
        let log = FolderStore::open(&folder.join(JOB), access)?;
        Ok(FolderPlace { folder: folder.to_path_buf(), open: format!("open-{}", new_number()), log })
    }
}

impl Place for FolderPlace {
    fn log(&self) -> &dyn StateStore {
        &self.log
    }

    fn create(&self) -> Result<File> {
        let path = self.folder.join(STAGING).join(&self.open);
        File::create(&path).map_err(|e| in_file(&path, e))
    }

    fn stage(&self, file: File, name: &str) -> Result<()> {
        let staging = self.folder.join(STAGING);
        let path = staging.join(name);
        file.sync_all().map_err(|e| in_file(&path, e))?;
        fs::rename(staging.join(&self.open), &path).map_err(|e| in_file(&path, e))?;
        sync_folder(&staging)
    }

    fn publish(&self, staged: &str, name: &str) -> Result<bool> {
        let (staged, path) = (self.folder.join(STAGING).join(staged), self.folder.join(name));
        if !staged.exists() {
            return Ok(path.exists());
        }
        fs::rename(&staged, &path).map_err(|e| in_file(&path, e))?;
        sync_folder(&self.folder)?;
        Ok(true)
    }

    fn clear(&self) -> Result<()> {
        let staging = self.folder.join(STAGING);
        for entry in fs::read_dir(&staging).map_err(|e| in_file(&staging, e))? {
            let path = entry.map_err(|e| in_file(&staging, e))?.path();
            match fs::remove_file(&path) {
                // An earlier run has just moved its file.
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(in_file(&path, error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        self.folder.display().to_string()
    }
}

/// A folder of an object store.
pub(super) struct ObjectsPlace {
    folder: ObjectsStore,
    log: ObjectsStore,
}

impl ObjectsPlace {
    /// Opens the folder at a URL.
    ///
    /// # Errors
    /// `Plan` if it is no URL of a store.
    pub fn open(url: &str) -> Result<ObjectsPlace> {
        let folder = ObjectsStore::open(url)?;
        Ok(ObjectsPlace { log: folder.subfolder(JOB)?, folder })
    }
}

impl Place for ObjectsPlace {
    fn log(&self) -> &dyn StateStore {
        &self.log
    }

    fn create(&self) -> Result<File> {
        tempfile::tempfile().map_err(|e| in_file(&std::env::temp_dir(), e))
    }

    fn stage(&self, mut file: File, name: &str) -> Result<()> {
        let mut bytes = Vec::new();
        let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
        read.map_err(|e| in_file(&std::env::temp_dir(), e))?;
        self.folder.put(vec![(format!("{STAGING}/{name}"), bytes)])
    }

    fn publish(&self, staged: &str, name: &str) -> Result<bool> {
        let staged = format!("{STAGING}/{staged}");
        if !self.folder.copy(&staged, name)? {
            return self.folder.exists(name);
        }
        self.folder.remove(&[staged]).map(|()| true)
    }

    fn clear(&self) -> Result<()> {
        let staged = self.folder.list(STAGING)?.into_iter().map(|name| format!("{STAGING}/{name}"));
        self.folder.remove(&staged.collect::<Vec<_>>())
    }

    fn describe(&self) -> String {
        self.folder.describe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn check(place: &dyn Place, folder: &Path) {
        let stage = |text: &str, name: &str| {
            let mut file = place.create().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            place.stage(file, name).unwrap();
        };
        stage("rows", "1-a");
        assert!(!folder.join("a").exists(), "nobody sees it");
        assert!(place.publish("1-a", "a").unwrap());
        assert!(place.publish("1-a", "a").unwrap(), "it has its name");
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "rows");
        stage("others", "2-b");
        place.clear().unwrap();
        assert!(!place.publish("2-b", "b").unwrap());
        assert!(place.log().create("commits/1", vec![]).unwrap());
    }

    #[test]
    fn files_are_seen_once_they_have_their_names() {
        let root = std::env::temp_dir().join(format!("whimbrel-place-{}", std::process::id()));
        let (here, objects) = (root.join("here"), root.join("objects"));
        check(&FolderPlace::open(&here, Access::Exclusive).unwrap(), &here);
        fs::create_dir_all(&objects).unwrap();
        check(&ObjectsPlace::open(&format!("file://{}", objects.display())).unwrap(), &objects);
        fs::remove_dir_all(&root).unwrap();
    }
}
