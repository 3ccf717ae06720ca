//! The plan: one value that says what is to be computed, whatever it will run on.
//!
//! A plan is DataFusion's [`LogicalPlan`](datafusion::logical_expr::LogicalPlan). Its relational nodes have
//! snapshot meaning (what they say holds for the rows alive at each instant); what they cannot say are the
//! extension nodes here. Expressions are DataFusion's, keys are explicit in every node, and the properties of
//! a stream (its time, key, lifetimes, shards) are derived from the plan alone. So a plan means the same
//! without the builder that made it.
//!
//! Layers, bottom up:
//! 1. [`names`], [`duration`]: how people write columns, types and lengths of time; the nearest right name;
//!    [`calendar`]: windows of days and months;
//!    [`depth`]: how deep expressions and plans may be;
//! 2. [`source`]: where rows come from, as far as a plan has to know; [`Series`]: numbers at equal distances;
//! 3. [`nodes`]: the extension nodes, one file each;
//! 4. [`Properties`] and [`properties()`]: what is known of a result before it runs, [`Placement`]: how it
//!    lies over its shards; [`stage_shards()`]: how many each stage has; [`estimate`]: what is expected of
//!    it, from what the sources know of themselves;
//! 5. [`Agg`]: the aggregates of a stream; [`unmaintained`]: what can be kept up to date over a live source;
//!    [`physical()`]: from logical to executable expressions, the one way it is done; [`optimizer_rules()`];
//!    [`with_room()`]: deep trees; [`interrupted()`]: plans that nobody waits for any more;
//! 6. [`Stream`]: the fluent builder, one family of methods a file, which checks all that can be checked;
//!    [`explain()`]: a plan as people read it; [`Program`]: a plan as a program that builds it again;
//!    [`References`]: a plan as bytes that another process reads.
//!
//! Start at [`Stream`], then read `nodes/alter_lifetime.rs`, of which every window is an instance.
//!
//! Not here: executing anything (whimbrel-sharded), operators (whimbrel-temporal), SQL.

pub mod calendar;
pub mod depth;
pub mod duration;
pub mod estimate;
pub mod names;
pub mod nodes;
pub mod source;

mod aggregate;
mod canonical;
mod coalesce;
mod codec;
mod conditions;
mod constants;
mod equal_projections;
mod explain;
mod floor_division;
mod group_names;
mod interpolate;
mod interrupt;
mod maintained;
mod null_safe;
mod partition_columns;
mod passed_columns;
mod pattern;
mod physical;
mod placement;
mod program;
mod properties;
mod ranges;
mod resolve;
mod row_pattern;
mod row_pattern_function;
mod series;
mod single_value;
mod sort_key;
mod sort_order;
mod stack;
mod stage_shards;
mod stream;
mod value_errors;

pub use aggregate::{Agg, AggFunction, UserFunction, aggregate_of, avg_udaf, engine_functions};
pub use canonical::{
    canonical, canonical_f64, canonical_not_null, canonical_values, has_floats, is_canonical,
};
pub use codec::{References, step_bytes};
pub use conditions::{flat_conditions, has_long_conditions};
pub use duration::Duration;
pub use equal_projections::optimize_projections;
pub use explain::{describe, explain};
pub use floor_division::{floor_div, floor_mod};
pub use interpolate::interpolate;
pub use interrupt::{interrupted, interruptible};
pub use maintained::unmaintained;
pub use names::column;
pub use nodes::{
    Colocated, Colocation, Exchange, Movement, Node, Partitioning, Scope, Subtree, TimeSpec, node,
};
pub use null_safe::{optimizer_rules, takes_nulls, without_rules};
pub use pattern::{EVENT, Element, Label, Pattern, REGISTER, Transition, pattern_schema};
pub use physical::physical;
pub use placement::Placement;
pub use program::{Program, literal_for_comparison, literal_for_operand};
pub use properties::{Properties, merge_join_order, properties};
pub use ranges::Ranges;
pub use row_pattern::{PREVIOUS, RowPattern, previous_column};
pub use row_pattern_function::{ROW_PATTERN, RowPatternFunction, row_pattern_of};
pub use series::Series;
pub use single_value::single_value;
pub use sort_key::{has_sort_key, have_sort_keys, is_order, sort_key};
pub use source::{Location, PlanSource, Source, SourceInfo, source_of};
pub use stack::{with_room, with_room_for, with_room_if};
pub use stage_shards::{StageShards, stage_shards, with_stage_shards};
pub use stream::{Call, GROUPING_ID, Groups, JoinHow, JoinKind, Stream, column_fills, is_work_table};
pub use value_errors::reword_value_error;
