//! Columns of a few physical forms, to which every Arrow type is brought once a batch and from which it comes
//! back.
//!
//! Aggregates are written over these forms instead of over forty types: `i64` (signed integers and times),
//! `u64`, `f64`, `i128` (decimals), and order-preserving bytes for all else. Lists and structs that an
//! aggregate makes itself are built of columns of these.

use crate::key::{decode_rows, encode_rows, with_equal_floats, words_of};
use arrow::array::NullBufferBuilder;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, ListArray, PrimitiveArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Fields, Float64Type, Int64Type, UInt64Type,
};
use datafusion::common::{Result, exec_err, internal_err};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

/// Which of the forms a type has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `i64`: signed integers, dates, times, timestamps, durations.
    Int,
    /// `u64`: unsigned integers and truth values.
    Uint,
    /// `f64`: floats of 16, 32 and 64 bits.
    Float,
    /// `i128`: decimals of at most 38 digits, in units of their last digit.
    Decimal,
    /// Row encodings: all else, decimals of 256 bits too.
    Bytes,
}

impl Form {
    pub fn of(data_type: &DataType) -> Form {
        use DataType::*;
        match data_type {
            Int8
            | Int16
            | Int32
            | Int64
            | Date32
            | Date64
            | Time32(_)
            | Time64(_)
            | Timestamp(_, _)
            | Duration(_) => Form::Int,
            Boolean | UInt8 | UInt16 | UInt32 | UInt64 => Form::Uint,
            Float16 | Float32 | Float64 => Form::Float,
            Decimal32(_, _) | Decimal64(_, _) | Decimal128(_, _) => Form::Decimal,
            _ => Form::Bytes,
        }
    }
}

/// A value of one of the forms.
pub(crate) trait Value: Clone + Debug + Send + Serialize + DeserializeOwned + 'static {
    /// A column of such values.
    type Column: Send + Debug + Default;
    /// A hashable, totally ordered stand-in.
    type Ordered: Ord + Hash + Clone + Debug + Send + Serialize + DeserializeOwned;

    /// The column's values, brought to this form.
    fn column(array: &ArrayRef) -> Result<Self::Column>;
    /// The same for those who want the [exact](Value::exact) values.
    fn exact_column(array: &ArrayRef) -> Result<Self::Column> {
        Self::column(array)
    }
    /// The value of a row. Where the row is null it means nothing.
    fn get(column: &Self::Column, row: usize) -> Self;
    /// Two values have equal stand-ins exactly if SQL takes them for equal, and stand-ins are in SQL's
    /// order.
    fn ordered(&self) -> Self::Ordered;
    /// The same, but values that differ in any bit differ here too: -0.0 is not 0.0.
    fn exact(&self) -> Self::Ordered {
        self.ordered()
    }
    /// A value with this stand-in.
    fn from_ordered(ordered: &Self::Ordered) -> Self;
    /// The column of type `to` with these values.
    fn array(values: Vec<Self>, nulls: Option<NullBuffer>, to: &DataType) -> Result<ArrayRef>;
    /// What stands where a null is.
    fn filler() -> Self;
    /// The values of a column that is being built, if they have this form.
    fn of_mut(values: &mut Values) -> Option<&mut Vec<Self>>;
}

impl Value for i64 {
    type Column = ScalarBuffer<i64>;
    type Ordered = i64;

    fn column(array: &ArrayRef) -> Result<Self::Column> {
        let words = words_of(array)?;
        let len = words.len();
        Ok(ScalarBuffer::new(words.into_inner(), 0, len))
    }
    #[inline(always)]
    fn get(column: &Self::Column, row: usize) -> i64 {
        column[row]
    }
    fn ordered(&self) -> i64 {
        *self
    }
    fn from_ordered(ordered: &i64) -> i64 {
        *ordered
    }
    fn array(values: Vec<i64>, nulls: Option<NullBuffer>, to: &DataType) -> Result<ArrayRef> {
        use DataType::*;
        let wide: ArrayRef = primitive::<Int64Type>(values, nulls);
        Ok(match to {
            Date32 | Time32(_) => cast(&cast(&wide, &Int32)?, to)?,
            _ => cast_to(wide, to)?,
        })
    }
    fn filler() -> i64 {
        0
    }
    fn of_mut(values: &mut Values) -> Option<&mut Vec<i64>> {
        if let Values::Int(values) = values { Some(values) } else { None }
    }
}

impl Value for u64 {
    type Column = ScalarBuffer<u64>;
    type Ordered = u64;

    fn column(array: &ArrayRef) -> Result<Self::Column> {
        words_of(array)
    }
    #[inline(always)]
    fn get(column: &Self::Column, row: usize) -> u64 {
        column[row]
    }
    fn ordered(&self) -> u64 {
        *self
    }
    fn from_ordered(ordered: &u64) -> u64 {
        *ordered
    }
    fn array(values: Vec<u64>, nulls: Option<NullBuffer>, to: &DataType) -> Result<ArrayRef> {
        cast_to(primitive::<UInt64Type>(values, nulls), to)
    }
    fn filler() -> u64 {
        0
    }
    fn of_mut(values: &mut Values) -> Option<&mut Vec<u64>> {
        if let Values::Uint(values) = values { Some(values) } else { None }
    }
}

impl Value for f64 {
    type Column = ScalarBuffer<f64>;
    /// The bits, turned so that their order is IEEE 754's total order.
    type Ordered = i64;

    fn column(array: &ArrayRef) -> Result<Self::Column> {
        Ok(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().values().clone())
    }
    #[inline(always)]
    fn get(column: &Self::Column, row: usize) -> f64 {
        column[row]
    }
    fn ordered(&self) -> i64 {
        // -0.0 is 0.0, and every NaN is the same, above all numbers: SQL's equality, which grouping and
        // DISTINCT use.
        if self.is_nan() { f64::NAN.exact() } else { (self + 0.0).exact() }
    }
    fn exact(&self) -> i64 {
        let bits = self.to_bits() as i64;
        bits ^ (((bits >> 63) as u64) >> 1) as i64
    }
    fn from_ordered(ordered: &i64) -> f64 {
        f64::from_bits((ordered ^ (((ordered >> 63) as u64) >> 1) as i64) as u64)
    }
    fn array(values: Vec<f64>, nulls: Option<NullBuffer>, to: &DataType) -> Result<ArrayRef> {
        cast_to(primitive::<Float64Type>(values, nulls), to)
    }
    fn filler() -> f64 {
        0.0
    }
    fn of_mut(values: &mut Values) -> Option<&mut Vec<f64>> {
        if let Values::Float(values) = values { Some(values) } else { None }
    }
}

impl Value for i128 {
    type Column = ScalarBuffer<i128>;
    type Ordered = i128;

    fn column(array: &ArrayRef) -> Result<Self::Column> {
        let wide = match array.data_type() {
            DataType::Decimal128(_, _) => array.clone(),
            DataType::Decimal32(_, s) | DataType::Decimal64(_, s) => {
                cast(array, &DataType::Decimal128(38, *s))?
            }
            other => return internal_err!("{other} is not a decimal"),
        };
        Ok(wide.as_primitive::<Decimal128Type>().values().clone())
    }
    #[inline(always)]
    fn get(column: &Self::Column, row: usize) -> i128 {
        column[row]
    }
    fn ordered(&self) -> i128 {
        *self
    }
    fn from_ordered(ordered: &i128) -> i128 {
        *ordered
    }
    fn array(values: Vec<i128>, nulls: Option<NullBuffer>, to: &DataType) -> Result<ArrayRef> {
        let DataType::Decimal128(precision, scale) = to else {
            let (DataType::Decimal32(_, s) | DataType::Decimal64(_, s)) = to else {
                return internal_err!("{to} is not a decimal");
            };
            return Ok(cast(&i128::array(values, nulls, &DataType::Decimal128(38, *s))?, to)?);
        };
        let array = PrimitiveArray::<Decimal128Type>::new(values.into(), nulls);
        Ok(Arc::new(array.with_precision_and_scale(*precision, *scale)?))
    }
    fn filler() -> i128 {
        0
    }
    fn of_mut(values: &mut Values) -> Option<&mut Vec<i128>> {
        if let Values::Decimal(values) = values { Some(values) } else { None }
    }
}

/// A value in its row encoding.
pub(crate) type Bytes = Box<[u8]>;

/// A column in its row encoding.
#[derive(Debug)]
pub(crate) struct ByteColumn(BinaryArray);

impl Default for ByteColumn {
    fn default() -> Self {
        ByteColumn(BinaryBuilder::new().finish())
    }
}

impl Value for Bytes {
    type Column = ByteColumn;
    type Ordered = Bytes;

    fn column(array: &ArrayRef) -> Result<Self::Column> {
        Bytes::exact_column(&with_equal_floats(array)?)
    }
    fn exact_column(array: &ArrayRef) -> Result<Self::Column> {
        Ok(ByteColumn(encode_rows(std::slice::from_ref(array))?))
    }
    fn get(column: &Self::Column, row: usize) -> Bytes {
        column.0.value(row).into()
    }
    fn ordered(&self) -> Bytes {
        self.clone()
    }
    fn from_ordered(ordered: &Bytes) -> Bytes {
        ordered.clone()
    }
    fn array(values: Vec<Bytes>, nulls: Option<NullBuffer>, to: &DataType) -> Result<ArrayRef> {
        // Nulls are part of the encoding, except where the state has no value at all.
        let null = encode_rows(&[arrow::array::new_null_array(to, 1)])?;
        let mut bytes = BinaryBuilder::new();
        for (i, value) in values.iter().enumerate() {
            match nulls.as_ref().is_none_or(|n| n.is_valid(i)) {
                true => bytes.append_value(value),
                false => bytes.append_value(null.value(0)),
            }
        }
        Ok(decode_rows(std::slice::from_ref(to), bytes.finish())?.remove(0))
    }
    fn filler() -> Bytes {
        Box::default()
    }
    fn of_mut(values: &mut Values) -> Option<&mut Vec<Bytes>> {
        if let Values::Bytes(values) = values { Some(values) } else { None }
    }
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
}

/// The array as one of type `to`; one that has this type already stays as it is.
fn cast_to(array: ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to { Ok(array) } else { Ok(cast(&array, to)?) }
}

/// A copy of the values, of just their size; they are built anew in the memory that they had. The next batch
/// grows no column, finds this memory in the caches, and a result that is kept takes no more memory than it
/// fills.
pub(crate) fn copy_out<T: Copy>(values: &mut Vec<T>) -> Vec<T> {
    let copy = values.to_vec();
    values.clear();
    copy
}

/// The values of a column that is being built, in one of the forms, or in parts that are columns themselves.
#[derive(Debug)]
pub(crate) enum Values {
    Int(Vec<i64>),
    Uint(Vec<u64>),
    Float(Vec<f64>),
    Decimal(Vec<i128>),
    Bytes(Vec<Bytes>),
    /// Where each list ends among the elements of all.
    Lists {
        ends: Vec<usize>,
        elements: Box<Column>,
    },
    Structs(Vec<Column>),
}

/// A column that is being built: results are appended to it, and it becomes an array once, when a batch is
/// full.
#[derive(Debug)]
pub struct Column {
    values: Values,
    nulls: NullBufferBuilder,
    to: DataType,
    /// Why the column cannot be made, if one of its values was refused.
    refused: Option<&'static str>,
}

impl Column {
    /// An empty column that will be an array of type `to`.
    pub fn new(to: DataType) -> Column {
        let values = match Form::of(&to) {
            Form::Int => Values::Int(Vec::new()),
            Form::Uint => Values::Uint(Vec::new()),
            Form::Float => Values::Float(Vec::new()),
            Form::Decimal => Values::Decimal(Vec::new()),
            Form::Bytes => Values::Bytes(Vec::new()),
        };
        Column { values, nulls: NullBufferBuilder::new(0), to, refused: None }
    }

    /// Appends values of the column's form.
    pub(crate) fn extend<V: Value>(&mut self, added: impl ExactSizeIterator<Item = V>) {
        self.nulls.append_n_non_nulls(added.len());
        if let Some(values) = V::of_mut(&mut self.values) {
            values.extend(added);
        }
    }

    /// Refuses the column because of one of its values: [`finish`](Column::finish) fails then.
    pub(crate) fn refuse(&mut self, why: &'static str) {
        self.refused = Some(why);
    }

    /// Appends values of the column's form, or nulls.
    pub(crate) fn extend_optional<V: Value>(&mut self, added: impl Iterator<Item = Option<V>>) {
        let Column { values, nulls, .. } = self;
        if let Some(values) = V::of_mut(values) {
            values.extend(added.map(|value| {
                nulls.append(value.is_some());
                value.unwrap_or_else(V::filler)
            }));
        }
    }

    /// Appends lists of these lengths, or nulls. Their elements have to be appended to the column that is
    /// returned. To a column that is built of lists nothing else can be appended.
    pub(crate) fn lists(&mut self, lengths: impl Iterator<Item = Option<usize>>) -> &mut Column {
        let Column { values, nulls, to, .. } = self;
        if !matches!(values, Values::Lists { .. }) {
            let element = if let DataType::List(item) = &*to { item.data_type() } else { &*to };
            *values = Values::Lists { ends: Vec::new(), elements: Box::new(Column::new(element.clone())) };
        }
        let Values::Lists { ends, elements } = values else {
            unreachable!("it has just become one of lists")
        };
        for length in lengths {
            nulls.append(length.is_some());
            ends.push(ends.last().copied().unwrap_or(0) + length.unwrap_or(0));
        }
        elements
    }

    /// Appends so many structs. Their fields have to be appended to the columns that are returned. To a
    /// column that is built of structs nothing else can be appended.
    pub(crate) fn structs(&mut self, count: usize) -> &mut [Column] {
        let Column { values, nulls, to, .. } = self;
        if !matches!(values, Values::Structs(_)) {
            let fields = if let DataType::Struct(fields) = &*to { fields.clone() } else { Fields::empty() };
            *values = Values::Structs(fields.iter().map(|f| Column::new(f.data_type().clone())).collect());
        }
        let Values::Structs(fields) = values else { unreachable!("it has just become one of structs") };
        nulls.append_n_non_nulls(count);
        fields
    }

    /// Appends an array of the column's type.
    ///
    /// # Errors
    /// `ArrowError` if the array has another type.
    pub fn append(&mut self, array: &ArrayRef) -> Result<()> {
        match Form::of(&self.to) {
            Form::Int => self.append_form::<i64>(array),
            Form::Uint => self.append_form::<u64>(array),
            Form::Float => self.append_form::<f64>(array),
            Form::Decimal => self.append_form::<i128>(array),
            Form::Bytes => self.append_form::<Bytes>(array),
        }
    }

    fn append_form<V: Value>(&mut self, array: &ArrayRef) -> Result<()> {
        let column = V::column(array)?;
        let nulls = array.logical_nulls();
        let valid = |i: usize| nulls.as_ref().is_none_or(|n| n.is_valid(i));
        self.extend_optional((0..array.len()).map(|i| valid(i).then(|| V::get(&column, i))));
        Ok(())
    }

    /// The array; the column is empty again, with room for as much as before.
    ///
    /// # Errors
    /// `ArrowError` if a value does not fit the type; `Execution` if one was [refused](Column::refuse).
    pub fn finish(&mut self) -> Result<ArrayRef> {
        if let Some(why) = self.refused.take() {
            return exec_err!("{why}");
        }
        let nulls = self.nulls.finish();
        match &mut self.values {
            Values::Int(values) => i64::array(copy_out(values), nulls, &self.to),
            Values::Uint(values) => u64::array(copy_out(values), nulls, &self.to),
            Values::Float(values) => f64::array(copy_out(values), nulls, &self.to),
            Values::Decimal(values) => i128::array(copy_out(values), nulls, &self.to),
            Values::Bytes(values) => Bytes::array(std::mem::take(values), nulls, &self.to),
            Values::Lists { ends, elements } => {
                list_array(copy_out(ends), elements.finish()?, nulls, &self.to)
            }
            Values::Structs(fields) => {
                let fields = fields.iter_mut().map(Column::finish).collect::<Result<_>>()?;
                struct_array(fields, nulls, &self.to)
            }
        }
    }
}

/// The lists of type `to` that end at these places of their elements.
fn list_array(
    ends: Vec<usize>,
    elements: ArrayRef,
    nulls: Option<NullBuffer>,
    to: &DataType,
) -> Result<ArrayRef> {
    let DataType::List(item) = to else { return internal_err!("{to} is not a list") };
    let Ok(offsets) = [0].iter().chain(&ends).map(|&end| i32::try_from(end)).collect::<Result<Vec<_>, _>>()
    else {
        return exec_err!("lists of more than 2^31 elements in one batch: aggregate over shorter windows");
    };
    let offsets = OffsetBuffer::new(offsets.into());
    Ok(Arc::new(ListArray::try_new(item.clone(), offsets, elements, nulls)?))
}

/// The structs of type `to` with these fields.
fn struct_array(fields: Vec<ArrayRef>, nulls: Option<NullBuffer>, to: &DataType) -> Result<ArrayRef> {
    let DataType::Struct(of) = to else { return internal_err!("{to} is not a struct") };
    Ok(Arc::new(StructArray::try_new(of.clone(), fields, nulls)?))
}
