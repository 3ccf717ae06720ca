//! How wide the terminal is.

use rustyline::history::MemHistory;
use rustyline::{Config, Editor};
use std::io::IsTerminal;

/// How wide a terminal is taken to be that does not say it.
const USUAL: usize = 80;

/// How wide standard output is, if it is a terminal.
pub fn width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let editor = Editor::<(), MemHistory>::with_history(Config::default(), MemHistory::new());
    let dimensions = editor.ok().and_then(|mut editor| editor.dimensions());
    Some(dimensions.map_or(USUAL, |(columns, _)| columns.into()).max(1))
}
