//! A compiled part of a query, and the order, stop and pages that its parent requires of it.

use super::expressions::column;
use crate::plan::{Chain, Step};
use datafusion::logical_expr::{Expr, SortExpr};

/// What is required of a part of a plan.
#[derive(Debug, Clone, Default)]
pub(super) struct Required {
    /// The order of the rows.
    pub order: Vec<SortExpr>,
    /// How many rows are needed.
    pub stop: Option<u64>,
    /// The result is read in pages.
    pub page: bool,
}

/// A compiled part of a plan.
pub(super) struct Part {
    /// The chain.
    pub chain: Chain,
    /// The output columns, as expressions over the chain's columns.
    pub outputs: Vec<Expr>,
    /// The rows are in the required order.
    pub ordered: bool,
    /// There are no more rows than required.
    pub stopped: bool,
    /// Columns that identify a row.
    pub identity: Vec<Expr>,
    /// The order of the pages.
    pub order: Vec<SortExpr>,
}

/// Ends the chain with a projection, its outputs as columns of this qualifier.
pub(super) fn project_outputs(mut part: Part, qualifier: &str) -> Part {
    let names: Vec<String> = (0..part.outputs.len()).map(|at| format!("column{}", at + 1)).collect();
    let columns = part.outputs.into_iter().zip(names.iter().cloned()).collect();
    part.chain.steps.push(Step::Project { columns, qualifier: Some(qualifier.to_string()) });
    let outputs: Vec<Expr> = names.iter().map(|name| column(qualifier, name)).collect();
    Part { identity: outputs.clone(), outputs, ..part }
}
