//! Standard input as a table that grows, for queries that are kept up to date:
//! `tail -f clicks.jsonl | whimbrel sql --live "select item, count(*) from stdin group by item emit changes"`, or under
//! another name, with columns and a time, `create external table … location '-'`.
//!
//! A line is a JSON object, or values between commas under a line of names. Columns and types are those that were declared,
//! else those of the lines that are there when the first rows have come; later ones have to fit, and fields that are new in
//! them are left out. Lines that come together come together.
//!
//! Invariants: no number is cut to a whole one, and the rows before a line that is wrong are handed on.

use crate::failure::{Failure, Outcome};
use crate::output::Format;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
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

/// The lines before the first that is no JSON, if there are any: it is told when its turn comes.
fn readable(lines: &[u8]) -> &[u8] {
    let is_whole = |line: &&[u8]| serde_json::from_slice::<serde_json::Value>(line).is_ok();
    let whole: usize =
        lines.split_inclusive(|byte| *byte == b'\n').take_while(is_whole).map(<[u8]>::len).sum();
    if whole == 0 { lines } else { &lines[..whole] }
}

/// Hands on rows as they come, until there are no more, or nobody wants them.
fn feed(mut lines: Lines, first: Vec<u8>, mut input: impl BufRead, to: &LiveSender) -> Result<()> {
    let mut pending = first;
    loop {
        let whole = pending.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if !push(&mut lines, &pending[..whole], to)? {
            return Ok(());
        }
        pending.drain(..whole);
        let there = input.fill_buf()?;
        let read = there.len();
        if read == 0 {
            // The last line may lack its end.
            pending.push(b'\n');
            push(&mut lines, &pending, to)?;
            return Ok(());
        }
        pending.extend_from_slice(there);
        input.consume(read);
    }
}

/// Whether somebody still wants rows.
fn push(lines: &mut Lines, text: &[u8], to: &LiveSender) -> Result<bool> {
    let send = |rows: Vec<RecordBatch>| rows.into_iter().all(|rows| to.push(rows).is_ok());
    match lines.rows(text) {
        // A push fails if every query is over.
        Ok(rows) => Ok(send(rows)),
        Err(_) => {
            lines.begin_again()?;
            for line in text.split_inclusive(|byte| *byte == b'\n') {
                let read = lines.read;
                let rows =
                    lines.rows(line).map_err(|error| exec_datafusion_err!("line {}: {error}", read + 1))?;
                if !send(rows) {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// Lines to rows.
struct Lines {
    schema: SchemaRef,
    /// The columns as they are decoded: whole numbers as text.
    text: SchemaRef,
    format: Format,
    decoder: Decoder,
    /// How many lines have been read.
    read: usize,
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
            Format::Json => infer_json_schema(Cursor::new(readable(first)), None)?.0,
            _ => csv::reader::Format::default().with_header(true).infer_schema(Cursor::new(first), None)?.0,
        };
        // Whatever comes where nothing has been yet can be told as text.
        let told = |field: &Arc<Field>| match field.data_type() {
            DataType::Null => Field::clone(field).with_data_type(DataType::Utf8),
            _ => Field::clone(field),
        };
        match schema.fields().is_empty() {
            true => Err(ArrowError::ParseError("there is no row".to_string())),
            false => {
                Lines::of(format, Arc::new(Schema::new(schema.fields().iter().map(told).collect::<Vec<_>>())))
            }
        }
    }

    fn of(format: Format, schema: SchemaRef) -> Result<Lines, ArrowError> {
        // The library's decoders cut 2.5 to 2 where a whole number is wanted.
        let text = |field: &Arc<Field>| match (format, field.data_type().is_integer()) {
            (Format::Json, true) => Field::clone(field).with_data_type(DataType::Utf8),
            _ => Field::clone(field),
        };
        let text = Arc::new(Schema::new(schema.fields().iter().map(text).collect::<Vec<_>>()));
        let decoder = Decoder::of(format, &text, true)?;
        Ok(Lines { schema, text, format, decoder, read: 0 })
    }

    /// Forgets lines of which one was wrong.
    fn begin_again(&mut self) -> Result<(), ArrowError> {
        let header = self.read == 0;
        self.decoder = Decoder::of(self.format, &self.text, header)?;
        Ok(())
    }

    /// The rows of whole lines.
    fn rows(&mut self, mut lines: &[u8]) -> Result<Vec<RecordBatch>, ArrowError> {
        let many = lines.iter().filter(|byte| **byte == b'\n').count();
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
                Some(rows) => all.push(self.typed(rows)?),
                None if read == 0 => break,
                None => {}
            }
        }
        self.read += many;
        Ok(all)
    }

    /// Rows in the types of their columns.
    fn typed(&self, rows: RecordBatch) -> Result<RecordBatch, ArrowError> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let columns = self.schema.fields().iter().zip(rows.columns()).map(|(field, column)| {
            cast_with_options(column, field.data_type(), &options).map_err(|error| match error {
                ArrowError::CastError(error) => {
                    ArrowError::CastError(format!("column \"{}\": {error}", field.name()))
                }
                error => error,
            })
        });
        RecordBatch::try_new(self.schema.clone(), columns.collect::<Result<_, _>>()?)
    }
}

impl Decoder {
    /// The names of columns stand in the first line of CSV only.
    fn of(format: Format, schema: &SchemaRef, header: bool) -> Result<Decoder, ArrowError> {
        match format {
            Format::Json => {
                let reader = json::ReaderBuilder::new(schema.clone()).with_coerce_primitive(true);
                Ok(Decoder::Json(reader.build_decoder()?))
            }
            Format::Csv => {
                let reader = csv::ReaderBuilder::new(schema.clone()).with_header(header);
                Ok(Decoder::Csv(Box::new(reader.build_decoder())))
            }
            _ => {
                let error = "its rows are lines: stored as json, or as csv with a line of names";
                Err(ArrowError::NotYetImplemented(error.to_string()))
            }
        }
    }
}
