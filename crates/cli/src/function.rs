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

// Amazon Linux 2023 has glibc 2.34, and these two have another version since 2.35. Nothing else is that new.

/// The length of the hypotenuse, in place of the C library's.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "it takes the place of a function of the C library, with the same contract")]
extern "C" fn hypot(x: f64, y: f64) -> f64 {
    libm::hypot(x, y)
}

/// The same for single precision.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "it takes the place of a function of the C library, with the same contract")]
extern "C" fn hypotf(x: f32, y: f32) -> f32 {
    libm::hypotf(x, y)
}
