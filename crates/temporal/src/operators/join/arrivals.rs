//! The rows of one side that started at the present instant.
//!
//! Invariants: rows are ranked by arrival; their batches are pinned. Of few rows those of a group are found
//! by a look at all of them; where there are many, those of each group form a list.

use crate::synopsis::{RowRef, Synopsis};
use crate::time::Time;
use datafusion::common::Result;
use serde::{Deserialize, Serialize};

/// More rows than this have lists by group.
const FEW: usize = 16;

/// Stands for no row.
const NONE: u32 = u32::MAX;

/// A row that started now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub group: u32,
    pub end: Time,
    pub row: RowRef,
    /// The next row of its group, where there are lists.
    next: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    rows: Vec<Arrived>,
    /// First and last row of each group, where there are lists.
    lists: Vec<(u32, u32)>,
}

/// Arrivals of a checkpoint: groups and ends.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedArrivals {
    rows: Vec<(u32, Time)>,
    columns: Option<Vec<u8>>,
}

impl Arrivals {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The groups of all rows.
    pub fn groups(&self) -> impl Iterator<Item = u32> {
        self.rows.iter().map(|row| row.group)
    }

    /// The row of this rank.
    #[inline]
    pub fn get(&self, rank: usize) -> Option<Arrived> {
        self.rows.get(rank).copied()
    }

    /// A row of `side` starts now. Its rank is the number of those before it.
    #[inline]
    pub fn push(&mut self, group: u32, end: Time, row: RowRef, side: &mut Synopsis) {
        side.pin(row.0);
        self.rows.push(Arrived { group, end, row, next: NONE });
        if self.rows.len() == FEW + 1 {
            (0..self.rows.len()).for_each(|rank| self.link(rank));
        } else if self.rows.len() > FEW {
            self.link(self.rows.len() - 1);
        }
    }

    /// Puts a row at the end of its group's list.
    fn link(&mut self, rank: usize) {
        let group = self.rows[rank].group as usize;
        if self.lists.len() <= group {
            self.lists.resize(group + 1, (NONE, NONE));
        }
        let (first, last) = &mut self.lists[group];
        match *first {
            NONE => *first = rank as u32,
            _ => self.rows[*last as usize].next = rank as u32,
        }
        *last = rank as u32;
    }

    /// The rows of a group whose ranks are below `limit`, in the order of their ranks.
    #[inline]
    pub fn of(&self, group: u32, limit: usize) -> impl Iterator<Item = &Arrived> {
        let has_lists = self.rows.len() > FEW;
        let (few, list) = match has_lists {
            true => (&[][..], self.lists.get(group as usize).map_or(NONE, |list| list.0)),
            false => (&self.rows[..limit.min(self.rows.len())], NONE),
        };
        let few = few.iter().filter(move |row| row.group == group);
        let next = |row: &u32| Some(self.rows[*row as usize].next).filter(|next| *next != NONE);
        let listed = std::iter::successors(Some(list).filter(|first| *first != NONE), next)
            .take_while(move |rank| (*rank as usize) < limit)
            .map(|rank| &self.rows[rank as usize]);
        few.chain(listed)
    }

    /// Takes out all rows, whose time has passed, in the order of their ranks.
    pub fn settle(&mut self, side: &mut Synopsis, mut take: impl FnMut(&mut Synopsis, Arrived)) {
        let has_lists = self.rows.len() > FEW;
        for row in self.rows.drain(..) {
            side.unpin(row.row.0);
            if has_lists {
                self.lists[row.group as usize] = (NONE, NONE);
            }
            take(side, row);
        }
    }

    /// The rows for a checkpoint; their batches are those of `side`.
    pub fn save(&self, side: &Synopsis) -> Result<SavedArrivals> {
        let (rows, places): (Vec<_>, Vec<_>) = self.rows.iter().map(|r| ((r.group, r.end), r.row)).unzip();
        Ok(SavedArrivals { rows, columns: side.save_rows(&places)? })
    }

    /// The same rows again.
    pub fn restore(saved: SavedArrivals, side: &mut Synopsis) -> Result<Arrivals> {
        let mut arrivals = Arrivals::default();
        let place = side.restore_rows(saved.columns, saved.rows.len())?;
        for ((group, end), row) in saved.rows.into_iter().zip(0..) {
            arrivals.push(group, end, (place, row), side);
        }
        Ok(arrivals)
    }
}
