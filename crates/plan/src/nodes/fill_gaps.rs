//! `FillGaps`: rows for the cells of a grid in which a key has none.

use super::{check_count, listed, only_input, shape::Shape, subtree::Subtree};
use crate::names::{column_name, index_of};
use datafusion::common::{DFSchemaRef, Result, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;

/// What a column has in the row of an empty cell.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub enum Fill {
    /// This value.
    Constant(ScalarValue),
    /// The value of the key's previous row.
    Previous,
    /// The value on the line from the previous row to the next one.
    Linear,
}

/// Gaps of keys are filled.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct FillGaps {
    /// The stream.
    pub input: Subtree<LogicalPlan>,
    /// Columns; each value of them has gaps of its own.
    pub key: Subtree<Vec<Expr>>,
    /// Ticks of a cell; positive.
    pub period: i64,
    /// Where the grid lies.
    pub offset: i64,
    /// After how many ticks without a row a key is forgotten; positive.
    pub max_gap: Option<i64>,
    /// What each column that is not of the key has, in the order of the columns.
    pub fills: Vec<Fill>,
    shape: Shape,
}

impl FillGaps {
    /// The settings are taken as they are: the builder has checked them.
    ///
    /// # Errors
    /// `Plan` if the input has two columns of one name.
    pub fn try_new(
        input: LogicalPlan,
        key: Vec<Expr>,
        (period, offset): (i64, i64),
        max_gap: Option<i64>,
        fills: Vec<Fill>,
    ) -> Result<Self> {
        let shape = Shape::of_input(&input)?;
        Ok(FillGaps { input: input.into(), key: key.into(), period, offset, max_gap, fills, shape })
    }

    /// The places of the key's columns.
    ///
    /// # Errors
    /// `Plan` if a key is no column of the input.
    pub fn key_places(&self) -> Result<Vec<usize>> {
        let names = self.key.iter().map(|expr| column_name(expr).unwrap_or_default());
        names.map(|name| index_of(self.input.schema(), name)).collect()
    }
}

impl UserDefinedLogicalNodeCore for FillGaps {
    fn name(&self) -> &str {
        "FillGaps"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.shape.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.key.to_vec()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        // A predicate on the key removes whole keys; any other changes where there are gaps.
        let key: Vec<&str> = self.key.iter().filter_map(column_name).collect();
        let names = self.schema().fields().iter().map(|f| f.name());
        names.filter(|n| !key.contains(&n.as_str())).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "FillGaps: by [{}]: period={}, offset={}", listed(&self.key), self.period, self.offset)?;
        write!(f, ", max_gap={:?}, fills={:?}", self.max_gap, self.fills)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        check_count("FillGaps", &exprs, self.key.len())?;
        let grid = (self.period, self.offset);
        FillGaps::try_new(only_input("FillGaps", inputs)?, exprs, grid, self.max_gap, self.fills.clone())
    }

    // Which row is the previous one depends on all columns.
    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.shape.schema().fields().len()).collect()])
    }
}
