//! Joins. All kinds are made of three operators: an inner join, a semi join and an anti join.
//!
//! A condition beside the equalities filters the pairs of the inner join. Whether a row has a partner then
//! depends on the columns that the condition reads: so the semi join or anti join looks these columns up
//! among the pairs that are left, with null equal to null.

use super::exprs::{Keyed, column, columns, keyed, nulls, physical, relabel};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DFSchema, JoinType, NullEquality, Result, plan_err};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{is_not_null, is_null, lit};
use std::collections::BTreeSet;
use std::sync::Arc;
use whimbrel_plan::{merge_join_order, properties};
use whimbrel_temporal::operators::{self, Exists, Lookup, MergeJoin, Select, TableSide, Union, Where};
use whimbrel_temporal::{Graph, NodeId, Operator};

/// The two sides of a join.
struct Sides<'a> {
    plan: &'a Join,
    left: Keyed,
    right: Keyed,
    /// The columns of the left plan, then those of the right one.
    both: DFSchema,
    /// Whether each side is a table at rest: the rows of the other are looked up in it.
    at_rest: [bool; 2],
}

/// A side of a join.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// Whether rows with a partner are kept, or rows without one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Partner {
    Some,
    None,
}

/// Lowers a join.
///
/// # Errors
/// `Plan` for `not in` over several columns; if a condition cannot be evaluated.
pub(super) fn join(graph: &mut Graph, plan: &Join, left: NodeId, right: NodeId) -> Result<NodeId> {
    let sides = Sides::new(graph, plan, left, right)?;
    match plan.join_type {
        JoinType::Inner => sides.outer(graph, &[]),
        JoinType::Left => sides.outer(graph, &[Side::Left]),
        JoinType::Right => sides.outer(graph, &[Side::Right]),
        JoinType::Full => sides.outer(graph, &[Side::Left, Side::Right]),
        JoinType::LeftSemi => sides.semi_or_anti(graph, Side::Left, Partner::Some),
        JoinType::LeftAnti if plan.null_aware => sides.not_in(graph),
        JoinType::LeftAnti => sides.semi_or_anti(graph, Side::Left, Partner::None),
        JoinType::RightSemi => sides.semi_or_anti(graph, Side::Right, Partner::Some),
        JoinType::RightAnti => sides.semi_or_anti(graph, Side::Right, Partner::None),
        JoinType::LeftMark => sides.marked(graph, Side::Left),
        JoinType::RightMark => sides.marked(graph, Side::Right),
    }
}

/// Lowers an inner join of which these columns come out, in this order.
///
/// # Errors
/// `Plan` if a key cannot be evaluated.
pub(super) fn join_columns(
    graph: &mut Graph,
    plan: &Join,
    columns: &[usize],
    left: NodeId,
    right: NodeId,
) -> Result<NodeId> {
    Sides::new(graph, plan, left, right)?.join_streams(graph, columns)
}

/// The columns that a projection takes of a join, if the join need not copy others: both sides are streams,
/// and no condition reads other columns of the pairs.
///
/// # Errors
/// `Plan` if a side has a step that no stream has.
pub(super) fn columns_of(projection: &Projection, join: &Join) -> Result<Option<Vec<usize>>> {
    let has_pairs = join.join_type == JoinType::Inner && join.filter.is_none();
    if !has_pairs || is_at_rest(&join.left)? || is_at_rest(&join.right)? {
        return Ok(None);
    }
    let column = |expr: &Expr| match expr {
        Expr::Column(column) => join.schema.maybe_index_of_column(column),
        _ => None,
    };
    Ok(projection.expr.iter().map(column).collect())
}

/// The operator that keeps rows with a partner among others, or those without; `at_rest`: the others are a
/// table.
fn exists(
    negate: bool,
    (key, other_key): (Vec<usize>, Vec<usize>),
    nulls_equal: bool,
    at_rest: bool,
) -> Box<dyn Operator> {
    match at_rest {
        true => {
            let lookup = Lookup::exists(negate, key, other_key);
            Box::new(if nulls_equal { lookup.nulls_equal() } else { lookup })
        }
        false => {
            let exists = Exists::new(negate, key, other_key);
            Box::new(if nulls_equal { exists.nulls_equal() } else { exists })
        }
    }
}

/// Whether the rows of a plan are alive always.
fn is_at_rest(plan: &LogicalPlan) -> Result<bool> {
    let known = properties(plan)?;
    Ok(known.bounded && known.time.is_none())
}

impl Side {
    /// The other side.
    fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

impl<'a> Sides<'a> {
    /// The sides of a join, with columns for keys that are computed.
    fn new(graph: &mut Graph, plan: &'a Join, left: NodeId, right: NodeId) -> Result<Sides<'a>> {
        let (left_on, right_on): (Vec<Expr>, Vec<Expr>) = plan.on.iter().cloned().unzip();
        Ok(Sides {
            plan,
            left: keyed(graph, left, plan.left.schema(), &left_on)?,
            right: keyed(graph, right, plan.right.schema(), &right_on)?,
            both: plan.left.schema().join(plan.right.schema())?,
            at_rest: [is_at_rest(&plan.left)?, is_at_rest(&plan.right)?],
        })
    }

    /// Whether a side is a table at rest.
    fn is_at_rest(&self, side: Side) -> bool {
        self.at_rest[side as usize]
    }

    /// The side that is a table in which the rows of the other are looked up, if there is one.
    fn table(&self) -> Option<TableSide> {
        match self.at_rest {
            [_, true] => Some(TableSide::Right),
            [true, false] => Some(TableSide::Left),
            [false, false] => None,
        }
    }

    /// The stream of a side.
    fn side(&self, side: Side) -> &Keyed {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }

    /// The columns of a side in the plan. Computed keys come after them.
    fn schema(&self, side: Side) -> &DFSchema {
        match side {
            Side::Left => self.plan.left.schema(),
            Side::Right => self.plan.right.schema(),
        }
    }

    /// The number of columns of a side in the plan.
    fn width(&self, side: Side) -> usize {
        self.schema(side).fields().len()
    }

    /// The columns of the join.
    fn output(&self) -> &SchemaRef {
        self.plan.schema.inner()
    }

    /// Whether null keys are equal.
    fn nulls_equal(&self) -> bool {
        self.plan.null_equality == NullEquality::NullEqualsNull
    }

    /// The pairs that satisfy the condition: the left columns, then the right ones.
    fn pairs(&self, graph: &mut Graph) -> Result<NodeId> {
        let all: Vec<usize> = (0..self.both.fields().len()).collect();
        let node = match self.table() {
            Some(table) => self.join_table(graph, table),
            None => self.join_streams(graph, &all)?,
        };
        match &self.plan.filter {
            None => Ok(node),
            Some(filter) => {
                let predicate = physical(filter, &self.both)?;
                Ok(graph.add(Box::new(Where::new(predicate)), &[node]))
            }
        }
    }

    /// The pairs of two streams, of which these columns come out, in this order.
    fn join_streams(&self, graph: &mut Graph, columns: &[usize]) -> Result<NodeId> {
        let (left, right) = (&self.left, &self.right);
        let columns: Vec<usize> = columns.iter().map(|column| self.with_keys(*column)).collect();
        let join: Box<dyn Operator> = match merge_join_order(self.plan)? {
            Some(order) => {
                let key = |side: &Keyed| order.iter().map(|place| side.key[*place]).collect();
                let schemas = (left.schema.clone(), right.schema.clone());
                let join = MergeJoin::new(schemas.0, schemas.1, key(left), key(right), self.nulls_equal());
                Box::new(join.select(&columns))
            }
            None => {
                let (left_key, right_key) = (left.key.clone(), right.key.clone());
                let join =
                    operators::Join::new(left.schema.clone(), right.schema.clone(), left_key, right_key);
                let join = if self.nulls_equal() { join.nulls_equal() } else { join };
                Box::new(join.select(&columns))
            }
        };
        Ok(graph.add(join, &[left.node, right.node]))
    }

    /// The pairs of a stream with a table, in which its rows are looked up.
    fn join_table(&self, graph: &mut Graph, table: TableSide) -> NodeId {
        let (left, right) = (&self.left, &self.right);
        let (left_key, right_key) = (left.key.clone(), right.key.clone());
        let lookup = Lookup::pairs(&left.schema, &right.schema, left_key, right_key, table);
        let lookup = if self.nulls_equal() { lookup.nulls_equal() } else { lookup };
        let node = graph.add(Box::new(lookup), &[left.node, right.node]);
        let joined = left.schema.fields().iter().chain(right.schema.fields()).cloned().collect::<Vec<_>>();
        if joined.len() == self.both.fields().len() {
            return node;
        }
        let kept = (0..self.both.fields().len()).map(|column| self.with_keys(column));
        let exprs = columns(&Schema::new(joined), kept);
        graph.add(Box::new(Select::new(exprs, self.both.inner().clone())), &[node])
    }

    /// The place of a column where the sides have columns for computed keys behind their own.
    fn with_keys(&self, column: usize) -> usize {
        match column.checked_sub(self.width(Side::Left)) {
            None => column,
            Some(column) => self.left.schema.fields().len() + column,
        }
    }

    /// The pairs, and the rows of the `preserved` sides that have no partner, padded with nulls.
    fn outer(&self, graph: &mut Graph, preserved: &[Side]) -> Result<NodeId> {
        let pairs = self.pairs(graph)?;
        let mut parts = vec![relabel(graph, pairs, self.both.as_arrow(), self.output())];
        for side in preserved {
            let rows = self.partnered(graph, *side, Partner::None, Some(pairs))?;
            let own = columns(&self.side(*side).schema, 0..self.width(*side));
            let exprs: Vec<Arc<dyn PhysicalExpr>> = match side {
                Side::Left => {
                    let padding = nulls(self.schema(Side::Right).as_arrow())?;
                    own.into_iter().chain(padding).collect()
                }
                Side::Right => {
                    let padding = nulls(self.schema(Side::Left).as_arrow())?;
                    padding.into_iter().chain(own).collect()
                }
            };
            parts.push(graph.add(Box::new(Select::new(exprs, self.output().clone())), &[rows]));
        }
        match parts.as_slice() {
            [pairs] => Ok(*pairs),
            parts => Ok(graph.add(Box::new(Union::new(parts.len())), parts)),
        }
    }

    /// The rows of a side with a partner, or without.
    fn semi_or_anti(&self, graph: &mut Graph, side: Side, partner: Partner) -> Result<NodeId> {
        let rows = self.partnered(graph, side, partner, None)?;
        Ok(self.narrow(graph, side, rows))
    }

    /// The rows of a side, with a column that tells whether they have a partner.
    fn marked(&self, graph: &mut Graph, side: Side) -> Result<NodeId> {
        let mut parts = Vec::new();
        for (partner, mark) in [(Partner::Some, true), (Partner::None, false)] {
            let rows = self.partnered(graph, side, partner, None)?;
            let mut exprs = columns(&self.side(side).schema, 0..self.width(side));
            exprs.push(lit(mark));
            parts.push(graph.add(Box::new(Select::new(exprs, self.output().clone())), &[rows]));
        }
        Ok(graph.add(Box::new(Union::new(parts.len())), &parts))
    }

    /// `x not in (…)`: a null on the right leaves no row, and a null on the left is kept only if the right
    /// side is empty.
    fn not_in(&self, graph: &mut Graph) -> Result<NodeId> {
        let ([left_key], [right_key], None) =
            (self.left.key.as_slice(), self.right.key.as_slice(), &self.plan.filter)
        else {
            return plan_err!("not in over a live source compares one value, with no other condition");
        };
        let (left, right) = (&self.left, &self.right);
        let filtered =
            |graph: &mut Graph, predicate, node| graph.add(Box::new(Where::new(predicate)), &[node]);
        let at_rest = self.is_at_rest(Side::Right);
        let none = |graph: &mut Graph, rows, others, keys| {
            graph.add(exists(true, keys, false, at_rest), &[rows, others])
        };
        let not_null = filtered(graph, is_not_null(column(&left.schema, *left_key))?, left.node);
        let unequal = none(graph, not_null, right.node, (left.key.clone(), right.key.clone()));
        let right_nulls = filtered(graph, is_null(column(&right.schema, *right_key))?, right.node);
        let without_partner = none(graph, unequal, right_nulls, (vec![], vec![]));
        let null = filtered(graph, is_null(column(&left.schema, *left_key))?, left.node);
        let null = none(graph, null, right.node, (vec![], vec![]));
        let rows = graph.add(Box::new(Union::new(2)), &[without_partner, null]);
        Ok(self.narrow(graph, Side::Left, rows))
    }

    /// The rows of a side with a partner, or without, with all columns of the side. `pairs` is the result of
    /// [`pairs`](Sides::pairs), if it was made.
    fn partnered(
        &self,
        graph: &mut Graph,
        side: Side,
        partner: Partner,
        pairs: Option<NodeId>,
    ) -> Result<NodeId> {
        let negate = partner == Partner::None;
        let (this, other) = (self.side(side), self.side(side.other()));
        let Some(filter) = &self.plan.filter else {
            let keys = (this.key.clone(), other.key.clone());
            let exists = exists(negate, keys, self.nulls_equal(), self.is_at_rest(side.other()));
            return Ok(graph.add(exists, &[this.node, other.node]));
        };
        let pairs = pairs.map_or_else(|| self.pairs(graph), Ok)?;
        let probed = self.probed_columns(side, filter);
        let first = if side == Side::Left { 0 } else { self.width(Side::Left) };
        let both = self.both.as_arrow();
        let fields: Vec<_> = probed.iter().map(|index| both.field(first + index).clone()).collect();
        let exprs = columns(both, probed.iter().map(|index| first + index));
        let with_partner = graph.add(Box::new(Select::new(exprs, Arc::new(Schema::new(fields)))), &[pairs]);
        let theirs = (0..probed.len()).collect();
        let exists = Exists::new(negate, probed, theirs).nulls_equal();
        Ok(graph.add(Box::new(exists), &[this.node, with_partner]))
    }

    /// The columns of a side that decide whether a row has a partner.
    fn probed_columns(&self, side: Side, filter: &Expr) -> Vec<usize> {
        let schema = self.schema(side);
        let keys = self.plan.on.iter().map(|(left, right)| if side == Side::Left { left } else { right });
        let read = keys.chain([filter]).flat_map(|e| e.column_refs());
        let indices: BTreeSet<usize> = read.filter_map(|c| schema.maybe_index_of_column(c)).collect();
        indices.into_iter().collect()
    }

    /// The rows of a side under the schema of the join.
    fn narrow(&self, graph: &mut Graph, side: Side, rows: NodeId) -> NodeId {
        let this = self.side(side);
        match this.schema.fields().len() == self.width(side) {
            true => relabel(graph, rows, &this.schema, self.output()),
            false => {
                let exprs = columns(&this.schema, 0..self.width(side));
                graph.add(Box::new(Select::new(exprs, self.output().clone())), &[rows])
            }
        }
    }
}
