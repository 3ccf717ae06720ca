//! The sessions of groups as they stand: each from its first row to its end if no other row comes.
//!
//! Invariants: `extents[g]` is the session of group `g`, if it has one. `ends` has one item for each session,
//! at its end or before: rows that go on with a session leave its item where it is, and once time comes there
//! it is put off. So what is kept grows with the number of sessions, not with that of their rows.

use crate::batch::Batch;
use crate::groups::{Groups, LingeringGroups};
use crate::operator::{decode, encode};
use crate::synopsis::Ends;
use crate::time::{Time, end_after};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use serde::{Deserialize, Serialize};

/// When a session ends at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub enum SessionCap<D = i64> {
    /// So long after its first row.
    After(D),
    /// At the second multiple of this after its first row; at the next one, if that row lies on a multiple.
    /// So it lasts less than twice as long. Trill's rule also depends on rows of other keys; here each key
    /// has its own, and the cases that Trill's tests assert hold.
    OnGrid(D),
}

impl<D> SessionCap<D> {
    /// The longest duration, which counts as the kind of cap says.
    pub fn duration(&self) -> &D {
        match self {
            SessionCap::After(duration) | SessionCap::OnGrid(duration) => duration,
        }
    }

    /// The same kind of cap with another duration.
    pub fn map<T>(self, map: impl FnOnce(D) -> T) -> SessionCap<T> {
        match self {
            SessionCap::After(duration) => SessionCap::After(map(duration)),
            SessionCap::OnGrid(duration) => SessionCap::OnGrid(map(duration)),
        }
    }
}

impl SessionCap {
    /// The latest end of a session with this first row.
    fn end(self, first: Time) -> Time {
        let ahead = match self {
            SessionCap::After(ticks) => ticks,
            SessionCap::OnGrid(ticks) => match first.rem_euclid(ticks) {
                0 => ticks,
                past => (ticks - past).saturating_add(ticks),
            },
        };
        end_after(first, ahead)
    }
}

/// A session as it stands.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Extent {
    first: Time,
    /// When it ends if no other row comes.
    end: Time,
}

/// A session that is over.
#[derive(Debug, Clone, Copy)]
pub(in crate::operators) struct EndedSession {
    pub group: u32,
    /// The start of its first row.
    pub first: Time,
    pub end: Time,
}

/// See the module.
pub(in crate::operators) struct Extents {
    key: Vec<usize>,
    /// In ticks.
    timeout: i64,
    cap: Option<SessionCap>,
    groups: Option<LingeringGroups>,
    extents: Vec<Option<Extent>>,
    ends: Ends<u32>,
}

impl Extents {
    /// Sessions by the `key` columns that end `timeout` ticks after their last row, or at their cap.
    pub fn new(key: Vec<usize>, timeout: i64, cap: Option<SessionCap>) -> Extents {
        Extents { key, timeout, cap, groups: None, extents: Vec::new(), ends: Ends::default() }
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The start of the session that began first.
    pub fn oldest(&self) -> Option<Time> {
        self.extents.iter().flatten().map(|extent| extent.first).min()
    }

    /// One more than the greatest number of a group so far.
    pub fn capacity(&self) -> usize {
        self.extents.len()
    }

    /// The groups, of which those of ended sessions are forgotten with the next batch; none before the first.
    pub fn groups(&self) -> Option<&Groups> {
        self.groups.as_ref().map(LingeringGroups::groups)
    }

    /// Finds the groups of all rows of a batch: `numbers`.
    pub fn number(&mut self, batch: &mut Batch, numbers: &mut Vec<u32>) -> Result<()> {
        let key = batch.key(&self.key)?;
        let types = || self.key.iter().map(|&c| batch.rows.column(c).data_type().clone());
        let groups = self
            .groups
            .get_or_insert_with(|| LingeringGroups::new(Groups::new(&types().collect::<Vec<DataType>>())));
        groups.forget(|| |group| self.extents[group as usize].is_none());
        numbers.clear();
        groups.intern(&key, 0..batch.len(), numbers)?;
        self.extents.resize(groups.capacity().max(self.extents.len()), None);
        Ok(())
    }

    /// A row of this group starts now: it goes on with the session, or begins one. Returns whether it begins
    /// one.
    #[inline]
    pub fn extend(&mut self, group: u32, now: Time) -> bool {
        let until = end_after(now, self.timeout);
        let extent = &mut self.extents[group as usize];
        let first = extent.map_or(now, |extent| extent.first);
        let end = self.cap.map_or(until, |cap| until.min(cap.end(first)));
        let begins = extent.replace(Extent { first, end }).is_none();
        if begins {
            self.ends.push((end, group));
        }
        begins
    }

    /// The next session that is over at `time`. They come in the order of their ends.
    #[inline]
    pub fn next_ended(&mut self, time: Time) -> Option<EndedSession> {
        while let Some((due, group)) = self.ends.first_until(time) {
            self.ends.pop();
            match self.extents[group as usize] {
                Some(Extent { end, .. }) if end > due => self.ends.push((end, group)),
                Some(Extent { first, end }) => {
                    self.extents[group as usize] = None;
                    return Some(EndedSession { group, first, end });
                }
                None => {}
            }
        }
        None
    }

    /// All of it, for a checkpoint.
    pub fn save(&self) -> Result<Vec<u8>> {
        let ends: Vec<(Time, u32)> = self.ends.all().collect();
        encode(&(self.groups(), &self.extents, ends))
    }

    /// Takes over what was saved.
    pub fn restore(&mut self, state: &[u8]) -> Result<()> {
        let groups: Option<Groups>;
        let mut ends: Vec<(Time, u32)>;
        (groups, self.extents, ends) = decode(state)?;
        self.groups = groups.map(LingeringGroups::new);
        self.ends = Ends::default();
        ends.sort_unstable();
        ends.into_iter().for_each(|end| self.ends.push(end));
        Ok(())
    }
}
