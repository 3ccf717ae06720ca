//! Arguments as bytes, so that a cursor carries the arguments of its query.
//!
//! The format is `0 | values`, or `1 | hash (16)` where the values are longer than a cursor may be or have a
//! type that no column has. Then the caller gives the arguments again, and their hash is compared. A value is
//! `0` for null, or `1` and its bytes. A list is its length and its values.
//!
//! Invariant: two calls have the same bytes only if their arguments are equal, whatever types they were given
//! as.

use super::value::{Argument, cast_argument, list_values};
use crate::codec::{put, take, take_value, take_varint, varint};
use crate::datum::{ColumnBuilder, Datum, Type};
use crate::error::{Error, Result};
use crate::plan::ParameterType;
use datafusion::common::ScalarValue;

/// A cursor stands in addresses of pages: longer values are not carried.
const LONGEST: usize = 512;
/// The first byte of arguments that are carried as values.
const VALUES: u8 = 0;
/// The first byte of arguments of which only a hash is carried.
const HASH: u8 = 1;

/// The values, or what tells them from others.
pub(crate) fn encode_arguments(types: &[ParameterType], given: &[Argument]) -> Result<Vec<u8>> {
    let mut values = Vec::with_capacity(given.len());
    for (at, (parameter, argument)) in types.iter().zip(given).enumerate() {
        let each = match argument {
            Argument::One(value) => vec![cast_argument(value, parameter, at)?],
            Argument::Many(values) => list_values(values, parameter, at)?,
        };
        values.push((parameter, each));
    }
    match encode(&values)? {
        Some(bytes) if bytes.len() <= LONGEST => Ok(bytes),
        _ => {
            let hash = blake3::hash(format!("{values:?}").as_bytes());
            Ok(std::iter::once(HASH).chain(hash.as_bytes()[..16].iter().copied()).collect())
        }
    }
}

/// The values; `None` if one has a type that no column has.
fn encode(values: &[(&ParameterType, Vec<ScalarValue>)]) -> Result<Option<Vec<u8>>> {
    let mut out = vec![VALUES];
    for (parameter, values) in values {
        let Some(of) = Type::holding(&parameter.of) else { return Ok(None) };
        if parameter.list.is_some() {
            varint(values.len() as u64, &mut out);
        }
        for value in values {
            let array = value.to_array()?;
            match Datum::of(&array, 0)? {
                Datum::Null => out.push(0),
                datum => {
                    out.push(1);
                    put(of, datum, &mut out);
                }
            }
        }
    }
    Ok(Some(out))
}

/// The values that were carried; `None` if only their hash was.
pub(crate) fn decode_arguments(types: &[ParameterType], encoded: &[u8]) -> Result<Option<Vec<Argument>>> {
    let Some((&VALUES, mut rest)) = encoded.split_first() else { return Ok(None) };
    let mut arguments = Vec::with_capacity(types.len());
    for parameter in types {
        let of = Type::holding(&parameter.of).ok_or_else(damaged)?;
        arguments.push(match parameter.list {
            None => Argument::One(decode(of, &mut rest)?),
            Some(most) => {
                let length = take_varint(&mut rest)?;
                if length > most {
                    return Err(damaged());
                }
                Argument::Many((0..length).map(|_| decode(of, &mut rest)).collect::<Result<_>>()?)
            }
        });
    }
    Ok(Some(arguments))
}

/// One value from the front.
fn decode(of: Type, rest: &mut &[u8]) -> Result<ScalarValue> {
    let mut column = ColumnBuilder::new(of, 1, 16)?;
    match take(rest, 1)? {
        [0] => column.append(Datum::Null)?,
        _ => column.append(take_value(of, rest)?)?,
    }
    Ok(ScalarValue::try_from_array(&column.finish(), 0)?)
}

/// The error for bytes that are no arguments. Cursors are signed, so this is a bug.
fn damaged() -> Error {
    Error::Internal("the parameters in a cursor are damaged".to_string())
}
