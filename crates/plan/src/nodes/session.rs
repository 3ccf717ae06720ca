//! `Session`: per key, rows that follow each other within a timeout form a session, and each row lives from
//! its own start to the end of its session. The key is columns only: it says which rows belong together.

use super::{check_count, listed, only_input, shape::Shape, subtree::Subtree};
use crate::names::column_name;
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;

/// Lifetimes reach to the end of their session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Session {
    /// The stream.
    pub input: Subtree<LogicalPlan>,
    /// Columns; sessions are per value of them. Empty: one session at a time.
    pub key: Subtree<Vec<Expr>>,
    /// Ticks without an event after which a session is over; positive.
    pub timeout: i64,
    /// Ticks after which a session ends in any case; positive.
    pub max_duration: Option<i64>,
    shape: Shape,
}

impl Session {
    /// The durations are taken as they are: the builder has checked them.
    ///
    /// # Errors
    /// `Plan` if the input has two columns of one name.
    pub fn try_new(
        input: LogicalPlan,
        key: Vec<Expr>,
        timeout: i64,
        max_duration: Option<i64>,
    ) -> Result<Self> {
        let shape = Shape::of_input(&input)?;
        Ok(Session { input: input.into(), key: key.into(), timeout, max_duration, shape })
    }
}

impl UserDefinedLogicalNodeCore for Session {
    fn name(&self) -> &str {
        "Session"
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
        // A predicate on the key removes whole sessions; any other changes where they end.
        let key: Vec<&str> = self.key.iter().filter_map(column_name).collect();
        let all = self.schema().fields().iter().map(|f| f.name().clone());
        all.filter(|n| !key.contains(&n.as_str())).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Session: key=[{}], timeout={}", listed(&self.key), self.timeout)?;
        match self.max_duration {
            Some(max) => write!(f, ", max={max}"),
            None => Ok(()),
        }
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        check_count("Session", &exprs, self.key.len())?;
        Session::try_new(only_input("Session", inputs)?, exprs, self.timeout, self.max_duration)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // The key's columns are added by the caller, from `expressions()`.
        Some(vec![output_columns.to_vec()])
    }
}
