//! `typeof(x)`: the name of the type that a value has, as DuckDB has it. It is known when the query is
//! planned, and no plan has the function.
//!
//! ```sql
//! select typeof(1), typeof([1.5]), typeof(date '2024-01-01');  -- BIGINT, DECIMAL(2,1)[], DATE
//! ```

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use std::sync::Arc;

/// The function.
pub(crate) fn type_of() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(TypeOf { signature: Signature::any(1, Volatility::Immutable) }))
}

/// `typeof(x)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TypeOf {
    /// One argument of any type.
    signature: Signature,
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &str {
        "typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.as_slice() {
            [value] => Ok(ExprSimplifyResult::Simplified(lit(name(&info.get_data_type(value)?)))),
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = args.arg_fields.first().map(|field| name(field.data_type()));
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(name)))
    }
}

/// The name of a type in SQL.
pub(crate) fn name(kind: &DataType) -> String {
    match kind {
        DataType::Null => "\"NULL\"".to_string(),
        DataType::Boolean => "BOOLEAN".to_string(),
        DataType::Int8 => "TINYINT".to_string(),
        DataType::Int16 => "SMALLINT".to_string(),
        DataType::Int32 => "INTEGER".to_string(),
        DataType::Int64 => "BIGINT".to_string(),
        DataType::UInt8 => "UTINYINT".to_string(),
        DataType::UInt16 => "USMALLINT".to_string(),
        DataType::UInt32 => "UINTEGER".to_string(),
        DataType::UInt64 => "UBIGINT".to_string(),
        DataType::Float16 | DataType::Float32 => "FLOAT".to_string(),
        DataType::Float64 => "DOUBLE".to_string(),
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => format!("DECIMAL({p},{s})"),
        DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => format!("DECIMAL({p},{s})"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".to_string(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BLOB".to_string(),
        DataType::FixedSizeBinary(_) => "BLOB".to_string(),
        DataType::Date32 | DataType::Date64 => "DATE".to_string(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".to_string(),
        DataType::Timestamp(_, None) => "TIMESTAMP".to_string(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE".to_string(),
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL".to_string(),
        DataType::List(field) | DataType::LargeList(field) => format!("{}[]", name(field.data_type())),
        DataType::FixedSizeList(field, size) => format!("{}[{size}]", name(field.data_type())),
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| format!("{} {}", field.name(), name(field.data_type())));
            format!("STRUCT({})", fields.collect::<Vec<_>>().join(", "))
        }
        DataType::Map(entry, _) => match entry.data_type() {
            DataType::Struct(fields) => {
                let parts: Vec<String> = fields.iter().map(|field| name(field.data_type())).collect();
                format!("MAP({})", parts.join(", "))
            }
            other => other.to_string(),
        },
        DataType::Dictionary(_, values) => name(values),
        other => other.to_string(),
    }
}
