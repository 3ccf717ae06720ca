//! `Detect`: sequences of events that a pattern matches, per key.
//!
//! A match is a row of the key's columns and of the register, from its last event until the time of the
//! pattern is over.

use super::{check_count, columns_read, key_places, listed, only_input, shape::Shape, subtree::Subtree};
use crate::pattern::Pattern;
use arrow::datatypes::{Field, FieldRef};
use datafusion::common::{DFSchemaRef, Result, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use whimbrel_temporal::operators::{Overlap, Simultaneous};

/// How a pattern is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub struct DetectSettings {
    /// How many ticks after its first event an instance of the pattern is given up; positive.
    pub max_duration: i64,
    /// Whether an instance begins while another one is alive.
    pub overlap: Overlap,
    /// What several events of one instant mean.
    pub simultaneous: Simultaneous,
}

/// Sequences of events are matched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Detect {
    /// The stream.
    pub input: Subtree<LogicalPlan>,
    /// Columns; each value of them has instances of its own.
    pub key: Subtree<Vec<Expr>>,
    /// The pattern.
    pub pattern: Subtree<Pattern>,
    /// The register: names, and the values before the first event.
    pub register: Vec<(String, ScalarValue)>,
    /// How it is looked for.
    pub settings: DetectSettings,
    shape: Shape,
}

impl Detect {
    /// The pattern is taken as it is: the builder has checked it.
    ///
    /// # Errors
    /// `Plan` if a key is no column, or two columns of the result have one name.
    pub fn try_new(
        input: LogicalPlan,
        key: Vec<Expr>,
        pattern: Pattern,
        register: Vec<(String, ScalarValue)>,
        settings: DetectSettings,
    ) -> Result<Self> {
        let places = key_places(&input, &key)?;
        let schema = input.schema();
        let mut fields: Vec<FieldRef> = places.iter().map(|i| Arc::clone(&schema.fields()[*i])).collect();
        let field = |(name, value): &(String, ScalarValue)| Field::new(name, value.data_type(), true);
        fields.extend(register.iter().map(|of| Arc::new(field(of))));
        let shape = Shape::unqualified(fields, &input)?;
        Ok(Detect {
            input: input.into(),
            key: key.into(),
            pattern: pattern.into(),
            register,
            settings,
            shape,
        })
    }

    /// The places of the key's columns.
    ///
    /// # Errors
    /// `Plan` if a key is no column of the input.
    pub fn key_places(&self) -> Result<Vec<usize>> {
        key_places(&self.input, &self.key)
    }
}

impl UserDefinedLogicalNodeCore for Detect {
    fn name(&self) -> &str {
        "Detect"
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
        // A predicate on the key removes whole sequences; the register is made here.
        self.register.iter().map(|(name, _)| name.clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Detect: by [{}]: {:?}, {:?}", listed(&self.key), *self.pattern, self.settings)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        check_count("Detect", &exprs, self.key.len())?;
        let (pattern, register) = (self.pattern.clone().into_inner(), self.register.clone());
        Detect::try_new(only_input("Detect", inputs)?, exprs, pattern, register, self.settings)
    }

    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![columns_read(&self.input, &self.pattern.columns_read(), &self.key)])
    }
}
