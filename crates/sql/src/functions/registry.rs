//! All functions that a session knows from the beginning: DataFusion's and this crate's.

use super::list_length::length;
use super::type_names::type_of;
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, LazyLock};
use whimbrel_plan::{avg_udaf, single_value};

/// The scalar functions; a later one takes the place of an earlier one of its name.
pub(crate) fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let mut all = SessionStateDefaults::default_scalar_functions();
    all.push(type_of());
    all.push(length());
    all.extend(super::all());
    all
}

/// The aggregate functions; a later one takes the place of an earlier one of its name.
pub(crate) fn aggregate_functions() -> Vec<Arc<AggregateUDF>> {
    let mut all = SessionStateDefaults::default_aggregate_functions();
    all.push(single_value());
    all.push(avg_udaf());
    all
}

/// Whether a function of this name computes a value of one row.
pub(crate) fn is_scalar(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let scalars = scalar_functions();
        let higher_order = SessionStateDefaults::default_higher_order_functions();
        let scalars = scalars.iter().flat_map(|f| with_aliases(f.name(), f.aliases()));
        let higher_order = higher_order.iter().flat_map(|f| with_aliases(f.name(), f.aliases()));
        scalars.chain(higher_order).chain(["unnest".to_string()]).collect()
    });
    NAMES.contains(name)
}

/// Whether a function of this name computes a value of many rows.
pub(crate) fn is_aggregate(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let aggregates = aggregate_functions();
        aggregates.iter().flat_map(|f| with_aliases(f.name(), f.aliases())).collect()
    });
    NAMES.contains(name)
}

/// The names of all functions, in order.
pub(crate) fn names() -> &'static [String] {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let (scalars, aggregates) = (scalar_functions(), aggregate_functions());
        let windows = SessionStateDefaults::default_window_functions();
        let scalars = scalars.iter().flat_map(|f| with_aliases(f.name(), f.aliases()));
        let aggregates = aggregates.iter().flat_map(|f| with_aliases(f.name(), f.aliases()));
        let windows = windows.iter().flat_map(|f| with_aliases(f.name(), f.aliases()));
        let all: BTreeSet<String> = scalars.chain(aggregates).chain(windows).collect();
        all.into_iter().collect()
    });
    &NAMES
}

/// A name with its aliases.
fn with_aliases<'a>(name: &'a str, aliases: &'a [String]) -> impl Iterator<Item = String> + 'a {
    std::iter::once(name).chain(aliases.iter().map(String::as_str)).map(str::to_string)
}
