//! Arguments: the values that a statement is called with.
//!
//! 1. `value`: one argument, checked against its parameter;
//! 2. `encoding`: arguments as bytes, for cursors.

mod encoding;
mod value;

pub(crate) use encoding::{decode_arguments, encode_arguments};
pub use value::Argument;
pub(crate) use value::{cast_argument, list_values, out_of_range, parameter_name};
