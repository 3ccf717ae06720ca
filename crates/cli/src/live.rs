//! Standard input as a table that grows, for queries that are kept up to date:
//! `tail -f clicks.jsonl | whimbrel sql --live "select item, count(*) from stdin group by item emit changes"`, or under
//! another name, with columns and a time, `create external table … location '-'`.
//!
//! A line is a JSON object, or values between commas under a line of names. Columns and types are those that were declared,
//! else those of the lines that are there when the first rows have come; later ones have to fit, and fields that are new in
//! them are left out. Lines that come together come together.

use crate::failure::{Failure, Outcome};
use crate::output::Format;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json;
use datafusion::arrow::json::reader::infer_json_schema;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, plan_err};
use std::io::{BufRead, BufReader, Cursor, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use whimbrel_sharded::dataset::{LiveDataset, LiveSender};

/// What the table is called, unless a statement gives it a name.
pub const NAME: &str = "stdin";

/// Where files are that are standard input.
pub const LOCATION: &str = "-";

/// How much is read at a time.
const CHUNK: usize = 1 << 16;

/// Standard input: it is read once, by whoever comes first.
#[derive(Default)]
pub struct StandardInput {
    reader: Mutex<Option<Reads>>,
    wrong: Arc<Mutex<Option<DataFusionError>>>,
}

/// Who reads standard input.
#[derive(Clone, Copy)]
enum Reads {
    /// The command: statements stand in it.
    Statements,
    /// A table, of rows in this form.
    Table(Format),
}

impl StandardInput {
    /// Leaves it to the command, which reads statements from it.
    pub fn has_statements(&self) {
        *self.reader() = Some(Reads::Statements);
    }

    /// The form of its rows, if it is a table.
    pub fn format(&self) -> Option<Format> {
        match *self.reader() {
            Some(Reads::Table(format)) => Some(format),
            _ => None,
        }
    }

    /// Its rows, in this form and with these columns. Where one of both is not known it waits for the first rows, which
    /// tell; from then on a thread reads.
    ///
    /// # Errors
    /// `Plan` if it is read already; `Execution` if the first rows cannot be read.
    pub fn rows(&self, format: Option<Format>, columns: Option<SchemaRef>) -> Result<Arc<LiveDataset>> {
        let mut reader = self.reader();
        match *reader {
            None => {}
            Some(Reads::Statements) => {
                return plan_err!(
                    "standard input has the statements, so no rows; give these as an argument, or a file with -f"
                );
            }
            Some(Reads::Table(_)) => return plan_err!("standard input is a table already, and is read once"),
        }
        let failed = |error: ArrowError| exec_datafusion_err!("standard input: {error}");
        let mut input = BufReader::with_capacity(CHUNK, std::io::stdin());
        let (lines, first) = match (format, columns) {
            (Some(format), Some(columns)) => (Lines::of(format, columns).map_err(failed)?, Vec::new()),
            (format, columns) => {
                let first = beginning(&mut input).map_err(|error| failed(error.into()))?;
                (Lines::like(&first, format, columns).map_err(failed)?, first)
            }
        };
        *reader = Some(Reads::Table(lines.format));
        let (dataset, mut senders) = LiveDataset::new(lines.schema.clone(), 1)?;
        let (told, sender) = (self.wrong.clone(), senders.remove(0));
        let read = move || {
            if let Err(error) = feed(lines, first, input, &sender) {
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        };
        std::thread::Builder::new().name(NAME.into()).spawn(read)?;
        Ok(dataset)
    }

    /// Fails if a line could not be read: what was computed is not of all rows.
    pub fn check(&self) -> Outcome {
        match self.wrong.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(Failure::Query(format!("standard input: {error}"))),
            None => Ok(()),
        }
    }

    /// A panic elsewhere leaves it whole: it is one value.
    fn reader(&self) -> MutexGuard<'_, Option<Reads>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first lines, at least one row of them, and whatever else is there already. Whole lines, unless it ends.
fn beginning(input: &mut BufReader<impl Read>) -> std::io::Result<Vec<u8>> {
    let mut first = Vec::new();
    let read = input.read_until(b'\n', &mut first)?;
    if read > 0 && !is_json(&first) {
        input.read_until(b'\n', &mut first)?;
    }
    let there = input.buffer();
    let whole = there.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    first.extend_from_slice(&there[..whole]);
    input.consume(whole);
    Ok(first)
}

fn is_json(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"{")
}

/// Hands on rows as they come, until there are no more, or nobody wants them.
fn feed(mut lines: Lines, first: Vec<u8>, mut input: impl BufRead, to: &LiveSender) -> Result<()> {
    let mut pending = first;
    loop {
        let whole = pending.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if !push(lines.rows(&pending[..whole])?, to) {
            return Ok(());
        }
        pending.drain(..whole);
        let there = input.fill_buf()?;
        let read = there.len();
        if read == 0 {
            // The last line may lack its end.
            pending.push(b'\n');
            push(lines.rows(&pending)?, to);
            return Ok(());
        }
        pending.extend_from_slice(there);
        input.consume(read);
    }
}

/// Whether somebody still wants rows.
fn push(rows: Vec<RecordBatch>, to: &LiveSender) -> bool {
    // A push fails if every query is over.
    rows.into_iter().all(|rows| to.push(rows).is_ok())
}

/// Lines to rows.
struct Lines {
    schema: SchemaRef,
    format: Format,
    decoder: Decoder,
}

enum Decoder {
    Json(json::reader::Decoder),
    Csv(Box<csv::reader::Decoder>),
}

impl Lines {
    /// Of this form and with these columns; else of those of the first lines.
    fn like(first: &[u8], format: Option<Format>, columns: Option<SchemaRef>) -> Result<Lines, ArrowError> {
        let told = if is_json(first) { Format::Json } else { Format::Csv };
        let format = format.unwrap_or(told);
        if let Some(columns) = columns {
            return Lines::of(format, columns);
        }
        let schema: Schema = match format {
            Format::Json => infer_json_schema(Cursor::new(first), None)?.0,
            _ => csv::reader::Format::default().with_header(true).infer_schema(Cursor::new(first), None)?.0,
        };
        match schema.fields().is_empty() {
            true => Err(ArrowError::ParseError("there is no row".to_string())),
            false => Lines::of(format, Arc::new(schema)),
        }
    }

    fn of(format: Format, schema: SchemaRef) -> Result<Lines, ArrowError> {
        let decoder = match format {
            Format::Json => Decoder::Json(json::ReaderBuilder::new(schema.clone()).build_decoder()?),
            Format::Csv => {
                let reader = csv::ReaderBuilder::new(schema.clone()).with_header(true);
                Decoder::Csv(Box::new(reader.build_decoder()))
            }
            _ => {
                let error = "its rows are lines: stored as json, or as csv with a line of names";
                return Err(ArrowError::NotYetImplemented(error.to_string()));
            }
        };
        Ok(Lines { schema, format, decoder })
    }

    /// The rows of whole lines.
    fn rows(&mut self, mut lines: &[u8]) -> Result<Vec<RecordBatch>, ArrowError> {
        let mut all = Vec::new();
        while !lines.is_empty() {
            let read = match &mut self.decoder {
                Decoder::Json(decoder) => decoder.decode(lines)?,
                Decoder::Csv(decoder) => decoder.decode(lines)?,
            };
            lines = &lines[read..];
            // It reads no further when a batch is full.
            let rows = match &mut self.decoder {
                Decoder::Json(decoder) => decoder.flush()?,
                Decoder::Csv(decoder) => decoder.flush()?,
            };
            match rows {
                Some(rows) => all.push(rows),
                None if read == 0 => break,
                None => {}
            }
        }
        Ok(all)
    }
}
