//! The program `whimbrel-function`: the bootstrap of a function, which a function service starts.

use std::process::ExitCode;

fn main() -> ExitCode {
    whimbrel_process::allocator::keep_pages();
    match whimbrel_session::functions::serve() {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("whimbrel-function: {}", error.message());
            ExitCode::FAILURE
        }
    }
}
