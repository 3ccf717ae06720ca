//! Lines of text as batches of rows: JSON objects, or comma-separated values under a line of names.
//!
//! Invariants: no number is truncated to an integer, and the rows before a line that cannot be decoded are
//! returned.

use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json;
use datafusion::arrow::json::reader::infer_json_schema;
use datafusion::arrow::record_batch::RecordBatch;
use std::fmt;
use std::io::Cursor;
use std::sync::Arc;
use whimbrel_sql::Format;

/// Decodes lines.
///
/// ```
/// use whimbrel_session::lines::LineDecoder;
///
/// # fn main() -> Result<(), datafusion::arrow::error::ArrowError> {
/// let sample = b"{\"item\": \"tea\", \"price\": 2}\n";
/// let mut decoder = LineDecoder::infer(sample, None, None)?;
/// let (batches, failure) = decoder.decode(b"{\"item\": \"rum\", \"price\": 5}\n{\"price\": 2.5}\n");
/// assert_eq!(batches.len(), 1);
/// assert_eq!(failure.map(|error| error.line), Some(2));
/// # Ok(())
/// # }
/// ```
pub struct LineDecoder {
    schema: SchemaRef,
    /// The columns as they are decoded: integers of JSON as text, for the reason in `LineDecoder::new`.
    text_schema: SchemaRef,
    format: Format,
    decoder: Decoder,
    lines_read: usize,
}

/// The decoder of a format, from Arrow.
enum Decoder {
    Json(json::reader::Decoder),
    Csv(Box<csv::reader::Decoder>),
}

/// A line that cannot be decoded.
#[derive(Debug)]
pub struct LineError {
    /// Its number, counted from one.
    pub line: usize,
    /// What is wrong with it.
    pub error: ArrowError,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.error)
    }
}

impl std::error::Error for LineError {}

/// Whether lines begin with a JSON object.
pub fn is_json(lines: &[u8]) -> bool {
    lines.trim_ascii_start().starts_with(b"{")
}

impl LineDecoder {
    /// A decoder of this format into these columns.
    ///
    /// # Errors
    /// `NotYetImplemented` if the format is not one of lines.
    pub fn new(format: Format, schema: SchemaRef) -> Result<LineDecoder, ArrowError> {
        // Arrow's decoder truncates 2.5 to 2 where the column is an integer. A cast from text refuses it.
        let text_field = |field: &Arc<Field>| match (format, field.data_type().is_integer()) {
            (Format::Json, true) => Field::clone(field).with_data_type(DataType::Utf8),
            _ => Field::clone(field),
        };
        let text_schema = Arc::new(Schema::new(schema.fields().iter().map(text_field).collect::<Vec<_>>()));
        let decoder = Decoder::new(format, &text_schema, true)?;
        Ok(LineDecoder { schema, text_schema, format, decoder, lines_read: 0 })
    }

    /// A decoder of this format and into these columns. What is not given is inferred from a sample of lines.
    ///
    /// # Errors
    /// `ParseError` if the sample has no row; `NotYetImplemented` if the format is not one of lines.
    pub fn infer(
        sample: &[u8],
        format: Option<Format>,
        schema: Option<SchemaRef>,
    ) -> Result<LineDecoder, ArrowError> {
        let format = format.unwrap_or(if is_json(sample) { Format::Json } else { Format::Csv });
        match schema {
            Some(schema) => LineDecoder::new(format, schema),
            None => LineDecoder::new(format, infer_schema(sample, format)?),
        }
    }

    /// The columns of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The format of the lines.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Decodes complete lines: the rows before the first line that cannot be decoded, and its error.
    pub fn decode(&mut self, lines: &[u8]) -> (Vec<RecordBatch>, Option<LineError>) {
        match self.batches(lines) {
            Ok(batches) => (batches, None),
            Err(_) => {
                let mut batches = Vec::new();
                let failure = self.decode_each(lines, &mut batches);
                (batches, failure.err())
            }
        }
    }

    /// The same, line by line: slower, and knows which line is wrong.
    fn decode_each(&mut self, lines: &[u8], batches: &mut Vec<RecordBatch>) -> Result<(), LineError> {
        self.reset().map_err(|error| LineError { line: self.lines_read + 1, error })?;
        for text in lines.split_inclusive(|byte| *byte == b'\n') {
            let line = self.lines_read + 1;
            batches.extend(self.batches(text).map_err(|error| LineError { line, error })?);
        }
        Ok(())
    }

    /// Forgets the state of the decoder after a line that it could not read.
    fn reset(&mut self) -> Result<(), ArrowError> {
        let header = self.lines_read == 0;
        self.decoder = Decoder::new(self.format, &self.text_schema, header)?;
        Ok(())
    }

    /// Decodes complete lines.
    ///
    /// # Errors
    /// Those of the decoder, without the number of the line.
    fn batches(&mut self, mut lines: &[u8]) -> Result<Vec<RecordBatch>, ArrowError> {
        let count = lines.iter().filter(|byte| **byte == b'\n').count();
        let mut batches = Vec::new();
        while !lines.is_empty() {
            let read = match &mut self.decoder {
                Decoder::Json(decoder) => decoder.decode(lines)?,
                Decoder::Csv(decoder) => decoder.decode(lines)?,
            };
            lines = &lines[read..];
            // The decoder reads no further when its batch is full.
            let batch = match &mut self.decoder {
                Decoder::Json(decoder) => decoder.flush()?,
                Decoder::Csv(decoder) => decoder.flush()?,
            };
            match batch {
                Some(batch) => batches.push(self.cast(batch)?),
                None if read == 0 => break,
                None => {}
            }
        }
        self.lines_read += count;
        Ok(batches)
    }

    /// Casts the columns of a batch to the types of the schema.
    fn cast(&self, batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let columns = self.schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
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
    /// A decoder. `header`: the first line of CSV has the names of the columns.
    fn new(format: Format, schema: &SchemaRef, header: bool) -> Result<Decoder, ArrowError> {
        match format {
            Format::Json => {
                let reader = json::ReaderBuilder::new(schema.clone()).with_coerce_primitive(true);
                Ok(Decoder::Json(reader.build_decoder()?))
            }
            Format::Csv => {
                let reader = csv::ReaderBuilder::new(schema.clone()).with_header(header);
                Ok(Decoder::Csv(Box::new(reader.build_decoder())))
            }
            Format::Parquet | Format::Arrow => {
                let error = "its rows are lines: stored as json, or as csv with a line of names";
                Err(ArrowError::NotYetImplemented(error.to_string()))
            }
        }
    }
}

/// The columns of a sample of lines.
fn infer_schema(sample: &[u8], format: Format) -> Result<SchemaRef, ArrowError> {
    let schema: Schema = match format {
        Format::Json => infer_json_schema(Cursor::new(json_prefix(sample)), None)?.0,
        _ => csv::reader::Format::default().with_header(true).infer_schema(Cursor::new(sample), None)?.0,
    };
    if schema.fields().is_empty() {
        return Err(ArrowError::ParseError("there is no row".to_string()));
    }
    // A column without a value in the sample may get values of any type: text holds them all.
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Null => Field::clone(field).with_data_type(DataType::Utf8),
        _ => Field::clone(field),
    });
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// The lines before the first that is not JSON, if there are any. That line fails when it is decoded.
fn json_prefix(lines: &[u8]) -> &[u8] {
    let is_json_line = |line: &&[u8]| serde_json::from_slice::<serde_json::Value>(line).is_ok();
    let length: usize =
        lines.split_inclusive(|byte| *byte == b'\n').take_while(is_json_line).map(<[u8]>::len).sum();
    if length == 0 { lines } else { &lines[..length] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_count(batches: &[RecordBatch]) -> usize {
        batches.iter().map(RecordBatch::num_rows).sum()
    }

    #[test]
    fn rows_before_a_wrong_line_are_returned() {
        let mut decoder = LineDecoder::infer(b"{\"n\":1}\n", None, None).unwrap();
        assert_eq!(row_count(&decoder.decode(b"{\"n\":1}\n").0), 1);
        let (batches, error) = decoder.decode(b"{\"n\":2}\n{\"n\":2.5}\n{\"n\":3}\n");
        assert_eq!(row_count(&batches), 1);
        let error = error.unwrap().to_string();
        assert!(error.contains("line 3: Cast error: column \"n\": Cannot cast string '2.5'"), "{error}");
    }

    #[test]
    fn names_stand_in_the_first_line_of_csv_only() {
        let mut decoder = LineDecoder::infer(b"item,price\ntea,2\n", None, None).unwrap();
        assert_eq!(decoder.format(), Format::Csv);
        let (first, error) = decoder.decode(b"item,price\ntea,2\n");
        assert!(error.is_none());
        let (more, error) = decoder.decode(b"rum,5\nitem,7\n");
        assert!(error.is_none());
        assert_eq!((row_count(&first), row_count(&more)), (1, 2));
    }

    #[test]
    fn formats_without_lines_are_refused() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let refused = LineDecoder::new(Format::Parquet, schema);
        assert!(refused.is_err_and(|error| error.to_string().contains("its rows are lines")));
    }
}
