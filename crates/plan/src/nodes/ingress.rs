//! `Ingress`: the rows of a relation become events. This is where a stream gets its time, and the only place
//! where disorder is dealt with; everything above relies on order.
//!
//! Points and intervals keep their time columns in the payload. Edges lose all three: start, end and kind are
//! news about the row, not part of it.

use super::{only_input, shape::Shape, subtree::Subtree};
use crate::names::{index_of, type_name};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DFSchemaRef, Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use whimbrel_temporal::{IngressOptions, Lifetimes};

/// Which columns say when a row lives.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub struct TimeSpec {
    /// When it starts: `int64` or a timestamp of any unit. On its own: the row is a point, it lives one tick.
    pub start: String,
    /// When it ends, of the same type; null where that is not known.
    pub end: Option<String>,
    /// What the row is: `interval`, `start`, `end` or `punctuation` (a string column). Needs `end`.
    pub kind: Option<String>,
}

impl TimeSpec {
    /// Rows are points in time.
    pub fn point(start: impl Into<String>) -> Self {
        TimeSpec { start: start.into(), end: None, kind: None }
    }

    /// Rows are intervals.
    pub fn interval(start: impl Into<String>, end: impl Into<String>) -> Self {
        TimeSpec { start: start.into(), end: Some(end.into()), kind: None }
    }

    /// Rows are intervals, start edges, end edges and punctuations.
    pub fn edges(start: impl Into<String>, end: impl Into<String>, kind: impl Into<String>) -> Self {
        TimeSpec { start: start.into(), end: Some(end.into()), kind: Some(kind.into()) }
    }
}

/// A clock for each partition: rows are in order within one, and no other makes them late (trill.txt §5.4).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub struct Partitioning {
    /// The columns that tell partitions apart.
    pub columns: Vec<String>,
    /// How much earlier than the latest row of all partitions a row may be, in ticks; `None`: as much as it
    /// likes, so that only the source can say that time has come for all of them.
    pub lag: Option<i64>,
}

/// Rows get lifetimes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Ingress {
    /// The relation; untimed.
    pub input: Subtree<LogicalPlan>,
    /// Which columns say when a row lives.
    pub time: TimeSpec,
    /// Disorder, punctuation, batches.
    pub options: IngressOptions,
    /// Whether each partition has a clock of its own.
    pub partitioning: Option<Partitioning>,
    shape: Shape,
}

impl Ingress {
    /// Checks the columns: they exist, are different, and have types that can tell time.
    ///
    /// # Errors
    /// `Plan` if a column is not there, is named twice, or has a type that cannot tell time.
    pub fn try_new(input: LogicalPlan, time: TimeSpec, options: IngressOptions) -> Result<Self> {
        let fields = check(&input, &time)?;
        let shape = Shape::unqualified(fields, &input)?;
        Ok(Ingress { input: input.into(), time, options, partitioning: None, shape })
    }

    /// The same, with a clock for each partition.
    ///
    /// # Errors
    /// `Plan` if a column is not there, or cannot tell partitions apart.
    pub fn partitioned(self, partitioning: Option<Partitioning>) -> Result<Self> {
        for name in partitioning.iter().flat_map(|partitioning| &partitioning.columns) {
            let schema = self.input.schema();
            let data_type = schema.field(index_of(schema, name)?).data_type();
            if data_type.is_floating() || data_type.is_nested() {
                return plan_err!(
                    "column {name:?} is {}, which cannot tell partitions apart; use a column of integers, \
                     strings, dates or booleans",
                    type_name(data_type)
                );
            }
            if self.shape.schema().index_of_column_by_name(None, name).is_none() {
                return plan_err!("{name:?} cannot be both a time column and tell partitions apart");
            }
        }
        Ok(Ingress { partitioning, ..self })
    }

    /// The type of the time column.
    ///
    /// # Errors
    /// `Plan` if the column is not in the input.
    pub fn time_type(&self) -> Result<DataType> {
        let schema = self.input.schema();
        Ok(schema.field(index_of(schema, &self.time.start)?).data_type().clone())
    }

    /// What is known of the lifetimes of the rows that come in.
    ///
    /// # Errors
    /// `Plan` if the column of the ends is not in the input.
    pub fn lifetimes(&self) -> Result<Lifetimes> {
        Ok(match (&self.time.end, &self.time.kind) {
            (None, _) => Lifetimes::Points,
            (Some(_), Some(_)) => Lifetimes::Any,
            (Some(end), None) => {
                let schema = self.input.schema();
                match schema.field(index_of(schema, end)?).is_nullable() {
                    true => Lifetimes::Any,
                    false => Lifetimes::Intervals,
                }
            }
        })
    }

    /// The columns' indices in the input, in the order start, end, kind.
    fn time_columns(&self) -> Vec<usize> {
        let names = std::iter::once(&self.time.start).chain(&self.time.end).chain(&self.time.kind);
        names.filter_map(|n| self.input.schema().index_of_column_by_name(None, n)).collect()
    }

    /// For every output column, the input column it is.
    fn sources(&self) -> Vec<usize> {
        let drop = if self.time.kind.is_some() { self.time_columns() } else { vec![] };
        (0..self.input.schema().fields().len()).filter(|i| !drop.contains(i)).collect()
    }
}

/// Checks the time columns; the columns of the stream that comes out.
fn check(input: &LogicalPlan, time: &TimeSpec) -> Result<Vec<FieldRef>> {
    let schema = input.schema();
    let start = index_of(schema, &time.start)?;
    let start_type = schema.field(start).data_type();
    if !matches!(start_type, DataType::Int64 | DataType::Timestamp(_, _)) {
        return plan_err!(
            "time column {:?} is {}, which cannot tell time; cast it to a timestamp, or to int64 for a \
            logical clock",
            time.start,
            type_name(start_type)
        );
    }
    let end = time.end.as_ref().map(|end| check_end(input, time, end, start_type)).transpose()?;
    let kind = time.kind.as_ref().map(|kind| check_kind(input, time, kind)).transpose()?;
    let dropped = |i: usize| kind.is_some() && (i == start || Some(i) == end || Some(i) == kind);
    let all = schema.fields().iter().enumerate();
    Ok(all.filter(|(i, _)| !dropped(*i)).map(|(_, f)| Arc::clone(f)).collect())
}

fn check_end(input: &LogicalPlan, time: &TimeSpec, end: &str, start_type: &DataType) -> Result<usize> {
    let schema = input.schema();
    let index = index_of(schema, end)?;
    if end == time.start {
        return plan_err!("{end:?} cannot be both the start and the end of a lifetime; name two columns");
    }
    let end_type = schema.field(index).data_type();
    if end_type != start_type {
        return plan_err!(
            "start and end have to be of one type, but {:?} is {} and {end:?} is {}; cast one of them",
            time.start,
            type_name(start_type),
            type_name(end_type)
        );
    }
    Ok(index)
}

fn check_kind(input: &LogicalPlan, time: &TimeSpec, kind: &str) -> Result<usize> {
    let schema = input.schema();
    let index = index_of(schema, kind)?;
    let kind_type = schema.field(index).data_type();
    if !matches!(kind_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
        return plan_err!(
            "kind column {kind:?} is {}; it has to be a string column of \"interval\", \"start\", \"end\", \
             \"punctuation\"",
            type_name(kind_type)
        );
    }
    match &time.end {
        Some(end) if end != kind && time.start != kind => Ok(index),
        Some(_) => plan_err!("{kind:?} cannot be both a time column and the kind column; name three columns"),
        None => plan_err!("rows with a kind column need an end column too"),
    }
}

impl UserDefinedLogicalNodeCore for Ingress {
    fn name(&self) -> &str {
        "Ingress"
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

    // Predicates stay above (the default): a row that is filtered out still moves time and can be late.

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Ingress: start={}", self.time.start)?;
        if let Some(end) = &self.time.end {
            write!(f, ", end={end}")?;
        }
        if let Some(kind) = &self.time.kind {
            write!(f, ", kind={kind}")?;
        }
        if let Some(Partitioning { columns, lag }) = &self.partitioning {
            write!(f, ", partitioned by {}", columns.join(", "))?;
            if let Some(lag) = lag {
                write!(f, " with a lag of {lag}")?;
            }
        }
        Ok(())
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        Ingress::try_new(only_input("Ingress", inputs)?, self.time.clone(), self.options.clone())?
            .partitioned(self.partitioning.clone())
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let sources = self.sources();
        let wanted = output_columns.iter().filter_map(|i| sources.get(*i).copied());
        let partitions = self.partitioning.iter().flat_map(|partitioning| &partitioning.columns);
        let partitions = partitions.filter_map(|n| self.input.schema().index_of_column_by_name(None, n));
        let mut needed: Vec<usize> = wanted.chain(self.time_columns()).chain(partitions).collect();
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}
