//! `AlterLifetime`: the one node behind every window. It moves starts by one rule and sets lengths by
//! another.
//!
//! The rules' expressions see the lifetime, not the row: their columns are `start` and, where the old end may
//! matter, `end`, both int64 ([`start_schema`], [`lifetime_schema`]). They are no expressions over the input,
//! so `expressions()` gives none of them to rewrites.

use super::{only_input, shape::Shape, subtree::Subtree};
use crate::calendar::CalendarWindows;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;
use std::sync::LazyLock;
use whimbrel_temporal::{DurationRule, Lifetimes, StartRule};

static START: LazyLock<DFSchema> = LazyLock::new(|| times(&["start"]));
static LIFETIME: LazyLock<DFSchema> = LazyLock::new(|| times(&["start", "end"]));

fn times(names: &[&str]) -> DFSchema {
    let fields = names.iter().map(|n| Field::new(*n, DataType::Int64, false));
    // Two different unqualified names: the only way this could fail is a duplicate.
    DFSchema::from_unqualified_fields(fields.collect(), Default::default())
        .unwrap_or_else(|_| DFSchema::empty())
}

/// What `StartRule::By` and `DurationRule::ByStart` see: the column `start`, int64.
pub fn start_schema() -> &'static DFSchema {
    &START
}

/// What `DurationRule::ByLifetime` sees: the columns `start` and `end`, int64.
pub fn lifetime_schema() -> &'static DFSchema {
    &LIFETIME
}

/// Lifetimes are moved and resized.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct AlterLifetime {
    /// The stream.
    pub input: Subtree<LogicalPlan>,
    /// Where each lifetime's start goes.
    pub start: Subtree<StartRule<Expr>>,
    /// How long each lives from there.
    pub duration: Subtree<DurationRule<Expr>>,
    /// What the user called it: `hopping 5m hop 1m`.
    pub label: String,
    shape: Shape,
}

impl AlterLifetime {
    /// The rules are taken as they are: the builder has checked them.
    ///
    /// # Errors
    /// `Plan` if the input has two columns of one name.
    pub fn try_new(
        input: LogicalPlan,
        start: StartRule<Expr>,
        duration: DurationRule<Expr>,
        label: String,
    ) -> Result<Self> {
        let shape = Shape::of_input(&input)?;
        Ok(AlterLifetime {
            input: input.into(),
            start: start.into(),
            duration: duration.into(),
            label,
            shape,
        })
    }

    /// What is known of the lifetimes that come out, given what is known of those that come in.
    pub fn lifetimes(&self, input: Lifetimes) -> Lifetimes {
        match (&*self.duration, &*self.start) {
            (DurationRule::Constant(size), StartRule::Snap { hop, offset, .. }) => {
                Lifetimes::Hop { size: *size, hop: *hop, offset: *offset }
            }
            (DurationRule::Constant(size), _) => Lifetimes::Constant(*size),
            (DurationRule::Infinite, _) => Lifetimes::StartEdges,
            (DurationRule::ByStart(_), _) => match CalendarWindows::of_rules(&self.start, &self.duration) {
                Some(windows) if windows.tumble() => Lifetimes::Tiled,
                _ => Lifetimes::Intervals,
            },
            (DurationRule::ByLifetime(_), _) if input.edge_free() => Lifetimes::Intervals,
            (DurationRule::ByLifetime(_), _) => Lifetimes::Any,
            (DurationRule::Keep, start) => moved(start, input),
        }
    }
}

/// Lifetimes that keep their length but move.
fn moved<E>(start: &StartRule<E>, input: Lifetimes) -> Lifetimes {
    match (start, input) {
        (StartRule::Keep, lifetimes) => lifetimes,
        (StartRule::Shift(by), Lifetimes::Hop { size, hop, offset }) => {
            Lifetimes::Hop { size, hop, offset: offset.saturating_add(*by).rem_euclid(hop) }
        }
        (StartRule::Snap { hop, offset, .. }, Lifetimes::Constant(size) | Lifetimes::Hop { size, .. }) => {
            Lifetimes::Hop { size, hop: *hop, offset: *offset }
        }
        (StartRule::Shift(_), Lifetimes::Tiled) => Lifetimes::Tiled,
        // Windows of several lengths may meet where they are moved to.
        (_, Lifetimes::Tiled) => Lifetimes::Intervals,
        (_, Lifetimes::Hop { size, .. }) => Lifetimes::Constant(size),
        (_, lifetimes) => lifetimes,
    }
}

impl UserDefinedLogicalNodeCore for AlterLifetime {
    fn name(&self) -> &str {
        "AlterLifetime"
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

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        // Rows are moved, not looked at.
        HashSet::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "AlterLifetime: {}", self.label)
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = only_input("AlterLifetime", inputs)?;
        AlterLifetime::try_new(
            input,
            self.start.clone().into_inner(),
            self.duration.clone().into_inner(),
            self.label.clone(),
        )
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}
