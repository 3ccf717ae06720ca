//! What is done to lifetimes. Every window is an [`AlterLifetime`]; the others cut, extend or collapse
//! lifetimes by what happens around them.

use super::Stream;
use crate::calendar::{CalendarWindows, Grid, size_in_ticks};
use crate::duration::{Duration, show_ticks};
use crate::names::{show, type_name};
use crate::nodes::{
    AlterLifetime, ChangeLifetimes, Clip, HoppingWindows, LifetimeChange, QuantizeGrid, Session, WithStart,
    extension, lifetime_schema, start_schema,
};
use crate::resolve::resolve;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::{Expr, ExprSchemable};
use whimbrel_temporal::operators::SessionCap;
use whimbrel_temporal::{Closed, DurationRule, StartRule};

impl Stream {
    /// The start of each row's lifetime as a new last column, of the type of the stream's time.
    ///
    /// # Errors
    /// `Plan` if this is a relation, or there is a column of this name already.
    pub fn with_start(&self, name: &str) -> Result<Stream> {
        let time = self.time("with_start")?.clone();
        if self.df_schema().has_column_with_unqualified_name(name) {
            return plan_err!("with_start: there is a column {name:?} already; choose another name");
        }
        self.then(extension(WithStart::try_new(self.input(), name.to_string(), time)?))
    }

    /// Moves and resizes lifetimes by rules over the columns `start` and `end`, in ticks (int64).
    ///
    /// # Errors
    /// `Plan` if this is a relation, the hop of a grid is not positive, or a rule is no int64 over its
    /// columns.
    pub fn alter_lifetime(&self, start: StartRule<Expr>, duration: DurationRule<Expr>) -> Result<Stream> {
        let verb = "alter_lifetime";
        self.time(verb)?;
        let start = match start {
            StartRule::Snap { hop, .. } if hop <= 0 => {
                return plan_err!("{verb}: the grid's hop is {hop}; give a positive one");
            }
            // Equal grids are equal plans.
            StartRule::Snap { hop, offset, closed } => {
                StartRule::Snap { hop, offset: offset.rem_euclid(hop), closed }
            }
            other => other,
        };
        if let DurationRule::Constant(ticks) = duration
            && ticks <= 0
        {
            return plan_err!("{verb}: the duration is {ticks}; give a positive one");
        }
        let start = start.try_map(|e| ticks_of(e, start_schema(), verb))?;
        let duration = match &duration {
            DurationRule::ByLifetime(_) => duration.try_map(|e| ticks_of(e, lifetime_schema(), verb))?,
            _ => duration.try_map(|e| ticks_of(e, start_schema(), verb))?,
        };
        let label = format!("alter lifetime {}", self.describe(&start, &duration));
        self.altered(start, duration, label)
    }

    /// Every lifetime so much later (earlier if negative).
    ///
    /// # Errors
    /// `Plan` if this is a relation, or the duration does not fit its time.
    pub fn shift(&self, by: impl Into<Duration>) -> Result<Stream> {
        let time = self.time("shift")?;
        let by = by.into().ticks(time, "shift")?;
        let label = format!("shift by {}", show_ticks(by, time));
        self.altered(StartRule::Shift(by), DurationRule::Keep, label)
    }

    /// Every row lives exactly so long from its start; `None`: for ever.
    ///
    /// # Errors
    /// `Plan` if this is a relation, or the duration is not positive or does not fit its time.
    pub fn alter_duration(&self, duration: Option<Duration>) -> Result<Stream> {
        let time = self.time("alter_duration")?;
        let (rule, label) = match duration {
            None => (DurationRule::Infinite, "alive for ever".to_string()),
            Some(duration) => {
                let ticks = duration.positive_ticks(time, "alter_duration")?;
                (DurationRule::Constant(ticks), format!("alive for {}", show_ticks(ticks, time)))
            }
        };
        self.altered(StartRule::Keep, rule, label)
    }

    /// Windows of `size`, one after the other: hopping windows with `hop = size`.
    ///
    /// # Errors
    /// As [`hopping_in`](Stream::hopping_in).
    pub fn tumbling(
        &self,
        size: impl Into<Duration>,
        offset: impl Into<Duration>,
        closed: Closed,
    ) -> Result<Stream> {
        self.tumbling_in(size, offset, closed, None)
    }

    /// The same; days and months are those of a time zone, without one those of the stream's time.
    ///
    /// # Errors
    /// As [`hopping_in`](Stream::hopping_in).
    pub fn tumbling_in(
        &self,
        size: impl Into<Duration>,
        offset: impl Into<Duration>,
        closed: Closed,
        zone: Option<&str>,
    ) -> Result<Stream> {
        let time = self.time("tumbling")?;
        let offset = offset.into().ticks(time, "tumbling: offset")?;
        match Grid::new(&size.into(), offset, time, zone, "tumbling: size")? {
            Grid::Ticks { hop, offset } => {
                let label = format!("tumbling {}", show_ticks(hop, time));
                self.window(hop, hop, offset, closed, label)
            }
            Grid::Calendar(calendar) => {
                let label = format!("tumbling {calendar}");
                self.calendar_windows(CalendarWindows { calendar, hops: 1, closed }, label)
            }
        }
    }

    /// Windows of `size` that end at every multiple of `hop` (plus `offset`). If the hop is longer than the
    /// size, rows between two windows are in none, and vanish; the others live until the next window ends.
    ///
    /// A row lives from the first multiple after it (not before it, if closed right) for `size`: what is
    /// alive at an instant `T` of the grid are the rows of the `size` before it.
    ///
    /// # Errors
    /// As [`hopping_in`](Stream::hopping_in).
    pub fn hopping(
        &self,
        size: impl Into<Duration>,
        hop: impl Into<Duration>,
        offset: impl Into<Duration>,
        closed: Closed,
    ) -> Result<Stream> {
        self.hopping_in(size, hop, offset, closed, None)
    }

    /// The same; days and months are those of a time zone, without one those of the stream's time.
    ///
    /// # Errors
    /// `Plan` if the stream has no time, a length is not positive or no whole number of ticks, or there is no
    /// such zone.
    pub fn hopping_in(
        &self,
        size: impl Into<Duration>,
        hop: impl Into<Duration>,
        offset: impl Into<Duration>,
        closed: Closed,
        zone: Option<&str>,
    ) -> Result<Stream> {
        let time = self.time("hopping")?;
        let (size, hop) = (size.into(), hop.into());
        let offset = offset.into().ticks(time, "hopping: offset")?;
        match Grid::new(&hop, offset, time, zone, "hopping: hop")? {
            Grid::Ticks { hop: hop_ticks, offset } => {
                let size_ticks = size_in_ticks(&size, time, zone, "hopping: size")?;
                let label =
                    format!("hopping {} hop {}", show_ticks(size_ticks, time), show_ticks(hop_ticks, time));
                match hop_ticks > size_ticks {
                    true => self.changed(LifetimeChange::Hop(HoppingWindows {
                        size: size_ticks,
                        hop: hop_ticks,
                        offset: offset.rem_euclid(hop_ticks),
                        closed,
                    })),
                    false => self.window(size_ticks, hop_ticks, offset, closed, label),
                }
            }
            Grid::Calendar(calendar) => {
                let hops = calendar.times_in(&size, "hopping: size")?;
                let label = format!("hopping {} hop {calendar}", calendar.every().times(hops));
                self.calendar_windows(CalendarWindows { calendar, hops, closed }, label)
            }
        }
    }

    /// Windows of `size` that end at every multiple of `hop` (plus `offset`), whose rows live from grid
    /// instant to grid instant: an aggregate changes there only, also if the size is no multiple of the
    /// hop. Trill's `HoppingWindowLifetime`.
    ///
    /// # Errors
    /// `Plan` if this is a relation, or a length is not positive or does not fit its time.
    pub fn hopping_snapped(
        &self,
        size: impl Into<Duration>,
        hop: impl Into<Duration>,
        offset: impl Into<Duration>,
        closed: Closed,
    ) -> Result<Stream> {
        let time = self.time("hopping")?;
        let size = size.into().positive_ticks(time, "hopping: size")?;
        let hop = hop.into().positive_ticks(time, "hopping: hop")?;
        let offset = offset.into().ticks(time, "hopping: offset")?.rem_euclid(hop);
        self.changed(LifetimeChange::Hop(HoppingWindows { size, hop, offset, closed }))
    }

    /// Every row lives for `size` from its start: what is alive at `T` are the rows of `(T - size, T]`;
    /// closed left, of `[T - size, T)`.
    ///
    /// # Errors
    /// `Plan` if this is a relation, or the size is not positive or does not fit its time.
    pub fn sliding(&self, size: impl Into<Duration>, closed: Closed) -> Result<Stream> {
        let time = self.time("sliding")?;
        let ticks = size.into().positive_ticks(time, "sliding: size")?;
        let label = format!("sliding {}", show_ticks(ticks, time));
        match closed {
            Closed::Right => self.altered(StartRule::Keep, DurationRule::Constant(ticks), label),
            Closed::Left => {
                let label = format!("{label} closed left");
                self.altered(StartRule::Shift(1), DurationRule::Constant(ticks), label)
            }
        }
    }

    /// Per current key: rows that follow each other within `timeout` are a session, which ends `timeout`
    /// after its last row, and after `max` in any case. Every row lives to the end of its session.
    ///
    /// # Errors
    /// `Plan` if this is a relation, or a duration is not positive or does not fit its time.
    pub fn session(&self, timeout: impl Into<Duration>, cap: Option<SessionCap<Duration>>) -> Result<Stream> {
        self.then(extension(self.session_of(timeout.into(), cap)?))
    }

    /// The rows of sessions, as [`session`](Stream::session) has them, each when its session has ended: as a
    /// point at that instant, with the first instant of the session in a last column named `start`.
    ///
    /// # Errors
    /// `Plan` as `session`, or if there is a column of this name already.
    pub fn session_windows(
        &self,
        timeout: impl Into<Duration>,
        cap: Option<SessionCap<Duration>>,
        start: &str,
    ) -> Result<Stream> {
        let time = self.time("session")?.clone();
        if self.df_schema().has_column_with_unqualified_name(start) {
            return plan_err!("session: there is a column {start:?} already; choose another name");
        }
        let session = self.session_of(timeout.into(), cap)?;
        self.then(extension(session.with_first_instant(start.to_string(), time)?))
    }

    /// Sessions by the current key.
    fn session_of(&self, timeout: Duration, cap: Option<SessionCap<Duration>>) -> Result<Session> {
        let time = self.time("session")?;
        let timeout = timeout.positive_ticks(time, "session: timeout")?;
        let longest = cap.as_ref().map(SessionCap::duration);
        let ticks =
            longest.map(|longest| longest.positive_ticks(time, "session: max_duration")).transpose()?;
        let cap = cap.zip(ticks).map(|(cap, ticks)| cap.map(|_| ticks));
        Session::try_new(self.input(), self.key_exprs(), timeout, cap)
    }

    /// Lifetimes are cut at every multiple of `period` (plus `offset`): the same relation, whose rows start
    /// anew at every beat. Trill's `Chop`.
    ///
    /// # Errors
    /// As [`chop_in`](Stream::chop_in).
    pub fn chop(&self, period: impl Into<Duration>, offset: impl Into<Duration>) -> Result<Stream> {
        self.chop_in(period, offset, None)
    }

    /// The same; days and months are those of a time zone, without one those of the stream's time.
    ///
    /// # Errors `Plan` if the stream has no time, the period is not positive or no whole number of ticks, or
    /// there is no such zone.
    pub fn chop_in(
        &self,
        period: impl Into<Duration>,
        offset: impl Into<Duration>,
        zone: Option<&str>,
    ) -> Result<Stream> {
        let time = self.time("chop")?;
        let offset = offset.into().ticks(time, "chop: offset")?;
        let beats = Grid::new(&period.into(), offset, time, zone, "chop: period")?;
        self.changed(LifetimeChange::Chop(beats))
    }

    /// No row lives longer than `limit`.
    ///
    /// # Errors
    /// `Plan` if this is a relation, or the limit is not positive or does not fit its time.
    pub fn clip_constant(&self, limit: impl Into<Duration>) -> Result<Stream> {
        let limit = limit.into().positive_ticks(self.time("clip")?, "clip: limit")?;
        self.changed(LifetimeChange::Clip(limit))
    }

    /// A row ends when the next row of `other` with an equal key starts. Without `on` the current keys are
    /// compared.
    ///
    /// # Errors
    /// `Plan` if one of both is a relation, columns are not there, or their types do not compare.
    pub fn clip(&self, other: &Stream, on: Vec<(Expr, Expr)>) -> Result<Stream> {
        self.time("clip")?;
        other.time("clip: the other stream")?;
        let pairs = self.pairs(other, on, "clip")?;
        let on = pairs.columns();
        let clip = extension(Clip::try_new(pairs.left.input(), pairs.right.input(), on)?);
        pairs.left.then(clip)?.only_columns_of(self)
    }

    /// Every row becomes a point at the end of its lifetime.
    ///
    /// # Errors
    /// `Plan` if this is a relation.
    pub fn point_at_end(&self) -> Result<Stream> {
        self.time("point_at_end")?;
        self.changed(LifetimeChange::PointAtEnd)
    }

    /// Every lifetime ends so much later; with a negative duration earlier, and one that would be empty
    /// vanishes. Trill's `ExtendLifetime`.
    ///
    /// # Errors
    /// `Plan` if this is a relation, or the duration does not fit its time.
    pub fn extend(&self, by: impl Into<Duration>) -> Result<Stream> {
        let by = by.into().ticks(self.time("extend")?, "extend")?;
        self.changed(LifetimeChange::Extend(by))
    }

    /// Lifetimes of equal rows of which one ends where the other starts become one: the inverse of
    /// [`chop`](Stream::chop). The relation stays the same. Trill's `Stitch`.
    ///
    /// # Errors
    /// `Plan` if this is a relation.
    pub fn stitch(&self) -> Result<Stream> {
        self.time("stitch")?;
        self.changed(LifetimeChange::Stitch)
    }

    /// Lifetimes start and end on a grid: the start moves back to a multiple of `period` (of `progress`, if
    /// given: then results come while a window is open), and the end so that each row is in every window of
    /// `size` that it touches. Trill's `QuantizeLifetime`.
    ///
    /// # Errors
    /// `Plan` if this is a relation, a duration is not positive or does not fit its time, or `progress` does
    /// not divide `period`.
    pub fn quantize(
        &self,
        size: impl Into<Duration>,
        period: impl Into<Duration>,
        progress: Option<Duration>,
        offset: impl Into<Duration>,
    ) -> Result<Stream> {
        let time = self.time("quantize")?;
        let size = size.into().positive_ticks(time, "quantize: size")?;
        let period = period.into().positive_ticks(time, "quantize: period")?;
        let progress = progress.map(|p| p.positive_ticks(time, "quantize: progress")).transpose()?;
        let offset = offset.into().ticks(time, "quantize: offset")?;
        if let Some(progress) = progress.filter(|p| *p >= period || period % p != 0) {
            return plan_err!(
                "quantize: progress {} has to be a part of the period {}",
                show_ticks(progress, time),
                show_ticks(period, time)
            );
        }
        if size < period {
            return plan_err!(
                "quantize: size {} is shorter than period {}; give a size of at least the period",
                show_ticks(size, time),
                show_ticks(period, time)
            );
        }
        let offset = offset.rem_euclid(period);
        self.changed(LifetimeChange::Quantize(QuantizeGrid { size, period, progress, offset }))
    }

    fn changed(&self, change: LifetimeChange) -> Result<Stream> {
        self.then(extension(ChangeLifetimes::try_new(self.input(), change)?))
    }

    fn calendar_windows(&self, windows: CalendarWindows, label: String) -> Result<Stream> {
        let (start, duration) = windows.rules();
        let closed = if windows.closed == Closed::Right { " closed right" } else { "" };
        self.altered(start, duration, format!("{label}{closed}"))
    }

    fn window(&self, size: i64, hop: i64, offset: i64, closed: Closed, label: String) -> Result<Stream> {
        let time = self.time("window")?;
        let offset = offset.rem_euclid(hop);
        let mut label = label;
        if offset != 0 {
            label.push_str(&format!(" offset {}", show_ticks(offset, time)));
        }
        if closed == Closed::Right {
            label.push_str(" closed right");
        }
        self.altered(StartRule::Snap { hop, offset, closed }, DurationRule::Constant(size), label)
    }

    pub(super) fn altered(
        &self,
        start: StartRule<Expr>,
        duration: DurationRule<Expr>,
        label: String,
    ) -> Result<Stream> {
        self.then(extension(AlterLifetime::try_new(self.input(), start, duration, label)?))
    }

    /// Two rules in words.
    fn describe(&self, start: &StartRule<Expr>, duration: &DurationRule<Expr>) -> String {
        let ticks =
            |n: i64| self.properties.time.as_ref().map_or_else(|| n.to_string(), |t| show_ticks(n, t));
        let start = match start {
            StartRule::Keep => "start".to_string(),
            StartRule::Shift(by) => format!("start + {}", ticks(*by)),
            StartRule::Snap { hop, offset, closed: Closed::Left } => {
                format!("next {} + {} after start", ticks(*hop), ticks(*offset))
            }
            StartRule::Snap { hop, offset, closed: Closed::Right } => {
                format!("next {} + {} from start", ticks(*hop), ticks(*offset))
            }
            StartRule::By(e) => show(e),
        };
        let duration = match duration {
            DurationRule::Keep => "as long as before".to_string(),
            DurationRule::Constant(n) => ticks(*n),
            DurationRule::Infinite => "ever".to_string(),
            DurationRule::ByStart(e) | DurationRule::ByLifetime(e) => show(e),
        };
        format!("from {start} for {duration}")
    }
}

/// An expression of a rule, as int64.
fn ticks_of(expr: &Expr, schema: &DFSchema, verb: &str) -> Result<Expr> {
    let expr = resolve(expr.clone(), schema, verb)?.unalias();
    match expr.get_type(schema)? {
        DataType::Int64 => Ok(expr),
        t if t.is_integer() && t != DataType::UInt64 => expr.cast_to(&DataType::Int64, schema),
        t => plan_err!("{verb}: {} is {}; a rule gives ticks (int64)", show(&expr), type_name(&t)),
    }
}
