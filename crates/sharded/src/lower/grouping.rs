//! Grouping sets: every row once for each set, with nulls in place of what the set does not group by, and with the
//! number by which DataFusion tells the sets apart.

use super::express::{Keyed, all, columns};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::utils::{grouping_set_to_exprlist, powerset};
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use std::sync::Arc;
use whimbrel_temporal::operators::{Select, Union};
use whimbrel_temporal::{Graph, NodeId};

/// The sets of an aggregate that has several.
pub(super) fn sets(plan: &Aggregate) -> Result<Option<Vec<Vec<&Expr>>>> {
    let [Expr::GroupingSet(sets)] = plan.group_expr.as_slice() else { return Ok(None) };
    Ok(Some(match sets {
        GroupingSet::GroupingSets(sets) => sets.iter().map(|set| set.iter().collect()).collect(),
        GroupingSet::Rollup(exprs) => (0..=exprs.len()).map(|n| exprs[..n].iter().collect()).collect(),
        GroupingSet::Cube(exprs) => powerset(exprs)?,
    }))
}

/// The rows once for each set, keyed by what they are grouped by and the number of the set.
pub(super) fn unfolded(
    graph: &mut Graph,
    plan: &Aggregate,
    sets: &[Vec<&Expr>],
    input: NodeId,
) -> Result<Keyed> {
    let schema = plan.input.schema();
    let exprs: Vec<Expr> = grouping_set_to_exprlist(&plan.group_expr)?.into_iter().cloned().collect();
    let width = schema.fields().len();
    let groups = &plan.schema.fields()[..=exprs.len()];
    let fields: Vec<_> = schema.fields().iter().chain(groups).cloned().collect();
    let unfolded = Arc::new(Schema::new(fields));
    let values = all(&exprs, schema)?;
    let mut parts = Vec::new();
    for (number, set) in sets.iter().enumerate() {
        let before = sets[..number].iter().filter(|other| same(other, set)).count();
        let id = number_of(&exprs, set, before, groups[exprs.len()].data_type())?;
        let mut columns = columns(schema.as_arrow(), 0..width);
        for (expr, (value, field)) in exprs.iter().zip(values.iter().zip(groups)) {
            columns.push(match set.contains(&expr) {
                true => Arc::clone(value),
                false => literal(ScalarValue::try_from(field.data_type())?),
            });
        }
        columns.push(literal(id));
        parts.push(graph.add(Box::new(Select::new(columns, unfolded.clone())), &[input]));
    }
    let node = graph.add(Box::new(Union::new(parts.len())), &parts);
    Ok(Keyed { node, key: (width..unfolded.fields().len()).collect(), schema: unfolded })
}

/// The numbers of the sets that group by nothing: over a relation these have a row where there is nothing.
pub(super) fn totals(plan: &Aggregate, sets: &[Vec<&Expr>]) -> Result<Vec<ScalarValue>> {
    let exprs: Vec<Expr> = grouping_set_to_exprlist(&plan.group_expr)?.into_iter().cloned().collect();
    let id_type = plan.schema.field(exprs.len()).data_type();
    let empty = sets.iter().filter(|set| set.is_empty()).enumerate();
    empty.map(|(before, set)| number_of(&exprs, set, before, id_type)).collect()
}

fn same(a: &[&Expr], b: &[&Expr]) -> bool {
    a.iter().all(|e| b.contains(e)) && b.iter().all(|e| a.contains(e))
}

/// A bit for each expression, the first one's the highest: 1 if the set does not group by it. Above them, how many
/// equal sets come before.
fn number_of(exprs: &[Expr], set: &[&Expr], before: usize, to: &DataType) -> Result<ScalarValue> {
    let bits = exprs.iter().fold(0_u64, |bits, expr| bits << 1 | u64::from(!set.contains(&expr)));
    ScalarValue::UInt64(Some(bits | (before as u64) << exprs.len())).cast_to(to)
}

fn literal(value: ScalarValue) -> Arc<dyn PhysicalExpr> {
    Arc::new(Literal::new(value))
}
