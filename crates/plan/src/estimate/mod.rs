//! How many rows a plan gives, and what is in its columns: estimates, from what the sources know of
//! themselves.
//!
//! Planners choose by them; no answer depends on one. The model is the textbook's: values are spread evenly,
//! columns do not depend on each other, and the values of a foreign key are among those of the key. What can
//! be known better than that (a group is no more often there than its rows, a pair of keys has no more values
//! than its table rows) is put right where it is met.
//!
//! The plan of a stage is estimated for all of its channels together. Rows are divided among them, or each
//! channel has a copy of all; each then finds its own groups, and limits its own rows.
//!
//! Invariants: every number is finite; a column has at least one value and no more than there are rows, if
//! there are rows; an estimate has as many columns as its plan.

mod column;
mod joins;
mod nodes;
mod selectivity;
mod sides;

pub use column::{ColumnEstimate, number};
pub use joins::{composite, matches};
pub use sides::smaller_sides_first;

use datafusion::common::Statistics;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};

/// How many rows nobody knows anything of.
const UNKNOWN_ROWS: f64 = 1e5;

/// What is expected of a plan's result.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// How many rows.
    pub rows: f64,
    /// What is in each column.
    pub columns: Vec<ColumnEstimate>,
    /// Whether each channel of the stage has all of these rows, not a part of them.
    pub is_copied: bool,
}

impl Estimate {
    /// How many bytes all rows are.
    pub fn bytes(&self) -> f64 {
        self.rows * self.row_bytes()
    }

    /// How many bytes a row is.
    pub fn row_bytes(&self) -> f64 {
        self.columns.iter().map(|c| c.width).sum()
    }

    /// What is expected of rows with such statistics.
    pub fn of_statistics(statistics: &Statistics, schema: &datafusion::arrow::datatypes::Schema) -> Estimate {
        let rows = statistics.num_rows.get_value().map_or(UNKNOWN_ROWS, |rows| *rows as f64);
        let column = |(place, field): (usize, &datafusion::arrow::datatypes::FieldRef)| match statistics
            .column_statistics
            .get(place)
        {
            Some(column) => ColumnEstimate::of_statistics(column, field.data_type(), rows),
            None => ColumnEstimate::unknown(field.data_type(), rows),
        };
        let columns = schema.fields().iter().enumerate().map(column).collect();
        Estimate { rows, columns, is_copied: false }
    }

    /// How many rows one of so many channels has.
    pub fn rows_of_channel(&self, channels: usize) -> f64 {
        if self.is_copied { self.rows } else { self.rows / channels as f64 }
    }

    /// How many rows so many channels have, copies counted.
    pub fn rows_of_all(&self, channels: usize) -> f64 {
        if self.is_copied { self.rows * channels as f64 } else { self.rows }
    }

    /// The same columns in another number of rows, taken as they come.
    pub fn with_rows(mut self, rows: f64) -> Estimate {
        self.set_rows(rows);
        self
    }

    fn set_rows(&mut self, rows: f64) {
        self.rows = if rows.is_finite() { rows.max(0.0) } else { f64::MAX.sqrt() };
        for column in &mut self.columns {
            column.distinct = column.distinct.min(self.rows).max(1.0);
        }
    }
}

/// How many different values so many rows have that are taken from so many values.
pub fn drawn(values: f64, rows: f64) -> f64 {
    match values > 0.0 {
        true => (values * (1.0 - (-rows / values).exp())).min(rows),
        false => 0.0,
    }
}

/// Estimates plans; what it does not know are leaves that only their makers know.
pub struct Estimator<'a> {
    leaf: Option<Leaf<'a>>,
    channels: usize,
}

impl Default for Estimator<'_> {
    fn default() -> Self {
        Estimator { leaf: None, channels: 1 }
    }
}

/// What is expected of a node that has no inputs and is of another layer.
pub type Leaf<'a> = &'a dyn Fn(&dyn UserDefinedLogicalNode) -> Option<Estimate>;

impl<'a> Estimator<'a> {
    /// One for a stage of so many channels, which asks about leaves of other layers.
    pub fn of_stage(leaf: Leaf<'a>, channels: usize) -> Estimator<'a> {
        Estimator { leaf: Some(leaf), channels }
    }

    /// How many of these rows a channel has.
    fn rows_of_channel(&self, rows: &Estimate) -> f64 {
        rows.rows_of_channel(self.channels)
    }

    /// What is expected of this plan's result.
    pub fn estimate(&self, plan: &LogicalPlan) -> Estimate {
        let inputs = plan.inputs().into_iter().map(|input| self.estimate(input)).collect();
        self.of_inputs(plan, inputs)
    }

    /// The same, where the inputs are known already.
    pub fn of_inputs(&self, plan: &LogicalPlan, inputs: Vec<Estimate>) -> Estimate {
        nodes::estimate(plan, inputs, self.leaf, self.channels)
    }
}
