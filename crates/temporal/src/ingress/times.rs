//! The times of a table's rows: which columns say them, and what they say.

use crate::batch::Other;
use crate::time::{INFINITY, Instant, Time, unit_of};
use crate::time_column::{starts, ticks};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::ScalarBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::common::{Result, exec_err, plan_err};

/// Which columns say when a row is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeColumns {
    /// An instant: the row is a point, alive for one tick. The column stays in the payload.
    Point {
        /// The instant.
        start: usize,
    },
    /// Start and end; a null end is not known (a start edge). The columns stay in the payload.
    Interval {
        /// The start.
        start: usize,
        /// The end.
        end: usize,
    },
    /// Rows of any kind: `interval`, `start`, `end` or `punctuation` (with its time, or null for the end of
    /// the stream, in `start`). All three columns leave the payload, so that an end edge equals its start
    /// edge.
    Edges {
        /// The start of the lifetime.
        start: usize,
        /// Its end; null for start edges.
        end: usize,
        /// The kind.
        kind: usize,
    },
}

/// The times of the rows of one table, which need not be in order.
pub(super) struct Times {
    pub sync: ScalarBuffer<i64>,
    pub other: Other,
}

impl Times {
    pub fn other_at(&self, i: usize) -> Time {
        match &self.other {
            Other::Open => INFINITY,
            Other::After(duration) => self.sync[i].saturating_add(*duration),
            Other::Column(other) => other[i],
        }
    }
}

impl TimeColumns {
    /// Whether columns of these types can be the time.
    pub(super) fn check(&self, schema: &Schema) -> Result<()> {
        let (start, end) = match *self {
            TimeColumns::Point { start } => (start, None),
            TimeColumns::Interval { start, end } | TimeColumns::Edges { start, end, .. } => {
                (start, Some(end))
            }
        };
        for column in std::iter::once(start).chain(end) {
            check_time_type(schema, column)?;
        }
        if let Some(end) = end
            && schema.field(start).data_type() != schema.field(end).data_type()
        {
            return plan_err!(
                "the start `{}` is {} but the end `{}` is {}; cast one of them",
                schema.field(start).name(),
                schema.field(start).data_type(),
                schema.field(end).name(),
                schema.field(end).data_type()
            );
        }
        Ok(())
    }

    /// The column of the start.
    pub(super) fn start(&self) -> usize {
        match *self {
            TimeColumns::Point { start }
            | TimeColumns::Interval { start, .. }
            | TimeColumns::Edges { start, .. } => start,
        }
    }

    /// Which of so many columns are payload.
    pub(super) fn payload(&self, columns: usize) -> Vec<usize> {
        match self {
            TimeColumns::Edges { start, end, kind } => {
                (0..columns).filter(|c| ![start, end, kind].contains(&c)).collect()
            }
            _ => (0..columns).collect(),
        }
    }

    /// The times of a table whose first row is row number `first` of the whole input.
    pub(super) fn read(&self, table: &RecordBatch, first: u64) -> Result<Times> {
        let unit = unit_of(table.column(self.start()).data_type());
        match *self {
            TimeColumns::Point { start } => {
                Ok(Times { sync: starts(table, start, first)?, other: Other::After(1) })
            }
            TimeColumns::Interval { start, end } => {
                let (starts, ends) = (starts(table, start, first)?, ends(table.column(end))?);
                check_lifetimes(&starts, &ends, first, unit)?;
                Ok(Times { sync: starts, other: Other::Column(ends) })
            }
            TimeColumns::Edges { start, end, kind } => {
                let (starts, ends) = (starts(table, start, first)?, ends(table.column(end))?);
                edge_times(&starts, &ends, table.column(kind), first, unit)
            }
        }
    }
}

/// Refuses intervals without a tick.
fn check_lifetimes(starts: &[Time], ends: &[Time], first: u64, unit: Option<TimeUnit>) -> Result<()> {
    match starts.iter().zip(ends).position(|(s, e)| e <= s) {
        Some(row) => empty_lifetime(first + row as u64, starts[row], ends[row], unit),
        None => Ok(()),
    }
}

fn empty_lifetime<T>(row: u64, start: Time, end: Time, unit: Option<TimeUnit>) -> Result<T> {
    exec_err!(
        "row {row} ends at {}, not after its start {}; a lifetime [start, end) has at least one tick",
        Instant { time: end, unit },
        Instant { time: start, unit }
    )
}

/// The times of rows of any kind. An end edge becomes known when the row ends: `sync` is the end, `other`
/// the start.
fn edge_times(
    starts: &[Time],
    ends: &[Time],
    kinds: &ArrayRef,
    first: u64,
    unit: Option<TimeUnit>,
) -> Result<Times> {
    let kinds = cast(kinds, &DataType::Utf8)?;
    let kinds = kinds.as_string::<i32>();
    let (mut sync, mut other) = (Vec::with_capacity(starts.len()), Vec::with_capacity(starts.len()));
    for row in 0..starts.len() {
        let kind = if kinds.is_valid(row) { kinds.value(row) } else { "null" };
        let number = first + row as u64;
        let (s, o) = match kind {
            "start" => (starts[row], INFINITY),
            "interval" | "end" if ends[row] <= starts[row] => {
                return empty_lifetime(number, starts[row], ends[row], unit);
            }
            "interval" => (starts[row], ends[row]),
            "end" if ends[row] == INFINITY => return exec_err!("row {number}: an end edge needs an end"),
            "end" => (ends[row], starts[row]),
            other => {
                return exec_err!(
                    "row {number}: \"{other}\" is no kind of row; the kinds are interval, start, end, punctuation"
                );
            }
        };
        sync.push(s);
        other.push(o);
    }
    Ok(Times { sync: sync.into(), other: Other::Column(other.into()) })
}

/// A time is a number of 64 bits, so that its buffer is the sync column without a copy.
fn check_time_type(schema: &Schema, column: usize) -> Result<()> {
    let field = schema.field(column);
    match field.data_type() {
        DataType::Int64 | DataType::Timestamp(_, _) => Ok(()),
        other => plan_err!(
            "column `{}` cannot be the time: it is {other}; a time is a timestamp or an int64 (cast it)",
            field.name()
        ),
    }
}

/// An end column as ticks; a null end is not known.
fn ends(column: &ArrayRef) -> Result<ScalarBuffer<i64>> {
    let values = ticks(column)?;
    Ok(match column.logical_nulls() {
        None => values,
        Some(nulls) => {
            let end = |(i, &t): (usize, &i64)| if nulls.is_valid(i) { t } else { INFINITY };
            values.iter().enumerate().map(end).collect::<Vec<_>>().into()
        }
    })
}
