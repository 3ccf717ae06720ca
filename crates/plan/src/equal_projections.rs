//! Projections over projections of the same expressions, of which DataFusion drops one.
//!
//! It takes `v * 2 as v` over `v * 2 as v` for `v * 2 as v` alone, when it merges projections. That is right
//! only of columns that keep their names. So each projection below another one gets a name of its own inside
//! one of its expressions, `(v * 2 as <mark>) as v`, while the rule runs. Then no two are equal. The marks
//! change no column of the result: of an alias within an alias only the outer name counts.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// What the name of a mark begins with. A name in a query has no such character.
const MARK: &str = "\u{1}projection ";

/// DataFusion's rule that drops columns nobody reads and merges projections, kept from taking one projection
/// for two that are equal.
pub fn optimize_projections() -> Arc<dyn OptimizerRule + Send + Sync> {
    Arc::new(EqualProjections(Arc::new(OptimizeProjections::new())))
}

/// The rule between marks that are set and marks that are removed. It goes down a plan by itself.
#[derive(Debug)]
pub(crate) struct EqualProjections(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for EqualProjections {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_consecutive_projections(&plan)? {
            return self.0.rewrite(plan, config);
        }
        let mut marks = 0;
        let marked = plan.transform_up_with_subqueries(|plan| Ok(mark_below(plan, &mut marks)))?.data;
        let optimized = self.0.rewrite(marked, config)?;
        optimized.map_data(|plan| Ok(plan.transform_up_with_subqueries(|plan| Ok(without_marks(plan)))?.data))
    }
}

/// Whether there is a projection over a projection in the plan or in a subquery of it.
fn has_consecutive_projections(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        found = matches!(plan, LogicalPlan::Projection(Projection { input, .. })
            if matches!(input.as_ref(), LogicalPlan::Projection(_)));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Marks the projection that this projection reads.
fn mark_below(plan: LogicalPlan, marks: &mut usize) -> Transformed<LogicalPlan> {
    let LogicalPlan::Projection(mut above) = plan else { return Transformed::no(plan) };
    if !matches!(above.input.as_ref(), LogicalPlan::Projection(_)) {
        return Transformed::no(LogicalPlan::Projection(above));
    }
    let mut below = Arc::unwrap_or_clone(above.input);
    if let LogicalPlan::Projection(below) = &mut below
        // Without an alias, each column keeps its name, or none of the others reads it.
        && let Some(Expr::Alias(alias)) = below.expr.iter_mut().find(|expr| matches!(expr, Expr::Alias(_)))
    {
        *marks += 1;
        let mark = format!("{MARK}{marks}");
        *alias.expr = std::mem::take(alias.expr.as_mut()).alias(mark);
    }
    above.input = Arc::new(below);
    Transformed::yes(LogicalPlan::Projection(above))
}

/// The projection without its mark.
fn without_marks(mut plan: LogicalPlan) -> Transformed<LogicalPlan> {
    let LogicalPlan::Projection(projection) = &mut plan else { return Transformed::no(plan) };
    let mut any = false;
    for expr in &mut projection.expr {
        if let Expr::Alias(outer) = expr
            && let Expr::Alias(inner) = outer.expr.as_mut()
            && inner.name.starts_with(MARK)
        {
            outer.expr = std::mem::take(&mut inner.expr);
            any = true;
        }
    }
    if any { Transformed::yes(plan) } else { Transformed::no(plan) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit, table_scan};
    use datafusion::optimizer::{Optimizer, OptimizerContext};

    /// The optimized plan of projections, the first over a table of `a` and `b`.
    fn optimized(projections: &[&[Expr]]) -> String {
        let types = ["a", "b"].map(|name| Field::new(name, DataType::Int64, true));
        let table = table_scan(None::<&str>, &Schema::new(types.to_vec()), None).unwrap();
        let project = |rows: LogicalPlanBuilder, exprs: &&[Expr]| rows.project(exprs.to_vec()).unwrap();
        let plan = projections.iter().fold(table, project).build().unwrap();
        let optimizer = Optimizer::with_rules(vec![optimize_projections()]);
        let plan = optimizer.optimize(plan, &OptimizerContext::new(), |_, _| {}).unwrap();
        plan.display_indent().to_string()
    }

    #[test]
    fn equal_projections_are_all_applied() {
        let double = [(col("a") * lit(2_i64)).alias("a")];
        let plan = optimized(&[&double, &double, &double]);
        let product = "?table?.a * Int64(2) * Int64(2) * Int64(2) AS a";
        assert_eq!(plan.lines().next().unwrap(), format!("Projection: {product}"), "{plan}");
    }

    #[test]
    fn two_that_become_equal_to_the_next_are_all_applied() {
        let double = [(col("a") * lit(2_i64)).alias("a")];
        let fourfold = [(col("a") * lit(2_i64) * lit(2_i64)).alias("a")];
        let plan = optimized(&[&fourfold, &fourfold, &double, &double]);
        assert_eq!(plan.matches("Int64(2)").count(), 6, "{plan}");
    }

    #[test]
    fn a_sum_of_a_computed_column_with_itself_is_computed_in_steps() {
        let double = [(col("a") + col("a")).alias("a"), col("b")];
        let plan = optimized(&[&double, &double, &double]);
        assert_eq!(plan.matches("Projection").count(), 3, "{plan}");
        assert!(!plan.contains(MARK), "{plan}");
    }

    #[test]
    fn columns_that_change_places_three_times_have_changed_places() {
        let swap = [col("b").alias("a"), col("a").alias("b")];
        let plan = optimized(&[&swap, &swap, &swap]);
        assert!(plan.starts_with("Projection: ?table?.b AS a, ?table?.a AS b"), "{plan}");
    }

    #[test]
    fn columns_that_keep_their_names_are_projected_once() {
        let keep = [col("b"), col("a")];
        assert_eq!(optimized(&[&keep, &keep, &keep]).matches("Projection").count(), 1);
    }
}
