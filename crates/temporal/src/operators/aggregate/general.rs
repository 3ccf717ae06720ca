//! The aggregate over any rows: intervals of any length, start edges, end edges.
//!
//! Invariants: a row is in its group's state exactly while it is alive; the intervals that end at one
//! instant are also summed up by group in a *pane* for that instant, and subtracted as one when it comes
//! (trill.txt §5.2.1); end edges are subtracted row by row. What happens at an instant is emitted when
//! time has passed it.

use super::calls::{Plan, States};
use super::emitter::Emitter;
use super::leaving::Leaving;
use super::live::Live;
use crate::batch::{Batch, Message};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::runs::runs;
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use datafusion::common::Result;
use hashbrown::HashMap;
use serde_bytes::ByteBuf;
use std::collections::BTreeMap;

/// See the module.
///
/// A group's part of a pane takes time logarithmic in the number of panes when it is made, and one step
/// when the pane ends; by itself the end of an interval costs nothing.
pub(super) struct General {
    plan: Plan,
    now: Time,
    live: Live,
    /// The groups that lose rows at each coming instant, with the place of what they lose.
    ends: BTreeMap<Time, Vec<(u32, u32)>>,
    /// Where the rows of a group that end at an instant are summed up.
    place_of: HashMap<(Time, u32), u32>,
    /// The states of all panes, by place.
    panes: States,
    pane_rows: Vec<i64>,
    free: Vec<u32>,
    groups: Vec<u32>,
    places: Vec<u32>,
}

impl General {
    pub fn new(plan: Plan, leaving: Leaving, emitter: Emitter) -> Result<General> {
        Ok(General {
            now: BEGINNING,
            live: Live::new(&plan, leaving, emitter)?,
            ends: BTreeMap::new(),
            place_of: HashMap::new(),
            panes: plan.states_beside_rows(leaving)?,
            pane_rows: Vec::new(),
            free: Vec::new(),
            groups: Vec::new(),
            places: Vec::new(),
            plan,
        })
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let mut batch = batch.compact()?;
        let key = batch.key(&self.plan.key)?;
        let rows = self.plan.evaluate(&batch)?;
        self.live.states.load(&rows)?;
        self.panes.load(&rows)?;
        for run in runs(&batch.sync) {
            self.advance(batch.sync[run.start], out)?;
            self.groups.clear();
            let mut groups = std::mem::take(&mut self.groups);
            self.live.groups.intern(&key, run.clone(), &mut groups)?;
            self.live.grow();
            let by = |row| if batch.kind_at(row) == Kind::End { -1 } else { 1 };
            self.live.touch(&groups, run.clone().map(by), self.now);
            let mut at = run.start;
            while at < run.end {
                let kind = batch.kind_at(at);
                let same = (at..run.end).take_while(|&i| batch.kind_at(i) == kind).count();
                self.rows(&batch, kind, at, &groups[at - run.start..at - run.start + same]);
                at += same;
            }
            self.groups = groups;
        }
        self.live.flush(out)
    }

    /// Takes in rows of one kind that come now, from row `first` on.
    fn rows(&mut self, batch: &Batch, kind: Kind, first: usize, groups: &[u32]) {
        match kind {
            Kind::End => return self.live.states.deaccumulate(groups, first),
            _ => self.live.states.accumulate(groups, first),
        }
        if kind == Kind::Interval {
            self.places.clear();
            for (i, &group) in groups.iter().enumerate() {
                let place = self.place(batch.other_at(first + i), group);
                self.pane_rows[place as usize] += 1;
                self.places.push(place);
            }
            self.panes.grow(self.pane_rows.len());
            self.panes.accumulate(&self.places, first);
        }
    }

    /// Where the rows of `group` that end at `end` are summed up.
    fn place(&mut self, end: Time, group: u32) -> u32 {
        let General { place_of, ends, free, pane_rows, .. } = self;
        *place_of.entry((end, group)).or_insert_with(|| {
            let place = free.pop().unwrap_or_else(|| {
                pane_rows.push(0);
                pane_rows.len() as u32 - 1
            });
            ends.entry(end).or_default().push((group, place));
            place
        })
    }

    /// Moves time to `time`, and emits everything before it.
    fn advance(&mut self, time: Time, out: &mut Vec<Message>) -> Result<()> {
        if time <= self.now {
            return Ok(());
        }
        self.live.commit(self.now, out)?;
        while let Some(entry) = self.ends.first_entry()
            && *entry.key() <= time
            && *entry.key() < INFINITY
        {
            let (end, parts) = entry.remove_entry();
            self.expire(end, &parts);
            if end < time {
                self.live.commit(end, out)?;
            }
        }
        self.now = time;
        Ok(())
    }

    /// Takes out of the groups what ends at `end`.
    fn expire(&mut self, end: Time, parts: &[(u32, u32)]) {
        self.groups.clear();
        self.places.clear();
        for &(group, place) in parts {
            self.place_of.remove(&(end, group));
            self.groups.push(group);
            self.places.push(place);
        }
        let leaving = self.places.iter().map(|&place| -std::mem::take(&mut self.pane_rows[place as usize]));
        self.live.touch(&self.groups, leaving, end);
        self.live.states.difference(&self.groups, &self.panes, &self.places, end);
        self.panes.reset(&self.places);
        self.free.extend_from_slice(&self.places);
    }
}

impl Operator for General {
    fn held(&self) -> Held {
        Held::saved(self.live.living(), None, self.save())
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out)?,
            Message::Punctuation(time) => {
                self.advance(time, out)?;
                self.live.punctuation(time, out)?;
            }
        }
        self.live.states.failure()?;
        self.panes.failure()
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&(
            self.now,
            ByteBuf::from(self.live.save()?),
            &self.ends,
            self.panes.save()?,
            &self.pane_rows,
            &self.free,
        ))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (live, panes): (Vec<u8>, Vec<ByteBuf>);
        (self.now, live, self.ends, panes, self.pane_rows, self.free) = decode(state)?;
        self.place_of =
            self.ends.iter().flat_map(|(&e, ps)| ps.iter().map(move |&(g, p)| ((e, g), p))).collect();
        self.panes.restore(&panes)?;
        self.live.restore(&live)
    }
}
