//! Columns of at most eight bytes a value as words.

use arrow::array::{Array, ArrayRef, PrimitiveArray};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float64Type, Int64Type, UInt64Type};
use datafusion::common::Result;
use std::sync::Arc;

/// Whether a column of this type is carried as words.
pub(super) fn is_word(of: &DataType) -> bool {
    use DataType::*;
    matches!(
        of,
        Boolean
            | Int8
            | Int16
            | Int32
            | Int64
            | UInt8
            | UInt16
            | UInt32
            | UInt64
            | Float64
            | Date32
            | Date64
            | Time32(_)
            | Time64(_)
            | Timestamp(_, _)
            | Duration(_)
    )
}

/// The words of a column of a word type: its bits as `u64`.
pub(crate) fn words_of(array: &ArrayRef) -> Result<ScalarBuffer<u64>> {
    use DataType::*;
    let wide = match array.data_type() {
        Int64 | Timestamp(_, _) | Date64 | Time64(_) | Duration(_) | UInt64 | Float64 => array.clone(),
        UInt8 | UInt16 | UInt32 | Boolean => cast(array, &UInt64)?,
        Date32 | Time32(_) => cast(&cast(array, &Int32)?, &Int64)?,
        _ => cast(array, &Int64)?,
    };
    let data = wide.to_data();
    Ok(ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len()))
}

/// The column of type `to` whose words these are.
pub(crate) fn array_of_words(words: Vec<u64>, nulls: Option<NullBuffer>, to: &DataType) -> Result<ArrayRef> {
    use DataType::*;
    let words = Buffer::from(words);
    let len = words.len() / size_of::<u64>();
    let wide: ArrayRef = match to {
        UInt8 | UInt16 | UInt32 | UInt64 | Boolean => primitive::<UInt64Type>(words, len, nulls),
        Float64 => primitive::<Float64Type>(words, len, nulls),
        _ => primitive::<Int64Type>(words, len, nulls),
    };
    Ok(match to {
        Date32 | Time32(_) => cast(&cast(&wide, &Int32)?, to)?,
        _ if wide.data_type() == to => wide,
        _ => cast(&wide, to)?,
    })
}

fn primitive<T: ArrowPrimitiveType>(words: Buffer, len: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::new(words, 0, len), nulls))
}

/// Mixes a word into 32 well-spread bits; one wide multiplication, cheaper than carrying a hash column.
/// Saved tables of groups hold these hashes: with the constants the version of checkpoints has to change.
#[inline(always)]
pub(crate) fn hash_word(word: u64) -> u32 {
    let product = (word ^ 0x243f_6a88_85a3_08d3) as u128 * 0x9e37_79b9_7f4a_7c15_u128;
    ((product as u64 ^ (product >> 64) as u64) >> 32) as u32
}

/// The hash of a null word.
pub(crate) const NULL_HASH: u32 = 0x5bd1_e995;

/// The product of 128 bits, its halves laid over each other.
#[inline(always)]
pub(super) fn fold(word: u64) -> u64 {
    let product = word as u128 * 0x9e37_79b9_7f4a_7c15_u128;
    product as u64 ^ (product >> 64) as u64
}
