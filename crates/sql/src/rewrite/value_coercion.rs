//! Values of two types that are compared or combined, where DataFusion coerces them otherwise than DuckDB.
//!
//! A float and a decimal are coerced to a float. DataFusion coerces them to decimals with fifteen digits
//! after the point, in which a small number is 0 and NaN has no place.
//!
//! A literal with a point is a decimal, so this is about `x > 0.5`, `coalesce(x, 0.0)` and a union with
//! `select 0.5`. A float of four bytes stays one: `f = 93.86` compares floats of four bytes, one of which is
//! nearest to 93.86.
//!
//! ```sql
//! select f > 0.5 from t;           -- f > cast(0.5 as double)
//! select coalesce(f, 0.0) from t;  -- coalesce(f, cast(0.0 as double))
//! ```
//!
//! A date, or a literal that says a time, is coerced to the timestamps beside it, with their zone. DataFusion
//! coerces them to nanoseconds, which end in the year 2262, and some of them to no zone.
//!
//! ```sql
//! select t < '9999-12-31' from r;  -- t < cast('9999-12-31' as timestamp)
//! ```

use crate::tree::{transform_expr_up, transform_up_with_subqueries};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Union, Values, cast,
};
use std::sync::Arc;

/// Functions that coerce their arguments to one type.
const COERCING_FUNCTIONS: [&str; 6] = ["coalesce", "greatest", "least", "make_array", "nullif", "nvl"];

/// The plan with casts where values of two types are compared or combined.
///
/// # Errors
/// `Plan` if a node cannot be built with the new types.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut retyped = false;
    transform_up_with_subqueries(plan, &mut |plan| {
        let before = types(&plan);
        let plan = match plan {
            LogicalPlan::Values(values) => coerce_values(values)?,
            LogicalPlan::Union(union) => coerce_union(union)?,
            LogicalPlan::Join(join) => coerce_join(join),
            plan => Transformed::no(plan),
        };
        let plan = plan.transform_data(coerce_expressions)?;
        // A node above a column of another type is of another type too.
        let plan = match plan.transformed || retyped {
            true => Transformed::yes(with_schema(plan.data)?),
            false => plan,
        };
        retyped |= before != types(&plan.data);
        Ok(plan)
    })
}

/// The plan with the schema that follows from what is below it.
fn with_schema(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Union(union) => Ok(LogicalPlan::Union(Union::try_new_with_loose_types(union.inputs)?)),
        plan => plan.recompute_schema(),
    }
}

/// The types of the columns of a plan.
fn types(plan: &LogicalPlan) -> Vec<DataType> {
    plan.schema().fields().iter().map(|field| field.data_type().clone()).collect()
}

/// The type that values of these types have together, if it is decided here; of lists, the list of such
/// values.
fn common<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    let within: Option<Vec<&DataType>> = types.clone().map(values_of).collect();
    if let Some(values) = within.filter(|values| !values.is_empty()) {
        return Some(DataType::new_list(common(values.into_iter())?, true));
    }
    float(types.clone()).or_else(|| timestamp(types))
}

/// The timestamp that values of these types are, if they are dates and timestamps, and some of them
/// timestamps: in the finest unit, and in the zone of one of them.
fn timestamp<'a>(types: impl Iterator<Item = &'a DataType>) -> Option<DataType> {
    let (mut finest, mut zone) = (None, None);
    for kind in types {
        match kind {
            DataType::Timestamp(unit, of) => {
                finest = finest.max(Some(*unit));
                zone = zone.or_else(|| of.clone());
            }
            DataType::Date32 | DataType::Date64 | DataType::Null => {}
            _ => return None,
        }
    }
    finest.map(|unit| DataType::Timestamp(unit, zone))
}

/// The float that values of these types are together, if they are numbers, and some of them floats.
fn float<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    let any = |kind: DataType| types.clone().any(|other| *other == kind).then_some(kind);
    let numbers = types.clone().all(|kind| kind.is_numeric() || kind.is_null());
    numbers.then(|| any(DataType::Float64).or_else(|| any(DataType::Float32)))?
}

/// The type of a list's values.
fn values_of(kind: &DataType) -> Option<&DataType> {
    match kind {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(field.data_type())
        }
        _ => None,
    }
}

/// Whether values of a type are cast to the common type. DataFusion casts integers to floats as we do.
fn is_cast(kind: &DataType, common: &DataType) -> bool {
    match (values_of(kind), values_of(common)) {
        (Some(kind), Some(common)) => is_cast(kind, common),
        _ => kind.is_decimal() || (matches!(common, DataType::Timestamp(..)) && differs(kind, common)),
    }
}

/// Whether it is another type, and has values.
fn differs(kind: &DataType, common: &DataType) -> bool {
    kind != common && !kind.is_null()
}

/// Casts values that are compared with one another to their common type. Returns whether one was cast.
fn coerce_compared(mut values: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    cast_to_common(&mut values, |value| type_of_compared(value, schema), is_cast)
}

/// Casts values that come out in one another's place to their common type, if they may be of several types
/// until then. Returns whether one was cast.
fn coerce_combined(mut values: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    cast_to_common(&mut values, |value| value.get_type(schema), is_cast)
}

/// The same of the results of a case: until its types are coerced, it has the type of the first.
fn coerce_results(mut values: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    cast_to_common(&mut values, |value| value.get_type(schema), differs)
}

/// Casts the chosen values to the common type, if it is decided here. Returns whether one was cast.
fn cast_to_common(
    values: &mut [&mut Expr],
    type_of: impl Fn(&Expr) -> Result<DataType>,
    chosen: fn(&DataType, &DataType) -> bool,
) -> bool {
    // An expression without a type is reported later, with its place.
    let Ok(types) = values.iter().map(|value| type_of(value)).collect::<Result<Vec<_>>>() else {
        return false;
    };
    let Some(common) = common(types.iter()) else { return false };
    let mut changed = false;
    for (value, kind) in values.iter_mut().zip(&types) {
        let is_text = matches!(value, Expr::Literal(literal, _) if literal.try_as_str().flatten().is_some());
        if chosen(kind, &common) || (is_text && matches!(common, DataType::Timestamp(..))) {
            **value = cast(std::mem::take(*value), common.clone());
            changed = true;
        }
    }
    changed
}

/// The type of a value that is compared: a literal text has that of the other side, and of the instant at
/// which a query runs, microseconds are enough.
fn type_of_compared(value: &Expr, schema: &DFSchema) -> Result<DataType> {
    match value {
        Expr::Literal(literal, _) if literal.try_as_str().flatten().is_some() => Ok(DataType::Null),
        Expr::ScalarFunction(call) if call.name() == "now" => match value.get_type(schema)? {
            DataType::Timestamp(_, zone) => Ok(DataType::Timestamp(TimeUnit::Microsecond, zone)),
            other => Ok(other),
        },
        value => value.get_type(schema),
    }
}

/// Coerces in the expressions of a node, which keep their names.
fn coerce_expressions(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    let keeping_name = |expr: Expr| {
        let name = names.save(&expr);
        Ok(transform_expr_up(expr, &mut |e| coerce_expr(e, &schema))?.update_data(|expr| name.restore(expr)))
    };
    plan.map_expressions(|expr| match expr {
        // Each group has a name of its own.
        Expr::GroupingSet(_) => expr.map_children(keeping_name),
        expr => keeping_name(expr),
    })
}

/// Coerces the operands of one expression.
fn coerce_expr(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::BinaryExpr(both) if compares(both.op) => {
            coerce_compared(vec![&mut both.left, &mut both.right], schema)
        }
        Expr::Between(between) => {
            coerce_compared(vec![&mut between.expr, &mut between.low, &mut between.high], schema)
        }
        Expr::InList(of) => {
            coerce_compared(std::iter::once(of.expr.as_mut()).chain(&mut of.list).collect(), schema)
        }
        Expr::InSubquery(of) => coerce_in_subquery(of, schema)?,
        Expr::ScalarFunction(call) if COERCING_FUNCTIONS.contains(&call.name()) => {
            coerce_combined(call.args.iter_mut().collect(), schema)
        }
        Expr::Case(case) => {
            let (mut compared, mut results) = (Vec::new(), Vec::new());
            for (when, then) in &mut case.when_then_expr {
                compared.push(when.as_mut());
                results.push(then.as_mut());
            }
            results.extend(case.else_expr.as_deref_mut());
            let of_operand = case.expr.as_deref_mut().is_some_and(|operand| {
                compared.push(operand);
                coerce_compared(compared, schema)
            });
            coerce_results(results, schema) || of_operand
        }
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// Whether an operator compares its operands.
fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// `x in (select d …)`
fn coerce_in_subquery(of: &mut InSubquery, schema: &DFSchema) -> Result<bool> {
    let rows = &of.subquery.subquery;
    let ([field], Ok(kind)) = (rows.schema().fields().as_ref(), of.expr.get_type(schema)) else {
        return Ok(false);
    };
    let Some(common) = common([&kind, field.data_type()].into_iter()) else { return Ok(false) };
    let (left, right) = (is_cast(&kind, &common), is_cast(field.data_type(), &common));
    if right {
        let rows = in_types(rows, &[Some(common.clone())])?;
        of.subquery = of.subquery.with_plan(rows);
    }
    if left {
        *of.expr = cast(std::mem::take(of.expr.as_mut()), common);
    }
    Ok(left || right)
}

/// The rows with some of their columns in other types.
fn in_types(rows: &Arc<LogicalPlan>, types: &[Option<DataType>]) -> Result<Arc<LogicalPlan>> {
    let columns = rows.schema().columns().into_iter().zip(rows.schema().fields()).zip(types);
    let columns = columns.map(|((column, field), kind)| match kind {
        Some(kind) if kind != field.data_type() => {
            let (table, name) = (column.relation.clone(), column.name.clone());
            cast(Expr::Column(column), kind.clone()).alias_qualified(table, name)
        }
        _ => Expr::Column(column),
    });
    let rows = LogicalPlanBuilder::from(Arc::clone(rows)).project(columns.collect::<Vec<_>>())?;
    Ok(Arc::new(rows.build()?))
}

/// Until its types are coerced, a union has the types of its first input.
fn coerce_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let of_column = |column: usize| {
        let kinds = union.inputs.iter().map(|part| part.schema().field(column).data_type());
        common(kinds)
    };
    let fits = union.inputs.iter().all(|part| part.schema().fields().len() == union.schema.fields().len());
    let types: Vec<_> = match fits {
        true => (0..union.schema.fields().len()).map(of_column).collect(),
        false => vec![],
    };
    let has_others = |part: &Arc<LogicalPlan>| {
        let mut columns = part.schema().fields().iter().zip(&types);
        columns.any(|(field, kind)| kind.as_ref().is_some_and(|kind| kind != field.data_type()))
    };
    if !union.inputs.iter().any(has_others) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let parts = union.inputs.iter().map(|part| match has_others(part) {
        true => in_types(part, &types),
        false => Ok(Arc::clone(part)),
    });
    let union = Union::try_new_with_loose_types(parts.collect::<Result<Vec<_>>>()?)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// Coerces the keys of a join.
fn coerce_join(mut join: Join) -> Transformed<LogicalPlan> {
    let mut changed = false;
    for (left, right) in &mut join.on {
        let types = (left.get_type(join.left.schema()), right.get_type(join.right.schema()));
        let (Ok(l), Ok(r)) = types else { continue };
        let Some(common) = common([&l, &r].into_iter()) else { continue };
        for (side, kind) in [(left, l), (right, r)] {
            if is_cast(&kind, &common) {
                *side = cast(std::mem::take(side), common.clone());
                changed = true;
            }
        }
    }
    Transformed::new_transformed(LogicalPlan::Join(join), changed)
}

/// DataFusion has cast the values of a column to one type by now. If one was written as a float, all become
/// floats.
fn coerce_values(mut values: Values) -> Result<Transformed<LogicalPlan>> {
    let floats: Vec<_> = (0..values.schema.fields().len()).map(|column| float_of(&values, column)).collect();
    if floats.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Values(values)));
    }
    for row in &mut values.values {
        for (value, float) in row.iter_mut().zip(&floats) {
            let Some(float) = float else { continue };
            let written = match std::mem::take(value) {
                Expr::Cast(coercion) => *coercion.expr,
                other => other,
            };
            *value = cast(written, float.clone());
        }
    }
    let fields = values.schema.fields().iter().zip(&floats).map(|(field, float)| match float {
        Some(float) => Arc::new(field.as_ref().clone().with_data_type(float.clone())),
        None => Arc::clone(field),
    });
    let metadata = values.schema.metadata().clone();
    values.schema = Arc::new(DFSchema::from_unqualified_fields(fields.collect(), metadata)?);
    Ok(Transformed::yes(LogicalPlan::Values(values)))
}

/// The float that a column of values is, of which decimals were made.
fn float_of(values: &Values, column: usize) -> Option<DataType> {
    let made = values.schema.field(column).data_type();
    let none = DFSchema::empty();
    let written = values.values.iter().map(|row| match &row[column] {
        Expr::Literal(value, _) if value.is_null() => Ok(DataType::Null),
        Expr::Cast(coercion) => coercion.expr.get_type(&none),
        other => other.get_type(&none),
    });
    let written = written.collect::<Result<Vec<_>>>().ok()?;
    let float = float(written.iter()).filter(|_| made.is_decimal())?;
    // Casts that were written in the query come to another type.
    (type_union_resolution(&written).as_ref() == Some(made)).then_some(float)
}
