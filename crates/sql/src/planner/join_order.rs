//! The order of inner joins, by what is expected to come out of them.
//!
//! DataFusion keeps the order in which a query names its tables. Here the relations of a group of inner joins are put
//! into the order (left-deep or bushy) in which the fewest rows are made on the way: by dynamic programming over all
//! sets of relations that conditions connect (Selinger et al. 1979; Moerkotte and Neumann 2006 for the sum of
//! intermediate results as the cost), and greedily where there are too many relations for that. What equals the same
//! is equal: `a.k = b.k and b.k = c.k` connects `a` and `c` too.
//!
//! Invariants: the columns of the result are those of the plan, in their order; of columns that equal each other, those
//! in one set of joined relations are equal in every row, so that one condition a class joins two sets.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, HashMap, JoinConstraint, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, Projection};
use std::sync::Arc;
use whimbrel_plan::estimate::{Estimate, Estimator, composite};

/// With so many relations all orders are looked at.
const ALL_ORDERS: usize = 10;

/// The plan with its inner joins in the order of least work.
pub(super) fn ordered(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_down(|plan| {
        let Some(graph) = Graph::of(&plan)? else { return Ok(Transformed::no(plan)) };
        let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
        // What is below the relations is ordered by itself.
        let relations =
            graph.relations.iter().map(|r| ordered(r.plan.clone())).collect::<Result<Vec<_>>>()?;
        let joined = graph.joined(&graph.best(), &relations)?;
        let as_before = Projection::try_new(columns, Arc::new(joined))?;
        Ok(Transformed::new(LogicalPlan::Projection(as_before), true, TreeNodeRecursion::Jump))
    })
    .data()
}

/// Relations as bits.
type Set = u64;

struct Relation {
    plan: LogicalPlan,
    estimate: Estimate,
}

/// A condition between relations.
struct Condition {
    /// The relations that it reads.
    of: Set,
    term: Term,
}

enum Term {
    /// Both sides are equal: the relations of each, and how many values it has. Conditions of one class say of any two
    /// of some columns, each of another relation, that they are equal.
    Equal { sides: [Side; 2], class: usize },
    /// Anything else.
    Other(Expr),
}

type Side = (Set, Expr, f64);

/// Relations that are all joined with each other, and on what.
struct Graph {
    relations: Vec<Relation>,
    /// Those that the query states come before those that follow from them.
    conditions: Vec<Condition>,
    stated: usize,
}

/// A way to join a set of relations.
#[derive(Debug, Clone)]
enum Tree {
    Relation(usize),
    Join(Box<Tree>, Box<Tree>),
}

/// A way, with how many rows come out and how many came out of all its joins.
#[derive(Clone)]
struct Way {
    tree: Tree,
    cost: f64,
}

/// Whether a join may change its place with others.
fn is_free(join: &Join) -> bool {
    join.join_type == JoinType::Inner
        && join.null_equality == NullEquality::NullEqualsNothing
        && !join.null_aware
}

impl Graph {
    /// The inner joins at the top of a plan, if there are at least two.
    fn of(plan: &LogicalPlan) -> Result<Option<Graph>> {
        if !is_joined(plan) {
            return Ok(None);
        }
        let (mut plans, mut conditions) = (Vec::new(), Vec::new());
        flatten(plan, &mut plans, &mut conditions)?;
        if plans.len() < 2 || plans.len() > Set::BITS as usize || has_duplicates(&plans) {
            return Ok(None);
        }
        let estimator = Estimator::default();
        let relation = |plan: LogicalPlan| Relation { estimate: estimator.estimate(&plan), plan };
        let relations = plans.into_iter().map(relation).collect();
        let mut graph = Graph { relations, conditions: vec![], stated: conditions.len() };
        for (class, (one, other)) in conditions.into_iter().enumerate() {
            let condition = graph.condition(one, other, class);
            if condition.of == 0 {
                return Ok(None);
            }
            graph.conditions.push(condition);
        }
        graph.conclude();
        Ok(Some(graph))
    }

    /// Adds the conditions that follow from those stated.
    fn conclude(&mut self) {
        for (class, members) in classes(&self.conditions).into_iter().enumerate() {
            let apart = members.iter().fold(0, |all: Set, (of, ..)| all | of).count_ones() as usize;
            // Two columns of one relation would have to be equal in it.
            if apart < members.len() {
                continue;
            }
            let class = self.stated + class;
            let mut known: Vec<Set> = vec![];
            for condition in &mut self.conditions[..self.stated] {
                if let Term::Equal { sides: [(_, l, _), (_, r, _)], class: own } = &mut condition.term
                    && [l, r].iter().all(|side| members.iter().any(|(_, member, _)| member == &**side))
                {
                    *own = class;
                    known.push(condition.of);
                }
            }
            let pairs =
                members.iter().enumerate().flat_map(|(i, l)| members[i + 1..].iter().map(move |r| (l, r)));
            for (l, r) in pairs.filter(|(l, r)| !known.contains(&(l.0 | r.0))) {
                let term = Term::Equal { sides: [l.clone(), r.clone()], class };
                self.conditions.push(Condition { of: l.0 | r.0, term });
            }
        }
    }

    fn condition(&self, one: Expr, other: Option<Expr>, class: usize) -> Condition {
        let Some(other) = other else {
            return Condition { of: self.reads(&one), term: Term::Other(one) };
        };
        let (l, r) = (self.reads(&one), self.reads(&other));
        if l & r != 0 || l == 0 || r == 0 {
            return Condition { of: l | r, term: Term::Other(one.eq(other)) };
        }
        let (dl, dr) = (self.values(&one), self.values(&other));
        Condition { of: l | r, term: Term::Equal { sides: [(l, one, dl), (r, other, dr)], class } }
    }

    /// The relations whose columns an expression reads.
    fn reads(&self, expr: &Expr) -> Set {
        let columns = expr.column_refs();
        let of = |column: &&Column| {
            self.relations.iter().position(|relation| relation.plan.schema().has_column(column))
        };
        columns.iter().filter_map(of).fold(0, |set, relation| set | 1 << relation)
    }

    /// How many values an expression has.
    fn values(&self, expr: &Expr) -> f64 {
        let of = |column: &Column| {
            self.relations.iter().find_map(|relation| {
                let place = relation.plan.schema().maybe_index_of_column(column)?;
                Some(relation.estimate.columns[place].distinct)
            })
        };
        expr.column_refs().into_iter().filter_map(of).product::<f64>().max(1.0)
    }

    /// How many rows a set of relations gives, joined: the same for every order.
    fn rows(&self, set: Set) -> f64 {
        let members = (0..self.relations.len()).filter(|i| set & 1 << i != 0);
        let mut rows: f64 = members.map(|i| self.relations[i].estimate.rows.max(1.0)).product();
        let mut pairs: HashMap<(Set, Set), Vec<(f64, f64)>> = HashMap::new();
        let mut equal = vec![];
        for condition in self.conditions.iter().filter(|c| c.of & !set == 0) {
            match &condition.term {
                Term::Equal { class, .. } if !connect(&mut equal, *class, condition.of) => {}
                Term::Equal { sides: [(l, _, dl), (r, _, dr)], .. } => {
                    let (pair, values) = if l < r { ((*l, *r), (*dl, *dr)) } else { ((*r, *l), (*dr, *dl)) };
                    pairs.entry(pair).or_default().push(values);
                }
                Term::Other(_) if condition.of.count_ones() > 1 => rows /= 3.0,
                Term::Other(_) => {}
            }
        }
        let of = |set: Set| -> f64 {
            let members = (0..self.relations.len()).filter(|i| set & 1 << i != 0);
            members.map(|i| self.relations[i].estimate.rows.max(1.0)).product()
        };
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by_key(|(sets, _)| *sets);
        for ((l, r), values) in pairs {
            rows /= composite(&values, of(l), of(r));
        }
        rows.max(1.0)
    }

    /// Whether a condition needs both sets and nothing else.
    fn connected(&self, one: Set, other: Set) -> bool {
        self.conditions.iter().any(|c| c.of & one != 0 && c.of & other != 0 && c.of & !(one | other) == 0)
    }

    fn best(&self) -> Tree {
        match self.relations.len() <= ALL_ORDERS {
            true => self.best_of_all(),
            false => self.greedy(),
        }
    }

    /// The cost of a join: what it makes, what it keeps, and what it looks up.
    fn cost(&self, one: (Set, &Way), other: (Set, &Way)) -> f64 {
        let (left, right) = (self.rows(one.0), self.rows(other.0));
        let made = self.rows(one.0 | other.0);
        one.1.cost + other.1.cost + made + 2.0 * left.min(right) + 0.3 * left.max(right)
    }

    fn best_of_all(&self) -> Tree {
        let all: Set = (1 << self.relations.len()) - 1;
        let rows: Vec<f64> = (0..=all).map(|set| if set == 0 { 0.0 } else { self.rows(set) }).collect();
        let mut ways: Vec<Option<Way>> = vec![None; rows.len()];
        for i in 0..self.relations.len() {
            ways[1 << i] = Some(Way { tree: Tree::Relation(i), cost: 0.0 });
        }
        for set in 1..=all {
            if set.count_ones() < 2 {
                continue;
            }
            // Sets that no condition connects are joined only where nothing else is left.
            let way = self.best_split(set, &ways, &rows, true);
            ways[set as usize] = way.or_else(|| self.best_split(set, &ways, &rows, false));
        }
        ways.swap_remove(all as usize).map_or_else(|| self.greedy(), |way| way.tree)
    }

    fn best_split(&self, set: Set, ways: &[Option<Way>], rows: &[f64], connected: bool) -> Option<Way> {
        let mut best: Option<Way> = None;
        let mut one = (set - 1) & set;
        while one > 0 {
            let other = set & !one;
            if one < other
                && let (Some(left), Some(right)) = (&ways[one as usize], &ways[other as usize])
                && (!connected || self.connected(one, other))
            {
                let (l, r) = (rows[one as usize], rows[other as usize]);
                let cost = left.cost + right.cost + rows[set as usize] + 2.0 * l.min(r) + 0.3 * l.max(r);
                if best.as_ref().is_none_or(|best| cost < best.cost) {
                    let tree = Tree::Join(Box::new(left.tree.clone()), Box::new(right.tree.clone()));
                    best = Some(Way { tree, cost });
                }
            }
            one = (one - 1) & set;
        }
        best
    }

    /// Again and again the two sets are joined that give the least.
    fn greedy(&self) -> Tree {
        let relation = |i: usize| (1 << i as Set, Way { tree: Tree::Relation(i), cost: 0.0 });
        let mut sets: Vec<(Set, Way)> = (0..self.relations.len()).map(relation).collect();
        while sets.len() > 1 {
            let mut best: Option<(bool, f64, usize, usize)> = None;
            for i in 0..sets.len() {
                for j in i + 1..sets.len() {
                    let apart = !self.connected(sets[i].0, sets[j].0);
                    let cost = self.cost((sets[i].0, &sets[i].1), (sets[j].0, &sets[j].1));
                    if best.is_none_or(|(a, c, ..)| (apart, cost) < (a, c)) {
                        best = Some((apart, cost, i, j));
                    }
                }
            }
            let Some((_, cost, i, j)) = best else { break };
            let (other, right) = sets.swap_remove(j);
            let (one, left) = sets.swap_remove(i);
            let tree = Tree::Join(Box::new(left.tree), Box::new(right.tree));
            sets.push((one | other, Way { tree, cost }));
        }
        sets.swap_remove(0).1.tree
    }

    fn joined(&self, tree: &Tree, relations: &[LogicalPlan]) -> Result<LogicalPlan> {
        let mut used = vec![false; self.conditions.len()];
        let (plan, _) = self.build(tree, relations, &mut used)?;
        Ok(plan)
    }

    fn build(&self, tree: &Tree, relations: &[LogicalPlan], used: &mut [bool]) -> Result<(LogicalPlan, Set)> {
        let (left, right) = match tree {
            Tree::Relation(i) => return self.alone(*i, relations[*i].clone(), used),
            Tree::Join(left, right) => (left, right),
        };
        let (left, one) = self.build(left, relations, used)?;
        let (right, other) = self.build(right, relations, used)?;
        let (mut on, mut filters, mut settled) = (Vec::new(), Vec::new(), Vec::new());
        for at in self.by_preference(one | other) {
            if std::mem::replace(&mut used[at], true) {
                continue;
            }
            match &self.conditions[at].term {
                Term::Equal { class, .. } if settled.contains(class) => {}
                Term::Equal { sides: [(l, a, _), (r, b, _)], class } => {
                    settled.push(*class);
                    match (l & !one, r & !other, l & !other, r & !one) {
                        (0, 0, ..) => on.push((a.clone(), b.clone())),
                        (.., 0, 0) => on.push((b.clone(), a.clone())),
                        _ => filters.push(a.clone().eq(b.clone())),
                    }
                }
                Term::Other(term) => filters.push(term.clone()),
            }
        }
        let join = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            conjunction(filters),
            JoinType::Inner,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        Ok((LogicalPlan::Join(join), one | other))
    }

    /// The conditions about a set: first those that the query states, and of these first the ones between relations that it
    /// states most of, so that what is known of several columns together is used.
    fn by_preference(&self, set: Set) -> Vec<usize> {
        let between = |of: Set| self.conditions[..self.stated].iter().filter(|c| c.of == of).count();
        let mut about: Vec<usize> =
            (0..self.conditions.len()).filter(|&at| self.conditions[at].of & !set == 0).collect();
        about.sort_by_key(|&at| (at >= self.stated, std::cmp::Reverse(between(self.conditions[at].of))));
        about
    }

    /// A relation with the conditions that are about it alone.
    fn alone(&self, i: usize, plan: LogicalPlan, used: &mut [bool]) -> Result<(LogicalPlan, Set)> {
        let set = 1 << i;
        let mut own = Vec::new();
        for (condition, used) in self.conditions.iter().zip(used.iter_mut()) {
            if let Term::Other(term) = &condition.term
                && condition.of == set
            {
                *used = true;
                own.push(term.clone());
            }
        }
        match conjunction(own) {
            Some(predicate) => Ok((LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?), set)),
            None => Ok((plan, set)),
        }
    }
}

/// Columns, each of one relation, that conditions say are equal, directly or by way of others.
fn classes(conditions: &[Condition]) -> Vec<Vec<Side>> {
    let mut classes: Vec<Vec<Side>> = vec![];
    for condition in conditions {
        let Term::Equal { sides, .. } = &condition.term else { continue };
        if sides.iter().any(|(of, ..)| of.count_ones() > 1) {
            continue;
        }
        let has = |class: &Vec<Side>| sides.iter().any(|side| class.iter().any(|known| known.1 == side.1));
        let mut members: Vec<Side> = classes.extract_if(.., |class| has(class)).flatten().collect();
        for side in sides {
            if members.iter().all(|known| known.1 != side.1) {
                members.push(side.clone());
            }
        }
        classes.push(members);
    }
    classes
}

/// Notes that a condition of this class joins these relations; false if others have joined them already.
fn connect(equal: &mut Vec<(usize, Set)>, class: usize, of: Set) -> bool {
    if equal.iter().any(|(known, set)| *known == class && of & !set == 0) {
        return false;
    }
    let joined = equal.extract_if(.., |(known, set)| *known == class && *set & of != 0);
    let all = joined.fold(of, |all, (_, set)| all | set);
    equal.push((class, all));
    true
}

/// Whether two relations have a column of the same full name: its conditions would not say whose they are.
fn has_duplicates(plans: &[LogicalPlan]) -> bool {
    let mut seen = std::collections::HashSet::new();
    plans.iter().flat_map(|plan| plan.schema().columns()).any(|column| {
        // A bare name is found in any relation that has a column called so.
        let bare = Column::from_name(&column.name);
        let unclear = column.relation.is_none()
            && plans.iter().filter(|plan| plan.schema().has_column_with_unqualified_name(&bare.name)).count()
                > 1;
        unclear || !seen.insert(column)
    })
}

/// Whether inner joins are at the top of a plan, or right below what only takes rows away.
fn is_joined(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) if is_free(join) => true,
        LogicalPlan::Join(join) if is_sieve(join) => is_joined(&join.left),
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(|e| e.try_as_col().is_some()) && is_joined(&projection.input)
        }
        _ => false,
    }
}

/// Whether a join does nothing but take rows of its left side away, by columns of these rows.
fn is_sieve(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.filter.is_none()
        && join.null_equality == NullEquality::NullEqualsNothing
        && !join.null_aware
        && !join.on.is_empty()
}

/// The relations below inner joins, and their conditions: pairs that are equal, and others. What takes rows away by
/// columns of one relation takes them of that one.
fn flatten(
    plan: &LogicalPlan,
    relations: &mut Vec<LogicalPlan>,
    conditions: &mut Vec<(Expr, Option<Expr>)>,
) -> Result<()> {
    match plan {
        LogicalPlan::Join(join) if is_free(join) => {
            flatten(&join.left, relations, conditions)?;
            flatten(&join.right, relations, conditions)?;
            conditions.extend(join.on.iter().map(|(l, r)| (l.clone(), Some(r.clone()))));
            let filter = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
            conditions.extend(filter.into_iter().map(|term| (term, None)));
        }
        LogicalPlan::Join(join) if is_sieve(join) && is_joined(&join.left) => {
            let (mut below, mut on) = (Vec::new(), Vec::new());
            flatten(&join.left, &mut below, &mut on)?;
            let has_all = |relation: &LogicalPlan| {
                let mut columns = join.on.iter().flat_map(|(own, _)| own.column_refs());
                columns.all(|column| relation.schema().has_column(column))
            };
            match below.iter_mut().find(|relation| has_all(relation)) {
                Some(relation) => {
                    let rows = std::mem::take(relation);
                    *relation =
                        plan.with_new_exprs(plan.expressions(), vec![rows, join.right.as_ref().clone()])?;
                    relations.append(&mut below);
                    conditions.append(&mut on);
                }
                None => relations.push(plan.clone()),
            }
        }
        // Columns that are dropped on the way are dropped at the end.
        LogicalPlan::Projection(projection) if is_joined(plan) => {
            flatten(&projection.input, relations, conditions)?;
        }
        other => relations.push(other.clone()),
    }
    Ok(())
}
