//! Where memory comes from.
//!
//! Batches come and go by the megabyte. This allocator keeps their pages for a while instead of handing them back to
//! the system and faulting them in again, which costs as much as an aggregation itself.
//!
//! Invariant: in a host process any thread may load this library, and may end before the library is used again.
//! mimalloc calls the thread that loads it the main thread. Its version 3 gives back the heap of that thread when the
//! thread ends, and hands it out again, without its parts, to the next thread that the system gives the same id: a
//! null pointer is read. Version 2 never gives back that heap. It also has next to no locks that a fork could leave
//! locked in the child.

use libmimalloc_sys::{mi_option_set_default, mi_option_t};
use mimalloc::MiMalloc;
use std::ffi::c_long;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// `mi_option_purge_delay` of mimalloc.h.
const PURGE_DELAY: mi_option_t = 15;

/// `mi_option_arena_purge_mult` of mimalloc.h.
const ARENA_PURGE_MULT: mi_option_t = 24;

/// How long pages are kept, in milliseconds: over the steps of a long query, not over an idle hour.
const KEPT: c_long = 10_000;

/// Pages are kept for ten seconds, if the environment (`MIMALLOC_PURGE_DELAY`) does not say otherwise.
#[expect(unsafe_code, reason = "the allocator takes its options through C only")]
pub fn keep_pages() {
    // SAFETY: the function stores a number in a table of the allocator's own; there is nothing that it asks of its
    // caller.
    unsafe {
        mi_option_set_default(PURGE_DELAY, KEPT);
        // What a thread gives up as a whole is kept no longer: by default, ten times as long.
        mi_option_set_default(ARENA_PURGE_MULT, 1);
    }
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
