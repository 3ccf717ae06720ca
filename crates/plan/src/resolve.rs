//! Expressions on their way into a plan: every column exists, every type fits, and the same input always
//! gives the same output.
//!
//! An expression that has passed is coerced, so the type it says is the type that is computed; it keeps the
//! name that it had before. `now()` becomes the moment at which the plan was built: all shards agree on it.

use crate::depth::check_depth;
use crate::names::{names, show, type_name, unknown_column};
use crate::physical::simplifier;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, plan_datafusion_err, plan_err};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{Expr, ExprSchemable, Volatility, lit};

/// Checks an expression against the columns it may use. `verb` is the method it was given to.
pub(crate) fn resolve(expr: Expr, schema: &DFSchema, verb: &str) -> Result<Expr> {
    check_depth(&expr, verb)?;
    scalar(&expr, verb)?;
    let expr = check_columns(expr, schema)?;
    let expr = without_volatile_functions(expr, schema, verb)?;
    let name = expr.schema_name().to_string();
    let coerced = match coerced(expr.clone(), schema) {
        Ok(coerced) => coerced,
        Err(cause) => return plan_err!("{verb}: {}: {}", show(&expr.unalias()), cause.find_root().message()),
    };
    coerced.alias_if_changed(name)
}

/// Checks a call of a function of several rows, whose arguments are functions of one each.
pub(crate) fn resolve_call(expr: Expr, schema: &DFSchema, verb: &str) -> Result<Expr> {
    check_depth(&expr, verb)?;
    let expr = without_volatile_functions(check_columns(expr, schema)?, schema, verb)?;
    coerced(expr.clone(), schema)
        .map_err(|cause| plan_datafusion_err!("{verb}: {}: {}", show(&expr), cause.find_root().message()))
}

/// Checks a condition over two rows, whose columns are qualified by their sides.
pub(crate) fn resolve_sides(expr: Expr, schema: &DFSchema, verb: &str) -> Result<Expr> {
    check_depth(&expr, verb)?;
    scalar(&expr, verb)?;
    for column in expr.column_refs() {
        if schema.maybe_index_of_column(column).is_none() {
            return plan_err!("{verb}: neither side has a column {column}");
        }
    }
    let expr = without_volatile_functions(expr, schema, verb)?;
    let coerced = coerced(expr.clone(), schema);
    let coerced = coerced
        .map_err(|cause| plan_datafusion_err!("{verb}: {}: {}", show(&expr), cause.find_root().message()))?;
    match coerced.get_type(schema)? {
        DataType::Boolean | DataType::Null => Ok(coerced),
        other => plan_err!("{verb}: {} is {}, not boolean", show(&coerced), type_name(&other)),
    }
}

/// The expression with its types settled, as it is computed.
pub(crate) fn coerced(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    folded(checked(simplifier(schema).coerce(expr, schema)?, schema)?)
}

/// The type is computed once here, so that an expression without one is refused where it was written.
fn checked(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.get_type(schema)?;
    Ok(expr)
}

/// Values that coercion has cast are written as the value they become.
fn folded(expr: Expr) -> Result<Expr> {
    expr.transform_up(|e| match &e {
        Expr::Cast(cast) => match (cast.expr.as_literal(), cast.field.data_type()) {
            (Some(value), to) => {
                Ok(value.cast_to(to).map_or(Transformed::no(e), |v| Transformed::yes(lit(v))))
            }
            (None, _) => Ok(Transformed::no(e)),
        },
        _ => Ok(Transformed::no(e)),
    })
    .data()
}

/// The same, for an expression that has to have a certain type; it is cast where that loses nothing.
pub(crate) fn resolve_as(expr: Expr, want: &DataType, schema: &DFSchema, verb: &str) -> Result<Expr> {
    let expr = resolve(expr, schema, verb)?;
    match expr.get_type(schema)? {
        t if t == *want => Ok(expr),
        t if widens(&t, want) => Ok(expr.unalias().cast_to(want, schema)?),
        t => plan_err!("{verb}: {} is {}, not {}", show(&expr.unalias()), type_name(&t), type_name(want)),
    }
}

/// Whether every value of one type is a value of the other.
fn widens(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Null, _) => true,
        (DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _), DataType::List(t)) => {
            f.data_type() == t.data_type() || widens(f.data_type(), t.data_type())
        }
        (from, DataType::Int64) => from.is_integer() && *from != DataType::UInt64,
        _ => false,
    }
}

/// The type in which values of two types can be compared without guessing: numbers with numbers, strings with
/// strings, times with times.
pub(crate) fn common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    let text = |t: &DataType| match t {
        DataType::Dictionary(_, value) => value.is_string(),
        t => t.is_string(),
    };
    let guess = text(left) != text(right) && !left.is_null() && !right.is_null();
    if guess { None } else { comparison_coercion(left, right) }
}

/// Refuses what is no function of one row.
fn scalar(expr: &Expr, verb: &str) -> Result<()> {
    let mut wrong: Option<String> = None;
    expr.apply(|e| {
        wrong = match e {
            Expr::AggregateFunction(f) => {
                Some(format!("{} is an aggregate; it belongs into aggregate(…)", f.func.name()))
            }
            Expr::WindowFunction(f) => {
                Some(format!("{} is an SQL window function; take a window and aggregate(…)", f.fun))
            }
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_) => {
                Some("a subquery is not possible inside an expression; join instead".to_string())
            }
            Expr::Placeholder(p) => Some(format!("the parameter {} has no value", p.id)),
            Expr::GroupingSet(_) | Expr::Unnest(_) | Expr::OuterReferenceColumn(_, _) => {
                Some(format!("{e} is no function of one row"))
            }
            _ => None,
        };
        Ok(if wrong.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    match wrong {
        Some(why) => plan_err!("{verb}: {why}"),
        None => Ok(()),
    }
}

/// Every column is one of the schema's. A qualified column is taken for an unqualified one with a dot in its
/// name: that is what became of it if someone parsed it.
fn check_columns(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|e| match e {
        Expr::Column(column) => {
            let name = column.flat_name();
            if schema.index_of_column_by_name(None, &name).is_none() {
                return Err(unknown_column(&name, &names(schema)));
            }
            let qualified = column.relation.is_some();
            let column = Expr::Column(Column::from_name(name));
            Ok(if qualified { Transformed::yes(column) } else { Transformed::no(column) })
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// No volatile functions; `now()` and its like are set to the present, once.
fn without_volatile_functions(expr: Expr, schema: &DFSchema, verb: &str) -> Result<Expr> {
    let simplifier = simplifier(schema);
    expr.transform_up(|e| match e {
        Expr::ScalarFunction(ref f) if f.func.signature().volatility == Volatility::Volatile => plan_err!(
            "{verb}: {}() gives another value every time; a stream's expressions have to be functions of \
            the row",
            f.func.name()
        ),
        Expr::ScalarFunction(ref f)
            if f.func.signature().volatility == Volatility::Stable && f.args.is_empty() =>
        {
            Ok(Transformed::yes(simplifier.simplify(e)?))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}
