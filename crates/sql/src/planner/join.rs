//! Joins in shards (quill.txt Fig. 4).

use super::Planner;
use super::placed::{Cut, Key, Placed, Spread};
use super::together::matching;
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

/// One of the two inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// Whether each row of the other side may be anywhere, as long as all rows of this side are there too.
fn may_be_copied(join: &Join, side: Side) -> bool {
    use JoinType::*;
    matches!(
        (join.join_type, side),
        (Inner, _)
            | (Left | LeftSemi | LeftAnti | LeftMark, Side::Right)
            | (Right | RightSemi | RightAnti | RightMark, Side::Left)
    )
}

/// The pairs of columns that rows of both sides agree in, if they can be moved by them.
fn key(join: &Join) -> Vec<(Column, Column)> {
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
    pub(super) fn join(&self, plan: &LogicalPlan, join: &Join) -> Result<Placed> {
        let (left, right) = (self.place(&join.left)?, self.place(&join.right)?);
        if left.spread == Spread::One && right.spread == Spread::One {
            return self.joined(plan, left, right);
        }
        let mut ways: Vec<(Strategy, Placed)> = Vec::new();
        for strategy in Strategy::ALL {
            for way in self.ways(strategy, plan, join, &left, &right)? {
                ways.push((strategy, way));
            }
        }
        let told = self.policy.joins.filter(|told| ways.iter().any(|(strategy, _)| strategy == told));
        let allowed = ways.into_iter().filter(|(strategy, _)| told.is_none_or(|told| *strategy == told));
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
                vec![Placed { plan: matching(joined.plan)?, ..joined }]
            }
            Strategy::Redistribute if !key.is_empty() => {
                vec![self.redistribute(plan, join, &key, left(), right())?]
            }
            Strategy::BroadcastToMachines if !key.is_empty() => {
                let sides = [Side::Left, Side::Right].into_iter().filter(|side| may_be_copied(join, *side));
                let ways =
                    sides.filter_map(|side| self.to_machines(plan, &key, side, left(), right()).transpose());
                ways.collect::<Result<_>>()?
            }
            _ => vec![],
        })
    }

    /// The rows of either side to all shards: all of them, or those that have a partner.
    fn broadcasts(
        &self,
        plan: &LogicalPlan,
        join: &Join,
        key: &[(Column, Column)],
        left: &Placed,
        right: &Placed,
    ) -> Result<Vec<Placed>> {
        let mut ways = Vec::new();
        for side in [Side::Left, Side::Right].into_iter().filter(|side| may_be_copied(join, *side)) {
            ways.extend(self.broadcast(plan, join, side, left.clone(), right.clone())?);
            let (own, other) = if side == Side::Left { (left, right) } else { (right, left) };
            let Some(few) = self.with_partners(join, key, side, own, other)? else { continue };
            let (left, right) = match side {
                Side::Left => (few, right.clone()),
                Side::Right => (left.clone(), few),
            };
            ways.extend(self.broadcast(plan, join, side, left, right)?);
        }
        Ok(ways)
    }

    /// The rows of one side to all shards; the other has to be in many.
    fn broadcast(
        &self,
        plan: &LogicalPlan,
        join: &Join,
        side: Side,
        left: Placed,
        right: Placed,
    ) -> Result<Option<Placed>> {
        let copied =
            |side| self.moved(side, Movement::Broadcast, Scope::Global, self.shards, Spread::anyhow());
        let stays = if side == Side::Left { &right } else { &left };
        if stays.spread == Spread::One {
            return Ok(None);
        }
        let spread = stays.spread.clone();
        let full = if side == Side::Left { left.estimate.rows } else { right.estimate.rows };
        let (left, right) = match side {
            Side::Left => (copied(left)?, right),
            Side::Right => (left, copied(right)?),
        };
        let other = if side == Side::Left { right.estimate.rows } else { left.estimate.rows };
        let work = self.work(&spread, full, other / self.shards as f64);
        let joined = self.over(plan, vec![left, right], kept(join, spread))?;
        Ok(Some(Placed { cost: joined.cost + work, plan: matching(joined.plan)?, ..joined }))
    }

    /// Rows of both sides to the shards of their keys.
    fn redistribute(
        &self,
        plan: &LogicalPlan,
        join: &Join,
        key: &[(Column, Column)],
        left: Placed,
        right: Placed,
    ) -> Result<Placed> {
        let (left, right, left_key, right_key) = match lying_together(key, &left, &right) {
            Some((left_key, right_key)) => (left, right, left_key, right_key),
            None => {
                let (left_key, right_key) = common_key(key, &left, &right);
                let (left, right) = self.both(left, right, &left_key, &right_key)?;
                let hashed = |columns| Key { columns, cut: Cut::Hash };
                (left, right, hashed(left_key), hashed(right_key))
            }
        };
        let shards = self.shards as f64;
        let spread = both_keys(join, left_key, right_key);
        let work = self.work(&spread, left.estimate.rows / shards, right.estimate.rows / shards);
        let joined = self.over(plan, vec![left, right], spread)?;
        Ok(Placed { cost: joined.cost + work, plan: matching(joined.plan)?, ..joined })
    }

    fn both(
        &self,
        left: Placed,
        right: Placed,
        left_key: &[Column],
        right_key: &[Column],
    ) -> Result<(Placed, Placed)> {
        let by = |side: Placed, key: &[Column]| -> Result<Placed> {
            if side.spread.keys().iter().any(|known| known.cut == Cut::Hash && known.columns == key) {
                return Ok(side);
            }
            let columns = key.iter().cloned().map(Expr::Column).collect();
            let movement = Movement::ReDistribute { key: columns };
            self.moved(side, movement, Scope::Global, self.shards, Spread::by(key.to_vec()))
        };
        Ok((by(left, left_key)?, by(right, right_key)?))
    }

    /// The rows of one side to one shard of every machine, then those of both within the machines.
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
        if stays.spread == Spread::One || properties(&copied.plan)?.groups != machines {
            return Ok(None);
        }
        let (left_key, right_key): (Vec<_>, Vec<_>) = key.iter().cloned().unzip();
        let locally = |side: Placed, key: &[Column]| {
            let columns = key.iter().cloned().map(Expr::Column).collect();
            let movement = Movement::ReDistribute { key: columns };
            self.moved(side, movement, Scope::Local, self.shards, Spread::anyhow())
        };
        let copied = |side| self.moved(side, Movement::Broadcast, Scope::Global, machines, Spread::anyhow());
        let (left, right) = match side {
            Side::Left => (locally(copied(left)?, &left_key)?, locally(right, &right_key)?),
            Side::Right => (locally(left, &left_key)?, locally(copied(right)?, &right_key)?),
        };
        let each = self.shards as f64 / machines as f64;
        let (l, r) = (left.estimate.rows, right.estimate.rows);
        let spread = Spread::anyhow();
        let work = match side {
            Side::Left => self.work(&spread, l / each, r / self.shards as f64),
            Side::Right => self.work(&spread, l / self.shards as f64, r / each),
        };
        let joined = self.over(plan, vec![left, right], spread)?;
        Ok(Some(Placed { cost: joined.cost + work, ..joined }))
    }

    /// In the one shard that has the rows of both sides.
    fn joined(&self, plan: &LogicalPlan, left: Placed, right: Placed) -> Result<Placed> {
        let work = self.work(&Spread::One, left.estimate.rows, right.estimate.rows);
        let joined = self.over(plan, vec![left, right], Spread::One)?;
        Ok(Placed { cost: joined.cost + work, ..joined })
    }

    /// So many rows in a shard: the smaller side is built, the larger one looked up.
    pub(super) fn work(&self, spread: &Spread, one: f64, other: f64) -> f64 {
        self.costs.work(spread, self.costs.join(one.min(other), one.max(other)))
    }
}

/// The keys by which rows that match are in one shard already, if they are.
fn lying_together(key: &[(Column, Column)], left: &Placed, right: &Placed) -> Option<(Key, Key)> {
    let matches = |left: &Key, right: &Key| {
        let mut pairs = left.columns.iter().zip(&right.columns);
        left.cut == right.cut
            && left.columns.len() == right.columns.len()
            && pairs.all(|pair| key.iter().any(|(l, r)| pair == (l, r)))
    };
    let pairs = left.spread.keys().iter().flat_map(|l| right.spread.keys().iter().map(move |r| (l, r)));
    pairs.into_iter().find(|(l, r)| matches(l, r)).map(|(l, r)| (l.clone(), r.clone()))
}

/// The key in the order in which one of the sides is spread by it already, if one is.
fn common_key(key: &[(Column, Column)], left: &Placed, right: &Placed) -> (Vec<Column>, Vec<Column>) {
    let partner = |column: &Column, from_left: bool| {
        key.iter().find(|(l, r)| if from_left { l == column } else { r == column }).cloned()
    };
    for (side, from_left) in [(left, true), (right, false)] {
        for known in side.spread.keys().iter().filter(|known| known.cut == Cut::Hash) {
            let pairs: Option<Vec<_>> =
                known.columns.iter().map(|column| partner(column, from_left)).collect();
            if let Some(pairs) = pairs {
                return pairs.into_iter().unzip();
            }
        }
    }
    key.iter().cloned().unzip()
}

/// By what the rows of a join are spread whose one side stayed where it was.
fn kept(join: &Join, spread: Spread) -> Spread {
    let schema = &join.schema;
    spread.renamed(|column| schema.has_column(column).then(|| column.clone()))
}

/// By what the rows of a join are spread whose both sides are spread by these. Rows without a partner have nulls in
/// the columns of the other side, wherever they are.
fn both_keys(join: &Join, left: Key, right: Key) -> Spread {
    use JoinType::*;
    match join.join_type {
        Inner => Spread::Many(vec![left, right]),
        Left | LeftSemi | LeftAnti | LeftMark => Spread::Many(vec![left]),
        Right | RightSemi | RightAnti | RightMark => Spread::Many(vec![right]),
        Full => Spread::anyhow(),
    }
}
