//! `Colocated`: a requirement, not a step. What follows is computed shard by shard and is right only if rows
//! that belong together lie together (quill.txt §3.3); this node says which rows those are, and a plan in
//! which they might not is refused ([`crate::properties()`]).
//!
//! Local aggregates and joins stay what they are without it: they are asked for, too. Whoever splits a query
//! over shards puts it where one answer is meant, so that no edit of the plan can turn it into another. It
//! vanishes when a plan is lowered.

use super::{Node, check_count, listed, node, only_input, shape::Shape, subtree::Subtree};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;

/// Which rows have to be in the same shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub enum Colocation {
    /// Rows that are equal in these columns; empty: all rows.
    Equal(Vec<Expr>),
    /// Rows that match each other in the join that is the input.
    Matches,
}

/// Rows that belong together lie together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Colocated {
    /// The stream or relation; a [`Join`], if it is about matches.
    pub input: Subtree<LogicalPlan>,
    /// Which rows.
    pub colocation: Subtree<Colocation>,
    shape: Shape,
}

impl Colocated {
    /// Rows that are equal in these columns, or all rows, are required to be in one shard.
    ///
    /// # Errors
    /// `Plan` if the input has two columns of one name.
    pub fn rows(input: LogicalPlan, key: Vec<Expr>) -> Result<Self> {
        Colocated::try_new(input, Colocation::Equal(key))
    }

    /// Rows that the join pairs are required to be in one shard.
    ///
    /// # Errors
    /// `Plan` if the input has two columns of one name.
    pub fn matches(join: Join) -> Result<Self> {
        Colocated::try_new(LogicalPlan::Join(join), Colocation::Matches)
    }

    fn try_new(input: LogicalPlan, colocation: Colocation) -> Result<Self> {
        let shape = Shape::of_input(&input)?;
        Ok(Colocated { input: input.into(), colocation: colocation.into(), shape })
    }
}

impl UserDefinedLogicalNodeCore for Colocated {
    fn name(&self) -> &str {
        "Colocated"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.shape.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        match &*self.colocation {
            Colocation::Equal(key) => key.clone(),
            Colocation::Matches => vec![],
        }
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        match &*self.colocation {
            Colocation::Equal(_) => HashSet::new(),
            // The join stays right below.
            Colocation::Matches => self.schema().fields().iter().map(|f| f.name().clone()).collect(),
        }
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &*self.colocation {
            Colocation::Equal(key) => write!(f, "Colocated: [{}]", listed(key)),
            Colocation::Matches => f.write_str("Colocated: matches"),
        }
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        check_count("Colocated", &exprs, self.expressions().len())?;
        let colocation = match &*self.colocation {
            Colocation::Equal(_) => Colocation::Equal(exprs),
            Colocation::Matches => Colocation::Matches,
        };
        Colocated::try_new(only_input("Colocated", inputs)?, colocation)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        match &*self.colocation {
            // The key's columns are added by the caller, from `expressions()`.
            Colocation::Equal(_) => Some(vec![output_columns.to_vec()]),
            Colocation::Matches => None,
        }
    }
}

/// The join that a plan is, and whether it is required to be co-located.
pub(crate) fn join_of(plan: &LogicalPlan) -> Option<(&Join, bool)> {
    match (plan, node(plan)) {
        (LogicalPlan::Join(join), _) => Some((join, false)),
        (_, Some(Node::Colocated(colocated))) => match &*colocated.input {
            LogicalPlan::Join(join) => Some((join, true)),
            _ => None,
        },
        _ => None,
    }
}
