//! Cursors: where a page ended, as text for the client to keep (piql.txt §4.1).
//!
//! The bytes are `version (1) | query (8) | schema (8) | arguments | prefix | position | mark (16)`, with a
//! length before the arguments and the prefix, in base 64 for URLs. The mark is a keyed hash (BLAKE3) of all
//! bytes before it: a cursor can be read by its holder, and cannot be changed or forged.
//!
//! A cursor holds the last key that was returned, not a number of rows. Rows that are inserted or deleted
//! before it do not change the pages behind it. Every server that has the database's key can continue from
//! it.

use crate::arguments::{Argument, decode_arguments, encode_arguments};
use crate::codec::{take_varint, varint};
use crate::error::{Error, Result};
use crate::plan::{Chain, ParameterType, Plan, Source, Step};
use std::fmt;
use std::str::FromStr;

/// The version of the format.
const VERSION: u8 = 2;
/// The length of the mark.
const MARK: usize = 16;

/// Where the next page begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cursor(String);

impl Cursor {
    /// The text of the cursor.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    /// Takes any text; whether it is a cursor is seen when it is used.
    fn from_str(text: &str) -> Result<Cursor> {
        Ok(Cursor(text.to_string()))
    }
}

/// The last row's place: behind the prefix of its range, or in the order of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The position within the range, or in the order of the result.
    pub position: Vec<u8>,
    /// The key of the range; empty if the result was sorted.
    pub prefix: Vec<u8>,
}

/// What a cursor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    /// A hash of the statement.
    query: [u8; 8],
    /// A hash of the tables and of the plan.
    schema: [u8; 8],
}

impl Owner {
    /// Of a query and of what it reads: a change of its tables or its plan makes another owner.
    ///
    /// # Errors
    /// `Internal` if the columns of a table cannot be written.
    pub fn new(sql: &str, plan: &Plan) -> Result<Owner> {
        let mut tables = Vec::new();
        describe(&plan.chain, &mut tables)?;
        Ok(Owner { query: short_hash(sql.as_bytes()), schema: short_hash(&tables) })
    }
}

/// What the places in a plan depend on: columns, keys and the steps themselves.
fn describe(chain: &Chain, out: &mut Vec<u8>) -> Result<()> {
    if let Source::Union { branches, .. } = &chain.source {
        branches.iter().try_for_each(|branch| describe(branch, out))?;
    }
    for step in &chain.steps {
        match step {
            Step::Fetch(fetch) => {
                let columns = postcard::to_stdvec(&fetch.table.columns);
                out.extend(columns.map_err(|error| Error::Internal(error.to_string()))?);
                out.extend(format!("{:?}", (&fetch.access, &fetch.keys)).bytes());
            }
            other => out.extend(format!("{other:?}").bytes()),
        }
    }
    Ok(())
}

/// The first eight bytes of a hash.
fn short_hash(bytes: &[u8]) -> [u8; 8] {
    first(blake3::hash(bytes).as_bytes())
}

/// The first bytes of a hash.
fn first<const N: usize>(bytes: &[u8; 32]) -> [u8; N] {
    std::array::from_fn(|at| bytes[at])
}

/// Signs a place, and the values that the query was called with.
pub(crate) fn sign(
    place: &Place,
    owner: &Owner,
    types: &[ParameterType],
    given: &[Argument],
    key: &[u8; 32],
) -> Result<Cursor> {
    let mut bytes = vec![VERSION];
    bytes.extend(owner.query);
    bytes.extend(owner.schema);
    for part in [&encode_arguments(types, given)?, &place.prefix] {
        varint(part.len() as u64, &mut bytes);
        bytes.extend(part);
    }
    bytes.extend(&place.position);
    let mark: [u8; MARK] = first(blake3::keyed_hash(key, &bytes).as_bytes());
    bytes.extend(mark);
    Ok(Cursor(to_text(&bytes)))
}

/// Reads a cursor back: its place, and the values that its query is called with: those that it carries if
/// none are given, else those that are, if they are the same.
pub(crate) fn verify(
    cursor: &Cursor,
    owner: &Owner,
    types: &[ParameterType],
    given: Option<&[Argument]>,
    key: &[u8; 32],
) -> Result<(Place, Vec<Argument>)> {
    let bytes = from_text(&cursor.0).ok_or_else(|| invalid_cursor("is not one of ours"))?;
    let Some((signed, mark)) = bytes.split_last_chunk::<MARK>() else {
        return Err(invalid_cursor("is cut off"));
    };
    if signed.first() != Some(&VERSION) {
        return Err(invalid_cursor("is of another release"));
    }
    let expected: [u8; MARK] = first(blake3::keyed_hash(key, signed).as_bytes());
    // Every byte is looked at, so that the time says nothing about where they differ.
    if expected.iter().zip(mark).fold(0, |wrong, (a, b)| wrong | (a ^ b)) != 0 {
        return Err(invalid_cursor("was changed, or signed with another key"));
    }
    let mut rest = &signed[1..];
    let mut part = || -> Result<[u8; 8]> {
        let (part, tail) = rest.split_first_chunk::<8>().ok_or_else(|| invalid_cursor("is cut off"))?;
        rest = tail;
        Ok(*part)
    };
    let (query, schema) = (part()?, part()?);
    if query != owner.query {
        return Err(invalid_cursor("belongs to another query"));
    }
    if schema != owner.schema {
        return Err(invalid_cursor("is from before a change of the schema"));
    }
    let carried = length_prefixed(&mut rest)?;
    let arguments = match given {
        Some(given) if carried == encode_arguments(types, given)? => given.to_vec(),
        Some(_) => return Err(invalid_cursor("belongs to the same query with other parameters")),
        None => decode_arguments(types, carried)?.ok_or_else(|| {
            Error::invalid("the parameters are too long to be in the cursor: give them again with it")
        })?,
    };
    let prefix = length_prefixed(&mut rest)?.to_vec();
    Ok((Place { prefix, position: rest.to_vec() }, arguments))
}

/// A part with its length before it.
fn length_prefixed<'b>(rest: &mut &'b [u8]) -> Result<&'b [u8]> {
    let length = take_varint(rest).map_err(|_| invalid_cursor("is cut off"))?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let (part, tail) = rest.split_at_checked(length).ok_or_else(|| invalid_cursor("is cut off"))?;
    *rest = tail;
    Ok(part)
}

/// The error for a cursor that cannot be used.
fn invalid_cursor(why: &str) -> Error {
    Error::invalid(format!("the cursor {why}: begin with the first page again"))
}

/// The digits of base 64, as they are used in URLs.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base 64 as in addresses of pages, without padding.
fn to_text(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().enumerate().fold(0_u32, |bits, (at, byte)| bits | u32::from(*byte) << (16 - 8 * at));
        for at in 0..=chunk.len() {
            out.push(LETTERS[(bits >> (18 - 6 * at) & 63) as usize] as char);
        }
    }
    out
}

/// The bytes of a text in base 64; `None` if it is none, or not in its shortest form.
fn from_text(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    for chunk in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for (at, letter) in chunk.iter().enumerate() {
            let value = LETTERS.iter().position(|existing| existing == letter)? as u32;
            bits |= value << (18 - 6 * at);
        }
        let bytes = chunk.len().checked_sub(1).filter(|bytes| *bytes > 0)?;
        // What is behind the last byte is zero: a cursor is written in one way.
        if bits & ((1 << (24 - 8 * bytes)) - 1) != 0 {
            return None;
        }
        out.extend((0..bytes).map(|at| (bits >> (16 - 8 * at)) as u8));
    }
    Some(out)
}
