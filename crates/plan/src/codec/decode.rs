//! From a document to its plan. The bytes are not trusted: whatever they say is checked by the constructors
//! of the nodes, and what these do not check is checked here.

use super::document::{
    Assertion, Beats, Change, Fill, Join, JoinKind, Message, Movement, Node, NullRows, Rows, SortKey, Step,
    StepId,
};
use super::expression::{Expressions, damaged, read_schema};
use super::names::Names;
use crate::calendar::{Calendar, Grid};
use crate::depth::{MOST_PARTS, MOST_STEPS};
use crate::nodes::{
    self, Accumulate, AllowedLateness, AlterLifetime, ChangeLifetimes, Changes, Clip, Colocated, Combine,
    Detect, Exchange, FillGaps, Ingress, LifetimeChange, MatchRecognize, ReKey, Require, Session, WithStart,
    extension,
};
use crate::source::{PlanSource, Source};
use crate::stack::with_room;
use arrow::datatypes::DataType;
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, NullEquality, NullHandling, RecursionUnnestOption, Result, ScalarValue,
    TableReference, UnnestOptions, plan_datafusion_err, plan_err,
};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::logical_plan::{self, DistinctOn, RecursiveQuery};
use datafusion::logical_expr::{
    Aggregate, Distinct, EmptyRelation, Expr, Filter, JoinConstraint, JoinType, Limit, LogicalPlan,
    Projection, Sort, SortExpr, SubqueryAlias, TableScanBuilder, TableSource, Union, Unnest, Values, Window,
};
use std::cell::Cell;
use std::str::FromStr;
use std::sync::Arc;

/// Builds plans step by step.
pub(super) struct Decoder {
    expressions: Arc<Expressions>,
    /// The names of the document, as this process has them.
    pub names: Names,
    /// The sources of the document.
    pub sources: Vec<Arc<dyn Source>>,
    /// The plans of the steps so far.
    plans: Vec<Built>,
    /// How large the step is that is being built.
    extent: Cell<Extent>,
}

/// A plan, and how large it is.
struct Built {
    plan: Arc<LogicalPlan>,
    extent: Extent,
}

/// How large a plan is when what is shared is counted as often as it is read, as everything that walks a plan
/// does.
#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    steps: u64,
    depth: u64,
}

impl Decoder {
    pub fn new(expressions: Arc<Expressions>, names: Names) -> Decoder {
        Decoder { expressions, names, sources: vec![], plans: vec![], extent: Cell::default() }
    }

    /// Keeps the plan of the step that was built last.
    ///
    /// # Errors
    /// `Plan` if the plan is too deep or too large.
    pub fn push(&mut self, plan: Arc<LogicalPlan>) -> Result<()> {
        let Extent { steps, depth } = self.extent.take();
        let extent = Extent { steps: steps.saturating_add(1), depth: depth + 1 };
        if extent.depth > MOST_STEPS as u64 || extent.steps > MOST_PARTS as u64 {
            return plan_err!(
                "this plan has {} steps, {} deep; at most {MOST_PARTS} and {MOST_STEPS} are read",
                extent.steps,
                extent.depth
            );
        }
        self.plans.push(Built { plan, extent });
        Ok(())
    }

    /// The plan of the last step.
    pub fn into_plan(mut self) -> Option<Arc<LogicalPlan>> {
        self.plans.pop().map(|built| built.plan)
    }

    /// The plan of a step, given those before it.
    ///
    /// # Errors
    /// `Plan` if the step is damaged or does not fit its inputs.
    pub fn build(&mut self, step: &Step) -> Result<LogicalPlan> {
        self.extent.take();
        let mut plan = self.node(&step.node)?;
        if let Some(schema) = &step.schema {
            let schema = read_schema(schema, &self.names)?;
            if !can_have(&plan, &schema) {
                return plan_err!(
                    "the bytes of this plan are damaged: a step has other columns than it computes"
                );
            }
            set_schema(&mut plan, &schema);
        }
        Ok(plan)
    }

    fn node(&mut self, node: &Node) -> Result<LogicalPlan> {
        Ok(match node {
            Node::Projection { input, exprs } => {
                LogicalPlan::Projection(Projection::try_new(self.exprs(exprs)?, self.input(*input)?)?)
            }
            Node::Filter { input, predicate } => {
                LogicalPlan::Filter(Filter::try_new(self.expr(predicate)?, self.input(*input)?)?)
            }
            Node::Window { input, exprs } => {
                LogicalPlan::Window(Window::try_new(self.exprs(exprs)?, self.input(*input)?)?)
            }
            Node::Aggregate { input, group, calls } => LogicalPlan::Aggregate(Aggregate::try_new(
                self.input(*input)?,
                self.exprs(group)?,
                self.exprs(calls)?,
            )?),
            Node::Sort { input, by, fetch } => LogicalPlan::Sort(Sort {
                expr: self.sort_keys(by)?,
                input: self.input(*input)?,
                fetch: fetch.map(size).transpose()?,
            }),
            Node::Join(join) => LogicalPlan::Join(self.join(join)?),
            Node::Union { inputs } => self.union(inputs)?,
            Node::Scan { table, rows, projection, filters, fetch } => {
                let table = self.names.table(*table)?;
                let source = self.rows(&table, rows)?;
                let projection = projection.as_ref().map(|p| p.iter().map(|c| *c as usize).collect());
                let projection = check_projection(source.as_ref(), projection)?;
                let fetch = fetch.map(size).transpose()?;
                let scan = TableScanBuilder::new(table, source).with_projection(projection);
                let scan = scan.with_filters(self.exprs(filters)?).with_fetch(fetch).build()?;
                LogicalPlan::TableScan(scan)
            }
            Node::EmptyRelation { produce_one_row } => LogicalPlan::EmptyRelation(EmptyRelation {
                produce_one_row: *produce_one_row,
                schema: Arc::new(DFSchema::empty()),
            }),
            Node::SubqueryAlias { input, alias } => LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(
                self.input(*input)?,
                self.names.table(*alias)?,
            )?),
            Node::Limit { input, skip, fetch } => LogicalPlan::Limit(Limit {
                skip: skip.as_ref().map(|skip| self.expr(skip).map(Box::new)).transpose()?,
                fetch: fetch.as_ref().map(|fetch| self.expr(fetch).map(Box::new)).transpose()?,
                input: self.input(*input)?,
            }),
            Node::Values { rows } => LogicalPlan::Values(Values {
                schema: Arc::new(DFSchema::empty()),
                values: rows.iter().map(|row| self.exprs(row)).collect::<Result<_>>()?,
            }),
            Node::Distinct { input } => LogicalPlan::Distinct(Distinct::All(self.input(*input)?)),
            Node::DistinctOn { input, on, select, sort } => {
                let sort = sort.as_ref().map(|sort| self.sort_keys(sort)).transpose()?;
                let (on, select) = (self.exprs(on)?, self.exprs(select)?);
                LogicalPlan::Distinct(Distinct::On(DistinctOn::try_new(
                    on,
                    select,
                    sort,
                    self.input(*input)?,
                )?))
            }
            Node::RecursiveQuery { name, first, step, distinct } => {
                let (first, step) = (self.input(*first)?, self.input(*step)?);
                LogicalPlan::RecursiveQuery(RecursiveQuery::try_new(
                    self.names.table(*name)?.table().to_string(),
                    first,
                    step,
                    *distinct,
                )?)
            }
            Node::Unnest { input, columns, nulls, depths } => {
                let columns = columns.iter().map(|column| self.column(column)).collect::<Result<_>>()?;
                let recursions = depths.iter().map(|depth| {
                    Ok(RecursionUnnestOption {
                        input_column: self.column(&depth.input)?,
                        output_column: self.column(&depth.output)?,
                        depth: depth.depth as usize,
                    })
                });
                let options = UnnestOptions {
                    recursions: recursions.collect::<Result<_>>()?,
                    null_handling: null_handling(*nulls),
                };
                LogicalPlan::Unnest(Unnest::try_new(self.input(*input)?, columns, options)?)
            }
            temporal => self.temporal(temporal)?,
        })
    }

    /// The nodes of ours.
    fn temporal(&mut self, node: &Node) -> Result<LogicalPlan> {
        Ok(match node {
            Node::Ingress { input, time, options, partitioning } => {
                let ingress = Ingress::try_new(self.copy(*input)?, time.clone(), options.clone())?;
                extension(ingress.partitioned(partitioning.clone())?)
            }
            Node::AlterLifetime { input, start, duration, label } => {
                let start = start.try_map(|e| self.expr(e))?;
                let duration = duration.try_map(|e| self.expr(e))?;
                extension(AlterLifetime::try_new(self.copy(*input)?, start, duration, label.clone())?)
            }
            Node::WithStart { input, name, time } => {
                extension(WithStart::try_new(self.copy(*input)?, name.clone(), data_type(time)?)?)
            }
            Node::Session { input, key, timeout, cap, start } => {
                let (input, key) = (self.copy(*input)?, self.exprs(key)?);
                let session = Session::try_new(input, key, *timeout, *cap)?;
                extension(match start {
                    Some((name, time)) => session.with_first_instant(name.clone(), data_type(time)?)?,
                    None => session,
                })
            }
            Node::ChangeLifetimes { input, change } => {
                extension(ChangeLifetimes::try_new(self.copy(*input)?, lifetime_change(change)?)?)
            }
            Node::Clip { left, right, on } => {
                extension(Clip::try_new(self.copy(*left)?, self.copy(*right)?, self.pairs(on)?)?)
            }
            Node::Detect { input, key, pattern, register, settings } => {
                let pattern = pattern.try_map(&mut |expr, _| self.expr(expr))?;
                let register = register.iter().map(|(name, value)| Ok((name.clone(), self.value(value)?)));
                let register = register.collect::<Result<_>>()?;
                let key = self.exprs(key)?;
                extension(Detect::try_new(self.copy(*input)?, key, pattern, register, *settings)?)
            }
            Node::MatchRecognize { input, key, rows } => {
                let rows = rows.try_map(|expr| self.expr(expr))?;
                let rows = rows.try_map_values(|value| self.value(value))?;
                extension(MatchRecognize::try_new(self.copy(*input)?, self.exprs(key)?, rows)?)
            }
            Node::FillGaps { input, key, grid, max_gap, fills } => {
                let fills = fills.iter().map(|fill| self.fill(fill)).collect::<Result<_>>()?;
                let key = self.exprs(key)?;
                extension(FillGaps::try_new(self.copy(*input)?, key, *grid, *max_gap, fills)?)
            }
            Node::Changes { input } => extension(Changes::try_new(self.copy(*input)?)?),
            Node::Accumulate { input } => extension(Accumulate::try_new(self.copy(*input)?)?),
            Node::AllowedLateness { input, time, lateness, retention } => {
                let input = self.copy(*input)?;
                extension(AllowedLateness::try_new(input, time.clone(), *lateness, *retention)?)
            }
            Node::ReKey { input, key } => extension(ReKey::try_new(self.copy(*input)?, self.exprs(key)?)?),
            Node::Require { input, assertion } => {
                let assertion = match assertion {
                    Assertion::Duration(duration) => nodes::Assertion::Duration(*duration),
                    Assertion::Sorted(columns) => nodes::Assertion::Sorted(self.exprs(columns)?),
                    Assertion::DistinctStarts => nodes::Assertion::DistinctStarts,
                };
                extension(Require::try_new(self.copy(*input)?, assertion)?)
            }
            Node::ColocatedRows { input, key } => {
                extension(Colocated::rows(self.copy(*input)?, self.exprs(key)?)?)
            }
            Node::ColocatedMatches { input } => match self.copy(*input)? {
                LogicalPlan::Join(join) => extension(Colocated::matches(join)?),
                other => {
                    return plan_err!("the matches of this plan are those of no join: {}", other.display());
                }
            },
            Node::Combine { input, group, calls } => {
                extension(Combine::try_new(self.copy(*input)?, self.exprs(group)?, self.exprs(calls)?)?)
            }
            Node::Exchange { input, movement, shards, scope, location } => {
                let movement = self.movement(movement)?;
                let shards = shards.map(size).transpose()?;
                let exchange = Exchange::try_new(self.copy(*input)?, movement, shards, *scope)?;
                extension(exchange.at(location.clone()))
            }
            relational => return plan_err!("the bytes of this plan are damaged: {relational:?}"),
        })
    }

    fn join(&mut self, join: &Join) -> Result<logical_plan::Join> {
        let filter = join.filter.as_ref().map(|filter| self.expr(filter)).transpose()?;
        logical_plan::Join::try_new(
            self.input(join.left)?,
            self.input(join.right)?,
            self.pairs(&join.on)?,
            filter,
            join_type(join.kind),
            if join.using { JoinConstraint::Using } else { JoinConstraint::On },
            if join.nulls_equal { NullEquality::NullEqualsNull } else { NullEquality::NullEqualsNothing },
            join.null_aware,
        )
    }

    fn union(&self, inputs: &[StepId]) -> Result<LogicalPlan> {
        let inputs: Vec<_> = inputs.iter().map(|input| self.input(*input)).collect::<Result<_>>()?;
        let Some(first) = inputs.first() else { return plan_err!("a union of this plan has no inputs") };
        let schema = Arc::clone(first.schema());
        Ok(LogicalPlan::Union(Union { inputs, schema }))
    }

    fn rows(&mut self, table: &TableReference, rows: &Rows) -> Result<Arc<dyn TableSource>> {
        Ok(match rows {
            Rows::Source(number) => {
                let Some(source) = self.sources.get(*number as usize) else {
                    return plan_err!("the bytes of this plan are damaged: source {number} is missing");
                };
                Arc::new(PlanSource(Arc::clone(source)))
            }
            Rows::WorkTable(schema) => {
                let schema = Arc::clone(read_schema(schema, &self.names)?.inner());
                provider_as_source(Arc::new(CteWorkTable::new(table.table(), schema)))
            }
        })
    }

    fn movement(&mut self, movement: &Movement) -> Result<nodes::Movement> {
        Ok(match movement {
            Movement::ReDistribute { key } => nodes::Movement::ReDistribute { key: self.exprs(key)? },
            Movement::ReShard => nodes::Movement::ReShard,
            Movement::Runs { key } => nodes::Movement::Runs { key: self.exprs(key)? },
            Movement::Broadcast => nodes::Movement::Broadcast,
            Movement::Multicast { to } => nodes::Movement::Multicast { to: self.expr(to)? },
            Movement::Windows { size, offset } => match *size > 0 {
                true => nodes::Movement::Windows { size: *size, offset: *offset },
                false => return plan_err!("a window of {size} ticks is too short"),
            },
            Movement::Ranges { by, bounds } => {
                let bounds = bounds.iter().map(|bound| self.value(bound)).collect::<Result<_>>()?;
                nodes::Movement::Ranges { by: self.sort_key(by)?, bounds }
            }
            Movement::InOrder => nodes::Movement::InOrder,
        })
    }

    fn input(&self, step: StepId) -> Result<Arc<LogicalPlan>> {
        plan_of(&self.plans, &self.extent, step)
    }

    /// A node of ours has its input by value.
    fn copy(&self, step: StepId) -> Result<LogicalPlan> {
        Ok(self.input(step)?.as_ref().clone())
    }

    fn expr(&mut self, message: &Message) -> Result<Expr> {
        let read_plan = |step| plan_of(&self.plans, &self.extent, step);
        with_room(|| self.expressions.read(message, &self.names, &read_plan))
    }

    fn exprs(&mut self, messages: &[Message]) -> Result<Vec<Expr>> {
        messages.iter().map(|message| self.expr(message)).collect()
    }

    fn fill(&mut self, fill: &Fill) -> Result<nodes::Fill> {
        Ok(match fill {
            Fill::Constant(value) => nodes::Fill::Constant(self.value(value)?),
            Fill::Previous => nodes::Fill::Previous,
            Fill::Linear => nodes::Fill::Linear,
        })
    }

    fn value(&mut self, message: &Message) -> Result<ScalarValue> {
        match self.expr(message)? {
            Expr::Literal(value, _) => Ok(value),
            other => plan_err!("{other} is no value"),
        }
    }

    fn pairs(&mut self, pairs: &[(Message, Message)]) -> Result<Vec<(Expr, Expr)>> {
        pairs.iter().map(|(left, right)| Ok((self.expr(left)?, self.expr(right)?))).collect()
    }

    fn sort_keys(&mut self, keys: &[SortKey]) -> Result<Vec<SortExpr>> {
        keys.iter().map(|key| self.sort_key(key)).collect()
    }

    fn sort_key(&mut self, key: &SortKey) -> Result<SortExpr> {
        Ok(SortExpr::new(self.expr(&key.expr)?, key.asc, key.nulls_first))
    }

    fn column(&mut self, message: &Message) -> Result<Column> {
        match self.expr(message)? {
            Expr::Column(column) => Ok(column),
            other => plan_err!("the bytes of this plan are damaged: {other} is no column"),
        }
    }
}

/// The plan of a step, which the step that is being built reads.
fn plan_of(plans: &[Built], reader: &Cell<Extent>, step: StepId) -> Result<Arc<LogicalPlan>> {
    match plans.get(step as usize) {
        Some(Built { plan, extent }) => {
            let Extent { steps, depth } = reader.get();
            reader.set(Extent { steps: steps.saturating_add(extent.steps), depth: depth.max(extent.depth) });
            Ok(Arc::clone(plan))
        }
        None => plan_err!("the bytes of this plan are damaged: step {step} comes after it is used"),
    }
}

fn check_projection(source: &dyn TableSource, projection: Option<Vec<usize>>) -> Result<Option<Vec<usize>>> {
    let columns = source.schema().fields().len();
    match projection.iter().flatten().find(|column| **column >= columns) {
        Some(column) => plan_err!("the plan reads column {column} of a source that has {columns}"),
        None => Ok(projection),
    }
}

/// A number of rows or shards.
fn size(number: u64) -> Result<usize> {
    usize::try_from(number).map_err(damaged)
}

fn data_type(name: &str) -> Result<DataType> {
    DataType::from_str(name).map_err(|e| plan_datafusion_err!("{e}"))
}

fn lifetime_change(change: &Change) -> Result<LifetimeChange> {
    Ok(match change {
        Change::Chop(beats) => LifetimeChange::Chop(grid(beats)?),
        Change::Clip(limit) => LifetimeChange::Clip(*limit),
        Change::PointAtEnd => LifetimeChange::PointAtEnd,
        Change::Extend(by) => LifetimeChange::Extend(*by),
        Change::Stitch => LifetimeChange::Stitch,
        Change::Quantize(grid) => LifetimeChange::Quantize(*grid),
        Change::Hop(windows) => LifetimeChange::Hop(*windows),
    })
}

fn grid(beats: &Beats) -> Result<Grid> {
    Ok(match beats {
        Beats::Ticks { hop, offset } => Grid::Ticks { hop: *hop, offset: *offset },
        Beats::Calendar { every, offset, time } => {
            Grid::Calendar(Calendar::try_new(*every, *offset, data_type(time)?)?)
        }
    })
}

fn join_type(kind: JoinKind) -> JoinType {
    match kind {
        JoinKind::Inner => JoinType::Inner,
        JoinKind::Left => JoinType::Left,
        JoinKind::Right => JoinType::Right,
        JoinKind::Full => JoinType::Full,
        JoinKind::LeftSemi => JoinType::LeftSemi,
        JoinKind::RightSemi => JoinType::RightSemi,
        JoinKind::LeftAnti => JoinType::LeftAnti,
        JoinKind::RightAnti => JoinType::RightAnti,
        JoinKind::LeftMark => JoinType::LeftMark,
        JoinKind::RightMark => JoinType::RightMark,
    }
}

fn null_handling(nulls: NullRows) -> NullHandling {
    match nulls {
        NullRows::Drop => NullHandling::Drop,
        NullRows::Preserve => NullHandling::Preserve,
        NullRows::PreserveAndExpandEmpty => NullHandling::PreserveAndExpandEmpty,
    }
}

/// Whether two schemas have the same columns, by tables, names, types and metadata.
pub(super) fn same_columns(a: &DFSchema, b: &DFSchema) -> bool {
    a.fields().len() == b.fields().len() && a.iter().eq(b.iter()) && a.metadata() == b.metadata()
}

/// Whether a plan that computes columns of its own can be given these: names, metadata and nullability may
/// differ.
fn can_have(plan: &LogicalPlan, schema: &DFSchema) -> bool {
    match plan {
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Values(values) => values.values.iter().all(|row| row.len() == schema.fields().len()),
        _ => plan.schema().fields().len() == schema.fields().len(),
    }
}

/// Gives a plan these columns, if it is of a kind that has columns of its own.
pub(super) fn set_schema(plan: &mut LogicalPlan, schema: &DFSchemaRef) {
    let place = match plan {
        LogicalPlan::Projection(of) => &mut of.schema,
        LogicalPlan::Window(of) => &mut of.schema,
        LogicalPlan::Aggregate(of) => &mut of.schema,
        LogicalPlan::Join(of) => &mut of.schema,
        LogicalPlan::Union(of) => &mut of.schema,
        LogicalPlan::TableScan(of) => &mut of.projected_schema,
        LogicalPlan::EmptyRelation(of) => &mut of.schema,
        LogicalPlan::SubqueryAlias(of) => &mut of.schema,
        LogicalPlan::Values(of) => &mut of.schema,
        LogicalPlan::Distinct(Distinct::On(of)) => &mut of.schema,
        LogicalPlan::RecursiveQuery(of) => &mut of.schema,
        LogicalPlan::Unnest(of) => &mut of.schema,
        _ => return,
    };
    *place = Arc::clone(schema);
}
