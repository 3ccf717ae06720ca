//! Columns in the encoding of the file: strings as dictionaries, decimals as narrow integers.
//!
//! They are decoded when a conjunct needs their values, or when they come out: by then most rows are gone.

use super::super::parquet::File;
use crate::error::in_place;
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DECIMAL64_MAX_PRECISION, DataType, Decimal64Type, Decimal128Type, Field, Schema,
};
use datafusion::common::Result;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::{Encoding, Type};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The metadata that reads the decimals of a file as narrow as the file has them.
///
/// # Errors
/// If the file cannot be read so.
pub(super) fn with_narrow_decimals(file: &File) -> Result<ArrowReaderMetadata> {
    let metadata = &file.metadata;
    let fields = metadata.schema().fields().iter().enumerate();
    let fields = fields.map(|(column, field)| match field.data_type() {
        DataType::Decimal128(precision, scale)
            if *precision <= DECIMAL64_MAX_PRECISION && is_integer(metadata, column) =>
        {
            retyped(field, DataType::Decimal64(*precision, *scale))
        }
        _ => Arc::clone(field),
    });
    with_fields(file, metadata, fields.collect())
}

/// The metadata that also reads these columns as dictionaries, where they are strings and a row group has
/// nothing but dictionary pages of them.
///
/// # Errors
/// If the file cannot be read so.
pub(super) fn with_dictionaries(
    file: &File,
    metadata: &ArrowReaderMetadata,
    row_group: usize,
    columns: &BTreeSet<usize>,
) -> Result<ArrowReaderMetadata> {
    let mut fields = metadata.schema().fields().to_vec();
    for &column in columns {
        if fields[column].data_type().is_string() && only_dictionary(metadata, row_group, column) {
            let encoded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            fields[column] = retyped(&fields[column], encoded);
        }
    }
    with_fields(file, metadata, fields)
}

/// A column in the type that the reader of the file promises.
///
/// # Errors
/// If the column cannot be cast.
pub(super) fn decode(column: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    match (column.data_type(), target) {
        (same, target) if same == target => Ok(Arc::clone(column)),
        (DataType::Decimal64(..), DataType::Decimal128(precision, scale)) => {
            let wide = column.as_primitive::<Decimal64Type>().unary::<_, Decimal128Type>(i128::from);
            Ok(Arc::new(wide.with_precision_and_scale(*precision, *scale)?))
        }
        _ => Ok(cast(column, target)?),
    }
}

/// The metadata that reads a file with these columns.
fn with_fields(
    file: &File,
    metadata: &ArrowReaderMetadata,
    fields: Vec<Arc<Field>>,
) -> Result<ArrowReaderMetadata> {
    if fields.iter().eq(metadata.schema().fields()) {
        return Ok(metadata.clone());
    }
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata.schema().metadata().clone()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)
        .map_err(|e| in_place(&file.location, e))
}

/// The field with another type.
fn retyped(field: &Field, data_type: DataType) -> Arc<Field> {
    Arc::new(field.clone().with_data_type(data_type))
}

/// The leaf of a column that is not nested.
fn leaf(metadata: &ArrowReaderMetadata, column: usize) -> Option<usize> {
    let schema = metadata.parquet_schema();
    (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == column)
}

/// Whether a column is stored as integers.
fn is_integer(metadata: &ArrowReaderMetadata, column: usize) -> bool {
    leaf(metadata, column).is_some_and(|leaf| {
        matches!(metadata.parquet_schema().column(leaf).physical_type(), Type::INT32 | Type::INT64)
    })
}

/// Whether all pages of a column in a row group are encoded by a dictionary.
fn only_dictionary(metadata: &ArrowReaderMetadata, row_group: usize, column: usize) -> bool {
    let group = metadata.metadata().row_group(row_group);
    let encodings = leaf(metadata, column).and_then(|leaf| group.column(leaf).page_encoding_stats_mask());
    encodings.is_some_and(|e| e.is_only(Encoding::RLE_DICTIONARY) || e.is_only(Encoding::PLAIN_DICTIONARY))
}
