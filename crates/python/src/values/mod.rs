//! Values between Arrow and Python.
//!
//! For every type that has a name in `types`, reading back what was written gives an equal object.
//!
//! Layers, lowest first: `objects`, those of Python's libraries; `exact`, casts that change no value;
//! `infer`, the type of a column of objects; `read`, a cell of a column as an object; `write`, a column of
//! objects; `literal`, a literal of one object.

mod exact;
mod infer;
mod literal;
mod objects;
mod read;
mod write;

pub use exact::cast_exactly;
pub use infer::infer;
pub use literal::literal;
pub use objects::{key, show};
pub use read::{cell, instant};
pub use write::column;
