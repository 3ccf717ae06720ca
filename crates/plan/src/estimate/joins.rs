//! How many rows find each other.

use super::selectivity::{filtered, place};
use super::{ColumnEstimate, Estimate};
use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::logical_expr::Join;

/// How many values of both sides meet that have so many different ones: those of one side are among those of
/// the other.
pub fn matches(left: f64, right: f64) -> f64 {
    left.max(right).max(1.0)
}

/// The same for a key of several columns. Several columns have no more values together than their table has
/// rows, and the side with fewer is the one that they are a key of.
///
/// ```
/// use whimbrel_plan::estimate::composite;
///
/// assert_eq!(composite(&[(10.0, 20.0)], 100.0, 100.0), 20.0);
/// // Each side has at most as many keys as rows.
/// assert_eq!(composite(&[(10.0, 20.0), (10.0, 20.0)], 50.0, 60.0), 50.0);
/// ```
pub fn composite(pairs: &[(f64, f64)], left_rows: f64, right_rows: f64) -> f64 {
    match pairs {
        [] => 1.0,
        [(left, right)] => matches(*left, *right),
        pairs => {
            let product = |side: fn(&(f64, f64)) -> f64| pairs.iter().map(side).product::<f64>();
            let most = pairs.iter().map(|(l, r)| l.max(*r)).fold(1.0, f64::max);
            let (left, right) = (product(|p| p.0).min(left_rows), product(|p| p.1).min(right_rows));
            left.min(right).max(most)
        }
    }
}

/// Estimates a join: the cross product divided by the number of distinct keys.
pub(super) fn of_join(join: &Join, left: Estimate, right: Estimate) -> Estimate {
    let key = |(l, r): &(datafusion::logical_expr::Expr, datafusion::logical_expr::Expr)| {
        let l = place(l, join.left.schema()).map_or(left.rows, |c| left.columns[c].distinct);
        let r = place(r, join.right.schema()).map_or(right.rows, |c| right.columns[c].distinct);
        (l.max(1.0), r.max(1.0))
    };
    let pairs: Vec<(f64, f64)> = join.on.iter().map(key).collect();
    let inner = left.rows * right.rows / composite(&pairs, left.rows, right.rows);
    let (with_match, with_match_right) = (match_fraction(&pairs, false), match_fraction(&pairs, true));
    let part = if join.filter.is_some() { 0.5 } else { 1.0 };
    let pairs_of_rows = |rows: f64| {
        let columns = left.columns.iter().chain(&right.columns).cloned().collect();
        let most = left.rows.max(right.rows).max(rows);
        Estimate { rows: most, columns, is_copied: false }.with_rows(rows)
    };
    match join.join_type {
        JoinType::Inner => match &join.filter {
            Some(filter) => filtered(pairs_of_rows(inner), filter, &join.schema),
            None => pairs_of_rows(inner),
        },
        JoinType::Left => pairs_of_rows((inner * part).max(left.rows)),
        JoinType::Right => pairs_of_rows((inner * part).max(right.rows)),
        JoinType::Full => pairs_of_rows((inner * part).max(left.rows + right.rows)),
        JoinType::LeftSemi => kept(left, with_match * part),
        JoinType::LeftAnti => kept(left, 1.0 - with_match * part),
        JoinType::RightSemi => kept(right, with_match_right * part),
        JoinType::RightAnti => kept(right, 1.0 - with_match_right * part),
        JoinType::LeftMark => marked(left),
        JoinType::RightMark => marked(right),
    }
}

/// Which part of one side's rows finds any of the other.
fn match_fraction(pairs: &[(f64, f64)], right: bool) -> f64 {
    let part = |(l, r): &(f64, f64)| if right { (l / r).min(1.0) } else { (r / l).min(1.0) };
    pairs.iter().map(part).fold(1.0, f64::min)
}

/// The rows of one side that a semi or anti join keeps.
fn kept(side: Estimate, part: f64) -> Estimate {
    // Where hardly any row is expected to be left, the guess is as likely wrong.
    let rows = side.rows * part.clamp(0.02, 1.0);
    side.with_rows(rows)
}

/// A side with a mark column.
fn marked(mut side: Estimate) -> Estimate {
    let mark = ColumnEstimate { distinct: 2.0, ..ColumnEstimate::unknown(&DataType::Boolean, side.rows) };
    side.columns.push(mark);
    side
}
