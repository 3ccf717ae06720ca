//! Stream properties: what is known of a plan's result before it runs (trill.txt §5.3, quill.txt §3).
//!
//! They are derived from the plan alone, bottom-up, so they hold for a plan that no builder has made. The key
//! is followed by position: a renamed key column stays the key, one that is dropped or computed anew takes
//! the key with it. Inputs that cannot meet (other units of time, other numbers of shards) are refused here,
//! whoever built the plan.

mod derived;
mod movement;

use crate::names::{count, index_of, type_name};
use crate::nodes::{Assertion, Colocated, Colocation, Node, Require, node};
use crate::partition_columns;
use crate::passed_columns::{equal_columns, passed_column, passes_partition, places};
use crate::placement::{self, Placement};
use crate::ranges::Ranges;
use crate::sort_order::{keeps_order, merge_order, places_of_prefix};
use crate::source::source_of;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, JoinType, Result, internal_err, plan_err};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, Join, LogicalPlan, Projection, TableScan, Window};
use derived::Derived;
use movement::{check_together, key_column, of_exchange};
use std::sync::Arc;
use whimbrel_temporal::Lifetimes;

/// What is known of a stream or relation before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Properties {
    /// The type of its time; `None`: a relation without time.
    pub time: Option<DataType>,
    /// The columns of the current key.
    pub key: Vec<String>,
    /// How its rows live. A relation without time is alive always.
    pub lifetimes: Lifetimes,
    /// Whether it ends.
    pub bounded: bool,
    /// In how many shards it comes.
    pub shards: usize,
    /// Over how many groups (machines) the shards are spread.
    pub groups: usize,
    /// How its rows lie over the shards.
    pub placement: Placement,
    /// The columns by which it is [partitioned](crate::nodes::Partitioning); none: all rows have one clock.
    pub partition: Vec<String>,
    /// The columns in whose ascending order its rows come in each shard, nulls last: by the first, then by
    /// the second. It is [asserted](crate::nodes::Assertion::Sorted), and checked while the query runs.
    pub sorted: Vec<String>,
}

/// The properties of a plan's result.
///
/// ```
/// # use datafusion::arrow::datatypes::DataType;
/// # use datafusion::common::ScalarValue;
/// # use datafusion::logical_expr::lit;
/// # use whimbrel_plan::{Stream, column};
/// # fn main() -> datafusion::common::Result<()> {
/// # let integers = |name: &str| (name.to_string(), DataType::Int64);
/// # let row = |values: &[i64]| values.iter().map(|v| ScalarValue::from(*v)).collect::<Vec<_>>();
/// # let names = |s: &Stream| s.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
/// let orders = Stream::values(&[integers("id"), integers("price")], vec![row(&[1, 20]), row(&[2, 30])])?;
/// use whimbrel_plan::{Placement, properties};
///
/// let derived = properties(orders.rekey(vec![column("id")])?.plan())?;
/// assert_eq!((derived.time, derived.key, derived.shards), (None, vec!["id".to_string()], 1));
/// assert_eq!(derived.placement, Placement::OneShard);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Plan` if the plan has a step that no stream has.
pub fn properties(plan: &LogicalPlan) -> Result<Properties> {
    let derived = derive(plan)?;
    let fields = plan.schema().fields();
    Ok(Properties {
        time: derived.time,
        key: derived.key.iter().map(|i| fields[*i].name().clone()).collect(),
        lifetimes: derived.lifetimes,
        bounded: derived.bounded,
        shards: derived.shards,
        groups: derived.groups,
        placement: derived.placement.map_columns(|i| vec![fields[i].name().clone()]),
        partition: derived.partition.iter().map(|i| fields[*i].name().clone()).collect(),
        sorted: derived.sorted.iter().map(|i| fields[*i].name().clone()).collect(),
    })
}

/// In which order an inner join compares its equalities, as their places, if both sides are streams without
/// end edges that come [sorted](Properties::sorted) by them: then it need not keep rows of other keys.
///
/// # Errors
/// As [`properties`].
pub fn merge_join_order(join: &Join) -> Result<Option<Vec<usize>>> {
    let (left, right) = (derive(&join.left)?, derive(&join.right)?);
    Ok(merge_order(join, &left.sorted_side(), &right.sorted_side()))
}

/// The properties of a plan, with columns as positions. A plan in one shard has the placement `OneShard`.
fn derive(plan: &LogicalPlan) -> Result<Derived> {
    let mut derived = of_plan(plan)?;
    if derived.shards == 1 {
        derived.placement = Placement::OneShard;
    }
    if !keeps_order(plan) {
        derived.sorted.clear();
    }
    Ok(derived)
}

/// Derives the properties of a node from those of its inputs.
fn of_plan(plan: &LogicalPlan) -> Result<Derived> {
    match plan {
        LogicalPlan::TableScan(scan) => Ok(of_scan(scan)),
        LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_) => Ok(relation(true, 1, 1)),
        LogicalPlan::Projection(projection) => of_projection(projection),
        LogicalPlan::Filter(filter) => derive(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => derive(&alias.input),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => derive(&sort.input),
        LogicalPlan::Sort(sort) => of_choice(&sort.input),
        LogicalPlan::Limit(limit) => of_choice(&limit.input),
        LogicalPlan::Unnest(unnest) => by_name(derive(&unnest.input)?, unnest.input.schema(), &unnest.schema),
        LogicalPlan::Distinct(Distinct::All(input)) => Ok(snapshots(derive(input)?)),
        LogicalPlan::Distinct(Distinct::On(distinct)) => {
            let derived = derive(&distinct.input)?;
            untimed(plan, &derived)?;
            Ok(Derived { key: vec![], placement: Placement::Unknown, ..derived })
        }
        LogicalPlan::Window(window) => {
            // Its input's columns come first, in their places.
            let derived = derive(&window.input)?;
            check_windows(window, &derived)?;
            Ok(after_local_choice(changing(recomputed(derived))))
        }
        LogicalPlan::RecursiveQuery(query) => {
            let (first, next) = (derive(&query.static_term)?, derive(&query.recursive_term)?);
            untimed(plan, &first)?;
            untimed(plan, &next)?;
            Ok(Derived {
                lifetimes: Lifetimes::StartEdges,
                ..common_properties("recursive query", &first, &next)?
            })
        }
        LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate),
        LogicalPlan::Join(join) => of_join(join, false),
        LogicalPlan::Union(union) => {
            let inputs = union.inputs.iter().map(|i| derive(i)).collect::<Result<Vec<_>>>()?;
            of_union(inputs)
        }
        LogicalPlan::Extension(_) => match node(plan) {
            Some(node) => of_node(node),
            None => plan_err!("a plan cannot hold this node of another system: {}", plan.display()),
        },
        other => plan_err!("a stream has no such step: {}", other.display()),
    }
}

/// Refuses a step that has no meaning at an instant.
fn untimed(plan: &LogicalPlan, derived: &Derived) -> Result<()> {
    let what = match plan {
        LogicalPlan::RecursiveQuery(_) => "a recursive query",
        _ => "distinct on",
    };
    match derived.time {
        None => Ok(()),
        Some(_) => plan_err!("{what} is for relations, this is a stream; apply it to what the stream gives"),
    }
}

/// Refuses window functions over rows of several partitions, each with a clock of its own.
fn check_windows(window: &Window, derived: &Derived) -> Result<()> {
    for function in &window.window_expr {
        let Expr::WindowFunction(function) = function.clone().unalias_nested().data else { continue };
        let by = function.params.partition_by.iter();
        let by: Vec<usize> = by.filter_map(|by| passed_column(by, window.input.schema())).collect();
        partition_columns::check_key(&derived.partition, &by, window.input.schema(), "a window function")?;
    }
    Ok(())
}

/// The lifetimes of rows that are computed anew whenever one of their group comes or goes.
fn recomputed(derived: Derived) -> Derived {
    match derived.time.is_some() && !derived.lifetimes.are_tiled() {
        true => Derived { lifetimes: Lifetimes::Any, ..derived },
        false => derived,
    }
}

/// The properties of an unkeyed relation without time.
fn relation(bounded: bool, shards: usize, groups: usize) -> Derived {
    Derived {
        time: None,
        key: vec![],
        lifetimes: Lifetimes::StartEdges,
        bounded,
        shards,
        groups,
        placement: Placement::Unknown,
        partition: vec![],
        sorted: vec![],
    }
}

/// Some of the rows that are alive together.
fn of_choice(input: &LogicalPlan) -> Result<Derived> {
    let derived = derive(input)?;
    partition_columns::check_key(&derived.partition, &[], input.schema(), "limit")?;
    Ok(after_local_choice(changing(derived)))
}

/// Which of equally good rows are taken can differ between copies.
fn after_local_choice(derived: Derived) -> Derived {
    Derived { placement: derived.placement.after_local_choice(), ..derived }
}

/// A source knows whether it is bounded, its shards, and its ranges.
fn of_scan(scan: &TableScan) -> Derived {
    match source_of(scan) {
        Some(source) => {
            let info = source.info();
            let placement =
                source.ranges().and_then(|ranges| within(scan, ranges)).unwrap_or(Placement::Unknown);
            Derived { placement, ..relation(info.bounded, info.shards, info.groups) }
        }
        // A table of DataFusion's own.
        None => relation(true, 1, 1),
    }
}

/// The placement of a scan whose shards are ranges of a column; `None` if the column is not read.
fn within(scan: &TableScan, ranges: &Ranges) -> Option<Placement<usize>> {
    let column = scan.projected_schema.index_of_column_by_name(None, ranges.column())?;
    Some(Placement::Ranges(vec![column], Arc::clone(ranges.bounds())))
}

/// The key's columns survive where the projection passes them through, under whatever name.
fn of_projection(projection: &Projection) -> Result<Derived> {
    let mut derived = derive(&projection.input)?;
    let input = projection.input.schema();
    let columns: Vec<Option<usize>> = projection.expr.iter().map(|e| passed_column(e, input)).collect();
    let key: Option<Vec<usize>> =
        derived.key.iter().map(|k| columns.iter().position(|p| *p == Some(*k))).collect();
    derived.key = key.unwrap_or_default();
    derived.sorted =
        places_of_prefix(&derived.sorted, |i| columns.iter().position(|passed| *passed == Some(i)));
    derived.placement = derived.placement.map_columns(|i| places(&columns, i));
    derived.partition = partition_columns::through(&derived.partition, input, "select", |column| {
        projection.expr.iter().position(|expr| passes_partition(expr, column, &projection.input))
    })?;
    Ok(derived)
}

/// Columns survive where the output has columns of their names.
fn by_name(mut derived: Derived, input: &DFSchema, output: &DFSchema) -> Result<Derived> {
    let place = |i: usize| output.index_of_column_by_name(None, input.field(i).name());
    let key: Option<Vec<usize>> = derived.key.iter().map(|k| place(*k)).collect();
    derived.key = key.unwrap_or_default();
    derived.placement = derived.placement.map_columns(|i| Vec::from_iter(place(i)));
    derived.partition = partition_columns::through(&derived.partition, input, "select", place)?;
    Ok(derived)
}

/// One row a snapshot: over tumbling windows snapshots are the windows, else they begin and end anywhere.
fn snapshots(mut derived: Derived) -> Derived {
    if derived.time.is_none() {
        return changing(derived);
    }
    derived.lifetimes = match derived.lifetimes {
        Lifetimes::Hop { size, hop, .. } if size == hop => Lifetimes::Constant(size),
        Lifetimes::Tiled => Lifetimes::Tiled,
        _ => Lifetimes::Any,
    };
    derived
}

/// A relation whose rows leave again, if rows still come.
fn changing(derived: Derived) -> Derived {
    match derived.time.is_none() && !derived.bounded {
        true => Derived { lifetimes: Lifetimes::Any, ..derived },
        false => derived,
    }
}

/// The key survives if its columns are grouping columns.
fn of_aggregate(aggregate: &Aggregate) -> Result<Derived> {
    let mut derived = snapshots(derive(&aggregate.input)?);
    let input = aggregate.input.schema();
    let groups: Vec<Option<usize>> = aggregate.group_expr.iter().map(|e| passed_column(e, input)).collect();
    let key: Option<Vec<usize>> =
        derived.key.iter().map(|k| groups.iter().position(|g| *g == Some(*k))).collect();
    derived.key = key.unwrap_or_default();
    derived.placement = derived.placement.map_columns(|i| places(&groups, i));
    derived.partition = partition_columns::through(&derived.partition, input, "aggregate", |column| {
        groups.iter().position(|place| *place == Some(column))
    })?;
    Ok(derived)
}

/// The left key stays, or the right one where only right rows come out; lifetimes are intersections, or what
/// is left of them.
fn of_join(join: &Join, colocated: bool) -> Result<Derived> {
    let (left, right) = (derive(&join.left)?, derive(&join.right)?);
    let common = common_properties("join", &left, &right)?;
    let equal = equal_columns(join);
    if colocated {
        placement::check_join(join, (&left.placement, &right.placement), &equal, common.shards)?;
    }
    let sides = (join.left.schema().as_ref(), join.right.schema().as_ref());
    partition_columns::check_pairs((&left.partition, sides.0), (&right.partition, sides.1), &equal, "join")?;
    let width = join.left.schema().fields().len();
    let sorted = match merge_order(join, &left.sorted_side(), &right.sorted_side()) {
        Some(order) => left.sorted[..order.len()].to_vec(),
        None => vec![],
    };
    let placement = placement::of_join(join, left.placement, right.placement, &equal, width);
    let (key, partition) = match join.join_type {
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            (right.key.clone(), right.partition.clone())
        }
        JoinType::Right => (left.key.clone(), right.partition.iter().map(|column| width + column).collect()),
        _ => (left.key.clone(), left.partition.clone()),
    };
    let lifetimes = match join.join_type {
        JoinType::Inner if left.lifetimes.edge_free() && right.lifetimes.edge_free() => Lifetimes::Intervals,
        _ if common.time.is_none() && common.bounded => Lifetimes::StartEdges,
        // Rows that stay find partners that stay.
        JoinType::Inner
            if (left.lifetimes, right.lifetimes) == (Lifetimes::StartEdges, Lifetimes::StartEdges) =>
        {
            Lifetimes::StartEdges
        }
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi
            if common.time.is_none() && left.lifetimes == right.lifetimes =>
        {
            left.lifetimes
        }
        _ => Lifetimes::Any,
    };
    Ok(Derived { key, lifetimes, placement, partition, sorted, ..common })
}

/// Inputs have to be compatible; key and placement survive if they are equal in all inputs.
fn of_union(inputs: Vec<Derived>) -> Result<Derived> {
    let mut inputs = inputs.into_iter();
    let Some(first) = inputs.next() else { return plan_err!("a union needs inputs") };
    inputs.try_fold(first, |left, right| {
        let common = common_properties("union", &left, &right)?;
        let lifetimes = match (left.lifetimes, right.lifetimes) {
            // Windows of two calendars.
            (Lifetimes::Tiled, Lifetimes::Tiled) => Lifetimes::Intervals,
            (l, r) if l == r => l,
            (l, r) if l.edge_free() && r.edge_free() => Lifetimes::Intervals,
            _ => Lifetimes::Any,
        };
        let key = if left.key == right.key { left.key } else { vec![] };
        let placement = if left.placement == right.placement { left.placement } else { Placement::Unknown };
        if left.partition != right.partition {
            return plan_err!(
                "union: both sides need a clock for each of the same columns, or one for all rows: \
                 merge_partitions()"
            );
        }
        Ok(Derived { key, lifetimes, placement, partition: left.partition, ..common })
    })
}

/// What two inputs have in common, or why they cannot meet. Key, lifetimes and placement are left to the
/// caller.
fn common_properties(what: &str, left: &Derived, right: &Derived) -> Result<Derived> {
    let time = match (&left.time, &right.time) {
        (Some(l), Some(r)) if l != r => {
            return plan_err!(
                "{what}: one stream counts time in {}, the other in {}; cast the time column of one of them",
                type_name(l),
                type_name(r)
            );
        }
        (Some(_), None) if !right.bounded => return plan_err!("{what}: {}", without_time("right")),
        (None, Some(_)) if !left.bounded => return plan_err!("{what}: {}", without_time("left")),
        (l, r) => l.clone().or_else(|| r.clone()),
    };
    if left.shards != right.shards {
        return plan_err!(
            "{what}: the left side has {} and the right side {}; bring them to the same number first, with \
             redistribute, reshard or broadcast into {} shards",
            count(left.shards, "shard"),
            right.shards,
            left.shards
        );
    }
    Ok(Derived {
        time,
        key: vec![],
        lifetimes: Lifetimes::Any,
        bounded: left.bounded && right.bounded,
        shards: left.shards,
        // Sides that are laid out over different groups meet as if there were one.
        groups: if left.groups == right.groups { left.groups } else { 1 },
        placement: Placement::Unknown,
        partition: vec![],
        sorted: vec![],
    })
}

/// The error for a join of a stream with a live relation.
fn without_time(side: &str) -> String {
    format!(
        "one side is a stream with time, and the {side} one is a live source without: which of its rows an event meets \
         would depend on which came first; give it its time column where it is read, time=\"…\", or read neither with \
         a time and keep the join up to date with .changes() (in SQL, emit changes after the query does both)"
    )
}

/// Derives the properties of an extension node.
fn of_node(node: Node<'_>) -> Result<Derived> {
    match node {
        Node::Ingress(n) => {
            let derived = derive(&n.input)?;
            let columns = n.partitioning.iter().flat_map(|partitioning| &partitioning.columns);
            let partition = columns.map(|name| index_of(n.input.schema(), name)).collect::<Result<_>>()?;
            let (time, lifetimes) = (Some(n.time_type()?), n.lifetimes()?);
            let derived = Derived { time, lifetimes, partition, ..derived };
            by_name(
                derived,
                n.input.schema(),
                datafusion::logical_expr::UserDefinedLogicalNodeCore::schema(n),
            )
        }
        Node::AlterLifetime(n) => {
            let derived = derive(&n.input)?;
            Ok(Derived { lifetimes: n.lifetimes(derived.lifetimes), ..derived })
        }
        Node::WithStart(n) => derive(&n.input),
        Node::Session(n) => {
            let derived = derive(&n.input)?;
            let key: Vec<usize> = n.key.iter().filter_map(|k| passed_column(k, n.input.schema())).collect();
            partition_columns::check_key(&derived.partition, &key, n.input.schema(), "session")?;
            Ok(Derived { lifetimes: n.lifetimes(), ..derived })
        }
        Node::ChangeLifetimes(n) => {
            let derived = derive(&n.input)?;
            Ok(Derived { lifetimes: n.change.lifetimes(derived.lifetimes), ..derived })
        }
        Node::Clip(n) => {
            let left = derive(&n.left)?;
            let right = derive(&n.right)?;
            let common = common_properties("clip", &left, &right)?;
            let placement = match right.placement {
                Placement::Replicated => left.placement,
                _ => left.placement.after_local_choice(),
            };
            let sides = (n.left.schema().as_ref(), n.right.schema().as_ref());
            let place =
                |(l, r): &(Expr, Expr)| Some((passed_column(l, sides.0)?, passed_column(r, sides.1)?));
            let equal: Vec<(usize, usize)> = n.on.iter().filter_map(place).collect();
            let (l, r) = (&left.partition, &right.partition);
            partition_columns::check_pairs((l, sides.0), (r, sides.1), &equal, "clip")?;
            let (key, partition) = (left.key, left.partition);
            Ok(Derived { key, lifetimes: Lifetimes::Any, placement, partition, ..common })
        }
        Node::Detect(n) => of_matches(&n.input, &n.key_places()?, Lifetimes::Intervals, "detect"),
        Node::MatchRecognize(n) => {
            of_matches(&n.input, &n.key_places()?, Lifetimes::Points, "match_recognize")
        }
        Node::Process(n) => {
            let lifetimes = derive(&n.input)?.lifetimes;
            of_matches(&n.input, &n.key_places()?, lifetimes, "process")
        }
        Node::FillGaps(n) => {
            let derived = derive(&n.input)?;
            partition_columns::check_key(
                &derived.partition,
                &n.key_places()?,
                n.input.schema(),
                "fill_gaps",
            )?;
            any_lifetimes(derived)
        }
        Node::Changes(n) => {
            let derived = derive(&n.input)?;
            let key = derived.key.iter().map(|place| place + 1).collect();
            let partition = derived.partition.iter().map(|place| place + 1).collect();
            Ok(Derived { key, lifetimes: Lifetimes::StartEdges, partition, ..derived })
        }
        Node::Accumulate(n) => {
            let derived = derive(&n.input)?;
            if derived.time.is_none() || !derived.partition.is_empty() {
                return plan_err!("accumulate: it takes a stream whose rows have one clock");
            }
            // It is kept up to date while the time of the stream passes, also if the stream ends.
            Ok(Derived { time: None, lifetimes: Lifetimes::StartEdges, bounded: false, ..derived })
        }
        Node::AllowedLateness(n) => {
            let derived = derive(&n.input)?;
            if derived.time.is_some() {
                return plan_err!("allowed lateness: a stream with time has its reorder latency for that");
            }
            any_lifetimes(derived)
        }
        Node::ReKey(n) => {
            let key = n.key.iter().map(|e| key_column(e, n.input.schema())).collect::<Result<Vec<_>>>()?;
            Ok(Derived { key, ..derive(&n.input)? })
        }
        Node::Require(n) => of_require(n),
        // Parts live as the rows do that they are made of.
        Node::Combine(n) => Ok(Derived { key: vec![], placement: Placement::Unknown, ..derive(&n.input)? }),
        Node::Colocated(n) => of_colocated(n),
        Node::Exchange(n) => of_exchange(n, derive(&n.input)?),
    }
}

/// What is asserted is known.
fn of_require(require: &Require) -> Result<Derived> {
    let derived = derive(&require.input)?;
    let sorted = match &*require.assertion {
        Assertion::Sorted(columns) => {
            let schema = require.input.schema();
            columns.iter().map(|column| key_column(column, schema)).collect::<Result<_>>()?
        }
        Assertion::Duration(_) | Assertion::DistinctStarts => derived.sorted,
    };
    Ok(Derived { lifetimes: require.lifetimes(derived.lifetimes), sorted, ..derived })
}

/// The properties of matches, and of rows that an operator made: their first columns are those of the key.
fn of_matches(input: &LogicalPlan, key: &[usize], lifetimes: Lifetimes, what: &str) -> Result<Derived> {
    let derived = derive(input)?;
    if derived.time.is_none() {
        return plan_err!("{what} needs a stream with time");
    }
    partition_columns::check_key(&derived.partition, key, input.schema(), what)?;
    let place = |column: &usize| key.iter().position(|place| place == column);
    let placement = derived.placement.map_columns(|column| Vec::from_iter(place(&column)));
    let partition = derived.partition.iter().filter_map(place).collect();
    Ok(Derived { key: (0..key.len()).collect(), lifetimes, placement, partition, ..derived })
}

/// The same properties, with unknown lifetimes.
fn any_lifetimes(derived: Derived) -> Result<Derived> {
    Ok(Derived { lifetimes: Lifetimes::Any, ..derived })
}

/// What is required holds, or the plan is refused.
fn of_colocated(colocated: &Colocated) -> Result<Derived> {
    match (&*colocated.colocation, &*colocated.input) {
        (Colocation::Equal(key), input) => {
            let derived = derive(input)?;
            check_together(key, input.schema(), &derived)?;
            Ok(derived)
        }
        (Colocation::Matches, LogicalPlan::Join(join)) => of_join(join, true),
        (Colocation::Matches, other) => {
            internal_err!("co-located matches are those of a join, not of {}", other.display())
        }
    }
}
