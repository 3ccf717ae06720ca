//! Text files, which may be compressed as a whole: `x.csv.gz`, `x.jsonl.zst`.

use super::location::{Compression, Location};
use super::position::{CountedBytes, Position};
use crate::error::in_place;
use datafusion::common::Result;
use flate2::read::MultiGzDecoder;
use std::io::{BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use zstd::stream::read::Decoder;

/// The text of a file.
pub(super) type Text = Box<dyn Read + Send>;

/// All of a file, decompressed, and how much of the file has been read.
///
/// # Errors
/// If it cannot be opened.
pub(super) fn open(location: &Location) -> Result<(Text, Position)> {
    let read = Arc::new(AtomicU64::new(0));
    let input = CountedBytes { input: location.open()?, read: Arc::clone(&read) };
    let position = location.size().map_or(Position::Unknown, |all| Position::Bytes { read, all });
    let text: Text = match location.compression() {
        None => Box::new(input),
        // There may be several members, one after the other.
        Some(Compression::Gzip) => Box::new(MultiGzDecoder::new(BufReader::new(input))),
        Some(Compression::Zstandard) => Box::new(Decoder::new(input).map_err(|e| in_place(location, e))?),
    };
    Ok((text, position))
}

/// The start of a file, to infer its columns from: of an object this many bytes. Also whether that is all of
/// it.
///
/// # Errors
/// If it cannot be opened.
pub(super) fn peek(location: &Location, bytes: u64) -> Result<(Text, bool)> {
    match location.compression() {
        // A part of a compressed file cannot be decompressed.
        Some(_) => Ok((open(location)?.0, true)),
        None => Ok((Box::new(location.peek(bytes)?), location.fits_in(bytes))),
    }
}
