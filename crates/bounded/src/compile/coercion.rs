//! Type coercion of a logical plan, before it is compiled.
//!
//! Constants are folded. The sides of a comparison get types that are compared without loss. A comparison of
//! a text with another type is refused, unless the text is a literal of that type.
//!
//! Invariant: the columns of the plan and of all its parts keep their names and their types.

use crate::datum::Type;
use crate::error::{Error, Result};
use crate::expression::{as_double, evaluate, is_double};
use crate::number::Number;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::error::DataFusionError;
use datafusion::functions::math::expr_fn::round;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, Volatility,
};

/// A result with DataFusion's error.
type Planned<T> = std::result::Result<T, DataFusionError>;

/// The plan with constants folded and both sides of comparisons of compatible types.
pub(super) fn coerce_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    let typed = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let typed = expr.transform_up(|expr| coerce_expr(expr, &schema))?;
            Ok(typed.update_data(|expr| name.restore(expr)))
        })
    });
    Ok(typed.map_err(Error::from)?.data)
}

/// One expression, its operands coerced already.
fn coerce_expr(expr: Expr, schema: &DFSchema) -> Planned<Transformed<Expr>> {
    let expr = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
            let (left, right) = comparable(*left, *right, schema)?;
            Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
        }
        Expr::InList(InList { expr, list, negated }) => in_list(*expr, list, negated, schema)?,
        Expr::Between(Between { expr, negated, low, high }) => {
            let (expr, low) = comparable(*expr, *low, schema)?;
            let (expr, high) = comparable(expr, *high, schema)?;
            let (_, low) = comparable(expr.clone(), low, schema)?;
            Expr::Between(Between::new(Box::new(expr), negated, Box::new(low), Box::new(high)))
        }
        Expr::Cast(cast) => round_cast(cast, schema),
        other => other,
    };
    Ok(match fold_constant(&expr) {
        Some(value) => Transformed::yes(Expr::Literal(value, None)),
        None => Transformed::yes(expr),
    })
}

/// Whether an operator compares its sides.
fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// `in (…)` with all values of a type that fits.
fn in_list(expr: Expr, list: Vec<Expr>, negated: bool, schema: &DFSchema) -> Planned<Expr> {
    let mut expr = expr;
    let mut values = Vec::with_capacity(list.len());
    for value in list {
        let (left, value) = comparable(expr, value, schema)?;
        expr = left;
        values.push(value);
    }
    Ok(Expr::InList(InList::new(Box::new(expr), values, negated)))
}

/// Two sides of a comparison, of types that are compared without loss.
fn comparable(left: Expr, right: Expr, schema: &DFSchema) -> Planned<(Expr, Expr)> {
    let (Ok(of_left), Ok(of_right)) = (left.get_type(schema), right.get_type(schema)) else {
        return Ok((left, right));
    };
    // DataFusion would compare them as decimals with fifteen digits behind the point.
    if is_double(&of_left) && of_right.is_decimal() {
        return Ok((left, double(right)));
    }
    if of_left.is_decimal() && is_double(&of_right) {
        return Ok((double(left), right));
    }
    Ok(match (&of_left, &of_right) {
        (DataType::Utf8, other) if is_not_text(other) => (text_as(left, &right, other)?, right),
        (other, DataType::Utf8) if is_not_text(other) => {
            let right = text_as(right, &left, other)?;
            (left, right)
        }
        _ => (left, right),
    })
}

/// Whether a literal text has to be read as this type.
fn is_not_text(of: &DataType) -> bool {
    of.is_numeric() || matches!(of, DataType::Boolean | DataType::Date32 | DataType::Timestamp(..))
}

/// The expression as a float; a literal is converted at once.
fn double(expr: Expr) -> Expr {
    match &expr {
        Expr::Literal(value, _) if let Some(value) = as_double(value) => Expr::Literal(value, None),
        _ => Expr::Cast(Cast::new(Box::new(expr), DataType::Float64)),
    }
}

/// A text compared with another type. A literal is converted to that type.
fn text_as(text: Expr, other: &Expr, of: &DataType) -> Planned<Expr> {
    let (shown, value) = match &text {
        Expr::Literal(ScalarValue::Utf8(None), _) => return Ok(text),
        Expr::Literal(value @ ScalarValue::Utf8(Some(shown)), _) => (shown, value),
        _ => {
            return plan_err!(
                "{} is a text, and {} is {}: put it in quotes, or cast one of them",
                text.human_display(),
                other.human_display(),
                sql_type_name(of)
            );
        }
    };
    let read = match of.is_integer() || of.is_decimal() {
        true => Number::of(value).and_then(Number::literal),
        false => value.cast_to(of).ok().filter(|value| !value.is_null()),
    };
    match read {
        Some(value) => Ok(Expr::Literal(value, None)),
        None => {
            plan_err!("{} is {}, and '{shown}' is none", other.human_display(), sql_type_name(of))
        }
    }
}

/// The SQL name of a type.
fn sql_type_name(of: &DataType) -> String {
    Type::holding(of).map_or_else(|| of.to_string(), |of| of.to_string())
}

/// A cast to a whole number rounds, as in PostgreSQL.
fn round_cast(cast: Cast, schema: &DFSchema) -> Expr {
    let from = cast.expr.get_type(schema);
    let cut = from.is_ok_and(|from| from.is_decimal() || is_double(&from));
    match cut && cast.field.data_type().is_integer() {
        true => Expr::Cast(Cast { expr: Box::new(round(vec![*cast.expr])), field: cast.field }),
        false => Expr::Cast(cast),
    }
}

/// The value of an operation on literals. One that fails is left, and fails when the statement runs.
fn fold_constant(expr: &Expr) -> Option<ScalarValue> {
    let operation = match expr {
        Expr::Cast(_) | Expr::BinaryExpr(_) | Expr::Negative(_) => true,
        Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Immutable,
        _ => false,
    };
    let mut literals = operation;
    // The closure does not fail.
    let _ = expr.apply_children(|child| {
        literals &= matches!(child, Expr::Literal(..));
        Ok(TreeNodeRecursion::Continue)
    });
    literals.then(|| evaluate(expr).ok())?
}
