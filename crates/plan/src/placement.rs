//! How the rows of a dataset are placed over its shards: the fourth of the stream properties that matter for
//! sharding (quill.txt §3), and what [co-location](crate::nodes::Colocated) is checked against.
//!
//! Invariant: a placement other than [`Placement::Unknown`] holds for every row. Columns are positions while
//! properties are derived, and names in [`crate::Properties`].

use crate::names::count;
use datafusion::common::{DFSchema, JoinType, Result, plan_err};
use datafusion::logical_expr::Join;
use std::fmt;
use std::sync::Arc;

/// How the rows of a dataset are placed over its shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement<C = String> {
    /// There is one shard, which holds all of them.
    OneShard,
    /// By the hash of a key. Rows with equal keys are in the same shard, also those of another dataset with
    /// as many shards whose key has the same types. For each column of the key, in order: the columns that
    /// are equal to it in every row.
    Hashed(Vec<Vec<C>>),
    /// By runs of a key that the rows come sorted by: rows with equal keys are in the same shard, and those
    /// of another dataset with an equal key may be in another. The columns are as those of a hash.
    Runs(Vec<Vec<C>>),
    /// By ranges of a column: the columns that are equal to it in every row, and the first value of each
    /// shard but the first. Datasets with the same bounds have equal values in the same shard.
    Ranges(Vec<C>, Arc<[i64]>),
    /// Every shard holds all of them.
    Replicated,
    /// Nothing is known.
    Unknown,
}

impl<C> Placement<C> {
    /// The same placement in the columns of a result; unknown if one of the key's columns is not among them.
    pub(crate) fn map_columns<D>(self, to: impl Fn(C) -> Vec<D>) -> Placement<D> {
        let mapped = |columns: Vec<C>| -> Vec<D> { columns.into_iter().flat_map(&to).collect() };
        match self {
            Placement::OneShard => Placement::OneShard,
            Placement::Replicated => Placement::Replicated,
            Placement::Unknown => Placement::Unknown,
            Placement::Hashed(key) => {
                let key: Vec<Vec<D>> = key.into_iter().map(mapped).collect();
                if key.iter().any(Vec::is_empty) { Placement::Unknown } else { Placement::Hashed(key) }
            }
            Placement::Runs(key) => {
                let key: Vec<Vec<D>> = key.into_iter().map(mapped).collect();
                if key.iter().any(Vec::is_empty) { Placement::Unknown } else { Placement::Runs(key) }
            }
            Placement::Ranges(equal_columns, bounds) => {
                let equal_columns = mapped(equal_columns);
                if equal_columns.is_empty() {
                    Placement::Unknown
                } else {
                    Placement::Ranges(equal_columns, bounds)
                }
            }
        }
    }

    /// The placement after each shard has chosen some of its rows by itself: replicas are no longer equal.
    pub(crate) fn after_local_choice(self) -> Placement<C> {
        match self {
            Placement::Replicated => Placement::Unknown,
            other => other,
        }
    }
}

impl<C: PartialEq> Placement<C> {
    /// Whether rows that are equal in these columns (all rows, if there are none) are in one shard, or in
    /// each.
    pub fn keeps_together(&self, columns: &[C]) -> bool {
        match self {
            Placement::OneShard | Placement::Replicated => true,
            Placement::Hashed(key) | Placement::Runs(key) => {
                key.iter().all(|equal_columns| equal_columns.iter().any(|c| columns.contains(c)))
            }
            Placement::Ranges(equal_columns, _) => equal_columns.iter().any(|c| columns.contains(c)),
            Placement::Unknown => false,
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::OneShard => f.write_str("in one shard"),
            // Equal columns are as good as each other; the first is the one that was asked for.
            Placement::Hashed(key) | Placement::Runs(key) => {
                let names: Vec<&str> = key
                    .iter()
                    .filter_map(|equal_columns| equal_columns.first())
                    .map(String::as_str)
                    .collect();
                let runs = if matches!(self, Placement::Runs(_)) { "runs of " } else { "" };
                write!(f, "by {runs}{}", names.join(", "))
            }
            Placement::Ranges(equal_columns, _) => {
                write!(f, "by ranges of {}", equal_columns.first().map_or("", String::as_str))
            }
            Placement::Replicated => f.write_str("copied to every shard"),
            Placement::Unknown => f.write_str("in no known way"),
        }
    }
}

/// The columns that a join makes equal, as positions left and right.
pub(crate) type EqualColumns = [(usize, usize)];

/// The placement of what a join of two sides, each by itself in every shard, gives.
///
/// A result row is in the shard of the rows that it was made of. Where a join keeps the rows of one side,
/// that side decides. `width` is the number of columns on the left.
pub(crate) fn of_join(
    join: &Join,
    left: Placement<usize>,
    right: Placement<usize>,
    equal: &EqualColumns,
    width: usize,
) -> Placement<usize> {
    if (&left, &right) == (&Placement::Replicated, &Placement::Replicated) {
        return Placement::Replicated;
    }
    let partitioned = |placement: Placement<usize>| match placement {
        Placement::Hashed(_) | Placement::Runs(_) | Placement::Ranges(..) => Some(placement),
        _ => None,
    };
    let on_the_right = |placement: Placement<usize>| placement.map_columns(|i| vec![i + width]);
    let placement = match join.join_type {
        JoinType::Inner => partitioned(left)
            .or_else(|| partitioned(on_the_right(right)))
            .map(|s| with_equal(s, equal, width)),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => partitioned(left),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => partitioned(right),
        JoinType::Right => partitioned(on_the_right(right)),
        JoinType::Full => None,
    };
    placement.unwrap_or(Placement::Unknown)
}

/// Where an inner join makes two columns equal, both stand for the key's.
fn with_equal(placement: Placement<usize>, equal: &EqualColumns, width: usize) -> Placement<usize> {
    let with_equal = |mut equal_columns: Vec<usize>| {
        for (l, r) in equal.iter().map(|(l, r)| (*l, r + width)) {
            match (equal_columns.contains(&l), equal_columns.contains(&r)) {
                (true, false) => equal_columns.push(r),
                (false, true) => equal_columns.push(l),
                _ => {}
            }
        }
        equal_columns
    };
    match placement {
        Placement::Hashed(key) => Placement::Hashed(key.into_iter().map(with_equal).collect()),
        Placement::Runs(key) => Placement::Runs(key.into_iter().map(with_equal).collect()),
        Placement::Ranges(equal_columns, bounds) => Placement::Ranges(with_equal(equal_columns), bounds),
        other => other,
    }
}

/// Refuses a join whose matching rows might be in different shards. The sides are described in their columns'
/// names.
pub(crate) fn check_join(
    join: &Join,
    (left, right): (&Placement<usize>, &Placement<usize>),
    equal: &EqualColumns,
    shards: usize,
) -> Result<()> {
    let kept = kept_replica(join, left, right);
    if let Some((side, other)) = kept {
        return plan_err!(
            "join: the {side} side is copied to every shard, so rows that the {} join keeps would come out {shards} \
             times; broadcast the {other} side instead, or bring both together with .rekey(…).redistribute()",
            join.join_type.to_string().to_lowercase()
        );
    }
    let colocated = match (left, right) {
        (Placement::OneShard, Placement::OneShard)
        | (Placement::Replicated, _)
        | (_, Placement::Replicated) => true,
        // `not in`: a null in any shard decides about rows of every shard.
        (Placement::Hashed(l), Placement::Hashed(r)) => !join.null_aware && aligned(l, r, equal),
        (Placement::Ranges(l, at), Placement::Ranges(r, bounds)) => {
            !join.null_aware && at == bounds && has_equal_columns(l, r, equal)
        }
        _ => false,
    };
    if colocated {
        return Ok(());
    }
    plan_err!("{}", not_colocated(join, (left, right), equal, shards))
}

/// The message: which rows have to meet, where they are, and what to do.
fn not_colocated(
    join: &Join,
    (left, right): (&Placement<usize>, &Placement<usize>),
    equal: &EqualColumns,
    shards: usize,
) -> String {
    let name = |schema: &DFSchema, i: usize| schema.field(i).name().clone();
    let named = |placement: &Placement<usize>, schema: &DFSchema| {
        placement.clone().map_columns(|i| vec![name(schema, i)]).to_string()
    };
    let on: Vec<String> = equal
        .iter()
        .map(|(l, r)| match (name(join.left.schema(), *l), name(join.right.schema(), *r)) {
            (l, r) if l == r => l,
            (l, r) => format!("{l} = {r}"),
        })
        .collect();
    let (what, cure) = match on.is_empty() {
        true => ("all rows of both sides".to_string(), "copy one of them with .broadcast()".to_string()),
        false => (
            format!("rows with equal {}", on.join(", ")),
            "bring both sides together with .rekey(…).redistribute(), by these columns in the same order and into as \
             many shards, or copy one of them with .broadcast()"
                .to_string(),
        ),
    };
    format!(
        "join: {what} have to meet in one shard, but over {} the left side lies {} and the right side {}; {cure}",
        count(shards, "shard"),
        named(left, join.left.schema()),
        named(right, join.right.schema())
    )
}

/// The replicated side and the other one, if the join keeps rows of the replicated side that match nothing.
fn kept_replica(
    join: &Join,
    left: &Placement<usize>,
    right: &Placement<usize>,
) -> Option<(&'static str, &'static str)> {
    use JoinType::{Full, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    let keeps_left = matches!(join.join_type, Left | Full | LeftSemi | LeftAnti | LeftMark);
    let keeps_right = matches!(join.join_type, Right | Full | RightSemi | RightAnti | RightMark);
    match (left, right) {
        (Placement::Replicated, Placement::Replicated) => None,
        (Placement::Replicated, _) if keeps_left => Some(("left", "right")),
        (_, Placement::Replicated) if keeps_right => Some(("right", "left")),
        _ => None,
    }
}

/// Whether equal rows of two sides that are hashed by these keys have the same hash.
fn aligned(left: &[Vec<usize>], right: &[Vec<usize>], equal: &EqualColumns) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(l, r)| has_equal_columns(l, r, equal))
}

/// Whether the join makes a column on the left equal to one on the right.
fn has_equal_columns(left: &[usize], right: &[usize], equal: &EqualColumns) -> bool {
    equal.iter().any(|(l, r)| left.contains(l) && right.contains(r))
}
