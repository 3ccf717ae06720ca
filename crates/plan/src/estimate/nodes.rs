//! One function a kind of node: from what is expected of its inputs to what is expected of it.

use super::joins::of_join;
use super::selectivity::{filtered, having, place};
use super::{ColumnEstimate, Estimate, Leaf, UNKNOWN_ROWS};
use crate::source::source_of;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{
    Distinct, Expr, ExprSchemable, FetchType, Limit, LogicalPlan, SkipType, TableScan,
};

/// How many elements a list has, if nobody knows.
const LIST: f64 = 4.0;

/// Estimates a node from the estimates of its inputs, in a stage of so many channels.
pub(super) fn estimate(
    plan: &LogicalPlan,
    mut inputs: Vec<Estimate>,
    leaf: Option<Leaf<'_>>,
    channels: usize,
) -> Estimate {
    let is_inner = !inputs.is_empty();
    let is_copied = inputs.iter().all(|input| input.is_copied);
    // Channels with the same rows do the same.
    let channels = if is_copied { 1.0 } else { channels as f64 };
    let mut found = match (plan, inputs.as_mut_slice()) {
        (LogicalPlan::TableScan(scan), _) => of_scan(scan),
        (LogicalPlan::Join(join), [left, right]) => of_join(join, left.clone(), right.clone()),
        (LogicalPlan::Union(_), [_, ..]) => of_union(inputs),
        (LogicalPlan::EmptyRelation(empty), _) => {
            unknown(plan.schema(), if empty.produce_one_row { 1.0 } else { 0.0 })
        }
        (LogicalPlan::Values(values), _) => unknown(plan.schema(), values.values.len() as f64),
        (LogicalPlan::RecursiveQuery(_), [first, next]) => {
            let rows = first.rows + next.rows * 10.0;
            first.clone().with_rows(rows)
        }
        (LogicalPlan::Extension(extension), inputs) => {
            let estimate = leaf.filter(|_| inputs.is_empty()).and_then(|leaf| leaf(extension.node.as_ref()));
            estimate.unwrap_or_else(|| match inputs.first() {
                Some(input) => input.clone(),
                None => unknown(plan.schema(), UNKNOWN_ROWS),
            })
        }
        (plan, [input]) => of_one(plan, input.clone(), channels),
        (plan, inputs) => unknown(plan.schema(), inputs.first().map_or(UNKNOWN_ROWS, |i| i.rows)),
    };
    if is_inner {
        found.is_copied = is_copied;
    }
    with_schema_columns(found, plan.schema())
}

/// Estimates a node with one input, whose rows are divided among so many channels.
fn of_one(plan: &LogicalPlan, input: Estimate, channels: f64) -> Estimate {
    match plan {
        LogicalPlan::Projection(projection) => {
            let schema = projection.input.schema();
            let columns = projection.expr.iter().map(|e| of_expr(e, schema, &input)).collect();
            Estimate { columns, ..input }
        }
        LogicalPlan::Filter(filter) if is_aggregated(&filter.input) => {
            having(input, &filter.predicate, filter.input.schema())
        }
        LogicalPlan::Filter(filter) => filtered(input, &filter.predicate, filter.input.schema()),
        LogicalPlan::Aggregate(aggregate) => {
            let schema = aggregate.input.schema();
            let keys: Vec<ColumnEstimate> =
                aggregate.group_expr.iter().map(|e| of_expr(e, schema, &input)).collect();
            let rows = match keys.is_empty() {
                true => channels,
                false => groups(&keys, input.rows, channels),
            };
            let calls = aggregate.aggr_expr.iter().map(|e| of_expr(e, schema, &input));
            let columns = keys.iter().cloned().chain(calls).collect();
            Estimate { columns, ..input }.with_rows(rows)
        }
        LogicalPlan::Distinct(Distinct::All(_)) => {
            let rows = groups(&input.columns, input.rows, channels);
            input.with_rows(rows)
        }
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let schema = on.input.schema();
            let keys: Vec<_> = on.on_expr.iter().map(|e| of_expr(e, schema, &input)).collect();
            let rows = groups(&keys, input.rows, channels);
            let columns = on.select_expr.iter().map(|e| of_expr(e, schema, &input)).collect();
            Estimate { columns, ..input }.with_rows(rows)
        }
        LogicalPlan::Window(window) => {
            let mut input = input;
            let schema = window.input.schema();
            let new: Vec<_> = window.window_expr.iter().map(|e| of_expr(e, schema, &input)).collect();
            input.columns.extend(new);
            input
        }
        LogicalPlan::Sort(sort) => match sort.fetch {
            Some(fetch) => limited(input, fetch as f64 * channels),
            None => input,
        },
        LogicalPlan::Limit(limit) => of_limit(limit, input, channels),
        LogicalPlan::Unnest(_) => {
            let rows = input.rows * LIST;
            unknown(plan.schema(), rows)
        }
        _ => input,
    }
}

/// How many groups all channels find together in so many rows. Where no key keeps the rows of a value in one
/// channel, each channel has its own.
fn groups(keys: &[ColumnEstimate], rows: f64, channels: f64) -> f64 {
    let groups = keys.iter().map(|key| key.distinct).product::<f64>();
    let is_partitioned = keys.iter().any(|key| key.is_partition_key);
    (if is_partitioned { groups } else { groups * channels }).min(rows)
}

/// Whether the rows of this plan are groups.
fn is_aggregated(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) => true,
        LogicalPlan::Projection(projection) => is_aggregated(&projection.input),
        LogicalPlan::Extension(extension) => extension.node.inputs().into_iter().any(is_aggregated),
        _ => false,
    }
}

/// The statistics of the source, pruned to the columns and filters of the scan.
fn of_scan(scan: &TableScan) -> Estimate {
    let Some(source) = source_of(scan) else {
        return unknown(&scan.projected_schema, UNKNOWN_ROWS);
    };
    let statistics = source.statistics();
    let all = Estimate::of_statistics(&statistics, &source.info().schema);
    let columns = match &scan.projection {
        Some(projection) => projection.iter().map(|c| all.columns[*c].clone()).collect(),
        None => all.columns.clone(),
    };
    let mut found = Estimate { columns, ..all };
    for filter in &scan.filters {
        found = filtered(found, filter, &scan.projected_schema);
    }
    found
}

/// Rows and distinct values add up.
fn of_union(inputs: Vec<Estimate>) -> Estimate {
    let rows: f64 = inputs.iter().map(|i| i.rows).sum();
    let mut inputs = inputs.into_iter();
    let Some(mut first) = inputs.next() else { return Estimate { rows, columns: vec![], is_copied: false } };
    for other in inputs {
        for (column, more) in first.columns.iter_mut().zip(other.columns) {
            column.distinct += more.distinct;
            column.is_partition_key &= more.is_partition_key;
            column.width = column.width.max(more.width);
            column.range = column.range.zip(more.range).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1)));
        }
    }
    first.with_rows(rows)
}

/// At most `fetch` rows after `skip`, in each of so many channels.
fn of_limit(limit: &Limit, input: Estimate, channels: f64) -> Estimate {
    let skip = match limit.get_skip_type() {
        Ok(SkipType::Literal(skip)) => skip as f64,
        _ => 0.0,
    };
    match limit.get_fetch_type() {
        Ok(FetchType::Literal(Some(fetch))) => {
            let left = (input.rows - skip * channels).max(0.0);
            limited(input, left.min(fetch as f64 * channels))
        }
        _ => {
            let left = (input.rows - skip * channels).max(0.0);
            limited(input, left)
        }
    }
}

fn limited(input: Estimate, rows: f64) -> Estimate {
    let rows = input.rows.min(rows);
    input.with_rows(rows)
}

/// What is expected of a computed column: as many values as what it is computed from.
fn of_expr(expr: &Expr, schema: &DFSchema, input: &Estimate) -> ColumnEstimate {
    if let Some(place) = place(expr, schema) {
        return input.columns[place].clone();
    }
    let data_type = expr.get_type(schema).unwrap_or(arrow::datatypes::DataType::Utf8);
    let from = expr.column_refs().into_iter().filter_map(|c| schema.maybe_index_of_column(c));
    let mut distinct = from.map(|c| input.columns[c].distinct).product::<f64>().min(input.rows);
    if let Expr::ScalarFunction(function) = expr
        && function.name() == "date_part"
        && let Some((min, max)) =
            function.args.get(1).and_then(|of| place(of, schema)).and_then(|c| input.columns[c].range)
    {
        // Of a date in days; a finer part has few values as well.
        distinct = distinct.min(((max - min) / 365.0).abs().max(1.0) + 1.0);
    }
    ColumnEstimate { distinct: distinct.max(1.0), ..ColumnEstimate::unknown(&data_type, input.rows) }
}

/// Columns of which only the types are known.
fn unknown(schema: &DFSchema, rows: f64) -> Estimate {
    let columns = schema.fields().iter().map(|f| ColumnEstimate::unknown(f.data_type(), rows));
    Estimate { rows, columns: columns.collect(), is_copied: false }
}

/// The estimate with as many columns as the schema has.
fn with_schema_columns(mut found: Estimate, schema: &DFSchema) -> Estimate {
    if found.columns.len() != schema.fields().len() {
        found.columns = unknown(schema, found.rows).columns;
    }
    let rows = found.rows;
    found.with_rows(rows)
}
