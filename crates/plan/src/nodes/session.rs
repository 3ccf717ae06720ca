//! `Session`: per key, rows that follow each other within a timeout form a session. Each row lives from its
//! own start to the end of its session; or it comes when the session has ended, as a point at that instant,
//! with the first instant of the session as its last column. The key is columns only: it says which rows
//! belong together.

use super::{check_count, listed, only_input, shape::Shape, subtree::Subtree};
use crate::names::column_name;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use whimbrel_temporal::Lifetimes;
use whimbrel_temporal::operators::SessionCap;

/// Lifetimes reach to the end of their session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Session {
    /// The stream.
    pub input: Subtree<LogicalPlan>,
    /// Columns; sessions are per value of them. Empty: one session at a time.
    pub key: Subtree<Vec<Expr>>,
    /// Ticks without an event after which a session is over; positive.
    pub timeout: i64,
    /// When a session ends in any case, in ticks; positive.
    pub cap: Option<SessionCap>,
    /// Rows come when their session has ended, with its first instant in a column of this name.
    pub start: Option<String>,
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
        cap: Option<SessionCap>,
    ) -> Result<Self> {
        let shape = Shape::of_input(&input)?;
        Ok(Session { input: input.into(), key: key.into(), timeout, cap, start: None, shape })
    }

    /// The same, but rows come when their session has ended. `time` is the stream's time type, which the
    /// column with the first instant has.
    ///
    /// # Errors
    /// `Plan` if there is a column of this name already.
    pub fn with_first_instant(self, name: String, time: DataType) -> Result<Self> {
        let mut fields = self.input.schema().fields().to_vec();
        fields.push(Arc::new(Field::new(&name, time, false)));
        let shape = Shape::unqualified(fields, &self.input)?;
        Ok(Session { start: Some(name), shape, ..self })
    }

    /// The name and the type of the column with the first instant, if there is one.
    pub(crate) fn first_instant(&self) -> Option<(String, DataType)> {
        let fields = self.shape.schema().fields();
        // The constructor put that column last.
        self.start.clone().map(|name| (name, fields[fields.len() - 1].data_type().clone()))
    }

    /// The lifetimes of its rows.
    pub(crate) fn lifetimes(&self) -> Lifetimes {
        if self.start.is_some() { Lifetimes::Points } else { Lifetimes::Any }
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
        match self.cap {
            Some(SessionCap::After(ticks)) => write!(f, ", max={ticks}")?,
            Some(SessionCap::OnGrid(ticks)) => write!(f, ", max={ticks} on a grid")?,
            None => {}
        }
        match &self.start {
            Some(name) => write!(f, ", start={name}"),
            None => Ok(()),
        }
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        check_count("Session", &exprs, self.key.len())?;
        let input = only_input("Session", inputs)?;
        let session = Session::try_new(input, exprs, self.timeout, self.cap)?;
        match self.first_instant() {
            Some((name, time)) => session.with_first_instant(name, time),
            None => Ok(session),
        }
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // The key's columns are added by the caller, from `expressions()`.
        let new = self.input.schema().fields().len();
        Some(vec![output_columns.iter().copied().filter(|i| *i != new).collect()])
    }
}
