//! Machine code gives what DataFusion's expressions give, and fails where they fail.

use super::{Mode, NativeExpr, SubstituteExpr, compile_in};
use crate::lower::arithmetic;
use datafusion::arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array,
    RecordBatch, TimestampMicrosecondArray, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, cast, lit, not, try_cast, when};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;
use whimbrel_plan::column;

/// Numbers by chance, the same ones in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }

    fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// Values, of which some are null if `nulls`.
    fn column<T: Clone>(&mut self, of: &[T], rows: usize, nulls: bool) -> Vec<Option<T>> {
        (0..rows).map(|_| Some(self.one_of(of)).filter(|_| !nulls || self.below(4) > 0)).collect()
    }
}

/// Columns of each kind; ends of types are among their values.
fn table(random: &mut Random, nulls: bool) -> RecordBatch {
    let rows = 100;
    let longs = [0, 1, -1, 2, 7, 1000, i64::MAX, i64::MIN];
    let small = [0, 1, -1, 3, 10, -20, 100, 7];
    let doubles = [0.0, -0.0, 1.5, -2.25, f64::NAN, -f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, 1e300];
    let singles = [0.0, -0.0, 1.5, f32::NAN, f32::NEG_INFINITY, f32::MAX];
    let columns: [(&str, ArrayRef); 9] = [
        ("n", Arc::new(Int64Array::from(random.column(&longs, rows, nulls)))),
        ("m", Arc::new(Int64Array::from(random.column(&small, rows, nulls)))),
        ("i", Arc::new(Int32Array::from(random.column(&[0, 5, -5, i32::MAX, i32::MIN], rows, nulls)))),
        ("b", Arc::new(Int8Array::from(random.column(&[0, 1, -1, i8::MAX, i8::MIN], rows, nulls)))),
        ("u", Arc::new(UInt64Array::from(random.column(&[0, 1, 9, u64::MAX], rows, nulls)))),
        ("x", Arc::new(Float64Array::from(random.column(&doubles, rows, nulls)))),
        ("y", Arc::new(Float32Array::from(random.column(&singles, rows, nulls)))),
        ("t", Arc::new(BooleanArray::from(random.column(&[true, false], rows, nulls)))),
        ("at", Arc::new(TimestampMicrosecondArray::from(random.column(&[0, 5, i64::MAX], rows, nulls)))),
    ];
    // Neither bitmaps nor values begin at the first bit and byte.
    RecordBatch::try_from_iter(columns).unwrap().slice(3, 90)
}

/// An expression of a type.
fn expression(random: &mut Random, of: &DataType, depth: usize) -> Expr {
    let numbers = [
        DataType::Int64,
        DataType::Int32,
        DataType::Int8,
        DataType::UInt64,
        DataType::Float64,
        DataType::Float32,
    ];
    if depth == 0 {
        return leaf(random, of);
    }
    let sub = |random: &mut Random, of: &DataType| expression(random, of, depth - 1);
    if random.below(4) == 0 {
        let condition = sub(random, &DataType::Boolean);
        let mut case = when(condition, sub(random, of));
        if random.below(2) == 0 {
            case = case.when(sub(random, &DataType::Boolean), sub(random, of));
        }
        return if random.below(2) == 0 { case.otherwise(sub(random, of)) } else { case.end() }.unwrap();
    }
    if *of == DataType::Boolean {
        let kind = random.one_of(&[numbers.to_vec(), vec![DataType::Boolean, TIMESTAMP]].concat());
        return match random.below(11) {
            0 => sub(random, of).and(sub(random, of)),
            1 => sub(random, of).or(sub(random, of)),
            2 => not(sub(random, of)),
            3 => sub(random, &kind).is_null(),
            4 => sub(random, &kind).is_not_null(),
            5 => sub(random, &kind).eq(sub(random, &kind)),
            6 => sub(random, &kind).not_eq(sub(random, &kind)),
            7 => sub(random, &kind).lt(sub(random, &kind)),
            8 => sub(random, &kind).gt_eq(sub(random, &kind)),
            9 => sub(random, &kind).between(sub(random, &kind), sub(random, &kind)),
            _ => {
                let list = (0..3).map(|_| leaf(random, &DataType::Int64)).collect();
                sub(random, &DataType::Int64).in_list(list, random.below(2) == 0)
            }
        };
    }
    if *of == TIMESTAMP {
        return coalesce(vec![sub(random, of), sub(random, of)]);
    }
    let other = random.one_of(&numbers);
    match random.below(8) {
        0 => sub(random, of) + sub(random, of),
        1 => sub(random, of) - sub(random, of),
        2 => sub(random, of) * sub(random, of),
        3 => sub(random, of) / sub(random, of),
        4 => sub(random, of) % sub(random, of),
        5 => -sub(random, of),
        6 => cast(sub(random, &other), of.clone()),
        _ => try_cast(sub(random, &other), of.clone()),
    }
}

const TIMESTAMP: DataType = DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Microsecond, None);

/// A column or a literal.
fn leaf(random: &mut Random, of: &DataType) -> Expr {
    let literal = random.below(3) == 0;
    match of {
        DataType::Int64 if literal => {
            lit(ScalarValue::Int64(random.one_of(&[Some(0), Some(2), Some(-1), Some(i64::MAX), None])))
        }
        DataType::Int64 => column(random.one_of(&["n", "m"])),
        DataType::Int32 if literal => lit(3_i32),
        DataType::Int32 => column("i"),
        DataType::Int8 if literal => lit(-1_i8),
        DataType::Int8 => column("b"),
        DataType::UInt64 if literal => lit(2_u64),
        DataType::UInt64 => column("u"),
        DataType::Float64 if literal => lit(random.one_of(&[0.0, -1.5, f64::NAN])),
        DataType::Float64 => column("x"),
        DataType::Float32 if literal => lit(0.5_f32),
        DataType::Float32 => column("y"),
        DataType::Boolean if literal => {
            lit(ScalarValue::Boolean(random.one_of(&[Some(true), Some(false), None])))
        }
        DataType::Boolean => column("t"),
        _ => column("at"),
    }
}

#[test]
fn compiled_expressions_are_those_of_datafusion() {
    let mut random = Random(7);
    let (mut compiled, mut failed) = (0, 0);
    for round in 0..4_000 {
        let rows = table(&mut random, round % 3 > 0);
        let schema = DFSchema::try_from(rows.schema()).unwrap();
        let of = random.one_of(&[DataType::Boolean, DataType::Int64, DataType::Int8, DataType::Float64]);
        let depth = 1 + random.below(4);
        let expr = expression(&mut random, &of, depth);
        let physical = || {
            let expr = arithmetic::expression(coerced(&expr, &schema), &schema)?;
            whimbrel_plan::physical(&expr, &schema)
        };
        // What a type has no operation for is no expression.
        let Ok(interpreted) = physical() else { continue };
        let native = compile_in(Mode::Always, Arc::clone(&interpreted), &rows.schema()).unwrap();
        compiled += usize::from(is_native(&native));
        let value = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&rows)?.into_array(rows.num_rows());
        match (value(&interpreted), value(&native)) {
            (Ok(expected), Ok(found)) => {
                assert_eq!(bits(&expected).as_ref(), bits(&found).as_ref(), "{expr}");
            }
            (Err(expected), Err(found)) => {
                failed += 1;
                assert_eq!(expected.to_string(), found.to_string(), "{expr}");
            }
            (expected, found) => panic!("{expr}: {expected:?}, and compiled {found:?}"),
        }
    }
    assert!(compiled > 2_000 && failed > 200, "{compiled} were compiled, {failed} failed");
}

/// The values of an array; floats as their bits, since a zero equals another one. A NaN is any NaN: which one
/// the processor makes depends on the order of operands, which compilers change.
fn bits(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let floats = values.as_primitive::<Float64Type>();
            let bits = |float: f64| if float.is_nan() { f64::NAN } else { float }.to_bits();
            Arc::new(floats.iter().map(|float| float.map(bits)).collect::<UInt64Array>())
        }
        _ => Arc::clone(values),
    }
}

/// The expression with operands of equal types, as arithmetic is replaced there.
fn coerced(expr: &Expr, schema: &DFSchema) -> Expr {
    use datafusion::logical_expr::simplify::SimplifyContext;
    use datafusion::optimizer::simplify_expressions::ExprSimplifier;
    let context = SimplifyContext::builder().with_schema(Arc::new(schema.clone())).build();
    ExprSimplifier::new(context).coerce(expr.clone(), schema).unwrap_or_else(|_| expr.clone())
}

/// Whether a part of an expression is compiled.
fn is_native(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut found = false;
    expr.apply(|expr| {
        found |= expr.is::<SubstituteExpr<NativeExpr>>();
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    found
}

#[test]
fn what_is_not_worth_it_is_left() {
    let schema = DFSchema::try_from(table(&mut Random(1), false).schema()).unwrap();
    let compile = |expr: Expr| {
        let physical = whimbrel_plan::physical(&expr, &schema).unwrap();
        compile_in(Mode::Worthwhile, physical, schema.as_arrow()).unwrap()
    };
    assert!(!is_native(&compile(column("n").gt(lit(5_i64)).and(column("t")))));
    let case = when(column("n").gt(lit(5_i64)), column("x")).otherwise(lit(0.0)).unwrap();
    let case = compile(case);
    assert!(is_native(&case));
    let rows = table(&mut Random(2), true);
    case.evaluate(&rows).unwrap();
    let native = &case.downcast_ref::<SubstituteExpr<NativeExpr>>().unwrap().0;
    assert!(!native.is_used(rows.num_rows()), "it has seen few rows");
    assert!(native.is_used(super::MIN_ROWS));
}
