//! Queries that exist twice: as a graph of the engine's operators, and as the oracle's.

use crate::calls::Call;
use crate::detection::{Detection, matched_columns};
use crate::formula::Formula;
use crate::generate::{BATCH_SIZES, Dice, Stream, interleave, schema};
use crate::model::{Decoder, Event, Row, Value, assert_same, contents, record_batch};
use crate::oracle::{self, Events, GapFill, Gaps, Nulls};
use crate::process;
use crate::recognition::Recognition;
use arrow::array::{Int64Array, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator as Op;
use datafusion::physical_expr::PhysicalSortExpr;
use std::convert::Infallible;
use std::sync::Arc;
use whimbrel_temporal::operators::{
    Aggregate, AggregateCall, AlterLifetime, Changes, Chop, Clip, ClipConstant, Coalesce, CoalesceOrder,
    Exists, ExtendLifetime, Fill, FillGaps, Hopping, Join, Lookup, MergeJoin, OrElse, PointAtEnd, Quantize,
    RecomputeGroups, Select, Session, SessionAggregate, SessionCap, Stitch, TableSide, TopK, Union, Unnest,
    Where, WithStart,
};
use whimbrel_temporal::{
    BEGINNING, Closed, DurationRule, Graph, Lifetimes, Message, NodeActivity, NodeId, Operator, StartRule,
    Time,
};

/// The lifetimes that an aggregate is given, and told that it is given.
#[derive(Debug, Clone, Copy)]
pub enum Variant {
    Points,
    Tumbling(i64),
    Hopping { size: i64, hop: i64, offset: i64, closed: Closed },
    Sliding(i64),
    Intervals,
    StartEdges,
    Any,
}

#[derive(Debug, Clone)]
pub enum Step {
    Where(Formula),
    Select(Vec<Formula>),
    WithStart,
    Unnest(usize),
    Alter(StartRule<Formula>, DurationRule<Formula>),
    /// Key, timeout and cap.
    Session(Vec<usize>, i64, Option<SessionCap>),
    SessionWindows(Vec<usize>, i64, Option<SessionCap>),
    SessionAggregate((Vec<usize>, i64, Option<SessionCap>), Vec<Call>),
    Chop(i64, i64),
    ClipConstant(i64),
    PointAtEnd,
    /// The operator of `process`, over rows whose last column is their start.
    Process,
    Extend(i64),
    Stitch,
    /// Size, period and offset; progress.
    Quantize((i64, i64, i64), Option<i64>),
    /// Size, hop and offset.
    Hopping((i64, i64, i64), Closed),
    /// With a maximum, without which what comes out depends on how far time comes.
    FillGaps(Gaps),
    Aggregate {
        key: Vec<usize>,
        calls: Vec<Call>,
        variant: Variant,
    },
    Distinct(Variant),
    Coalesce,
    OrElse(Row),
    TopK {
        column: usize,
        descending: bool,
        skip: usize,
        fetch: usize,
    },
    Changes,
    Numbered {
        key: Vec<usize>,
        column: usize,
        /// Whether rows that are alive together start and end together.
        is_tiled: bool,
    },
    Detect(Detection),
    Recognize(Recognition),
}

#[derive(Debug, Clone)]
pub enum Pair {
    Union,
    Join(Vec<usize>, Vec<usize>),
    Exists {
        negate: bool,
        keys: (Vec<usize>, Vec<usize>),
    },
    Clip(Vec<usize>, Vec<usize>),
    /// The same joins where a null equals a null.
    JoinNulls(Vec<usize>, Vec<usize>),
    ExistsNulls {
        negate: bool,
        keys: (Vec<usize>, Vec<usize>),
    },
    /// A join of streams without end edges, each sorted by its key.
    MergeJoin {
        keys: (Vec<usize>, Vec<usize>),
        nulls_equal: bool,
    },
    /// The same joins with a table at rest.
    Lookup {
        keys: (Vec<usize>, Vec<usize>),
        table: TableSide,
        nulls_equal: bool,
    },
    LookupExists {
        negate: bool,
        keys: (Vec<usize>, Vec<usize>),
        nulls_equal: bool,
    },
}

#[derive(Debug, Clone)]
pub enum Plan {
    Input(usize),
    Unary(Step, Box<Plan>),
    Binary(Pair, Box<Plan>, Box<Plan>),
}

impl Variant {
    fn rules(self) -> (StartRule<Formula>, DurationRule<Formula>) {
        let start = Formula::column(0);
        match self {
            Variant::Points => (StartRule::Keep, DurationRule::Constant(1)),
            Variant::Tumbling(size) => {
                (StartRule::Snap { hop: size, offset: 0, closed: Closed::Left }, DurationRule::Constant(size))
            }
            Variant::Hopping { size, hop, offset, closed } => {
                (StartRule::Snap { hop, offset, closed }, DurationRule::Constant(size))
            }
            Variant::Sliding(size) => (StartRule::Keep, DurationRule::Constant(size)),
            Variant::Intervals => {
                let duration = start.binary(Op::Modulo, Formula::Int(4)).binary(Op::Plus, Formula::Int(5));
                (StartRule::Keep, DurationRule::ByStart(duration))
            }
            Variant::StartEdges => (StartRule::Keep, DurationRule::Infinite),
            Variant::Any => (StartRule::Keep, DurationRule::Keep),
        }
    }

    fn lifetimes(self) -> Lifetimes {
        match self {
            Variant::Points => Lifetimes::Points,
            Variant::Tumbling(size) => Lifetimes::Hop { size, hop: size, offset: 0 },
            Variant::Hopping { size, hop, offset, .. } => Lifetimes::Hop { size, hop, offset },
            Variant::Sliding(size) => Lifetimes::Constant(size),
            Variant::Intervals => Lifetimes::Intervals,
            Variant::StartEdges => Lifetimes::StartEdges,
            Variant::Any => Lifetimes::Any,
        }
    }
}

fn times() -> SchemaRef {
    let time = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![time("start"), time("end")]))
}

fn alter(start: &StartRule<Formula>, duration: &DurationRule<Formula>) -> AlterLifetime {
    let physical = |f: &Formula| Ok::<_, Infallible>(f.physical(&times()));
    let (Ok(start), Ok(duration)) = (start.try_map(physical), duration.try_map(physical));
    AlterLifetime::new(start, duration)
}

fn with_field(schema: &SchemaRef, name: &str) -> SchemaRef {
    let mut fields = schema.fields().to_vec();
    fields.push(Arc::new(Field::new(name, DataType::Int64, true)));
    Arc::new(Schema::new(fields))
}

fn unnested(schema: &SchemaRef, column: usize) -> SchemaRef {
    let mut fields = schema.fields().to_vec();
    fields[column] = Arc::new(Field::new(schema.field(column).name(), DataType::Int64, true));
    Arc::new(Schema::new(fields))
}

pub fn aggregate_calls(calls: &[Call], input: &SchemaRef) -> Vec<AggregateCall> {
    let physical = |f: &Option<Formula>| f.as_ref().map(|f| f.physical(input));
    let call = |(i, c): (usize, &Call)| AggregateCall {
        function: c.function.clone(),
        argument: physical(&c.argument),
        filter: physical(&c.filter),
        name: format!("call {i}"),
    };
    calls.iter().enumerate().map(call).collect()
}

fn fill_gaps(gaps: &Gaps, input: &SchemaRef) -> FillGaps {
    let constant = |value: &Value| match value {
        Value::Int(i) => ScalarValue::Int64(Some(*i)),
        Value::Float(f) => ScalarValue::Float64(Some(*f)),
        Value::Text(text) => ScalarValue::from(text.as_str()),
        _ => ScalarValue::Null,
    };
    let fill = |fill: &GapFill| match fill {
        GapFill::Constant(value) => Fill::Constant(constant(value)),
        GapFill::Previous => Fill::Previous,
        GapFill::Linear => Fill::Linear,
    };
    let fills = gaps.fills.iter().enumerate().filter(|(column, _)| !gaps.key.contains(column));
    let fills = fills.map(|(_, f)| fill(f)).collect();
    FillGaps::new(input.clone(), gaps.key.clone(), fills, (gaps.period, gaps.offset), gaps.max_gap)
        .expect("fills for these columns")
}

impl Step {
    fn wire(&self, graph: &mut Graph, (node, input): (NodeId, SchemaRef)) -> (NodeId, SchemaRef) {
        if let Step::Aggregate { variant, .. } | Step::Distinct(variant) = self {
            let (start, duration) = variant.rules();
            let windows = graph.add(Box::new(alter(&start, &duration)), &[node]);
            let aggregate = match self {
                Step::Aggregate { key, calls, .. } => Aggregate::new(
                    input.clone(),
                    key.clone(),
                    aggregate_calls(calls, &input),
                    variant.lifetimes(),
                ),
                _ => Aggregate::distinct(input, variant.lifetimes()),
            };
            let aggregate = aggregate.expect("aggregates of these types");
            let output = aggregate.schema().clone();
            return (graph.add(Box::new(aggregate), &[windows]), output);
        }
        let (operator, output) = self.operator(input);
        (graph.add(operator, &[node]), output)
    }

    fn operator(&self, input: SchemaRef) -> (Box<dyn Operator>, SchemaRef) {
        match self {
            Step::Where(condition) => (Box::new(Where::new(condition.physical(&input))), input),
            Step::Select(formulas) => {
                let exprs = formulas.iter().map(|f| f.physical(&input)).collect();
                (Box::new(Select::new(exprs, schema())), schema())
            }
            Step::WithStart => {
                let output = with_field(&input, "start");
                (Box::new(WithStart::new(output.clone())), output)
            }
            Step::Unnest(column) => {
                let output = unnested(&input, *column);
                (Box::new(Unnest::new(*column, output.clone())), output)
            }
            Step::Alter(start, duration) => (Box::new(alter(start, duration)), input),
            Step::Session(key, timeout, cap) => (Box::new(Session::new(key.clone(), *timeout, *cap)), input),
            Step::SessionWindows(key, timeout, cap) => {
                let output = with_field(&input, "first");
                let session = Session::new(key.clone(), *timeout, *cap);
                (Box::new(session.windows(output.clone())), output)
            }
            Step::SessionAggregate(sessions, calls) => {
                let calls = aggregate_calls(calls, &input);
                let aggregate = SessionAggregate::new(input, sessions.clone(), &DataType::Int64, calls);
                let aggregate = aggregate.expect("aggregates of these types");
                let output = aggregate.schema().clone();
                (Box::new(aggregate), output)
            }
            Step::Chop(period, offset) => (Box::new(Chop::new(*period, *offset)), input),
            Step::ClipConstant(limit) => (Box::new(ClipConstant::new(*limit)), input),
            Step::PointAtEnd => (Box::new(PointAtEnd::new()), input),
            Step::Process => {
                let operator = process::operator(&input);
                let output = operator.schema().clone();
                (Box::new(operator), output)
            }
            Step::Extend(by) => (Box::new(ExtendLifetime::new(*by)), input),
            Step::Stitch => (Box::new(Stitch::new(input.clone())), input),
            Step::Quantize((size, period, offset), progress) => {
                (Box::new(Quantize::new(*size, *period, *offset, *progress).expect("a grid")), input)
            }
            Step::Hopping((size, hop, offset), closed) => {
                (Box::new(Hopping::new(*size, *hop, *offset, *closed).expect("windows")), input)
            }
            Step::FillGaps(gaps) => (Box::new(fill_gaps(gaps, &input)), input),
            Step::Coalesce => (Box::new(Coalesce::new(CoalesceOrder::Start)), input),
            Step::OrElse(row) => {
                let row = record_batch(&[row], &input);
                (Box::new(OrElse::new(row).expect("one row")), input)
            }
            Step::TopK { column, descending, skip, fetch } => {
                let options = SortOptions { descending: *descending, nulls_first: !*descending };
                let by = PhysicalSortExpr { expr: Formula::column(*column).physical(&input), options };
                (Box::new(TopK::new(vec![by], *skip, *fetch)), input)
            }
            Step::Numbered { key, column, is_tiled } => {
                let output = with_field(&input, "number");
                let by = PhysicalSortExpr {
                    expr: Formula::column(*column).physical(&input),
                    options: SortOptions::default(),
                };
                let columns = output.clone();
                let number = Box::new(move |rows: &RecordBatch| {
                    let mut all = rows.columns().to_vec();
                    all.push(Arc::new(Int64Array::from_iter_values(0..rows.num_rows() as i64)));
                    Ok(RecordBatch::try_new(columns.clone(), all)?)
                });
                let numbered = RecomputeGroups::new(input, key.clone(), vec![by], output.clone(), number);
                (Box::new(if *is_tiled { numbered.tiled() } else { numbered }), output)
            }
            Step::Detect(detection) => {
                let operator = detection.operator(&input);
                (Box::new(operator), matched_columns(&detection.key, &input))
            }
            Step::Recognize(recognition) => {
                let operator = recognition.operator(&input);
                let output = operator.schema().clone();
                (Box::new(operator), output)
            }
            Step::Changes => {
                let change = Arc::new(Field::new("change", DataType::Int64, false));
                let fields: Vec<_> = [change].into_iter().chain(input.fields().iter().cloned()).collect();
                let output = Arc::new(Schema::new(fields));
                (Box::new(Changes::new(output.clone())), output)
            }
            Step::Aggregate { .. } | Step::Distinct(_) => unreachable!("wired together with their windows"),
        }
    }

    fn oracle(&self, events: Events) -> Events {
        match self {
            Step::Where(condition) => oracle::where_(events, condition),
            Step::Select(formulas) => oracle::select(events, formulas),
            Step::WithStart => oracle::with_start(events),
            Step::Unnest(column) => oracle::unnest(events, *column),
            Step::Alter(start, duration) => oracle::alter(events, start, duration),
            Step::Session(key, timeout, cap) => oracle::session(events, key, *timeout, *cap),
            Step::SessionWindows(key, timeout, cap) => oracle::session_windows(events, key, *timeout, *cap),
            Step::SessionAggregate((key, timeout, cap), calls) => {
                let windows = oracle::session_windows(events, key, *timeout, *cap);
                oracle::session_aggregate(windows, key, calls)
            }
            Step::Chop(period, offset) => oracle::chop(events, *period, *offset),
            Step::ClipConstant(limit) => oracle::clip_constant(events, *limit),
            Step::PointAtEnd => oracle::point_at_end(events),
            Step::Process => process::expected(&events),
            Step::Extend(by) => oracle::extend(events, *by),
            Step::Stitch => oracle::stitch(&events),
            Step::Quantize(grid, progress) => oracle::quantize(events, *grid, *progress),
            Step::Hopping(windows, closed) => oracle::hopping(events, *windows, *closed),
            Step::FillGaps(gaps) => oracle::fill_gaps(&events, gaps, BEGINNING),
            Step::Coalesce => events,
            Step::OrElse(row) => oracle::or_else(&events, row),
            Step::TopK { column, descending, skip, fetch } => {
                oracle::top_k(&events, *column, *descending, *skip, *fetch)
            }
            Step::Detect(detection) => detection.oracle(&events),
            Step::Recognize(recognition) => recognition.oracle(&events),
            Step::Changes => oracle::changes(&events),
            Step::Numbered { key, column, .. } => oracle::numbered(&events, key, *column),
            Step::Aggregate { key, calls, variant } => {
                let (start, duration) = variant.rules();
                oracle::aggregate(&oracle::alter(events, &start, &duration), key, calls)
            }
            Step::Distinct(variant) => {
                let (start, duration) = variant.rules();
                oracle::distinct(&oracle::alter(events, &start, &duration))
            }
        }
    }
}

/// What nulls in keys equal.
fn nulls(equal: bool) -> Nulls {
    if equal { Nulls::EqualNulls } else { Nulls::EqualNothing }
}

impl Pair {
    fn operator(&self, left: SchemaRef, right: SchemaRef) -> (Box<dyn Operator>, SchemaRef) {
        match self {
            Pair::Union => (Box::new(Union::new(2)), left),
            Pair::Join(l, r) => {
                let join = Join::new(left, right, l.clone(), r.clone());
                let output = join.schema().clone();
                (Box::new(join), output)
            }
            Pair::Exists { negate, keys: (l, r) } => {
                (Box::new(Exists::new(*negate, l.clone(), r.clone())), left)
            }
            Pair::Clip(l, r) => (Box::new(Clip::new(l.clone(), r.clone())), left),
            Pair::JoinNulls(l, r) => {
                let join = Join::new(left, right, l.clone(), r.clone()).nulls_equal();
                let output = join.schema().clone();
                (Box::new(join), output)
            }
            Pair::MergeJoin { keys: (l, r), nulls_equal } => {
                let join = MergeJoin::new(left, right, l.clone(), r.clone(), *nulls_equal);
                let output = join.schema().clone();
                (Box::new(join), output)
            }
            Pair::ExistsNulls { negate, keys: (l, r) } => {
                (Box::new(Exists::new(*negate, l.clone(), r.clone()).nulls_equal()), left)
            }
            Pair::Lookup { keys: (l, r), table, nulls_equal } => {
                let fields: Vec<_> = left.fields().iter().chain(right.fields()).cloned().collect();
                let lookup = Lookup::pairs(&left, &right, l.clone(), r.clone(), *table);
                let lookup = if *nulls_equal { lookup.nulls_equal() } else { lookup };
                (Box::new(lookup), Arc::new(Schema::new(fields)))
            }
            Pair::LookupExists { negate, keys: (l, r), nulls_equal } => {
                let lookup = Lookup::exists(*negate, l.clone(), r.clone());
                (Box::new(if *nulls_equal { lookup.nulls_equal() } else { lookup }), left)
            }
        }
    }

    fn oracle(&self, left: Events, right: Events) -> Events {
        match self {
            Pair::Union => oracle::union(left, &right),
            Pair::Join(l, r) => oracle::join(&left, &right, l, r, Nulls::EqualNothing),
            Pair::Exists { negate, keys: (l, r) } => {
                oracle::exists(&left, &right, *negate, l, r, Nulls::EqualNothing)
            }
            Pair::JoinNulls(l, r) => oracle::join(&left, &right, l, r, Nulls::EqualNulls),
            Pair::ExistsNulls { negate, keys: (l, r) } => {
                oracle::exists(&left, &right, *negate, l, r, Nulls::EqualNulls)
            }
            Pair::MergeJoin { keys: (l, r), nulls_equal }
            | Pair::Lookup { keys: (l, r), nulls_equal, .. } => {
                oracle::join(&left, &right, l, r, nulls(*nulls_equal))
            }
            Pair::LookupExists { negate, keys: (l, r), nulls_equal } => {
                oracle::exists(&left, &right, *negate, l, r, nulls(*nulls_equal))
            }
            Pair::Clip(l, r) => oracle::clip(left, &right, l, r),
        }
    }
}

impl Plan {
    pub fn of(step: Step) -> Plan {
        Plan::Input(0).then(step)
    }

    pub fn then(self, step: Step) -> Plan {
        Plan::Unary(step, Box::new(self))
    }

    pub fn with(self, pair: Pair, right: Plan) -> Plan {
        Plan::Binary(pair, Box::new(self), Box::new(right))
    }

    /// A graph of this plan.
    pub fn graph(&self, inputs: &[SchemaRef]) -> Graph {
        let mut graph = Graph::new();
        let inputs: Vec<_> = inputs.iter().map(|schema| (graph.input(), schema.clone())).collect();
        let (node, _) = self.wire(&mut graph, &inputs);
        graph.output(node);
        graph
    }

    fn wire(&self, graph: &mut Graph, inputs: &[(NodeId, SchemaRef)]) -> (NodeId, SchemaRef) {
        match self {
            Plan::Input(input) => inputs[*input].clone(),
            Plan::Unary(step, child) => {
                let child = child.wire(graph, inputs);
                step.wire(graph, child)
            }
            Plan::Binary(pair, left, right) => {
                let ((left, l), (right, r)) = (left.wire(graph, inputs), right.wire(graph, inputs));
                let (operator, output) = pair.operator(l, r);
                (graph.add(operator, &[left, right]), output)
            }
        }
    }

    /// What it should give; none if a result is too large to be worth while.
    pub fn oracle(&self, inputs: &[Events]) -> Option<Events> {
        let events = match self {
            Plan::Input(input) => inputs[*input].clone(),
            Plan::Unary(step, child) => step.oracle(child.oracle(inputs)?),
            Plan::Binary(pair, left, right) => pair.oracle(left.oracle(inputs)?, right.oracle(inputs)?),
        };
        (events.len() < 1500).then_some(events)
    }
}

/// Holds the plan against the oracle at every batch size, and against itself from a checkpoint on.
pub fn check(plan: &Plan, streams: &[Stream], dice: &Dice) {
    let inputs: Vec<Events> = streams.iter().map(|s| s.events.clone()).collect();
    let Some(expected) = plan.oracle(&inputs) else { return };
    let mut dice = dice.clone();
    for size in BATCH_SIZES {
        let messages = streams.iter().map(|s| s.messages(size, &mut dice)).collect();
        let messages = interleave(messages, &mut dice);
        let found = run(plan, streams, messages, &mut dice);
        assert_same(&expected, &found, &format!("in batches of {size}"));
    }
}

/// What a plan gives over a stream in batches of this size.
pub fn answer(plan: &Plan, stream: &Stream, size: usize, dice: &mut Dice) -> Vec<Event> {
    let messages = stream.messages(size, dice).into_iter().map(|message| (0, message)).collect();
    run(plan, std::slice::from_ref(stream), messages, dice)
}

/// Runs a plan, and from a random message on also a second graph that starts from a checkpoint.
fn run(plan: &Plan, streams: &[Stream], messages: Vec<(usize, Message)>, dice: &mut Dice) -> Vec<Event> {
    let schemas: Vec<SchemaRef> = streams.iter().map(|s| s.schema.clone()).collect();
    let mut graph = plan.graph(&schemas);
    let mut restored: Option<Graph> = None;
    let checkpoint = dice.below(messages.len() + 1);
    let mut decoder = Decoder::default();
    for (at, (input, message)) in messages.into_iter().enumerate() {
        if at == checkpoint {
            let state = graph.save().expect("a checkpoint");
            let mut fresh = plan.graph(&schemas);
            fresh.restore(&state).expect("restores");
            assert_eq!(held(&fresh), held(&graph), "as a checkpoint before message {checkpoint} has it");
            restored = Some(fresh);
        }
        let mut out = Vec::new();
        graph.push(input, message.clone(), &mut out).expect("computes");
        if let Some(restored) = &mut restored {
            let mut again = Vec::new();
            restored.push(input, message, &mut again).expect("computes after a restore");
            assert_eq!(contents(&out), contents(&again), "from a checkpoint before message {checkpoint} on");
        }
        out.iter().for_each(|(_, message)| decoder.push(message));
    }
    if let Some(restored) = &restored {
        assert_eq!(held(restored), held(&graph), "from a checkpoint before message {checkpoint} to the end");
    }
    decoder.finish()
}

/// How many rows each operator keeps, and since when.
fn held(graph: &Graph) -> Vec<(&'static str, usize, Option<Time>)> {
    let of = |node: NodeActivity| {
        let held = node.progress().held;
        assert!(held.rows == 0 || held.bytes > 0, "{}: {held:?}", node.name);
        (node.name, held.rows, held.oldest)
    };
    graph.activity().into_iter().map(of).collect()
}
