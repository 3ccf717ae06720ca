//! `ChangeLifetimes`: the rows stay as they are; their lifetimes are cut, moved or put together.

use super::{only_input, shape::Shape, subtree::Subtree};
use crate::calendar::Grid;
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use whimbrel_temporal::{Closed, Lifetimes};

/// A grid to which lifetimes are snapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub struct QuantizeGrid {
    /// The least length of a lifetime, in ticks; at least the period.
    pub size: i64,
    /// Ticks between two instants of the grid; positive.
    pub period: i64,
    /// Ticks between two instants at which lifetimes start, if not the period, of which it is a part.
    pub progress: Option<i64>,
    /// Where the grid lies.
    pub offset: i64,
}

/// Windows of any size that end on a grid; the lifetimes of their rows start and end there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub struct HoppingWindows {
    /// The length of a window, in ticks; positive.
    pub size: i64,
    /// Ticks between the ends of two windows; positive.
    pub hop: i64,
    /// Where the grid lies.
    pub offset: i64,
    /// On which side windows are closed.
    pub closed: Closed,
}

/// What becomes of a lifetime.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub enum LifetimeChange {
    /// It is cut at every beat: the same relation, whose rows start anew there.
    Chop(Grid),
    /// It is cut to so many ticks; positive.
    Clip(i64),
    /// It becomes a point at its end.
    PointAtEnd,
    /// Its end moves by so many ticks; one that would be empty vanishes.
    Extend(i64),
    /// Lifetimes of equal rows that touch become one.
    Stitch,
    /// It starts and ends on a grid.
    Quantize(QuantizeGrid),
    /// It lasts while the row is in one of some windows, from grid instant to grid instant.
    Hop(HoppingWindows),
}

impl LifetimeChange {
    /// What is known of lifetimes after the change, from what was known before it.
    pub fn lifetimes(&self, input: Lifetimes) -> Lifetimes {
        changed(input, self)
    }
}

/// Lifetimes are changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct ChangeLifetimes {
    /// The stream.
    pub input: Subtree<LogicalPlan>,
    /// What becomes of each lifetime.
    pub change: LifetimeChange,
    shape: Shape,
}

impl ChangeLifetimes {
    /// The change is taken as it is: the builder has checked it.
    ///
    /// # Errors
    /// `Plan` if the input has two columns of one name.
    pub fn try_new(input: LogicalPlan, change: LifetimeChange) -> Result<Self> {
        let shape = Shape::of_input(&input)?;
        Ok(ChangeLifetimes { input: input.into(), change, shape })
    }

    /// The beats at which lifetimes are cut, if that is what is done.
    pub fn beats(&self) -> Option<&Grid> {
        match &self.change {
            LifetimeChange::Chop(beats) => Some(beats),
            _ => None,
        }
    }
}

impl UserDefinedLogicalNodeCore for ChangeLifetimes {
    fn name(&self) -> &str {
        "ChangeLifetimes"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.shape.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    // Equal rows are filtered alike.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        HashSet::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.change {
            LifetimeChange::Chop(Grid::Ticks { hop, offset }) => {
                write!(f, "Chop: period={hop}, offset={offset}")
            }
            LifetimeChange::Chop(Grid::Calendar(calendar)) => write!(f, "Chop: every {calendar}"),
            LifetimeChange::Clip(limit) => write!(f, "Clip: limit={limit}"),
            LifetimeChange::PointAtEnd => f.write_str("PointAtEnd"),
            LifetimeChange::Extend(by) => write!(f, "Extend: by={by}"),
            LifetimeChange::Stitch => f.write_str("Stitch"),
            LifetimeChange::Quantize(grid) => write!(f, "Quantize: {grid:?}"),
            LifetimeChange::Hop(windows) => write!(f, "Hop: {windows:?}"),
        }
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        ChangeLifetimes::try_new(only_input("ChangeLifetimes", inputs)?, self.change.clone())
    }

    // Which rows are equal depends on all columns.
    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![match self.change {
            LifetimeChange::Stitch => (0..self.shape.schema().fields().len()).collect(),
            _ => output_columns.to_vec(),
        }])
    }
}

/// Lifetimes after a change.
fn changed(lifetimes: Lifetimes, change: &LifetimeChange) -> Lifetimes {
    let longer = |size: i64, by: i64| size.checked_add(by).filter(|size| *size > 0);
    match (change, lifetimes) {
        (LifetimeChange::Chop(beats), _) => chopped(lifetimes, beats),
        (LifetimeChange::PointAtEnd, _) => Lifetimes::Points,
        (LifetimeChange::Extend(_), Lifetimes::StartEdges) => Lifetimes::StartEdges,
        (LifetimeChange::Extend(by), Lifetimes::Points) => {
            longer(1, *by).map_or(Lifetimes::Intervals, Lifetimes::Constant)
        }
        (LifetimeChange::Extend(by), Lifetimes::Constant(size)) => {
            longer(size, *by).map_or(Lifetimes::Intervals, Lifetimes::Constant)
        }
        (LifetimeChange::Extend(by), Lifetimes::Hop { size, hop, offset }) => {
            longer(size, *by).map_or(Lifetimes::Intervals, |size| Lifetimes::Hop { size, hop, offset })
        }
        (LifetimeChange::Quantize(grid), Lifetimes::Points) if grid.progress.is_none() => {
            Lifetimes::Hop { size: grid.size, hop: grid.period, offset: grid.offset.rem_euclid(grid.period) }
        }
        (LifetimeChange::Quantize(_), Lifetimes::StartEdges) => Lifetimes::StartEdges,
        (LifetimeChange::Hop(windows), _) => hopped(windows),
        (LifetimeChange::Extend(_) | LifetimeChange::Quantize(_), _) if lifetimes.edge_free() => {
            Lifetimes::Intervals
        }
        _ => Lifetimes::Any,
    }
}

/// Lifetimes in windows that start and end on their grid.
fn hopped(HoppingWindows { size, hop, offset, .. }: &HoppingWindows) -> Lifetimes {
    match size % hop == 0 || size < hop {
        true => Lifetimes::Hop { size: *size.max(hop), hop: *hop, offset: *offset },
        false => Lifetimes::Intervals,
    }
}

/// The pieces of lifetimes.
fn chopped(lifetimes: Lifetimes, beats: &Grid) -> Lifetimes {
    match (lifetimes, beats) {
        (Lifetimes::Points, _) => Lifetimes::Points,
        // The last piece is as long as the others only if no beat cuts it short.
        (Lifetimes::Hop { size, hop, offset: start }, &Grid::Ticks { hop: period, offset })
            if hop % period == 0 && size % period == 0 && start.rem_euclid(period) == offset =>
        {
            Lifetimes::Hop { size: period, hop: period, offset }
        }
        (lifetimes, _) if lifetimes.edge_free() => Lifetimes::Intervals,
        _ => Lifetimes::Any,
    }
}
