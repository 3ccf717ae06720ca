//! The instants from which rows are alive, and the columns that determine them.

use crate::stream::interval_join;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use std::collections::BTreeMap;
use whimbrel_plan::calendar::{Calendar, Grid};

/// When rows are alive.
#[derive(Debug, Clone)]
pub(crate) enum Liveness {
    /// Always: rows of a table.
    Always,
    /// From an instant on: rows of a stream of events or of windows.
    From(Instants),
    /// As the lifetimes of a stream say that were not made here.
    Unknown,
}

/// The instants from which rows are alive.
#[derive(Debug, Clone)]
pub(crate) struct Instants {
    /// The columns that determine the instant, and the distance of each from it.
    pub(super) columns: BTreeMap<usize, Distance>,
    /// How long the rows are alive; `None` if not as long as rows of any other plan.
    pub(super) lifetime: Option<Lifetime>,
    /// What the rows are.
    pub(super) rows: RowKind,
}

/// The distance of a value from an instant.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Distance {
    /// So many ticks after it.
    After(i64),
    /// The start of a calendar window: so many windows from the one that has the instant, shifted by so many
    /// ticks.
    Boundary(Calendar, i64, i64),
}

/// How long rows are alive.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Lifetime {
    /// So many ticks.
    Ticks(i64),
    /// From the start of a calendar window to the start of the next.
    Window(Calendar),
}

/// The kind of the rows of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowKind {
    /// Events, or pairs of events, and the name of their time.
    Events(String),
    /// Results of a window, from its end on, or of an instant.
    Results,
    /// Events that are output later than at their time, without a column for that.
    Late,
}

impl Lifetime {
    /// From one beat of a grid to the next.
    pub(super) fn between(beats: &Grid) -> Lifetime {
        match beats {
            Grid::Ticks { hop, .. } => Lifetime::Ticks(*hop),
            Grid::Calendar(calendar) => Lifetime::Window(calendar.clone()),
        }
    }
}

impl Instants {
    /// Whether a column is the instant itself.
    pub fn contains(&self, column: usize) -> bool {
        self.columns.get(&column) == Some(&Distance::After(0))
    }

    /// Results that live so long, without a column for their instant.
    pub(super) fn results(length: Lifetime) -> Instants {
        Instants { columns: BTreeMap::new(), lifetime: Some(length), rows: RowKind::Results }
    }

    /// The instants of events, or of pairs of them.
    pub(super) fn points(columns: impl IntoIterator<Item = usize>, rows: RowKind) -> Instants {
        let columns = columns.into_iter().map(|place| (place, Distance::After(0))).collect();
        Instants { columns, lifetime: Some(Lifetime::Ticks(1)), rows }
    }

    /// Whether the rows are alive as long as others.
    pub(super) fn lives_as_long_as(&self, other: &Instants) -> bool {
        self.lifetime.is_some() && self.lifetime == other.lifetime
    }

    /// The same instants, of results.
    pub(super) fn of_results(self) -> Instants {
        let rows = if self.rows == RowKind::Late { RowKind::Late } else { RowKind::Results };
        Instants { rows, ..self }
    }

    /// The same instants, with the columns in other places.
    pub(super) fn moved(&self, place: impl Fn(usize) -> Option<usize>) -> Instants {
        let columns =
            self.columns.iter().filter_map(|(column, after)| Some((place(*column)?, after.clone())));
        Instants { columns: columns.collect(), ..self.clone() }
    }
}

/// The distance of an expression from the instant, if it determines the instant.
pub(super) fn after(expr: &Expr, input: &DFSchema, instants: &Instants) -> Option<Distance> {
    if let Some((calendar, at, Expr::Literal(ScalarValue::Int64(Some(steps)), _))) =
        Calendar::of_boundary(expr)
    {
        // The instants are starts of such windows, so no two of them are in one.
        let own = instants.lifetime == Some(Lifetime::Window(calendar.clone()));
        return match after(at, input, instants)? {
            Distance::After(ticks @ (-1 | 0)) if own => Some(Distance::Boundary(calendar, ticks, *steps)),
            _ => None,
        };
    }
    match expr {
        Expr::Alias(alias) => after(&alias.expr, input, instants),
        Expr::Cast(cast) => {
            let kept = keeps_ticks(&cast.expr.get_type(input).ok()?, cast.field.data_type());
            kept.then(|| after(&cast.expr, input, instants))?
        }
        Expr::Column(column) => instants.columns.get(&input.maybe_index_of_column(column)?).cloned(),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let ticks = ticks(right, left, input)?;
            let Distance::After(after) = after(left, input, instants)? else { return None };
            Some(Distance::After(match op {
                Operator::Plus => after.checked_add(ticks)?,
                Operator::Minus => after.checked_sub(ticks)?,
                _ => return None,
            }))
        }
        _ => None,
    }
}

/// Whether a cast gives different instants different values.
fn keeps_ticks(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Int64, DataType::Timestamp(..)) | (DataType::Timestamp(..), DataType::Int64) => true,
        (DataType::Timestamp(a, _), DataType::Timestamp(b, _)) => a <= b,
        _ => from == to,
    }
}

/// The ticks of an interval that is added to an instant.
fn ticks(length: &Expr, instant: &Expr, input: &DFSchema) -> Option<i64> {
    let Expr::Literal(value, _) = length else { return None };
    interval_join::literal_duration(value)?.ticks(&instant.get_type(input).ok()?, "window").ok()
}
