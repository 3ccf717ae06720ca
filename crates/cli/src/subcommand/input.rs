//! The statements of a sub-command that reads them all before it runs the first.

use crate::arguments::Statements;
use crate::error::{Error, Result};
use std::io::{IsTerminal, Read};

/// The text of all statements, and the name of their file if they are in one.
///
/// # Errors
/// `Usage` if there are none; `Query` if the file cannot be read.
pub fn read(statements: &Statements) -> Result<(String, Option<String>)> {
    if let Some(text) = statements.inline() {
        return Ok((text.to_string(), None));
    }
    let file = statements.script.file.as_deref();
    if let Some(path) = file.filter(|path| path.as_os_str() != "-") {
        let text = std::fs::read_to_string(path).map_err(|error| Error::io(path.display(), &error))?;
        return Ok((text, Some(path.display().to_string())));
    }
    if file.is_none() && std::io::stdin().is_terminal() {
        let message = "there is no query; give it as an argument, or a file with -f";
        return Err(Error::Usage(message.into()));
    }
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Error::io("standard input", &error))?;
    Ok((text, None))
}
