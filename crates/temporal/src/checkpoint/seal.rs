//! What is around a state, so that it is not restored where it does not belong.
//!
//! Layout, numbers little-endian: [`MAGIC`], the version of the format (4 bytes), the length of the rest (8),
//! its checksum (8); the rest is the description of what was saved, as postcard writes a string, and the
//! state.
//!
//! Invariant: bytes that differ from what [`seal`] gave are refused; a change of one byte certainly, others
//! but for one in 2^64. Nothing is allocated for what a header promises.

use super::encode;
use datafusion::common::{Result, exec_err};

/// The first bytes of a checkpoint.
const MAGIC: [u8; 8] = *b"WHIMBREL";

/// To be raised whenever the encoding of any state changes.
const VERSION: u32 = 7;

/// Seals a state. `what` describes, line by line, what it is the state of: only the like of it may restore
/// it.
///
/// # Errors
/// `Internal` if it cannot be encoded.
pub fn seal(what: &str, state: &[u8]) -> Result<Vec<u8>> {
    let what = encode(&what)?;
    let mut sealed = Vec::with_capacity(MAGIC.len() + 20 + what.len() + state.len());
    sealed.extend_from_slice(&MAGIC);
    sealed.extend_from_slice(&VERSION.to_le_bytes());
    sealed.extend_from_slice(&((what.len() + state.len()) as u64).to_le_bytes());
    sealed.extend_from_slice(&[0; 8]);
    let rest = sealed.len();
    sealed.extend_from_slice(&what);
    sealed.extend_from_slice(state);
    let checksum = checksum(&sealed[rest..]).to_le_bytes();
    sealed[rest - checksum.len()..rest].copy_from_slice(&checksum);
    Ok(sealed)
}

/// The state in sealed bytes.
///
/// # Errors
/// `Execution` if they are not a whole checkpoint of this release, of something that is described by `what`.
pub fn open<'a>(what: &str, sealed: &'a [u8]) -> Result<&'a [u8]> {
    let rest = contents(sealed)?;
    let Ok((saved, state)) = postcard::take_from_bytes::<&str>(rest) else {
        return exec_err!("the checkpoint does not say what it is of; take a new one");
    };
    if saved == what { Ok(state) } else { of_another(saved, what) }
}

/// What is behind the header.
fn contents(sealed: &[u8]) -> Result<&[u8]> {
    let shared = sealed.len().min(MAGIC.len());
    if sealed[..shared] != MAGIC[..shared] {
        return exec_err!("these bytes are no checkpoint; restore what was saved");
    }
    let Some((version, length, expected, rest)) = header(sealed) else {
        return exec_err!("the checkpoint is cut short: {} bytes do not hold its header", sealed.len());
    };
    if version != VERSION {
        return exec_err!(
            "the checkpoint is of format {version}, this release reads format {VERSION}; restore it with the \
             release that wrote it"
        );
    }
    if rest.len() as u64 != length {
        return exec_err!(
            "the checkpoint is {}: {length} bytes should follow its header, {} do",
            if (rest.len() as u64) < length { "cut short" } else { "too long" },
            rest.len()
        );
    }
    match checksum(rest) == expected {
        true => Ok(rest),
        false => exec_err!("the checkpoint is damaged: its checksum does not fit; restore an undamaged copy"),
    }
}

/// Version, length, checksum, and the rest.
fn header(sealed: &[u8]) -> Option<(u32, u64, u64, &[u8])> {
    let (_, rest) = sealed.split_first_chunk::<{ MAGIC.len() }>()?;
    let (version, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (checksum, rest) = rest.split_first_chunk()?;
    let number = u64::from_le_bytes;
    Some((u32::from_le_bytes(*version), number(*length), number(*checksum), rest))
}

/// Says where two descriptions differ first.
fn of_another<T>(saved: &str, what: &str) -> Result<T> {
    let (mut saved, mut what) = (saved.lines(), what.lines());
    loop {
        match (saved.next(), what.next()) {
            (Some(a), Some(b)) if a == b => {}
            (a, b) => {
                let quoted = |line: Option<&str>| line.map_or("nothing".to_string(), |l| format!("`{l}`"));
                return exec_err!(
                    "the checkpoint is of another query: it has {} where this one has {}; restore it into the \
                     query that wrote it",
                    quoted(a),
                    quoted(b)
                );
            }
        }
    }
}

/// Eight bytes a step, each a bijection of the sum so far: a change of one word changes the sum.
fn checksum(bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(8);
    let step = |sum: u64, word: [u8; 8]| {
        let sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum ^ sum >> 32
    };
    let mut sum = bytes.len() as u64;
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        sum = step(sum, word);
    }
    let mut last = [0; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    step(sum, last)
}
