//! `Require`: what the author of a query asserts of a stream (trill.txt §5.3, §6.2). Rows stay as they are;
//! the query ends at the first one of which the assertion is not true. What is asserted is a property of the
//! stream, and chooses the variants of the operators above.

use super::{check_count, listed, only_input, shape::Shape, subtree::Subtree};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;
use whimbrel_temporal::Lifetimes;

/// What is asserted of the rows of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub enum Assertion {
    /// All lifetimes are so many ticks long; `None`: rows never end.
    Duration(Option<i64>),
    /// Rows come in the ascending order of these columns, nulls last: from shard to shard by itself, and at
    /// one instant as well as over time.
    Sorted(Vec<Expr>),
    /// No two rows start at one instant.
    DistinctStarts,
}

/// Rows of which something is asserted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Require {
    /// The stream.
    pub input: Subtree<LogicalPlan>,
    /// What is asserted.
    pub assertion: Subtree<Assertion>,
    shape: Shape,
}

impl Require {
    /// The assertion is taken as it is: the builder has checked it.
    ///
    /// # Errors
    /// `Plan` if the input has two columns of one name.
    pub fn try_new(input: LogicalPlan, assertion: Assertion) -> Result<Self> {
        let shape = Shape::of_input(&input)?;
        Ok(Require { input: input.into(), assertion: assertion.into(), shape })
    }

    /// What is known of the lifetimes of the rows, from what was known before.
    pub fn lifetimes(&self, input: Lifetimes) -> Lifetimes {
        match (&*self.assertion, input) {
            (Assertion::Duration(None), _) => Lifetimes::StartEdges,
            (Assertion::Duration(Some(_)), Lifetimes::Hop { .. } | Lifetimes::Points) => input,
            (Assertion::Duration(Some(1)), _) => Lifetimes::Points,
            (Assertion::Duration(Some(duration)), _) => Lifetimes::Constant(*duration),
            (Assertion::Sorted(_) | Assertion::DistinctStarts, _) => input,
        }
    }
}

impl UserDefinedLogicalNodeCore for Require {
    fn name(&self) -> &str {
        "Require"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.shape.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        match &*self.assertion {
            Assertion::Sorted(columns) => columns.clone(),
            Assertion::Duration(_) | Assertion::DistinctStarts => vec![],
        }
    }

    // What is true of all rows is true of some.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        HashSet::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &*self.assertion {
            Assertion::Duration(duration) => write!(f, "RequireDuration: {duration:?}"),
            Assertion::Sorted(columns) => write!(f, "RequireSorted: [{}]", listed(columns)),
            Assertion::DistinctStarts => f.write_str("RequireDistinctStarts"),
        }
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        check_count("Require", &exprs, self.expressions().len())?;
        let assertion = match &*self.assertion {
            Assertion::Sorted(_) => Assertion::Sorted(exprs),
            fixed => fixed.clone(),
        };
        Require::try_new(only_input("Require", inputs)?, assertion)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}
