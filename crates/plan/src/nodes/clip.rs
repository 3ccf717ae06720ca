//! `Clip`: a row of the left stream ends when the next row of the right stream with an equal key starts. The
//! right stream's lifetimes and its other columns do not matter. Keys are columns only, of equal types.

use super::{check_count, shape::Shape, subtree::Subtree};
use crate::names::show;
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::fmt;

/// Lifetimes are cut by the events of another stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Clip {
    /// The stream that is cut; its columns come out.
    pub left: Subtree<LogicalPlan>,
    /// The stream that cuts.
    pub right: Subtree<LogicalPlan>,
    /// Which columns have to be equal; empty: every row on the right cuts.
    pub on: Subtree<Vec<(Expr, Expr)>>,
    shape: Shape,
}

impl Clip {
    /// The pairs are taken as they are: the builder has checked them.
    ///
    /// # Errors
    /// `Plan` if the input has two columns of one name.
    pub fn try_new(left: LogicalPlan, right: LogicalPlan, on: Vec<(Expr, Expr)>) -> Result<Self> {
        let shape = Shape::of_input(&left)?;
        Ok(Clip { left: left.into(), right: right.into(), on: on.into(), shape })
    }
}

impl UserDefinedLogicalNodeCore for Clip {
    fn name(&self) -> &str {
        "Clip"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.shape.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.on.iter().flat_map(|(l, r)| [l.clone(), r.clone()]).collect()
    }

    // Predicates stay above (the default): DataFusion would push them into both inputs.

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let on: Vec<String> = self.on.iter().map(|(l, r)| format!("{} = {}", show(l), show(r))).collect();
        write!(f, "Clip: on=[{}]", on.join(", "))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        check_count("Clip", &exprs, 2 * self.on.len())?;
        let on = exprs.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        match <[LogicalPlan; 2]>::try_from(inputs) {
            Ok([left, right]) => Clip::try_new(left, right, on),
            Err(inputs) => internal_err!("Clip has two inputs, a rewrite gave it {}", inputs.len()),
        }
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // The keys' columns are added by the caller, from `expressions()`.
        Some(vec![output_columns.to_vec(), vec![]])
    }
}
