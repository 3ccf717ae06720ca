//! How much packed bytes can become at most: who unpacks takes memory for what the file says before it has seen a byte.

use parquet::basic::Compression;

/// LZ4 writes a byte for each 255 of a long repetition.
pub(super) const MOST_LZ4: usize = 255;

/// Zstandard writes four bytes at least for a block, which has 128 kB at most.
pub(super) const MOST_ZSTD: usize = 128 * 1024 / 4;

/// Deflate writes two bits at least for 258 bytes.
const MOST_GZIP: usize = 1032;

/// No byte of what Snappy packs becomes more than about 22.
pub(super) const MOST_SNAPPY: usize = 32;

/// How many bytes one byte of a page that is packed so can become; `None`: any number.
pub(super) fn most(compression: Compression) -> Option<usize> {
    match compression {
        Compression::UNCOMPRESSED => Some(1),
        Compression::SNAPPY => Some(MOST_SNAPPY),
        Compression::GZIP(_) => Some(MOST_GZIP),
        Compression::LZ4 | Compression::LZ4_RAW => Some(MOST_LZ4),
        Compression::ZSTD(_) => Some(MOST_ZSTD),
        _ => None,
    }
}

/// Whether the system would give so much memory. Whoever asks for more than it gives ends the process.
pub(super) fn is_there_memory(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}
