//! `Exchange`: rows move between shards; the only node at which a plan is cut into stages. What a row is does
//! not change, and every target shard keeps time order.

use super::{Node, check_count, extension, listed, node, only_input, shape::Shape, subtree::Subtree};
use crate::names::show;
use datafusion::common::{DFSchemaRef, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, Sort, SortExpr, UserDefinedLogicalNodeCore};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Which rows go to which shards (quill.txt Table 2).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub enum Movement {
    /// Rows with equal keys go to the same shard, by hash.
    ReDistribute {
        /// Columns; not empty.
        key: Vec<Expr>,
    },
    /// Round robin.
    ReShard,
    /// Rows that follow each other with equal keys go to the same shard, and these runs are dealt out in
    /// turns (trill.txt §6.2, packing). The rows are in one shard, and in the order of the key.
    Runs {
        /// Columns; not empty.
        key: Vec<Expr>,
    },
    /// Every row goes to every shard.
    Broadcast,
    /// Every row says where it goes.
    Multicast {
        /// An int64 or list(int64): the target shards, from 0. An empty list is nowhere; null, or a shard
        /// that does not exist, is an error.
        to: Expr,
    },
    /// Rows of one window of time go to the same shard, and windows take turns. A planner puts it in place
    /// of a movement by key where rows meet within a window only; no builder makes it.
    Windows {
        /// Ticks of a window; positive.
        size: i64,
        /// The start of one of the windows.
        offset: i64,
    },
    /// Rows of one range of a value go to the same shard, and the ranges of the shards follow each other. A
    /// planner puts it below a sort; no builder makes it.
    Ranges {
        /// The value, and its order.
        by: SortExpr,
        /// Where each range but the first begins, in that order; each is of the type of the value, and none
        /// is null. The shards after the last range get no rows.
        bounds: Vec<ScalarValue>,
    },
    /// All rows of the first shard, then those of the second, and so on, into one shard. A planner puts it
    /// above sorts of ranges; no builder makes it. Each shard has to take all of its input before it gives
    /// its first row: it waits for those before it.
    InOrder,
}

/// How far rows may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// To any shard.
    Global,
    /// To shards of the same group (machine).
    Local,
}

/// Rows move between shards.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Exchange {
    /// The stream or relation.
    pub input: Subtree<LogicalPlan>,
    /// Which rows go where.
    pub movement: Subtree<Movement>,
    /// How many shards come out, over all groups; as many as came in if not given.
    pub shards: Option<usize>,
    /// How far rows may move.
    pub scope: Scope,
    /// The virtual cluster to which rows move (quill.txt §3.5); none: where they are.
    pub location: Option<String>,
    shape: Shape,
}

impl Exchange {
    /// Key and targets are taken as they are: the builder has checked them.
    ///
    /// # Errors
    /// `Plan` if the input has two columns of one name.
    pub fn try_new(
        input: LogicalPlan,
        movement: Movement,
        shards: Option<usize>,
        scope: Scope,
    ) -> Result<Self> {
        let shape = Shape::of_input(&input)?;
        let location = None;
        Ok(Exchange { input: input.into(), movement: movement.into(), shards, scope, location, shape })
    }

    /// The same exchange, which moves rows to a virtual cluster.
    #[must_use]
    pub fn at(self, location: Option<String>) -> Self {
        Exchange { location, ..self }
    }

    /// The same exchange of another input, into so many shards.
    ///
    /// # Errors
    /// As [`try_new`](Exchange::try_new).
    pub fn with_input(&self, input: LogicalPlan, shards: Option<usize>) -> Result<Self> {
        let movement = self.movement.clone().into_inner();
        Ok(Exchange::try_new(input, movement, shards, self.scope)?.at(self.location.clone()))
    }

    /// A sort of all rows in one shard, which gives what sorted shards give [in order](Movement::InOrder).
    /// None of another exchange.
    ///
    /// # Errors
    /// As [`try_new`](Exchange::try_new).
    pub fn as_one_sort(&self) -> Result<Option<LogicalPlan>> {
        let (Movement::InOrder, LogicalPlan::Sort(sort)) = (&*self.movement, &*self.input) else {
            return Ok(None);
        };
        let rows = match node(&sort.input) {
            Some(Node::Exchange(ranges)) if matches!(*ranges.movement, Movement::Ranges { .. }) => {
                ranges.input.clone().into_inner()
            }
            _ => sort.input.as_ref().clone(),
        };
        let gathered = Exchange::try_new(rows, Movement::ReShard, Some(1), Scope::Global)?;
        Ok(Some(LogicalPlan::Sort(Sort { input: Arc::new(extension(gathered)), ..sort.clone() })))
    }

    /// Refuses rows [in the order of shards](Movement::InOrder) that are not in one, or not sorted in each.
    pub(crate) fn check_order(&self, shards: usize) -> Result<()> {
        if *self.movement != Movement::InOrder {
            return Ok(());
        }
        if shards != 1 {
            return plan_err!("rows in the order of shards are in one shard, not in {shards}");
        }
        let mut rows: &LogicalPlan = &self.input;
        loop {
            rows = match rows {
                LogicalPlan::Sort(_) => return Ok(()),
                LogicalPlan::Projection(projection) => &projection.input,
                LogicalPlan::SubqueryAlias(alias) => &alias.input,
                other => {
                    let other = other.display();
                    return plan_err!(
                        "rows in the order of shards are sorted in each; these are not: {other}"
                    );
                }
            };
        }
    }
}

impl fmt::Display for Movement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Movement::ReDistribute { key } => write!(f, "redistribute by {}", listed(key)),
            Movement::ReShard => f.write_str("reshard"),
            Movement::Runs { key } => write!(f, "reshard runs of {}", listed(key)),
            Movement::Broadcast => f.write_str("broadcast"),
            Movement::Multicast { to } => write!(f, "multicast to {}", show(to)),
            Movement::Windows { size, .. } => write!(f, "windows of {size} ticks in turns"),
            Movement::Ranges { by, bounds } => {
                let order = if by.asc { "" } else { " descending" };
                write!(f, "{} ranges of {}{order}", bounds.len() + 1, show(&by.expr))
            }
            Movement::InOrder => f.write_str("in the order of shards"),
        }
    }
}

impl UserDefinedLogicalNodeCore for Exchange {
    fn name(&self) -> &str {
        "Exchange"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.shape.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        match &*self.movement {
            Movement::ReDistribute { key } | Movement::Runs { key } => key.clone(),
            Movement::Multicast { to } => vec![to.clone()],
            Movement::Ranges { by, .. } => vec![by.expr.clone()],
            Movement::ReShard | Movement::Broadcast | Movement::Windows { .. } | Movement::InOrder => vec![],
        }
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        // Fewer rows move when they are filtered first.
        HashSet::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Exchange: {}", self.movement)?;
        if let Some(shards) = self.shards {
            write!(f, " into {shards}")?;
        }
        if let Some(location) = &self.location {
            write!(f, " at {location}")?;
        }
        match self.scope {
            Scope::Global => Ok(()),
            Scope::Local => f.write_str(" within each group"),
        }
    }

    fn with_exprs_and_inputs(&self, mut exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        check_count("Exchange", &exprs, self.expressions().len())?;
        let movement = match &*self.movement {
            Movement::ReDistribute { .. } => Movement::ReDistribute { key: exprs },
            Movement::Runs { .. } => Movement::Runs { key: exprs },
            Movement::Multicast { .. } => Movement::Multicast { to: exprs.swap_remove(0) },
            Movement::Ranges { by: SortExpr { asc, nulls_first, .. }, bounds } => Movement::Ranges {
                by: SortExpr { expr: exprs.swap_remove(0), asc: *asc, nulls_first: *nulls_first },
                bounds: bounds.clone(),
            },
            fixed => fixed.clone(),
        };
        let exchange = Exchange::try_new(only_input("Exchange", inputs)?, movement, self.shards, self.scope)?;
        Ok(exchange.at(self.location.clone()))
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // The columns of key and targets are added by the caller, from `expressions()`.
        Some(vec![output_columns.to_vec()])
    }
}
