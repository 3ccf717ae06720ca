//! `quantize`: lifetimes snapped to windows of `size` ticks that begin at `offset + k·period` (Trill's
//! `QuantizeLifetime` and, with `progress`, its progressive form; windows: trill.txt §5.2.5).
//!
//! The new start is the last instant not after the old one at which a window begins; with `progress`, the
//! last of the finer grid `offset + k·progress`: within a window what is known of it shows at each of them.
//! The new end is the first instant not before the old one at which a window ends, and not before the end of
//! the last window that begins at or before the old start. Where windows are shorter than their period, a
//! row between two of them lives from the begin of the one before it.
//!
//! Starts move back, so all rows of one cell of the grid come out at its begin, and punctuations too.
//! Invariant: an end edge leaves when the snapped time has come to its new end; no row before the snapped
//! time leaves. A row of the beginning of time keeps its start; one that would end past the last instant
//! never ends.

use crate::batch::{Batch, Message, Other};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::held_ends::HeldEnds;
use crate::time::{BEGINNING, INFINITY, Kind, Time, last_on_grid};
use datafusion::common::{Result, exec_err, plan_err};

/// Snaps lifetimes to windows.
pub struct Quantize {
    size: i64,
    period: i64,
    offset: i64,
    /// Ticks between two instants to which starts are snapped; it divides the period.
    progress: i64,
    ends: HeldEnds,
}

impl Quantize {
    /// Windows of `size` ticks that begin at `offset + k·period`. Starts are snapped to `offset + k·progress`
    /// if that is given, else to the begins of windows.
    ///
    /// # Errors
    /// `Plan` if the size or the period is not positive, or if the progress is not a part of the period: a
    /// smaller number of ticks that divides it.
    pub fn new(size: i64, period: i64, offset: i64, progress: Option<i64>) -> Result<Quantize> {
        if size <= 0 || period <= 0 {
            return plan_err!("quantize: windows of {size} ticks every {period}; both are positive");
        }
        match progress {
            Some(part) if part <= 0 || part >= period || period % part != 0 => plan_err!(
                "quantize: a progress of {part} ticks in windows every {period}; it is smaller and divides the period"
            ),
            _ => {
                let progress = progress.unwrap_or(period);
                Ok(Quantize { size, period, offset, progress, ends: HeldEnds::default() })
            }
        }
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let batch = batch.compact()?;
        let Some(&last) = batch.sync.last() else { return Ok(()) };
        let edges = (0..batch.len()).any(|row| batch.kind_at(row) == Kind::End);
        let sync = batch.sync.iter().map(|&time| self.start(time)).collect::<Result<Vec<Time>>>()?;
        let last = self.snapped(last);
        if !edges && self.ends.none_until(last) {
            let other = match &batch.other {
                Other::Open => Other::Open,
                _ => {
                    let end = |row: usize| self.end(batch.sync[row], batch.other_at(row));
                    Other::Column((0..batch.len()).map(end).collect::<Vec<Time>>().into())
                }
            };
            out.push(Message::Batch(batch.with_times(sync.into(), other)));
            return Ok(());
        }
        let kept = self.ends.keep(&batch.rows);
        for (row, &snapped) in sync.iter().enumerate() {
            let (sync, other, place) = (batch.sync[row], batch.other_at(row), (kept, row as u32));
            self.ends.release(snapped);
            match Kind::of(sync, other) {
                Kind::Interval | Kind::Start => self.ends.push(snapped, self.end(sync, other), place),
                Kind::End => self.ends.hold(self.start(other)?, self.end(other, sync), place),
            }
        }
        self.ends.release(last);
        self.ends.flush(out)
    }

    /// The last instant not after this one to which starts are snapped.
    fn snapped(&self, time: Time) -> Time {
        last_on_grid(time, self.progress, self.offset)
    }

    /// The start of a row that started at this instant.
    fn start(&self, start: Time) -> Result<Time> {
        match self.snapped(start) {
            BEGINNING if start > BEGINNING => exec_err!(
                "quantize: the row that starts at {start} would start before the first instant that there is; leave \
                 such rows out, or use smaller windows"
            ),
            snapped => Ok(snapped),
        }
    }

    /// The end of a row that had this lifetime.
    fn end(&self, start: Time, end: Time) -> Time {
        if end == INFINITY {
            return INFINITY;
        }
        let (size, period) = (i128::from(self.size), i128::from(self.period));
        let after_end = i128::from(end) + period - 1;
        // What was always there began in no window.
        let after_start = if start == BEGINNING { after_end } else { i128::from(start) + size };
        let latest = after_end.max(after_start);
        let past = (latest - i128::from(self.offset) - size).rem_euclid(period);
        Time::try_from(latest - past).unwrap_or(INFINITY)
    }
}

impl Operator for Quantize {
    fn held(&self) -> Held {
        self.ends.held()
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out),
            Message::Punctuation(time) => {
                let time = self.snapped(time);
                self.ends.release(time.min(INFINITY - 1));
                self.ends.flush(out)?;
                out.push(Message::Punctuation(time));
                Ok(())
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&self.ends.save()?)
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.ends.restore(decode(state)?)
    }
}
