//! The command `whimbrel`, as the package brings it.

use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs the command with these arguments, the program's name first; the exit code. `python` runs plan files.
#[pyfunction]
#[pyo3(signature = (arguments, python))]
pub fn command(py: Python<'_>, arguments: Vec<OsString>, python: Option<PathBuf>) -> u8 {
    py.detach(|| whimbrel_cli::run(arguments, python))
}
