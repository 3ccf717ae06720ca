//! How far compressed bytes can expand. A decoder allocates what the header says before it has seen a byte,
//! so the header is compared with these limits first.

use parquet::basic::Compression;

/// LZ4 writes at least one byte for 255 of a long repetition.
pub(super) const MOST_LZ4: usize = 255;

/// Zstandard writes at least four bytes for a block, which has at most 128 kB.
pub(super) const MOST_ZSTD: usize = 128 * 1024 / 4;

/// Deflate writes at least two bits for 258 bytes.
const MOST_GZIP: usize = 1032;

/// Snappy expands a byte to about 22 at most.
pub(super) const MOST_SNAPPY: usize = 32;

/// How many bytes one compressed byte of a page can become; none: any number.
pub(super) fn max_ratio(compression: Compression) -> Option<usize> {
    match compression {
        Compression::UNCOMPRESSED => Some(1),
        Compression::SNAPPY => Some(MOST_SNAPPY),
        Compression::GZIP(_) => Some(MOST_GZIP),
        Compression::LZ4 | Compression::LZ4_RAW => Some(MOST_LZ4),
        Compression::ZSTD(_) => Some(MOST_ZSTD),
        _ => None,
    }
}

/// Whether the system would give this much memory: an allocation that fails ends the process.
pub(super) fn can_allocate(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}
