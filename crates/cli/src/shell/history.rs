//! Where the history is kept: with the user's state, as the XDG base directory specification has it.

use std::env;
use std::path::PathBuf;

/// The history file, in a folder that exists; none if there is no home.
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
