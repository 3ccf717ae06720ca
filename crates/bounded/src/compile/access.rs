//! Access paths to one table: which indexes can find its rows (piql.txt §5.2.1, §5.3).
//!
//! An index can be used as far as its parts, **in their order**, have values: columns that equal a constant
//! or a column of a relation that is already joined, and words that are searched for. The next part can be
//! limited to an interval, and the parts behind that give an order.
//!
//! Where no index fits, a new one is proposed: words, equal columns, then the column of an interval or the
//! columns of the order. Behind these stand the references that later joins follow, if the records are not
//! needed then.
//!
//! Invariant: a candidate reads only rows that its key names. How many these are at most is known only if the
//! schema has a limit or a unique key for them.

use crate::keys::KeyOrder;
use crate::plan::{Access, Interval};
use crate::schema::{Index, IndexKind, IndexState, KeyPart, Part, Table, fresh_name};
use crate::store::{Atomicity, Capabilities};
use datafusion::logical_expr::Expr;
use std::collections::{BTreeMap, BTreeSet};

/// What the search knows of a table when it looks for access paths.
pub(super) struct AccessContext<'a> {
    /// The table.
    pub table: &'a Table,
    /// Columns that equal an expression, with the expression; `is null` for a column that is null.
    pub equal: BTreeMap<usize, Expr>,
    /// Columns in which a word is searched for, with the word.
    pub words: Vec<(Vec<usize>, Expr)>,
    /// Columns that are limited to an interval.
    pub intervals: BTreeMap<usize, Interval>,
    /// The order that the query needs, as columns of this table; `None` if the table cannot give it.
    pub order: Option<Vec<(usize, KeyOrder)>>,
    /// Whether rows of different keys can be merged into that order by their positions in the index.
    pub merges: bool,
    /// What the store can do.
    pub capabilities: Capabilities,
}

/// An access path.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    /// The key or range.
    pub access: Access,
    /// The values of the first parts of the key.
    pub keys: Vec<Expr>,
    /// Columns whose equalities the key implies.
    pub equal: Vec<usize>,
    /// The word search that the key implies.
    pub words: Option<usize>,
    /// The column whose interval the range implies.
    pub interval: Option<usize>,
    /// The rows of one key are in the required order.
    pub ordered: bool,
    /// The rows of different keys can be merged by their positions in the index.
    pub merges: bool,
    /// The most rows for each key, if the schema limits them.
    pub schema: Option<u64>,
    /// The index does not exist yet.
    pub new: bool,
}

/// All access paths. `needed` returns the columns that the rest of the query needs, given the word search
/// that the path implies.
pub(super) fn candidates(
    context: &AccessContext<'_>,
    needed: &dyn Fn(Option<usize>) -> BTreeSet<usize>,
) -> Vec<Candidate> {
    let mut found = by_unique_key(context);
    for index in context.table.indexes.iter().filter(|index| index.state == IndexState::Ready) {
        found.extend(by_range(context, index, false, needed));
    }
    let is_joined = |index: &Index| {
        let same = |existing: &&Index| existing.parts == index.parts && existing.state == IndexState::Ready;
        context.table.indexes.iter().any(|existing| same(&existing))
    };
    for index in new_indexes(context).iter().filter(|index| !is_joined(index)) {
        found.extend(by_range(context, index, true, needed));
        if let Some(covering) = covering(context, index, needed).filter(|covering| !is_joined(covering)) {
            found.extend(by_range(context, &covering, true, needed));
        }
    }
    found
}

/// The most reference columns that a covering index has.
const MOST_REFERENCES: usize = 4;

/// A new index with the references that later joins follow added at its end, so that records need not be
/// read. Other columns are not added, since then every change of them would be a change of the index.
fn covering(
    context: &AccessContext<'_>,
    index: &Index,
    needed: &dyn Fn(Option<usize>) -> BTreeSet<usize>,
) -> Option<Index> {
    let table = context.table;
    let words = index.parts.iter().find(|part| part.column().is_none());
    let search = words.and_then(|words| {
        context.words.iter().position(|(columns, _)| words.part == Part::Words(columns.clone()))
    });
    let there = table.entry_parts(index);
    let missing: Vec<usize> = needed(search)
        .into_iter()
        .filter(|at| !there.iter().any(|part| part.column() == Some(*at)))
        .collect();
    let is_reference = |at: &usize| table.foreign_keys.iter().any(|key| key.columns.contains(at));
    let fits = !missing.is_empty() && missing.len() <= MOST_REFERENCES && missing.iter().all(is_reference);
    if !fits || context.capabilities.atomicity != Atomicity::Batch {
        return None;
    }
    let parts = index.parts.iter().cloned().chain(missing.into_iter().map(KeyPart::ascending)).collect();
    Some(Index::new(fresh_name(table, &index.parts), IndexKind::Ordinary, parts))
}

/// Lookups by the whole key of a unique index or of the primary key.
fn by_unique_key(context: &AccessContext<'_>) -> Vec<Candidate> {
    let unique = context.table.indexes.iter().filter(|index| {
        index.kind != IndexKind::Ordinary
            && index.state == IndexState::Ready
            && index.columns().len() == index.parts.len()
    });
    let found = unique.filter_map(|index| {
        let columns = index.columns();
        // A unique key is not unique for rows with a null in it.
        let key = |at: &usize| context.equal.get(at).filter(|key| !matches!(key, Expr::IsNull(_))).cloned();
        let keys = columns.iter().map(key).collect::<Option<Vec<_>>>()?;
        let access = match index.kind {
            IndexKind::Primary => Access::Record,
            _ => Access::Unique(Box::new(index.clone())),
        };
        Some(Candidate {
            access,
            keys,
            equal: columns,
            words: None,
            interval: None,
            ordered: context.order.is_some(),
            merges: false,
            schema: Some(1),
            new: false,
        })
    });
    found.collect()
}

/// The range of an index that the known columns select, if it helps.
fn by_range(
    context: &AccessContext<'_>,
    index: &Index,
    new: bool,
    needed: &dyn Fn(Option<usize>) -> BTreeSet<usize>,
) -> Option<Candidate> {
    let table = context.table;
    let parts = table.entry_parts(index);
    let mut keys = Vec::new();
    let (mut equal, mut words) = (Vec::new(), None);
    for part in &parts {
        match &part.part {
            Part::Column(at) => match context.equal.get(at) {
                Some(Expr::IsNull(_)) if index.kind != IndexKind::Ordinary => break,
                Some(expr) => {
                    keys.push(expr.clone());
                    equal.push(*at);
                }
                None => break,
            },
            Part::Words(of) => {
                let Some(search) = context.words.iter().position(|(columns, _)| columns == of) else { break };
                keys.push(context.words[search].1.clone());
                words = Some(search);
            }
        }
    }
    let rest = &parts[keys.len()..];
    // A scan over several words would find a row several times.
    if rest.iter().any(|part| part.column().is_none()) {
        return None;
    }
    let interval = rest.first().and_then(KeyPart::column).filter(|at| context.intervals.contains_key(at));
    let interval = interval.filter(|at| continues_interval(table, rest, &context.intervals[at]));
    // A unique key is not unique for rows with a null in it.
    let nulls =
        index.kind == IndexKind::Unique && index.columns().iter().any(|at| table.columns[*at].is_nullable());
    let order = context.order.as_ref().filter(|order| !nulls || order.len() <= rest.len());
    let direction = order.and_then(|order| direction(table, rest, order));
    // Cardinality limits do not count nulls.
    let not_null = |at: &usize| !matches!(context.equal.get(at), Some(Expr::IsNull(_)));
    let schema = table.max_rows_with(&equal.iter().copied().filter(not_null).collect::<Vec<_>>());
    let useful = !keys.is_empty() || interval.is_some() || direction.is_some() || schema.is_some();
    if !useful {
        return None;
    }
    let dereference = index.kind != IndexKind::Primary
        && (context.capabilities.atomicity != Atomicity::Batch || !covers(table, index, &needed(words)));
    Some(Candidate {
        access: Access::Range {
            index: Box::new(index.clone()),
            interval: interval.map(|at| Box::new(context.intervals[&at].clone())),
            reverse: direction == Some(Direction::Backward),
            dereference,
            partitions: context.capabilities.order.partitions(keys.len()),
        },
        keys,
        equal,
        words,
        interval,
        ordered: direction.is_some(),
        merges: direction.is_some() && context.merges,
        schema,
        new,
    })
}

/// Whether the parts of an index continue with the further columns of an interval, all in one direction.
fn continues_interval(table: &Table, parts: &[KeyPart], interval: &Interval) -> bool {
    let Some((first, next)) = parts.split_first() else { return false };
    next.len() >= interval.then.len()
        && interval.then.iter().zip(next).all(|((column, _), part)| {
            let here = part.column().is_some_and(|at| table.columns[at].name == column.name);
            here && part.order.descending == first.order.descending
        })
}

/// Whether an index has the exact values of all these columns.
fn covers(table: &Table, index: &Index, needed: &BTreeSet<usize>) -> bool {
    // A unique index has the primary key behind its entries only for rows with nulls.
    let parts = table.entry_parts(index);
    needed.iter().all(|at| {
        // Keys have one zero: negative zero is lost.
        table.columns[*at].of != crate::datum::Type::Float64
            && parts.iter().any(|part| part.column() == Some(*at))
    })
}

/// The direction in which an index is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// The direction in which the parts of a key give this order; `None` if they do not.
fn direction(table: &Table, parts: &[KeyPart], order: &[(usize, KeyOrder)]) -> Option<Direction> {
    let mut direction = None;
    for (at, (column, wanted)) in order.iter().enumerate() {
        // The whole key is one row: there is nothing left to order.
        let Some(part) = parts.get(at) else { break };
        if part.column() != Some(*column) {
            return None;
        }
        let nullable = table.columns[*column].is_nullable();
        let agrees = |given: KeyOrder| {
            given.descending == wanted.descending && (!nullable || given.nulls_first == wanted.nulls_first)
        };
        let this = if agrees(part.order) {
            Direction::Forward
        } else if agrees(part.order.reversed()) {
            Direction::Backward
        } else {
            return None;
        };
        if direction.is_some_and(|existing| existing != this) {
            return None;
        }
        direction = Some(this);
    }
    Some(direction.unwrap_or(Direction::Forward))
}

/// New indexes for this table: for the order, for each interval, and for the equalities alone.
fn new_indexes(context: &AccessContext<'_>) -> Vec<Index> {
    let mut prefixes = vec![vec![]];
    if let Some((columns, _)) = context.words.first() {
        prefixes = vec![vec![KeyPart { part: Part::Words(columns.clone()), order: KeyOrder::ASCENDING }]];
    }
    let mut shapes: Vec<Vec<KeyPart>> = Vec::new();
    for mut prefix in prefixes {
        prefix.extend(context.equal.keys().map(|at| KeyPart::ascending(*at)));
        if let Some(order) = &context.order {
            shapes.push(with_order(&prefix, order));
        }
        for (at, interval) in &context.intervals {
            let mut parts = prefix.clone();
            let then = interval.then.iter().filter_map(|(column, _)| context.table.column(&column.name).ok());
            parts.extend(std::iter::once(*at).chain(then).map(KeyPart::ascending));
            shapes.push(parts);
        }
        shapes.push(prefix);
    }
    shapes.retain(|parts| !parts.is_empty());
    shapes.dedup();
    let index =
        |parts: Vec<KeyPart>| Index::new(fresh_name(context.table, &parts), IndexKind::Ordinary, parts);
    shapes.into_iter().map(index).collect()
}

/// The prefix and then the order. A descending order is an ascending index read from its end.
fn with_order(prefix: &[KeyPart], order: &[(usize, KeyOrder)]) -> Vec<KeyPart> {
    let backward = order.first().is_some_and(|(_, first)| first.descending);
    let mut parts = prefix.to_vec();
    for (at, wanted) in order {
        if !parts.iter().any(|part| part.column() == Some(*at)) {
            let order = if backward { wanted.reversed() } else { *wanted };
            parts.push(KeyPart { part: Part::Column(*at), order });
        }
    }
    parts
}
