//! What is special to streams with time: windows, patterns of rows, `asof` and interval joins, when rows
//! are output, and which queries mean the same over a stream as over a table of its rows.

pub(crate) mod asof;
pub(crate) mod durations;
pub(crate) mod emit;
pub(crate) mod forgettable;
pub(crate) mod gaps;
pub(crate) mod interval_join;
pub(crate) mod match_recognize;
pub(crate) mod semantics;
mod table_function;
mod time_column;
mod window_nodes;
pub(crate) mod windows;
