//! Time that goes on in a live source while no rows come.
//!
//! - A shard that is *idle*, because nothing was sent into it for long, promises what the slowest of the
//!   others has come to, so that it holds nobody back.
//! - Rows may have the instant of their *arrival* as their time: a column that is added where they are sent.
//!   Then time goes on by the clock on the wall.
//!
//! Invariant: what a clock decides is a message of its shard, as if its sender had sent it. So all queries, a
//! journal, and jobs that go on after a crash see the same.

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, TimestampMicrosecondArray};
use datafusion::arrow::compute::{cast, max};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type, SchemaRef, TimeUnit};
use datafusion::common::{Result, plan_err};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use whimbrel_temporal::{BEGINNING, Time};

/// What moves the time of a live source beside what its senders say.
#[derive(Debug, Clone)]
pub enum LiveTime {
    /// A shard into which nothing is sent for so long holds nobody back.
    Idle {
        /// The column of the rows' times.
        column: String,
        /// How long.
        timeout: Duration,
    },
    /// Rows have the time of their arrival.
    Arrival {
        /// The column that is added, behind all others.
        column: String,
        /// How far results may be behind the clock.
        latency: Duration,
    },
}

impl LiveTime {
    /// The columns of the source, given those of the rows that are sent.
    ///
    /// # Errors
    /// `Plan` if the time of the rows is no column of them, or the added column is one already.
    pub(super) fn schema(&self, sent: &SchemaRef) -> Result<SchemaRef> {
        let (LiveTime::Idle { column, .. } | LiveTime::Arrival { column, .. }) = self;
        match (self, sent.column_with_name(column)) {
            (LiveTime::Idle { .. }, Some(_)) => Ok(Arc::clone(sent)),
            (LiveTime::Idle { .. }, None) => plan_err!("the source has no column {column:?} for its time"),
            (LiveTime::Arrival { .. }, Some(_)) => {
                plan_err!("the rows have a column {column:?} already; call that of their arrival otherwise")
            }
            (LiveTime::Arrival { .. }, None) => {
                let arrival = Arc::new(Field::new(column, arrival_type(), false));
                let columns: Vec<FieldRef> = sent.fields().iter().cloned().chain([arrival]).collect();
                Ok(Arc::new(datafusion::arrow::datatypes::Schema::new(columns)))
            }
        }
    }

    /// How often the clock is looked at.
    pub(super) fn interval(&self) -> Duration {
        let interval = match self {
            LiveTime::Idle { timeout, .. } => *timeout / 4,
            LiveTime::Arrival { latency, .. } => *latency,
        };
        interval.max(Duration::from_millis(1))
    }
}

/// The latest of a column of times.
///
/// # Errors
/// If the column is none.
pub(super) fn latest(times: &ArrayRef) -> Result<Option<Time>> {
    Ok(max(cast(times, &DataType::Int64)?.as_primitive::<Int64Type>()))
}

fn arrival_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// How far a shard has come.
#[derive(Debug)]
struct Reached {
    time: Time,
    /// Since when nothing has been sent.
    since: Instant,
}

/// The clock of a shard.
#[derive(Debug)]
pub(super) struct ShardClock {
    kind: LiveTime,
    reached: Mutex<Reached>,
}

impl ShardClock {
    pub fn new(kind: LiveTime) -> ShardClock {
        ShardClock { kind, reached: Mutex::new(Reached { time: BEGINNING, since: Instant::now() }) }
    }

    fn with_reached<T>(&self, change: impl FnOnce(&mut Reached) -> T) -> T {
        change(&mut self.reached.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes note of rows that are sent, and gives them their arrival. Whoever sends them next does so before
    /// others are.
    ///
    /// # Errors
    /// If the times cannot be read.
    pub fn stamp(&self, rows: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        match &self.kind {
            LiveTime::Idle { column, .. } => {
                let latest = rows.column_by_name(column).map(latest).transpose()?.flatten();
                self.advance(latest.unwrap_or(BEGINNING));
                Ok(rows)
            }
            LiveTime::Arrival { .. } => {
                let arrival = vec![self.now(); rows.num_rows()];
                let arrival = TimestampMicrosecondArray::from(arrival).with_timezone("UTC");
                let columns = rows.columns().iter().cloned().chain([Arc::new(arrival) as ArrayRef]);
                Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect())?)
            }
        }
    }

    /// Takes note of a promise of the sender.
    pub fn advance(&self, time: Time) {
        self.with_reached(|reached| {
            *reached = Reached { time: reached.time.max(time), since: Instant::now() };
        });
    }

    /// The instant on the wall, which never goes back, in microseconds since 1970.
    pub fn now(&self) -> Time {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as Time;
        self.with_reached(|reached| {
            reached.time = reached.time.max(wall);
            reached.time
        })
    }

    /// Whether its rows have the time of their arrival.
    pub fn is_arrival(&self) -> bool {
        matches!(self.kind, LiveTime::Arrival { .. })
    }

    /// Whether nothing was sent for as long as the timeout.
    fn is_idle(&self) -> bool {
        match self.kind {
            LiveTime::Idle { timeout, .. } => self.with_reached(|reached| reached.since.elapsed() >= timeout),
            LiveTime::Arrival { .. } => false,
        }
    }
}

/// The time up to which idle shards promise, with their places: what the slowest of the others has come to.
pub(super) fn idle_promises(shards: &[Option<&ShardClock>]) -> (Time, Vec<usize>) {
    let open = || (0..).zip(shards).filter_map(|(place, clock)| Some((place, (*clock)?)));
    let active = open().filter(|(_, clock)| !clock.is_idle());
    let Some(time) = active.map(|(_, clock)| clock.with_reached(|reached| reached.time)).min() else {
        return (BEGINNING, vec![]);
    };
    let is_behind = |clock: &ShardClock| clock.is_idle() && clock.with_reached(|reached| reached.time < time);
    (time, open().filter(|(_, clock)| is_behind(clock)).map(|(place, _)| place).collect())
}

/// Takes note of the promise of an idle shard, which stays idle.
pub(super) fn promise(clock: &ShardClock, time: Time) {
    clock.with_reached(|reached| reached.time = reached.time.max(time));
}
