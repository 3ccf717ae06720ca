//! Counts of distinct integers, in one step instead of two.
//!
//! DataFusion computes `count(distinct x) … group by k` as a count of the groups by `k` and `x`. Shards can
//! then remove duplicates before rows move. Where no rows move between the two steps, a group of the first
//! has all columns of the key, and a set of pairs (number of the group of `k`, value of `x`) is several times
//! smaller.
//!
//! Invariant: groups come out in the order in which their first rows came, as they do from the two steps.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, TableReference};
use datafusion::functions_aggregate::count::count_distinct;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use std::sync::Arc;

/// Merges the two steps wherever one is directly below the other.
///
/// # Errors
/// If a node cannot be rebuilt.
pub(super) fn merge_distinct_counts(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|plan| {
        let merged = match &plan {
            LogicalPlan::Aggregate(counts) => merge(counts)?,
            _ => None,
        };
        Ok(merged.map_or_else(|| Transformed::no(plan), Transformed::yes))
    })
    .data()
}

/// The one step for counts over distinct groups; none if this is something else.
fn merge(counts: &Aggregate) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Aggregate(distinct) = counts.input.as_ref() else { return Ok(None) };
    let Some((key, counted)) = key_and_value(counts, distinct) else { return Ok(None) };
    // Without a key, the values alone are the groups, and an array finds them.
    if key.is_empty() || !distinct.schema.field(counted).data_type().is_integer() {
        return Ok(None);
    }
    let value = &distinct.group_expr[counted];
    if !counts.aggr_expr.iter().all(|call| is_count_of(call, &distinct.schema, counted)) {
        return Ok(None);
    }
    let names = counts.schema.iter().map(|(qualifier, field)| (qualifier.cloned(), field.name().clone()));
    let key = key.into_iter().map(|at| distinct.group_expr[at].clone());
    let calls = counts.aggr_expr.iter().map(|_| count_distinct(value.clone().unalias()));
    let mut exprs: Vec<Expr> =
        key.chain(calls).zip(names).map(|(expr, (qualifier, name))| renamed(expr, qualifier, name)).collect();
    let calls = exprs.split_off(counts.group_expr.len());
    let merged = LogicalPlan::Aggregate(Aggregate::try_new(Arc::clone(&distinct.input), exprs, calls)?);
    Ok(merged.schema().has_equivalent_names_and_types(&counts.schema).is_ok().then_some(merged))
}

/// The expression under this name.
fn renamed(expr: Expr, qualifier: Option<TableReference>, name: String) -> Expr {
    match expr.qualified_name() == (qualifier.clone(), name.clone()) {
        true => expr,
        false => expr.unalias().alias_qualified(qualifier, name),
    }
}

/// Which groups of `distinct` are the key of the counts, in its order, and which is the only other one. None:
/// it computes more than groups, or there is no such other one.
fn key_and_value(counts: &Aggregate, distinct: &Aggregate) -> Option<(Vec<usize>, usize)> {
    let groups = distinct.group_expr.len();
    let sets = distinct.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
    if sets || !distinct.aggr_expr.is_empty() || counts.group_expr.len() + 1 != groups {
        return None;
    }
    let place = |expr: &Expr| distinct.schema.maybe_index_of_column(expr.try_as_col()?);
    let key: Vec<usize> = counts.group_expr.iter().map(place).collect::<Option<_>>()?;
    let mut others = (0..groups).filter(|at| !key.contains(at));
    let value = others.next()?;
    others.next().is_none().then_some((key, value))
}

/// Whether this is a plain count of the column at this place.
fn is_count_of(call: &Expr, schema: &DFSchema, place: usize) -> bool {
    let Expr::AggregateFunction(AggregateFunction { func, params }) = call else { return false };
    let of_rows = !params.distinct && params.filter.is_none() && params.order_by.is_empty();
    let [argument] = params.args.as_slice() else { return false };
    let column = argument.try_as_col().and_then(|column| schema.maybe_index_of_column(column));
    func.name() == "count" && of_rows && column == Some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::functions_aggregate::count::count;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, table_scan};

    /// Counts by these columns over the distinct groups of `distinct`, merged.
    fn merged(distinct: Vec<Expr>, key: Vec<Expr>, calls: Vec<Expr>) -> String {
        let fields = [("a", DataType::Utf8), ("b", DataType::Int64), ("s", DataType::Utf8)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        let rows = table_scan(Some("t"), &Schema::new(fields.to_vec()), None).unwrap();
        let groups = rows.aggregate(distinct, Vec::<Expr>::new()).unwrap();
        let plan = groups.aggregate(key, calls).and_then(LogicalPlanBuilder::build).unwrap();
        let schema = Arc::clone(plan.schema());
        let merged = merge_distinct_counts(plan).unwrap();
        merged.schema().has_equivalent_names_and_types(&schema).unwrap();
        merged.display_indent().to_string()
    }

    #[test]
    fn counts_of_integers_are_merged() {
        let plan = merged(vec![col("a"), col("b").alias("x")], vec![col("a")], vec![count(col("x"))]);
        assert_eq!(
            plan,
            "Aggregate: groupBy=[[t.a]], aggr=[[count(DISTINCT t.b) AS count(x)]]\n  TableScan: t"
        );
        let plan = merged(vec![col("a").alias("g"), col("b")], vec![col("g")], vec![count(col("b"))]);
        assert!(plan.starts_with("Aggregate: groupBy=[[t.a AS g]], aggr=[[count(DISTINCT t.b) AS"), "{plan}");
    }

    #[test]
    fn other_aggregates_are_kept() {
        let by = || vec![col("a"), col("b")];
        // Strings have no set of pairs.
        let plan = merged(vec![col("b"), col("s")], vec![col("b")], vec![count(col("s"))]);
        assert_eq!(plan.matches("Aggregate").count(), 2);
        // Without a key, the first step has an index.
        assert_eq!(merged(vec![col("b")], vec![], vec![count(col("b"))]).matches("Aggregate").count(), 2);
        // Nulls are counted, or the key.
        assert_eq!(merged(by(), vec![col("a")], vec![count(col("a"))]).matches("Aggregate").count(), 2);
        let distinct = count_distinct(col("b"));
        assert_eq!(merged(by(), vec![col("a")], vec![distinct]).matches("Aggregate").count(), 2);
    }
}
