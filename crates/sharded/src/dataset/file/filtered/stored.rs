//! Columns as a file has them: strings as the dictionaries that they are written with, decimals as the narrow integers.
//!
//! They stay so until a term asks for their values or until they come out, which is after most rows are gone.

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

/// A file to be read with its decimals as narrow as it has them.
pub(super) fn narrow(file: &File) -> Result<ArrowReaderMetadata> {
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

/// The same with those of these columns as dictionaries that are strings, and dictionaries throughout a row group.
pub(super) fn encoded(
    file: &File,
    metadata: &ArrowReaderMetadata,
    group: usize,
    columns: &BTreeSet<usize>,
) -> Result<ArrowReaderMetadata> {
    let mut fields = metadata.schema().fields().to_vec();
    for &column in columns {
        if fields[column].data_type().is_string() && only_dictionary(metadata, group, column) {
            let encoded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            fields[column] = retyped(&fields[column], encoded);
        }
    }
    with_fields(file, metadata, fields)
}

/// A column as the reader of the file expects it.
pub(super) fn plain(column: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    match (column.data_type(), wanted) {
        (same, wanted) if same == wanted => Ok(Arc::clone(column)),
        (DataType::Decimal64(..), DataType::Decimal128(precision, scale)) => {
            let wide = column.as_primitive::<Decimal64Type>().unary::<_, Decimal128Type>(i128::from);
            Ok(Arc::new(wide.with_precision_and_scale(*precision, *scale)?))
        }
        _ => Ok(cast(column, wanted)?),
    }
}

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

fn retyped(field: &Field, data_type: DataType) -> Arc<Field> {
    Arc::new(field.clone().with_data_type(data_type))
}

/// The place among the leaves of the file of a column that is not nested.
fn leaf(metadata: &ArrowReaderMetadata, column: usize) -> Option<usize> {
    let schema = metadata.parquet_schema();
    (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == column)
}

fn is_integer(metadata: &ArrowReaderMetadata, column: usize) -> bool {
    leaf(metadata, column).is_some_and(|leaf| {
        matches!(metadata.parquet_schema().column(leaf).physical_type(), Type::INT32 | Type::INT64)
    })
}

/// Whether all pages of a column are encoded by a dictionary in this row group.
fn only_dictionary(metadata: &ArrowReaderMetadata, group: usize, column: usize) -> bool {
    let group = metadata.metadata().row_group(group);
    let encodings = leaf(metadata, column).and_then(|leaf| group.column(leaf).page_encoding_stats_mask());
    encodings.is_some_and(|e| e.is_only(Encoding::RLE_DICTIONARY) || e.is_only(Encoding::PLAIN_DICTIONARY))
}
