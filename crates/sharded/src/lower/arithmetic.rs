//! Arithmetic that is not the library's: of decimals because ours is faster, of whole numbers because ours fails where a
//! result is too large, and does not hand out another number; and comparisons of floats.

use super::canonical;
use super::decimal;
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
use whimbrel_temporal::formula::Formula;

/// The plan with its arithmetic done here.
pub(crate) fn ours(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|plan| canonical::of_step(plan)?.transform_data(of_step)).data()
}

/// One step of a plan with its arithmetic done here.
pub(super) fn of_step(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
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
        let expr = expr.transform_up(|expr| rewritten(expr, &schema))?;
        Ok(expr.update_data(|expr| name.restore(expr)))
    })
}

/// An expression over such columns with its arithmetic done here.
pub(super) fn expression(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|expr| rewritten(expr, schema)).data()
}

fn rewritten(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Some(compared) = canonical::comparison(&expr, schema) {
        return Ok(Transformed::yes(compared));
    }
    if let Expr::Negative(number) = &expr {
        return negated(number, schema).map(|negated| match negated {
            Some(negated) => Transformed::yes(negated),
            None => Transformed::no(expr),
        });
    }
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return Ok(Transformed::no(expr)) };
    let types = (left.get_type(schema)?, right.get_type(schema)?);
    let known = matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply);
    Ok(match () {
        () if known && decimal::is_possible(&types) => {
            Transformed::yes(call(&DECIMALS[place(op)], vec![*left, *right]))
        }
        () if known && integer::is_possible(&types) => Transformed::yes(formula(op, *left, *right)),
        () => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
    })
}

/// A whole number with the other sign: the least number of a type has none.
fn negated(number: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let kind = number.get_type(schema)?;
    if !kind.is_signed_integer() || matches!(number, Expr::Literal(..)) {
        return Ok(None);
    }
    let zero = lit(ScalarValue::new_zero(&kind)?);
    Ok(Some(formula(Operator::Minus, zero, number.clone())))
}

fn call(function: &Arc<ScalarUDF>, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args))
}

/// An operation on whole numbers; what its sides compute becomes a part of it.
fn formula(op: Operator, left: Expr, right: Expr) -> Expr {
    let mut args = Vec::new();
    let left = side(left, &mut args);
    let formula = Formula::of(op, left, side(right, &mut args));
    // Formulas are told apart by their names.
    let name = format!("integer {formula}");
    let signature = Signature::variadic_any(Volatility::Immutable);
    call(&Arc::new(ScalarUDF::new_from_impl(Integers { name, formula, signature })), args)
}

fn side(expr: Expr, args: &mut Vec<Expr>) -> Formula {
    let first = args.len();
    if let Expr::ScalarFunction(call) = &expr
        && let Some(integers) = call.func.inner().downcast_ref::<Integers>()
    {
        args.extend_from_slice(&call.args);
        return integers.formula.clone().after(first);
    }
    args.push(expr);
    Formula::Argument(first)
}

static DECIMALS: LazyLock<[Arc<ScalarUDF>; 3]> = LazyLock::new(|| {
    let named = [("plus", Operator::Plus), ("minus", Operator::Minus), ("times", Operator::Multiply)];
    named.map(|(name, op)| {
        let signature = Signature::any(2, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Decimals { name: format!("decimal_{name}"), op, signature }))
    })
});

/// Where an operation is among the three.
fn place(op: Operator) -> usize {
    match op {
        Operator::Plus => 0,
        Operator::Minus => 1,
        _ => 2,
    }
}

/// A formula of whole numbers of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Integers {
    name: String,
    formula: Formula,
    signature: Signature,
}

impl ScalarUDFImpl for Integers {
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
        returned(self, args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        integer::compute(&self.formula, &args.args)
    }
}

/// What a function returns has a null where one of its arguments has.
fn returned(function: &dyn ScalarUDFImpl, args: ReturnFieldArgs) -> Result<FieldRef> {
    let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
    let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
    Ok(Arc::new(Field::new(function.name(), function.return_type(&types)?, nullable)))
}

/// An operation on two decimals.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Decimals {
    name: String,
    op: Operator,
    signature: Signature,
}

impl ScalarUDFImpl for Decimals {
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
        returned(self, args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("{} has two arguments", self.name);
        };
        decimal::compute(self.op, left, right, args.number_rows, args.return_type())
    }
}
