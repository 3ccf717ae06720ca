//! Expressions over columns as machine code (trill.txt §4): one loop for a whole expression, in place of a
//! kernel and a column for each operation.
//!
//! An [`Expression`] is a tree of operations on values of fixed width, nulls included. [`Compiled`] makes a
//! function of it when it is first needed, with Cranelift, and runs that over arrays of Arrow.
//!
//! Layers, lowest first; each module uses only modules above it in this list:
//! 1. `kind`: the types of values;
//! 2. `expression`: what is computed;
//! 3. `emit`: an expression as instructions for one row;
//! 4. `function`: a loop over rows, as a function in memory; the only module with unsafe code;
//! 5. `compiled`: an expression, and a function for each set of columns that have nulls.
//!
//! Invariant: a function gives the same result as Arrow's kernels, bit for bit but for the bits of a NaN, or
//! none. It gives none where a kernel might fail: a sum that is too large, a division by zero. Whoever asks
//! computes these rows in the other way, which has the error, or knows that there is none.
//!
//! Start at [`Compiled::evaluate`]. Not here: expressions of DataFusion, and which are worth it
//! (whimbrel-sharded).

mod compiled;
mod emit;
mod expression;
mod function;
mod kind;

pub use compiled::Compiled;
pub use expression::{Arithmetic, Comparison, Expression};
pub use kind::Kind;
