//! What an expression in a plan may be, and what is said of those that may not.

use crate::support::*;
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::functions::expr_fn::{abs, now, random};
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::{Expr, LogicalPlan, col, lit};
use std::sync::Arc;
use whimbrel_plan::names::{show, unknown_column};
use whimbrel_plan::{column, physical};

#[test]
fn unknown_columns_get_the_nearest_names() {
    let message = |name: &str| invalid(clicks().where_(column(name).gt(lit(1))));
    let columns = "columns: time, user, item, price, tags";
    assert_eq!(
        message("itme"),
        format!("column \"itme\" not found; did you mean \"item\" or \"time\"? {columns}")
    );
    assert_eq!(message("User"), format!("column \"User\" not found; did you mean \"user\"? {columns}"));
    assert_eq!(message("user_id"), format!("column \"user_id\" not found; did you mean \"user\"? {columns}"));
    assert_eq!(message("prices"), format!("column \"prices\" not found; did you mean \"price\"? {columns}"));
    assert_eq!(message("zzz"), format!("column \"zzz\" not found; {columns}"));
}

#[test]
fn many_columns_are_not_all_listed() {
    let names: Vec<String> = (0..40).map(|i| format!("column_number_{i}")).collect();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let message = unknown_column("x", &known).message().to_string();
    assert!(message.ends_with("column_number_23, … and 16 more"), "{message}");
}

#[test]
fn names_are_never_parsed() {
    let fields = [("a.b", DataType::Int64), ("Upper Case", DataType::Int64), ("\"q\"", DataType::Int64)];
    let t = table("odd", &fields);
    let stream = t.select(vec![column("a.b"), column("Upper Case"), column("\"q\"")]).unwrap();
    assert_eq!(names(&stream), "a.b Upper Case \"q\"");
    // Someone else parsed it into a qualifier and a name.
    let parsed = t.select(vec![col("a.b")]).unwrap();
    assert_eq!(names(&parsed), "a.b");
}

#[test]
fn wrong_types_name_the_expression() {
    let message = invalid(clicks().where_((column("item") + column("user")).gt(lit(1))));
    assert!(message.starts_with("where: item + user > 1: "), "{message}");
    let message = invalid(clicks().select(vec![abs(column("item")).alias("x")]));
    assert!(message.starts_with("select: abs(item): "), "{message}");
}

#[test]
fn expressions_are_functions_of_one_row() {
    let refused = |e: Expr| invalid(clicks().select(vec![e.alias("x")]));
    assert_eq!(refused(sum(column("user"))), "select: sum is an aggregate; it belongs into aggregate(…)");
    assert_eq!(
        refused(random()),
        "select: random() gives another value every time; a stream's expressions have to be functions of \
        the row"
    );
    assert_eq!(refused(datafusion::logical_expr::placeholder("$1")), "select: the parameter $1 has no value");
}

#[test]
fn now_is_the_moment_at_which_the_plan_was_built() {
    let stream = clicks().select(vec![now().alias("n")]).unwrap();
    let LogicalPlan::Projection(p) = stream.plan() else { panic!("no projection") };
    let Expr::Alias(alias) = &p.expr[0] else { panic!("no alias") };
    assert!(matches!(*alias.expr, Expr::Literal(_, _)), "{}", alias.expr);
}

#[test]
fn physical_expressions_read_by_position() {
    let fields = [("a", DataType::Int64), ("b", DataType::Int32)];
    let t = table("rows", &fields);
    // Coerced: int64 with int32.
    let expr = physical(&column("a").gt(column("b")), t.plan().schema()).unwrap();
    let a: ArrayRef = Arc::new(Int64Array::from(vec![1, 5]));
    let b: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![3, 3]));
    // Other names, same places.
    let batch = RecordBatch::try_from_iter(vec![("x", a), ("y", b)]).unwrap();
    let result = expr.evaluate(&batch).unwrap().into_array(2).unwrap();
    assert_eq!(result.as_ref(), &BooleanArray::from(vec![false, true]) as &dyn arrow::array::Array);
}

#[test]
fn physical_expressions_resolve_the_sides_of_a_join() {
    let (l, r) = (table("l", &[("a", DataType::Int64)]), table("r", &[("a", DataType::Int64)]));
    let joined = l.join(&r, vec![], whimbrel_plan::JoinKind::Cross, "_right").unwrap();
    let LogicalPlan::Projection(p) = joined.plan() else { panic!("no projection") };
    let physical: Vec<String> =
        p.expr.iter().map(|e| physical(e, p.input.schema()).unwrap().to_string()).collect();
    assert_eq!(physical, ["a@0", "a@1"]);
}

#[test]
fn physical_expressions_are_simplified() {
    let t = table("rows", &[("a", DataType::Int64)]);
    let expr = physical(&column("a").gt(lit(1_i64) + lit(2_i64)), t.plan().schema()).unwrap();
    assert_eq!(expr.to_string(), "a@0 > 3");
}

#[test]
fn expressions_as_people_read_them() {
    let expr = (column("a") + lit(1_i64)) * lit(2.5) - column("b c");
    assert_eq!(show(&expr), "(a + 1) * 2.5 - b c");
    assert_eq!(show(&column("a").eq(lit("x\"y")).and(column("b").is_null())), "a = \"x\\\"y\" AND b IS NULL");
}
