//! The program `whimbrel`; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    whimbrel_process::allocator::keep_pages();
    ExitCode::from(whimbrel_cli::run(std::env::args_os(), None))
}
