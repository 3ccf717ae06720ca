//! Where results go: to standard output, or into a file that appears only once it is complete.

use super::file_options::FileOptions;
use super::format::{Format, OutputOptions};
use super::writer::{ByteSink, RowWriter};
use super::{arrow, csv, json, line, markdown, parquet, table};
use crate::error::{Error, Result};
use crate::interrupt::Interrupts;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use whimbrel_plan::source::local_path;
use whimbrel_sharded::action::Partial;

/// The size of the write buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 16;

/// How often a wait looks for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Where results go.
#[derive(Debug, Clone)]
pub struct Target {
    /// The file; none for standard output.
    file: Option<PathBuf>,
    /// The number of results that were written.
    results: usize,
    /// Ctrl-C, while nobody reads the pipe that is written to.
    interrupts: Interrupts,
}

impl Target {
    /// A file, or standard output if there is no file or it is called `-`.
    pub fn new(file: Option<PathBuf>) -> Target {
        Target {
            file: file.filter(|path| path.as_os_str() != "-"),
            results: 0,
            interrupts: Interrupts::default(),
        }
    }

    /// Lets Ctrl-C end the wait for a reader, if the file is a pipe.
    pub fn interrupted_by(self, interrupts: &Interrupts) -> Target {
        Target { interrupts: interrupts.clone(), ..self }
    }

    /// The format of results: the one that is set, else that of the file's suffix, else a table.
    pub fn format(&self, options: &OutputOptions) -> Format {
        let of_suffix = || self.file.as_deref().and_then(Format::of_path);
        options.format.or_else(of_suffix).unwrap_or(Format::Table)
    }

    /// Whether rows appear on a terminal while the query runs.
    pub fn streams_to_terminal(&self, options: &OutputOptions) -> bool {
        self.file.is_none() && self.format(options).is_streamed() && std::io::stdout().is_terminal()
    }

    /// Opens a writer for the rows of one result. Results in a text format are appended; a binary file has
    /// one result.
    ///
    /// # Errors
    /// `Usage` if a terminal cannot show the format; `Query` if the file cannot be written; `OutputClosed`.
    pub fn open(
        &mut self,
        schema: &SchemaRef,
        output: &OutputOptions,
        file_options: &FileOptions,
    ) -> Result<ResultWriter> {
        let format = self.format(output);
        let mut file_options = file_options.clone();
        let (sink, partial) = match &self.file {
            None => {
                if !format.is_text() && std::io::stdout().is_terminal() {
                    let text =
                        "a terminal cannot show this format; name a file with -o, or redirect the output";
                    return Err(Error::Usage(text.into()));
                }
                file_options.ipc_stream = true;
                (Box::new(std::io::stdout()) as ByteSink, None)
            }
            Some(path) if self.results > 0 && !format.is_text() => {
                return Err(Error::Query(format!(
                    "{} has the rows of an earlier query already, and a file of this format has one result",
                    path.display()
                )));
            }
            Some(path) => {
                file_options.ipc_stream |= path.extension().is_some_and(|suffix| suffix == "arrows");
                open_file(path, self.results > 0, &self.interrupts)?
            }
        };
        let is_closed = Arc::new(AtomicBool::new(false));
        let pipe = Pipe { sink: BufWriter::with_capacity(BUFFER_BYTES, sink), is_closed: is_closed.clone() };
        let rows = row_writer(format, schema, Box::new(pipe), output, &file_options);
        let rows = rows.map_err(|error| {
            if is_closed.load(Ordering::Relaxed) {
                Error::OutputClosed
            } else {
                Error::in_statement(&error, "")
            }
        })?;
        self.results += 1;
        Ok(ResultWriter { rows, is_closed, partial, path: self.file.clone() })
    }

    /// Whether results go to standard output.
    pub fn is_stdout(&self) -> bool {
        self.file.is_none()
    }

    /// Whether results go to a terminal, which shows colors.
    pub fn is_terminal(&self) -> bool {
        self.file.is_none() && std::io::stdout().is_terminal()
    }

    /// Writes a text as it is.
    ///
    /// # Errors
    /// `Query` if it cannot be written; `OutputClosed`.
    pub fn write_text(&mut self, text: &str) -> Result {
        let Some(path) = &self.file else {
            let mut out = std::io::stdout().lock();
            let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            return written.map_err(|error| Error::io("standard output", &error));
        };
        let (mut sink, partial) = open_file(path, self.results > 0, &self.interrupts)?;
        let written = sink.write_all(text.as_bytes()).and_then(|()| sink.flush());
        written.map_err(|error| Error::io(path.display(), &error))?;
        drop(sink);
        publish(partial, Some(path))?;
        self.results += 1;
        Ok(())
    }
}

/// A writer of rows in a format.
fn row_writer(
    format: Format,
    schema: &SchemaRef,
    sink: ByteSink,
    output: &OutputOptions,
    file_options: &FileOptions,
) -> Result<Box<dyn RowWriter>, DataFusionError> {
    Ok(match format {
        Format::Table => Box::new(table::Table::new(schema.clone(), sink, output)),
        Format::Csv => Box::new(csv::Csv::new(schema, sink, file_options)?),
        Format::Json => Box::new(json::Json::new(sink)),
        Format::Parquet => Box::new(parquet::Parquet::new(schema, sink, file_options)?),
        Format::Arrow => Box::new(arrow::Arrow::new(schema, sink, file_options)?),
        Format::Markdown => Box::new(markdown::Markdown::new(schema, sink)?),
        Format::Line => Box::new(line::Line::new(schema, sink)),
    })
}

/// Opens a file. A new or replaced one gets its name once it is complete. What is not a regular file, such as
/// `/dev/null`, is written directly.
fn open_file(path: &Path, append: bool, interrupts: &Interrupts) -> Result<(ByteSink, Option<Partial>)> {
    let path = match path.to_str() {
        Some(text) => local_path(text).map_err(|error| Error::in_statement(&error, ""))?,
        None => path,
    };
    let failed = |error: std::io::Error| Error::io(path.display(), &error);
    let is_special = path.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir());
    if append || is_special {
        let file = open_existing(path, append, is_special, interrupts)?;
        return Ok((Box::new(file), None));
    }
    if path.is_dir() {
        return Err(Error::Query(format!("{} is a folder; name a file in it", path.display())));
    }
    if matches!(path.extension().and_then(|suffix| suffix.to_str()), Some("gz" | "zst")) {
        let uncompressed = path.with_extension("");
        return Err(Error::Query(format!(
            "{} would be packed by its name, and files are written as they are; write {} and pack it",
            path.display(),
            uncompressed.display()
        )));
    }
    let partial = Partial::create(path).map_err(failed)?;
    let file = partial.file().map_err(failed)?;
    Ok((Box::new(file), Some(partial)))
}

/// Opens a file as it is. That of a pipe waits for a reader, on a thread of its own, and Ctrl-C ends the
/// wait.
fn open_existing(path: &Path, append: bool, is_special: bool, interrupts: &Interrupts) -> Result<File> {
    let open = move |path: &Path| OpenOptions::new().append(append).write(true).open(path);
    let failed = |error: std::io::Error| Error::io(path.display(), &error);
    if !is_special {
        return open(path).map_err(failed);
    }
    let (opened, receiver) = channel();
    let pipe = path.to_path_buf();
    let thread = std::thread::Builder::new().name("open".into());
    thread.spawn(move || opened.send(open(&pipe))).map_err(failed)?;
    loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(file) => return file.map_err(failed),
            Err(_) if interrupts.pressed() => return Err(Error::Interrupted),
            Err(_) => {}
        }
    }
}

/// Gives a complete file its name.
fn publish(partial: Option<Partial>, path: Option<&Path>) -> Result {
    let failed = |error| Error::io(path.unwrap_or(Path::new("the file")).display(), &error);
    partial.map_or(Ok(()), |partial| partial.publish().map_err(failed))
}

/// An open target: writes the rows of one result.
pub struct ResultWriter {
    rows: Box<dyn RowWriter>,
    is_closed: Arc<AtomicBool>,
    partial: Option<Partial>,
    path: Option<PathBuf>,
}

impl ResultWriter {
    /// Writes more rows.
    ///
    /// # Errors
    /// Those of the format's writer.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), DataFusionError> {
        self.rows.write(rows)
    }

    /// Writes what is left after the last row; a file gets its name.
    ///
    /// # Errors
    /// `Query` if it cannot be written; `OutputClosed`.
    pub fn finish(self) -> Result {
        match self.rows.finish() {
            Ok(()) => publish(self.partial, self.path.as_deref()),
            Err(_) if self.is_closed.load(Ordering::Relaxed) => Err(Error::OutputClosed),
            Err(error) => Err(Error::in_statement(&error, "")),
        }
    }

    /// Whether the reader of the output has closed it.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }
}

/// A buffered sink that records when its reader has closed it. The errors of the formats' writers do not
/// tell.
struct Pipe {
    sink: BufWriter<ByteSink>,
    is_closed: Arc<AtomicBool>,
}

impl Pipe {
    /// Records whether the reader has closed the sink.
    fn record<T>(&self, result: std::io::Result<T>) -> std::io::Result<T> {
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            self.is_closed.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.sink.write(bytes);
        self.record(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = self.sink.flush();
        self.record(flushed)
    }
}
