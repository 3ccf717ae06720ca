//! The bound of a write, from the schema alone: the steps of `commit` and `ordered`, counted.
//!
//! Invariant: no call makes more requests, conditions or writes, unless a crash left stale entries in an
//! index.

use super::target::Target;
use crate::bound::WriteBound;
use crate::datum::Type;
use crate::mutation::WriteKind;
use crate::schema::{Index, IndexKind, Part, Schema, Table};
use crate::store::{Atomicity, Capabilities};

/// The most that the change of one row touches.
struct Touched {
    /// Entries that are added.
    added: u64,
    /// Entries of unique indexes among them.
    unique: u64,
    /// Entries of other indexes that are not of words among them.
    of_columns: u64,
    /// Unique keys that do not change.
    kept: u64,
    /// Entries that are removed.
    removed: u64,
    /// Rows that this one refers to, and that are looked up.
    references: u64,
    /// References that may point at this row.
    referring: u64,
    limits: Vec<Limit>,
}

/// A limit that a row is counted against.
struct Limit {
    /// How many rows it allows.
    rows: u64,
    /// In how many partitions they are counted.
    partitions: u64,
    /// Whether records are counted, not entries.
    by_rows: bool,
}

impl Limit {
    /// Requests that count its rows: keys first, and if these are too many entries, their records.
    fn requests(&self) -> u64 {
        match self.by_rows {
            true => self.partitions,
            false => self.partitions.saturating_mul(2).saturating_add(self.rows).saturating_add(1),
        }
    }

    /// Further rounds, after the one in which keys are counted.
    fn rounds(&self) -> u64 {
        if self.by_rows { 0 } else { 2 }
    }
}

/// The bound of writing so many rows.
pub(crate) fn bound(schema: &Schema, target: &Target, rows: u64, capabilities: Capabilities) -> WriteBound {
    let touched = Touched::of(schema, target, capabilities);
    let each = match capabilities.atomicity {
        Atomicity::Batch => touched.atomic_bound(),
        Atomicity::Key => touched.ordered_bound(),
    };
    let mut bound = each.times(rows);
    for view in target.views.iter() {
        let entries = |view: &Table| {
            let others = view.indexes.iter().filter(|index| index.kind != IndexKind::Primary);
            others.map(|index| entries(view, index)).fold(0, u64::saturating_add)
        };
        bound.then(&view.bound(target.kind, &target.changed, rows, &entries));
    }
    // The rows and the version of the schema are read in one round.
    bound.requests = bound.requests.saturating_add(rows).saturating_add(1);
    bound.rounds = bound.rounds.saturating_add(1);
    if capabilities.atomicity == Atomicity::Batch {
        bound.conditions = bound.conditions.saturating_add(1);
    }
    bound
}

impl Touched {
    /// What the change of one row of a target touches.
    fn of(schema: &Schema, target: &Target, capabilities: Capabilities) -> Touched {
        let Target { kind, table, changed, .. } = target;
        let touches = |columns: &[usize]| columns.iter().any(|column| changed.contains(column));
        let indexes = table.indexes.iter().filter(|index| index.kind != IndexKind::Primary);
        let indexes: Vec<&Index> = indexes.filter(|index| touches(&index_columns(index))).collect();
        let entries = indexes.iter().map(|index| entries(table, index)).fold(0, u64::saturating_add);
        let is_unique = |index: &&&Index| index.kind == IndexKind::Unique;
        let of_words = |index: &&Index| index.parts.iter().any(|part| part.column().is_none());
        let unique = indexes.iter().filter(is_unique).count() as u64;
        let of_columns = indexes.iter().filter(|index| !is_unique(index) && !of_words(index)).count() as u64;
        let all_unique = table.indexes.iter().filter(|index| index.kind == IndexKind::Unique).count() as u64;
        let (comes, goes) = match kind {
            WriteKind::Insert => (true, false),
            WriteKind::Upsert | WriteKind::Update => (true, true),
            WriteKind::Delete => (false, true),
        };
        let references = table.foreign_keys.iter().filter(|key| touches(&key.columns)).count() as u64;
        let limits = table.limits.iter().filter(|limit| limit.columns.is_empty() || touches(&limit.columns));
        let limits = limits.map(|limit| Limit {
            rows: limit.rows,
            partitions: capabilities.order.partitions(limit.columns.len()),
            by_rows: table
                .counting_index(&limit.columns)
                .is_some_and(|index| index.kind == IndexKind::Primary),
        });
        let limits = limits.collect();
        Touched {
            added: if comes { entries } else { 0 },
            unique: if comes { unique } else { 0 },
            of_columns: if comes { of_columns } else { 0 },
            kept: if *kind == WriteKind::Update { all_unique - unique } else { 0 },
            removed: if goes { entries } else { 0 },
            references: if comes { references } else { 0 },
            referring: if comes { 0 } else { schema.references_to(&table.name).count() as u64 },
            limits: if comes { limits } else { vec![] },
        }
    }

    /// The bound of one conditional commit.
    fn atomic_bound(&self) -> WriteBound {
        WriteBound {
            rows: 1,
            requests: 0,
            rounds: 0,
            conditions: 1 + self.unique + self.references + self.referring + self.limits.len() as u64,
            writes: 1_u64.saturating_add(self.added).saturating_add(self.removed),
        }
    }

    /// The bound of a write key by key, at its worst: a unique key is taken over, a limit is counted by
    /// records, and the row is undone.
    fn ordered_bound(&self) -> WriteBound {
        let counted = self.limits.iter().map(Limit::requests).fold(0, u64::saturating_add);
        // References are checked before and after the row is written.
        let referred = 2 * (self.references + self.referring);
        let stays = self.limits.is_empty() && self.unique + self.kept + referred == 0;
        let behind = if stays { 0 } else { self.of_columns };
        let back = if stays { 0 } else { 1_u64.saturating_add(self.added) };
        let cleared = self.removed.max(back);
        // A unique key is claimed, perhaps from an abandoned claim, and settled.
        let set = (1 + 3 * self.unique).saturating_add(cleared);
        WriteBound {
            rows: 1,
            requests: (referred + 2 * self.unique + self.kept + behind)
                .saturating_add(self.removed)
                .saturating_add(counted),
            rounds: 2 + 2 * self.unique + self.limits.iter().map(Limit::rounds).sum::<u64>(),
            conditions: set,
            writes: set.saturating_add(self.added).saturating_sub(self.unique),
        }
    }
}

/// The columns that the entries of an index are made of.
fn index_columns(index: &Index) -> Vec<usize> {
    let of = |part: &Part| match part {
        Part::Column(at) => vec![*at],
        Part::Words(columns) => columns.clone(),
    };
    index.parts.iter().flat_map(|part| of(&part.part)).collect()
}

/// How many entries a row has in an index, at most.
fn entries(table: &Table, index: &Index) -> u64 {
    let words = |at: &usize| match table.columns[*at].of {
        // Two words have at least one character between them.
        Type::Text(Some(length)) => u64::from(length).div_ceil(2),
        _ => u64::MAX,
    };
    let of = |part: &Part| match part {
        Part::Column(_) => 1,
        Part::Words(columns) => columns.iter().map(words).fold(0, u64::saturating_add),
    };
    index.parts.iter().map(|part| of(&part.part)).fold(1, u64::saturating_mul)
}
