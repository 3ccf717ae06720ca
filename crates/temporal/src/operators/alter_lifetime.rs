//! `alter_lifetime`: moves and stretches lifetimes (trill.txt §5.2.5); every window is an instance of it.
//!
//! Invariants: the payload is not touched; where the new duration does not depend on the old end, an end edge has
//! nothing to say and is dropped, and start edges become intervals; new sync times never go backwards, or it fails.

use crate::batch::{Batch, Message, Other};
use crate::operator::{Operator, decode, encode};
use crate::operators::runs::leading;
use crate::rules::{Closed, DurationRule, StartRule, shift};
use crate::time::{BEGINNING, INFINITY, Instant, Kind, Time, end_after, next_on_grid};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use datafusion::common::{Result, exec_err};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

type Expr = Arc<dyn PhysicalExpr>;

/// Gives every row a new lifetime.
pub struct AlterLifetime {
    start: StartRule<Expr>,
    duration: DurationRule<Expr>,
    latest: Time,
    /// The last instant that all rows of a batch were moved to, as a column for the next such batch.
    instant: ScalarBuffer<i64>,
    /// The unit of the stream's time, for messages.
    unit: Option<TimeUnit>,
}

impl AlterLifetime {
    /// New lifetimes by these rules.
    pub fn new(start: StartRule<Expr>, duration: DurationRule<Expr>) -> AlterLifetime {
        AlterLifetime { start, duration, latest: BEGINNING, instant: Vec::new().into(), unit: None }
    }

    /// The same, on a stream with this unit of time: messages show dates.
    pub fn in_unit(self, unit: Option<TimeUnit>) -> AlterLifetime {
        AlterLifetime { unit, ..self }
    }

    /// A time as messages show it.
    fn instant(&self, time: Time) -> Instant {
        Instant { time, unit: self.unit }
    }

    fn batch(&mut self, batch: Batch) -> Result<Option<Batch>> {
        let plain = !matches!(batch.other, Other::Column(_));
        let batch = match (&self.start, &self.duration) {
            _ if !plain => self.general(batch)?,
            (StartRule::By(_), _) | (_, DurationRule::ByStart(_) | DurationRule::ByLifetime(_)) => {
                self.general(batch)?
            }
            _ => self.uniform(batch)?,
        };
        if let (Some(&first), Some(&last)) = (batch.sync.first(), batch.sync.last()) {
            if first < self.latest {
                return self.backwards(self.latest, first);
            }
            self.latest = last;
        }
        Ok((!batch.is_empty()).then_some(batch))
    }

    /// All rows are intervals of one length, or all start edges: one number stands for the new other times too.
    fn uniform(&mut self, batch: Batch) -> Result<Batch> {
        let sync = match &self.start {
            StartRule::Keep => batch.sync.clone(),
            StartRule::Snap { hop, offset, closed } => {
                let to = |time: Time| next_on_grid(time, *hop, *offset, *closed == Closed::Right);
                match (batch.sync.first(), batch.sync.last()) {
                    (Some(&first), Some(&last)) if to(first) == to(last) => {
                        self.all_at(to(first), batch.len())
                    }
                    _ => snap(&batch.sync, *hop, *offset, *closed),
                }
            }
            StartRule::Shift(by) => batch.sync.iter().map(|&t| shift(t, *by)).collect::<Vec<_>>().into(),
            StartRule::By(_) => return self.general(batch),
        };
        let other = match &self.duration {
            DurationRule::Constant(ticks) => Other::After(*ticks),
            DurationRule::Infinite => Other::Open,
            _ => batch.other.clone(),
        };
        Ok(batch.with_times(sync, other))
    }

    /// A column of one instant. A wide window takes in many batches, and they share it.
    fn all_at(&mut self, time: Time, rows: usize) -> ScalarBuffer<i64> {
        if self.instant.first() != Some(&time) || self.instant.len() < rows {
            self.instant = vec![time; rows].into();
        }
        self.instant.slice(0, rows)
    }

    /// Row by row.
    fn general(&self, batch: Batch) -> Result<Batch> {
        let mut batch = batch.compact()?;
        let starts: Vec<Time> = (0..batch.len()).map(|i| batch.start_at(i)).collect();
        let ends: Vec<Time> = (0..batch.len())
            .map(|i| if batch.kind_at(i) == Kind::End { batch.sync[i] } else { batch.other_at(i) })
            .collect();
        let moved = self.starts(&starts)?;
        let durations = self.durations(&starts, &ends)?;
        let keeps_ends = matches!(self.duration, DurationRule::Keep | DurationRule::ByLifetime(_));
        let (mut sync, mut other) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        let mut keep = vec![true; batch.len()];
        for i in 0..batch.len() {
            let end = match (&self.duration, durations[i]) {
                // What was always there has no length; its end moves as a start would.
                (DurationRule::Keep, _) if starts[i] == BEGINNING => self.starts(&ends[i..=i])?[0],
                (_, INFINITY) => INFINITY,
                (_, duration) => end_after(moved[i], duration),
            };
            let (s, o) = match batch.kind_at(i) {
                Kind::End if keeps_ends => (end, moved[i]),
                Kind::End => (moved[i], moved[i]),
                Kind::Start if keeps_ends => (moved[i], INFINITY),
                _ => (moved[i], end),
            };
            // A row that is dropped must not break the order of those that stay.
            keep[i] = match batch.kind_at(i) {
                Kind::End => keeps_ends,
                _ => o > s,
            };
            self.check_duration(&batch, i, durations[i])?;
            sync.push(s);
            other.push(o);
        }
        let mut latest = BEGINNING;
        for (s, _) in sync.iter().zip(&keep).filter(|(_, keep)| **keep) {
            if *s < latest {
                return self.backwards(latest, *s);
            }
            latest = *s;
        }
        batch.retain(&BooleanArray::from(keep.clone()));
        carry_forward(&mut sync, &keep);
        batch.with_times(sync.into(), Other::Column(other.into())).compact()
    }

    fn backwards<T>(&self, from: Time, to: Time) -> Result<T> {
        exec_err!(
            "alter_lifetime moved a row to {}, before {}, which has been told already; the new start must not \
             decrease as the old one grows",
            self.instant(to),
            self.instant(from)
        )
    }

    fn check_duration(&self, batch: &Batch, row: usize, duration: i64) -> Result<()> {
        let ended = batch.kind_at(row) == Kind::End;
        match self.duration {
            DurationRule::ByStart(_) if duration <= 0 => exec_err!(
                "alter_lifetime: the row that starts at {} was given a duration of {duration} ticks; a duration is \
                 positive",
                self.instant(batch.start_at(row))
            ),
            DurationRule::ByLifetime(_) if ended && duration <= 0 => exec_err!(
                "alter_lifetime: the row that starts at {} was told before its end was known, and is now given a \
                 duration of {duration} ticks; a duration is positive",
                self.instant(batch.start_at(row))
            ),
            _ => Ok(()),
        }
    }

    fn starts(&self, starts: &[Time]) -> Result<Vec<Time>> {
        Ok(match &self.start {
            StartRule::Keep => starts.to_vec(),
            StartRule::Shift(by) => starts.iter().map(|&t| shift(t, *by)).collect(),
            StartRule::Snap { hop, offset, closed } => {
                starts.iter().map(|&t| next_on_grid(t, *hop, *offset, *closed == Closed::Right)).collect()
            }
            StartRule::By(expr) => self.evaluate(expr, &[("start", starts)])?,
        })
    }

    fn durations(&self, starts: &[Time], ends: &[Time]) -> Result<Vec<i64>> {
        let lifetimes = starts.iter().zip(ends);
        Ok(match &self.duration {
            DurationRule::Keep => {
                lifetimes.map(|(&s, &e)| if e == INFINITY { INFINITY } else { e.saturating_sub(s) }).collect()
            }
            DurationRule::Constant(ticks) => vec![*ticks; starts.len()],
            DurationRule::Infinite => vec![INFINITY; starts.len()],
            DurationRule::ByStart(expr) => self.evaluate(expr, &[("start", starts)])?,
            DurationRule::ByLifetime(expr) => self.evaluate(expr, &[("start", starts), ("end", ends)])?,
        })
    }

    /// The value of an int64 expression over columns of times.
    fn evaluate(&self, expr: &Expr, columns: &[(&str, &[Time])]) -> Result<Vec<i64>> {
        let fields: Vec<Field> =
            columns.iter().map(|(name, _)| Field::new(*name, DataType::Int64, false)).collect();
        let arrays: Vec<ArrayRef> =
            columns.iter().map(|(_, times)| Arc::new(Int64Array::from(times.to_vec())) as ArrayRef).collect();
        let len = columns[0].1.len();
        let value =
            expr.evaluate(&RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)?.into_array(len)?;
        let Some(ticks) = value.as_primitive_opt::<Int64Type>() else {
            return exec_err!(
                "alter_lifetime: {expr} is {}, not a number of ticks (int64)",
                value.data_type()
            );
        };
        if let Some(row) = ticks.iter().position(|t| t.is_none()) {
            return exec_err!(
                "alter_lifetime: {expr} is null for the row that starts at {}",
                self.instant(columns[0].1[row])
            );
        }
        Ok(ticks.values().to_vec())
    }

    /// The instant before which nothing will follow, once nothing before `time` follows on the input.
    fn punctuation(&mut self, time: Time) -> Result<Time> {
        let time = match time {
            INFINITY | BEGINNING => time,
            _ => self.starts(&[time])?[0],
        };
        self.latest = self.latest.max(time);
        Ok(time)
    }
}

/// Moves sorted times to a grid: one division for each instant of the grid, not for each row.
fn snap(times: &[Time], hop: i64, offset: i64, closed: Closed) -> ScalarBuffer<i64> {
    let inclusive = closed == Closed::Right;
    let mut snapped = Vec::with_capacity(times.len());
    let mut rows = 1;
    while let Some(&first) = times.get(snapped.len()) {
        let to = next_on_grid(first, hop, offset, inclusive);
        let before = |&t: &Time| if inclusive { t <= to } else { t < to };
        rows = leading(&times[snapped.len()..], rows, before).max(1);
        snapped.resize(snapped.len() + rows, to);
    }
    snapped.into()
}

/// Gives rows that are dropped the time of the row before them.
fn carry_forward(sync: &mut [Time], keep: &[bool]) {
    let mut last = BEGINNING;
    for (s, keep) in sync.iter_mut().zip(keep) {
        if *keep {
            last = *s;
        } else {
            *s = last;
        }
    }
}

impl Operator for AlterLifetime {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => out.extend(self.batch(batch)?.map(Message::Batch)),
            Message::Punctuation(time) => out.push(Message::Punctuation(self.punctuation(time)?)),
        }
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&self.latest)
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.latest = decode(state)?;
        Ok(())
    }
}
