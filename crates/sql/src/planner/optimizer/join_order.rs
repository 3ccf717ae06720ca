//! The order of inner joins, by their estimated sizes.
//!
//! DataFusion keeps the order in which a query names its tables. Here the relations of a group of inner joins
//! are put into the order (left-deep or bushy) with the smallest intermediate results: by dynamic programming
//! over all connected sets of relations (Selinger et al. 1979; Moerkotte and Neumann 2006), and greedily
//! where there are too many relations for that. Equality is transitive: `a.k = b.k and b.k = c.k` connects
//! `a` and `c` too.
//!
//! Invariants: the columns of the result are those of the plan, in their order; the columns of an equivalence
//! class that are in one set of joined relations are equal in every row, so that one condition of a class
//! joins two sets.

use crate::tree::transform_down;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, HashMap, JoinConstraint, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, Projection};
use std::sync::Arc;
use whimbrel_plan::estimate::{Estimate, Estimator, composite};

/// Up to so many relations all orders are compared.
const EXHAUSTIVE: usize = 10;

/// Puts inner joins into the cheapest order.
///
/// # Errors
/// `Plan` if a join cannot be built in the new order.
pub(super) fn reorder_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_down(plan, &mut |plan| {
        let Some(graph) = Graph::of(&plan)? else { return Ok(Transformed::no(plan)) };
        let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
        // Joins below the relations are ordered by themselves.
        let relations =
            graph.relations.iter().map(|r| reorder_joins(r.plan.clone())).collect::<Result<Vec<_>>>()?;
        let joined = graph.plan(&graph.best_order(), &relations)?;
        let same_columns = Projection::try_new(columns, Arc::new(joined))?;
        Ok(Transformed::new(LogicalPlan::Projection(same_columns), true, TreeNodeRecursion::Jump))
    })
    .data()
}

/// Relations as bits.
type Set = u64;

/// A relation of the join graph.
struct Relation {
    /// Its plan.
    plan: LogicalPlan,
    /// Its estimated size.
    estimate: Estimate,
}

/// A condition between relations.
struct Condition {
    /// The relations that it reads.
    of: Set,
    /// Its expression.
    term: Term,
}

/// The expression of a condition.
enum Term {
    /// Two sides are equal: the relations of each, its expression, and its number of distinct values.
    /// Conditions of one equivalence class make any two of some columns equal, each of another relation.
    Equal { sides: [Side; 2], class: usize },
    /// Anything else.
    Other(Expr),
}

/// One side of an equality: its relations, its expression, and its number of distinct values.
type Side = (Set, Expr, f64);

/// The join graph: relations that are inner-joined, and the conditions between them.
struct Graph {
    /// The relations; a set has a bit for each.
    relations: Vec<Relation>,
    /// Stated conditions come before implied ones.
    conditions: Vec<Condition>,
    /// How many conditions are stated.
    stated: usize,
}

/// An order of joins.
#[derive(Debug, Clone)]
enum Tree {
    /// A relation, by its number.
    Relation(usize),
    /// The join of two trees.
    Join(Box<Tree>, Box<Tree>),
}

/// An order of joins with its cost.
#[derive(Clone)]
struct Candidate {
    /// The order.
    tree: Tree,
    /// Its cost.
    cost: f64,
}

/// Whether a join may be reordered.
fn is_reorderable(join: &Join) -> bool {
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
        graph.add_implied_conditions();
        Ok(Some(graph))
    }

    /// Adds the conditions that the stated ones imply.
    fn add_implied_conditions(&mut self) {
        for (class, members) in equivalence_classes(&self.conditions).into_iter().enumerate() {
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

    /// A condition by the relations that it reads.
    fn condition(&self, one: Expr, other: Option<Expr>, class: usize) -> Condition {
        let Some(other) = other else {
            return Condition { of: self.reads(&one), term: Term::Other(one) };
        };
        let (l, r) = (self.reads(&one), self.reads(&other));
        if l & r != 0 || l == 0 || r == 0 {
            return Condition { of: l | r, term: Term::Other(one.eq(other)) };
        }
        let (dl, dr) = (self.distinct(&one), self.distinct(&other));
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

    /// How many distinct values an expression has.
    fn distinct(&self, expr: &Expr) -> f64 {
        let of = |column: &Column| {
            self.relations.iter().find_map(|relation| {
                let place = relation.plan.schema().maybe_index_of_column(column)?;
                Some(relation.estimate.columns[place].distinct)
            })
        };
        expr.column_refs().into_iter().filter_map(of).product::<f64>().max(1.0)
    }

    /// How many rows the join of a set of relations has, in any order.
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

    /// Whether a condition connects two sets.
    fn connected(&self, one: Set, other: Set) -> bool {
        self.conditions.iter().any(|c| c.of & one != 0 && c.of & other != 0 && c.of & !(one | other) == 0)
    }

    /// The cheapest order of joins.
    fn best_order(&self) -> Tree {
        match self.relations.len() <= EXHAUSTIVE {
            true => self.exhaustive(),
            false => self.greedy(),
        }
    }

    /// The cost of a join: of its output, of building the smaller side and probing with the larger one.
    fn cost(&self, one: (Set, &Candidate), other: (Set, &Candidate)) -> f64 {
        let (left, right) = (self.rows(one.0), self.rows(other.0));
        let made = self.rows(one.0 | other.0);
        one.1.cost + other.1.cost + made + 2.0 * left.min(right) + 0.3 * left.max(right)
    }

    /// The cheapest order of all, by dynamic programming.
    fn exhaustive(&self) -> Tree {
        let all: Set = (1 << self.relations.len()) - 1;
        let rows: Vec<f64> = (0..=all).map(|set| if set == 0 { 0.0 } else { self.rows(set) }).collect();
        let mut candidates: Vec<Option<Candidate>> = vec![None; rows.len()];
        for i in 0..self.relations.len() {
            candidates[1 << i] = Some(Candidate { tree: Tree::Relation(i), cost: 0.0 });
        }
        for set in 1..=all {
            if set.count_ones() < 2 {
                continue;
            }
            // Cross products are a last resort.
            let way = self.best_split(set, &candidates, &rows, true);
            candidates[set as usize] = way.or_else(|| self.best_split(set, &candidates, &rows, false));
        }
        candidates.swap_remove(all as usize).map_or_else(|| self.greedy(), |way| way.tree)
    }

    /// The cheapest join of two disjoint subsets that make up a set.
    fn best_split(
        &self,
        set: Set,
        candidates: &[Option<Candidate>],
        rows: &[f64],
        connected: bool,
    ) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        let mut one = (set - 1) & set;
        while one > 0 {
            let other = set & !one;
            if one < other
                && let (Some(left), Some(right)) = (&candidates[one as usize], &candidates[other as usize])
                && (!connected || self.connected(one, other))
            {
                let (l, r) = (rows[one as usize], rows[other as usize]);
                let cost = left.cost + right.cost + rows[set as usize] + 2.0 * l.min(r) + 0.3 * l.max(r);
                if best.as_ref().is_none_or(|best| cost < best.cost) {
                    let tree = Tree::Join(Box::new(left.tree.clone()), Box::new(right.tree.clone()));
                    best = Some(Candidate { tree, cost });
                }
            }
            one = (one - 1) & set;
        }
        best
    }

    /// Repeatedly joins the two sets with the least cost.
    fn greedy(&self) -> Tree {
        let relation = |i: usize| (1 << i as Set, Candidate { tree: Tree::Relation(i), cost: 0.0 });
        let mut sets: Vec<(Set, Candidate)> = (0..self.relations.len()).map(relation).collect();
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
            sets.push((one | other, Candidate { tree, cost }));
        }
        sets.swap_remove(0).1.tree
    }

    /// The plan of an order of joins.
    fn plan(&self, tree: &Tree, relations: &[LogicalPlan]) -> Result<LogicalPlan> {
        let mut used = vec![false; self.conditions.len()];
        let (plan, _) = self.build(tree, relations, &mut used)?;
        Ok(plan)
    }

    /// The plan of a subtree, and the set of its relations. Each condition is used once, as low as possible.
    fn build(&self, tree: &Tree, relations: &[LogicalPlan], used: &mut [bool]) -> Result<(LogicalPlan, Set)> {
        let (left, right) = match tree {
            Tree::Relation(i) => return self.filtered_relation(*i, relations[*i].clone(), used),
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

    /// The conditions within a set: stated ones first, and of these the ones between pairs of relations with
    /// most conditions, so that what is known of several columns together is used.
    fn by_preference(&self, set: Set) -> Vec<usize> {
        let between = |of: Set| self.conditions[..self.stated].iter().filter(|c| c.of == of).count();
        let mut about: Vec<usize> =
            (0..self.conditions.len()).filter(|&at| self.conditions[at].of & !set == 0).collect();
        about.sort_by_key(|&at| (at >= self.stated, std::cmp::Reverse(between(self.conditions[at].of))));
        about
    }

    /// A relation with the conditions that read only its columns.
    fn filtered_relation(
        &self,
        i: usize,
        plan: LogicalPlan,
        used: &mut [bool],
    ) -> Result<(LogicalPlan, Set)> {
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

/// The classes of columns, each of one relation, that the conditions make equal.
fn equivalence_classes(conditions: &[Condition]) -> Vec<Vec<Side>> {
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

/// Connects relations by a condition of a class. Returns false if they are connected already.
fn connect(equal: &mut Vec<(usize, Set)>, class: usize, of: Set) -> bool {
    if equal.iter().any(|(known, set)| *known == class && of & !set == 0) {
        return false;
    }
    let joined = equal.extract_if(.., |(known, set)| *known == class && *set & of != 0);
    let all = joined.fold(of, |all, (_, set)| all | set);
    equal.push((class, all));
    true
}

/// Whether two relations have a column with the same qualified name, so that conditions would be ambiguous.
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

/// Whether inner joins are at the top of a plan, or right below operators that only drop rows or columns.
fn is_joined(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) if is_reorderable(join) => true,
        LogicalPlan::Join(join) if is_semi_join(join) => is_joined(&join.left),
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(|e| e.try_as_col().is_some()) && is_joined(&projection.input)
        }
        _ => false,
    }
}

/// Whether a join only drops rows of its left side, by columns of these rows.
fn is_semi_join(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.filter.is_none()
        && join.null_equality == NullEquality::NullEqualsNothing
        && !join.null_aware
        && !join.on.is_empty()
}

/// The relations below inner joins, and their conditions: pairs that are equal, and others. A semi join by
/// columns of one relation becomes part of that relation.
fn flatten(
    plan: &LogicalPlan,
    relations: &mut Vec<LogicalPlan>,
    conditions: &mut Vec<(Expr, Option<Expr>)>,
) -> Result<()> {
    match plan {
        LogicalPlan::Join(join) if is_reorderable(join) => {
            flatten(&join.left, relations, conditions)?;
            flatten(&join.right, relations, conditions)?;
            conditions.extend(join.on.iter().map(|(l, r)| (l.clone(), Some(r.clone()))));
            let filter = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
            conditions.extend(filter.into_iter().map(|term| (term, None)));
        }
        LogicalPlan::Join(join) if is_semi_join(join) && is_joined(&join.left) => {
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
        // Columns that are dropped here are dropped at the end.
        LogicalPlan::Projection(projection) if is_joined(plan) => {
            flatten(&projection.input, relations, conditions)?;
        }
        other => relations.push(other.clone()),
    }
    Ok(())
}
