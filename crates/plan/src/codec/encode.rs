//! From a plan to its document.
//!
//! Invariant: each step is built from its document again when it is written, and has to be equal to the step
//! of the plan. So what a document cannot say is refused here, and never changes an answer elsewhere.

use super::decode::{Decoder, same_columns, set_schema};
use super::document::{
    Assertion, Beats, Change, Document, Fill, Join, JoinKind, Message, Movement, Node, NullRows, Rows,
    SortKey, Step, StepId, UnnestDepth,
};
use super::expression::{Expressions, with_calls, write_schema};
use super::names::Names;
use super::references::References;
use crate::calendar::Grid;
use crate::nodes::{self, Colocation, LifetimeChange};
use crate::source::source_of;
use crate::stack::with_room;
use crate::stream::is_work_table;
use datafusion::common::{
    Column, NullEquality, NullHandling, Result, TableReference, plan_datafusion_err, plan_err,
};
use datafusion::logical_expr::{
    Distinct, Expr, JoinConstraint, JoinType, LogicalPlan, SortExpr, TableScan, Unnest, lit, logical_plan,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Writes a plan step by step.
pub(super) struct Encoder {
    references: Arc<dyn References>,
    expressions: Arc<Expressions>,
    names: Names,
    document: Document,
    /// The step of a plan that was written.
    step_of: HashMap<*const LogicalPlan, StepId>,
    /// The steps, by what they say.
    steps: HashMap<Vec<u8>, StepId>,
    /// The source that was written from here.
    source_of: HashMap<*const (), u32>,
    /// Builds each step again, from the inputs and sources that the plan has.
    check: Decoder,
}

impl Encoder {
    pub fn new(references: Arc<dyn References>) -> Encoder {
        let expressions = Arc::new(Expressions::new(Arc::clone(&references)));
        Encoder {
            references,
            check: Decoder::new(Arc::clone(&expressions), Names::default()),
            expressions,
            names: Names::default(),
            document: Document { tables: vec![], sources: vec![], steps: vec![] },
            step_of: HashMap::new(),
            steps: HashMap::new(),
            source_of: HashMap::new(),
        }
    }

    /// The document of a plan.
    ///
    /// # Errors
    /// `Plan` if a part of it cannot be written.
    pub fn document(mut self, plan: &LogicalPlan) -> Result<Document> {
        self.plan(plan)?;
        Ok(Document { tables: self.names.write(), ..self.document })
    }

    /// Writes a plan after its inputs, unless it is written. Equal steps are written once: whether two parts
    /// of a plan are one in memory does not change its bytes.
    fn plan(&mut self, plan: &LogicalPlan) -> Result<StepId> {
        if let Some(step) = self.step_of.get(&std::ptr::from_ref(plan)) {
            return Ok(*step);
        }
        let node = with_room(|| self.node(plan))?;
        let step = self.checked(node, plan)?;
        let bytes = postcard::to_stdvec(&step).map_err(|e| plan_datafusion_err!("{e}"))?;
        let id = match self.steps.get(&bytes) {
            Some(id) => *id,
            None => self.push(step, bytes, plan)?,
        };
        self.step_of.insert(std::ptr::from_ref(plan), id);
        Ok(id)
    }

    /// Adds a step that is not in the document yet.
    fn push(&mut self, step: Step, bytes: Vec<u8>, plan: &LogicalPlan) -> Result<StepId> {
        let id = u32::try_from(self.document.steps.len()).map_err(|e| plan_datafusion_err!("{e}"))?;
        self.document.steps.push(step);
        self.check.push(Arc::new(plan.clone()))?;
        self.steps.insert(bytes, id);
        Ok(id)
    }

    /// The step of a node, if it says the same as the plan.
    fn checked(&mut self, node: Node, plan: &LogicalPlan) -> Result<Step> {
        let mut step = Step { node, schema: None };
        self.check.names = self.names.clone();
        let mut again = self.check.build(&step)?;
        if !same_columns(again.schema(), plan.schema()) {
            step.schema = Some(write_schema(plan.schema(), &mut self.names)?);
            self.check.names = self.names.clone();
            again = self.check.build(&step)?;
        }
        let same = same_columns(again.schema(), plan.schema());
        // Which columns depend on which is found anew.
        set_schema(&mut again, plan.schema());
        if !same || again != *plan {
            return plan_err!("a step of this plan cannot be written: {}", plan.display());
        }
        Ok(step)
    }

    fn node(&mut self, plan: &LogicalPlan) -> Result<Node> {
        Ok(match plan {
            LogicalPlan::Projection(of) => {
                Node::Projection { input: self.plan(&of.input)?, exprs: self.exprs(&of.expr)? }
            }
            LogicalPlan::Filter(of) => {
                Node::Filter { input: self.plan(&of.input)?, predicate: self.expr(&of.predicate)? }
            }
            LogicalPlan::Window(of) => {
                Node::Window { input: self.plan(&of.input)?, exprs: self.exprs(&of.window_expr)? }
            }
            LogicalPlan::Aggregate(of) => Node::Aggregate {
                input: self.plan(&of.input)?,
                group: self.exprs(&of.group_expr)?,
                calls: self.exprs(&of.aggr_expr)?,
            },
            LogicalPlan::Sort(of) => Node::Sort {
                input: self.plan(&of.input)?,
                by: self.sort_keys(&of.expr)?,
                fetch: of.fetch.map(|rows| rows as u64),
            },
            LogicalPlan::Join(of) => Node::Join(self.join(of)?),
            LogicalPlan::Union(of) => {
                Node::Union { inputs: of.inputs.iter().map(|input| self.plan(input)).collect::<Result<_>>()? }
            }
            LogicalPlan::TableScan(of) => self.scan(of)?,
            LogicalPlan::EmptyRelation(of) => Node::EmptyRelation { produce_one_row: of.produce_one_row },
            LogicalPlan::SubqueryAlias(of) => {
                Node::SubqueryAlias { input: self.plan(&of.input)?, alias: self.names.place(&of.alias) }
            }
            LogicalPlan::Limit(of) => Node::Limit {
                input: self.plan(&of.input)?,
                skip: of.skip.as_deref().map(|skip| self.expr(skip)).transpose()?,
                fetch: of.fetch.as_deref().map(|fetch| self.expr(fetch)).transpose()?,
            },
            LogicalPlan::Values(of) => {
                Node::Values { rows: of.values.iter().map(|row| self.exprs(row)).collect::<Result<_>>()? }
            }
            LogicalPlan::Distinct(Distinct::All(input)) => Node::Distinct { input: self.plan(input)? },
            LogicalPlan::Distinct(Distinct::On(of)) => Node::DistinctOn {
                input: self.plan(&of.input)?,
                on: self.exprs(&of.on_expr)?,
                select: self.exprs(&of.select_expr)?,
                sort: of.sort_expr.as_ref().map(|sort| self.sort_keys(sort)).transpose()?,
            },
            LogicalPlan::RecursiveQuery(of) => Node::RecursiveQuery {
                name: self.names.place(&TableReference::bare(of.name.as_str())),
                first: self.plan(&of.static_term)?,
                step: self.plan(&of.recursive_term)?,
                distinct: of.is_distinct,
            },
            LogicalPlan::Unnest(of) => self.unnest(of)?,
            LogicalPlan::Extension(_) => self.extension(plan)?,
            other => return plan_err!("this step cannot be written with a plan: {}", other.display()),
        })
    }

    fn join(&mut self, of: &logical_plan::Join) -> Result<Join> {
        Ok(Join {
            left: self.plan(&of.left)?,
            right: self.plan(&of.right)?,
            on: self.pairs(&of.on)?,
            filter: of.filter.as_ref().map(|filter| self.expr(filter)).transpose()?,
            kind: join_kind(of.join_type),
            using: of.join_constraint == JoinConstraint::Using,
            nulls_equal: of.null_equality == NullEquality::NullEqualsNull,
            null_aware: of.null_aware,
        })
    }

    fn scan(&mut self, scan: &TableScan) -> Result<Node> {
        let rows = match source_of(scan) {
            Some(source) => {
                let place = Arc::as_ptr(&source).cast::<()>();
                Rows::Source(match self.source_of.get(&place) {
                    Some(number) => *number,
                    None => {
                        let number = u32::try_from(self.document.sources.len())
                            .map_err(|e| plan_datafusion_err!("{e}"))?;
                        self.document.sources.push(self.references.write_source(source.as_ref())?);
                        self.check.sources.push(Arc::clone(&source));
                        self.source_of.insert(place, number);
                        number
                    }
                })
            }
            None if is_work_table(scan) => {
                let schema = scan.source.schema().as_ref().clone();
                Rows::WorkTable(write_schema(&schema.try_into()?, &mut self.names)?)
            }
            None => return plan_err!("the table {} cannot be written with a plan", scan.table_name),
        };
        let place = |column: &usize| u32::try_from(*column).map_err(|e| plan_datafusion_err!("{e}"));
        Ok(Node::Scan {
            table: self.names.place(&scan.table_name),
            rows,
            projection: match &scan.projection {
                Some(columns) => Some(columns.iter().map(place).collect::<Result<_>>()?),
                None => None,
            },
            filters: self.exprs(&scan.filters)?,
            fetch: scan.fetch.map(|rows| rows as u64),
        })
    }

    fn unnest(&mut self, of: &Unnest) -> Result<Node> {
        let depths = of.options.recursions.iter().map(|recursion| {
            Ok(UnnestDepth {
                input: self.column(&recursion.input_column)?,
                output: self.column(&recursion.output_column)?,
                depth: u32::try_from(recursion.depth).map_err(|e| plan_datafusion_err!("{e}"))?,
            })
        });
        Ok(Node::Unnest {
            depths: depths.collect::<Result<_>>()?,
            input: self.plan(&of.input)?,
            columns: of.exec_columns.iter().map(|column| self.column(column)).collect::<Result<_>>()?,
            nulls: match of.options.null_handling {
                NullHandling::Drop => NullRows::Drop,
                NullHandling::Preserve => NullRows::Preserve,
                NullHandling::PreserveAndExpandEmpty => NullRows::PreserveAndExpandEmpty,
            },
        })
    }

    fn extension(&mut self, plan: &LogicalPlan) -> Result<Node> {
        let Some(node) = nodes::node(plan) else {
            return plan_err!("this step cannot be written with a plan: {}", plan.display());
        };
        Ok(match node {
            nodes::Node::Ingress(of) => Node::Ingress {
                input: self.plan(&of.input)?,
                time: of.time.clone(),
                options: of.options.clone(),
                partitioning: of.partitioning.clone(),
            },
            nodes::Node::AlterLifetime(of) => Node::AlterLifetime {
                input: self.plan(&of.input)?,
                start: of.start.try_map(|e| self.expr(e))?,
                duration: of.duration.try_map(|e| self.expr(e))?,
                label: of.label.clone(),
            },
            nodes::Node::WithStart(of) => Node::WithStart {
                input: self.plan(&of.input)?,
                name: of.name.clone(),
                time: of.time_type().to_string(),
            },
            nodes::Node::Session(of) => Node::Session {
                input: self.plan(&of.input)?,
                key: self.exprs(&of.key)?,
                timeout: of.timeout,
                cap: of.cap,
                start: of.first_instant().map(|(name, time)| (name, time.to_string())),
            },
            nodes::Node::ChangeLifetimes(of) => {
                Node::ChangeLifetimes { input: self.plan(&of.input)?, change: change(&of.change) }
            }
            nodes::Node::Clip(of) => Node::Clip {
                left: self.plan(&of.left)?,
                right: self.plan(&of.right)?,
                on: self.pairs(&of.on)?,
            },
            nodes::Node::Detect(of) => Node::Detect {
                input: self.plan(&of.input)?,
                key: self.exprs(&of.key)?,
                pattern: of.pattern.try_map(&mut |expr, _| self.expr(expr))?,
                register: of
                    .register
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), self.expr(&lit(value.clone()))?)))
                    .collect::<Result<_>>()?,
                settings: of.settings,
            },
            nodes::Node::MatchRecognize(of) => {
                let input = self.plan(&of.input)?;
                let key = self.exprs(&of.key)?;
                let rows = of.rows.try_map(|expr| self.expr(expr))?;
                let rows = rows.try_map_values(|value| self.expr(&lit(value.clone())))?;
                Node::MatchRecognize { input, key, rows }
            }
            nodes::Node::Process(of) => {
                return plan_err!(
                    "the operator {} is an object of this process: it has no form that can be sent or kept",
                    of.operator.0.name()
                );
            }
            nodes::Node::FillGaps(of) => Node::FillGaps {
                input: self.plan(&of.input)?,
                key: self.exprs(&of.key)?,
                grid: (of.period, of.offset),
                max_gap: of.max_gap,
                fills: of.fills.iter().map(|fill| self.fill(fill)).collect::<Result<_>>()?,
            },
            nodes::Node::Changes(of) => Node::Changes { input: self.plan(&of.input)? },
            nodes::Node::Accumulate(of) => Node::Accumulate { input: self.plan(&of.input)? },
            nodes::Node::AllowedLateness(of) => Node::AllowedLateness {
                input: self.plan(&of.input)?,
                time: of.time.clone(),
                lateness: of.lateness,
                retention: of.retention,
            },
            nodes::Node::ReKey(of) => Node::ReKey { input: self.plan(&of.input)?, key: self.exprs(&of.key)? },
            nodes::Node::Require(of) => {
                let assertion = match &*of.assertion {
                    nodes::Assertion::Duration(duration) => Assertion::Duration(*duration),
                    nodes::Assertion::Sorted(columns) => Assertion::Sorted(self.exprs(columns)?),
                    nodes::Assertion::DistinctStarts => Assertion::DistinctStarts,
                };
                Node::Require { input: self.plan(&of.input)?, assertion }
            }
            nodes::Node::Colocated(of) => {
                let input = self.plan(&of.input)?;
                match &*of.colocation {
                    Colocation::Equal(key) => Node::ColocatedRows { input, key: self.exprs(key)? },
                    Colocation::Matches => Node::ColocatedMatches { input },
                }
            }
            nodes::Node::Combine(of) => Node::Combine {
                input: self.plan(&of.input)?,
                group: self.exprs(&of.group)?,
                calls: self.exprs(&of.calls)?,
            },
            nodes::Node::Exchange(of) => Node::Exchange {
                input: self.plan(&of.input)?,
                movement: self.movement(&of.movement)?,
                shards: of.shards.map(|shards| shards as u64),
                scope: of.scope,
                location: of.location.clone(),
            },
        })
    }

    fn movement(&mut self, of: &nodes::Movement) -> Result<Movement> {
        Ok(match of {
            nodes::Movement::ReDistribute { key } => Movement::ReDistribute { key: self.exprs(key)? },
            nodes::Movement::ReShard => Movement::ReShard,
            nodes::Movement::Runs { key } => Movement::Runs { key: self.exprs(key)? },
            nodes::Movement::Broadcast => Movement::Broadcast,
            nodes::Movement::Multicast { to } => Movement::Multicast { to: self.expr(to)? },
            nodes::Movement::Windows { size, offset } => Movement::Windows { size: *size, offset: *offset },
            nodes::Movement::Ranges { by, bounds } => {
                let bounds = bounds.iter().map(|bound| self.expr(&lit(bound.clone())));
                Movement::Ranges { bounds: bounds.collect::<Result<_>>()?, by: self.sort_key(by)? }
            }
            nodes::Movement::InOrder => Movement::InOrder,
        })
    }

    fn expr(&mut self, expr: &Expr) -> Result<Message> {
        with_room(|| {
            let expr = with_calls(expr.clone(), &mut |plan| self.plan(plan))?;
            self.expressions.write(expr, &mut self.names)
        })
    }

    fn fill(&mut self, fill: &nodes::Fill) -> Result<Fill> {
        Ok(match fill {
            nodes::Fill::Constant(value) => Fill::Constant(self.expr(&lit(value.clone()))?),
            nodes::Fill::Previous => Fill::Previous,
            nodes::Fill::Linear => Fill::Linear,
        })
    }

    fn exprs(&mut self, exprs: &[Expr]) -> Result<Vec<Message>> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn pairs(&mut self, pairs: &[(Expr, Expr)]) -> Result<Vec<(Message, Message)>> {
        pairs.iter().map(|(left, right)| Ok((self.expr(left)?, self.expr(right)?))).collect()
    }

    fn sort_keys(&mut self, keys: &[SortExpr]) -> Result<Vec<SortKey>> {
        keys.iter().map(|key| self.sort_key(key)).collect()
    }

    fn sort_key(&mut self, key: &SortExpr) -> Result<SortKey> {
        Ok(SortKey { expr: self.expr(&key.expr)?, asc: key.asc, nulls_first: key.nulls_first })
    }

    fn column(&mut self, column: &Column) -> Result<Message> {
        self.expr(&Expr::Column(column.clone()))
    }
}

fn join_kind(kind: JoinType) -> JoinKind {
    match kind {
        JoinType::Inner => JoinKind::Inner,
        JoinType::Left => JoinKind::Left,
        JoinType::Right => JoinKind::Right,
        JoinType::Full => JoinKind::Full,
        JoinType::LeftSemi => JoinKind::LeftSemi,
        JoinType::RightSemi => JoinKind::RightSemi,
        JoinType::LeftAnti => JoinKind::LeftAnti,
        JoinType::RightAnti => JoinKind::RightAnti,
        JoinType::LeftMark => JoinKind::LeftMark,
        JoinType::RightMark => JoinKind::RightMark,
    }
}

fn change(change: &LifetimeChange) -> Change {
    match change {
        LifetimeChange::Chop(grid) => Change::Chop(beats(grid)),
        LifetimeChange::Clip(limit) => Change::Clip(*limit),
        LifetimeChange::PointAtEnd => Change::PointAtEnd,
        LifetimeChange::Extend(by) => Change::Extend(*by),
        LifetimeChange::Stitch => Change::Stitch,
        LifetimeChange::Quantize(grid) => Change::Quantize(*grid),
        LifetimeChange::Hop(windows) => Change::Hop(*windows),
    }
}

fn beats(grid: &Grid) -> Beats {
    match grid {
        Grid::Ticks { hop, offset } => Beats::Ticks { hop: *hop, offset: *offset },
        Grid::Calendar(calendar) => Beats::Calendar {
            every: calendar.every(),
            offset: calendar.offset(),
            time: calendar.time().to_string(),
        },
    }
}
