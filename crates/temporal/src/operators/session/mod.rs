//! `session`: rows of a key that follow one another closely live until the session that they make up ends.
//!
//! Every row lives from its own start to the end of its session: the last row's start plus `timeout`, at most
//! the session's cap. Rows are emitted as start edges, which end together; or, if sessions are
//! [windows](Session::windows), once the session has ended, as points there.
//!
//! trill.txt names sessions in §7.6 only.
//!
//! Invariant: `members` holds the rows of the sessions that have not ended.

mod extents;

pub use extents::SessionCap;
pub(super) use extents::{EndedSession, Extents};

use crate::batch::{Batch, Message};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::point_at_end;
use crate::operators::rows_out::RowsOut;
use crate::synopsis::{Entry, SavedSynopsis, Synopsis};
use crate::time::{INFINITY, Kind, Time};
use arrow::array::{Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use serde_bytes::ByteBuf;

/// Rows of sessions that have ended get a column with the first instant of their session.
struct Windows {
    /// The columns of the rows, and that one.
    schema: SchemaRef,
    /// The first instants for the rows on their way out.
    starts: Vec<Time>,
}

/// Extends rows to the end of their session.
pub struct Session {
    sessions: Extents,
    members: Synopsis,
    rows: RowsOut,
    windows: Option<Windows>,
    /// The groups of a batch, and the rows of a session that ends: room that is used again.
    numbers: Vec<u32>,
    ended: Vec<Entry>,
}

impl Session {
    /// Sessions by the `key` columns that end `timeout` ticks after their last row, or at their cap.
    pub fn new(key: Vec<usize>, timeout: i64, cap: Option<SessionCap>) -> Session {
        Session {
            sessions: Extents::new(key, timeout, cap),
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
        self.sessions.number(&mut batch, &mut self.numbers)?;
        let kept = self.members.keep(batch.rows.clone());
        for row in 0..batch.len() {
            let (group, time) = (self.numbers[row], batch.sync[row]);
            self.advance(time)?;
            // An end edge says nothing that a session asks for.
            if batch.kind_at(row) == Kind::End {
                continue;
            }
            self.sessions.extend(group, time);
            let place = (kept, row as u32);
            self.members.insert(group, place, time, INFINITY, 0);
            if self.windows.is_none() {
                self.rows.push(time, INFINITY, place);
            }
        }
        Ok(())
    }

    /// Ends the sessions that are over at `time`.
    fn advance(&mut self, time: Time) -> Result<()> {
        while let Some(EndedSession { group, first, end }) = self.sessions.next_ended(time) {
            self.members.take(group, &mut self.ended);
            match &mut self.windows {
                Some(windows) => {
                    let other = point_at_end::next(end)?;
                    self.ended.iter().for_each(|entry| self.rows.push(end, other, entry.row));
                    windows.starts.resize(windows.starts.len() + self.ended.len(), first);
                }
                None => self.ended.iter().for_each(|entry| self.rows.push(end, entry.start, entry.row)),
            }
            self.ended.clear();
        }
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
    fn held(&self) -> Held {
        self.members.held()
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
        encode(&(ByteBuf::from(self.sessions.save()?), self.members.save()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let sessions: Vec<u8>;
        let members: SavedSynopsis;
        (sessions, members) = decode(state)?;
        self.sessions.restore(&sessions)?;
        self.members = Synopsis::restore(members)?;
        Ok(())
    }
}
