//! Grouping sets: each row is expanded to one row per set. Columns that a set does not group by are null, and
//! a column has the grouping id of the set, as in DataFusion.

use super::exprs::{Keyed, columns, physical_exprs};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::utils::{grouping_set_to_exprlist, powerset};
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use std::sync::Arc;
use whimbrel_temporal::operators::{Select, Union};
use whimbrel_temporal::{Graph, NodeId};

/// The grouping sets of an aggregate, if it has some.
///
/// # Errors
/// If a cube has too many expressions.
pub(super) fn sets(plan: &Aggregate) -> Result<Option<Vec<Vec<&Expr>>>> {
    let [Expr::GroupingSet(sets)] = plan.group_expr.as_slice() else { return Ok(None) };
    Ok(Some(match sets {
        GroupingSet::GroupingSets(sets) => sets.iter().map(|set| set.iter().collect()).collect(),
        GroupingSet::Rollup(exprs) => (0..=exprs.len()).map(|n| exprs[..n].iter().collect()).collect(),
        GroupingSet::Cube(exprs) => powerset(exprs)?,
    }))
}

/// Expands each row to one row per set, keyed by the group columns and the grouping id.
///
/// # Errors
/// `Plan` if an expression cannot be evaluated.
pub(super) fn expand(
    graph: &mut Graph,
    plan: &Aggregate,
    sets: &[Vec<&Expr>],
    input: NodeId,
) -> Result<Keyed> {
    let schema = plan.input.schema();
    let exprs: Vec<Expr> = grouping_set_to_exprlist(&plan.group_expr)?.into_iter().cloned().collect();
    let width = schema.fields().len();
    let group_fields = &plan.schema.fields()[..=exprs.len()];
    let fields: Vec<_> = schema.fields().iter().chain(group_fields).cloned().collect();
    let expanded = Arc::new(Schema::new(fields));
    let values = physical_exprs(&exprs, schema)?;
    let mut parts = Vec::new();
    for (number, set) in sets.iter().enumerate() {
        let before = sets[..number].iter().filter(|other| same(other, set)).count();
        let id = grouping_id(&exprs, set, before, group_fields[exprs.len()].data_type())?;
        let mut columns = columns(schema.as_arrow(), 0..width);
        for (expr, (value, field)) in exprs.iter().zip(values.iter().zip(group_fields)) {
            columns.push(match set.contains(&expr) {
                true => Arc::clone(value),
                false => literal(ScalarValue::try_from(field.data_type())?),
            });
        }
        columns.push(literal(id));
        parts.push(graph.add(Box::new(Select::new(columns, expanded.clone())), &[input]));
    }
    let node = graph.add(Box::new(Union::new(parts.len())), &parts);
    Ok(Keyed { node, key: (width..expanded.fields().len()).collect(), schema: expanded })
}

/// The grouping ids of the sets without a key: over a relation these have a row also where there are no rows.
///
/// # Errors
/// If an id does not fit its type.
pub(super) fn totals(plan: &Aggregate, sets: &[Vec<&Expr>]) -> Result<Vec<ScalarValue>> {
    let exprs: Vec<Expr> = grouping_set_to_exprlist(&plan.group_expr)?.into_iter().cloned().collect();
    let id_type = plan.schema.field(exprs.len()).data_type();
    let empty = sets.iter().filter(|set| set.is_empty()).enumerate();
    empty.map(|(before, set)| grouping_id(&exprs, set, before, id_type)).collect()
}

/// Whether two sets have the same expressions.
fn same(a: &[&Expr], b: &[&Expr]) -> bool {
    a.iter().all(|e| b.contains(e)) && b.iter().all(|e| a.contains(e))
}

/// The grouping id of a set: a bit for each expression, the first one highest, which is 1 if the set does not
/// group by it; above these, the number of equal sets before this one.
fn grouping_id(exprs: &[Expr], set: &[&Expr], before: usize, to: &DataType) -> Result<ScalarValue> {
    let bits = exprs.iter().fold(0_u64, |bits, expr| bits << 1 | u64::from(!set.contains(&expr)));
    ScalarValue::UInt64(Some(bits | (before as u64) << exprs.len())).cast_to(to)
}

/// A constant column.
fn literal(value: ScalarValue) -> Arc<dyn PhysicalExpr> {
    Arc::new(Literal::new(value))
}
