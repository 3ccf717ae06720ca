//! The rule of DataFusion's that drops groups that follow from others, kept from groups of one name.
//!
//! A cast has the name of what it casts. Of `group by cast(x as bigint), x` the rule makes an aggregate by
//! `x` and a projection of both, in which no two columns may have one name.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::HashSet;
use std::sync::Arc;

/// Drops groups that follow from others, where all have names of their own.
#[derive(Debug)]
pub(crate) struct DistinctGroupNames(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for DistinctGroupNames {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match has_equal_names(&plan) {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
    }
}

/// Whether this is an aggregate of which two columns have one name.
fn has_equal_names(plan: &LogicalPlan) -> bool {
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
