//! Arithmetic that is not the library's: of decimals because ours is faster, of whole numbers because ours fails where a
//! result is too large, and does not hand out another number.

use super::{decimal, integer};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// The plan with its arithmetic done here.
pub(crate) fn ours(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(of_step).data()
}

/// One step of a plan with its arithmetic done here.
pub(super) fn of_step(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let computes = matches!(
        plan,
        LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)
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

fn rewritten(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return Ok(Transformed::no(expr)) };
    let types = (left.get_type(schema)?, right.get_type(schema)?);
    Ok(match function(op, &types) {
        Some(function) => {
            let args = vec![*left, *right];
            Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args)))
        }
        None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
    })
}

/// The function that an operation on these types is, if it is done here.
fn function(op: Operator, types: &(DataType, DataType)) -> Option<&'static Arc<ScalarUDF>> {
    let [plus, minus, times] = match Numbers::of(types)? {
        Numbers::Decimals => &*DECIMALS,
        Numbers::Integers => &*INTEGERS,
    };
    match op {
        Operator::Plus => Some(plus),
        Operator::Minus => Some(minus),
        Operator::Multiply => Some(times),
        _ => None,
    }
}

static DECIMALS: LazyLock<[Arc<ScalarUDF>; 3]> =
    LazyLock::new(|| Operation::all(Numbers::Decimals, "decimal"));
static INTEGERS: LazyLock<[Arc<ScalarUDF>; 3]> =
    LazyLock::new(|| Operation::all(Numbers::Integers, "integer"));

/// What is added, subtracted or multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Numbers {
    Decimals,
    Integers,
}

impl Numbers {
    fn of(types: &(DataType, DataType)) -> Option<Numbers> {
        if decimal::is_possible(types) {
            return Some(Numbers::Decimals);
        }
        integer::is_possible(types).then_some(Numbers::Integers)
    }
}

/// An operation on two numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Operation {
    name: String,
    op: Operator,
    numbers: Numbers,
    signature: Signature,
}

impl Operation {
    fn all(numbers: Numbers, kind: &str) -> [Arc<ScalarUDF>; 3] {
        let named = [("plus", Operator::Plus), ("minus", Operator::Minus), ("times", Operator::Multiply)];
        named.map(|(name, op)| {
            let signature = Signature::any(2, Volatility::Immutable);
            let name = format!("{kind}_{name}");
            Arc::new(ScalarUDF::new_from_impl(Operation { name, op, numbers, signature }))
        })
    }
}

impl ScalarUDFImpl for Operation {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else { return internal_err!("{} has two arguments", self.name) };
        match self.numbers {
            Numbers::Decimals => decimal::result_type(self.op, left, right),
            Numbers::Integers => Ok(left.clone()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(&self.name, self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("{} has two arguments", self.name);
        };
        match self.numbers {
            Numbers::Decimals => decimal::compute(self.op, left, right, args.number_rows, args.return_type()),
            Numbers::Integers => integer::compute(self.op, left, right),
        }
    }
}
