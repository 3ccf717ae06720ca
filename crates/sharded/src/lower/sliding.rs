//! Aggregates over sliding frames, whose first row moves: `bool_and(x) over (order by t rows 1 preceding)`.
//!
//! DataFusion retracts the rows that leave a frame. Some aggregates cannot retract; others lose precision: a
//! variance is a difference of large numbers, and that of one row comes out as NaN. These are recomputed from
//! the rows of the frame whenever it has moved.
//!
//! Invariant: rows leave a frame in the order in which they came. These functions are only in plans that are
//! about to run: they cannot be encoded.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, LogicalPlan, Signature, WindowFunctionDefinition,
};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use std::sync::Arc;

/// The aggregates that are recomputed.
const RECOMPUTED: &[&str] = &[
    "any_value",
    "bit_and",
    "bit_or",
    "bool_and",
    "bool_or",
    "corr",
    "covar_pop",
    "covar_samp",
    "stddev",
    "stddev_pop",
    "string_agg",
    "var",
    "var_pop",
];

/// Recomputes these aggregates in the window functions of a plan.
///
/// # Errors
/// If a node cannot be rebuilt.
pub(super) fn recompute_frames(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|plan| match plan {
        LogicalPlan::Window(_) => {
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(recompute_in_frames(expr)?.update_data(|expr| name.restore(expr)))
            })
        }
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}

/// Recomputes these aggregates in the window functions of an expression.
///
/// # Errors
/// If it cannot be rebuilt.
pub(super) fn recompute_in_frames(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|e| Ok(recompute(e)))
}

/// The window function, recomputed if its aggregate has to be.
fn recompute(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::WindowFunction(mut window) => {
            let WindowFunctionDefinition::AggregateUDF(function) = &window.fun else {
                return Transformed::no(Expr::WindowFunction(window));
            };
            let slides = !window.params.window_frame.start_bound.is_unbounded();
            if !slides || !RECOMPUTED.contains(&function.name()) {
                return Transformed::no(Expr::WindowFunction(window));
            }
            let function = AggregateUDF::from(RecomputedAggregate(Arc::clone(function)));
            window.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(function));
            Transformed::yes(Expr::WindowFunction(window))
        }
        other => Transformed::no(other),
    }
}

/// An aggregate that is recomputed when its frame slides.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RecomputedAggregate(Arc<AggregateUDF>);

impl AggregateUDFImpl for RecomputedAggregate {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.0.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn default_value(&self, kind: &DataType) -> Result<ScalarValue> {
        self.0.default_value(kind)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Frame { factory: Factory::of(&self.0, &args), rows: vec![] }))
    }
}

/// Makes accumulators of an aggregate: the owned form of [`AccumulatorArgs`].
#[derive(Debug)]
struct Factory {
    function: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Factory {
    /// The owned form of these arguments.
    fn of(function: &Arc<AggregateUDF>, args: &AccumulatorArgs) -> Factory {
        Factory {
            function: Arc::clone(function),
            return_field: Arc::clone(&args.return_field),
            schema: args.schema.clone(),
            ignore_nulls: args.ignore_nulls,
            order_bys: args.order_bys.to_vec(),
            is_reversed: args.is_reversed,
            name: args.name.to_string(),
            is_distinct: args.is_distinct,
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
        }
    }

    /// A new accumulator.
    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}

/// The rows of a frame, from which an aggregate is recomputed.
#[derive(Debug)]
struct Frame {
    factory: Factory,
    /// A column for each argument; none before the first row.
    rows: Vec<ArrayRef>,
}

impl Frame {
    /// An accumulator of the rows.
    fn aggregate(&self) -> Result<Box<dyn Accumulator>> {
        let mut aggregate = self.factory.accumulator()?;
        if !self.rows.is_empty() {
            aggregate.update_batch(&self.rows)?;
        }
        Ok(aggregate)
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if self.rows.is_empty() {
            self.rows = values.to_vec();
            return Ok(());
        }
        for (rows, values) in self.rows.iter_mut().zip(values) {
            *rows = concat(&[rows.as_ref(), values.as_ref()])?;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for (rows, values) in self.rows.iter_mut().zip(values) {
            let leaving = values.len().min(rows.len());
            *rows = rows.slice(leaving, rows.len() - leaving);
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.aggregate()?.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.aggregate()?.state()
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("the aggregate of a window is not merged")
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.iter().map(|rows| rows.get_array_memory_size()).sum::<usize>()
    }
}
