//! From logical to physical expressions: types coerced, and overflow an error.
//!
//! This is not `whimbrel_plan::physical`: here no constant is folded by DataFusion's simplifier.

use super::session::session;
use crate::error::Result;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Literal, Operator};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions;
use std::sync::Arc;

/// The expression with casts where types differ, and with only functions that can run.
pub(crate) fn coerced(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let coerced = expr.rewrite(&mut TypeCoercionRewriter::new(schema))?.data;
    let context = SimplifyContext::builder().with_schema(Arc::new(schema.clone())).build();
    Ok(coerced.transform_up(|expr| runnable(expr, schema, &context))?.data)
}

/// The expression in terms of what can run: literals cast, functions simplified, negations as differences.
fn runnable(
    expr: Expr,
    schema: &DFSchema,
    context: &SimplifyContext,
) -> std::result::Result<Transformed<Expr>, DataFusionError> {
    Ok(match expr {
        // Result types depend on literals (`round(price, 1)`), so casts of literals are folded.
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Literal(value, _) => match value.cast_to(cast.field.data_type()) {
                Ok(value) => Transformed::yes(Expr::Literal(value, None)),
                Err(_) => Transformed::no(Expr::Cast(cast)),
            },
            _ => Transformed::no(Expr::Cast(cast)),
        },
        // `coalesce` only runs as a `case`.
        Expr::ScalarFunction(ScalarFunction { func, args }) => match func.simplify(args, context)? {
            ExprSimplifyResult::Simplified(simpler) => Transformed::yes(simpler),
            ExprSimplifyResult::Original(args) => {
                Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args }))
            }
        },
        // A negation would wrap around; a subtraction is checked.
        Expr::Negative(inner) => match inner.get_type(schema)? {
            of if of.is_integer() => {
                let zero = ScalarValue::new_zero(&of)?.lit();
                let difference = BinaryExpr::new(Box::new(zero), Operator::Minus, inner);
                Transformed::yes(Expr::BinaryExpr(difference))
            }
            _ => Transformed::no(Expr::Negative(inner)),
        },
        other => Transformed::no(other),
    })
}

/// The physical expression over columns of this schema. Overflow is an error.
pub(crate) fn physical(expr: Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    let physical = session().create_physical_expr(coerced(expr, schema)?, schema)?;
    let checked = physical.transform_up(|expr| {
        Ok(match expr.downcast_ref::<expressions::BinaryExpr>() {
            Some(binary) => Transformed::yes(Arc::new(binary.clone().with_fail_on_overflow(true)) as _),
            None => Transformed::no(expr),
        })
    });
    Ok(checked?.data)
}

/// The value of an expression without columns.
pub(crate) fn evaluate(expr: &Expr) -> Result<ScalarValue> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let unit = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
    let value = physical(expr.clone(), &DFSchema::empty())?.evaluate(&unit)?.into_array(1)?;
    Ok(ScalarValue::try_from_array(&value, 0)?)
}

/// A decimal as the float with the same digits.
pub(crate) fn as_double(value: &ScalarValue) -> Option<ScalarValue> {
    let text = crate::number::Number::of(value)?.text()?;
    Some(ScalarValue::Float64(Some(text.parse().ok()?)))
}

/// Whether a type is one of floating-point numbers.
pub(crate) fn is_double(of: &DataType) -> bool {
    matches!(of, DataType::Float64 | DataType::Float32)
}
