//! Where results go: to standard output or into a file, which is there only once it is complete.

use super::{Bytes, Format, Look, Rows, Writing, rows};
use crate::failure::{Failure, Outcome};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::fs::OpenOptions;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use whimbrel_sharded::action::Partial;

/// How many bytes are gathered before they are written.
const BUFFER: usize = 1 << 16;

/// Where results go.
#[derive(Debug, Clone)]
pub struct Target {
    file: Option<PathBuf>,
    results: usize,
}

impl Target {
    /// Into this file; to standard output, if there is none or it is called `-`.
    pub fn new(file: Option<PathBuf>) -> Target {
        Target { file: file.filter(|path| path.as_os_str() != "-"), results: 0 }
    }

    /// The form that results have here.
    pub fn format(&self, look: &Look) -> Format {
        let guessed = || self.file.as_deref().and_then(Format::of_path);
        look.format.or_else(guessed).unwrap_or(Format::Table)
    }

    /// Whether rows appear on a terminal while the query runs.
    pub fn rows_run_over_terminal(&self, look: &Look) -> bool {
        self.file.is_none() && self.format(look).streams() && std::io::stdout().is_terminal()
    }

    /// Opens it for the rows of one result. Text after text is appended; a binary file has one result.
    pub fn open(&mut self, schema: &SchemaRef, look: &Look, writing: &Writing) -> Outcome<Shown> {
        let format = self.format(look);
        let mut writing = writing.clone();
        let (bytes, partial) = match &self.file {
            None => {
                if !format.is_text() && std::io::stdout().is_terminal() {
                    let text =
                        "a terminal cannot show this format; name a file with -o, or redirect the output";
                    return Err(Failure::Usage(text.into()));
                }
                writing.stream = true;
                (Box::new(std::io::stdout()) as Bytes, None)
            }
            Some(path) if self.results > 0 && !format.is_text() => {
                return Err(Failure::Query(format!(
                    "{} has the rows of an earlier query already, and a file of this format has one result",
                    path.display()
                )));
            }
            Some(path) => {
                writing.stream |= path.extension().is_some_and(|suffix| suffix == "arrows");
                open(path, self.results > 0)?
            }
        };
        let closed = Arc::new(AtomicBool::new(false));
        let pipe = Pipe { to: BufWriter::with_capacity(BUFFER, bytes), closed: closed.clone() };
        let rows = rows(format, schema, Box::new(pipe), look, &writing).map_err(|error| {
            if closed.load(Ordering::Relaxed) { Failure::Closed } else { Failure::of(&error, "") }
        })?;
        self.results += 1;
        Ok(Shown { rows, closed, partial, path: self.file.clone() })
    }

    /// Whether results go to standard output.
    pub fn is_stdout(&self) -> bool {
        self.file.is_none()
    }

    /// Whether results go to somebody who sees colors.
    pub fn is_terminal(&self) -> bool {
        self.file.is_none() && std::io::stdout().is_terminal()
    }

    /// Writes a text as it is.
    pub fn text(&mut self, text: &str) -> Outcome {
        let Some(path) = &self.file else {
            let mut out = std::io::stdout().lock();
            let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            return written.map_err(|error| Failure::io("standard output", &error));
        };
        let (mut bytes, partial) = open(path, self.results > 0)?;
        let written = bytes.write_all(text.as_bytes()).and_then(|()| bytes.flush());
        written.map_err(|error| Failure::io(path.display(), &error))?;
        drop(bytes);
        publish(partial, Some(path))?;
        self.results += 1;
        Ok(())
    }
}

/// Opens a file for writing. A new or replaced one gets its name when it is complete; what is not a plain file,
/// such as `/dev/null`, is written as it is.
fn open(path: &Path, append: bool) -> Outcome<(Bytes, Option<Partial>)> {
    let failed = |error: std::io::Error| Failure::io(path.display(), &error);
    let special = path.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir());
    if append || special {
        let file = OpenOptions::new().append(append).write(true).open(path).map_err(failed)?;
        return Ok((Box::new(file), None));
    }
    if path.is_dir() {
        return Err(Failure::Query(format!("{} is a folder; name a file in it", path.display())));
    }
    if matches!(path.extension().and_then(|suffix| suffix.to_str()), Some("gz" | "zst")) {
        let plain = path.with_extension("");
        return Err(Failure::Query(format!(
            "{} would be packed by its name, and files are written as they are; write {} and pack it",
            path.display(),
            plain.display()
        )));
    }
    let partial = Partial::create(path).map_err(failed)?;
    let file = partial.file().map_err(failed)?;
    Ok((Box::new(file), Some(partial)))
}

fn publish(partial: Option<Partial>, path: Option<&Path>) -> Outcome {
    let failed = |error| Failure::io(path.unwrap_or(Path::new("the file")).display(), &error);
    partial.map_or(Ok(()), |partial| partial.publish().map_err(failed))
}

/// An open target: takes the rows of one result.
pub struct Shown {
    rows: Box<dyn Rows>,
    closed: Arc<AtomicBool>,
    partial: Option<Partial>,
    path: Option<PathBuf>,
}

impl Shown {
    /// Takes more rows.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.rows.write(rows)
    }

    /// There are no more rows; a file gets its name.
    pub fn finish(self) -> Outcome {
        match self.rows.finish() {
            Ok(()) => publish(self.partial, self.path.as_deref()),
            Err(_) if self.closed.load(Ordering::Relaxed) => Err(Failure::Closed),
            Err(error) => Err(Failure::of(&error, "")),
        }
    }

    /// Whether whoever read it went away.
    pub fn closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

/// Writes, and remembers if the reader went away: the formats' writers do not keep errors apart.
struct Pipe {
    to: BufWriter<Bytes>,
    closed: Arc<AtomicBool>,
}

impl Pipe {
    fn noted<T>(&self, result: std::io::Result<T>) -> std::io::Result<T> {
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            self.closed.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes);
        self.noted(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = self.to.flush();
        self.noted(flushed)
    }
}
