//! The grouping key of a batch: computed once from some of its columns, with its hashes, and carried along.
//!
//! Invariants: two rows of any two batches of a stream have equal key values (words and nulls, or bytes)
//! exactly if their key columns are equal, nulls being equal to nulls, -0.0 to 0.0 and every NaN to every
//! other; the hash depends on the value only, not on the batch, process or machine, so that it can decide to
//! which shard a row goes.
//!
//! Where a row has to be found again, as the start edge of an end edge, its columns are told apart to the bit
//! ([`Key::exact`]): floats that are equal are still not the same row.

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BinaryArray, RecordBatch, make_array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type, Int64Type, UInt64Type,
};
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use half::f16;
use std::sync::{Arc, OnceLock};

/// The values of a key, in one of three physical forms.
#[derive(Debug, Clone)]
pub(crate) enum KeyValues {
    /// No key columns: every row is in the one group.
    Unit(usize),
    /// One column of at most eight bytes. An integer column lends its buffer.
    Words(ScalarBuffer<u64>, Option<NullBuffer>),
    /// Anything else: the columns' order-preserving row encoding.
    Bytes(BinaryArray),
}

/// The grouping key of the rows of one batch (trill.txt §5.1).
#[derive(Debug)]
pub struct Key {
    columns: Vec<usize>,
    values: KeyValues,
    /// Made when they are asked for: where keys are words, groups are found without them.
    hashes: OnceLock<Vec<u32>>,
}

/// Whether keys of these types are carried as words.
pub(crate) fn is_word(types: &[DataType]) -> bool {
    use DataType::*;
    match types {
        [one] => matches!(
            one,
            Boolean
                | Int8
                | Int16
                | Int32
                | Int64
                | UInt8
                | UInt16
                | UInt32
                | UInt64
                | Date32
                | Date64
                | Time32(_)
                | Time64(_)
                | Timestamp(_, _)
                | Duration(_)
        ),
        _ => false,
    }
}

/// Whether there are floats in values of this type.
pub(crate) fn has_floats(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Float16 | Float32 | Float64 => true,
        List(item) | LargeList(item) | ListView(item) | LargeListView(item) | FixedSizeList(item, _) => {
            has_floats(item.data_type())
        }
        Map(entries, _) => has_floats(entries.data_type()),
        Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        Union(fields, _) => fields.iter().any(|(_, field)| has_floats(field.data_type())),
        Dictionary(_, values) => has_floats(values),
        RunEndEncoded(_, values) => has_floats(values.data_type()),
        _ => false,
    }
}

/// The column with equal floats made the same: every -0.0 is 0.0, and every NaN one and the same.
pub(crate) fn with_equal_floats(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Float16 => equal_floats::<Float16Type>(array, f16::NAN, f16::ZERO, |f| f.is_nan()),
        DataType::Float32 => equal_floats::<Float32Type>(array, f32::NAN, 0.0, f32::is_nan),
        DataType::Float64 => equal_floats::<Float64Type>(array, f64::NAN, 0.0, f64::is_nan),
        other if has_floats(other) => {
            let data = array.to_data();
            let part = |part: &ArrayData| Ok(with_equal_floats(&make_array(part.clone()))?.to_data());
            let parts = data.child_data().iter().map(part).collect::<Result<_>>()?;
            make_array(data.into_builder().child_data(parts).build()?)
        }
        _ => array.clone(),
    })
}

/// Floats of one type with every NaN replaced by `nan` and every zero by `zero`. A column without either is
/// not copied.
fn equal_floats<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    nan: T::Native,
    zero: T::Native,
    is_nan: impl Fn(T::Native) -> bool,
) -> ArrayRef {
    let floats = array.as_primitive::<T>();
    // Of either zero: a null that is one stays one.
    let is_zero = |float: T::Native| float == zero;
    match floats.values().iter().fold(false, |any, &float| any | is_nan(float) | is_zero(float)) {
        false => array.clone(),
        true => Arc::new(floats.unary::<_, T>(|float| match () {
            () if is_nan(float) => nan,
            () if is_zero(float) => zero,
            () => float,
        })),
    }
}

/// The row encoding of several columns, or of one whose type has no word form.
pub(crate) fn encode_rows(arrays: &[ArrayRef]) -> Result<BinaryArray> {
    encode_sorted(arrays, SortOptions::default())
}

/// The same, so that the bytes have this order.
pub(crate) fn encode_sorted(arrays: &[ArrayRef], order: SortOptions) -> Result<BinaryArray> {
    let field = |array: &ArrayRef| SortField::new_with_options(array.data_type().clone(), order);
    Ok(RowConverter::new(arrays.iter().map(field).collect())?.convert_columns(arrays)?.try_into_binary()?)
}

/// The columns whose row encoding `bytes` is.
pub(crate) fn decode_rows(types: &[DataType], bytes: BinaryArray) -> Result<Vec<ArrayRef>> {
    let converter = RowConverter::new(types.iter().map(|t| SortField::new(t.clone())).collect())?;
    let rows = converter.from_binary(bytes);
    // Dictionaries come back as their values.
    let typed = |(array, to): (ArrayRef, &DataType)| {
        if array.data_type() == to { Ok(array) } else { cast(&array, to) }
    };
    Ok(converter
        .convert_rows(&rows)?
        .into_iter()
        .zip(types)
        .map(typed)
        .collect::<std::result::Result<_, _>>()?)
}

/// The words of a column of a word type: its bits as `u64`.
pub(crate) fn words_of(array: &ArrayRef) -> Result<ScalarBuffer<u64>> {
    use DataType::*;
    let wide = match array.data_type() {
        Int64 | Timestamp(_, _) | Date64 | Time64(_) | Duration(_) | UInt64 => array.clone(),
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
    let words: ScalarBuffer<u64> = words.into();
    let unsigned = matches!(to, UInt8 | UInt16 | UInt32 | UInt64 | Boolean);
    let wide: ArrayRef = if unsigned {
        Arc::new(arrow::array::PrimitiveArray::<UInt64Type>::new(words, nulls))
    } else {
        let len = words.len();
        Arc::new(arrow::array::PrimitiveArray::<Int64Type>::new(
            ScalarBuffer::new(words.into_inner(), 0, len),
            nulls,
        ))
    };
    Ok(match to {
        Date32 | Time32(_) => cast(&cast(&wide, &Int32)?, to)?,
        _ if wide.data_type() == to => wide,
        _ => cast(&wide, to)?,
    })
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

/// Mixes bytes, eight at a time.
/// Their number is mixed in too, so zeros at the end make a difference.
#[inline]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u32 {
    let mut state = bytes.len() as u64 ^ 0x1319_8a2e_0370_7344;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        state = fold(state ^ u64::from_le_bytes(word));
    }
    let mut last = [0; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    (fold(state ^ u64::from_le_bytes(last)) >> 32) as u32
}

/// The product of 128 bits, its halves laid over each other.
#[inline(always)]
fn fold(word: u64) -> u64 {
    let product = word as u128 * 0x9e37_79b9_7f4a_7c15_u128;
    product as u64 ^ (product >> 64) as u64
}

impl Key {
    /// The key made of these columns of a batch.
    ///
    /// # Errors
    /// `ArrowError` if a column's type has no equality.
    pub fn of(rows: &RecordBatch, columns: &[usize]) -> Result<Key> {
        let arrays = columns.iter().map(|&c| with_equal_floats(rows.column(c))).collect::<Result<_>>()?;
        Key::made(columns, arrays, rows.num_rows())
    }

    /// The same, but two floats are equal only if their bits are.
    pub(crate) fn exact(rows: &RecordBatch, columns: &[usize]) -> Result<Key> {
        Key::made(columns, columns.iter().map(|&c| rows.column(c).clone()).collect(), rows.num_rows())
    }

    /// The key of these arrays, whose floats are already as they are to be compared.
    fn made(columns: &[usize], arrays: Vec<ArrayRef>, rows: usize) -> Result<Key> {
        let types: Vec<DataType> = arrays.iter().map(|a| a.data_type().clone()).collect();
        let values = if arrays.is_empty() {
            KeyValues::Unit(rows)
        } else if is_word(&types) {
            KeyValues::Words(words_of(&arrays[0])?, arrays[0].nulls().filter(|n| n.null_count() > 0).cloned())
        } else {
            KeyValues::Bytes(encode_rows(&arrays)?)
        };
        Ok(Key { columns: columns.to_vec(), values, hashes: OnceLock::new() })
    }

    /// The columns that make up the key.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// How many rows it is of.
    pub(crate) fn len(&self) -> usize {
        match &self.values {
            KeyValues::Unit(rows) => *rows,
            KeyValues::Words(words, _) => words.len(),
            KeyValues::Bytes(bytes) => bytes.len(),
        }
    }

    pub(crate) fn values(&self) -> &KeyValues {
        &self.values
    }

    /// Which rows have a null in their key: these equal nothing in a join, though they are a group of their
    /// own.
    pub(crate) fn nulls(rows: &RecordBatch, columns: &[usize]) -> Option<NullBuffer> {
        let nulls = columns.iter().map(|&c| rows.column(c).logical_nulls());
        nulls
            .fold(None, |all, one| NullBuffer::union(all.as_ref(), one.as_ref()))
            .filter(|n| n.null_count() > 0)
    }

    /// The same values under other column numbers, after a projection.
    pub(crate) fn renumbered(&self, columns: Vec<usize>) -> Key {
        Key { columns, values: self.values.clone(), hashes: self.hashes.clone() }
    }

    /// The hash of every row's key; computed at the first call.
    pub fn hashes(&self) -> &[u32] {
        self.hashes.get_or_init(|| match &self.values {
            KeyValues::Unit(rows) => vec![0; *rows],
            KeyValues::Words(words, None) => words.iter().map(|&w| hash_word(w)).collect(),
            KeyValues::Words(words, Some(nulls)) => words
                .iter()
                .zip(nulls)
                .map(|(&w, valid)| if valid { hash_word(w) } else { NULL_HASH })
                .collect(),
            KeyValues::Bytes(bytes) => (0..bytes.len()).map(|i| hash_bytes(bytes.value(i))).collect(),
        })
    }

    /// The same key for some of the rows, one after another.
    pub(crate) fn slice(&self, offset: usize, len: usize) -> Key {
        let values = match &self.values {
            KeyValues::Unit(_) => KeyValues::Unit(len),
            KeyValues::Words(words, nulls) => KeyValues::Words(
                words.slice(offset, len),
                nulls.as_ref().map(|n| n.slice(offset, len)).filter(|n| n.null_count() > 0),
            ),
            KeyValues::Bytes(bytes) => KeyValues::Bytes(bytes.slice(offset, len)),
        };
        let hashes = OnceLock::new();
        if let Some(all) = self.hashes.get() {
            let _ = hashes.set(all[offset..offset + len].to_vec());
        }
        Key { columns: self.columns.clone(), values, hashes }
    }
}
