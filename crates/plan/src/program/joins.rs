//! Joins of any plan, in terms of the builder.
//!
//! A right join becomes a left join with its sides exchanged. The condition of an inner join becomes a filter
//! of its pairs. The near side is the left one in the program, the far side the right one.

use super::arguments::arguments;
use super::document::Doc;
use super::join_steps::{LEFT, RIGHT};
use super::python_expressions::rewrite_for_python;
use super::reader::{Reader, Required, Scope, aliased, position, unique_name};
use super::rows::positions;
use super::steps::StepKind;
use crate::names::{column, column_name, names};
use crate::resolve::common_type;
use crate::stream::{JoinHow, JoinKind};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result, plan_err};
use datafusion::logical_expr::{Expr, ExprSchemable, Join, LogicalPlan, lit};
use std::collections::BTreeSet;

impl Reader {
    /// The step of a join node.
    pub fn join(&mut self, join: &Join, colocated: bool, required: &Required) -> Result<Scope> {
        use JoinType::{
            Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi,
        };
        let (kind, swapped) = match join.join_type {
            Inner => (JoinKind::Inner, false),
            Left => (JoinKind::Left, false),
            Right => (JoinKind::Left, true),
            Full => (JoinKind::Full, false),
            LeftSemi => (JoinKind::Semi, false),
            RightSemi => (JoinKind::Semi, true),
            LeftAnti => (JoinKind::Anti, false),
            RightAnti => (JoinKind::Anti, true),
            LeftMark => (JoinKind::Mark, false),
            RightMark => (JoinKind::Mark, true),
        };
        let used = required_columns(join, required)?;
        let (left, right) = ((&*join.left, used.0), (&*join.right, used.1));
        let ((near, near_used), (far, far_used)) = if swapped { (right, left) } else { (left, right) };
        let near_scope =
            self.read(near, &Required { used: Some(near_used.clone()), ..Required::default() })?;
        let far_scope = self.read(far, &Required { used: Some(far_used.clone()), ..Required::default() })?;
        let sides = Sides { near: (near, near_scope, near_used), far: (far, far_scope, far_used), swapped };
        self.join_how(join, colocated, kind, sides)
    }

    fn join_how(
        &mut self,
        join: &Join,
        colocated: bool,
        kind: JoinKind,
        mut sides: Sides<'_>,
    ) -> Result<Scope> {
        let mut on = Vec::new();
        for (l, r) in &join.on {
            let (near, far) = if sides.swapped { (r, l) } else { (l, r) };
            let near = self.rewrite_expr(near, sides.near.0.schema(), &sides.near.1)?;
            let far = self.rewrite_expr(far, sides.far.0.schema(), &sides.far.1)?;
            on.push(self.without_coercion(near, far, &sides));
        }
        self.rename_shared_columns(kind, &mut on, &mut sides)?;
        self.name_computed(&mut on, &sides);
        let filter = match &join.filter {
            Some(filter) => Some(self.over_sides(filter, join, &sides)?),
            None => None,
        };
        let inner = kind == JoinKind::Inner;
        let how = JoinHow {
            suffix: self.suffix(kind, &on, &sides),
            filter: match &filter {
                // An outer join without a condition matches all rows.
                None if on.is_empty() && matches!(kind, JoinKind::Left | JoinKind::Full) => Some(lit(true)),
                filter => filter.clone().filter(|_| !inner),
            },
            nulls_equal: join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty(),
            null_aware: join.null_aware,
            colocated,
            ..JoinHow::of(if inner && on.is_empty() { JoinKind::Cross } else { kind })
        };
        let (near, far) = (sides.near.1.clone(), sides.far.1.clone());
        let columns = self.joined_names(&on, &how, &sides);
        let mut scope = self.join_step(near, far, on, &how)?;
        if let Some(filter) = filter.filter(|_| inner) {
            let (near, far) = &columns;
            let predicate = over_pairs(&filter, &sides, near, far)?;
            let schema = self.steps.stream(scope.step).plan().schema().clone();
            scope = self.where_(scope, rewrite_for_python(&predicate, &schema)?)?;
        }
        let (near, far) = columns;
        let columns = if sides.swapped { [far, near].concat() } else { [near, far].concat() };
        Ok(Scope { step: scope.step, columns })
    }

    /// A pair of keys without the casts that the builder adds itself.
    fn without_coercion(&self, near: Expr, far: Expr, sides: &Sides<'_>) -> (Expr, Expr) {
        let without_cast = |e: &Expr| match e {
            Expr::Cast(cast) if column_name(&cast.expr).is_some() => cast.expr.as_ref().clone(),
            other => other.clone(),
        };
        let kind = |e: &Expr, scope: &Scope| e.get_type(self.steps.stream(scope.step).plan().schema()).ok();
        let wanted = kind(&near, &sides.near.1);
        let (a, b) = (without_cast(&near), without_cast(&far));
        let common = match (kind(&a, &sides.near.1), kind(&b, &sides.far.1)) {
            (Some(a), Some(b)) => common_type(&a, &b),
            _ => None,
        };
        if common.is_some() && common == wanted { (a, b) } else { (near, far) }
    }

    /// Renames far key columns that the builder would drop in favor of the near key column of the same name.
    ///
    /// Only where the values differ in some row: in outer joins, for floats, and for keys of different types.
    fn rename_shared_columns(
        &mut self,
        kind: JoinKind,
        on: &mut [(Expr, Expr)],
        sides: &mut Sides<'_>,
    ) -> Result<()> {
        if !matches!(kind, JoinKind::Inner | JoinKind::Left | JoinKind::Full) {
            return Ok(());
        }
        let (near, far) =
            (self.steps.stream(sides.near.1.step).clone(), self.steps.stream(sides.far.1.step).clone());
        let mut renamed: Vec<(String, String)> = Vec::new();
        for (l, r) in on.iter_mut() {
            let (Some(name), Some(other)) = (column_name(l), column_name(r)) else { continue };
            let place = sides.far.1.columns.iter().position(|c| c == name);
            // The key column of a full join is the coalesced one.
            let used = kind == JoinKind::Full || place.is_some_and(|place| sides.far.2.contains(&place));
            if name != other || !used {
                continue;
            }
            let kind_of = |e: &Expr, schema: &DFSchema| e.get_type(schema).ok();
            let kinds = (kind_of(l, near.plan().schema()), kind_of(r, far.plan().schema()));
            if kind == JoinKind::Inner
                && kinds.0 == kinds.1
                && !kinds.0.is_some_and(|t: DataType| t.is_floating())
            {
                continue;
            }
            let taken =
                |n: &str| names(near.plan().schema()).contains(&n) || names(far.plan().schema()).contains(&n);
            let new = unique_name(&format!("{name}_right"), taken);
            renamed.push((name.to_string(), new.clone()));
            *r = column(new);
        }
        if renamed.is_empty() {
            return Ok(());
        }
        let mut scope = self.keyed(sides.far.1.clone(), &[])?;
        let stream = self.steps.stream(scope.step).clone();
        let new =
            |name: &str| renamed.iter().find(|(old, _)| old == name).map_or(name, |(_, new)| new).to_string();
        let pairs: Vec<(String, Expr)> =
            names(stream.plan().schema()).into_iter().map(|n| (new(n), column(n))).collect();
        let doc = Doc::call(".select", arguments(self, scope.step, &pairs)?);
        scope.columns = scope.columns.iter().map(|n| new(n)).collect();
        sides.far.1 = self.add_step(scope, StepKind::QueryMethod, doc, stream.select(aliased(&pairs))?);
        Ok(())
    }

    /// Computed keys get names.
    fn name_computed(&self, on: &mut [(Expr, Expr)], sides: &Sides<'_>) {
        let (near, far) = (self.steps.stream(sides.near.1.step), self.steps.stream(sides.far.1.step));
        let taken = |n: &str| [near, far].iter().any(|s| names(s.plan().schema()).contains(&n));
        for (number, (l, r)) in on.iter_mut().enumerate() {
            let base = if number == 0 { "key".to_string() } else { format!("key_{}", number + 1) };
            let name = unique_name(&base, taken);
            for side in [l, r] {
                if column_name(side).is_none() {
                    *side = side.clone().alias(&name);
                }
            }
        }
    }

    /// The suffix for far columns, or for the mark column, that makes names unique.
    fn suffix(&self, kind: JoinKind, on: &[(Expr, Expr)], sides: &Sides<'_>) -> String {
        let near = names(self.steps.stream(sides.near.1.step).plan().schema());
        match kind {
            JoinKind::Semi | JoinKind::Anti => "_right".to_string(),
            JoinKind::Mark => {
                unique_name("_right", |suffix| near.contains(&format!("mark{suffix}").as_str()))
            }
            _ => self.free_suffix(on, sides),
        }
    }

    /// A suffix for far columns that makes all names unique.
    fn free_suffix(&self, on: &[(Expr, Expr)], sides: &Sides<'_>) -> String {
        let near = names(self.steps.stream(sides.near.1.step).plan().schema());
        let far = names(self.steps.stream(sides.far.1.step).plan().schema());
        let shared = |n: &str| on.iter().any(|(l, r)| column_name(l) == Some(n) && column_name(r) == Some(n));
        let clashing: Vec<&&str> = far.iter().filter(|n| !shared(n) && near.contains(n)).collect();
        let is_unique = |suffix: &str| {
            clashing.iter().all(|n| {
                let name = format!("{n}{suffix}");
                !near.contains(&name.as_str()) && !far.contains(&name.as_str())
            })
        };
        let mut suffix = "_right".to_string();
        let mut number = 2;
        while !is_unique(&suffix) {
            suffix = format!("_{number}");
            number += 1;
        }
        suffix
    }

    /// The names of the columns of a join: those of the near side, those of the far side.
    fn joined_names(
        &self,
        on: &[(Expr, Expr)],
        how: &JoinHow,
        sides: &Sides<'_>,
    ) -> (Vec<String>, Vec<String>) {
        let near = names(self.steps.stream(sides.near.1.step).plan().schema());
        let shared = |n: &str| on.iter().any(|(l, r)| column_name(l) == Some(n) && column_name(r) == Some(n));
        let name = |n: &String| match near.contains(&n.as_str()) && !shared(n) {
            true => format!("{n}{}", how.suffix),
            false => n.clone(),
        };
        let far = match how.kind {
            JoinKind::Semi | JoinKind::Anti => vec![],
            JoinKind::Mark => vec![how.mark(&near)],
            _ => sides.far.1.columns.iter().map(name).collect(),
        };
        (sides.near.1.columns.clone(), far)
    }

    /// A join condition over the columns of both streams, `left.…` and `right.…`.
    fn over_sides(&self, filter: &Expr, join: &Join, sides: &Sides<'_>) -> Result<Expr> {
        let (near, far) = (sides.near.0.schema(), sides.far.0.schema());
        let conjunction = filter.clone().transform_up(|e| {
            let Expr::Column(c) = &e else { return Ok(Transformed::no(e)) };
            let side = |side: &str, name: &str| Expr::Column(Column::new(Some(side), name));
            Ok(Transformed::yes(match near.maybe_index_of_column(c) {
                Some(i) => side(LEFT, &sides.near.1.columns[i]),
                None => side(RIGHT, &sides.far.1.columns[position(far, c)?]),
            }))
        });
        let schema =
            JoinHow::sides_schema(self.steps.stream(sides.near.1.step), self.steps.stream(sides.far.1.step))?;
        rewrite_for_python(&conjunction.data()?, &schema).map_err(|e| e.context(join.join_type.to_string()))
    }
}

/// The sides of a join in the program: node, scope, and the columns that are used.
struct Sides<'a> {
    near: (&'a LogicalPlan, Scope, BTreeSet<usize>),
    far: (&'a LogicalPlan, Scope, BTreeSet<usize>),
    /// Whether the near side is the right one in the plan.
    swapped: bool,
}

/// The columns that a join requires of its sides.
fn required_columns(join: &Join, required: &Required) -> Result<(BTreeSet<usize>, BTreeSet<usize>)> {
    let (left, right) = (join.left.schema(), join.right.schema());
    let width = left.fields().len();
    let all = 0..join.schema.fields().len();
    let used: Vec<usize> =
        all.filter(|i| required.used.as_ref().is_none_or(|used| used.contains(i))).collect();
    let mut sides = (BTreeSet::new(), BTreeSet::new());
    match join.join_type {
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            sides.1.extend(used.iter().filter(|i| **i < right.fields().len()));
        }
        _ => {
            sides.0.extend(used.iter().filter(|i| **i < width));
            sides.1.extend(used.iter().filter(|i| **i >= width).map(|i| i - width));
        }
    }
    for column in join.filter.iter().flat_map(|f| f.column_refs()) {
        match left.maybe_index_of_column(column) {
            Some(i) => drop(sides.0.insert(i)),
            None => drop(sides.1.insert(position(right, column)?)),
        }
    }
    for (l, r) in &join.on {
        if l.try_as_col().is_none() {
            sides.0.extend(positions(l, left)?);
        }
        if r.try_as_col().is_none() {
            sides.1.extend(positions(r, right)?);
        }
    }
    Ok(sides)
}

/// A condition over the sides as one over the columns of the pairs.
fn over_pairs(filter: &Expr, sides: &Sides<'_>, near: &[String], far: &[String]) -> Result<Expr> {
    let renamed = |e: Expr| {
        let Expr::Column(c) = &e else { return Ok(Transformed::no(e)) };
        let (from, to) = match c.relation.as_ref().is_some_and(|side| side.table() == RIGHT) {
            true => (&sides.far.1.columns, far),
            false => (&sides.near.1.columns, near),
        };
        match from.iter().position(|n| *n == c.name) {
            Some(i) => Ok(Transformed::yes(column(&to[i]))),
            None => plan_err!("a join's condition speaks of {c}, which is no column of its sides"),
        }
    };
    filter.clone().transform_up(renamed).data()
}
