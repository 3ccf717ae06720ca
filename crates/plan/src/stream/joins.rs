//! Two streams at once. A temporal join pairs rows that are alive together, for as long as both are.

use super::Stream;
use super::pairs::Pairs;
use crate::names::names;
use datafusion::common::{Column, JoinConstraint, JoinType, NullEquality, Result, plan_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection, SubqueryAlias};
use std::sync::Arc;

/// Which rows a join gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JoinKind {
    /// Pairs.
    Inner,
    /// Pairs, and left rows while they have no partner, with nulls on the right.
    Left,
    /// Pairs, and rows of either side while they have no partner.
    Full,
    /// Every left row with every right row (of its group).
    Cross,
    /// Left rows while they have a partner, once.
    Semi,
    /// Left rows while they have none.
    Anti,
}

impl JoinKind {
    /// The kind as it is written: `"inner"`.
    pub fn name(self) -> &'static str {
        match self {
            JoinKind::Inner => "inner",
            JoinKind::Left => "left",
            JoinKind::Full => "full",
            JoinKind::Cross => "cross",
            JoinKind::Semi => "semi",
            JoinKind::Anti => "anti",
        }
    }

    fn join_type(self) -> JoinType {
        match self {
            JoinKind::Inner | JoinKind::Cross => JoinType::Inner,
            JoinKind::Left => JoinType::Left,
            JoinKind::Full => JoinType::Full,
            JoinKind::Semi => JoinType::LeftSemi,
            JoinKind::Anti => JoinType::LeftAnti,
        }
    }

    fn gives_right_columns(self) -> bool {
        !matches!(self, JoinKind::Semi | JoinKind::Anti)
    }
}

const LEFT: &str = "left";
const RIGHT: &str = "right";

impl Stream {
    /// Joins rows with equal `on`; without `on`, with equal current keys.
    ///
    /// Columns: the left ones, then the right ones without those that `on` makes equal to a left one of the
    /// same name. A right column with the name of another left one gets `suffix`. The left key stays. Nulls
    /// equal nothing.
    pub fn join(
        &self,
        other: &Stream,
        on: Vec<(Expr, Expr)>,
        kind: JoinKind,
        suffix: &str,
    ) -> Result<Stream> {
        if kind == JoinKind::Cross && !on.is_empty() {
            return plan_err!("join: a cross join pairs all rows; leave out on=, or join another way");
        }
        let pairs = self.pairs(other, on, "join")?;
        let needs_pairs = matches!(kind, JoinKind::Inner | JoinKind::Left | JoinKind::Full);
        if pairs.on.is_empty() && needs_pairs {
            return plan_err!(
                "join: say which columns are equal, on=…, or rekey both sides; to pair all rows, join \
                how=\"cross\""
            );
        }
        self.joined(other, pairs, kind, suffix)
    }

    /// Rows while an equal `on` is alive on the other side.
    pub fn where_exists(&self, other: &Stream, on: Vec<(Expr, Expr)>) -> Result<Stream> {
        let pairs = self.pairs(other, on, "where_exists")?;
        self.joined(other, pairs, JoinKind::Semi, "")
    }

    /// Rows while no equal `on` is alive on the other side.
    pub fn where_not_exists(&self, other: &Stream, on: Vec<(Expr, Expr)>) -> Result<Stream> {
        let pairs = self.pairs(other, on, "where_not_exists")?;
        self.joined(other, pairs, JoinKind::Anti, "")
    }

    fn joined(&self, other: &Stream, pairs: Pairs, kind: JoinKind, suffix: &str) -> Result<Stream> {
        let columns = self.join_columns(other, &pairs, kind, suffix)?;
        let on = pairs.on.iter().map(|(l, r)| (side(LEFT, l), side(RIGHT, r))).collect();
        let left = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(pairs.left.plan, LEFT)?);
        let right = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(pairs.right.plan, RIGHT)?);
        let join = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            None,
            kind.join_type(),
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        let projection = Projection::try_new(columns, Arc::new(LogicalPlan::Join(join)))?;
        // A full join computes its key columns anew; they are the key all the same.
        self.then(LogicalPlan::Projection(projection))?.keyed_by(self.key())
    }

    /// The columns above the join, with plain and unique names.
    fn join_columns(&self, other: &Stream, pairs: &Pairs, kind: JoinKind, suffix: &str) -> Result<Vec<Expr>> {
        let shared = |name: &str| pairs.on.iter().any(|(l, r)| l == name && r == name);
        let mut columns: Vec<(String, Expr)> = Vec::new();
        for name in names(self.df_schema()) {
            let value = match kind == JoinKind::Full && shared(name) {
                true => coalesce(vec![side(LEFT, name), side(RIGHT, name)]),
                false => side(LEFT, name),
            };
            columns.push((name.to_string(), value));
        }
        let right = if kind.gives_right_columns() { names(other.df_schema()) } else { vec![] };
        for name in right.into_iter().filter(|n| !shared(n)) {
            let clash = |n: &str| columns.iter().any(|(taken, _)| taken == n);
            let free = if clash(name) { format!("{name}{suffix}") } else { name.to_string() };
            if clash(&free) {
                return plan_err!(
                    "join: both sides have a column {name:?}, and {free:?} is taken too; give another \
                    suffix=, or rename one of them"
                );
            }
            columns.push((free, side(RIGHT, name)));
        }
        Ok(columns.into_iter().map(|(name, value)| value.alias(name)).collect())
    }
}

/// A column of one side of the join.
fn side(side: &str, name: &str) -> Expr {
    Expr::Column(Column::new(Some(side), name))
}
