//! Values as bytes, without an order: as records and cursors hold them.
//!
//! The type of a value is not written, so whoever reads it has to know it. Texts and bytes have their length
//! before them.

use crate::datum::{Datum, Type};
use crate::error::{Error, Result};

/// Appends a value that is not null.
pub(crate) fn put(of: Type, value: Datum<'_>, out: &mut Vec<u8>) {
    match (of, value) {
        (_, Datum::Null) => {}
        (_, Datum::Bool(v)) => out.push(v.into()),
        (Type::Int16, Datum::Int(v)) => out.extend((v as i16).to_le_bytes()),
        (Type::Int32 | Type::Date, Datum::Int(v)) => out.extend((v as i32).to_le_bytes()),
        (_, Datum::Int(v)) => out.extend(v.to_le_bytes()),
        (_, Datum::Float(v)) => out.extend(v.to_le_bytes()),
        (_, Datum::Decimal(v)) => out.extend(v.to_le_bytes()),
        (_, Datum::Text(v)) => length_and(v.as_bytes(), out),
        (_, Datum::Bytes(v)) => length_and(v, out),
    }
}

/// Bytes with their length before them.
fn length_and(bytes: &[u8], out: &mut Vec<u8>) {
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Takes a value that is not null from the front.
pub(crate) fn take_value<'r>(of: Type, rest: &mut &'r [u8]) -> Result<Datum<'r>> {
    Ok(match of {
        Type::Bool => Datum::Bool(take(rest, 1)?[0] != 0),
        Type::Int16 => Datum::Int(i16::from_le_bytes(array(rest)?).into()),
        Type::Int32 | Type::Date => Datum::Int(i32::from_le_bytes(array(rest)?).into()),
        Type::Int64 | Type::Timestamp => Datum::Int(i64::from_le_bytes(array(rest)?)),
        Type::Float64 => Datum::Float(f64::from_le_bytes(array(rest)?)),
        Type::Decimal(..) => Datum::Decimal(i128::from_le_bytes(array(rest)?)),
        Type::Text(_) => {
            let length = take_varint(rest)? as usize;
            Datum::Text(std::str::from_utf8(take(rest, length)?).map_err(|_| damaged())?)
        }
        Type::Bytes(_) => {
            let length = take_varint(rest)? as usize;
            Datum::Bytes(take(rest, length)?)
        }
    })
}

/// Skips a value that is not null.
pub(crate) fn skip_value(of: Type, rest: &mut &[u8]) -> Result<()> {
    let length = match of {
        Type::Bool => 1,
        Type::Int16 => 2,
        Type::Int32 | Type::Date => 4,
        Type::Int64 | Type::Timestamp | Type::Float64 => 8,
        Type::Decimal(..) => 16,
        Type::Text(_) | Type::Bytes(_) => take_varint(rest)? as usize,
    };
    take(rest, length).map(drop)
}

/// A fixed number of bytes from the front.
fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    take(rest, N)?.try_into().map_err(|_| damaged())
}

/// Takes so many bytes from the front.
pub(crate) fn take<'r>(rest: &mut &'r [u8], length: usize) -> Result<&'r [u8]> {
    let (head, tail) = rest.split_at_checked(length).ok_or_else(damaged)?;
    *rest = tail;
    Ok(head)
}

/// Appends a number, seven bits a byte.
pub(crate) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number from the front.
pub(crate) fn take_varint(rest: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(damaged())
}

/// The error for bytes that end too early, or are no UTF-8.
fn damaged() -> Error {
    Error::Internal("a value in the store is damaged: restore it from a copy".to_string())
}
