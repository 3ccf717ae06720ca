//! Where a file is: on this machine, or in an object store behind a URL.
//!
//! URLs are `s3://`, `gs://`, `az://`, `http://`, `https://` and what else the crate `object_store`
//! knows. Credentials come from the environment, under the names that the stores' own tools use.

use super::object_runtime::block_on;
use crate::dataset::object_stores::open_store;
use crate::error::in_place;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use futures::TryStreamExt;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use std::fmt;
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use whimbrel_plan::source::redacted;

/// The location of a file.
#[derive(Debug, Clone)]
pub(super) enum Location {
    /// On this machine.
    Path(PathBuf),
    /// In an object store.
    Object(Arc<Object>),
}

/// A file in an object store.
#[derive(Debug)]
pub(super) struct Object {
    /// The URL without passwords, for messages.
    pub url: String,
    pub store: Arc<dyn ObjectStore>,
    pub path: ObjectPath,
    pub size: u64,
    /// The version of its content, if the store has versions.
    pub tag: Option<String>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Path(path) => write!(f, "{}", path.display()),
            Location::Object(object) => f.write_str(&object.url),
        }
    }
}

/// An open file, or the bytes of an object.
pub(super) enum Input {
    File(File),
    Bytes(Cursor<Vec<u8>>),
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Input::File(file) => file.read(into),
            Input::Bytes(bytes) => bytes.read(into),
        }
    }
}

impl Seek for Input {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        match self {
            Input::File(file) => file.seek(to),
            Input::Bytes(bytes) => bytes.seek(to),
        }
    }
}

/// How a whole file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Zstandard,
}

/// The last suffix of a name, in lower case.
fn suffix(name: &Path) -> Option<String> {
    name.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase)
}

impl Location {
    /// The path of the file, or of the object in its store.
    fn name(&self) -> &Path {
        match self {
            Location::Path(path) => path,
            Location::Object(object) => Path::new(object.path.as_ref()),
        }
    }

    /// How many bytes it has; none if that cannot be told, as of a pipe.
    pub fn size(&self) -> Option<u64> {
        match self {
            Location::Path(path) => {
                let metadata = std::fs::metadata(path).ok()?;
                metadata.is_file().then_some(metadata.len())
            }
            Location::Object(object) => Some(object.size),
        }
    }

    /// Whether this is the same file under the same name.
    pub fn is_same(&self, other: &Location) -> bool {
        match (self, other) {
            (Location::Path(path), Location::Path(other)) => path == other,
            (Location::Object(object), Location::Object(other)) => Arc::ptr_eq(object, other),
            _ => false,
        }
    }

    /// The suffix of its name in lower case, before that of its compression.
    pub fn suffix(&self) -> Option<String> {
        let name = self.name();
        match self.compression() {
            Some(_) => suffix(name.file_stem().map_or(name, Path::new)),
            None => suffix(name),
        }
    }

    /// Its compression, by its suffix.
    pub fn compression(&self) -> Option<Compression> {
        match suffix(self.name())?.as_str() {
            "gz" | "gzip" => Some(Compression::Gzip),
            "zst" | "zstd" => Some(Compression::Zstandard),
            _ => None,
        }
    }

    /// Opens it; an object is fetched as a whole.
    ///
    /// # Errors
    /// If it cannot be opened or fetched.
    pub fn open(&self) -> Result<Input> {
        match self {
            Location::Path(path) => Ok(Input::File(File::open(path).map_err(|e| in_place(self, e))?)),
            Location::Object(object) => Ok(Input::Bytes(Cursor::new(self.fetch(0..object.size)?))),
        }
    }

    /// Opens it if it is a local file; none if it is an object.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_local(&self) -> Result<Option<File>> {
        match self {
            Location::Path(path) => Ok(Some(File::open(path).map_err(|e| in_place(self, e))?)),
            Location::Object(_) => Ok(None),
        }
    }

    /// The start of it, to infer columns from: all of a local file, the lines within this many bytes of
    /// an object.
    ///
    /// # Errors
    /// If it cannot be opened or fetched.
    pub fn peek(&self, bytes: u64) -> Result<Input> {
        match self {
            Location::Path(_) => self.open(),
            Location::Object(object) if object.size <= bytes => self.open(),
            Location::Object(_) => {
                let mut head = self.fetch(0..bytes)?;
                // A line that was cut is left out.
                let end = head.iter().rposition(|b| *b == b'\n').map_or(head.len(), |at| at + 1);
                head.truncate(end);
                Ok(Input::Bytes(Cursor::new(head)))
            }
        }
    }

    /// Whether [`peek`](Location::peek) with this many bytes gives all of it.
    pub fn fits_in(&self, bytes: u64) -> bool {
        match self {
            Location::Path(_) => true,
            Location::Object(object) => object.size <= bytes,
        }
    }

    /// Fetches a range of an object.
    ///
    /// # Errors
    /// If it is a local file, or the store fails.
    pub fn fetch(&self, range: std::ops::Range<u64>) -> Result<Vec<u8>> {
        let Location::Object(object) = self else {
            return exec_err!("`{self}` is not in an object store");
        };
        if range.is_empty() {
            return Ok(vec![]);
        }
        let object = Arc::clone(object);
        let fetched =
            block_on(async move { object.store.get_range(&object.path, range).await.map(|b| b.to_vec()) })?;
        fetched.map_err(|e| in_place(self, e))
    }
}

impl Location {
    /// Fetches ranges of an object, all at once.
    ///
    /// # Errors
    /// As [`fetch`](Location::fetch).
    pub fn fetch_all(&self, ranges: &[std::ops::Range<u64>]) -> Result<Vec<bytes::Bytes>> {
        let Location::Object(object) = self else {
            return exec_err!("`{self}` is not in an object store");
        };
        let (object, ranges) = (Arc::clone(object), ranges.to_vec());
        let fetched = block_on(async move { object.store.get_ranges(&object.path, &ranges).await })?;
        fetched.map_err(|e| in_place(self, e))
    }
}

/// Whether this is a URL of an object store rather than a path.
pub(super) fn is_url(name: &str) -> bool {
    name.contains("://") && !name.starts_with("file://")
}

/// The objects at a URL: one; those that match a pattern (`*`); all of a folder (a URL that ends in `/`).
///
/// # Errors
/// `Plan` if it is no URL of a store; `Execution` if there is no such object, or the store fails.
pub(super) fn objects_at(url: &str) -> Result<Vec<Location>> {
    match objects_now(url)? {
        found if found.is_empty() => exec_err!("no file matches `{}`", redacted(url)),
        found => Ok(found),
    }
}

/// An object of which the size and the version are known. Nothing is asked of its store.
///
/// # Errors
/// `Plan` if it is no URL of a store.
pub(super) fn known_object(url: &str, size: u64, tag: Option<String>) -> Result<Location> {
    let parsed = ListingTableUrl::parse(url).map_err(|e| in_place(&redacted(url), e))?;
    let (store, path) = open_store(parsed.as_ref())?;
    Ok(Location::Object(Arc::new(Object { url: url.to_string(), store, path, size, tag })))
}

/// The objects that are at a URL now; there may be none yet.
///
/// # Errors
/// `Plan` if it is no URL of a store; `Execution` if one object was named that is not there, or the store
/// fails.
pub(super) fn objects_now(url: &str) -> Result<Vec<Location>> {
    let pattern = url.contains('*');
    let folder = pattern || url.ends_with('/');
    let base = match url.find('*').and_then(|star| url[..star].rfind('/')) {
        Some(slash) => &url[..=slash],
        None => url,
    };
    let parsed = ListingTableUrl::parse(base).map_err(|e| in_place(&redacted(url), e))?;
    let (store, path) = open_store(parsed.as_ref())?;
    let found = match folder {
        true => listed(&store, &path),
        false => {
            let (store, path) = (Arc::clone(&store), path.clone());
            block_on(async move { store.head(&path).await.map(|meta| vec![meta]) })?
        }
    };
    let shown = redacted(url);
    let mut found = found.map_err(|error| in_place(&shown, error))?;
    if pattern {
        // The rest of the pattern is matched with the rest of each path.
        let Ok(glob) = glob::Pattern::new(&url[base.len()..]) else {
            return plan_err!("`{shown}` is not a pattern");
        };
        found.retain(|meta| below(&meta.location, &path).is_some_and(|name| glob.matches(&name)));
    }
    found.sort_by(|a, b| a.location.cmp(&b.location));
    // A folder has a slash in the end, and its path has none.
    let base = base.trim_end_matches('/');
    let root = base.strip_suffix(path.as_ref()).unwrap_or(base).trim_end_matches('/');
    Ok(found.into_iter().map(|meta| object(root, &store, meta, folder, url)).collect())
}

/// The location of an object; its URL is the one given, or that of the object in a folder.
fn object(root: &str, store: &Arc<dyn ObjectStore>, meta: ObjectMeta, folder: bool, url: &str) -> Location {
    let url = redacted(&if folder { format!("{root}/{}", meta.location) } else { url.to_string() });
    let ObjectMeta { location: path, size, e_tag: tag, .. } = meta;
    Location::Object(Arc::new(Object { url, store: Arc::clone(store), path, size, tag }))
}

/// All objects below a path.
fn listed(store: &Arc<dyn ObjectStore>, path: &ObjectPath) -> object_store::Result<Vec<ObjectMeta>> {
    let (store, path) = (Arc::clone(store), path.clone());
    let listed = block_on(async move { store.list(Some(&path)).try_collect::<Vec<_>>().await });
    listed.unwrap_or_else(|e| Err(object_store::Error::Generic { store: "listing", source: Box::new(e) }))
}

/// The part of a path below a folder.
fn below(path: &ObjectPath, folder: &ObjectPath) -> Option<String> {
    let parts: Vec<String> = path.prefix_match(folder)?.map(|part| part.as_ref().to_string()).collect();
    Some(parts.join("/"))
}
