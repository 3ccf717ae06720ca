//! `explain`: a plan as indented text, a step a line, with what is properties of its result on the right.
//!
//! The same plan gives the same text: nothing that differs from run to run is shown. A part that is used more
//! than once is shown once, numbered, and named by its number after that: it is also computed once.

use crate::aggregate::aggregate_of;
use crate::calendar::Grid;
use crate::duration::{show_ticks, show_wall};
use crate::names::{column_name, count, names, show, type_name};
use crate::nodes::{
    Assertion, ChangeLifetimes, Colocation, Exchange, HoppingWindows, Ingress, LifetimeChange, Node,
    Partitioning, Scope, Session, join_of, node,
};
use crate::properties::{Properties, merge_join_order, properties};
use crate::source::{bare_scan, given_name, source_of};
use arrow::datatypes::DataType;
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::{
    Aggregate, Expr, FetchType, Join, Limit, LogicalPlan, Projection, SkipType, Sort, TableScan,
};
use std::collections::HashMap;
use whimbrel_temporal::operators::SessionCap;
use whimbrel_temporal::{Closed, Disorder, IngressOptions, Lifetimes, OnCompleted, Punctuate};

/// Beyond this width the properties are no longer lined up.
const MAX_ALIGNED_WIDTH: usize = 72;

struct Line {
    text: String,
    properties: String,
}

/// How often each visible part of the plan is used, and the numbers of those already shown.
struct Parts<'a> {
    uses: HashMap<&'a LogicalPlan, usize>,
    shown: HashMap<&'a LogicalPlan, usize>,
}

/// The plan as text.
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
/// use whimbrel_plan::explain;
///
/// let text = explain(orders.where_(column("price").gt(lit(25_i64)))?.plan())?;
/// assert!(text.starts_with("where price > 25"), "{text}");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Plan` if the plan has a step that no stream has.
pub fn explain(plan: &LogicalPlan) -> Result<String> {
    let mut parts = Parts { uses: HashMap::new(), shown: HashMap::new() };
    parts.count(plan);
    let mut lines = Vec::new();
    parts.lines(plan, 0, &mut lines)?;
    let width =
        lines.iter().map(|l| l.text.chars().count()).filter(|w| *w <= MAX_ALIGNED_WIDTH).max().unwrap_or(0);
    let mut out = String::new();
    for line in lines {
        let pad = width.saturating_sub(line.text.chars().count());
        match line.properties.is_empty() {
            true => out.push_str(&line.text),
            false => out.push_str(&format!("{}{}  | {}", line.text, " ".repeat(pad), line.properties)),
        }
        out.push('\n');
    }
    Ok(out)
}

/// The next step down that people see: names and qualifiers are put right without a line.
fn visible(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => visible(&alias.input),
        LogicalPlan::Projection(p) if is_join(&p.input) && is_join_projection(p) => &p.input,
        _ => bare_scan(plan).map_or(plan, |scan| scan),
    }
}

fn is_join(plan: &LogicalPlan) -> bool {
    join_of(plan).is_some()
}

/// The join that this plan requires to be co-located; both are one line.
fn colocated_join(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    match node(plan) {
        Some(Node::Colocated(n)) if *n.colocation == Colocation::Matches => Some(&n.input),
        _ => None,
    }
}

/// What is shown below a plan's line.
fn inputs(plan: &LogicalPlan) -> Vec<&LogicalPlan> {
    colocated_join(plan).unwrap_or(plan).inputs()
}

/// Whether a projection above a join is the one that belongs to it.
fn is_join_projection(projection: &Projection) -> bool {
    projection.expr.iter().all(|e| match e {
        Expr::Alias(alias) => match alias.expr.as_ref() {
            Expr::Column(c) => c.relation.is_some(),
            Expr::ScalarFunction(f) => f.func.name() == "coalesce",
            _ => false,
        },
        _ => false,
    })
}

impl<'a> Parts<'a> {
    fn count(&mut self, plan: &'a LogicalPlan) {
        let plan = visible(plan);
        let uses = self.uses.entry(plan).or_insert(0);
        *uses += 1;
        if *uses == 1 {
            for input in inputs(plan) {
                self.count(input);
            }
        }
    }

    fn lines(&mut self, plan: &'a LogicalPlan, depth: usize, out: &mut Vec<Line>) -> Result<()> {
        let plan = visible(plan);
        let indent = "  ".repeat(depth);
        if let Some(number) = self.shown.get(plan) {
            out.push(Line { text: format!("{indent}[{number}] again"), properties: String::new() });
            return Ok(());
        }
        let properties = properties(plan)?;
        let mut text = format!("{indent}{}", describe(plan)?);
        if self.uses.get(plan).is_some_and(|n| *n > 1) {
            let number = self.shown.len() + 1;
            self.shown.insert(plan, number);
            text.push_str(&format!(" [{number}]"));
        }
        out.push(Line { text, properties: describe_properties(&properties) });
        inputs(plan).into_iter().try_for_each(|input| self.lines(input, depth + 1, out))
    }
}

/// `timestamp(us), every 1m for 5m, by item, 2 shards, live`
fn describe_properties(properties: &Properties) -> String {
    let mut words = Vec::new();
    match &properties.time {
        None => words.push("untimed".to_string()),
        Some(time) => {
            words.push(type_name(time));
            words.push(describe_lifetimes(properties.lifetimes, time));
        }
    }
    if !properties.key.is_empty() {
        words.push(format!("by {}", properties.key.join(", ")));
    }
    words.push(count(properties.shards, "shard"));
    if properties.groups > 1 {
        words.push(format!("in {} groups", properties.groups));
    }
    if !properties.bounded {
        words.push("live".to_string());
    }
    words.join(", ")
}

fn describe_lifetimes(lifetimes: Lifetimes, time: &DataType) -> String {
    match lifetimes {
        Lifetimes::Points => "points".to_string(),
        Lifetimes::Constant(size) => format!("for {}", show_ticks(size, time)),
        Lifetimes::Hop { size, hop, .. } => {
            format!("every {} for {}", show_ticks(hop, time), show_ticks(size, time))
        }
        Lifetimes::Tiled => "one after the other".to_string(),
        Lifetimes::Intervals => "intervals".to_string(),
        Lifetimes::StartEdges => "start edges".to_string(),
        Lifetimes::Any => "any lifetimes".to_string(),
    }
}

/// One step in our words.
///
/// # Errors
/// `Plan` if it is a step that no stream has.
pub fn describe(plan: &LogicalPlan) -> Result<String> {
    if let Some(extension) = node(plan) {
        return describe_node(extension);
    }
    Ok(match plan {
        LogicalPlan::TableScan(scan) => describe_scan(scan),
        LogicalPlan::Projection(projection) => describe_projection(projection),
        LogicalPlan::Filter(filter) => format!("where {}", show(&filter.predicate)),
        LogicalPlan::Aggregate(aggregate) => describe_aggregate(aggregate),
        LogicalPlan::Join(join) => describe_join(join),
        LogicalPlan::Union(_) => "union".to_string(),
        LogicalPlan::Distinct(_) => "distinct".to_string(),
        LogicalPlan::Unnest(unnest) => {
            let columns: Vec<&str> = unnest.exec_columns.iter().map(|c| c.name.as_str()).collect();
            format!("select many {}", columns.join(", "))
        }
        LogicalPlan::Sort(sort) => describe_sort(sort),
        LogicalPlan::Limit(limit) => describe_limit(limit)?,
        other => other.display().to_string(),
    })
}

/// `read clicks (path/of/clicks.parquet): item, price`
fn describe_scan(scan: &TableScan) -> String {
    let name = given_name(scan);
    let mut text = match source_of(scan).map(|s| s.describe()) {
        Some(what) if what != name => format!("read {name} ({what})"),
        _ => format!("read {name}"),
    };
    if scan.projection.is_some() {
        text.push_str(&format!(": {}", names(&scan.projected_schema).join(", ")));
    }
    text
}

/// Where all input columns stay in their places, only what is new or changed is shown.
fn describe_projection(projection: &Projection) -> String {
    let input = names(projection.input.schema());
    let output = names(&projection.schema);
    let changed = |i: usize, e: &Expr| input.get(i).is_none_or(|name| column_name(e) != Some(name));
    let keeps = output.len() > input.len() || output == input;
    let pairs = projection.expr.iter().zip(&output);
    if keeps && output.starts_with(&input) {
        let new: Vec<String> = pairs
            .enumerate()
            .filter(|(i, (e, _))| changed(*i, e))
            .map(|(_, (e, name))| named_expr(e, name))
            .collect();
        return format!("with {}", new.join(", "));
    }
    format!("select {}", pairs.map(|(e, name)| named_expr(e, name)).collect::<Vec<_>>().join(", "))
}

/// `name = what is computed`; a column by itself under its own name.
fn named_expr(expr: &Expr, name: &str) -> String {
    match expr {
        Expr::Alias(alias) => format!("{name} = {}", show(&alias.expr)),
        other => show(other),
    }
}

/// `aggregate by item: n = count(*)`
fn describe_aggregate(aggregate: &Aggregate) -> String {
    let mut calls = Vec::new();
    for expr in &aggregate.aggr_expr {
        let Ok((name, agg)) = aggregate_of(expr) else {
            calls.push(named_expr(expr, &expr.schema_name().to_string()));
            continue;
        };
        let argument = agg.argument.as_ref().map_or("*".to_string(), show);
        let filter = agg.filter.as_ref().map_or(String::new(), |f| format!(" where {}", show(f)));
        calls.push(format!("{name} = {}({argument}){filter}", agg.function.name()));
    }
    let by = match listed(&aggregate.group_expr) {
        none if none.is_empty() => String::new(),
        key => format!(" by {key}"),
    };
    format!("aggregate{by}: {}", calls.join(", "))
}

/// `left join on item`; `merge join` if both sides come sorted by the key.
fn describe_join(join: &Join) -> String {
    // Nothing is known of a plan with nodes of another system, as one that is measured has them.
    let is_merged = merge_join_order(join).is_ok_and(|order| order.is_some());
    let verb = match join.join_type {
        JoinType::Inner if join.on.is_empty() => "cross join",
        JoinType::Inner if is_merged => "merge join",
        JoinType::Inner => "join",
        JoinType::Left => "left join",
        JoinType::Full => "full join",
        JoinType::Right => "right join",
        JoinType::LeftSemi | JoinType::RightSemi => "where exists",
        JoinType::LeftAnti | JoinType::RightAnti => "where not exists",
        JoinType::LeftMark | JoinType::RightMark => "mark whether there is one",
    };
    format!("{verb}{}", join_condition(&join.on))
}

/// ` on item` where the names agree, else ` on a = b`.
fn join_condition(pairs: &[(Expr, Expr)]) -> String {
    let pair = |(l, r): &(Expr, Expr)| match (unqualified(l), unqualified(r)) {
        (l, r) if l == r => l,
        (l, r) => format!("{l} = {r}"),
    };
    match pairs {
        [] => String::new(),
        pairs => format!(" on {}", pairs.iter().map(pair).collect::<Vec<_>>().join(", ")),
    }
}

/// A column without its qualifier; other expressions in full.
fn unqualified(expr: &Expr) -> String {
    expr.try_as_col().map_or_else(|| show(expr), |c| c.name.clone())
}

fn listed(exprs: &[Expr]) -> String {
    exprs.iter().map(show).collect::<Vec<_>>().join(", ")
}

/// `sort by price desc, item`
fn describe_sort(sort: &Sort) -> String {
    let by = sort.expr.iter().map(|s| {
        let order = if s.asc { "" } else { " desc" };
        // Nulls last is what people expect.
        let nulls = if s.nulls_first { " nulls first" } else { "" };
        format!("{}{order}{nulls}", show(&s.expr))
    });
    format!("sort by {}", by.collect::<Vec<_>>().join(", "))
}

/// `limit 10 after 5`
fn describe_limit(limit: &Limit) -> Result<String> {
    let fetch = match limit.get_fetch_type()? {
        FetchType::Literal(Some(n)) => n.to_string(),
        _ => "all".to_string(),
    };
    Ok(match limit.get_skip_type()? {
        SkipType::Literal(0) => format!("limit {fetch}"),
        SkipType::Literal(skip) => format!("limit {fetch} after {skip}"),
        SkipType::UnsupportedExpr => format!("limit {fetch} after some"),
    })
}

/// One extension node in the terms of the fluent API.
fn describe_node(extension: Node<'_>) -> Result<String> {
    Ok(match extension {
        Node::Ingress(n) => describe_ingress(n)?,
        Node::AlterLifetime(n) => n.label.clone(),
        Node::WithStart(n) => format!("with start as {}", n.name),
        Node::Session(n) => describe_session(n)?,
        Node::ChangeLifetimes(n) => describe_change(n)?,
        Node::Clip(n) => format!("clip by the next{}", join_condition(&n.on)),
        Node::Detect(n) => {
            let mut text = format!("detect a pattern within {}", ticks(n.settings.max_duration, &n.input)?);
            if !n.key.is_empty() {
                text.push_str(&format!(" by {}", listed(&n.key)));
            }
            text
        }
        Node::MatchRecognize(n) => {
            let within = n.rows.within.map(|within| ticks(within, &n.input)).transpose()?;
            let within = within.map_or(String::new(), |within| format!(" within {within}"));
            match n.key.is_empty() {
                true => format!("match a pattern of rows{within}"),
                false => format!("match a pattern of rows{within} by {}", listed(&n.key)),
            }
        }
        Node::Process(n) if n.key.is_empty() => format!("process with {}", n.operator.0.name()),
        Node::Process(n) => format!("process with {}, with {}", n.operator.0.name(), listed(&n.key)),
        Node::FillGaps(n) => {
            let mut text = format!("fill gaps of {}", ticks(n.period, &n.input)?);
            if let Some(gap) = n.max_gap {
                text.push_str(&format!(" up to {}", ticks(gap, &n.input)?));
            }
            if !n.key.is_empty() {
                text.push_str(&format!(" by {}", listed(&n.key)));
            }
            text
        }
        Node::Changes(_) => "changes".to_string(),
        Node::Accumulate(_) => "accumulate".to_string(),
        Node::AllowedLateness(n) => {
            let ticks = |ticks: i64| n.time_type().map(|time| show_ticks(ticks, time));
            let (lateness, retention) = (ticks(n.lateness)?, ticks(n.retention)?);
            format!("allow {} to be {lateness} late, forget rows {retention} after", n.time)
        }
        Node::ReKey(n) if n.key.is_empty() => "rekey by nothing".to_string(),
        Node::ReKey(n) => format!("rekey by {}", listed(&n.key)),
        Node::Require(n) => match &*n.assertion {
            Assertion::Duration(None) => "require that rows never end".to_string(),
            Assertion::Duration(Some(duration)) => {
                format!("require a duration of {}", ticks(*duration, &n.input)?)
            }
            Assertion::Sorted(columns) => format!("require the order of {}", listed(columns)),
            Assertion::DistinctStarts => "require that no two rows start together".to_string(),
        },
        Node::Colocated(n) => match &*n.colocation {
            Colocation::Equal(key) if key.is_empty() => "co-located".to_string(),
            Colocation::Equal(key) => format!("co-located by {}", listed(key)),
            Colocation::Matches => format!("{}, co-located", describe(&n.input)?),
        },
        Node::Combine(n) => format!("combine by {}", listed(&n.group)),
        Node::Exchange(n) => describe_exchange(n)?,
    })
}

/// Ticks in the unit of a stream's time.
fn ticks(ticks: i64, input: &LogicalPlan) -> Result<String> {
    Ok(properties(input)?.time.map_or_else(|| ticks.to_string(), |t| show_ticks(ticks, &t)))
}

/// `chop every 5m`
fn describe_change(node: &ChangeLifetimes) -> Result<String> {
    let ticks = |n: i64| ticks(n, &node.input);
    Ok(match &node.change {
        LifetimeChange::Chop(Grid::Ticks { hop, offset: 0 }) => format!("chop every {}", ticks(*hop)?),
        LifetimeChange::Chop(Grid::Ticks { hop, offset }) => {
            format!("chop every {} offset {}", ticks(*hop)?, ticks(*offset)?)
        }
        LifetimeChange::Chop(Grid::Calendar(calendar)) => format!("chop every {calendar}"),
        LifetimeChange::Clip(limit) => format!("clip to {}", ticks(*limit)?),
        LifetimeChange::PointAtEnd => "point at end".to_string(),
        LifetimeChange::Extend(by) if *by < 0 => format!("shorten by {}", ticks(-by)?),
        LifetimeChange::Extend(by) => format!("extend by {}", ticks(*by)?),
        LifetimeChange::Stitch => "stitch".to_string(),
        LifetimeChange::Hop(HoppingWindows { size, hop, offset, closed }) => {
            let mut text = format!("hopping {} hop {} snapped", ticks(*size)?, ticks(*hop)?);
            if *offset != 0 {
                text.push_str(&format!(" offset {}", ticks(*offset)?));
            }
            if *closed == Closed::Right {
                text.push_str(" closed right");
            }
            text
        }
        LifetimeChange::Quantize(grid) => {
            let mut text = format!("quantize {} period {}", ticks(grid.size)?, ticks(grid.period)?);
            if let Some(progress) = grid.progress {
                text.push_str(&format!(" progress {}", ticks(progress)?));
            }
            if grid.offset != 0 {
                text.push_str(&format!(" offset {}", ticks(grid.offset)?));
            }
            text
        }
    })
}

/// `session 30m max 4h by user, rows at its end, with its start as first`
fn describe_session(session: &Session) -> Result<String> {
    let mut text = format!("session {}", ticks(session.timeout, &session.input)?);
    match session.cap {
        Some(SessionCap::After(most)) => text.push_str(&format!(" max {}", ticks(most, &session.input)?)),
        Some(SessionCap::OnGrid(most)) => {
            text.push_str(&format!(" max {} on a grid", ticks(most, &session.input)?));
        }
        None => {}
    }
    if !session.key.is_empty() {
        text.push_str(&format!(" by {}", listed(&session.key)));
    }
    if let Some(start) = &session.start {
        text.push_str(&format!(", rows at its end, with its start as {start}"));
    }
    Ok(text)
}

/// `redistribute by item into 4 shards`
fn describe_exchange(exchange: &Exchange) -> Result<String> {
    let shards = match exchange.shards {
        Some(n) => n,
        None => properties(&exchange.input)?.shards,
    };
    let scope = match exchange.scope {
        Scope::Global => "",
        Scope::Local => " within each group",
    };
    let location = exchange.location.as_ref().map_or_else(String::new, |location| format!(" at {location}"));
    Ok(format!("{} into {}{location}{scope}", exchange.movement, count(shards, "shard")))
}

/// The time columns, and the options that are not the defaults.
fn describe_ingress(ingress: &Ingress) -> Result<String> {
    let (time, options) = (&ingress.time, &ingress.options);
    let mut words = vec![match (&time.end, &time.kind) {
        (None, _) => format!("events at {}", time.start),
        (Some(end), None) => format!("events over {} to {end}", time.start),
        (Some(end), Some(kind)) => format!("edges {}, {end}, {kind}", time.start),
    }];
    let default = IngressOptions::default();
    let unit = ingress.time_type()?;
    if options.reorder_latency != default.reorder_latency {
        words.push(format!("reorder within {}", show_ticks(options.reorder_latency, &unit)));
    }
    if options.disorder != default.disorder {
        words.push(match options.disorder {
            Disorder::Raise => "late rows fail".to_string(),
            Disorder::Adjust => "late rows start now".to_string(),
            Disorder::Drop => "late rows dropped".to_string(),
        });
    }
    if let Some(Partitioning { columns, lag }) = &ingress.partitioning {
        words.push(format!("a clock for each {}", columns.join(", ")));
        words.extend(lag.map(|lag| format!("lag {}", show_ticks(lag, &unit))));
    }
    if options.punctuate != default.punctuate {
        words.push(match options.punctuate {
            Punctuate::Never => "no punctuations".to_string(),
            Punctuate::Every(n) => format!("punctuation every {}", show_ticks(n, &unit)),
            Punctuate::Rows(n) => format!("punctuation every {n} rows"),
        });
    }
    words.extend(options.idle.map(|idle| format!("idle after {}", show_wall(idle))));
    if options.on_completed != default.on_completed {
        words.push(match options.on_completed {
            OnCompleted::EndOfStream => "ends with its input".to_string(),
            OnCompleted::Flush => "flushes when its input ends".to_string(),
            OnCompleted::Nothing => "stays open when its input ends".to_string(),
        });
    }
    if options.batch_rows != default.batch_rows {
        words.push(format!("batches of {}", count(options.batch_rows, "row")));
    }
    Ok(words.join(", "))
}
