//! Row patterns over tables, as a window function: for each row the matches that end there.
//!
//! The arguments are the columns that the pattern reads, in this order; the partition of the window is the
//! key, and its order that of the rows. A match is a struct of the columns of the register and the number of
//! the match.
//!
//! Invariant: the function is exchanged for one that computes when a plan is lowered, and only then; so what
//! travels with plans is the pattern.

use crate::row_pattern::RowPattern;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    Expr, LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// The name of the function.
pub const ROW_PATTERN: &str = "match_recognize";

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct RowPatternFunction {
    /// The pattern.
    pub pattern: RowPattern,
    /// The names of the arguments.
    pub columns: Vec<String>,
    signature: Signature,
}

impl RowPatternFunction {
    /// The matches of a pattern over rows with these columns.
    pub fn new(pattern: RowPattern, columns: Vec<String>) -> RowPatternFunction {
        let signature = match columns.len() {
            0 => Signature::nullary(Volatility::Immutable),
            columns => Signature::any(columns, Volatility::Immutable),
        };
        RowPatternFunction { pattern, columns, signature }
    }

    /// The function over columns of those names.
    pub fn over_columns(pattern: RowPattern, columns: Vec<String>) -> Arc<WindowUDF> {
        Arc::new(WindowUDF::from(RowPatternFunction::new(pattern, columns)))
    }

    /// The columns of rows whose arguments are these.
    ///
    /// # Errors
    /// `Plan` if two of them have one name.
    pub fn rows(&self, arguments: &[FieldRef]) -> Result<DFSchema> {
        let column = |(name, of): (&String, &FieldRef)| Field::new(name, of.data_type().clone(), true);
        let columns: Fields = self.columns.iter().zip(arguments).map(column).collect();
        DFSchema::from_unqualified_fields(columns, Default::default())
    }

    /// The columns of a match.
    pub fn match_fields(&self) -> Fields {
        self.pattern.match_fields().into()
    }

    /// The column of the result.
    pub fn result(&self, name: &str) -> FieldRef {
        let item = Field::new_list_field(DataType::Struct(self.match_fields()), true);
        Arc::new(Field::new(name, DataType::List(Arc::new(item)), true))
    }
}

impl WindowUDFImpl for RowPatternFunction {
    fn name(&self) -> &str {
        ROW_PATTERN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(&self, _: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        internal_err!("a row pattern is evaluated before it was lowered")
    }

    fn field(&self, arguments: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(self.result(arguments.name()))
    }

    fn limit_effect(&self, _: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

/// The row pattern that an expression looks for, if it does.
pub fn row_pattern_of(expr: &Expr) -> Option<&RowPatternFunction> {
    match expr {
        Expr::Alias(alias) => row_pattern_of(&alias.expr),
        Expr::WindowFunction(window) => match &window.fun {
            datafusion::logical_expr::WindowFunctionDefinition::WindowUDF(udf) => udf.inner().downcast_ref(),
            _ => None,
        },
        _ => None,
    }
}
