//! `MatchRecognize`: sequences of rows that a row pattern matches, per key.
//!
//! A match is a row of the key's columns, of the register and of the match's number, a point at the start of
//! its last row.

use super::{check_count, columns_read, key_places, listed, only_input, shape::Shape, subtree::Subtree};
use crate::row_pattern::RowPattern;
use arrow::datatypes::FieldRef;
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Sequences of rows are matched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct MatchRecognize {
    /// The stream.
    pub input: Subtree<LogicalPlan>,
    /// Columns; each value of them has matches of its own.
    pub key: Subtree<Vec<Expr>>,
    /// The pattern.
    pub rows: Subtree<RowPattern>,
    shape: Shape,
}

impl MatchRecognize {
    /// The pattern is taken as it is: the builder has checked it.
    ///
    /// # Errors
    /// `Plan` if a key is no column, or two columns of the result have one name.
    pub fn try_new(input: LogicalPlan, key: Vec<Expr>, rows: RowPattern) -> Result<Self> {
        let places = key_places(&input, &key)?;
        let schema = input.schema();
        let mut fields: Vec<FieldRef> = places.iter().map(|i| Arc::clone(&schema.fields()[*i])).collect();
        fields.extend(rows.match_fields());
        let shape = Shape::unqualified(fields, &input)?;
        Ok(MatchRecognize { input: input.into(), key: key.into(), rows: rows.into(), shape })
    }

    /// The places of the key's columns.
    ///
    /// # Errors
    /// `Plan` if a key is no column of the input.
    pub fn key_places(&self) -> Result<Vec<usize>> {
        key_places(&self.input, &self.key)
    }
}

impl UserDefinedLogicalNodeCore for MatchRecognize {
    fn name(&self) -> &str {
        "MatchRecognize"
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
        // A predicate on the key removes whole sequences; everything else is made here.
        self.rows.match_fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "MatchRecognize: by [{}]: {:?}", listed(&self.key), *self.rows)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        check_count("MatchRecognize", &exprs, self.key.len())?;
        MatchRecognize::try_new(only_input("MatchRecognize", inputs)?, exprs, self.rows.clone().into_inner())
    }

    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![columns_read(&self.input, &self.rows.columns_read(), &self.key)])
    }
}
