//! Joins of the fluent builder, which are recognized as the call that made them.

use super::join_steps::{LEFT, RIGHT};
use super::python_expressions::rewrite_for_python;
use super::reader::{Reader, Required, Scope};
use super::rows::added_columns;
use crate::names::{column, column_name, names};
use crate::nodes::{Node, node};
use crate::stream::{JoinHow, JoinKind};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};

impl Reader {
    /// The step of a projection over a join if one call of the builder makes exactly these nodes.
    pub fn built_join(
        &mut self,
        projection: &Projection,
        join: &Join,
        colocated: bool,
    ) -> Result<Option<Scope>> {
        let (Some(left), Some(right)) = (aliased_side(&join.left, LEFT), aliased_side(&join.right, RIGHT))
        else {
            return Ok(None);
        };
        let Some(kind) = kind_of(join) else { return Ok(None) };
        let output = names(&projection.schema);
        let Some((left, left_added)) = without_added(left, |name| !output.contains(&name)) else {
            return Ok(None);
        };
        let is_join_key =
            |name: &str| join.on.iter().any(|(_, r)| r.try_as_col().is_some_and(|c| c.name == name));
        let Some((right, right_added)) = without_added(right, is_join_key) else { return Ok(None) };
        let (l, r) = (self.read(left, &Required::default())?, self.read(right, &Required::default())?);
        let mut on = Vec::new();
        for (a, b) in &join.on {
            let (Some(a), Some(b)) = (a.try_as_col(), b.try_as_col()) else { return Ok(None) };
            on.push((
                self.join_key(&a.name, &left_added, left, &l)?,
                self.join_key(&b.name, &right_added, right, &r)?,
            ));
        }
        let suffix = suffix_of(projection).unwrap_or_else(|| "_right".to_string());
        let schema = JoinHow::sides_schema(self.steps.stream(l.step), self.steps.stream(r.step))?;
        let how = JoinHow {
            kind,
            suffix,
            filter: join.filter.as_ref().map(|f| rewrite_for_python(f, &schema)).transpose()?,
            nulls_equal: join.null_equality == NullEquality::NullEqualsNull,
            null_aware: join.null_aware,
            colocated,
        };
        let Ok(stream) = self.steps.stream(l.step).join_as(self.steps.stream(r.step), on.clone(), &how)
        else {
            return Ok(None);
        };
        match joined_columns(stream.plan()) == Some(&projection.expr) {
            true => self.join_step(l, r, on, &how).map(Some),
            false => Ok(None),
        }
    }

    /// The join key behind a column: the column itself, or the expression that the builder added as a column.
    fn join_key(
        &self,
        name: &str,
        added: &[(String, Expr)],
        plan: &LogicalPlan,
        scope: &Scope,
    ) -> Result<Expr> {
        let Some((_, expr)) = added.iter().find(|(n, _)| n == name) else { return Ok(column(name)) };
        let bare = name.trim_end_matches('\'');
        match expr {
            // The builder casts columns of different types to a common type.
            Expr::Cast(cast) if column_name(&cast.expr) == Some(bare) => Ok(column(bare)),
            other => Ok(self.rewrite_expr(other, plan.schema(), scope)?.alias(name)),
        }
    }
}

/// The columns of the projection above a join of the builder.
fn joined_columns(plan: &LogicalPlan) -> Option<&Vec<Expr>> {
    match (plan, node(plan)) {
        (_, Some(Node::ReKey(rekey))) => joined_columns(&rekey.input),
        (LogicalPlan::Projection(projection), _) => Some(&projection.expr),
        _ => None,
    }
}

/// The input of the alias that the builder gives to a side.
fn aliased_side<'a>(plan: &'a LogicalPlan, side: &str) -> Option<&'a LogicalPlan> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) if alias.alias.table() == side => Some(&alias.input),
        _ => None,
    }
}

fn kind_of(join: &Join) -> Option<JoinKind> {
    Some(match join.join_type {
        JoinType::Inner if join.on.is_empty() => JoinKind::Cross,
        JoinType::Inner => JoinKind::Inner,
        JoinType::Left => JoinKind::Left,
        JoinType::Right => JoinKind::Right,
        JoinType::Full => JoinKind::Full,
        JoinType::LeftSemi => JoinKind::Semi,
        JoinType::LeftAnti => JoinKind::Anti,
        JoinType::LeftMark => JoinKind::Mark,
        _ => return None,
    })
}

/// A side without the columns that the builder added for computed keys, and these columns.
fn without_added(
    plan: &LogicalPlan,
    is_added: impl Fn(&str) -> bool,
) -> Option<(&LogicalPlan, Vec<(String, Expr)>)> {
    let mut plan = plan;
    let mut added = Vec::new();
    while let Some((below, more)) = added_columns(plan)
        && more.len() == 1
        && is_added(&more[0].0)
    {
        added.extend(more);
        plan = below;
    }
    Some((plan, added))
}

/// The suffix of right columns in a projection over a join.
fn suffix_of(projection: &Projection) -> Option<String> {
    projection.expr.iter().find_map(|e| match e {
        Expr::Alias(alias) => match alias.expr.as_ref() {
            Expr::Column(c)
                if c.relation.as_ref().is_some_and(|r| r.table() == RIGHT) && c.name != alias.name =>
            {
                alias.name.strip_prefix(&c.name).map(String::from)
            }
            _ => None,
        },
        _ => None,
    })
}
