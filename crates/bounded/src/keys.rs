//! Keys: values as bytes whose order, byte by byte, is the order of the values.
//!
//! A value is a marker and its bytes. The marker puts nulls before or behind all values, whatever the
//! direction. It also gives the length of the value, so that a store can find the first part of a key without
//! its table. A descending value has its bytes inverted.
//!
//! - Integers are eight bytes, most significant first, with the sign bit flipped.
//! - Floats are the same, negative ones inverted, with one zero and one NaN, which is the largest.
//! - Texts and bytes end with `00 00`, and a `00` in them is `00 FF`.
//!
//! No encoding is a prefix of another of the same type, so values one behind the other are ordered as tuples
//! are.

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

/// The marker of a null that comes before all values.
const NULL_FIRST: u8 = 0;
/// Markers of values: one byte follows, eight, sixteen, or as many as there are to an end of two bytes.
const ONE: u8 = 1;
/// The marker of eight bytes.
const EIGHT: u8 = 8;
/// The marker of sixteen bytes.
const SIXTEEN: u8 = 16;
/// The marker of bytes with an end.
const ENDED: u8 = 32;
/// The marker of inverted bytes with an end.
const ENDED_INVERTED: u8 = 33;
/// The marker of a null that comes behind all values.
const NULL_LAST: u8 = 64;

/// No value has a marker before this one.
pub(crate) const FIRST_MARKER: u8 = ONE;
/// All values have markers before this one.
pub(crate) const BEHIND_MARKERS: u8 = NULL_LAST;

/// What the value of a type begins with.
fn marker(of: Type, order: KeyOrder) -> u8 {
    match of {
        Type::Bool => ONE,
        Type::Int16 | Type::Int32 | Type::Int64 | Type::Date | Type::Timestamp | Type::Float64 => EIGHT,
        Type::Decimal(..) => SIXTEEN,
        Type::Text(_) | Type::Bytes(_) if order.descending => ENDED_INVERTED,
        Type::Text(_) | Type::Bytes(_) => ENDED,
    }
}

/// How much of a key is the number of its index and its first part; `None` if it does not have that much.
pub(crate) fn first_part(key: &[u8]) -> Option<usize> {
    const NUMBER: usize = size_of::<u32>();
    let behind = NUMBER + 1;
    let end = match key.get(NUMBER)? {
        &NULL_FIRST | &NULL_LAST => behind,
        &ONE => behind + 1,
        &EIGHT => behind + 8,
        &SIXTEEN => behind + 16,
        &ENDED => behind + terminated_length(&key[behind..], 0)?,
        &ENDED_INVERTED => behind + terminated_length(&key[behind..], 0xFF)?,
        _ => return None,
    };
    (end <= key.len()).then_some(end)
}

/// Where a text or bytes end.
fn terminated_length(bytes: &[u8], flip: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        match (bytes.get(at)? ^ flip, bytes.get(at + 1).map(|byte| byte ^ flip)) {
            (0, Some(0)) => return Some(at + 2),
            (0, Some(0xFF)) => at += 2,
            (0, _) => return None,
            _ => at += 1,
        }
    }
}

/// Appends the key of a value.
pub fn encode(value: Datum<'_>, order: KeyOrder, out: &mut Vec<u8>) {
    let start = out.len() + 1;
    match value {
        Datum::Null => return out.push(if order.nulls_first { NULL_FIRST } else { NULL_LAST }),
        Datum::Bool(v) => out.extend([ONE, v.into()]),
        Datum::Int(v) => with_marker(EIGHT, ((v as u64) ^ (1 << 63)).to_be_bytes(), out),
        Datum::Float(v) => with_marker(EIGHT, float_bits(v).to_be_bytes(), out),
        Datum::Decimal(v) => with_marker(SIXTEEN, ((v as u128) ^ (1 << 127)).to_be_bytes(), out),
        Datum::Text(v) => escape(v.as_bytes(), order, out),
        Datum::Bytes(v) => escape(v, order, out),
    }
    if order.descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// A marker and its bytes.
fn with_marker<const N: usize>(marker: u8, bytes: [u8; N], out: &mut Vec<u8>) {
    out.push(marker);
    out.extend(bytes);
}

/// The bits of a number, ordered as the numbers are.
fn float_bits(value: f64) -> u64 {
    let bits = whimbrel_plan::canonical_f64(value).to_bits();
    if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits }
}

/// Bytes with their end, zeros escaped.
fn escape(bytes: &[u8], order: KeyOrder, out: &mut Vec<u8>) {
    out.push(if order.descending { ENDED_INVERTED } else { ENDED });
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
        NULL_FIRST | NULL_LAST => return Ok(Decoded::Null),
        found if found == marker(of, order) => {}
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

/// Bytes up to their end, escapes removed.
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

/// A fixed number of bytes from the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (head, tail) = bytes.split_first_chunk::<N>().ok_or_else(damaged)?;
    *bytes = tail;
    Ok(*head)
}

/// The error for bytes that are no key.
fn damaged() -> Error {
    Error::Internal("a key of the store is damaged: run repair, or restore it from a copy".to_string())
}

/// The first key behind all keys that begin with this prefix.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let kept = prefix.iter().rposition(|byte| *byte != 0xFF);
    // Every key begins with the number of its index, which is never all ones.
    let mut end: Cow<'_, [u8]> = Cow::Borrowed(&prefix[..kept.map_or(0, |at| at + 1)]);
    if let Some(last) = end.to_mut().last_mut() {
        *last += 1;
    }
    end.into_owned()
}

#[cfg(test)]
mod tests {
    use super::{KeyOrder, encode, first_part};
    use crate::datum::Datum;

    #[test]
    fn the_first_part_is_found_without_its_type() {
        let descending = KeyOrder::ASCENDING.reversed();
        let values = [
            Datum::Null,
            Datum::Bool(true),
            Datum::Int(-1),
            Datum::Float(0.5),
            Datum::Decimal(7),
            Datum::Text(""),
            Datum::Text("a\0b"),
            Datum::Bytes(&[0, 0, 0xFF, 0xFF, 0]),
        ];
        for (value, order) in values.into_iter().flat_map(|v| [(v, KeyOrder::ASCENDING), (v, descending)]) {
            let mut key = vec![0, 0, 0, 16];
            encode(value, order, &mut key);
            let first = key.len();
            assert!((0..first).all(|short| first_part(&key[..short]).is_none()), "{value:?}");
            assert_eq!(first_part(&key), Some(first), "{value:?}");
            encode(Datum::Text("more"), order, &mut key);
            assert_eq!(first_part(&key), Some(first), "{value:?}");
        }
    }
}
