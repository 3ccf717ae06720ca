//! Two streams at once. A temporal join pairs rows that are alive together, for as long as both are.

use super::Stream;
use super::pairs::Pairs;
use crate::names::names;
use crate::nodes::{Colocated, extension};
use crate::resolve::resolve_sides;
use datafusion::common::{
    Column, DFSchema, JoinConstraint, JoinType, NullEquality, Result, TableReference, plan_err,
};
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
    /// Pairs, and right rows while they have no partner, with nulls on the left.
    Right,
    /// Pairs, and rows of either side while they have no partner.
    Full,
    /// Every left row with every right row (of its group).
    Cross,
    /// Left rows while they have a partner, once.
    Semi,
    /// Left rows while they have none.
    Anti,
    /// All left rows, and in a column `mark` whether they have a partner.
    Mark,
}

/// How two streams are joined, beside the columns that have to be equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JoinHow {
    /// Which rows come out.
    pub kind: JoinKind,
    /// What right columns get that have the name of a left one.
    pub suffix: String,
    /// What partners have to satisfy besides, over the columns of `left` and `right`
    /// ([`JoinHow::sides_schema`]).
    pub filter: Option<Expr>,
    /// Whether a null equals a null.
    pub nulls_equal: bool,
    /// For `Anti`: as SQL's `not in`, where one null on the right side leaves no row, and no left row with a
    /// null stays unless the right side is empty.
    pub null_aware: bool,
    /// Whether the result has to be that of both sides as a whole, not shard by shard: refused unless rows
    /// that match are known to be in one shard.
    ///
    /// That is so if both sides are redistributed by what is equal, in the same order and into as many
    /// shards; if one side is broadcast, as long as the join does not keep rows of that side for themselves;
    /// or if there is one shard.
    pub colocated: bool,
}

impl JoinHow {
    /// Nothing but the kind.
    pub fn of(kind: JoinKind) -> JoinHow {
        JoinHow {
            kind,
            suffix: "_right".to_string(),
            filter: None,
            nulls_equal: false,
            null_aware: false,
            colocated: false,
        }
    }

    /// The columns that a filter speaks of: those of both streams, qualified by `left` and `right`.
    ///
    /// # Errors
    /// `Plan` if a side has two columns of one name.
    pub fn sides_schema(left: &Stream, right: &Stream) -> Result<DFSchema> {
        let side = |side: &str, stream: &Stream| {
            DFSchema::try_from_qualified_schema(TableReference::bare(side), stream.schema())
        };
        side(LEFT, left)?.join(&side(RIGHT, right)?)
    }

    /// The column that tells which rows have a partner.
    pub(crate) fn mark(&self, taken: &[&str]) -> String {
        match taken.contains(&MARK) {
            true => format!("{MARK}{}", self.suffix),
            false => MARK.to_string(),
        }
    }
}

impl JoinKind {
    /// The kind as it is written: `"inner"`.
    pub fn name(self) -> &'static str {
        match self {
            JoinKind::Inner => "inner",
            JoinKind::Left => "left",
            JoinKind::Right => "right",
            JoinKind::Full => "full",
            JoinKind::Cross => "cross",
            JoinKind::Semi => "semi",
            JoinKind::Anti => "anti",
            JoinKind::Mark => "mark",
        }
    }

    fn join_type(self) -> JoinType {
        match self {
            JoinKind::Inner | JoinKind::Cross => JoinType::Inner,
            JoinKind::Left => JoinType::Left,
            JoinKind::Right => JoinType::Right,
            JoinKind::Full => JoinType::Full,
            JoinKind::Semi => JoinType::LeftSemi,
            JoinKind::Anti => JoinType::LeftAnti,
            JoinKind::Mark => JoinType::LeftMark,
        }
    }

    fn gives_right_columns(self) -> bool {
        !matches!(self, JoinKind::Semi | JoinKind::Anti | JoinKind::Mark)
    }
}

const LEFT: &str = "left";
const RIGHT: &str = "right";
const MARK: &str = "mark";

impl Stream {
    /// Joins rows with equal `on`; without `on`, with equal current keys.
    ///
    /// Columns: the left ones, then the right ones without those that `on` makes equal to a left one of the
    /// same name. A right column with the name of another left one gets `suffix`. The left key stays. Nulls
    /// equal nothing.
    ///
    /// ```
    /// # use datafusion::arrow::datatypes::DataType;
    /// # use datafusion::common::ScalarValue;
    /// # use datafusion::logical_expr::lit;
    /// # use whimbrel_plan::{Stream, column};
    /// # fn main() -> datafusion::common::Result<()> {
    /// # let integers = |name: &str| (name.to_string(), DataType::Int64);
    /// # let row = |values: &[i64]| values.iter().map(|v| ScalarValue::from(*v)).collect::<Vec<_>>();
    /// # let names = |s: &Stream| s.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
    /// let orders = Stream::values(&[integers("id"), integers("price")], vec![row(&[1, 20]), row(&[2,
    /// 30])])?; use whimbrel_plan::JoinKind;
    ///
    /// let ratings = Stream::values(&[integers("id"), integers("stars")], vec![row(&[1, 5])])?;
    /// let joined = orders.join(&ratings, vec![(column("id"), column("id"))], JoinKind::Left, "_right")?;
    /// assert_eq!(names(&joined), ["id", "price", "stars"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Plan` if columns are not there, their types do not compare, two columns of the result would have one
    /// name, or both sides differ in their number of shards or in how they count time.
    pub fn join(
        &self,
        other: &Stream,
        on: Vec<(Expr, Expr)>,
        kind: JoinKind,
        suffix: &str,
    ) -> Result<Stream> {
        self.join_as(other, on, &JoinHow { suffix: suffix.to_string(), ..JoinHow::of(kind) })
    }

    /// The same, where the result has to be that of both sides as a whole ([`JoinHow::colocated`]).
    ///
    /// # Errors
    /// Those of [`join`](Stream::join); `Plan` too if rows that it pairs may lie in different shards.
    pub fn join_colocated(
        &self,
        other: &Stream,
        on: Vec<(Expr, Expr)>,
        kind: JoinKind,
        suffix: &str,
    ) -> Result<Stream> {
        let how = JoinHow { suffix: suffix.to_string(), colocated: true, ..JoinHow::of(kind) };
        self.join_as(other, on, &how)
    }

    /// The same, with all that can be said of a join.
    ///
    /// # Errors
    /// Those of [`join`](Stream::join); `Plan` too if it asks of a stream what only relations can do.
    pub fn join_as(&self, other: &Stream, on: Vec<(Expr, Expr)>, how: &JoinHow) -> Result<Stream> {
        let kind = how.kind;
        if kind == JoinKind::Cross && !on.is_empty() {
            return plan_err!("join: a cross join pairs all rows; leave out on=, or join another way");
        }
        if how.null_aware && kind != JoinKind::Anti {
            return plan_err!("join: null_aware= says what \"anti\" means, not what {:?} does", kind.name());
        }
        // A condition is enough to say which rows are partners.
        let pairs = match how.filter.is_some() && on.is_empty() {
            true => Pairs { left: self.clone(), right: other.clone(), on: vec![] },
            // Whatever their keys are.
            false if kind == JoinKind::Cross => self.all_pairs(other, "join")?,
            false => self.pairs(other, on, "join")?,
        };
        let needs_pairs = how.filter.is_none() && kind != JoinKind::Cross;
        let needs_pairs = needs_pairs && !matches!(kind, JoinKind::Semi | JoinKind::Anti | JoinKind::Mark);
        if pairs.on.is_empty() && needs_pairs {
            return plan_err!(
                "join: say which columns are equal, on=…, or rekey both sides; to pair all rows, join \
                how=\"cross\""
            );
        }
        self.joined(other, pairs, how)
    }

    /// Rows while an equal `on` is alive on the other side.
    ///
    /// # Errors
    /// `Plan` if columns are not there, their types do not compare, or both sides differ in their number of
    /// shards or in how they count time.
    pub fn where_exists(&self, other: &Stream, on: Vec<(Expr, Expr)>) -> Result<Stream> {
        let pairs = self.pairs(other, on, "where_exists")?;
        self.joined(other, pairs, &JoinHow::of(JoinKind::Semi))
    }

    /// Rows while no equal `on` is alive on the other side.
    ///
    /// # Errors
    /// `Plan` if columns are not there, their types do not compare, or both sides differ in their number of
    /// shards or in how they count time.
    pub fn where_not_exists(&self, other: &Stream, on: Vec<(Expr, Expr)>) -> Result<Stream> {
        let pairs = self.pairs(other, on, "where_not_exists")?;
        self.joined(other, pairs, &JoinHow::of(JoinKind::Anti))
    }

    fn joined(&self, other: &Stream, pairs: Pairs, how: &JoinHow) -> Result<Stream> {
        let columns = self.join_columns(other, &pairs, how)?;
        let schema = JoinHow::sides_schema(&pairs.left, &pairs.right)?;
        let filter = how.filter.clone().map(|f| resolve_sides(f, &schema, "join: where")).transpose()?;
        let on = pairs.on.iter().map(|(l, r)| (side(LEFT, l), side(RIGHT, r))).collect();
        let left = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(pairs.left.plan, LEFT)?);
        let right = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(pairs.right.plan, RIGHT)?);
        let join = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            filter,
            how.kind.join_type(),
            JoinConstraint::On,
            match how.nulls_equal {
                true => NullEquality::NullEqualsNull,
                false => NullEquality::NullEqualsNothing,
            },
            how.null_aware,
        )?;
        let join = match how.colocated {
            true => extension(Colocated::matches(join)?),
            false => LogicalPlan::Join(join),
        };
        let projection = Projection::try_new(columns, Arc::new(join))?;
        // A full join computes its key columns anew; they are the key all the same.
        self.then(LogicalPlan::Projection(projection))?.keyed_by(self.key())
    }

    /// The columns above the join, with plain and unique names.
    fn join_columns(&self, other: &Stream, pairs: &Pairs, how: &JoinHow) -> Result<Vec<Expr>> {
        let (kind, suffix) = (how.kind, &how.suffix);
        let shared = |name: &str| pairs.on.iter().any(|(l, r)| l == name && r == name);
        let mut columns: Vec<(String, Expr)> = Vec::new();
        for name in names(self.df_schema()) {
            let value = match kind {
                JoinKind::Full if shared(name) => coalesce(vec![side(LEFT, name), side(RIGHT, name)]),
                JoinKind::Right if shared(name) => side(RIGHT, name),
                _ => side(LEFT, name),
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
        if kind == JoinKind::Mark {
            let taken: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
            columns.push((how.mark(&taken), side(RIGHT, MARK)));
        }
        Ok(columns.into_iter().map(|(name, value)| value.alias(name)).collect())
    }
}

/// A column of one side of the join.
fn side(side: &str, name: &str) -> Expr {
    Expr::Column(Column::new(Some(side), name))
}
