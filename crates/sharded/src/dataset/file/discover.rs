//! Discovery of files by paths, patterns, folders and URLs.

use super::location::{Location, is_url, objects_at, objects_now};
use crate::error::in_file;
use datafusion::common::{Result, exec_err, plan_err};
use std::path::{Path, PathBuf};

/// The files that these names stand for, in order.
///
/// # Errors
/// `Execution` if a name stands for no file; `Plan` if it is no pattern, or a pipe or a device.
pub(super) fn discover(names: &[String]) -> Result<Vec<Location>> {
    let mut found = Vec::new();
    for name in names {
        let name = name.strip_prefix("file://").unwrap_or(name);
        let path = Path::new(name);
        let mut add = |paths: Vec<PathBuf>| found.extend(paths.into_iter().map(Location::Path));
        if is_url(name) {
            found.extend(objects_at(name)?);
        } else if path.is_dir() {
            add(files_in(path)?);
        } else if path.exists() {
            check_file(path)?;
            add(vec![path.to_path_buf()]);
        } else if name.contains(['*', '?', '[']) {
            add(matching(name)?);
        } else {
            return exec_err!("`{name}` does not exist");
        }
    }
    Ok(found)
}

/// The files that these names stand for now, in the order of their names; there may be none yet. Files
/// that are being written, by their names, are left out.
///
/// # Errors
/// `Execution` if a folder or a store cannot be listed; `Plan` if a name is no pattern.
pub(super) fn discover_now(names: &[String]) -> Result<Vec<Location>> {
    let mut found = Vec::new();
    for name in names {
        let path = Path::new(name);
        if is_url(name) {
            found.extend(objects_now(name)?);
        } else if path.is_dir() {
            found.extend(list_folder(path)?.into_iter().map(Location::Path));
        } else if path.exists() {
            found.push(Location::Path(path.to_path_buf()));
        } else {
            found.extend(list_matching(name)?.into_iter().map(Location::Path));
        }
    }
    found.retain(|location| !is_unfinished(&location.to_string()));
    found.sort_by_key(Location::to_string);
    found.dedup_by_key(|location| location.to_string());
    Ok(found)
}

/// Whether a name is that of a file that is being written.
fn is_unfinished(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.starts_with(['.', '_']) || name.ends_with(".tmp") || name.ends_with(".partial")
}

/// Refuses pipes and devices: a file is read more than once, and its length is known.
fn check_file(path: &Path) -> Result<()> {
    let metadata = path.metadata().map_err(|e| in_file(path, e))?;
    match metadata.is_file() {
        true => Ok(()),
        false => plan_err!(
            "`{}` is a pipe or a device, and these are not read as files; write what it gives to a file, or \
             give it to the command as its standard input, a table in '-'",
            path.display()
        ),
    }
}

/// The files that match a pattern.
fn matching(pattern: &str) -> Result<Vec<PathBuf>> {
    match list_matching(pattern)? {
        paths if paths.is_empty() => exec_err!("no file matches `{pattern}`"),
        paths => Ok(paths),
    }
}

/// The files that match a pattern now.
fn list_matching(pattern: &str) -> Result<Vec<PathBuf>> {
    let found = match glob::glob(pattern) {
        Ok(found) => found,
        Err(error) => return plan_err!("`{pattern}` is not a pattern: {error}"),
    };
    let mut paths = Vec::new();
    for path in found {
        match path {
            Ok(path) if path.is_file() => paths.push(path),
            Ok(_) => {}
            Err(error) => return exec_err!("`{}`: {}", error.path().display(), error.error()),
        }
    }
    paths.sort();
    Ok(paths)
}

/// The files in a folder, without hidden ones.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    match list_folder(folder)? {
        paths if paths.is_empty() => exec_err!("there is no file in folder `{}`", folder.display()),
        paths => Ok(paths),
    }
}

/// The files that are in a folder now, without hidden ones.
fn list_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|e| in_file(folder, e))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| in_file(folder, e))?.path();
        let hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(['.', '_']));
        if path.is_file() && !hidden {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
