//! Joins of streams, with each other and with tables.

use super::instants::{Instants, Lifetime, Liveness, RowKind, after};
use crate::stream::interval_join::Times;
use crate::stream::window_nodes::END;
use datafusion::common::{JoinType, Result, plan_err};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, Operator};

/// The pairs of a join.
///
/// # Errors
/// `Plan` if they are of rows of several instants.
pub(super) fn of_join(join: &Join, left: Liveness, right: Liveness) -> Result<Liveness> {
    match (left, right) {
        (Liveness::From(left), Liveness::From(right)) => join_streams(join, &left, &right),
        (Liveness::From(left), Liveness::Always) => join_table(join, &left, Side::Left),
        (Liveness::Always, Liveness::From(right)) => join_table(join, &right, Side::Right),
        // An event is joined with the rows that are alive at its instant.
        (Liveness::From(left), Liveness::Unknown)
            if left.lifetime == Some(Lifetime::Ticks(1))
                && matches!(join.join_type, JoinType::Inner | JoinType::Left) =>
        {
            Ok(Liveness::From(left.of_results()))
        }
        (Liveness::Always, Liveness::Always) => Ok(Liveness::Always),
        _ => Ok(Liveness::Unknown),
    }
}

/// A side of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The left input.
    Left,
    /// The right input.
    Right,
}

/// The instants of one side of a join, by the columns of its result.
fn from_side(join: &Join, instants: &Instants, side: Side) -> Instants {
    let comes_out = match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => side == Side::Left,
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => side == Side::Right,
        _ => true,
    };
    let one = matches!(join.join_type, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark);
    let before = if side == Side::Right && !one { join.left.schema().fields().len() } else { 0 };
    instants.moved(|column| comes_out.then_some(before + column))
}

/// A stream and a table: a row of the stream has the same partners at every instant, and a row of the table
/// has not.
fn join_table(join: &Join, instants: &Instants, stream: Side) -> Result<Liveness> {
    let keeps_stream_rows = match join.join_type {
        JoinType::Inner => true,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => stream == Side::Left,
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            stream == Side::Right
        }
        JoinType::Full => false,
    };
    match keeps_stream_rows {
        true => Ok(Liveness::From(from_side(join, instants, stream).of_results())),
        false => plan_err!(
            "whether a row of a table has a partner in a stream would be answered anew at every instant: keep the rows of \
             the stream, and not those of the table; or add emit changes, for the partners there are so far"
        ),
    }
}

/// Two streams: rows of equal instants, or events with bounds on the difference of their times.
fn join_streams(join: &Join, left: &Instants, right: &Instants) -> Result<Liveness> {
    let inner = join.join_type == JoinType::Inner;
    if is_at_same_instant(join, left, right) && (inner || left.lives_as_long_as(right)) {
        let mut both = from_side(join, left, Side::Left).of_results();
        both.columns.extend(from_side(join, right, Side::Right).columns);
        both.lifetime = shorter_lifetime(left, right);
        // A side that may be null determines nothing.
        match join.join_type {
            JoinType::Left => both.columns.retain(|place, _| *place < join.left.schema().fields().len()),
            JoinType::Right => both.columns.retain(|place, _| *place >= join.left.schema().fields().len()),
            JoinType::Full => both.columns.clear(),
            _ => {}
        }
        return Ok(Liveness::From(both));
    }
    match (&left.rows, &right.rows) {
        (RowKind::Events(_), RowKind::Events(_)) => of_events(join, left, right),
        _ => plan_err!(
            "a join of streams pairs rows of one window, and this one looks at others: and a.{} = b.{}; or add emit \
             changes, for the pairs there are so far",
            END,
            END
        ),
    }
}

/// How long pairs of rows are alive that start together.
fn shorter_lifetime(left: &Instants, right: &Instants) -> Option<Lifetime> {
    match (&left.lifetime, &right.lifetime) {
        (Some(Lifetime::Ticks(l)), Some(Lifetime::Ticks(r))) => Some(Lifetime::Ticks(*l.min(r))),
        (l, r) if l == r => l.clone(),
        _ => None,
    }
}

/// Events with bounds on the difference of their times; the join is lowered later.
fn of_events(join: &Join, left: &Instants, right: &Instants) -> Result<Liveness> {
    let instant =
        |instants: &Instants| instants.columns.keys().copied().find(|column| instants.contains(*column));
    let (Some(l), Some(r)) = (instant(left), instant(right)) else { return Ok(Liveness::Unknown) };
    let (lo, hi) = Times { left: l, right: r }.bounds(join)?;
    let later = match (lo, hi) {
        (Some(lo), _) if lo >= 0 => Some(r + join.left.schema().fields().len()),
        (_, Some(hi)) if hi <= 0 => Some(l),
        _ => None,
    };
    // A join without bounds is refused when it is lowered.
    Ok(Liveness::From(match later {
        Some(place) if join.join_type == JoinType::Inner => {
            let time = join.schema.field(place).name().clone();
            Instants::points([place], RowKind::Events(time))
        }
        _ => Instants::points([], RowKind::Late),
    }))
}

/// Whether an equality makes the instants of both sides the same.
fn is_at_same_instant(join: &Join, left: &Instants, right: &Instants) -> bool {
    let (l, r) = (join.left.schema(), join.right.schema());
    let same = |a: &Expr, b: &Expr| {
        let instants = after(a, l, left).zip(after(b, r, right));
        instants.is_some_and(|(a, b)| a == b)
    };
    let in_filter = |term: &Expr| match term {
        Expr::BinaryExpr(BinaryExpr { left: a, op: Operator::Eq, right: b }) => same(a, b) || same(b, a),
        _ => false,
    };
    join.on.iter().any(|(a, b)| same(a, b)) || join.filter.iter().flat_map(split_conjunction).any(in_filter)
}
