//! Arithmetic below joins: what is computed of one side of a join is computed before it, if that is narrower
//! than what it is computed of.
//!
//! `l_extendedprice * (1 - l_discount)` above a join carries two columns through it, which a hash join copies
//! twice; below, it is one. Only arithmetic that cannot fail is moved, because a row that finds no partner
//! must not fail the query; and only where the join is not expected to leave out most rows of the side.
//!
//! Invariant: the columns of the plan stay, with their names and types.

use crate::tree::{transform_down, transform_expr_down};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, HashMap, HashSet, JoinType, Result, ScalarValue};
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection,
};
use std::sync::Arc;
use whimbrel_plan::estimate::Estimator;

/// What is moved is computed for at most so many times as many rows as the join gives.
const MOST_WASTE: f64 = 2.0;

/// What is moved has at most so many operations, columns and constants.
const MOST_NODES: usize = 100;

/// Moves arithmetic below joins.
///
/// # Errors
/// `Plan` if a join cannot be built over the computed columns.
pub(super) fn compute_early(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_down(plan, &mut |plan| {
        let LogicalPlan::Projection(projection) = &plan else { return Ok(Transformed::no(plan)) };
        let LogicalPlan::Join(join) = below_columns(&projection.input) else {
            return Ok(Transformed::no(plan));
        };
        if join.join_type != JoinType::Inner {
            return Ok(Transformed::no(plan));
        }
        match with_early_values(projection, join)? {
            Some(early) => Ok(Transformed::yes(early)),
            None => Ok(Transformed::no(plan)),
        }
    })
    .data()
}

/// The plan below projections that only pick columns.
fn below_columns(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Projection(picked) if picked.expr.iter().all(|e| matches!(e, Expr::Column(_))) => {
            below_columns(&picked.input)
        }
        other => other,
    }
}

/// The projection with what it computes of one side of the join below that join, if something is.
fn with_early_values(projection: &Projection, join: &Join) -> Result<Option<LogicalPlan>> {
    let mut exprs = projection.expr.clone();
    let mut sides = [Arc::clone(&join.left), Arc::clone(&join.right)];
    let mut count = 0;
    for side in &mut sides {
        let Some(early) = EarlyValues::of(&exprs, side, join, count)? else { continue };
        count += early.values.len();
        *side = Arc::new(early.below(side)?);
        exprs = exprs.into_iter().map(|expr| early.replaced(expr)).collect::<Result<_>>()?;
    }
    if count == 0 {
        return Ok(None);
    }
    let [left, right] = sides.map(Arc::unwrap_or_clone);
    let plan = LogicalPlan::Join(join.clone());
    let joined = plan.with_new_exprs(plan.expressions(), vec![left, right])?;
    let named = exprs.into_iter().zip(projection.schema.iter()).map(|(expr, (qualifier, field))| {
        match expr.qualified_name() == (qualifier.cloned(), field.name().clone()) {
            true => expr,
            false => expr.unalias().alias_qualified(qualifier.cloned(), field.name()),
        }
    });
    Ok(Some(LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::new(joined))?)))
}

/// What is computed below a join, on one side of it.
struct EarlyValues {
    /// The values, in their order.
    values: Vec<Expr>,
    /// The columns that hold them.
    columns: HashMap<Expr, Column>,
    /// The other columns of the side that are read above.
    kept: HashSet<Column>,
}

impl EarlyValues {
    /// What pays of these expressions over a join; its columns are numbered from `first` on.
    fn of(exprs: &[Expr], side: &LogicalPlan, join: &Join, first: usize) -> Result<Option<EarlyValues>> {
        let schema = side.schema();
        let (mut values, mut columns) = (Vec::new(), HashMap::new());
        for expr in exprs {
            transform_expr_down(expr.clone(), &mut |e| {
                let found = is_short_arithmetic(&e) && is_of(&e, schema) && cannot_fail(&e, schema);
                if found && !columns.contains_key(&e) {
                    let column = Column::from_name(format!("__early_{}", first + values.len()));
                    columns.insert(e.clone(), column);
                    values.push(e.clone());
                }
                let on = if found { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue };
                Ok(Transformed::new(e, false, on))
            })?;
        }
        if values.is_empty() {
            return Ok(None);
        }
        let mut early = EarlyValues { values, columns, kept: HashSet::new() };
        let above = exprs.iter().map(|expr| early.replaced(expr.clone())).collect::<Result<Vec<_>>>()?;
        let conditions = LogicalPlan::Join(join.clone()).expressions();
        let read: HashSet<Column> = above
            .iter()
            .chain(&conditions)
            .flat_map(|expr| expr.column_refs().into_iter().cloned().collect::<Vec<_>>())
            .collect();
        early.kept = schema.columns().into_iter().filter(|column| read.contains(column)).collect();
        let pays = early.saved_bytes(schema)? > 0 && is_mostly_joined(side, join);
        Ok(pays.then_some(early))
    }

    /// How many bytes a row of the side becomes narrower by.
    fn saved_bytes(&self, schema: &DFSchema) -> Result<i64> {
        let mut columns = HashSet::new();
        let mut computed = 0;
        for value in &self.values {
            columns.extend(value.column_refs().into_iter().cloned());
            computed += bytes(&value.get_type(schema)?);
        }
        let gone = columns.iter().filter(|column| !self.kept.contains(*column));
        let gone = gone.map(|column| Ok(bytes(schema.field_from_column(column)?.data_type())));
        Ok(gone.sum::<Result<i64>>()? - computed)
    }

    /// The side with the values as columns.
    fn below(&self, side: &LogicalPlan) -> Result<LogicalPlan> {
        let kept = side.schema().columns().into_iter().filter(|column| self.kept.contains(column));
        let kept = kept.map(Expr::Column);
        let values = self.values.iter().map(|value| value.clone().alias(&self.columns[value].name));
        let columns = kept.chain(values).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(side.clone()))?))
    }

    /// An expression with the columns in place of what they hold.
    fn replaced(&self, expr: Expr) -> Result<Expr> {
        let column = |e: &Expr| is_short_arithmetic(e).then(|| self.columns.get(e).cloned()).flatten();
        transform_expr_down(expr, &mut |e| match column(&e) {
            Some(column) => Ok(Transformed::new(Expr::Column(column), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(e)),
        })
        .data()
    }
}

/// Whether an expression is arithmetic of few operations. Longer ones stay: each of their parts would be
/// looked at again and again.
fn is_short_arithmetic(expr: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { op, .. }) = expr else { return false };
    let mut nodes = 0;
    // Visiting does not fail.
    let _ = expr.apply(|_| {
        nodes += 1;
        Ok(if nodes > MOST_NODES { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    nodes <= MOST_NODES
        && matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide)
}

/// Whether an expression reads columns of a side only, and at least one.
fn is_of(expr: &Expr, side: &DFSchema) -> bool {
    let columns = expr.column_refs();
    !columns.is_empty() && columns.into_iter().all(|column| side.has_column(column))
}

/// Whether a join is expected to keep a good part of the rows of a side.
fn is_mostly_joined(side: &LogicalPlan, join: &Join) -> bool {
    let estimator = Estimator::default();
    let joined = estimator.estimate(&LogicalPlan::Join(join.clone())).rows;
    estimator.estimate(side).rows <= MOST_WASTE * joined
}

/// The bytes of a value in a column.
fn bytes(data_type: &DataType) -> i64 {
    data_type.primitive_width().map_or(16, |width| width as i64)
}

/// Whether arithmetic has a result for all values of its columns.
fn cannot_fail(expr: &Expr, schema: &DFSchema) -> bool {
    digits(expr, schema).is_some() || is_of_floats(expr, schema)
}

/// Whether arithmetic is of floats alone, which has an infinity for what is too large.
fn is_of_floats(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let is_arithmetic =
                matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide);
            is_arithmetic && is_of_floats(left, schema) && is_of_floats(right, schema)
        }
        Expr::Column(_) | Expr::Literal(..) => expr
            .get_type(schema)
            .is_ok_and(|data_type| matches!(data_type, DataType::Float64 | DataType::Float32)),
        _ => false,
    }
}

/// The digits of a decimal: before the point, at most, and behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Digits {
    before: i32,
    behind: i32,
}

/// The digits of sums, differences and products of decimals; none of what may be too large, or is something
/// else.
fn digits(expr: &Expr, schema: &DFSchema) -> Option<Digits> {
    let DataType::Decimal128(precision, scale) = expr.get_type(schema).ok()? else { return None };
    let (precision, scale) = (i32::from(precision), i32::from(scale));
    let found = match expr {
        Expr::Column(_) => Digits { before: precision - scale, behind: scale },
        Expr::Literal(ScalarValue::Decimal128(Some(value), ..), _) => {
            Digits { before: digits_of(*value) - scale, behind: scale }
        }
        Expr::Cast(Cast { expr, .. }) => {
            let from = digits_of_operand(expr, schema)?;
            (from.behind <= scale).then_some(Digits { behind: scale, ..from })?
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (l, r) = (digits(left, schema)?, digits(right, schema)?);
            match op {
                Operator::Plus | Operator::Minus if scale == l.behind.max(r.behind) => {
                    Digits { before: l.before.max(r.before).max(0) + 1, behind: scale }
                }
                Operator::Multiply if scale == l.behind + r.behind => {
                    Digits { before: l.before.max(0) + r.before.max(0), behind: scale }
                }
                _ => return None,
            }
        }
        _ => return None,
    };
    (found.before + found.behind <= precision).then_some(found)
}

/// The digits of what is cast to a decimal.
fn digits_of_operand(expr: &Expr, schema: &DFSchema) -> Option<Digits> {
    let integer = |before| Some(Digits { before, behind: 0 });
    match (expr, expr.get_type(schema).ok()?) {
        (Expr::Literal(ScalarValue::Int64(Some(value)), _), _) => integer(digits_of(i128::from(*value))),
        (Expr::Column(_), DataType::Int64 | DataType::UInt64) => integer(20),
        (Expr::Column(_), DataType::Int32 | DataType::UInt32) => integer(10),
        (_, DataType::Decimal128(..)) => digits(expr, schema),
        _ => None,
    }
}

/// How many digits a number has.
fn digits_of(value: i128) -> i32 {
    value.unsigned_abs().checked_ilog10().map_or(0, |log| log as i32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::Field;
    use datafusion::logical_expr::{col, lit};

    fn schema() -> DFSchema {
        let decimal = |name, precision| Field::new(name, DataType::Decimal128(precision, 2), true);
        let fields = vec![
            decimal("price", 15),
            decimal("discount", 15),
            decimal("large", 37),
            Field::new("x", DataType::Float64, true),
            Field::new("n", DataType::Int64, true),
        ];
        DFSchema::from_unqualified_fields(fields.into(), Default::default()).unwrap()
    }

    #[test]
    fn only_arithmetic_that_has_a_result_is_moved() {
        let schema = schema();
        let one = || lit(ScalarValue::Decimal128(Some(1), 20, 0));
        assert!(cannot_fail(&(col("price") * (one() - col("discount"))), &schema));
        assert!(cannot_fail(&(col("price") + col("discount")), &schema));
        assert!(cannot_fail(&(col("x") / col("x")), &schema));
        assert!(!cannot_fail(&(col("large") * col("price")), &schema));
        assert!(cannot_fail(&(col("large") + col("large")), &schema));
        assert!(!cannot_fail(&(col("n") + col("n")), &schema));
        assert!(!cannot_fail(&(col("price") / col("discount")), &schema));
    }

    #[test]
    fn digits_are_counted() {
        assert_eq!([0, 1, 9, 10, -99, 100].map(digits_of), [0, 1, 1, 2, 2, 3]);
        let digits = digits(&col("price"), &schema());
        assert_eq!(digits, Some(Digits { before: 13, behind: 2 }));
    }
}
