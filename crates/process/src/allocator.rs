//! The global memory allocator: mimalloc, version 2.
//!
//! Batches are allocated and freed by the megabyte. This allocator keeps their pages for some seconds.
//! Handing them back to the system and faulting them in again costs as much as an aggregation.
//!
//! It does not ask for huge pages (`no_thp`). The heap of each thread would begin with one that is nearly
//! empty, and a query that runs once waits until its memory has been cleared: `benches/first_run.py`.
//!
//! Invariant: any thread of a host process may load this library, and may end before the library is used
//! again. mimalloc takes the thread that loads it for the main thread. Its version 3 frees the heap of that
//! thread when the thread ends, and gives the incomplete heap to the next thread with the same id, which
//! reads a null pointer. Version 2 never frees that heap. It also has almost no locks that a fork could leave
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

/// How long freed pages are kept, in milliseconds: longer than a step of a long query, shorter than an idle
/// hour.
const PURGE_DELAY_MILLIS: c_long = 10_000;

/// Makes the allocator keep freed pages for ten seconds. The environment variable `MIMALLOC_PURGE_DELAY` has
/// precedence.
///
/// ```
/// // The first line of a program.
/// whimbrel_process::allocator::keep_pages();
/// ```
#[expect(unsafe_code, reason = "the options of the allocator are set through C")]
pub fn keep_pages() {
    // SAFETY: the function stores a number in a table of the allocator and has no precondition.
    unsafe {
        mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MILLIS);
        // By default the arenas of ended threads are kept ten times as long.
        mi_option_set_default(ARENA_PURGE_MULT, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "the options of the allocator are read through C")]
    fn pages_are_kept() {
        keep_pages();
        // SAFETY: the function reads a number from a table of the allocator and has no precondition.
        let delay = unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert!(delay == PURGE_DELAY_MILLIS || std::env::var_os("MIMALLOC_PURGE_DELAY").is_some());
    }
}
