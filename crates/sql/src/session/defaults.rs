//! The state of DataFusion that every session begins with: settings, functions, planners, analyzer and
//! optimizer rules.

use super::time_zone;
use crate::expr_planner::{BooleanCoercion, Division, IntervalArithmetic, Shift, Subscript, UntypedOperands};
use crate::functions::{self, Sequences, zones};
use crate::relation_planner::{ColumnAliases, Pivot, SetOperations};
use crate::rewrite::CastSemantics;
use crate::stream::asof::AsOf;
use crate::stream::gaps::Gaps;
use crate::stream::match_recognize::MatchRecognize;
use crate::stream::windows::Windows;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::optimizer::{Analyzer, AnalyzerRule, OptimizerRule};
use datafusion::prelude::SessionConfig;
use std::sync::{Arc, LazyLock};
use whimbrel_plan::optimizer_rules;

/// DataFusion's settings.
pub(crate) fn config() -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(1);
    let options = config.options_mut();
    options.sql_parser.collect_spans = true;
    // `0.06 + 0.01` is 0.07, as in DuckDB and PostgreSQL.
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    // In both orders, as in DuckDB and in fluent programs.
    options.sql_parser.default_null_ordering = "nulls_last".to_string();
    // It pushes struct fields down to sources, which read whole columns here. And it loses the qualifiers of
    // columns that are selected together with their fields.
    options.optimizer.enable_leaf_expression_pushdown = false;
    // Stages are cut at nodes, so a subquery may not stay in an expression.
    options.optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    config
}

/// The state that all sessions share, built once.
static COMMON: LazyLock<SessionState> = LazyLock::new(common);

/// The shared state, with the functions of a session's own sequences.
pub(super) fn state(sequences: &Arc<Sequences>) -> SessionState {
    let mut state = COMMON.clone();
    for function in functions::of_sequences(sequences) {
        // Registering a function never fails.
        state.register_udf(function).ok();
    }
    state
}

/// Builds the shared state.
fn common() -> SessionState {
    let mut state = SessionStateBuilder::new()
        .with_config(config())
        .with_expr_planners(vec![
            Arc::new(UntypedOperands),
            Arc::new(BooleanCoercion),
            Arc::new(IntervalArithmetic),
            Arc::new(Shift),
            Arc::new(Division),
            Arc::new(Subscript),
        ])
        .with_default_features()
        .with_scalar_functions(functions::scalar_functions())
        .with_aggregate_functions(functions::aggregate_functions())
        .with_relation_planners(vec![
            Arc::new(Windows),
            Arc::new(Gaps),
            Arc::new(AsOf),
            Arc::new(MatchRecognize),
            Arc::new(SetOperations),
            Arc::new(Pivot),
            Arc::new(ColumnAliases),
        ])
        .with_analyzer_rules(analyzer())
        .with_optimizer_rules(rules())
        .build();
    // The default zone is valid.
    time_zone::set(&mut state, zones::DEFAULT).ok();
    state
}

/// DataFusion's analyzer rules, and the one for casts.
fn analyzer() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut all = Analyzer::new().rules;
    all.push(Arc::new(CastSemantics));
    all
}

/// The optimizer rules, without common subexpressions: explained and printed plans keep their expressions,
/// and the rule is applied when a fragment is lowered.
fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let is_common_subexpressions =
        |rule: &Arc<dyn OptimizerRule + Send + Sync>| rule.name() == "common_sub_expression_eliminate";
    optimizer_rules().into_iter().filter(|rule| !is_common_subexpressions(rule)).collect()
}
