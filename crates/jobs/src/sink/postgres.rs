//! A table of PostgreSQL as a sink.
//!
//! The rows of an epoch and its number are one transaction. The number is kept in `whimbrel_progress`,
//! one row for each job and table, together with the generation of the run: a run that finds a higher one
//! there than its own has been replaced and stops. A connection that breaks leaves open whether its
//! transaction was committed; the row says so to the next connection, and the rows are sent again only if
//! they are not there.

use super::{Run, Sink};
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{DataFusionError, Result, plan_err};
use futures::SinkExt;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, Config, NoTls};
use whimbrel_plan::source::redacted;
use whimbrel_sharded::error::unavailable;

/// For how long a connection that broke is tried again.
const RETRY: Duration = Duration::from_secs(60);

/// How long a server may take for a connection, and for saying that it is there while it works.
const ANSWER: Duration = Duration::from_secs(20);

/// Writes rows into a table.
pub struct PostgresSink {
    config: Config,
    table: String,
    url: String,
    runtime: Runtime,
    client: Option<Client>,
    run: Option<Run>,
    /// The rows that are not committed yet, in the text format of `copy`.
    rows: String,
}

/// Why an epoch was not committed.
enum Failure {
    /// The connection may be broken: another one may do it.
    Connection(String),
    Fatal(DataFusionError),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        use tokio_postgres::error::SqlState;
        // Another transaction was in the way, or the server ends.
        let again = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
        ];
        match error.as_db_error() {
            Some(refused) if !again.contains(refused.code()) => {
                Failure::Fatal(DataFusionError::Execution(format!("PostgreSQL: {}", refused.message())))
            }
            _ => Failure::Connection(error.to_string()),
        }
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Failure {
        Failure::Fatal(error)
    }
}

impl PostgresSink {
    /// A sink for `postgres://user:password@host:port/database?table=name`; the table is made if need be.
    ///
    /// # Errors
    /// `Plan` if the address is none, or names no table.
    pub fn new(url: &str) -> Result<PostgresSink> {
        let shown = redacted(url);
        let (address, settings) = url.split_once('?').unwrap_or((url, ""));
        let (tables, others): (Vec<&str>, Vec<&str>) =
            settings.split('&').filter(|s| !s.is_empty()).partition(|s| s.starts_with("table="));
        let [table] = tables.as_slice() else {
            return plan_err!("`{shown}` names no table; add ?table=name");
        };
        let address = match others.is_empty() {
            true => address.to_string(),
            false => format!("{address}?{}", others.join("&")),
        };
        let config = match address.parse() {
            Ok(config) => with_timeouts(config),
            Err(error) => return plan_err!("`{shown}`: {error}"),
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| DataFusionError::ResourcesExhausted(e.to_string()))?;
        let table = table["table=".len()..].split('.').map(quoted).collect::<Vec<_>>().join(".");
        Ok(PostgresSink { config, table, url: shown, runtime, client: None, run: None, rows: String::new() })
    }

    /// Does something in the database; once more on another connection if the first one breaks.
    fn with_retries<T>(&mut self, act: impl Fn(&mut PostgresSink) -> Result<T, Failure>) -> Result<T> {
        let until = Instant::now() + RETRY;
        let mut pause = Duration::from_millis(50);
        loop {
            let error = match self.connect().and_then(|()| act(self)) {
                Ok(done) => return Ok(done),
                Err(Failure::Fatal(error)) => return Err(error),
                Err(Failure::Connection(error)) => error,
            };
            self.client = None;
            let is_stopped = self.run.as_ref().is_some_and(|run| run.is_stopped.load(Ordering::Acquire));
            if is_stopped || Instant::now() + pause > until {
                let message = format!("{}: {error}; begin the job again once the server answers", self.url);
                return Err(unavailable(message));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }

    fn connect(&mut self) -> Result<(), Failure> {
        if self.client.as_ref().is_some_and(|client| !client.is_closed()) {
            return Ok(());
        }
        let client = async {
            let (client, connection) = self.config.connect(NoTls).await?;
            tokio::spawn(connection);
            client.batch_execute("set synchronous_commit = on; set lock_timeout = '20s'").await?;
            Ok::<_, tokio_postgres::Error>(client)
        };
        let client = self.runtime.block_on(async { tokio::time::timeout(ANSWER, client).await });
        let Ok(client) = client else {
            return Err(Failure::Connection(format!("no connection within {ANSWER:?}")));
        };
        self.client = Some(client?);
        Ok(())
    }

    fn client(&mut self) -> Result<(&mut Client, &Runtime), Failure> {
        match &mut self.client {
            Some(client) => Ok((client, &self.runtime)),
            None => Err(DataFusionError::Internal("there is no connection".to_string()).into()),
        }
    }

    /// Makes the tables, and takes the row of the job over.
    fn take_over(&mut self, run: &Run) -> Result<Option<u64>, Failure> {
        let (table, columns) = (self.table.clone(), column_definitions(&run.schema)?);
        let (client, runtime) = self.client()?;
        runtime.block_on(async {
            let transaction = client.transaction().await?;
            let tables = format!(
                "select pg_advisory_xact_lock(7766554434); \
                 create table if not exists whimbrel_progress (job text, target text, generation bigint not null, \
                 epoch bigint not null, primary key (job, target)); \
                 create table if not exists {table} ({columns})"
            );
            transaction.batch_execute(&tables).await?;
            let upsert = "insert into whimbrel_progress values ($1, $2, $3, 0) \
                 on conflict (job, target) do update set generation = excluded.generation \
                 where whimbrel_progress.generation <= excluded.generation returning epoch";
            let row = transaction.query_opt(upsert, &[&run.job, &table, &(run.generation as i64)]).await?;
            let Some(row) = row else {
                transaction.rollback().await?;
                return Err(DataFusionError::Execution(replaced(run)).into());
            };
            transaction.commit().await?;
            let epoch: i64 = row.get(0);
            Ok((epoch > 0).then_some(epoch as u64))
        })
    }

    /// Commits rows as the epochs up to this one, unless that was done before.
    fn copy(&mut self, epoch: u64) -> Result<(), Failure> {
        let Some(run) = self.run.clone() else {
            return Err(DataFusionError::Internal("a sink is used before it is open".to_string()).into());
        };
        let (table, rows) = (self.table.clone(), self.rows.clone());
        let names: Vec<String> = run.schema.fields().iter().map(|field| quoted(field.name())).collect();
        let (client, runtime) = self.client()?;
        runtime.block_on(async {
            let transaction = client.transaction().await?;
            let progress =
                "select generation, epoch from whimbrel_progress where job = $1 and target = $2 for update";
            let row = transaction.query_one(progress, &[&run.job, &table]).await?;
            let (generation, committed): (i64, i64) = (row.get(0), row.get(1));
            // The row is locked until the transaction ends, and it ends only while somebody waits for it.
            if generation > run.generation as i64 {
                transaction.rollback().await?;
                return Err(DataFusionError::Execution(replaced(&run)).into());
            }
            if committed >= epoch as i64 {
                return Ok(transaction.rollback().await?);
            }
            if !rows.is_empty() {
                let statement = format!("copy {table} ({}) from stdin", names.join(", "));
                let copy = transaction.copy_in(&statement).await?;
                let mut copy = std::pin::pin!(copy);
                copy.send(std::io::Cursor::new(rows.into_bytes())).await?;
                copy.finish().await?;
            }
            let update = "update whimbrel_progress set epoch = $3 where job = $1 and target = $2";
            transaction.execute(update, &[&run.job, &table, &(epoch as i64)]).await?;
            Ok(transaction.commit().await?)
        })
    }
}

impl Sink for PostgresSink {
    fn open(&mut self, run: &Run) -> Result<Option<u64>> {
        let committed = self.with_retries(|sink| sink.take_over(run))?;
        self.run = Some(run.clone());
        Ok(committed)
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        append_rows(&mut self.rows, rows)
    }

    fn commit(&mut self, epoch: u64) -> Result<()> {
        self.with_retries(|sink| sink.copy(epoch))?;
        self.rows.clear();
        Ok(())
    }

    fn is_due(&self) -> bool {
        !self.rows.is_empty()
    }
}

/// Sets what the address leaves open. Without it, a server that is cut off would be waited for as long as the
/// system does: for hours.
fn with_timeouts(mut config: Config) -> Config {
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(ANSWER);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_idle(ANSWER).keepalives_interval(ANSWER / 4).keepalives_retries(3);
    }
    config
}

fn replaced(run: &Run) -> String {
    format!("another process goes on with this job; run {} of it stops", run.generation)
}

/// A name as PostgreSQL reads it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The columns of the table that is made.
fn column_definitions(schema: &Schema) -> Result<String> {
    let column = |field: &arrow::datatypes::FieldRef| -> Result<String> {
        Ok(format!("{} {}", quoted(field.name()), column_type(field.name(), field.data_type())?))
    };
    Ok(schema.fields().iter().map(column).collect::<Result<Vec<_>>>()?.join(", "))
}

/// The type of PostgreSQL that has all values of a type.
fn column_type(name: &str, data_type: &DataType) -> Result<String> {
    Ok(match data_type {
        DataType::Boolean => "boolean".to_string(),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => "smallint".to_string(),
        DataType::Int32 | DataType::UInt16 => "integer".to_string(),
        DataType::Int64 | DataType::UInt32 => "bigint".to_string(),
        DataType::UInt64 => "numeric(20, 0)".to_string(),
        DataType::Float16 | DataType::Float32 => "real".to_string(),
        DataType::Float64 => "double precision".to_string(),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => format!("numeric({precision}, {scale})"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".to_string(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea".to_string(),
        DataType::Date32 | DataType::Date64 => "date".to_string(),
        DataType::Time32(_) | DataType::Time64(_) => "time".to_string(),
        DataType::Timestamp(_, None) => "timestamp".to_string(),
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone".to_string(),
        DataType::Dictionary(_, values) => column_type(name, values)?,
        other => {
            return plan_err!(
                "column `{name}` is {other}, for which a table of PostgreSQL has no type; cast it, to text for example"
            );
        }
    })
}

/// Appends rows in the text format of `copy`: columns between tabs, `\N` for null, backslashes before
/// what would end a value.
fn append_rows(text: &mut String, rows: &RecordBatch) -> Result<()> {
    let options = FormatOptions::default().with_display_error(false);
    let columns = rows.columns().iter().map(|column| Column::new(column, &options));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let mut value = String::new();
    for row in 0..rows.num_rows() {
        for (number, column) in columns.iter().enumerate() {
            if number > 0 {
                text.push('\t');
            }
            if column.array.is_null(row) {
                text.push_str("\\N");
                continue;
            }
            value.clear();
            if column.is_bytes {
                value.push_str("\\x");
            }
            write!(value, "{}", column.formatter.value(row))
                .map_err(|_| DataFusionError::Execution("a value cannot be written as text".to_string()))?;
            escape(text, &value);
        }
        text.push('\n');
    }
    Ok(())
}

/// A column with its values as text.
struct Column<'a> {
    array: &'a ArrayRef,
    formatter: ArrayFormatter<'a>,
    is_bytes: bool,
}

impl<'a> Column<'a> {
    fn new(array: &'a ArrayRef, options: &FormatOptions<'a>) -> Result<Column<'a>> {
        let is_bytes =
            matches!(array.data_type(), DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
        Ok(Column { array, formatter: ArrayFormatter::try_new(array.as_ref(), options)?, is_bytes })
    }
}

fn escape(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            other => text.push(other),
        }
    }
}
