//! The width of the terminal.

use rustyline::history::MemHistory;
use rustyline::{Config, Editor};
use std::io::IsTerminal;

/// The width of a terminal that does not report it.
const DEFAULT_WIDTH: usize = 80;

/// The width of standard output, if it is a terminal.
pub fn width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let editor = Editor::<(), MemHistory>::with_history(Config::default(), MemHistory::new());
    let dimensions = editor.ok().and_then(|mut editor| editor.dimensions());
    Some(dimensions.map_or(DEFAULT_WIDTH, |(columns, _)| columns.into()).max(1))
}
