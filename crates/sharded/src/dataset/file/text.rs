//! Files of lines, which may be packed as a whole: `x.csv.gz`, `x.jsonl.zst`.

use super::location::{Location, Packing};
use crate::error::in_place;
use datafusion::common::Result;
use flate2::read::MultiGzDecoder;
use std::io::{BufReader, Read};
use zstd::stream::read::Decoder;

/// The text of a file.
pub(super) type Text = Box<dyn Read + Send>;

/// All of a file, unpacked.
pub(super) fn open(location: &Location) -> Result<Text> {
    let input = location.open()?;
    Ok(match location.packing() {
        None => Box::new(input),
        // There may be several parts, one behind the other.
        Some(Packing::Gzip) => Box::new(MultiGzDecoder::new(BufReader::new(input))),
        Some(Packing::Zstandard) => Box::new(Decoder::new(input).map_err(|e| in_place(location, e))?),
    })
}

/// Enough of it to see what its lines are: so many bytes, if it is somewhere else; and whether that is all.
pub(super) fn peek(location: &Location, bytes: u64) -> Result<(Text, bool)> {
    match location.packing() {
        // A part of what is packed cannot be unpacked.
        Some(_) => Ok((open(location)?, true)),
        None => Ok((Box::new(location.peek(bytes)?), location.is_within(bytes))),
    }
}
