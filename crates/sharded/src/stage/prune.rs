//! Column pruning: columns that no node uses are not read from sources and not moved between stages.
//!
//! DataFusion's rule works on trees: it would prune the two uses of a shared subplan differently, and so have
//! it computed twice. Here the columns that all readers of a node need are collected first. Then every node
//! is rebuilt once, so equal subplans stay equal.

use super::subplans::SubplanTable;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{DFSchema, JoinType, Result};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Extension, Join, LogicalPlan, Projection, SubqueryAlias, TableScanBuilder,
    Union,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use whimbrel_plan::nodes::{Clip, Exchange, Node, node};
use whimbrel_plan::properties;

/// Indices of columns in a schema.
type Columns = BTreeSet<usize>;

/// Prunes the columns of a plan. The result is the same.
///
/// # Errors
/// `Plan` if a node cannot be rebuilt.
pub(crate) fn prune(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let mut nodes = Vec::new();
    number(plan, &mut nodes, &mut SubplanTable::within(plan)?)?;
    let root = nodes.len() - 1;
    let is_partitioned = nodes.iter().any(|(node, _)| has_partitions(node));
    let mut needed = vec![Columns::new(); nodes.len()];
    needed[root] = all(plan);
    for i in (0..nodes.len()).rev() {
        let (node, inputs) = &nodes[i];
        if needed[i].is_empty() {
            // A count needs no column, but a batch needs one.
            needed[i].extend(cheapest(node.schema().as_arrow()));
        }
        if is_partitioned {
            // Rows have the columns of their partition as long as partitions have clocks of their own.
            let names = properties(node)?.partition;
            needed[i].extend(names.iter().filter_map(|n| node.schema().index_of_column_by_name(None, n)));
        }
        for (input, columns) in inputs.iter().zip(needs(node, &needed[i])?) {
            needed[*input].extend(columns);
        }
    }
    let mut rebuilt: Vec<LogicalPlan> = Vec::with_capacity(nodes.len());
    let mut has_time: Vec<bool> = Vec::with_capacity(nodes.len());
    for (i, (node, inputs)) in nodes.iter().enumerate() {
        has_time.push(brings_time(node) || inputs.iter().any(|j| has_time[*j]));
        let inputs = inputs.iter().map(|j| rebuilt[*j].clone()).collect();
        let pruned = rebuild(node, inputs, &needed[i], is_partitioned)?;
        rebuilt.push(if has_time[i] { narrow_join(pruned, node.schema(), &needed[i])? } else { pruned });
    }
    // The root needs all of its columns.
    let pruned = rebuilt.swap_remove(root);
    Ok(if pruned.schema() == plan.schema() { pruned } else { plan.clone() })
}

/// Whether a node brings rows with a time: a leaf of such rows, or a node that gives them one.
fn brings_time(plan: &LogicalPlan) -> bool {
    match plan.inputs().is_empty() {
        true => properties(plan).is_ok_and(|derived| derived.time.is_some()),
        false => matches!(node(plan), Some(Node::Ingress(_))),
    }
}

/// Whether a node gives each partition a clock.
fn has_partitions(plan: &LogicalPlan) -> bool {
    matches!(node(plan), Some(Node::Ingress(ingress)) if ingress.partitioning.is_some())
}

/// Numbers the subplans, inputs first; equal subplans get one number.
fn number<'a>(
    plan: &'a LogicalPlan,
    nodes: &mut Vec<(&'a LogicalPlan, Vec<usize>)>,
    table: &mut SubplanTable<'a>,
) -> Result<usize> {
    if let Some(node) = table.get(plan) {
        return Ok(node);
    }
    let inputs = plan.inputs().into_iter().map(|p| number(p, nodes, table)).collect::<Result<Vec<_>>>()?;
    nodes.push((plan, inputs));
    table.insert(plan, nodes.len() - 1);
    Ok(nodes.len() - 1)
}

/// The narrowest column, if there is one.
fn cheapest(schema: &Schema) -> Option<usize> {
    let fields = schema.fields().iter().enumerate();
    fields.min_by_key(|(_, f)| f.data_type().primitive_width().unwrap_or(usize::MAX)).map(|(index, _)| index)
}

/// All columns of a plan.
fn all(plan: &LogicalPlan) -> Columns {
    (0..plan.schema().fields().len()).collect()
}

/// The columns that these expressions read.
fn read_by<'a>(exprs: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Columns {
    let mut columns = Columns::new();
    for expr in exprs {
        columns.extend(expr.column_refs().into_iter().filter_map(|c| schema.maybe_index_of_column(c)));
    }
    columns
}

/// The columns of each input that a node needs for these columns of its own.
fn needs(plan: &LogicalPlan, own: &Columns) -> Result<Vec<Columns>> {
    let with = |exprs: &[Expr], input: &LogicalPlan| {
        let mut columns = read_by(exprs, input.schema());
        columns.extend(own);
        vec![columns]
    };
    Ok(match plan {
        LogicalPlan::Projection(p) => {
            vec![read_by(own.iter().map(|i| &p.expr[*i]), p.input.schema())]
        }
        LogicalPlan::Filter(p) => with(std::slice::from_ref(&p.predicate), &p.input),
        LogicalPlan::SubqueryAlias(p) => with(&[], &p.input),
        LogicalPlan::Sort(p) => {
            let by: Vec<Expr> = p.expr.iter().map(|s| s.expr.clone()).collect();
            with(&by, &p.input)
        }
        LogicalPlan::Limit(p) => with(&[], &p.input),
        LogicalPlan::Window(p) => {
            let width = p.input.schema().fields().len();
            let mut columns = read_by(&p.window_expr, p.input.schema());
            columns.extend(own.iter().filter(|i| **i < width));
            vec![columns]
        }
        LogicalPlan::Aggregate(p) => vec![read_by(p.group_expr.iter().chain(&p.aggr_expr), p.input.schema())],
        LogicalPlan::Join(p) => needs_of_join(p, own),
        LogicalPlan::Union(p) => vec![own.clone(); p.inputs.len()],
        LogicalPlan::Extension(p) => needs_of_extension(p, own),
        other => other.inputs().into_iter().map(all).collect(),
    })
}

/// The columns that a join needs of each side.
fn needs_of_join(join: &Join, own: &Columns) -> Vec<Columns> {
    let (left, right) = (join.left.schema(), join.right.schema());
    let width = left.fields().len();
    let (mut from_left, mut from_right) = match join.join_type {
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            // The mark is no column of a side.
            (Columns::new(), own.iter().copied().filter(|i| *i < right.fields().len()).collect())
        }
        JoinType::LeftMark => (own.iter().copied().filter(|i| *i < width).collect(), Columns::new()),
        _ => {
            let (l, r): (Vec<usize>, Vec<usize>) = own.iter().partition(|i| **i < width);
            (Columns::from_iter(l), r.into_iter().map(|i| i - width).collect())
        }
    };
    from_left.extend(read_by(join.on.iter().map(|(l, _)| l).chain(&join.filter), left));
    from_right.extend(read_by(join.on.iter().map(|(_, r)| r).chain(&join.filter), right));
    vec![from_left, from_right]
}

/// The columns that an extension node needs of each input.
fn needs_of_extension(extension: &Extension, own: &Columns) -> Vec<Columns> {
    let node = &extension.node;
    let inputs = node.inputs();
    let own: Vec<usize> = own.iter().copied().collect();
    let Some(needed) = node.necessary_children_exprs(&own) else {
        return inputs.into_iter().map(all).collect();
    };
    let mut needed: Vec<Columns> = needed.into_iter().map(Columns::from_iter).collect();
    if let Some(clip) = node.as_any().downcast_ref::<Clip>() {
        needed[0].extend(read_by(clip.on.iter().map(|(l, _)| l), clip.left.schema()));
        needed[1].extend(read_by(clip.on.iter().map(|(_, r)| r), clip.right.schema()));
        return needed;
    }
    for (columns, input) in needed.iter_mut().zip(inputs) {
        columns.extend(read_by(&node.expressions(), input.schema()));
    }
    needed
}

/// Rebuilds a node over pruned inputs. It has at least the needed columns, in their order. `is_partitioned`:
/// rows of the plan may have to keep the columns of their partition.
fn rebuild(
    plan: &LogicalPlan,
    mut inputs: Vec<LogicalPlan>,
    own: &Columns,
    is_partitioned: bool,
) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::TableScan(scan) => {
            let index = |i: &usize| scan.projection.as_ref().map_or(*i, |p| p[*i]);
            let mut columns: Vec<usize> = own.iter().map(index).collect();
            if columns.is_empty() {
                columns.extend(cheapest(&scan.source.schema()));
            }
            let builder = TableScanBuilder::new(scan.table_name.clone(), scan.source.clone());
            let builder = builder.with_projection(Some(columns)).with_filters(scan.filters.clone());
            LogicalPlan::TableScan(builder.with_fetch(scan.fetch).build()?)
        }
        LogicalPlan::Projection(p) => {
            let exprs = own.iter().map(|i| p.expr[*i].clone()).collect();
            LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(inputs.swap_remove(0)))?)
        }
        LogicalPlan::Filter(p) => {
            let mut filter = p.clone();
            filter.input = Arc::new(inputs.swap_remove(0));
            LogicalPlan::Filter(filter)
        }
        LogicalPlan::SubqueryAlias(p) => LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(
            Arc::new(inputs.swap_remove(0)),
            p.alias.clone(),
        )?),
        LogicalPlan::Aggregate(p) => {
            let (group, calls) = (p.group_expr.clone(), p.aggr_expr.clone());
            // Its inputs have all columns that it reads, so its schema is the same; to derive it again is
            // slow.
            let (input, schema) = (Arc::new(inputs.swap_remove(0)), Arc::clone(&p.schema));
            LogicalPlan::Aggregate(Aggregate::try_new_with_schema(input, group, calls, schema)?)
        }
        LogicalPlan::Join(p) => {
            let right = Arc::new(inputs.swap_remove(1));
            let left = Arc::new(inputs.swap_remove(0));
            let (on, filter) = (p.on.clone(), p.filter.clone());
            LogicalPlan::Join(Join::try_new(
                left,
                right,
                on,
                filter,
                p.join_type,
                p.join_constraint,
                p.null_equality,
                p.null_aware,
            )?)
        }
        LogicalPlan::Union(p) => {
            let narrow = inputs.into_iter().zip(&p.inputs).map(|(input, old)| only(input, old.schema(), own));
            let narrow = narrow.map(|input| Ok(Arc::new(input?))).collect::<Result<_>>()?;
            LogicalPlan::Union(Union::try_new(narrow)?)
        }
        LogicalPlan::Distinct(Distinct::All(_)) => {
            LogicalPlan::Distinct(Distinct::All(Arc::new(inputs.swap_remove(0))))
        }
        LogicalPlan::Extension(p) => {
            if p.node.as_any().is::<Exchange>()
                && (!is_partitioned || properties(&inputs[0])?.partition.is_empty())
            {
                let old = p.node.inputs()[0].schema();
                let columns = needs_of_extension(p, own).swap_remove(0);
                inputs = vec![only(inputs.swap_remove(0), old, &columns)?];
            }
            let node = p.node.with_exprs_and_inputs(p.node.expressions(), inputs)?;
            LogicalPlan::Extension(Extension { node })
        }
        leaf if inputs.is_empty() => leaf.clone(),
        other => other.with_new_exprs(other.expressions(), inputs)?,
    })
}

/// Projects an inner join of streams to these columns of the old schema: it copies the columns of each pair,
/// those of keys, too. For joins of tables, DataFusion has a rule of its own.
fn narrow_join(plan: LogicalPlan, old: &DFSchema, columns: &Columns) -> Result<LogicalPlan> {
    match &plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && join.filter.is_none() => {
            only(plan, old, columns)
        }
        _ => Ok(plan),
    }
}

/// Projects a pruned input to these columns of the old schema.
fn only(input: LogicalPlan, old: &DFSchema, columns: &Columns) -> Result<LogicalPlan> {
    if input.schema().fields().len() == columns.len() {
        return Ok(input);
    }
    let exprs = columns.iter().map(|i| Expr::from(old.qualified_field(*i))).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::MemoryDataset;
    use crate::stage::{Origin, StageGraph, cut};
    use datafusion::arrow::datatypes::{DataType, Field};
    use whimbrel_plan::nodes::{Scope, TimeSpec};
    use whimbrel_plan::{Agg, AggFunction, JoinKind, Stream, column};

    fn source() -> Stream {
        let fields = ["time", "a", "b", "c", "d"].map(|name| Field::new(name, DataType::Int64, false));
        let dataset = MemoryDataset::new(Arc::new(Schema::new(fields.to_vec())), vec![vec![]]).unwrap();
        Stream::scan("source", Arc::new(dataset)).unwrap()
    }

    fn stages(stream: &Stream) -> StageGraph {
        let pruned = prune(stream.plan()).unwrap();
        assert_eq!(pruned.schema(), stream.plan().schema());
        cut(&pruned).unwrap()
    }

    /// The columns that each scan reads.
    fn read(stages: &StageGraph) -> Vec<Option<Vec<usize>>> {
        let inputs = stages.stages.iter().flat_map(|s| &s.inputs);
        let scans = inputs.filter_map(|i| match &i.origin {
            Origin::Scan(scan) => Some(scan.columns.clone()),
            Origin::Edge { .. } => None,
        });
        scans.collect()
    }

    fn sum(name: &str) -> Vec<(String, Agg)> {
        vec![("sum".into(), Agg::of(AggFunction::Sum, column(name)))]
    }

    #[test]
    fn only_used_columns_are_read_and_moved() {
        let stream = source().ingress(TimeSpec::point("time"), Default::default()).unwrap();
        let filtered = stream.where_(column("d").gt(column("time"))).unwrap();
        let keyed = filtered.rekey(vec![column("b")]).unwrap().redistribute(Some(2), Scope::Global).unwrap();
        let stages = stages(&keyed.aggregate(sum("a")).unwrap());
        assert_eq!(read(&stages), [Some(vec![0, 1, 2, 4])]);
        let moved = stages.stages[0].outputs[0].schema.fields().iter().map(|f| f.name().as_str());
        assert_eq!(moved.collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn all_columns_are_read_where_all_are_used() {
        assert_eq!(read(&stages(&source())), [None]);
        assert_eq!(read(&stages(&source().distinct().unwrap().aggregate(sum("a")).unwrap())), [None]);
        let count = vec![("n".to_string(), Agg::count())];
        assert_eq!(read(&stages(&source().aggregate(count).unwrap())), [Some(vec![0])]);
    }

    #[test]
    fn shared_subplans_stay_shared() {
        let shared = source().where_(column("d").gt(column("c"))).unwrap();
        let left = shared.rekey(vec![column("a")]).unwrap();
        let right = left.aggregate(sum("b")).unwrap();
        let stages = stages(
            &left.join(&right, vec![], JoinKind::Inner, "_right").unwrap().aggregate(sum("sum")).unwrap(),
        );
        assert_eq!(read(&stages), [Some(vec![1, 2, 3, 4])]);
    }
}
