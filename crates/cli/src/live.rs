//! Standard input as a table that grows, for queries that are kept up to date:
//! `tail -f clicks.jsonl | whimbrel sql --live "select item, count(*) from stdin group by item emit changes"`.
//!
//! A line is a JSON object, or values between commas under a line of names. Columns and types are those of the lines that
//! are there when the first rows have come; later ones have to fit, and fields that are new in them are left out. Lines
//! that come together come together.

use crate::failure::{Failure, Outcome};
use crate::output::Format;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json;
use datafusion::arrow::json::reader::infer_json_schema;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use std::io::{BufRead, BufReader, Cursor, Read};
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_plan::Stream;
use whimbrel_sharded::dataset::{LiveDataset, LiveSender};

/// What the table is called.
pub const NAME: &str = "stdin";

/// How much is read at a time.
const CHUNK: usize = 1 << 16;

/// Standard input, and what became of it.
pub struct Live {
    /// Its rows.
    pub stream: Stream,
    /// The form of its lines, for results of the same form.
    pub format: Format,
    wrong: Arc<Mutex<Option<DataFusionError>>>,
}

impl Live {
    /// Waits for the first rows, to know the columns; from then on a thread reads.
    pub fn listen(input: impl Read + Send + 'static) -> Outcome<Live> {
        let mut input = BufReader::with_capacity(CHUNK, input);
        let first = beginning(&mut input).map_err(|error| Failure::io("standard input", &error))?;
        let failed = |error: DataFusionError| Failure::Query(format!("standard input: {error}"));
        let lines = Lines::like(&first).map_err(|error| failed(error.into()))?;
        let (dataset, mut senders) = LiveDataset::new(lines.schema.clone(), 1).map_err(failed)?;
        let stream = Stream::scan(NAME, dataset).map_err(failed)?;
        let format = lines.format;
        let wrong = Arc::new(Mutex::new(None));
        let (told, sender) = (wrong.clone(), senders.remove(0));
        let read = move || {
            if let Err(error) = feed(lines, first, input, &sender) {
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        };
        let thread = std::thread::Builder::new().name(NAME.into()).spawn(read);
        thread.map_err(|error| Failure::io("no thread for standard input", &error))?;
        Ok(Live { stream, format, wrong })
    }

    /// Fails if a line could not be read.
    pub fn end(self) -> Outcome {
        match self.wrong.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(Failure::Query(format!("standard input: {error}"))),
            None => Ok(()),
        }
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
    /// Of the form and with the columns of these.
    fn like(first: &[u8]) -> Result<Lines, ArrowError> {
        let nothing = |schema: &Schema| match schema.fields().is_empty() {
            true => Err(ArrowError::ParseError("there is no row".to_string())),
            false => Ok(()),
        };
        if is_json(first) {
            let schema = infer_json_schema(Cursor::new(first), None)?.0;
            nothing(&schema)?;
            let schema = Arc::new(schema);
            let decoder = json::ReaderBuilder::new(schema.clone()).build_decoder()?;
            return Ok(Lines { schema, format: Format::Json, decoder: Decoder::Json(decoder) });
        }
        let schema =
            csv::reader::Format::default().with_header(true).infer_schema(Cursor::new(first), None)?.0;
        nothing(&schema)?;
        let schema = Arc::new(schema);
        let decoder = csv::ReaderBuilder::new(schema.clone()).with_header(true).build_decoder();
        Ok(Lines { schema, format: Format::Csv, decoder: Decoder::Csv(Box::new(decoder)) })
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
