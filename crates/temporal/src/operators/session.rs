//! `session`: rows of a key that follow one another closely live until the session that they make up ends.
//!
//! Every row lives from its own start to the end of its session: the last row's start plus `timeout`, at most
//! the session's cap. Rows are emitted as start edges, which end together.
//!
//! The cap, if there is a `max_duration`, is the second multiple of it after the session's first row (the
//! next one, if the row lies on a multiple). Trill's rule also depends on rows of other keys; here each key
//! has its own (trill.txt names sessions in §7.6 only; the asserted cases of Trill's tests hold).
//!
//! Invariants: `sessions[g]` is the end of the session of group `g` as things stand; `ends` has an item for
//! each session that is not later than that end, so a session is looked at no later than it ends.

use crate::batch::{Batch, Message};
use crate::groups::Groups;
use crate::operator::{Operator, decode, encode};
use crate::operators::rows_out::RowsOut;
use crate::operators::runs::runs;
use crate::synopsis::{EntryId, SavedSynopsis, Synopsis};
use crate::time::{INFINITY, Kind, Time, end_after};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The session of a group.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Extent {
    /// When it ends if no other row comes.
    end: Time,
    /// When it ends at the latest.
    cap: Time,
    active: bool,
}

/// Extends rows to the end of their session.
pub struct Session {
    key: Vec<usize>,
    /// In ticks.
    timeout: i64,
    max_duration: Option<i64>,
    groups: Option<Groups>,
    sessions: Vec<Extent>,
    ends: BinaryHeap<Reverse<(Time, u32)>>,
    members: Synopsis,
    rows: RowsOut,
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
            ends: BinaryHeap::new(),
            members: Synopsis::default(),
            rows: RowsOut::default(),
        }
    }

    fn batch(&mut self, batch: Batch) -> Result<()> {
        let mut batch = batch.compact()?;
        let key = batch.key(&self.key)?;
        let types: Vec<DataType> =
            self.key.iter().map(|&c| batch.rows.column(c).data_type().clone()).collect();
        let kept = self.members.keep(batch.rows.clone());
        let mut numbers = Vec::new();
        for run in runs(&batch.sync) {
            let time = batch.sync[run.start];
            self.advance(time);
            numbers.clear();
            let groups = self.groups.get_or_insert_with(|| Groups::new(&types));
            groups.intern(&key, run.clone(), &mut numbers)?;
            let capacity = groups.capacity().max(self.sessions.len());
            self.sessions.resize(capacity, Extent::default());
            for (row, &group) in run.zip(&numbers) {
                // An end edge says nothing that a session asks for.
                if batch.kind_at(row) != Kind::End {
                    self.extend(group, time);
                    self.rows.push(time, INFINITY, (kept, row as u32));
                    self.members.insert(group, (kept, row as u32), time, INFINITY, 0);
                }
            }
            self.forget_idle(&numbers);
        }
        Ok(())
    }

    /// Forgets the groups that have no session: only an end edge came, after its session.
    fn forget_idle(&mut self, numbers: &[u32]) {
        let Session { groups: Some(groups), sessions, .. } = self else { return };
        numbers.iter().filter(|&&g| !sessions[g as usize].active).for_each(|&g| groups.remove(g));
    }

    /// A row of this group starts now: it goes on with the session, or begins one.
    fn extend(&mut self, group: u32, now: Time) {
        let cap = self.cap(now);
        let session = &mut self.sessions[group as usize];
        if !session.active {
            *session = Extent { end: now, cap, active: true };
            self.ends.push(Reverse((end_after(now, self.timeout).min(cap), group)));
        }
        session.end = end_after(now, self.timeout).min(session.cap);
    }

    /// When a session that begins with a row at `first` ends at the latest.
    fn cap(&self, first: Time) -> Time {
        let Some(max) = self.max_duration else { return INFINITY };
        let past = first.rem_euclid(max);
        let ahead = if past == 0 { max } else { (max - past).saturating_add(max) };
        end_after(first, ahead)
    }

    /// Ends the sessions that are over at `time`.
    fn advance(&mut self, time: Time) {
        while let Some(&Reverse((looked, group))) = self.ends.peek()
            && looked <= time
        {
            self.ends.pop();
            let end = self.sessions[group as usize].end;
            if end > looked {
                self.ends.push(Reverse((end, group)));
                continue;
            }
            self.sessions[group as usize].active = false;
            let members: Vec<EntryId> = self.members.of(group).map(|(id, _)| id).collect();
            for id in members {
                let entry = self.members.get(id);
                self.rows.push(end, entry.start, entry.row);
                self.members.remove(id);
            }
            if let Some(groups) = &mut self.groups {
                groups.remove(group);
            }
        }
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
                self.advance(time.min(INFINITY - 1));
                self.rows.flush(&self.members, out)?;
                out.push(Message::Punctuation(time));
            }
        }
        self.rows.flush(&self.members, out)?;
        self.members.tidy()
    }

    fn save(&self) -> Result<Vec<u8>> {
        let ends: Vec<(Time, u32)> = self.ends.iter().map(|Reverse(e)| *e).collect();
        encode(&(&self.groups, &self.sessions, ends, self.members.save()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let ends: Vec<(Time, u32)>;
        let members: SavedSynopsis;
        (self.groups, self.sessions, ends, members) = decode(state)?;
        self.ends = ends.into_iter().map(Reverse).collect();
        self.members = Synopsis::restore(members)?;
        Ok(())
    }
}
