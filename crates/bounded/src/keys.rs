//! Keys: values as bytes whose order, byte by byte, is the order of the values.
//!
//! A value is a marker and its bytes. The marker puts nulls before or behind all values, whatever the direction;
//! a descending value has its bytes inverted. Whole numbers are eight bytes, most significant first, the sign
//! bit flipped; floating-point numbers likewise, negative ones inverted, with one zero and one NaN (the largest);
//! texts and bytes end with `00 00`, and a `00` in them is `00 FF`. No encoding is a prefix of another of the
//! same type, so the order of several values one behind the other is the order of the tuple.

use crate::datum::{Datum, Type};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// How the values of one part of a key are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyOrder {
    /// Largest first.
    pub descending: bool,
    /// Nulls before all values.
    pub nulls_first: bool,
}

impl KeyOrder {
    /// `asc nulls last`: what SQL means when it says nothing, here as in PostgreSQL.
    pub const ASCENDING: KeyOrder = KeyOrder { descending: false, nulls_first: false };

    /// The order in which a scan from the end sees them.
    pub fn reversed(self) -> KeyOrder {
        KeyOrder { descending: !self.descending, nulls_first: !self.nulls_first }
    }
}

const NULL_FIRST: u8 = 0;
/// The marker of everything that is not null.
pub(crate) const VALUE: u8 = 1;
const NULL_LAST: u8 = 2;

/// Appends the key of a value.
pub fn encode(value: Datum<'_>, order: KeyOrder, out: &mut Vec<u8>) {
    let start = out.len() + 1;
    match value {
        Datum::Null => return out.push(if order.nulls_first { NULL_FIRST } else { NULL_LAST }),
        _ => out.push(VALUE),
    }
    match value {
        Datum::Null => {}
        Datum::Bool(v) => out.push(v.into()),
        Datum::Int(v) => out.extend(((v as u64) ^ (1 << 63)).to_be_bytes()),
        Datum::Float(v) => out.extend(float_bits(v).to_be_bytes()),
        Datum::Decimal(v) => out.extend(((v as u128) ^ (1 << 127)).to_be_bytes()),
        Datum::Text(v) => escape(v.as_bytes(), out),
        Datum::Bytes(v) => escape(v, out),
    }
    if order.descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// The bits of a number, ordered as the numbers are.
fn float_bits(value: f64) -> u64 {
    let value = if value.is_nan() {
        f64::NAN
    } else if value == 0.0 {
        0.0
    } else {
        value
    };
    let bits = value.to_bits();
    if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits }
}

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.contains(&0) {
        out.extend_from_slice(bytes);
    } else {
        for byte in bytes {
            out.push(*byte);
            if *byte == 0 {
                out.push(0xFF);
            }
        }
    }
    out.extend([0, 0]);
}

/// A value that was read back from a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number, date or instant.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A decimal number.
    Decimal(i128),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Decoded {
    /// The value, borrowed.
    pub fn datum(&self) -> Datum<'_> {
        match self {
            Decoded::Null => Datum::Null,
            Decoded::Bool(v) => Datum::Bool(*v),
            Decoded::Int(v) => Datum::Int(*v),
            Decoded::Float(v) => Datum::Float(*v),
            Decoded::Decimal(v) => Datum::Decimal(*v),
            Decoded::Text(v) => Datum::Text(v),
            Decoded::Bytes(v) => Datum::Bytes(v),
        }
    }
}

/// Takes the key of one value from the front of the bytes.
///
/// # Errors
/// `Internal` if the bytes are not such a key.
pub fn decode(of: Type, order: KeyOrder, bytes: &mut &[u8]) -> Result<Decoded> {
    match take::<1>(bytes)?[0] {
        VALUE => {}
        NULL_FIRST | NULL_LAST => return Ok(Decoded::Null),
        _ => return Err(damaged()),
    }
    let flip = if order.descending { 0xFF } else { 0 };
    Ok(match of {
        Type::Bool => Decoded::Bool(match take::<1>(bytes)?[0] ^ flip {
            0 => false,
            1 => true,
            _ => return Err(damaged()),
        }),
        Type::Int16 | Type::Int32 | Type::Int64 | Type::Date | Type::Timestamp => {
            let bits = u64::from_be_bytes(take::<8>(bytes)?.map(|byte| byte ^ flip));
            Decoded::Int((bits ^ (1 << 63)) as i64)
        }
        Type::Float64 => {
            let bits = u64::from_be_bytes(take::<8>(bytes)?.map(|byte| byte ^ flip));
            Decoded::Float(f64::from_bits(if bits >> 63 == 1 { bits ^ (1 << 63) } else { !bits }))
        }
        Type::Decimal(..) => {
            let bits = u128::from_be_bytes(take::<16>(bytes)?.map(|byte| byte ^ flip));
            Decoded::Decimal((bits ^ (1 << 127)) as i128)
        }
        Type::Text(_) => Decoded::Text(String::from_utf8(unescape(bytes, flip)?).map_err(|_| damaged())?),
        Type::Bytes(_) => Decoded::Bytes(unescape(bytes, flip)?),
    })
}

fn unescape(bytes: &mut &[u8], flip: u8) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        match take::<1>(bytes)?[0] ^ flip {
            0 => match take::<1>(bytes)?[0] ^ flip {
                0 => return Ok(out),
                0xFF => out.push(0),
                _ => return Err(damaged()),
            },
            byte => out.push(byte),
        }
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (head, tail) = bytes.split_first_chunk::<N>().ok_or_else(damaged)?;
    *bytes = tail;
    Ok(*head)
}

fn damaged() -> Error {
    Error::Internal("a key of the store is damaged: run repair, or restore it from a copy".to_string())
}

/// The first key behind all keys that begin with this prefix.
pub fn behind(prefix: &[u8]) -> Vec<u8> {
    let kept = prefix.iter().rposition(|byte| *byte != 0xFF);
    // Every key begins with the number of its index, which is never all ones.
    let mut end: Cow<'_, [u8]> = Cow::Borrowed(&prefix[..kept.map_or(0, |at| at + 1)]);
    if let Some(last) = end.to_mut().last_mut() {
        *last += 1;
    }
    end.into_owned()
}
