//! The `whimbrel` command; everything is in the library.

use std::process::ExitCode;

/// Batches come and go by the megabyte; this allocator keeps their pages instead of handing them back to the
/// system and faulting them in again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(whimbrel_cli::run(std::env::args_os(), None))
}
