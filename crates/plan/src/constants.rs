//! Integer and decimal arithmetic in constant expressions. DataFusion folds constants with arithmetic that
//! wraps around, or gives decimals more digits than they have: `9223372036854775807 + 1` would become
//! another number.
//!
//! Before it does, sums, differences and products without columns are replaced by calls of a function that
//! fails on overflow, as the same over rows does. So are those in a lambda over a constant list. A call
//! of two literals is computed at once: a call asks for the names of all that is below it, so that a chain of
//! calls would take the cube of its length. A call that fails is not folded. It stays in the plan and fails
//! when it is run, but not in a branch of a `case` that is never reached.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeRewriter};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{HigherOrderFunction, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr_common::datum::apply;
use std::sync::{Arc, LazyLock};

/// The most rounds of simplification of one expression, as in DataFusion.
const ROUNDS: usize = 3;

/// The rule that simplifies expressions, with checks for overflow.
#[derive(Debug)]
pub(crate) struct ConstantFolding(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for ConstantFolding {
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
        // The filters of a scan were simplified before they were pushed into it.
        if matches!(plan, LogicalPlan::TableScan(_)) || !plan_has_arithmetic(&plan) {
            return self.0.rewrite(plan, config);
        }
        let context = SimplifyContext::builder()
            .with_schema(Arc::new(merge_schema(&plan.inputs())))
            .with_config_options(config.options())
            .with_query_execution_start_time(config.query_execution_start_time())
            .build();
        // The two sides of a comparison in a join must not be swapped.
        let reorder = !matches!(plan, LogicalPlan::Join(_));
        let simplifier = ExprSimplifier::new(context).with_canonicalize(reorder).with_max_cycles(1);
        let names = NamePreserver::new(&plan);
        let of_named = |expr: Expr| {
            if !has_arithmetic(&expr) {
                return Ok(Transformed::no(expr));
            }
            let name = names.save(&expr);
            Ok(simplify_in_rounds(expr, &simplifier)?.update_data(|expr| name.restore(expr)))
        };
        let plan = plan.map_expressions(|expr| match expr {
            // Each group has a name of its own.
            Expr::GroupingSet(_) => expr.map_children(of_named),
            expr => of_named(expr),
        })?;
        plan.transform_data(|plan| self.0.rewrite(plan, config))
    }
}

/// Simplifies an expression whose types are coerced.
///
/// # Errors
/// What DataFusion says of a value that cannot be computed.
pub(crate) fn simplify(expr: Expr, simplifier: ExprSimplifier) -> Result<Expr> {
    match has_arithmetic(&expr) {
        true => Ok(simplify_in_rounds(expr, &simplifier.with_max_cycles(1))?.data),
        false => simplifier.simplify(expr),
    }
}

/// Inserts the checks before each round, because a round may create the constants that the next one folds.
fn simplify_in_rounds(expr: Expr, once: &ExprSimplifier) -> Result<Transformed<Expr>> {
    let mut simple = Transformed::no(expr);
    for _ in 0..ROUNDS {
        let round = simple
            .data
            .rewrite(&mut CheckConstants::default())?
            .transform_data(|expr| Ok(once.simplify_with_cycle_count_transformed(expr)?.0))?;
        let again = round.transformed;
        simple = Transformed::new_transformed(round.data, simple.transformed || again);
        if !again {
            break;
        }
    }
    Ok(simple)
}

fn plan_has_arithmetic(plan: &LogicalPlan) -> bool {
    let mut any = false;
    // The closure never fails.
    let _ = plan.apply_expressions(|expr| {
        any = has_arithmetic(expr);
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    any
}

fn has_arithmetic(expr: &Expr) -> bool {
    let found = |expr: &Expr| {
        Ok(matches!(expr, Expr::BinaryExpr(binary) if CheckedArithmetic::of(binary.op).is_some()))
    };
    // The closure never fails.
    expr.exists(found).unwrap_or(true)
}

/// Replaces the operators that DataFusion would fold.
#[derive(Default)]
struct CheckConstants {
    /// For each expression on the way down, what is known of everything below it that was visited.
    visited: Vec<Visited>,
}

/// What is known of the operands of an expression.
#[derive(Debug, Clone, Copy)]
struct Visited {
    /// All are constant.
    constant: bool,
    /// One is a sum, a difference or a product that is too large. What is computed of it fails with it, and
    /// needs no check.
    fails: bool,
}

impl TreeNodeRewriter for CheckConstants {
    type Node = Expr;

    fn f_down(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        self.visited.push(Visited { constant: true, fails: false });
        Ok(Transformed::no(expr))
    }

    fn f_up(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let below = self.visited.pop().unwrap_or(Visited { constant: false, fails: false });
        let constant = below.constant && is_foldable(&expr);
        let checked = match expr {
            Expr::BinaryExpr(binary) if constant && !below.fails && !has_lambda_variables(&binary) => {
                check_overflow(binary)
            }
            // Its lists are constant, and so is what the lambda makes of them.
            Expr::HigherOrderFunction(_) if constant => expr.map_children(|child| match child {
                Expr::Lambda(_) => child.transform_up(|inner| match inner {
                    Expr::BinaryExpr(binary) => check_overflow(binary),
                    other => Ok(Transformed::no(other)),
                }),
                other => Ok(Transformed::no(other)),
            }),
            other => Ok(Transformed::no(other)),
        }?;
        if let Some(around) = self.visited.last_mut() {
            around.constant &= constant;
            around.fails |= match &checked.data {
                // A call of literals that does not fail was computed.
                Expr::ScalarFunction(ScalarFunction { func, args }) => {
                    let literal = |arg: &Expr| matches!(arg, Expr::Literal(_, None));
                    func.inner().is::<CheckedArithmetic>() && args.iter().all(literal)
                }
                Expr::BinaryExpr(_) => below.fails,
                _ => false,
            };
        }
        Ok(checked)
    }
}

/// Whether DataFusion folds an expression of this kind if its operands are constant.
fn is_foldable(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, .. }) => {
            func.signature().volatility != Volatility::Volatile
        }
        Expr::HigherOrderFunction(HigherOrderFunction { func, .. }) => {
            func.signature().volatility != Volatility::Volatile
        }
        Expr::Literal(..)
        | Expr::Lambda(_)
        | Expr::LambdaVariable(_)
        | Expr::Alias(_)
        | Expr::BinaryExpr(_)
        | Expr::Not(_)
        | Expr::IsNotNull(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Negative(_)
        | Expr::Between(_)
        | Expr::Like(_)
        | Expr::SimilarTo(_)
        | Expr::Case(_)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::InList(_) => true,
        _ => false,
    }
}

fn has_lambda_variables(BinaryExpr { left, right, .. }: &BinaryExpr) -> bool {
    let is_variable = |expr: &Expr| Ok(matches!(expr, Expr::LambdaVariable(_)));
    // The closure never fails.
    [left, right].into_iter().any(|side| side.exists(is_variable).unwrap_or(true))
}

fn check_overflow(binary: BinaryExpr) -> Result<Transformed<Expr>> {
    let unit = DFSchema::empty();
    let BinaryExpr { left, op, right } = &binary;
    let function = CheckedArithmetic::of(*op).filter(|_| {
        let types = (left.get_type(&unit), right.get_type(&unit));
        match types {
            (Ok(left), Ok(right)) => {
                (left.is_integer() && left == right) || (is_decimal(&left) && is_decimal(&right))
            }
            _ => false,
        }
    });
    Ok(match function {
        Some(function) => {
            let computed = literals(&binary).and_then(|(left, right)| compute(binary.op, left, right).ok());
            let call = || function.call(vec![*binary.left, *binary.right]);
            Transformed::yes(computed.map_or_else(call, |value| Expr::Literal(value, None)))
        }
        None => Transformed::no(Expr::BinaryExpr(binary)),
    })
}

/// The operands, if they are literals.
fn literals(BinaryExpr { left, right, .. }: &BinaryExpr) -> Option<(&ScalarValue, &ScalarValue)> {
    match (left.as_ref(), right.as_ref()) {
        (Expr::Literal(left, None), Expr::Literal(right, None)) => Some((left, right)),
        _ => None,
    }
}

/// The sum, the difference or the product of two numbers.
///
/// # Errors
/// `ArrowError` if it is too large.
fn compute(op: Operator, left: &ScalarValue, right: &ScalarValue) -> Result<ScalarValue> {
    let [left, right] = [left, right].map(|value| ColumnarValue::Scalar(value.clone()));
    match checked(op, &left, &right)? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0),
    }
}

/// The sums, differences or products of numbers.
///
/// # Errors
/// `ArrowError` if one is too large.
fn checked(op: Operator, left: &ColumnarValue, right: &ColumnarValue) -> Result<ColumnarValue> {
    let computed = match op {
        Operator::Plus => apply(left, right, add),
        Operator::Minus => apply(left, right, sub),
        _ => apply(left, right, mul),
    }?;
    check_digits(&computed)?;
    Ok(computed)
}

/// The functions that fail on overflow.
pub(crate) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let operators = [Operator::Plus, Operator::Minus, Operator::Multiply];
    operators.into_iter().filter_map(|op| Some(Arc::new(CheckedArithmetic::of(op)?.clone())))
}

/// Whether it is a decimal whose sums and products are checked.
fn is_decimal(kind: &DataType) -> bool {
    matches!(kind, DataType::Decimal128(..) | DataType::Decimal256(..))
}

/// An operation on two integers of one type, or on two decimals, that fails on overflow.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedArithmetic {
    name: &'static str,
    op: Operator,
    signature: Signature,
}

impl CheckedArithmetic {
    /// The function that replaces an operator, if there is one.
    fn of(op: Operator) -> Option<&'static ScalarUDF> {
        static FUNCTIONS: LazyLock<[ScalarUDF; 3]> = LazyLock::new(|| {
            let named = [("plus", Operator::Plus), ("minus", Operator::Minus), ("times", Operator::Multiply)];
            named.map(|(name, op)| {
                ScalarUDF::from(CheckedArithmetic {
                    name,
                    op,
                    signature: Signature::any(2, Volatility::Immutable),
                })
            })
        });
        let [plus, minus, times] = &*FUNCTIONS;
        match op {
            Operator::Plus => Some(plus),
            Operator::Minus => Some(minus),
            Operator::Multiply => Some(times),
            _ => None,
        }
    }
}

impl ScalarUDFImpl for CheckedArithmetic {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [left, right] if is_decimal(left) => {
                BinaryTypeCoercer::new(left, &self.op, right).get_result_type()
            }
            [left, _] => Ok(left.clone()),
            _ => internal_err!("{} is of two numbers", self.name),
        }
    }

    /// The result is null where an operand is.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("{} is of two numbers", self.name);
        };
        checked(self.op, left, right)
    }
}

/// Checks that decimals have no more digits than their type.
fn check_digits(values: &ColumnarValue) -> Result<()> {
    let values = values.to_array(1)?;
    match values.data_type() {
        DataType::Decimal128(digits, _) => {
            Ok(values.as_primitive::<Decimal128Type>().validate_decimal_precision(*digits)?)
        }
        DataType::Decimal256(digits, _) => {
            Ok(values.as_primitive::<Decimal256Type>().validate_decimal_precision(*digits)?)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit, when};

    fn simple(expr: Expr) -> Expr {
        let field = Field::new("a", DataType::Int64, false);
        let schema = DFSchema::from_unqualified_fields(vec![field].into(), Default::default()).unwrap();
        let context = SimplifyContext::builder().with_schema(Arc::new(schema)).build();
        simplify(expr, ExprSimplifier::new(context)).unwrap()
    }

    fn plus(left: i64, right: i64) -> Expr {
        CheckedArithmetic::of(Operator::Plus).unwrap().call(vec![lit(left), lit(right)])
    }

    #[test]
    fn what_fits_is_computed() {
        assert_eq!(simple(lit(2_i64) * (lit(3_i64) - lit(4_i64)) + lit(1_i64)), lit(-1_i64));
        assert_eq!(simple(lit(i64::MAX) - lit(1_i64) + lit(1_i64)), lit(i64::MAX));
        assert_eq!(simple(lit(0.5) + lit(0.5)), lit(1.0));
        let null = lit(ScalarValue::Int64(None));
        assert_eq!(simple(null.clone() + lit(1_i64)), null);
    }

    #[test]
    fn what_is_too_large_stays() {
        assert_eq!(simple(lit(i64::MAX) + lit(1_i64)), plus(i64::MAX, 1));
        assert_eq!(simple(col("a") + (lit(i64::MAX) + lit(1_i64))), col("a") + plus(i64::MAX, 1));
        assert!(matches!(simple(lit(200_u8) + lit(100_u8)), Expr::ScalarFunction(_)));
    }

    #[test]
    fn decimals_with_too_many_digits_stay() {
        let decimal = |number: i128| lit(ScalarValue::Decimal128(Some(number), 38, 0));
        let most = 10_i128.pow(38) - 1;
        assert_eq!(simple(decimal(most - 1) + decimal(1)), decimal(most));
        assert!(matches!(simple(decimal(most) + decimal(1)), Expr::ScalarFunction(_)));
        assert!(matches!(simple(decimal(most) * decimal(2)), Expr::ScalarFunction(_)));
    }

    /// What is computed of a number that is too large fails with it.
    #[test]
    fn long_chains_are_computed() {
        // As deep as the stack of a test's thread has room for.
        let chain = |first: i64| (0..200).fold(lit(first), |sum, _| sum + lit(1_i64));
        assert_eq!(simple(chain(0)), lit(200_i64));
        let fails = simple(chain(i64::MAX - 100));
        let first = fails.exists(|expr| Ok(*expr == plus(i64::MAX, 1))).unwrap();
        assert!(first, "{fails}");
    }

    #[test]
    fn what_becomes_a_constant_in_the_same_round_is_checked() {
        let cast = datafusion::logical_expr::cast(lit("1"), DataType::Int64);
        assert_eq!(simple((cast + lit(i64::MAX - 1)) + lit(1_i64)), plus(i64::MAX, 1));
    }

    #[test]
    fn branches_that_are_not_reached_do_not_fail() {
        let too_large = || lit(i64::MAX) + lit(1_i64);
        let case = when(lit(false), too_large()).otherwise(lit(0_i64)).unwrap();
        assert_eq!(simple(case), lit(0_i64));
    }

    /// The column is never null, which is known after the first round.
    #[test]
    fn constants_that_simplifying_makes_are_looked_at() {
        let most = when(col("a").is_null(), lit(0_i64)).otherwise(lit(i64::MAX)).unwrap();
        assert_eq!(simple(most + lit(1_i64)), plus(i64::MAX, 1));
    }
}
