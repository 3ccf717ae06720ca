//! Tables that are stored in the order of a column by which they are joined, grouped or sorted are cut into
//! shards by ranges of it, so that rows that belong together are read in one shard.
//!
//! Invariant: which ranges are best is a guess; which rows are in one shard is derived from the plan that
//! follows.

use crate::single_shard::is_single_shard;
use crate::tree::visit_plan;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use whimbrel_plan::nodes::Node;
use whimbrel_plan::{Ranges, Source, node, source_of};

/// A column of a table.
type TableColumn = (TableReference, String);

/// The ranges by which tables are cut.
#[derive(Debug, Default)]
pub(super) struct RangePartitions(HashMap<TableReference, Ranges>);

impl RangePartitions {
    /// The ranges that keep rows in one shard that a plan joins, groups or sorts.
    ///
    /// # Errors
    /// Those of the walk.
    pub fn of(plan: &LogicalPlan, shards: usize) -> Result<RangePartitions> {
        let mut sources = HashMap::new();
        let mut pairs: Vec<(TableColumn, TableColumn)> = Vec::new();
        visit_plan(plan, &mut |plan| {
            match plan {
                LogicalPlan::TableScan(scan) => {
                    sources.extend(source_of(scan).map(|source| (scan.table_name.clone(), source)));
                }
                LogicalPlan::Join(join) => pairs.extend(join.on.iter().filter_map(|(left, right)| {
                    Some((column_of_expr(&join.left, left)?, column_of_expr(&join.right, right)?))
                })),
                LogicalPlan::Aggregate(aggregate) => {
                    let grouped =
                        aggregate.group_expr.iter().filter_map(|e| column_of_expr(&aggregate.input, e));
                    pairs.extend(grouped.map(|place| (place.clone(), place)));
                }
                LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                    let first = sort.expr.first().filter(|by| by.asc);
                    let place = first.and_then(|by| column_of_expr(&sort.input, &by.expr));
                    pairs.extend(place.map(|place| (place.clone(), place)));
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let mut partitions = RangePartitions::default();
        let mut classes = equivalence_classes(&pairs);
        classes.sort_by_key(|class| Reverse(class.len()));
        for class in classes {
            partitions.add(&class, &pairs, &sources, shards);
        }
        Ok(partitions)
    }

    /// Whether no table is cut by ranges.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A source cut by the ranges of its table.
    pub fn apply(&self, table: &TableReference, source: &Arc<dyn Source>) -> Option<Arc<dyn Source>> {
        source.with_ranges(self.0.get(table)?)
    }

    /// Adds ranges for the tables of a class of equal columns, where their sources can be cut.
    fn add(
        &mut self,
        class: &[TableColumn],
        pairs: &[(TableColumn, TableColumn)],
        sources: &HashMap<TableReference, Arc<dyn Source>>,
        shards: usize,
    ) {
        let free = class.iter().filter(|(table, _)| !self.0.contains_key(table));
        let free: Vec<_> = free.filter_map(|place| Some((place, sources.get(&place.0)?))).collect();
        // The largest table decides the ranges.
        let possible = free.iter().filter_map(|((_, column), source)| {
            let rows = source.statistics().num_rows.get_value().copied();
            Some((rows, source.ranges_of(column, shards)?))
        });
        let Some((_, ranges)) = possible.max_by_key(|(rows, _)| *rows) else { return };
        let cut = |(place, source): (&TableColumn, &Arc<dyn Source>)| {
            let ranges = ranges.of(&place.1);
            source.with_ranges(&ranges).map(|_| (place.clone(), ranges))
        };
        let cut: HashMap<TableColumn, Ranges> = free.into_iter().filter_map(cut).collect();
        if pairs.iter().any(|(left, right)| cut.contains_key(left) && cut.contains_key(right)) {
            self.0.extend(cut.into_iter().map(|((table, _), ranges)| (table, ranges)));
        }
    }
}

/// The classes of columns that are equal if these pairs are.
fn equivalence_classes(pairs: &[(TableColumn, TableColumn)]) -> Vec<Vec<TableColumn>> {
    let mut classes: Vec<Vec<TableColumn>> = Vec::new();
    for (left, right) in pairs {
        let (mut merged, others): (Vec<_>, Vec<_>) =
            classes.into_iter().partition(|class| class.contains(left) || class.contains(right));
        merged.push(vec![left.clone(), right.clone()]);
        classes = others;
        let mut class = Vec::new();
        for place in merged.into_iter().flatten() {
            if !class.contains(&place) {
                class.push(place);
            }
        }
        classes.push(class);
    }
    classes
}

/// The column of a table that an expression passes on.
fn column_of_expr(plan: &LogicalPlan, expr: &Expr) -> Option<TableColumn> {
    let (scan, name) = scan_of_column(plan, aliased_column(expr)?)?;
    Some((scan.table_name.clone(), name.to_string()))
}

/// The column that an expression is, under whatever names.
fn aliased_column(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Alias(alias) => aliased_column(&alias.expr),
        other => other.try_as_col(),
    }
}

/// The scan of a table and its column that a column of a plan comes from unchanged.
pub(super) fn scan_of_column<'a>(plan: &'a LogicalPlan, column: &Column) -> Option<(&'a TableScan, &'a str)> {
    let at = plan.schema().maybe_index_of_column(column)?;
    let of_input = |input: &'a LogicalPlan, expr: &Expr| scan_of_column(input, aliased_column(expr)?);
    match plan {
        LogicalPlan::TableScan(scan) => Some((scan, scan.projected_schema.field(at).name())),
        LogicalPlan::Projection(projection) => of_input(&projection.input, projection.expr.get(at)?),
        LogicalPlan::Aggregate(aggregate) => of_input(&aggregate.input, aggregate.group_expr.get(at)?),
        LogicalPlan::SubqueryAlias(alias) => {
            scan_of_column(&alias.input, &Column::from(alias.input.schema().qualified_field(at)))
        }
        LogicalPlan::Filter(filter) => scan_of_column(&filter.input, column),
        LogicalPlan::Join(join) => {
            [&join.left, &join.right].into_iter().find_map(|side| scan_of_column(side, column))
        }
        LogicalPlan::Extension(_) => match node(plan) {
            Some(Node::Exchange(exchange)) if is_single_shard(exchange) => {
                scan_of_column(&exchange.input, column)
            }
            _ => None,
        },
        _ => None,
    }
}
