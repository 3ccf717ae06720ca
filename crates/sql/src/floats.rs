//! Floats beside decimals: what they are compared as, and what they are together, is a float, as in DuckDB.
//! DataFusion would make decimals of them with fifteen digits behind the point, in which a small number is 0, and NaN
//! has no place.
//!
//! A number with a point is a decimal, so that this is `x > 0.5`, `coalesce(x, 0.0)` and a union with `select 0.5`. A
//! float of four bytes stays one: `f = 93.86` compares floats of four bytes, of which one is nearest to 93.86.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Union, Values, cast,
};
use std::sync::Arc;

/// Functions whose arguments are of one type.
const OF_ONE_TYPE: [&str; 6] = ["coalesce", "greatest", "least", "make_array", "nullif", "nvl"];

/// The same plan, floats where they stand beside decimals.
pub(crate) fn compared(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut retyped = false;
    plan.transform_up_with_subqueries(|plan| {
        let before = types(&plan);
        let plan = match plan {
            LogicalPlan::Values(values) => of_values(values)?,
            LogicalPlan::Union(union) => of_union(union)?,
            LogicalPlan::Join(join) => of_join(join),
            plan => Transformed::no(plan),
        };
        let plan = plan.transform_data(of_expressions)?;
        // What stands above a column of another type is of another type too.
        let plan = match plan.transformed || retyped {
            true => Transformed::yes(with_schema(plan.data)?),
            false => plan,
        };
        retyped |= before != types(&plan.data);
        Ok(plan)
    })
    .data()
}

/// The plan with the schema that follows from what is below it.
fn with_schema(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Union(union) => Ok(LogicalPlan::Union(Union::try_new_with_loose_types(union.inputs)?)),
        plan => plan.recompute_schema(),
    }
}

fn types(plan: &LogicalPlan) -> Vec<DataType> {
    plan.schema().fields().iter().map(|field| field.data_type().clone()).collect()
}

/// The float that values of these types are together, if they are numbers, and some of them floats.
fn float<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    let any = |kind: DataType| types.clone().any(|other| *other == kind).then_some(kind);
    let numbers = types.clone().all(|kind| kind.is_numeric() || kind.is_null());
    numbers.then(|| any(DataType::Float64).or_else(|| any(DataType::Float32)))?
}

/// Makes floats of the decimals among these, if there are floats.
fn of_decimals(mut values: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    as_floats(&mut values, schema, DataType::is_decimal)
}

/// Makes floats of all numbers among these, if there are floats and decimals.
fn of_numbers(mut values: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    as_floats(&mut values, schema, |kind| kind.is_decimal() || kind.is_integer())
}

fn as_floats(values: &mut [&mut Expr], schema: &DFSchema, chosen: fn(&DataType) -> bool) -> bool {
    let types: Result<Vec<DataType>> = values.iter().map(|value| value.get_type(schema)).collect();
    // What has no type is told later, with its place.
    let Ok(types) = types else { return false };
    let Some(float) = float(types.iter()) else { return false };
    let mut changed = false;
    for (value, _) in values.iter_mut().zip(&types).filter(|(_, kind)| chosen(kind)) {
        **value = cast(std::mem::take(*value), float.clone());
        changed = true;
    }
    changed
}

fn of_expressions(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    let of_named = |expr: Expr| {
        let name = names.save(&expr);
        Ok(expr.transform_up(|e| expression(e, &schema))?.update_data(|expr| name.restore(expr)))
    };
    plan.map_expressions(|expr| match expr {
        // Each group has a name of its own.
        Expr::GroupingSet(_) => expr.map_children(of_named),
        expr => of_named(expr),
    })
}

fn expression(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::BinaryExpr(both) if compares(both.op) => {
            of_decimals(vec![&mut both.left, &mut both.right], schema)
        }
        Expr::Between(between) => {
            of_decimals(vec![&mut between.expr, &mut between.low, &mut between.high], schema)
        }
        Expr::InList(of) => {
            of_decimals(std::iter::once(of.expr.as_mut()).chain(&mut of.list).collect(), schema)
        }
        Expr::InSubquery(of) => of_subquery(of, schema)?,
        Expr::ScalarFunction(call) if OF_ONE_TYPE.contains(&call.name()) => {
            of_decimals(call.args.iter_mut().collect(), schema)
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
                of_decimals(compared, schema)
            });
            // Until its types are brought together, a case is of the type of its first result.
            of_numbers(results, schema) || of_operand
        }
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// `x in (select d …)`
fn of_subquery(of: &mut InSubquery, schema: &DFSchema) -> Result<bool> {
    let rows = &of.subquery.subquery;
    let ([field], Ok(kind)) = (rows.schema().fields().as_ref(), of.expr.get_type(schema)) else {
        return Ok(false);
    };
    match float([&kind, field.data_type()].into_iter()) {
        Some(float) if kind.is_decimal() => {
            *of.expr = cast(std::mem::take(of.expr.as_mut()), float);
            Ok(true)
        }
        Some(float) if field.data_type().is_decimal() => {
            let rows = in_types(rows, &[Some(float)])?;
            of.subquery = of.subquery.with_plan(rows);
            Ok(true)
        }
        _ => Ok(false),
    }
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

/// Until its types are brought together, a union is of the types of its first part.
fn of_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let of_column = |column: usize| {
        let kinds = union.inputs.iter().map(|part| part.schema().field(column).data_type());
        float(kinds)
    };
    let fits = union.inputs.iter().all(|part| part.schema().fields().len() == union.schema.fields().len());
    let floats: Vec<_> = match fits {
        true => (0..union.schema.fields().len()).map(of_column).collect(),
        false => vec![],
    };
    let has_others = |part: &Arc<LogicalPlan>| {
        let mut columns = part.schema().fields().iter().zip(&floats);
        columns.any(|(field, float)| float.as_ref().is_some_and(|float| float != field.data_type()))
    };
    if !union.inputs.iter().any(has_others) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let parts = union.inputs.iter().map(|part| match has_others(part) {
        true => in_types(part, &floats),
        false => Ok(Arc::clone(part)),
    });
    let union = Union::try_new_with_loose_types(parts.collect::<Result<Vec<_>>>()?)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

fn of_join(mut join: Join) -> Transformed<LogicalPlan> {
    let mut changed = false;
    for (left, right) in &mut join.on {
        let types = (left.get_type(join.left.schema()), right.get_type(join.right.schema()));
        let (Ok(l), Ok(r)) = types else { continue };
        let Some(float) = float([&l, &r].into_iter()) else { continue };
        for (side, kind) in [(left, l), (right, r)] {
            if kind.is_decimal() {
                *side = cast(std::mem::take(side), float.clone());
                changed = true;
            }
        }
    }
    Transformed::new_transformed(LogicalPlan::Join(join), changed)
}

/// Values have been cast to one type by now. One that was a float, beside others that were none, says that all are
/// to be.
fn of_values(mut values: Values) -> Result<Transformed<LogicalPlan>> {
    let floats: Vec<_> = (0..values.schema.fields().len()).map(|column| float_of(&values, column)).collect();
    if floats.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Values(values)));
    }
    for row in &mut values.values {
        for (value, float) in row.iter_mut().zip(&floats) {
            let Some(float) = float else { continue };
            let written = match std::mem::take(value) {
                Expr::Cast(automatic) => *automatic.expr,
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
        Expr::Cast(automatic) => automatic.expr.get_type(&none),
        other => other.get_type(&none),
    });
    let written = written.collect::<Result<Vec<_>>>().ok()?;
    let float = float(written.iter()).filter(|_| made.is_decimal())?;
    // Casts that were written in the query come to another type.
    (type_union_resolution(&written).as_ref() == Some(made)).then_some(float)
}
