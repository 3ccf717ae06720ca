//! The native module behind the Python package `whimbrel`: conversions between Python's world and the
//! engine's, and nothing else.
//!
//! From below to above: `types`, `values` and `counts` (names of types; objects to columns and back), `rows`, `table`
//! and `events` (data as Python sees it), `tree`, `expr`, `functions`, `black_box`, `aggregate`, `sample` and `text`
//! (expressions), `plan`, `source` and `sql` (the builder, and plans from text), `run` and `subscribe` (actions);
//! `bounded` (databases); `error` (exceptions) and `command` (the command `whimbrel`) beside them. What a user sees is
//! `python/whimbrel`; start there.
#![deny(missing_docs)]

mod aggregate;
mod black_box;
mod bounded;
mod calls;
mod command;
mod counts;
mod error;
mod events;
mod expr;
mod functions;
mod leave;
mod plan;
mod program;
mod rows;
mod run;
mod sample;
mod source;
mod sql;
mod subscribe;
mod table;
mod text;
mod tree;
mod types;
mod values;

use pyo3::prelude::*;

/// The native half of `whimbrel`.
#[pymodule]
mod _whimbrel {
    #[pymodule_export]
    use crate::aggregate::NativeAggregate;
    #[pymodule_export]
    use crate::black_box::black_box;
    #[pymodule_export]
    use crate::bounded::{
        Bound, BoundedDatabase, BoundedPage, BoundedQuery, Fix, LatencyChart, Operations, Prediction,
    };
    #[pymodule_export]
    use crate::calls::{aggregate_call, call_names, window_call};
    #[pymodule_export]
    use crate::command::command;
    #[pymodule_export]
    use crate::expr::NativeExpr;
    #[pymodule_export]
    use crate::leave::{forked, leave, leaving};
    #[pymodule_export]
    use crate::plan::NativePlan;
    #[pymodule_export]
    use crate::program::{NativeFunction, NativeProgram};
    #[pymodule_export]
    use crate::rows::Row;
    #[pymodule_export]
    use crate::run::{NativeOptions, analyzed, collect, expected, to_binary_stream, to_memory, to_storage};
    #[pymodule_export]
    use crate::sample::{NativeDataType, infer_type, sample_rows};
    #[pymodule_export]
    use crate::source::{NativeSender, files, ingress, literal_rows, live, live_sources, memory, will_end};
    #[pymodule_export]
    use crate::sql::{NativeParameters, NativePlanned, NativeSession, statements};
    #[pymodule_export]
    use crate::subscribe::{NativeJob, collect_events, head, subscribe, subscribe_events};
    #[pymodule_export]
    use crate::table::{NativeSchema, NativeTable};
    #[pymodule_export]
    use crate::{function_names, missing_column};

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn begin(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        whimbrel_cli::allocator::keep_pages();
        crate::error::panics_are_internal_errors(module.py())
    }
}

/// The names of all functions that an expression may call.
#[pyfunction]
fn function_names() -> Vec<String> {
    functions::names()
}

/// What is said where a column does not exist.
#[pyfunction]
fn missing_column(name: &str, known: Vec<String>) -> String {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    whimbrel_plan::names::unknown_column(name, &known).message().into_owned()
}
