//! `session`: rows of a key that follow one another closely live until the session that they make up ends.
//!
//! Every row lives from its own start to the end of its session: the last row's start plus `timeout`, at most
//! the session's cap. Rows are emitted as start edges, which end together; or, if sessions are
//! [windows](Session::windows), once the session has ended, as points there.
//!
//! The cap, if there is a `max_duration`, is the second multiple of it after the session's first row (the
//! next one, if the row lies on a multiple). Trill's rule also depends on rows of other keys; here each key
//! has its own (trill.txt names sessions in §7.6 only; the asserted cases of Trill's tests hold).
//!
//! Invariants: `sessions[g]` is the end of the session of group `g` as things stand, and `ends` has it; an
//! item that is not the end of its group's session is skipped. `members` holds the rows of the sessions that
//! have not ended.

use crate::batch::{Batch, Message};
use crate::groups::{Groups, LingeringGroups};
use crate::operator::{Operator, decode, encode};
use crate::operators::point_at_end;
use crate::operators::rows_out::RowsOut;
use crate::synopsis::{Ends, Entry, SavedSynopsis, Synopsis};
use crate::time::{INFINITY, Kind, Time, end_after};
use arrow::array::{Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use serde::{Deserialize, Serialize};

/// The session of a group.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Extent {
    /// When it ends if no other row comes.
    end: Time,
    /// When it ends at the latest.
    cap: Time,
    active: bool,
}

/// Rows of sessions that have ended get a column with the first instant of their session.
struct Windows {
    /// The columns of the rows, and that one.
    schema: SchemaRef,
    /// The first instants for the rows on their way out.
    starts: Vec<Time>,
}

/// Extends rows to the end of their session.
pub struct Session {
    key: Vec<usize>,
    /// In ticks.
    timeout: i64,
    max_duration: Option<i64>,
    groups: Option<LingeringGroups>,
    sessions: Vec<Extent>,
    ends: Ends<u32>,
    members: Synopsis,
    rows: RowsOut,
    windows: Option<Windows>,
    /// The groups of a batch, and the rows of a session that ends: room that is used again.
    numbers: Vec<u32>,
    ended: Vec<Entry>,
}

impl Session {
    /// Sessions by the `key` columns that end `timeout` ticks after their last row.
    pub fn new(key: Vec<usize>, timeout: i64, max_duration: Option<i64>) -> Session {
        Session {
            key,
            timeout,
            max_duration,
            groups: None,
            sessions: Vec::new(),
            ends: Ends::default(),
            members: Synopsis::default(),
            rows: RowsOut::default(),
            windows: None,
            numbers: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// The same, but every row comes when its session has ended, as a point at that instant. `schema` are the
    /// columns of the rows, and one for the first instant of the session.
    pub fn windows(self, schema: SchemaRef) -> Session {
        Session { windows: Some(Windows { schema, starts: Vec::new() }), ..self }
    }

    fn batch(&mut self, batch: Batch) -> Result<()> {
        let mut batch = batch.compact()?;
        self.number(&mut batch)?;
        let kept = self.members.keep(batch.rows.clone());
        for row in 0..batch.len() {
            let (group, time) = (self.numbers[row], batch.sync[row]);
            self.advance(time)?;
            // An end edge says nothing that a session asks for.
            if batch.kind_at(row) == Kind::End {
                continue;
            }
            self.extend(group, time);
            let place = (kept, row as u32);
            self.members.insert(group, place, time, INFINITY, 0);
            if self.windows.is_none() {
                self.rows.push(time, INFINITY, place);
            }
        }
        Ok(())
    }

    /// Finds the groups of all rows of a batch.
    fn number(&mut self, batch: &mut Batch) -> Result<()> {
        let key = batch.key(&self.key)?;
        let types = || self.key.iter().map(|&c| batch.rows.column(c).data_type().clone());
        let groups = self
            .groups
            .get_or_insert_with(|| LingeringGroups::new(Groups::new(&types().collect::<Vec<DataType>>())));
        groups.forget(|group| !self.sessions[group as usize].active);
        self.numbers.clear();
        groups.intern(&key, 0..batch.len(), &mut self.numbers)?;
        self.sessions.resize(groups.capacity().max(self.sessions.len()), Extent::default());
        Ok(())
    }

    /// A row of this group starts now: it goes on with the session, or begins one.
    fn extend(&mut self, group: u32, now: Time) {
        let cap = self.cap(now);
        let session = &mut self.sessions[group as usize];
        if !session.active {
            *session = Extent { end: now, cap, active: true };
        }
        let end = end_after(now, self.timeout).min(session.cap);
        if session.end != end {
            session.end = end;
            self.ends.push((end, group));
        }
    }

    /// When a session that begins with a row at `first` ends at the latest.
    fn cap(&self, first: Time) -> Time {
        let Some(max) = self.max_duration else { return INFINITY };
        let past = first.rem_euclid(max);
        let ahead = if past == 0 { max } else { (max - past).saturating_add(max) };
        end_after(first, ahead)
    }

    /// Ends the sessions that are over at `time`.
    fn advance(&mut self, time: Time) -> Result<()> {
        while let Some((end, group)) = self.ends.first()
            && end <= time
        {
            self.ends.pop();
            let session = &mut self.sessions[group as usize];
            if session.active && session.end == end {
                session.active = false;
                self.end(group, end)?;
            }
        }
        Ok(())
    }

    /// The session of a group ends.
    fn end(&mut self, group: u32, end: Time) -> Result<()> {
        self.members.take(group, &mut self.ended);
        let Some(first) = self.ended.first().map(|entry| entry.start) else { return Ok(()) };
        match &mut self.windows {
            Some(windows) => {
                let other = point_at_end::next(end)?;
                self.ended.iter().for_each(|entry| self.rows.push(end, other, entry.row));
                windows.starts.resize(windows.starts.len() + self.ended.len(), first);
            }
            None => self.ended.iter().for_each(|entry| self.rows.push(end, entry.start, entry.row)),
        }
        self.ended.clear();
        Ok(())
    }

    /// Hands out the rows on their way out.
    fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        let first = out.len();
        self.rows.flush(&self.members, out)?;
        let Some(windows) = &mut self.windows else { return Ok(()) };
        for message in out.drain(first..).collect::<Vec<_>>() {
            out.push(match message {
                Message::Batch(batch) => Message::Batch(windows.add_starts(batch)?),
                punctuation => punctuation,
            });
        }
        Ok(())
    }
}

impl Windows {
    /// Adds the first instants to the rows that they are of.
    fn add_starts(&mut self, batch: Batch) -> Result<Batch> {
        let starts = Int64Array::from(std::mem::take(&mut self.starts));
        let time = self.schema.field(batch.rows.num_columns()).data_type();
        let mut columns = batch.rows.columns().to_vec();
        columns.push(cast(&starts, time)?);
        let rows = RecordBatch::try_new(self.schema.clone(), columns)?;
        Ok(batch.map_rows(rows))
    }
}

impl Operator for Session {
    fn held(&self) -> usize {
        self.members.count()
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch)?,
            Message::Punctuation(time) => {
                self.advance(time.min(INFINITY - 1))?;
                self.flush(out)?;
                out.push(Message::Punctuation(time));
            }
        }
        self.flush(out)?;
        self.members.tidy()
    }

    fn save(&self) -> Result<Vec<u8>> {
        let ends: Vec<(Time, u32)> = self.ends.all().collect();
        let groups = self.groups.as_ref().map(LingeringGroups::groups);
        encode(&(groups, &self.sessions, ends, self.members.save()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let groups: Option<Groups>;
        let mut ends: Vec<(Time, u32)>;
        let members: SavedSynopsis;
        (groups, self.sessions, ends, members) = decode(state)?;
        self.groups = groups.map(LingeringGroups::new);
        self.ends = Ends::default();
        ends.sort_unstable();
        ends.into_iter().for_each(|end| self.ends.push(end));
        self.members = Synopsis::restore(members)?;
        Ok(())
    }
}
