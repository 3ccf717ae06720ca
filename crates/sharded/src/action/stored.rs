//! Results that are kept somewhere, and read by other queries with the same shards, times and key.

use super::table_format::TableFormat;
use crate::options::{Options, Output};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::sync::Arc;
use whimbrel_plan::nodes::TimeSpec;
use whimbrel_plan::{Source, Stream, column};
use whimbrel_temporal::{IngressOptions, Message};

/// How the result of a query is kept as rows, and read again.
///
/// ```
/// use std::sync::Arc;
/// use whimbrel_plan::{Series, Stream};
/// use whimbrel_sharded::Options;
/// use whimbrel_sharded::action::StoredResult;
///
/// let numbers = Stream::scan("numbers", Arc::new(Series::new("n", 0, 10, 1, true)?))?;
/// let stored = StoredResult::of(&numbers, &Options::default());
/// let again = stored.stream("again", Arc::new(Series::new("n", 0, 10, 1, true)?))?;
/// assert_eq!(again.schema(), numbers.schema());
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct StoredResult {
    format: TableFormat,
    output: Output,
    has_time: bool,
    key: Vec<String>,
}

impl StoredResult {
    /// The kept result of a query.
    pub fn of(stream: &Stream, options: &Options) -> StoredResult {
        let properties = stream.properties();
        let format = TableFormat::of(stream, options);
        let key = properties.key.iter().map(|key| format.name(key)).collect();
        StoredResult { format, output: options.output, has_time: properties.time.is_some(), key }
    }

    /// The columns of the rows: lifetimes are columns, too.
    pub fn schema(&self) -> SchemaRef {
        self.format.schema()
    }

    /// The rows of a message; none if it has none.
    ///
    /// # Errors
    /// `Execution` if a time has no place in its type.
    pub fn table(&self, message: &Message) -> Result<Option<RecordBatch>> {
        self.format.table(message)
    }

    /// The stream that reads the rows from where they are kept.
    ///
    /// # Errors
    /// `Plan` if the source has other columns.
    pub fn stream(&self, name: &str, source: Arc<dyn Source>) -> Result<Stream> {
        let mut stream = Stream::scan(name, source)?;
        if self.has_time {
            let time = match self.output {
                Output::Intervals => TimeSpec::interval("start", "end"),
                Output::Events => TimeSpec::edges("start", "end", "kind"),
            };
            stream = stream.ingress(time, IngressOptions::default())?;
        }
        match self.key.is_empty() {
            true => Ok(stream),
            false => stream.rekey(self.key.iter().map(column).collect()),
        }
    }
}
