//! Where memory comes from.
//!
//! Batches come and go by the megabyte. This allocator keeps their pages for a while instead of handing them back to the
//! system and faulting them in again, which costs as much as an aggregation itself.

use libmimalloc_sys::{mi_option_set_default, mi_option_t};
use mimalloc::MiMalloc;
use std::ffi::c_long;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// `mi_option_purge_delay` of mimalloc.h, the same in its versions 2 and 3.
const PURGE_DELAY: mi_option_t = 15;

/// How long pages are kept, in milliseconds: over the steps of a long query, not over an idle hour.
const KEPT: c_long = 10_000;

/// Pages are kept for ten seconds, if the environment (`MIMALLOC_PURGE_DELAY`) does not say otherwise.
#[expect(unsafe_code, reason = "the allocator takes its options through C only")]
pub fn keep_pages() {
    // SAFETY: the function stores a number in a table of the allocator's own; there is nothing that it asks of its caller.
    unsafe { mi_option_set_default(PURGE_DELAY, KEPT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "the allocator says its options through C only")]
    fn pages_are_kept() {
        keep_pages();
        // SAFETY: as above.
        let kept = unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert!(kept == KEPT || std::env::var_os("MIMALLOC_PURGE_DELAY").is_some());
    }
}
