//! The types of values that machine code computes with.

use arrow::datatypes::DataType;
use cranelift_codegen::ir::{Type, types};

/// How a value is represented. Dates and times are the integers that Arrow keeps.
///
/// ```
/// use arrow::datatypes::{DataType, TimeUnit};
/// use whimbrel_native::Kind;
///
/// assert_eq!(Kind::of(&DataType::Timestamp(TimeUnit::Microsecond, None)), Some(Kind::I64));
/// assert_eq!(Kind::of(&DataType::Utf8), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A truth value: a bit in a column, a byte in a register.
    Bool,
    /// An integer of 8 bits with a sign.
    I8,
    /// An integer of 16 bits with a sign.
    I16,
    /// An integer of 32 bits with a sign.
    I32,
    /// An integer of 64 bits with a sign.
    I64,
    /// An integer of 8 bits without a sign.
    U8,
    /// An integer of 16 bits without a sign.
    U16,
    /// An integer of 32 bits without a sign.
    U32,
    /// An integer of 64 bits without a sign.
    U64,
    /// A float of 32 bits.
    F32,
    /// A float of 64 bits.
    F64,
}

impl Kind {
    /// How values of a type are represented; none if they have no fixed width, or one that no register has.
    pub fn of(data_type: &DataType) -> Option<Kind> {
        use DataType as T;
        Some(match data_type {
            T::Boolean => Kind::Bool,
            T::Int8 => Kind::I8,
            T::Int16 => Kind::I16,
            T::Int32 | T::Date32 | T::Time32(_) => Kind::I32,
            T::Int64 | T::Date64 | T::Time64(_) | T::Timestamp(..) | T::Duration(_) => Kind::I64,
            T::UInt8 => Kind::U8,
            T::UInt16 => Kind::U16,
            T::UInt32 => Kind::U32,
            T::UInt64 => Kind::U64,
            T::Float32 => Kind::F32,
            T::Float64 => Kind::F64,
            _ => return None,
        })
    }

    /// How many bytes a value takes.
    pub fn bytes(self) -> usize {
        self.register().bytes() as usize
    }

    /// Whether values are floats.
    pub fn is_float(self) -> bool {
        matches!(self, Kind::F32 | Kind::F64)
    }

    /// Whether values are integers.
    pub fn is_integer(self) -> bool {
        !self.is_float() && self != Kind::Bool
    }

    /// Whether values have a sign.
    pub fn is_signed(self) -> bool {
        matches!(self, Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64) || self.is_float()
    }

    /// The register that holds a value.
    pub(crate) fn register(self) -> Type {
        match self {
            Kind::Bool | Kind::I8 | Kind::U8 => types::I8,
            Kind::I16 | Kind::U16 => types::I16,
            Kind::I32 | Kind::U32 => types::I32,
            Kind::I64 | Kind::U64 => types::I64,
            Kind::F32 => types::F32,
            Kind::F64 => types::F64,
        }
    }
}
