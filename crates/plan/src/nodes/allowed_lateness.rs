//! `AllowedLateness`: a live relation without the rows that come too late, and without those that no window
//! needs any more.
//!
//! The watermark is the latest time of all rows, less the lateness. A row before it is dropped. A row whose
//! time is `retention` or more before it is forgotten: what has been computed of it stays, and is final.
//!
//! Only results that keep windows apart may be computed above it: a result that a forgotten row has a part in
//! must not change any more. The SQL front end checks that.

use super::{only_input, shape::Shape, subtree::Subtree};
use crate::names::{index_of, type_name};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchemaRef, Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::fmt;

/// Late rows are dropped, and old ones forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct AllowedLateness {
    /// The relation; untimed.
    pub input: Subtree<LogicalPlan>,
    /// The column of the rows' times: `int64` or a timestamp of any unit.
    pub time: String,
    /// How late a row may be, in ticks.
    pub lateness: i64,
    /// How long after its time the last window of a row may end, in ticks.
    pub retention: i64,
    shape: Shape,
}

impl AllowedLateness {
    /// Over a relation with this column.
    ///
    /// # Errors
    /// `Plan` if the column is not there or cannot tell time, or a duration is negative.
    pub fn try_new(input: LogicalPlan, time: String, lateness: i64, retention: i64) -> Result<Self> {
        AllowedLateness::check_time(
            &time,
            input.schema().field(index_of(input.schema(), &time)?).data_type(),
        )?;
        if lateness < 0 || retention < 0 {
            return plan_err!("allowed lateness: durations are 0 or more, not {lateness} and {retention}");
        }
        let shape = Shape::unqualified(input.schema().fields().iter().cloned().collect(), &input)?;
        Ok(AllowedLateness { input: input.into(), time, lateness, retention, shape })
    }

    /// Whether a column of this type can tell the time of rows.
    ///
    /// # Errors
    /// `Plan` if not.
    pub(crate) fn check_time(time: &str, data_type: &DataType) -> Result<()> {
        match data_type {
            DataType::Int64 | DataType::Timestamp(_, _) => Ok(()),
            other => plan_err!(
                "allowed lateness: column {time:?} is {}, which cannot tell time; cast it to a timestamp, or to int64",
                type_name(other)
            ),
        }
    }

    /// The place of the column of the times.
    ///
    /// # Errors
    /// `Plan` if it is gone.
    pub fn time_column(&self) -> Result<usize> {
        index_of(self.input.schema(), &self.time)
    }

    /// The type of the times.
    ///
    /// # Errors
    /// `Plan` if the column is gone.
    pub fn time_type(&self) -> Result<&DataType> {
        Ok(self.input.schema().field(self.time_column()?).data_type())
    }
}

impl UserDefinedLogicalNodeCore for AllowedLateness {
    fn name(&self) -> &str {
        "AllowedLateness"
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

    // Predicates stay above (the default): a row that is filtered out still moves the watermark.

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "AllowedLateness: time={}, lateness={}, retention={}",
            self.time, self.lateness, self.retention
        )
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = only_input("AllowedLateness", inputs)?;
        AllowedLateness::try_new(input, self.time.clone(), self.lateness, self.retention)
    }

    // All columns: nodes that are read for several columns stay equal, and are one.
    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.shape.schema().fields().len()).collect()])
    }
}
