//! Names of types that other engines have.

use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType, ExactNumberInfo, TimezoneInfo};

/// Names of types that others have.
pub(super) fn desugar(data_type: &mut DataType) {
    if let DataType::Array(
        ArrayElemTypeDef::SquareBracket(inner, _) | ArrayElemTypeDef::AngleBracket(inner),
    ) = data_type
    {
        return desugar(inner);
    }
    let known = match data_type {
        DataType::Int16 => DataType::SmallInt(None),
        DataType::Int32 => DataType::Int(None),
        DataType::Int64 | DataType::Signed => DataType::BigInt(None),
        DataType::UTinyInt | DataType::UInt8 => DataType::TinyIntUnsigned(None),
        DataType::USmallInt | DataType::UInt16 => DataType::SmallIntUnsigned(None),
        DataType::UInt32 => DataType::IntUnsigned(None),
        DataType::UBigInt | DataType::UInt64 => DataType::BigIntUnsigned(None),
        DataType::HugeInt | DataType::Int128 => DataType::Decimal(ExactNumberInfo::PrecisionAndScale(38, 0)),
        // As a text: it is compared and ordered as one, too.
        DataType::Uuid | DataType::JSON | DataType::JSONB => DataType::Text,
        DataType::Dec(size) => DataType::Decimal(*size),
        // Microseconds, unless others are asked for: nanoseconds end in 2262.
        DataType::Timestamp(None, zone) => DataType::Timestamp(Some(6), *zone),
        DataType::Datetime(_) => DataType::Timestamp(Some(6), TimezoneInfo::None),
        DataType::Blob(_) | DataType::Varbinary(_) | DataType::Binary(_) => DataType::Bytea,
        DataType::Character(_)
        | DataType::CharacterVarying(_)
        | DataType::CharVarying(_)
        | DataType::Nvarchar(_) => DataType::Text,
        DataType::Custom(name, _) => match name.to_string().to_ascii_lowercase().as_str() {
            "int1" => DataType::TinyInt(None),
            "short" => DataType::SmallInt(None),
            "long" => DataType::BigInt(None),
            "uinteger" => DataType::IntUnsigned(None),
            "bpchar" | "name" | "string" => DataType::Text,
            "timestamp_s" => DataType::Timestamp(Some(0), TimezoneInfo::None),
            "timestamp_ms" => DataType::Timestamp(Some(3), TimezoneInfo::None),
            "timestamp_us" => DataType::Timestamp(Some(6), TimezoneInfo::None),
            "timestamp_ns" => DataType::Timestamp(Some(9), TimezoneInfo::None),
            "hugeint" => DataType::Decimal(ExactNumberInfo::PrecisionAndScale(38, 0)),
            "logical" => DataType::Boolean,
            _ => return,
        },
        _ => return,
    };
    *data_type = known;
}
