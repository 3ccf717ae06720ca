//! Lists and structs as bytes that are in their order: value after value, and a null in one is larger than
//! all values, as in DuckDB.
//!
//! Arrow compares lists and structs with nulls in them in one way where it sorts, and in another where it
//! compares. Bytes are compared in one way.

use crate::canonical::canonical_values;
use arrow::array::{Array, ArrayRef, BinaryArray, BinaryBuilder};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

const NAME: &str = "sort_key";

static FUNCTION: LazyLock<ScalarUDF> =
    LazyLock::new(|| ScalarUDF::from(SortKey { signature: Signature::any(1, Volatility::Immutable) }));

/// Whether values of a type are ordered by [`sort_key`].
pub fn has_sort_key(kind: &DataType) -> bool {
    kind.is_nested() && RowConverter::supports_fields(&[field(kind)])
}

/// Whether an operator tells which of two values is larger.
pub fn is_order(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// Whether two expressions are of one type whose values are ordered by their keys.
pub fn have_sort_keys(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
    match (left.get_type(schema), right.get_type(schema)) {
        (Ok(left), Ok(right)) => left == right && has_sort_key(&left),
        _ => false,
    }
}

/// The function behind [`sort_key`].
pub(crate) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::clone(&FUNCTION))
}

/// The bytes that are in the order of the values of an expression.
pub fn sort_key(of: Expr) -> Expr {
    FUNCTION.call(vec![of])
}

fn field(kind: &DataType) -> SortField {
    SortField::new_with_options(kind.clone(), SortOptions { descending: false, nulls_first: false })
}

/// The scalar function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SortKey {
    signature: Signature,
}

impl ScalarUDFImpl for SortKey {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    /// It is null where its argument is.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(NAME, DataType::Binary, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Scalar(value)] => {
                let keys: ArrayRef = Arc::new(keys(&value.to_array()?)?);
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&keys, 0)?))
            }
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(Arc::new(keys(values)?))),
            _ => internal_err!("{NAME} is of one value"),
        }
    }
}

fn keys(values: &ArrayRef) -> Result<BinaryArray> {
    let converter = RowConverter::new(vec![field(values.data_type())])?;
    let rows = converter.convert_columns(&[canonical_values(values)])?;
    let mut keys = BinaryBuilder::with_capacity(rows.num_rows(), rows.size());
    for (place, row) in rows.iter().enumerate() {
        match values.is_null(place) {
            true => keys.append_null(),
            false => keys.append_value(row.data()),
        }
    }
    Ok(keys.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array, ListArray, StructArray};
    use arrow::datatypes::{Float64Type, Int64Type};

    #[test]
    fn nulls_within_lists_are_largest() {
        let lists: Vec<Option<Vec<Option<i64>>>> = vec![
            Some(vec![]),
            Some(vec![Some(-5)]),
            Some(vec![Some(1)]),
            Some(vec![Some(1), Some(2)]),
            Some(vec![Some(1), None]),
            Some(vec![Some(2)]),
            Some(vec![None]),
        ];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
        let keys = keys(&lists).unwrap();
        assert!(keys.iter().is_sorted_by(|left, right| left < right), "{keys:?}");
    }

    #[test]
    fn zeros_are_equal_and_nulls_stay() {
        let lists = vec![Some(vec![Some(0.0)]), Some(vec![Some(-0.0)]), None];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists));
        let keys = keys(&lists).unwrap();
        assert_eq!(keys.value(0), keys.value(1));
        assert!(keys.is_null(2));
    }

    #[test]
    fn structs_are_ordered_field_after_field() {
        let field = |name, kind| Arc::new(Field::new(name, kind, true));
        let (a, b) = (Int64Array::from(vec![1, 1, 2]), Float64Array::from(vec![Some(5.0), None, Some(0.0)]));
        let structs: ArrayRef = Arc::new(StructArray::from(vec![
            (field("a", DataType::Int64), Arc::new(a) as ArrayRef),
            (field("b", DataType::Float64), Arc::new(b) as ArrayRef),
        ]));
        assert!(has_sort_key(structs.data_type()));
        let keys = keys(&structs).unwrap();
        assert!(keys.value(0) < keys.value(1) && keys.value(1) < keys.value(2));
    }
}
