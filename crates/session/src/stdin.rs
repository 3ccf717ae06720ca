//! Standard input as a live table, for queries whose results are kept up to date: `tail -f clicks.jsonl |
//! whimbrel sql --live "select item, count(*) from stdin group by item emit changes"`, or with a name,
//! columns and a time of its own, `create external table … location '-'`.
//!
//! Columns and types are those that were declared, else those of the lines that are there when the first row
//! has come. Later lines have to fit; fields that are new in them are left out. Lines that come together form
//! one batch.

use crate::lines::{LineDecoder, is_json};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, plan_err};
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use whimbrel_sharded::dataset::{LiveDataset, LiveSender};
use whimbrel_sql::Format;

/// The name of the table, unless a statement gives it one.
pub const NAME: &str = "stdin";

/// The location that names standard input in place of a file.
pub const LOCATION: &str = "-";

/// The size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 16;

/// Standard input. It has one reader, the first that asks for it.
#[derive(Default)]
pub struct StandardInput {
    reader: Mutex<Option<Reader>>,
    failure: Arc<Mutex<Option<DataFusionError>>>,
}

/// Who reads standard input.
#[derive(Clone, Copy)]
enum Reader {
    /// Whoever runs the statements that stand in it.
    Script,
    /// A table, whose rows have this format.
    Table(Format),
}

impl StandardInput {
    /// Keeps it for a script of statements: it cannot be a table any more.
    pub fn reserve_for_script(&self) {
        *self.reader() = Some(Reader::Script);
    }

    /// The format of its rows, if it is a table.
    pub fn format(&self) -> Option<Format> {
        match *self.reader() {
            Some(Reader::Table(format)) => Some(format),
            _ => None,
        }
    }

    /// Opens it as a table of this format and with these columns. If one of them is not given, waits for the
    /// first row and infers it. From then on a thread reads.
    ///
    /// # Errors
    /// `Plan` if it has a reader already; `Execution` if the first row cannot be read.
    pub fn open(&self, format: Option<Format>, columns: Option<SchemaRef>) -> Result<Arc<LiveDataset>> {
        let mut reader = self.reader();
        match *reader {
            None => {}
            Some(Reader::Script) => {
                return plan_err!(
                    "standard input has the statements, so no rows; give these as an argument, or a file with -f"
                );
            }
            Some(Reader::Table(_)) => {
                return plan_err!("standard input is a table already, and is read once");
            }
        }
        let failed = |error: ArrowError| exec_datafusion_err!("standard input: {error}");
        let mut input = BufReader::with_capacity(BUFFER_BYTES, std::io::stdin());
        let (decoder, first) = match (format, columns) {
            (Some(format), Some(columns)) => (LineDecoder::new(format, columns).map_err(failed)?, Vec::new()),
            (format, columns) => {
                let first = first_lines(&mut input).map_err(|error| failed(error.into()))?;
                (LineDecoder::infer(&first, format, columns).map_err(failed)?, first)
            }
        };
        *reader = Some(Reader::Table(decoder.format()));
        let (dataset, mut senders) = LiveDataset::new(decoder.schema().clone(), 1)?;
        let (failure, sender) = (self.failure.clone(), senders.remove(0));
        let read = move || {
            if let Err(error) = feed(decoder, first, input, &sender) {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        };
        std::thread::Builder::new().name(NAME.into()).spawn(read)?;
        Ok(dataset)
    }

    /// Takes the error of a line that could not be read. With one, results are not those of all rows.
    pub fn take_failure(&self) -> Option<DataFusionError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The reader is consistent after a panic of another thread: it is one value.
    fn reader(&self) -> MutexGuard<'_, Option<Reader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first row and whatever lines are in the buffer by then. All lines are complete, unless the input has
/// ended.
fn first_lines(input: &mut BufReader<impl Read>) -> std::io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    let read = input.read_until(b'\n', &mut lines)?;
    if read > 0 && !is_json(&lines) {
        // The line above was that of the names.
        input.read_until(b'\n', &mut lines)?;
    }
    let buffered = input.buffer();
    let complete = complete_lines(buffered);
    lines.extend_from_slice(&buffered[..complete]);
    input.consume(complete);
    Ok(lines)
}

/// The length of the lines that have an end.
fn complete_lines(text: &[u8]) -> usize {
    text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

/// Sends rows as they come, until the input ends or no query reads them.
fn feed(
    mut decoder: LineDecoder,
    first: Vec<u8>,
    mut input: impl BufRead,
    sender: &LiveSender,
) -> Result<()> {
    let mut pending = first;
    loop {
        let complete = complete_lines(&pending);
        if !send(&mut decoder, &pending[..complete], sender)? {
            return Ok(());
        }
        pending.drain(..complete);
        let buffered = input.fill_buf()?;
        let read = buffered.len();
        if read == 0 {
            // The last line may lack its end.
            pending.push(b'\n');
            send(&mut decoder, &pending, sender)?;
            return Ok(());
        }
        pending.extend_from_slice(buffered);
        input.consume(read);
    }
}

/// Sends the rows of some lines; whether a query still reads them.
fn send(decoder: &mut LineDecoder, lines: &[u8], sender: &LiveSender) -> Result<bool> {
    let (batches, failure) = decoder.decode(lines);
    // A push fails if every query has ended.
    let is_read = batches.into_iter().all(|batch| sender.push(batch).is_ok());
    match failure {
        Some(error) if is_read => Err(exec_datafusion_err!("{error}")),
        _ => Ok(is_read),
    }
}
