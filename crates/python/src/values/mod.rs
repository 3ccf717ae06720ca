//! Values between Arrow and Python.
//!
//! For every type that has a name in `types`, reading back what was written gives an equal object.
//!
//! Layers, lowest first: `objects`, those of Python's libraries; `infer`, the type of a column of objects;
//! `read`, a cell of a column as an object; `write`, a column of objects; `literal`, a literal of one object.

mod infer;
mod literal;
mod objects;
mod read;
mod write;

pub use infer::infer;
pub use literal::literal;
pub use objects::show;
pub use read::{cell, instant};
pub use write::column;
