//! `alter_lifetime`: moves and stretches lifetimes (trill.txt §5.2.5); every window is an instance of it.
//!
//! Invariants: the payload is not touched; where the new duration does not depend on the old end, an end edge
//! has nothing to say and is dropped, and start edges become intervals; new sync times never go backwards, or
//! it fails. New starts and ends lie between the beginning and the end of time, or it fails; only what was
//! always there keeps its start, and what never ends keeps its end.
//!
//! Where the new end follows from the old one, and not at the same distance, a row may be over before its old
//! end is known, or vanish. Nothing of it can be emitted before: edges are put together first ([`Coalesce`]),
//! and a row whose end is not known holds back those that start later. So what comes out does not depend on
//! whether rows came as edges.

use crate::batch::{Batch, Message, Other};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::coalesce::{Coalesce, CoalesceOrder};
use crate::rules::{Closed, DurationRule, StartRule, shift};
use crate::runs::leading;
use crate::time::{BEGINNING, INFINITY, Instant, Kind, Time, next_on_grid};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use datafusion::common::{Result, exec_err};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// An int64 expression over instants and ticks, in columns `start` and `end`.
type Expr = Arc<dyn PhysicalExpr>;

/// Gives every row a new lifetime.
pub struct AlterLifetime {
    start: StartRule<Expr>,
    duration: DurationRule<Expr>,
    /// Puts edges together first, where it is needed.
    whole: Option<Coalesce>,
    /// How far the output has come; no new sync time is before it.
    latest: Time,
    /// The last instant that all rows of a batch were moved to, as a column for the next such batch.
    instant: ScalarBuffer<i64>,
    /// The unit of the stream's time, for messages.
    unit: Option<TimeUnit>,
}

/// A row's lifetime, old and new.
#[derive(Debug, Clone, Copy)]
struct Lifetime {
    kind: Kind,
    start: Time,
    /// [`INFINITY`]: not known.
    end: Time,
    /// The new start.
    moved: Time,
}

impl AlterLifetime {
    /// New lifetimes by these rules.
    pub fn new(start: StartRule<Expr>, duration: DurationRule<Expr>) -> AlterLifetime {
        let whole = match (&start, &duration) {
            (StartRule::Keep | StartRule::Shift(_), DurationRule::Keep) => false,
            (_, DurationRule::Keep | DurationRule::ByLifetime(_)) => true,
            _ => false,
        };
        let whole = whole.then(|| Coalesce::new(CoalesceOrder::Start));
        AlterLifetime { start, duration, whole, latest: BEGINNING, instant: Vec::new().into(), unit: None }
    }

    /// The same, on a stream with this unit of time: messages show dates.
    pub fn in_unit(self, unit: Option<TimeUnit>) -> AlterLifetime {
        AlterLifetime { unit, ..self }
    }

    /// A time as messages show it.
    fn instant(&self, time: Time) -> Instant {
        Instant { time, unit: self.unit }
    }

    /// The batch with its new lifetimes; none: no row is left.
    fn batch(&mut self, batch: Batch) -> Result<Option<Batch>> {
        let uniform = if matches!(batch.other, Other::Column(_)) { None } else { self.uniform(&batch) };
        let batch = match uniform {
            Some((sync, other)) => batch.with_times(sync, other),
            None => self.general(batch)?,
        };
        if let (Some(&first), Some(&last)) = (batch.sync.first(), batch.sync.last()) {
            if first < self.latest {
                return self.backwards(self.latest, first);
            }
            self.latest = last;
        }
        Ok((!batch.is_empty()).then_some(batch))
    }

    /// All rows are intervals of one length, or all start edges: one number stands for the new other times
    /// too. None: the rules look at each row, or an instant may be beyond time.
    fn uniform(&mut self, batch: &Batch) -> Option<(ScalarBuffer<i64>, Other)> {
        let other = match &self.duration {
            DurationRule::Keep => batch.other.clone(),
            DurationRule::Constant(ticks) => Other::After(*ticks),
            DurationRule::Infinite => Other::Open,
            DurationRule::ByStart(_) | DurationRule::ByLifetime(_) => return None,
        };
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
            StartRule::By(_) => return None,
        };
        let longest = if let Other::After(ticks) = other { ticks } else { 0 };
        let first = batch.sync.partition_point(|&time| time == BEGINNING);
        let within = sync.get(first).is_none_or(|&time| time > BEGINNING)
            && sync.last().is_none_or(|&time| time < INFINITY - longest);
        within.then_some((sync, other))
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
        let lifetimes = self.lifetimes(&batch)?;
        let ends = self.ends(&lifetimes)?;
        // An end edge has something to say where the end moves as the start does.
        let keeps_ends = matches!(self.duration, DurationRule::Keep);
        let (mut sync, mut other) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        let mut keep = Vec::with_capacity(batch.len());
        for (Lifetime { kind, moved, .. }, &end) in lifetimes.iter().zip(&ends) {
            let (s, o) = if keeps_ends && *kind == Kind::End { (end, *moved) } else { (*moved, end) };
            // A row that is dropped must not break the order of those that stay.
            keep.push(if *kind == Kind::End { keeps_ends } else { o > s });
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

    /// Fails: new sync times went back, which would break the order of the stream.
    fn backwards<T>(&self, from: Time, to: Time) -> Result<T> {
        exec_err!(
            "alter_lifetime moved a row to {}, before {}, to which the stream has already advanced; the new start must not \
             decrease as the old one grows",
            self.instant(to),
            self.instant(from)
        )
    }

    /// The lifetimes of a batch's rows, with their new starts.
    fn lifetimes(&self, batch: &Batch) -> Result<Vec<Lifetime>> {
        let starts: Vec<Time> = (0..batch.len()).map(|i| batch.start_at(i)).collect();
        let lifetime = |(i, moved): (usize, Time)| {
            let (kind, start) = (batch.kind_at(i), starts[i]);
            let end = if kind == Kind::End { batch.sync[i] } else { batch.other_at(i) };
            // What was always there stays so.
            let moved = if start == BEGINNING { BEGINNING } else { moved };
            if start > BEGINNING && (moved == BEGINNING || moved == INFINITY) {
                return self.beyond_time(start, "start");
            }
            Ok(Lifetime { kind, start, end, moved })
        };
        self.starts(&starts)?.into_iter().enumerate().map(lifetime).collect()
    }

    /// The new ends; not after the new start: the row vanishes.
    fn ends(&self, lifetimes: &[Lifetime]) -> Result<Vec<Time>> {
        let after = |row: &Lifetime, ticks: i128| match i128::from(row.moved) + ticks {
            end if end >= i128::from(INFINITY) => self.beyond_time(row.start, "end"),
            // A row that vanishes may do so before the beginning of time.
            end => Ok(Time::try_from(end).unwrap_or(BEGINNING)),
        };
        let durations = self.durations(lifetimes)?;
        let end = |(row, duration): (&Lifetime, Option<i64>)| match (&self.duration, duration) {
            (DurationRule::Keep, _) if row.end == INFINITY => Ok(INFINITY),
            // What was always there has no length; its end moves as a start would.
            (DurationRule::Keep, _) if row.start == BEGINNING => match self.starts(&[row.end])?[0] {
                INFINITY => self.beyond_time(row.start, "end"),
                end => Ok(end),
            },
            (DurationRule::Keep, _) => after(row, i128::from(row.end) - i128::from(row.start)),
            (_, None | Some(INFINITY)) => Ok(INFINITY),
            // Where it does not matter, an end edge is not looked at.
            (DurationRule::Constant(_), _) if row.kind == Kind::End => Ok(row.moved),
            (DurationRule::ByStart(_), Some(ticks)) if ticks <= 0 => exec_err!(
                "alter_lifetime: the row that starts at {} was given a duration of {ticks} ticks; a duration is \
                 positive",
                self.instant(row.start)
            ),
            (_, Some(ticks)) => after(row, i128::from(ticks)),
        };
        lifetimes.iter().zip(durations).map(end).collect()
    }

    fn beyond_time<T>(&self, start: Time, what: &str) -> Result<T> {
        exec_err!(
            "alter_lifetime: the row that starts at {} would {what} before the first or after the last instant that \
             there is; leave such rows out, or move and stretch lifetimes by less",
            self.instant(start)
        )
    }

    /// What the rule makes of these starts.
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

    /// How long each row lives by the rule; none: for ever, or as long as before.
    fn durations(&self, lifetimes: &[Lifetime]) -> Result<Vec<Option<i64>>> {
        let starts = || lifetimes.iter().map(|row| row.start).collect::<Vec<Time>>();
        Ok(match &self.duration {
            DurationRule::Keep | DurationRule::Infinite => vec![None; lifetimes.len()],
            DurationRule::Constant(ticks) => vec![Some(*ticks); lifetimes.len()],
            DurationRule::ByStart(expr) => {
                self.evaluate(expr, &[("start", &starts())])?.into_iter().map(Some).collect()
            }
            DurationRule::ByLifetime(expr) => {
                // The expression is not asked about ends that nobody knows.
                let closed = lifetimes.iter().filter(|row| row.end < INFINITY);
                let (starts, ends): (Vec<Time>, Vec<Time>) = closed.map(|row| (row.start, row.end)).unzip();
                let mut ticks = self.evaluate(expr, &[("start", &starts), ("end", &ends)])?.into_iter();
                lifetimes.iter().map(|row| if row.end < INFINITY { ticks.next() } else { None }).collect()
            }
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
            // Whatever the rule says of a late instant, the stream has not ended.
            _ => self.starts(&[time])?[0].min(INFINITY - 1),
        };
        self.latest = self.latest.max(time);
        Ok(self.latest)
    }

    fn message(&mut self, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => out.extend(self.batch(batch)?.map(Message::Batch)),
            Message::Punctuation(time) => out.push(Message::Punctuation(self.punctuation(time)?)),
        }
        Ok(())
    }
}

/// Moves sorted times to a grid: one division for each instant of the grid, not for each row.
pub(super) fn snap(times: &[Time], hop: i64, offset: i64, closed: Closed) -> ScalarBuffer<i64> {
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
    fn held(&self) -> Held {
        self.whole.as_ref().map_or(Held::default(), Coalesce::held)
    }

    fn push(&mut self, input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        let Some(whole) = &mut self.whole else { return self.message(message, out) };
        let mut lifetimes = Vec::new();
        whole.push(input, message, &mut lifetimes)?;
        lifetimes.into_iter().try_for_each(|message| self.message(message, out))
    }

    fn save(&self) -> Result<Vec<u8>> {
        let whole = self.whole.as_ref().map(Coalesce::save).transpose()?;
        encode(&(self.latest, whole))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let saved: Option<Vec<u8>>;
        (self.latest, saved) = decode(state)?;
        match (&mut self.whole, saved) {
            (Some(whole), Some(saved)) => whole.restore(&saved),
            (None, None) => Ok(()),
            _ => exec_err!("the checkpoint is of another alter_lifetime; take a new one"),
        }
    }
}
