//! The identity of a file: what it is known by when it is looked for again.

use super::super::location::Location;
use crate::error::in_file;
use datafusion::common::{Result, exec_err};
use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// How many bytes at the beginning of a text file are compared.
const HEAD_BYTES: u64 = 1024;

/// The device and the inode of a file.
pub(super) type FileNumber = (u64, u64);

/// A text file that may grow and be renamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TextIdentity {
    device: u64,
    inode: u64,
    /// How many bytes of its beginning have this digest.
    head_bytes: u64,
    head: [u8; 32],
}

/// A file that is read as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WholeIdentity {
    bytes: u64,
    modified: Option<u128>,
    /// The version of an object.
    tag: Option<String>,
}

impl TextIdentity {
    /// The identity of a file of which so many bytes are known.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(file: &mut File, path: &Path, known: u64) -> Result<TextIdentity> {
        let metadata = file.metadata().map_err(|e| in_file(path, e))?;
        let (device, inode) = file_number(&metadata);
        let head_bytes = known.min(HEAD_BYTES);
        Ok(TextIdentity { device, inode, head_bytes, head: digest(file, path, head_bytes)? })
    }

    /// The number that the system knows the file by.
    pub fn number(&self) -> FileNumber {
        (self.device, self.inode)
    }

    /// Whether as many bytes are compared as ever will be.
    pub fn is_complete(&self) -> bool {
        self.head_bytes == HEAD_BYTES
    }

    /// Whether this is the file, which must be at its beginning.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is(&self, file: &mut File, path: &Path) -> Result<bool> {
        let metadata = file.metadata().map_err(|e| in_file(path, e))?;
        Ok(self.number() == file_number(&metadata)
            && metadata.len() >= self.head_bytes
            && digest(file, path, self.head_bytes)? == self.head)
    }
}

impl WholeIdentity {
    /// The identity of a file or an object as it is now.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn of(location: &Location) -> Result<WholeIdentity> {
        match location {
            Location::Object(object) => {
                Ok(WholeIdentity { bytes: object.size, modified: None, tag: object.tag.clone() })
            }
            Location::Path(path) => {
                let metadata = path.metadata().map_err(|e| in_file(path, e))?;
                let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
                let modified = modified.map(|since| since.as_nanos());
                Ok(WholeIdentity { bytes: metadata.len(), modified, tag: None })
            }
        }
    }

    /// Checks that a file is still what it was.
    ///
    /// # Errors
    /// `Execution` if it is not.
    pub fn check(&self, location: &Location) -> Result<()> {
        match WholeIdentity::of(location)? == *self {
            true => Ok(()),
            false => exec_err!(
                "`{location}` was written again after it had been read, so its rows cannot be read again; give new \
                 files new names"
            ),
        }
    }
}

/// Finds a text file again by its path, or among other files.
///
/// # Errors
/// `Execution` if it is gone.
pub(super) fn find(
    identity: &TextIdentity,
    path: &Path,
    others: impl FnOnce() -> Result<Vec<Location>>,
    range: std::ops::Range<u64>,
) -> Result<(PathBuf, File)> {
    let matches = |path: &Path| -> Result<Option<File>> {
        let Ok(mut file) = File::open(path) else { return Ok(None) };
        Ok(identity.is(&mut file, path)?.then_some(file))
    };
    if let Some(file) = matches(path)? {
        return Ok((path.to_path_buf(), file));
    }
    for other in others()? {
        if let Location::Path(other) = other
            && let Some(file) = matches(&other)?
        {
            return Ok((other, file));
        }
    }
    exec_err!(
        "`{}` is gone or was written anew, and its bytes {} to {} have to be read; put it back, or begin the job anew",
        path.display(),
        range.start,
        range.end
    )
}

/// The digest of the first bytes of a file, which is at its beginning.
fn digest(file: &mut File, path: &Path, bytes: u64) -> Result<[u8; 32]> {
    let mut head = Vec::new();
    file.take(bytes).read_to_end(&mut head).map_err(|e| in_file(path, e))?;
    Ok(*blake3::hash(&head).as_bytes())
}

/// The number that the system knows a file by.
#[cfg(unix)]
pub(super) fn file_number(metadata: &Metadata) -> FileNumber {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

/// The number that the system knows a file by.
#[cfg(not(unix))]
pub(super) fn file_number(_: &Metadata) -> FileNumber {
    (0, 0)
}
