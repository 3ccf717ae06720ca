//! Patterns of rows over tables: the window function that looks for them, as one that computes.
//!
//! The rows of a partition are in their order, so the number of a row is its time. The operator takes the
//! rows of all keys that have one time at once, so many partitions are looked at together: the physical
//! rule [`RowPatternPartitions`] gives it those of a whole input. Without it each partition is looked at
//! alone.

mod partitions;
mod rule;

pub(super) use rule::RowPatternPartitions;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    Expr, LimitEffect, LogicalPlan, PartitionEvaluator, Signature, WindowFunctionDefinition, WindowUDF,
    WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use partitions::Partitions;
use std::sync::Arc;
use whimbrel_plan::{ROW_PATTERN, RowPatternFunction};

/// Replaces the row patterns of a plan.
///
/// # Errors
/// If a node cannot be rebuilt.
pub(super) fn lower_row_patterns(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|plan| match plan {
        LogicalPlan::Window(_) => {
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(lowered(expr)?.update_data(|expr| name.restore(expr)))
            })
        }
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}

/// An expression with row patterns that compute.
fn lowered(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::WindowFunction(mut window) => {
            let WindowFunctionDefinition::WindowUDF(function) = &window.fun else {
                return Ok(Transformed::no(Expr::WindowFunction(window)));
            };
            if function.inner().downcast_ref::<RowPatternFunction>().is_none() {
                return Ok(Transformed::no(Expr::WindowFunction(window)));
            }
            let matches = WindowUDF::from(Matches(Arc::clone(function)));
            window.fun = WindowFunctionDefinition::WindowUDF(Arc::new(matches));
            Ok(Transformed::yes(Expr::WindowFunction(window)))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// The function, which computes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Matches(Arc<WindowUDF>);

impl Matches {
    /// The row pattern that it looks for.
    fn function(&self) -> Result<&RowPatternFunction> {
        match self.0.inner().downcast_ref() {
            Some(function) => Ok(function),
            None => internal_err!("{} is no row pattern", self.0.name()),
        }
    }
}

impl WindowUDFImpl for Matches {
    fn name(&self) -> &str {
        ROW_PATTERN
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn partition_evaluator(&self, arguments: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Evaluator(Partitions::new(self.function()?, arguments.input_fields())?)))
    }

    fn field(&self, arguments: WindowUDFFieldArgs) -> Result<FieldRef> {
        self.0.field(arguments)
    }

    fn limit_effect(&self, _: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

/// Finds the matches of one partition.
#[derive(Debug)]
struct Evaluator(Partitions);

impl PartitionEvaluator for Evaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.0.matches(values, std::slice::from_ref(&(0..rows)))
    }
}
