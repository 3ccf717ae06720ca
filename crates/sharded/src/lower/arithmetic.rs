//! Replaces DataFusion's arithmetic in plans: that of decimals by a faster one, that of integers by one that
//! fails on overflow instead of wrapping around; comparisons of floats by those of SQL; and lists with
//! computed elements by comparisons.

use super::canonical;
use super::computed_lists::comparisons;
use super::decimal;
use super::formula::Formula;
use super::integer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use std::sync::{Arc, LazyLock};

/// Replaces the arithmetic of a plan.
///
/// # Errors
/// If a node cannot be rebuilt.
pub(crate) fn rewrite_arithmetic(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|plan| canonical::rewrite_node(plan)?.transform_data(rewrite_node)).data()
}

/// Replaces the arithmetic of one node.
///
/// # Errors
/// If the node cannot be rebuilt.
pub(super) fn rewrite_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let computes = matches!(
        plan,
        LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Join(_)
    );
    if !computes {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = expr.transform_up(|expr| rewrite(expr, &schema))?;
        Ok(expr.update_data(|expr| name.restore(expr)))
    })
}

/// Replaces the arithmetic of an expression over these columns.
///
/// # Errors
/// If the types of the expression are wrong.
pub(super) fn expression(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|expr| rewrite(expr, schema)).data()
}

/// Replaces the operation at the root of an expression.
fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Some(compared) = comparisons(&expr, |equal| rewrite(equal, schema).data())? {
        return Ok(Transformed::yes(compared));
    }
    if let Some(compared) = canonical::comparison(&expr, schema) {
        return Ok(Transformed::yes(compared));
    }
    if let Expr::Negative(number) = &expr {
        return negate(number, schema).map(|negated| match negated {
            Some(negated) => Transformed::yes(negated),
            None => Transformed::no(expr),
        });
    }
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return Ok(Transformed::no(expr)) };
    let types = (left.get_type(schema)?, right.get_type(schema)?);
    let is_replaced = matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply);
    Ok(match () {
        () if is_replaced && decimal::is_supported(&types) => {
            Transformed::yes(call(&DECIMAL_FUNCTIONS[index_of(op)], vec![*left, *right]))
        }
        () if is_replaced && integer::is_supported(&types) => Transformed::yes(formula(op, *left, *right)),
        () => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
    })
}

/// An integer with the other sign, which the least integer of a type has not.
fn negate(number: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let kind = number.get_type(schema)?;
    if !kind.is_signed_integer() || matches!(number, Expr::Literal(..)) {
        return Ok(None);
    }
    let zero = lit(ScalarValue::new_zero(&kind)?);
    Ok(Some(formula(Operator::Minus, zero, number.clone())))
}

/// A call of a function.
fn call(function: &Arc<ScalarUDF>, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args))
}

/// An operation on integers. Operands that are formulas become a part of it.
fn formula(op: Operator, left: Expr, right: Expr) -> Expr {
    let mut args = Vec::new();
    let left = operand(left, &mut args);
    let formula = Formula::of(op, left, operand(right, &mut args));
    // DataFusion compares functions by their names.
    let name = format!("integer {formula}");
    let signature = Signature::variadic_any(Volatility::Immutable);
    call(&Arc::new(ScalarUDF::new_from_impl(IntegerFormula { name, formula, signature })), args)
}

/// An operand of a formula; its arguments are appended.
fn operand(expr: Expr, args: &mut Vec<Expr>) -> Formula {
    let first = args.len();
    if let Expr::ScalarFunction(call) = &expr
        && let Some(integers) = call.func.inner().downcast_ref::<IntegerFormula>()
    {
        args.extend_from_slice(&call.args);
        return integers.formula.clone().after(first);
    }
    args.push(expr);
    Formula::Argument(first)
}

/// The formula that a function computes, if it is one of integers.
pub(super) fn integer_formula(function: &ScalarUDF) -> Option<&Formula> {
    function.inner().downcast_ref::<IntegerFormula>().map(|integers| &integers.formula)
}

/// Addition, subtraction and multiplication of decimals.
static DECIMAL_FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 3]> = LazyLock::new(|| {
    let named = [("plus", Operator::Plus), ("minus", Operator::Minus), ("times", Operator::Multiply)];
    named.map(|(name, op)| {
        let signature = Signature::any(2, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(DecimalOperation {
            name: format!("decimal_{name}"),
            op,
            signature,
        }))
    })
});

/// The index of an operation among the three.
fn index_of(op: Operator) -> usize {
    match op {
        Operator::Plus => 0,
        Operator::Minus => 1,
        _ => 2,
    }
}

/// A formula of integers of one type, as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IntegerFormula {
    name: String,
    formula: Formula,
    signature: Signature,
}

impl ScalarUDFImpl for IntegerFormula {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(first) => Ok(first.clone()),
            None => internal_err!("a formula has arguments"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        return_field(self, args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        integer::compute(&self.formula, &args.args)
    }
}

/// The field of a result, which is nullable if an argument is.
fn return_field(function: &dyn ScalarUDFImpl, args: ReturnFieldArgs) -> Result<FieldRef> {
    let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
    let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
    Ok(Arc::new(Field::new(function.name(), function.return_type(&types)?, nullable)))
}

/// An operation on two decimals, as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DecimalOperation {
    name: String,
    op: Operator,
    signature: Signature,
}

impl ScalarUDFImpl for DecimalOperation {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else { return internal_err!("{} has two arguments", self.name) };
        decimal::result_type(self.op, left, right)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        return_field(self, args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("{} has two arguments", self.name);
        };
        decimal::compute(self.op, left, right, args.number_rows, args.return_type())
    }
}
