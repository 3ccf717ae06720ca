//! How the rows of a dataset lie over its shards: the fourth of the stream properties that matter for sharding (quill.txt
//! §3), and what has to be known of it where rows are [co-located](crate::nodes::Colocated).
//!
//! What is said holds; what is not known is not said: [`Spread::Unknown`] is always true. Columns are positions while
//! properties are derived, and names in [`crate::Properties`].

use crate::names::count;
use datafusion::common::{DFSchema, JoinType, Result, plan_err};
use datafusion::logical_expr::Join;
use std::fmt;
use std::sync::Arc;

/// How the rows of a dataset lie over its shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spread<C = String> {
    /// There is one shard, which holds all of them.
    One,
    /// By the hash of a key: rows that are equal in its columns are in the same shard, and so are those of any other
    /// dataset of as many shards that lies by columns of the same types. For each column of the key, in order, the
    /// columns that are equal to it in every row.
    By(Vec<Vec<C>>),
    /// By the range that the value of a column is in, and so does any other dataset that is cut at the same bounds: the
    /// columns that are equal to it in every row, and where each shard but the first begins.
    Within(Vec<C>, Arc<[i64]>),
    /// Every shard holds all of them.
    Copied,
    /// In no way that is known.
    Unknown,
}

impl<C> Spread<C> {
    /// The same spread in the columns of a result; unknown if one of the key's columns is not among them.
    pub(crate) fn carried<D>(self, to: impl Fn(C) -> Vec<D>) -> Spread<D> {
        let carried = |same: Vec<C>| -> Vec<D> { same.into_iter().flat_map(&to).collect() };
        match self {
            Spread::One => Spread::One,
            Spread::Copied => Spread::Copied,
            Spread::Unknown => Spread::Unknown,
            Spread::By(key) => {
                let key: Vec<Vec<D>> = key.into_iter().map(carried).collect();
                if key.iter().any(Vec::is_empty) { Spread::Unknown } else { Spread::By(key) }
            }
            Spread::Within(same, bounds) => {
                let same = carried(same);
                if same.is_empty() { Spread::Unknown } else { Spread::Within(same, bounds) }
            }
        }
    }

    /// Copies of rows are taken apart: which rows each shard keeps is its own affair.
    pub(crate) fn picked(self) -> Spread<C> {
        match self {
            Spread::Copied => Spread::Unknown,
            other => other,
        }
    }
}

impl<C: PartialEq> Spread<C> {
    /// Whether rows that are equal in these columns (all rows, if there are none) are in one shard, or in each.
    pub fn keeps_together(&self, columns: &[C]) -> bool {
        match self {
            Spread::One | Spread::Copied => true,
            Spread::By(key) => key.iter().all(|same| same.iter().any(|c| columns.contains(c))),
            Spread::Within(same, _) => same.iter().any(|c| columns.contains(c)),
            Spread::Unknown => false,
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spread::One => f.write_str("in one shard"),
            // Equal columns are as good as each other; the first is the one that was asked for.
            Spread::By(key) => {
                let names: Vec<&str> =
                    key.iter().filter_map(|same| same.first()).map(String::as_str).collect();
                write!(f, "by {}", names.join(", "))
            }
            Spread::Within(same, _) => {
                write!(f, "by ranges of {}", same.first().map_or("", String::as_str))
            }
            Spread::Copied => f.write_str("copied to every shard"),
            Spread::Unknown => f.write_str("in no known way"),
        }
    }
}

/// The columns that a join makes equal, as positions left and right.
pub(crate) type EqualColumns = [(usize, usize)];

/// The spread of what a join of two sides, each by itself in every shard, gives.
///
/// A row that comes out is where the rows are that it was made of. Rows that come out although their partners are
/// elsewhere come out where they are, so the side that is kept decides; `width` is the number of columns on the left.
pub(crate) fn of_join(
    join: &Join,
    left: Spread<usize>,
    right: Spread<usize>,
    equal: &EqualColumns,
    width: usize,
) -> Spread<usize> {
    if (&left, &right) == (&Spread::Copied, &Spread::Copied) {
        return Spread::Copied;
    }
    let by = |spread: Spread<usize>| match spread {
        Spread::By(_) | Spread::Within(..) => Some(spread),
        _ => None,
    };
    let on_the_right = |spread: Spread<usize>| spread.carried(|i| vec![i + width]);
    let known = match join.join_type {
        JoinType::Inner => by(left).or_else(|| by(on_the_right(right))).map(|s| with_equal(s, equal, width)),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => by(left),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => by(right),
        JoinType::Right => by(on_the_right(right)),
        JoinType::Full => None,
    };
    known.unwrap_or(Spread::Unknown)
}

/// Where an inner join makes two columns equal, both stand for the key's.
fn with_equal(spread: Spread<usize>, equal: &EqualColumns, width: usize) -> Spread<usize> {
    let with_equal = |mut same: Vec<usize>| {
        for (l, r) in equal.iter().map(|(l, r)| (*l, r + width)) {
            match (same.contains(&l), same.contains(&r)) {
                (true, false) => same.push(r),
                (false, true) => same.push(l),
                _ => {}
            }
        }
        same
    };
    match spread {
        Spread::By(key) => Spread::By(key.into_iter().map(with_equal).collect()),
        Spread::Within(same, bounds) => Spread::Within(with_equal(same), bounds),
        other => other,
    }
}

/// Refuses a join whose matching rows might be in different shards. The sides are described in their columns' names.
pub(crate) fn check_join(
    join: &Join,
    (left, right): (&Spread<usize>, &Spread<usize>),
    equal: &EqualColumns,
    shards: usize,
) -> Result<()> {
    let kept = kept_copy(join, left, right);
    if let Some((side, other)) = kept {
        return plan_err!(
            "join: the {side} side is copied to every shard, so rows that the {} join keeps would come out {shards} \
             times; broadcast the {other} side instead, or bring both together with .rekey(…).redistribute()",
            join.join_type.to_string().to_lowercase()
        );
    }
    let together = match (left, right) {
        (Spread::One, Spread::One) | (Spread::Copied, _) | (_, Spread::Copied) => true,
        // Whether there is a null among the others, every row has to know.
        (Spread::By(l), Spread::By(r)) => !join.null_aware && aligned(l, r, equal),
        (Spread::Within(l, at), Spread::Within(r, bounds)) => {
            !join.null_aware && at == bounds && meet(l, r, equal)
        }
        _ => false,
    };
    if together {
        return Ok(());
    }
    plan_err!("{}", apart(join, (left, right), equal, shards))
}

/// What has to meet, how it lies, and what to do.
fn apart(
    join: &Join,
    (left, right): (&Spread<usize>, &Spread<usize>),
    equal: &EqualColumns,
    shards: usize,
) -> String {
    let name = |schema: &DFSchema, i: usize| schema.field(i).name().clone();
    let named = |spread: &Spread<usize>, schema: &DFSchema| {
        spread.clone().carried(|i| vec![name(schema, i)]).to_string()
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

/// The copied side, if it is one whose rows come out whether or not the other side's are there, and the other side.
fn kept_copy(
    join: &Join,
    left: &Spread<usize>,
    right: &Spread<usize>,
) -> Option<(&'static str, &'static str)> {
    use JoinType::{Full, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    let keeps_left = matches!(join.join_type, Left | Full | LeftSemi | LeftAnti | LeftMark);
    let keeps_right = matches!(join.join_type, Right | Full | RightSemi | RightAnti | RightMark);
    match (left, right) {
        (Spread::Copied, Spread::Copied) => None,
        (Spread::Copied, _) if keeps_left => Some(("left", "right")),
        (_, Spread::Copied) if keeps_right => Some(("right", "left")),
        _ => None,
    }
}

/// Whether equal rows of two sides that are spread by these keys have the same hash.
fn aligned(left: &[Vec<usize>], right: &[Vec<usize>], equal: &EqualColumns) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(l, r)| meet(l, r, equal))
}

/// Whether one of these columns is made equal to one of those.
fn meet(left: &[usize], right: &[usize], equal: &EqualColumns) -> bool {
    equal.iter().any(|(l, r)| left.contains(l) && right.contains(r))
}
