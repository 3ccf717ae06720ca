//! DataFusion's state as every session begins: settings, functions, planners, and rules of its analyzer and optimizer.

use super::time_zone;
use crate::expr_planner::{BooleanCoercion, Division, IntervalArithmetic, Subscript};
use crate::functions::{self, Sequences, zones};
use crate::relation_planner::{ColumnAliases, Pivot, SetOperations};
use crate::rewrite::CastSemantics;
use crate::shifts::Shifts;
use crate::stream::asof::AsOf;
use crate::stream::windows::Windows;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::optimizer::{Analyzer, AnalyzerRule, OptimizerRule};
use datafusion::prelude::SessionConfig;
use std::sync::{Arc, LazyLock};
use whimbrel_plan::optimizer_rules;

/// DataFusion's settings, for plans that are run elsewhere.
pub(crate) fn config() -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(1);
    let options = config.options_mut();
    options.sql_parser.collect_spans = true;
    // `0.06 + 0.01` is 0.07, as in every other SQL.
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    // As in DuckDB, and in the fluent program, whichever way rows are ordered.
    options.sql_parser.default_null_ordering = "nulls_last".to_string();
    // It takes fields of structs beneath other steps, to sources that could read them alone: ours read columns. And it
    // loses the names of tables where a column stands beside its fields.
    options.optimizer.enable_leaf_expression_pushdown = false;
    // A plan is its nodes: a subquery inside of an expression would be cut into no stage.
    options.optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    config
}

/// What all sessions begin with, put together once.
static COMMON: LazyLock<SessionState> = LazyLock::new(common);

/// DataFusion's functions, analyzer and optimizer, and the functions of a session's own sequences.
pub(super) fn state(sequences: &Arc<Sequences>) -> SessionState {
    let mut state = COMMON.clone();
    for function in functions::of_sequences(sequences) {
        // A session state takes every function.
        state.register_udf(function).ok();
    }
    state
}

fn common() -> SessionState {
    let mut state = SessionStateBuilder::new()
        .with_config(config())
        .with_expr_planners(vec![
            Arc::new(BooleanCoercion),
            Arc::new(IntervalArithmetic),
            Arc::new(Shifts),
            Arc::new(Division),
            Arc::new(Subscript),
        ])
        .with_default_features()
        .with_scalar_functions(functions::scalar_functions())
        .with_aggregate_functions(functions::aggregate_functions())
        .with_relation_planners(vec![
            Arc::new(Windows),
            Arc::new(AsOf),
            Arc::new(SetOperations),
            Arc::new(Pivot),
            Arc::new(ColumnAliases),
        ])
        .with_analyzer_rules(analyzer())
        .with_optimizer_rules(rules())
        .build();
    // The zone is one that there is.
    time_zone::set(&mut state, zones::DEFAULT).ok();
    state
}

/// DataFusion's analyzer, and what is to be said once types are known.
fn analyzer() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut all = Analyzer::new().rules;
    all.push(Arc::new(CastSemantics));
    all
}

/// DataFusion's rules, without the one that gives names to what is computed twice: what people read and print keeps their
/// expressions, and the rule is applied where a fragment is lowered.
fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let named =
        |rule: &Arc<dyn OptimizerRule + Send + Sync>| rule.name() == "common_sub_expression_eliminate";
    optimizer_rules().into_iter().filter(|rule| !named(rule)).collect()
}
