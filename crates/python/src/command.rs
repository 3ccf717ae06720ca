//! The command `whimbrel`, as the package brings it. This is the only use of the crate `cli`.

use crate::shutdown::detach;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs the command with these arguments, the name of the program first, and returns its exit code. `python`
/// is the interpreter for plan files.
#[pyfunction]
#[pyo3(signature = (arguments, python))]
pub fn command(py: Python<'_>, arguments: Vec<OsString>, python: Option<PathBuf>) -> u8 {
    detach(py, || whimbrel_cli::run(arguments, python))
}
