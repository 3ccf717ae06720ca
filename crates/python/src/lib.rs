//! The native module behind the Python package `whimbrel`: conversions between Python and the engine.
//! What users call is `python/whimbrel`; start there.
//!
//! Layers, lowest first:
//! 1. `shutdown`: calls into an interpreter that may end; `error`: exceptions; `functions`: functions by
//!    name; `command`: the command `whimbrel`; `cluster`, `function_service`, `remote`: where queries run;
//! 2. `types`: names of types; `tree`: expressions while they are built; `plan`: the class of plans;
//! 3. `values`: objects to columns and back; `text`: expressions as Python text;
//! 4. `arguments`: counts and durations; `rows`: rows as objects; `aggregate`: aggregates in Python;
//! 5. `table`: tables and schemas; `json`: messages of JSON; `events`: messages as events; `activity`: what
//!    operators have done;
//! 6. `expr`: expressions; `sample`: rows to try a black box with; `source`, `connectors`: where plans
//!    begin; `sql`: sessions; `run`: actions; `live_job`: plans that run on a cluster for ever;
//! 7. `black_box`: Python functions in expressions; `calls`: aggregates and window functions; `program`:
//!    plans as programs; `subscribe`: results in the background; `bounded`: bounded queries;
//! 8. `builder`: the methods of plans.
#![deny(missing_docs)]

mod activity;
mod aggregate;
mod arguments;
mod black_box;
mod bounded;
mod builder;
mod calls;
mod choices;
mod cluster;
mod command;
mod connectors;
mod durable;
mod error;
mod events;
mod expr;
mod function_service;
mod functions;
mod json;
mod live_job;
mod pattern;
mod plan;
mod process;
mod program;
mod progressive;
mod references;
mod remote;
mod rows;
mod run;
mod sample;
mod shutdown;
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
    use crate::cluster::{NativeCluster, NativeClusterJob, NativeWorker};
    #[pymodule_export]
    use crate::command::command;
    #[pymodule_export]
    use crate::connectors::replayable_source;
    #[pymodule_export]
    use crate::durable::{NativeDurableJob, start_durable};
    #[pymodule_export]
    use crate::expr::NativeExpr;
    #[pymodule_export]
    use crate::function_service::{NativeFunctionGoal, NativeFunctionService, NativeFunctions};
    #[pymodule_export]
    use crate::functions::function_names;
    #[pymodule_export]
    use crate::json::{format_json, parse_json};
    #[pymodule_export]
    use crate::live_job::{NativeLiveJob, start_live};
    #[pymodule_export]
    use crate::pattern::{NativePattern, PatternColumns};
    #[pymodule_export]
    use crate::plan::NativePlan;
    #[pymodule_export]
    use crate::process::NativeOperator;
    #[pymodule_export]
    use crate::program::{NativeFunction, NativeProgram};
    #[pymodule_export]
    use crate::progressive::{NativeProgressive, progressive};
    #[pymodule_export]
    use crate::rows::{Row, missing_column};
    #[pymodule_export]
    use crate::run::{
        NativeOptions, NativeScheduler, collect, explain_analyze, explain_estimates, replay,
        to_binary_stream, to_memory, to_storage,
    };
    #[pymodule_export]
    use crate::sample::{NativeDataType, infer_type, sample_rows};
    #[pymodule_export]
    use crate::shutdown::{forked, leave, leaving};
    #[pymodule_export]
    use crate::source::{
        NativeSender, files, follow, ingress, literal_rows, live, live_sources, memory, will_end,
    };
    #[pymodule_export]
    use crate::sql::{NativeParameters, NativePlanned, NativeSession, statements};
    #[pymodule_export]
    use crate::subscribe::{NativeJob, collect_events, head, publish, subscribe, subscribe_events};
    #[pymodule_export]
    use crate::table::{NativeSchema, NativeTable};

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn initialize(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        whimbrel_process::allocator::keep_pages();
        crate::error::panics_are_internal_errors(module.py())
    }
}
