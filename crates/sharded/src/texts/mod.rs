//! Texts that are compared with a constant: `a = 'x'`, `a <> 'x'`, `a like '%x%y%'`.
//!
//! Where Arrow's kernels do more than has to be done, the comparison is replaced by one of ours. The answer
//! is the same.

mod equality;
mod pattern;

use crate::substitute_expr::{Evaluate, SubstituteExpr};
use datafusion::arrow::array::{Array, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, LikeExpr, Literal};
use equality::equal;
use pattern::Pattern;
use std::sync::Arc;

/// Replaces the comparisons with constant texts in an expression over these columns.
///
/// # Errors
/// `Internal` if an expression cannot be rebuilt.
pub(crate) fn specialize(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    expr.transform_up(|expr| {
        let is_text =
            |operand: &Arc<dyn PhysicalExpr>| operand.data_type(schema).is_ok_and(|of| of.is_string());
        Ok(match TextComparison::of(&expr).filter(|found| is_text(&found.operand)) {
            Some(found) => Transformed::yes(Arc::new(SubstituteExpr(found))),
            None => Transformed::no(expr),
        })
    })
    .data()
}

/// What is asked of a text.
#[derive(Debug)]
enum Test {
    /// Whether it is this one.
    Equal(String),
    /// Whether a pattern matches it.
    Like(Pattern),
}

impl Test {
    /// The answer for each value; none if they are no texts.
    fn answers(&self, values: &dyn Array) -> Option<BooleanBuffer> {
        match self {
            Test::Equal(text) => equal(values, text),
            Test::Like(pattern) => pattern.matches(values),
        }
    }
}

/// A comparison with a constant text.
#[derive(Debug)]
struct TextComparison {
    comparison: Arc<dyn PhysicalExpr>,
    /// What is compared.
    operand: Arc<dyn PhysicalExpr>,
    test: Test,
    /// Whether it is `<>` or `not like`.
    is_negated: bool,
}

impl Evaluate for TextComparison {
    fn original(&self) -> &Arc<dyn PhysicalExpr> {
        &self.comparison
    }

    fn data_type(&self) -> &DataType {
        &DataType::Boolean
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if let ColumnarValue::Array(values) = self.operand.evaluate(batch)?
            && let Some(answers) = self.test.answers(&values)
        {
            let found = if self.is_negated { !&answers } else { answers };
            return Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(found, values.nulls().cloned()))));
        }
        self.comparison.evaluate(batch)
    }

    /// The comparison that an expression is, if it is one of ours.
    fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<TextComparison> {
        let (operand, test, is_negated) = match expr.downcast_ref::<BinaryExpr>() {
            Some(binary) => of_binary(binary)?,
            None => of_like(expr.downcast_ref::<LikeExpr>()?)?,
        };
        let (comparison, operand) = (Arc::clone(expr), Arc::clone(operand));
        Some(TextComparison { comparison, operand, test, is_negated })
    }
}

/// What is compared, what is asked of it, and whether that is negated.
type Parts<'a> = (&'a Arc<dyn PhysicalExpr>, Test, bool);

fn of_binary(comparison: &BinaryExpr) -> Option<Parts<'_>> {
    let is_negated = match comparison.op() {
        Operator::Eq => false,
        Operator::NotEq => true,
        _ => return None,
    };
    let (left, right) = (comparison.left(), comparison.right());
    match (constant(left), constant(right)) {
        (None, Some(text)) => Some((left, Test::Equal(text.to_string()), is_negated)),
        (Some(text), None) => Some((right, Test::Equal(text.to_string()), is_negated)),
        _ => None,
    }
}

fn of_like(like: &LikeExpr) -> Option<Parts<'_>> {
    if like.case_insensitive() {
        return None;
    }
    let pattern = Pattern::of(constant(like.pattern())?)?;
    Some((like.expr(), Test::Like(pattern), like.negated()))
}

/// The text that an expression always is.
fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<&str> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.as_deref()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, LargeStringArray, StringArray, StringViewArray};
    use datafusion::arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::{Column, binary, like, lit};

    /// Texts of all lengths around the one that lies in a view, many of which have the same beginning.
    const TEXTS: [&str; 12] = [
        "",
        "M",
        "Make",
        "Mäke",
        "Makefile",
        "Makefilf",
        "Makefile/sub",
        "Makefile/suc",
        "Makefile/sub1",
        "Makefile/sub2",
        "Nakefile/sub1",
        "Makefile/submarine",
    ];

    /// The answers of Arrow's kernel and of this one to the same comparison.
    fn answers(values: ArrayRef, text: ScalarValue, op: Operator) -> [ArrayRef; 2] {
        let schema = Schema::new(vec![Field::new("a", values.data_type().clone(), true)]);
        let column = Arc::new(Column::new("a", 0)) as Arc<dyn PhysicalExpr>;
        let expected = binary(column, op, lit(text), &schema).unwrap();
        let found = specialize(Arc::clone(&expected), &schema).unwrap();
        assert!(found.is::<SubstituteExpr<TextComparison>>(), "{found}");
        let rows = RecordBatch::try_new(Arc::new(schema), vec![values]).unwrap();
        [expected, found].map(|expr| expr.evaluate(&rows).unwrap().into_array(rows.num_rows()).unwrap())
    }

    #[test]
    fn the_answer_is_that_of_arrow() {
        let values: Vec<Option<&str>> =
            (0..400).map(|row| (row % 11 != 3).then(|| TEXTS[(row * row + row / 7) % TEXTS.len()])).collect();
        for text in TEXTS.into_iter().chain(["nowhere", "nowhere to be found"]) {
            let owned = Some(text.to_string());
            let arrays: [(ArrayRef, ScalarValue); 3] = [
                (Arc::new(StringArray::from(values.clone())), ScalarValue::Utf8(owned.clone())),
                (Arc::new(LargeStringArray::from(values.clone())), ScalarValue::LargeUtf8(owned.clone())),
                (Arc::new(StringViewArray::from(values.clone())), ScalarValue::Utf8View(owned)),
            ];
            for (array, text) in arrays {
                for (skip, rows) in [(0, 400), (0, 64), (7, 130), (63, 65), (399, 1), (10, 0)] {
                    for op in [Operator::Eq, Operator::NotEq] {
                        let [expected, found] = answers(array.slice(skip, rows), text.clone(), op);
                        assert_eq!(&expected, &found, "{op} {text}, {rows} rows from {skip} on");
                    }
                }
            }
        }
    }

    #[test]
    fn patterns_match_as_those_of_arrow_do() {
        type OfText = fn(Option<String>) -> ScalarValue;
        let values =
            || (0..200).map(|row| (row % 11 != 3).then(|| TEXTS[(row * row + row / 7) % TEXTS.len()]));
        let arrays: [(ArrayRef, OfText); 3] = [
            (Arc::new(StringArray::from_iter(values())), ScalarValue::Utf8),
            (Arc::new(LargeStringArray::from_iter(values())), ScalarValue::LargeUtf8),
            (Arc::new(StringViewArray::from_iter(values())), ScalarValue::Utf8View),
        ];
        for (array, text) in arrays {
            let schema = Schema::new(vec![Field::new("a", array.data_type().clone(), true)]);
            let rows = RecordBatch::try_new(Arc::new(schema.clone()), vec![array]).unwrap();
            for pattern in ["M%e", "%ak%le%", "%a%b%", "Make%sub%", "%/%1", "%e%e%e%", "M%ake%"] {
                for is_negated in [false, true] {
                    let column = Arc::new(Column::new("a", 0)) as Arc<dyn PhysicalExpr>;
                    let expected =
                        like(is_negated, false, column, lit(text(Some(pattern.to_string()))), &schema)
                            .unwrap();
                    let found = specialize(Arc::clone(&expected), &schema).unwrap();
                    assert!(found.is::<SubstituteExpr<TextComparison>>(), "{found}");
                    let [expected, found] =
                        [expected, found].map(|expr| expr.evaluate(&rows).unwrap().into_array(200).unwrap());
                    assert_eq!(&expected, &found, "{pattern}");
                }
            }
        }
    }

    #[test]
    fn other_comparisons_stay() {
        let schema =
            Schema::new(vec![Field::new("a", DataType::Utf8, true), Field::new("n", DataType::Int64, true)]);
        let column = |name: &str, place| Arc::new(Column::new(name, place)) as Arc<dyn PhysicalExpr>;
        let text = |text: Option<&str>| lit(ScalarValue::Utf8(text.map(str::to_string)));
        for (left, op, right) in [
            (column("a", 0), Operator::Lt, text(Some("x"))),
            (column("a", 0), Operator::Eq, text(None)),
            (column("a", 0), Operator::Eq, column("a", 0)),
            (column("n", 1), Operator::Eq, lit(7_i64)),
        ] {
            let comparison = binary(left, op, right, &schema).unwrap();
            assert!(specialize(comparison, &schema).unwrap().is::<BinaryExpr>());
        }
        let turned = binary(text(Some("x")), Operator::Eq, column("a", 0), &schema).unwrap();
        assert!(specialize(turned, &schema).unwrap().is::<SubstituteExpr<TextComparison>>());
    }
}
