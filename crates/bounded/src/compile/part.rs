//! A compiled part of a query, and the order, stop and pages that its parent requires of it.

use super::expressions::column;
use crate::plan::{Chain, Step};
use datafusion::logical_expr::{Expr, SortExpr};

/// What is wanted of a part of a plan.
#[derive(Debug, Clone, Default)]
pub(super) struct Required {
    /// The order of the rows.
    pub order: Vec<SortExpr>,
    /// How many rows are needed.
    pub stop: Option<u64>,
    /// The result is read in pages.
    pub page: bool,
}

/// A part of a plan that was compiled.
pub(super) struct Part {
    /// The chain.
    pub chain: Chain,
    /// The columns of the plan, in terms of those of the chain.
    pub outputs: Vec<Expr>,
    /// In the order that was wanted.
    pub ordered: bool,
    /// No more rows than were wanted.
    pub stopped: bool,
    /// What tells the rows apart.
    pub identity: Vec<Expr>,
    /// The order of the pages.
    pub order: Vec<SortExpr>,
}

/// The outputs as columns of this qualifier.
pub(super) fn project_outputs(mut part: Part, qualifier: &str) -> Part {
    let names: Vec<String> = (0..part.outputs.len()).map(|at| format!("column{}", at + 1)).collect();
    let columns = part.outputs.into_iter().zip(names.iter().cloned()).collect();
    part.chain.steps.push(Step::Project { columns, qualifier: Some(qualifier.to_string()) });
    let outputs: Vec<Expr> = names.iter().map(|name| column(qualifier, name)).collect();
    Part { identity: outputs.clone(), outputs, ..part }
}
