//! Aggregates by columns of one name, over which DataFusion's rule that drops groups passes.
//!
//! A cast has the name of what it casts. Of `group by cast(x as bigint), x` the rule makes an aggregate by
//! `x` and a projection of both, in which no two columns may have one name.

use datafusion::logical_expr::LogicalPlan;
use std::collections::HashSet;

/// Whether this is an aggregate of which two columns have one name.
pub(crate) fn has_equal_names(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Aggregate(aggregate) = plan else { return false };
    let mut names = HashSet::new();
    aggregate
        .group_expr
        .iter()
        .chain(&aggregate.aggr_expr)
        .any(|expr| !names.insert(expr.schema_name().to_string()))
}

#[cfg(test)]
mod tests {
    use crate::optimizer_rules;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{Expr, cast, col, table_scan};
    use datafusion::optimizer::{Optimizer, OptimizerContext};

    /// The optimized plan of an aggregate by these.
    fn optimized(groups: Vec<Expr>) -> String {
        let schema = Schema::new(vec![Field::new("x", DataType::Int32, true)]);
        let rows = table_scan(Some("t"), &schema, None).unwrap();
        let plan = rows.aggregate(groups, Vec::<Expr>::new()).unwrap().build().unwrap();
        let optimizer = Optimizer::with_rules(optimizer_rules());
        let plan = optimizer.optimize(plan, &OptimizerContext::new(), |_, _| {}).unwrap();
        plan.display_indent().to_string()
    }

    #[test]
    fn a_column_and_its_cast_are_two_groups() {
        let plan = optimized(vec![cast(col("x"), DataType::Int64), col("x")]);
        assert!(plan.starts_with("Aggregate: groupBy=[[CAST(t.x AS Int64), t.x]]"), "{plan}");
    }

    #[test]
    fn groups_with_names_of_their_own_are_dropped() {
        let plan = optimized(vec![cast(col("x"), DataType::Int64).alias("y"), col("x")]);
        assert!(plan.contains("groupBy=[[t.x]]"), "{plan}");
    }
}
