//! Values between Arrow and Python: `read` takes a cell out of a column, `write` makes a column of Python
//! objects.
//!
//! For every type that has a name in `types`, reading back what was written gives an equal object.

mod infer;
mod read;
mod write;

pub use infer::infer;
pub use read::{cell, instant};
pub use write::{column, literal, show};
