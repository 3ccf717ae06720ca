//! Window functions over a stream, or a relation that changes: a partition is recomputed when one of its rows
//! comes or goes.

use super::exprs::{columns, keyed, relabel};
use super::sliding::recompute_in_frames;
use super::{sums, top_k};
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr::{Sort, WindowFunctionParams};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Window};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_planner::create_window_expr;
use std::sync::Arc;
use whimbrel_plan::properties;
use whimbrel_temporal::operators::{Compute, RecomputeGroups, Select};
use whimbrel_temporal::{Graph, NodeId};

/// Lowers window functions: their columns come after those of the input.
///
/// # Errors
/// `Plan` if a function cannot be computed.
pub(super) fn window(graph: &mut Graph, plan: &Window, input: NodeId) -> Result<NodeId> {
    let schema = plan.input.schema();
    let Some((partition_by, order_by)) = plan.window_expr.first().map(partition) else { return Ok(input) };
    if plan.window_expr.iter().map(partition).any(|other| other != (partition_by.clone(), order_by.clone())) {
        return internal_err!("the window functions of one step have one partition and one order");
    }
    let own = keyed(graph, input, schema, &partition_by)?;
    let width = schema.fields().len();
    // Computed keys come after the columns of the input; they are dropped at the end.
    let fields: Vec<_> = own.schema.fields().iter().chain(&plan.schema.fields()[width..]).cloned().collect();
    let output = Arc::new(Schema::new(fields));
    let functions = plan.window_expr.iter().map(|e| function(e, schema)).collect::<Result<Vec<_>>>()?;
    let compute = of_partition(functions, width, output.clone());
    let operator = RecomputeGroups::new(
        own.schema.clone(),
        own.key,
        top_k::order(&order_by, schema)?,
        output.clone(),
        compute,
    );
    let operator = if properties(&plan.input)?.lifetimes.are_tiled() { operator.tiled() } else { operator };
    let node = graph.add(Box::new(operator), &[own.node]);
    if output.fields().len() == plan.schema.fields().len() {
        return Ok(relabel(graph, node, &output, plan.schema.inner()));
    }
    let kept = (0..width).chain(own.schema.fields().len()..output.fields().len());
    let exprs = columns(&output, kept);
    Ok(graph.add(Box::new(Select::new(exprs, plan.schema.inner().clone())), &[node]))
}

/// The partition and the order of a window function.
fn partition(expr: &Expr) -> (Vec<Expr>, Vec<Sort>) {
    match expr.clone().unalias_nested().data {
        Expr::WindowFunction(function) => {
            let WindowFunctionParams { partition_by, order_by, .. } = function.params;
            (partition_by, order_by)
        }
        _ => (vec![], vec![]),
    }
}

/// The physical window function.
fn function(expr: &Expr, schema: &DFSchema) -> Result<Arc<dyn WindowExpr>> {
    let expr = sums::check_sums_of(recompute_in_frames(expr.clone())?.data)?.data;
    create_window_expr(&expr, schema, &ExecutionProps::new(), &PhysicalPlanningContext::default())
}

/// Computes the functions over a partition. They read the first `width` columns.
fn of_partition(functions: Vec<Arc<dyn WindowExpr>>, width: usize, output: SchemaRef) -> Compute {
    Box::new(move |rows| {
        let input = rows.project(&(0..width).collect::<Vec<_>>())?;
        let mut values: Vec<ArrayRef> = rows.columns().to_vec();
        for function in &functions {
            values.push(function.evaluate(&input)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(output.clone(), values, &options)?)
    })
}
