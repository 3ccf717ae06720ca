//! Tables that lie in order of a column by which they are joined or grouped are cut into shards by its ranges: what
//! belongs together is together where it is read.
//!
//! Only where this looks is a guess: which rows lie together is seen from the plan that comes of it.

use super::leaf::is_whole;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use whimbrel_plan::nodes::Node;
use whimbrel_plan::{Ranges, Source, node, source_of};

/// A column of a table.
type Place = (TableReference, String);

/// By which ranges tables are to be cut.
#[derive(Debug, Default)]
pub(super) struct Cuts(HashMap<TableReference, Ranges>);

impl Cuts {
    /// Those that keep rows together which a plan joins or groups.
    pub fn of(plan: &LogicalPlan, shards: usize) -> Result<Cuts> {
        let mut sources = HashMap::new();
        let mut pairs: Vec<(Place, Place)> = Vec::new();
        plan.apply(|plan| {
            match plan {
                LogicalPlan::TableScan(scan) => {
                    sources.extend(source_of(scan).map(|source| (scan.table_name.clone(), source)));
                }
                LogicalPlan::Join(join) => pairs.extend(join.on.iter().filter_map(|(left, right)| {
                    Some((place(&join.left, left)?, place(&join.right, right)?))
                })),
                LogicalPlan::Aggregate(aggregate) => {
                    let grouped = aggregate.group_expr.iter().filter_map(|e| place(&aggregate.input, e));
                    pairs.extend(grouped.map(|place| (place.clone(), place)));
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let mut cuts = Cuts::default();
        let mut classes = equal(&pairs);
        classes.sort_by_key(|class| Reverse(class.len()));
        for class in classes {
            cuts.cut(&class, &pairs, &sources, shards);
        }
        Ok(cuts)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rows of a table, cut.
    pub fn applied(&self, table: &TableReference, source: &Arc<dyn Source>) -> Option<Arc<dyn Source>> {
        source.with_ranges(self.0.get(table)?)
    }

    /// Cuts those of some tables, whose columns are equal, that can be.
    fn cut(
        &mut self,
        class: &[Place],
        pairs: &[(Place, Place)],
        sources: &HashMap<TableReference, Arc<dyn Source>>,
        shards: usize,
    ) {
        let free = class.iter().filter(|(table, _)| !self.0.contains_key(table));
        let free: Vec<_> = free.filter_map(|place| Some((place, sources.get(&place.0)?))).collect();
        // The largest table says where.
        let possible = free.iter().filter_map(|((_, column), source)| {
            let rows = source.statistics().num_rows.get_value().copied();
            Some((rows, source.ranges_of(column, shards)?))
        });
        let Some((_, ranges)) = possible.max_by_key(|(rows, _)| *rows) else { return };
        let cut = |(place, source): (&Place, &Arc<dyn Source>)| {
            let ranges = ranges.of(&place.1);
            source.with_ranges(&ranges).map(|_| (place.clone(), ranges))
        };
        let cut: HashMap<Place, Ranges> = free.into_iter().filter_map(cut).collect();
        if pairs.iter().any(|(left, right)| cut.contains_key(left) && cut.contains_key(right)) {
            self.0.extend(cut.into_iter().map(|((table, _), ranges)| (table, ranges)));
        }
    }
}

/// The places that are equal if these pairs are.
fn equal(pairs: &[(Place, Place)]) -> Vec<Vec<Place>> {
    let mut classes: Vec<Vec<Place>> = Vec::new();
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

/// The column of a table that this expression hands on.
fn place(plan: &LogicalPlan, expr: &Expr) -> Option<Place> {
    match expr {
        Expr::Alias(alias) => place(plan, &alias.expr),
        Expr::Column(column) => place_of(plan, column),
        _ => None,
    }
}

fn place_of(plan: &LogicalPlan, column: &Column) -> Option<Place> {
    let at = plan.schema().maybe_index_of_column(column)?;
    match plan {
        LogicalPlan::TableScan(scan) => Some((scan.table_name.clone(), column.name.clone())),
        LogicalPlan::Projection(projection) => place(&projection.input, projection.expr.get(at)?),
        LogicalPlan::Aggregate(aggregate) => place(&aggregate.input, aggregate.group_expr.get(at)?),
        LogicalPlan::SubqueryAlias(alias) => {
            place_of(&alias.input, &Column::from(alias.input.schema().qualified_field(at)))
        }
        LogicalPlan::Filter(filter) => place_of(&filter.input, column),
        LogicalPlan::Join(join) => {
            [&join.left, &join.right].into_iter().find_map(|side| place_of(side, column))
        }
        LogicalPlan::Extension(_) => match node(plan) {
            Some(Node::Exchange(exchange)) if is_whole(exchange) => place_of(&exchange.input, column),
            _ => None,
        },
        _ => None,
    }
}
