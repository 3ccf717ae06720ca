//! Joins in shards (quill.txt Fig. 4).

use super::Planner;
use super::colocation::assert_matches_colocated;
use super::placement::{Key, Partitioning, Placed, Scheme};
use super::side::Side;
use datafusion::common::{Column, ExprSchema, JoinType, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use std::fmt;
use whimbrel_plan::nodes::{Movement, Scope};
use whimbrel_plan::properties;

/// How a join is computed in shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Fig. 4 (a): both sides move to the shards of their keys. A side that is there already stays.
    Redistribute,
    /// Fig. 4 (b): one side is copied to all shards, the other stays where it is.
    Broadcast,
    /// Fig. 4 (c): one side is copied to all machines; within each, both move to the shards of their keys.
    BroadcastToMachines,
    /// Both move to one shard.
    OneShard,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Strategy; 4] =
        [Strategy::Redistribute, Strategy::Broadcast, Strategy::BroadcastToMachines, Strategy::OneShard];
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Strategy::Redistribute => "redistribute both sides",
            Strategy::Broadcast => "broadcast one side",
            Strategy::BroadcastToMachines => "broadcast one side to machines, redistribute both locally",
            Strategy::OneShard => "bring both sides to one shard",
        })
    }
}

/// Whether this side may be broadcast: each row of the other side finds all of its partners in any shard.
pub(super) fn may_be_broadcast(join: &Join, side: Side) -> bool {
    use JoinType::*;
    matches!(
        (join.join_type, side),
        (Inner, _)
            | (Left | LeftSemi | LeftAnti | LeftMark, Side::Right)
            | (Right | RightSemi | RightAnti | RightMark, Side::Left)
    )
}

/// The pairs of key columns, if rows can be redistributed by them.
pub(super) fn key(join: &Join) -> Vec<(Column, Column)> {
    // Whether any row of the other side has a null is known only where all of them are.
    if join.null_aware {
        return vec![];
    }
    let columns = join.on.iter().filter_map(|(l, r)| Some((l.try_as_col()?, r.try_as_col()?)));
    let same_type = |(l, r): &(&Column, &Column)| {
        let left = join.left.schema().field_from_column(l);
        let right = join.right.schema().field_from_column(r);
        matches!((left, right), (Ok(l), Ok(r)) if l.data_type() == r.data_type())
    };
    columns.filter(same_type).map(|(l, r)| (l.clone(), r.clone())).collect()
}

impl Planner<'_> {
    /// A join: in the only shard of both sides, or by the cheapest strategy.
    ///
    /// # Errors
    /// Those of placing the inputs.
    pub(super) fn join(&self, plan: &LogicalPlan, join: &Join) -> Result<Placed> {
        let (left, right) = (self.place(&join.left)?, self.place(&join.right)?);
        if left.partitioning == Partitioning::Single && right.partitioning == Partitioning::Single {
            return self.joined(plan, left, right);
        }
        let mut ways: Vec<(Strategy, Placed)> = Vec::new();
        for strategy in Strategy::ALL {
            for way in self.ways(strategy, plan, join, &left, &right)? {
                ways.push((strategy, way));
            }
        }
        let required = self.policy.joins;
        let required = required.filter(|required| ways.iter().any(|(strategy, _)| strategy == required));
        let allowed =
            ways.into_iter().filter(|(strategy, _)| required.is_none_or(|required| *strategy == required));
        let best = allowed.map(|(_, way)| way).min_by(|a, b| a.cost.total_cmp(&b.cost));
        match best {
            Some(best) => Ok(best),
            None => self.joined(plan, self.gathered(left)?, self.gathered(right)?),
        }
    }

    /// The ways to follow a strategy.
    fn ways(
        &self,
        strategy: Strategy,
        plan: &LogicalPlan,
        join: &Join,
        left: &Placed,
        right: &Placed,
    ) -> Result<Vec<Placed>> {
        let key = key(join);
        if strategy == Strategy::Broadcast {
            return self.broadcasts(plan, join, &key, left, right);
        }
        let (left, right) = (|| left.clone(), || right.clone());
        Ok(match strategy {
            Strategy::OneShard => {
                let joined = self.joined(plan, self.gathered(left())?, self.gathered(right())?)?;
                vec![Placed { plan: assert_matches_colocated(joined.plan)?, ..joined }]
            }
            Strategy::Redistribute if !key.is_empty() => {
                vec![self.redistribute(plan, join, &key, left(), right())?]
            }
            Strategy::BroadcastToMachines if !key.is_empty() => {
                let sides =
                    [Side::Left, Side::Right].into_iter().filter(|side| may_be_broadcast(join, *side));
                let ways =
                    sides.filter_map(|side| self.to_machines(plan, &key, side, left(), right()).transpose());
                ways.collect::<Result<_>>()?
            }
            _ => vec![],
        })
    }

    /// Broadcasts of either side: of all of its rows, or of those that have a partner.
    fn broadcasts(
        &self,
        plan: &LogicalPlan,
        join: &Join,
        key: &[(Column, Column)],
        left: &Placed,
        right: &Placed,
    ) -> Result<Vec<Placed>> {
        let mut ways = Vec::new();
        for side in [Side::Left, Side::Right].into_iter().filter(|side| may_be_broadcast(join, *side)) {
            ways.extend(self.broadcast(plan, join, side, left.clone(), right.clone())?);
            let (own, other) = if side == Side::Left { (left, right) } else { (right, left) };
            let Some(reduced) = self.reduced_before_broadcast(join, key, side, own, other)? else { continue };
            let (left, right) = match side {
                Side::Left => (reduced, right.clone()),
                Side::Right => (left.clone(), reduced),
            };
            ways.extend(self.broadcast(plan, join, side, left, right)?);
        }
        Ok(ways)
    }

    /// A broadcast of one side, if the other is in many shards.
    fn broadcast(
        &self,
        plan: &LogicalPlan,
        join: &Join,
        side: Side,
        left: Placed,
        right: Placed,
    ) -> Result<Option<Placed>> {
        let copied =
            |side| self.moved(side, Movement::Broadcast, Scope::Global, self.shards, Partitioning::unknown());
        let stays = if side == Side::Left { &right } else { &left };
        if stays.partitioning == Partitioning::Single {
            return Ok(None);
        }
        let partitioning = stays.partitioning.clone();
        let full = if side == Side::Left { left.estimate.rows } else { right.estimate.rows };
        let (left, right) = match side {
            Side::Left => (copied(left)?, right),
            Side::Right => (left, copied(right)?),
        };
        let other = if side == Side::Left { right.estimate.rows } else { left.estimate.rows };
        let work = self.work(&partitioning, full, other / self.shards as f64);
        let joined = self.over(plan, vec![left, right], partitioning_of_side(join, partitioning))?;
        Ok(Some(Placed { cost: joined.cost + work, plan: assert_matches_colocated(joined.plan)?, ..joined }))
    }

    /// Both sides redistributed by their keys, unless they are so already.
    fn redistribute(
        &self,
        plan: &LogicalPlan,
        join: &Join,
        key: &[(Column, Column)],
        left: Placed,
        right: Placed,
    ) -> Result<Placed> {
        let (left, right, left_key, right_key) = match colocated_keys(key, &left, &right) {
            Some((left_key, right_key)) => (left, right, left_key, right_key),
            None => {
                let (left_key, right_key) = common_key(key, &left, &right);
                let (left, right) = self.both_by_key(left, right, &left_key, &right_key)?;
                let hashed = |columns| Key { columns, scheme: Scheme::Hash };
                (left, right, hashed(left_key), hashed(right_key))
            }
        };
        let shards = self.shards as f64;
        let partitioning = partitioning_of_both(join, left_key, right_key);
        let work = self.work(&partitioning, left.estimate.rows / shards, right.estimate.rows / shards);
        let joined = self.over(plan, vec![left, right], partitioning)?;
        Ok(Placed { cost: joined.cost + work, plan: assert_matches_colocated(joined.plan)?, ..joined })
    }

    /// Both sides partitioned by the hash of their keys.
    fn both_by_key(
        &self,
        left: Placed,
        right: Placed,
        left_key: &[Column],
        right_key: &[Column],
    ) -> Result<(Placed, Placed)> {
        let by = |side: Placed, key: &[Column]| -> Result<Placed> {
            if side
                .partitioning
                .keys()
                .iter()
                .any(|known| known.scheme == Scheme::Hash && known.columns == key)
            {
                return Ok(side);
            }
            let columns = key.iter().cloned().map(Expr::Column).collect();
            let movement = Movement::ReDistribute { key: columns };
            self.moved(side, movement, Scope::Global, self.shards, Partitioning::hash(key.to_vec()))
        };
        Ok((by(left, left_key)?, by(right, right_key)?))
    }

    /// One side broadcast to one shard of every machine, then both redistributed within the machines.
    fn to_machines(
        &self,
        plan: &LogicalPlan,
        key: &[(Column, Column)],
        side: Side,
        left: Placed,
        right: Placed,
    ) -> Result<Option<Placed>> {
        let stays = if side == Side::Left { &right } else { &left };
        let machines = properties(&stays.plan)?.groups;
        let copied = if side == Side::Left { &left } else { &right };
        // Rows come from all machines, or from the only one.
        if stays.partitioning == Partitioning::Single || properties(&copied.plan)?.groups != machines {
            return Ok(None);
        }
        let (left_key, right_key): (Vec<_>, Vec<_>) = key.iter().cloned().unzip();
        let locally = |side: Placed, key: &[Column]| {
            let columns = key.iter().cloned().map(Expr::Column).collect();
            let movement = Movement::ReDistribute { key: columns };
            self.moved(side, movement, Scope::Local, self.shards, Partitioning::unknown())
        };
        let copied =
            |side| self.moved(side, Movement::Broadcast, Scope::Global, machines, Partitioning::unknown());
        let (left, right) = match side {
            Side::Left => (locally(copied(left)?, &left_key)?, locally(right, &right_key)?),
            Side::Right => (locally(left, &left_key)?, locally(copied(right)?, &right_key)?),
        };
        let each = self.shards as f64 / machines as f64;
        let (l, r) = (left.estimate.rows, right.estimate.rows);
        let partitioning = Partitioning::unknown();
        let work = match side {
            Side::Left => self.work(&partitioning, l / each, r / self.shards as f64),
            Side::Right => self.work(&partitioning, l / self.shards as f64, r / each),
        };
        let joined = self.over(plan, vec![left, right], partitioning)?;
        Ok(Some(Placed { cost: joined.cost + work, ..joined }))
    }

    /// The join in the one shard that has both sides.
    fn joined(&self, plan: &LogicalPlan, left: Placed, right: Placed) -> Result<Placed> {
        let work = self.work(&Partitioning::Single, left.estimate.rows, right.estimate.rows);
        let joined = self.over(plan, vec![left, right], Partitioning::Single)?;
        Ok(Placed { cost: joined.cost + work, ..joined })
    }

    /// The cost of a hash join of so many rows in a shard: the smaller side is built, the larger one probed.
    pub(super) fn work(&self, partitioning: &Partitioning, one: f64, other: f64) -> f64 {
        self.costs.work(partitioning, self.costs.join(one.min(other), one.max(other)))
    }
}

/// The keys by which matching rows are in one shard already, if they are.
fn colocated_keys(key: &[(Column, Column)], left: &Placed, right: &Placed) -> Option<(Key, Key)> {
    let matches = |left: &Key, right: &Key| {
        let mut pairs = left.columns.iter().zip(&right.columns);
        left.scheme == right.scheme
            && left.columns.len() == right.columns.len()
            && pairs.all(|pair| key.iter().any(|(l, r)| pair == (l, r)))
    };
    let pairs =
        left.partitioning.keys().iter().flat_map(|l| right.partitioning.keys().iter().map(move |r| (l, r)));
    pairs.into_iter().find(|(l, r)| matches(l, r)).map(|(l, r)| (l.clone(), r.clone()))
}

/// The key in the order by which one of the sides is partitioned already, if one is.
fn common_key(key: &[(Column, Column)], left: &Placed, right: &Placed) -> (Vec<Column>, Vec<Column>) {
    let partner = |column: &Column, from_left: bool| {
        key.iter().find(|(l, r)| if from_left { l == column } else { r == column }).cloned()
    };
    for (side, from_left) in [(left, true), (right, false)] {
        for known in side.partitioning.keys().iter().filter(|known| known.scheme == Scheme::Hash) {
            let pairs: Option<Vec<_>> =
                known.columns.iter().map(|column| partner(column, from_left)).collect();
            if let Some(pairs) = pairs {
                return pairs.into_iter().unzip();
            }
        }
    }
    key.iter().cloned().unzip()
}

/// The partitioning of a join one side of which has not moved.
fn partitioning_of_side(join: &Join, partitioning: Partitioning) -> Partitioning {
    let schema = &join.schema;
    partitioning.renamed(|column| schema.has_column(column).then(|| column.clone()))
}

/// The partitioning of a join whose sides are partitioned by these keys. Rows without a partner have nulls in
/// the key of the other side, in any shard.
fn partitioning_of_both(join: &Join, left: Key, right: Key) -> Partitioning {
    use JoinType::*;
    match join.join_type {
        Inner => Partitioning::Multiple(vec![left, right]),
        Left | LeftSemi | LeftAnti | LeftMark => Partitioning::Multiple(vec![left]),
        Right | RightSemi | RightAnti | RightMark => Partitioning::Multiple(vec![right]),
        Full => Partitioning::unknown(),
    }
}
