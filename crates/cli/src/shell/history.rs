//! The file of the history of the shell, in the state folder of the user (XDG base directory specification).

use std::env;
use std::path::PathBuf;

/// The path of the history file. Its folder exists. Without a home folder there is no history.
pub fn path() -> Option<PathBuf> {
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = match state {
        Some(state) => state,
        None => env::home_dir()?.join(".local").join("state"),
    };
    let folder = folder.join("whimbrel");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}
