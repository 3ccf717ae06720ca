//! From a query to the programs of its channels.
//!
//! Invariant: a program depends on the query, its stage and its number only, so another process makes the
//! same program. Its description proves that: it names the channel, where each lane comes from, and what
//! every node computes. The size of batches is not in it: that changes no answer.

use super::memory::ChannelMemory;
use super::partitioned::{PartitionedInput, PartitionedProgram};
use super::tape::RecordedProgram;
use super::{ChannelId, ChannelProgram, InputAdapter, RelationalProgram, TapeRecorder, TemporalProgram};
use crate::dataset::dataset;
use crate::exchange::Reach;
use crate::lower::{Fragment, graph};
use crate::merge::Gather;
use crate::metrics::EdgeMetrics;
use crate::options::{Memory, Options, Output, ResultShards};
use crate::stage::{
    Input, Kind, Operand, Origin, Stage, StageGraph, colocate_live_sources, cut, partition_by_time, prune,
    push_down_aggregates, sort_in_one_shard, without_requirements,
};
use datafusion::common::{DFSchema, Result, internal_err, plan_err};
use std::collections::HashMap;
use std::sync::Arc;
use whimbrel_plan::nodes::Ingress;
use whimbrel_plan::{Stream, has_long_conditions, with_room, with_room_if};
use whimbrel_temporal::operators::CoalesceOrder;
use whimbrel_temporal::{IngressOptions, Lifetimes, Sortedness, TimeColumns};

/// A query that is cut into stages and lowered; makes the programs of its channels.
///
/// A runtime asks for a program for each channel of each stage, and carries messages between their lanes.
/// This is the place to start for a runtime of one's own:
///
/// ```
/// use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use std::sync::Arc;
/// use whimbrel_plan::Stream;
/// use whimbrel_sharded::Options;
/// use whimbrel_sharded::dataset::MemoryDataset;
/// use whimbrel_sharded::program::{Programs, Step};
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
/// let rows = RecordBatch::try_from_iter([("n", column)])?;
/// let dataset = MemoryDataset::new(rows.schema(), vec![vec![rows.clone()]])?;
/// let query = Stream::scan("numbers", Arc::new(dataset))?;
///
/// let programs = Programs::new(&query, &Options::default())?;
/// let mut channel = programs.channel(0, 0)?;
/// let mut out = Vec::new();
/// assert_eq!(channel.step(&mut out)?, Step::Needs(0));
/// channel.push(0, whimbrel_sharded::relation::always(rows))?;
/// channel.end(0)?;
/// while channel.step(&mut out)? != Step::Ended {}
/// assert_eq!(out.len(), 1);
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
pub struct Programs {
    stages: StageGraph,
    /// The plans of relational stages, optimized once for all channels.
    fragments: Vec<Option<Fragment>>,
    batch_rows: usize,
    memory: ChannelMemory,
    /// Whether the query reads live sources, so that it does not end by itself.
    live: bool,
    /// The order in which edges of the result become intervals, if they do.
    coalesce: Option<CoalesceOrder>,
    /// What moves into each input of each stage, if that is measured.
    edges: HashMap<(usize, usize), Arc<EdgeMetrics>>,
    /// Keeps the tapes of the channels, if they are recorded.
    recorder: Option<Arc<TapeRecorder>>,
}

impl Programs {
    /// The programs of a query; the result has the form that the options ask for.
    ///
    /// # Errors
    /// `Plan` if the query cannot be cut into stages.
    pub fn new(stream: &Stream, options: &Options) -> Result<Programs> {
        Programs::of(stream, options, CoalesceOrder::End)
    }

    /// The programs of a query. `live_order` is the order in which the intervals of a live query come out.
    ///
    /// # Errors
    /// `Plan` if the query cannot be cut into stages.
    pub(crate) fn of(stream: &Stream, options: &Options, live_order: CoalesceOrder) -> Result<Programs> {
        with_room(|| Programs::lower(stream, options, live_order))
    }

    /// Rewrites, cuts and lowers a query.
    fn lower(stream: &Stream, options: &Options, live_order: CoalesceOrder) -> Result<Programs> {
        let plan = without_requirements(stream.plan().clone())?;
        let plan = match options.memory {
            Memory::Query(_) => sort_in_one_shard(plan)?,
            Memory::Unlimited | Memory::Channel(_) => plan,
        };
        let plan = colocate_live_sources(plan)?;
        let pruned = prune(&plan)?;
        let moved = match options.shards {
            ResultShards::Merged => partition_by_time(pruned, options.batch_rows, options.cores())?,
            ResultShards::Kept => pruned,
        };
        let stages = cut(&push_down_aggregates(moved)?)?;
        let properties = stream.properties();
        let coalesces = properties.time.is_some()
            && options.output == Output::Intervals
            && properties.lifetimes == Lifetimes::Any;
        let order = if properties.bounded { CoalesceOrder::Start } else { live_order };
        let coalesce = coalesces.then_some(order);
        let memory = ChannelMemory::new(options.memory)?;
        let fragments = fragments(&stages)?;
        let (batch_rows, live) = (options.batch_rows, !properties.bounded);
        let edges = HashMap::new();
        Ok(Programs { stages, fragments, batch_rows, memory, live, coalesce, edges, recorder: None })
    }

    /// The same programs, which measure what they do.
    ///
    /// # Errors
    /// `Plan` if the query cannot be cut into stages.
    pub(crate) fn instrumented(stream: &Stream, options: &Options) -> Result<Programs> {
        let mut programs = Programs::new(stream, options)?;
        let fragments = programs.fragments.into_iter().map(|f| f.map(Fragment::instrumented).transpose());
        programs.fragments = fragments.collect::<Result<_>>()?;
        for (number, stage) in programs.stages.stages.iter().enumerate() {
            programs.edges.extend((0..stage.inputs.len()).map(|input| ((number, input), Arc::default())));
        }
        Ok(programs)
    }

    /// The same programs, whose tapes are kept.
    pub(crate) fn recorded(self, recorder: &Arc<TapeRecorder>) -> Programs {
        Programs { recorder: Some(Arc::clone(recorder)), ..self }
    }

    /// Checks that a channel of a stage can be replayed from its tape.
    ///
    /// # Errors
    /// `Plan` if an operator or a function depends on more than what the channel is given.
    pub fn check_replayable(&self, stage: usize) -> Result<()> {
        let Some(fragment) = &self.fragments[stage] else { return Ok(()) };
        with_room(|| {
            RelationalProgram::check_replayable(
                fragment,
                fragment.session(),
                self.memory.of_channel()?.as_ref(),
            )
        })
    }

    /// The plan of a stage, if it is relational.
    pub(crate) fn fragment(&self, stage: usize) -> Option<&Fragment> {
        self.fragments[stage].as_ref()
    }

    /// What moves into an input of a stage, if that is measured.
    pub(crate) fn edge_metrics(&self, stage: usize, input: usize) -> Option<&Arc<EdgeMetrics>> {
        self.edges.get(&(stage, input))
    }

    /// The stages of the query.
    pub fn stages(&self) -> &StageGraph {
        &self.stages
    }

    /// A new program for a channel of a stage. Its lanes are those of the stage's inputs, input after input:
    /// one for a source, and one for each producer that an exchange can bring rows from.
    ///
    /// # Errors
    /// `Plan` if a node has no meaning where it stands.
    pub fn channel(&self, stage: usize, index: usize) -> Result<Box<dyn ChannelProgram>> {
        let program = self.unrecorded_channel(stage, index)?;
        let channel = ChannelId { stage, channel: index };
        Ok(match &self.recorder {
            Some(recorder) => Box::new(RecordedProgram { program, channel, recorder: Arc::clone(recorder) }),
            None => program,
        })
    }

    /// The same without a tape: what is played from one is not recorded.
    ///
    /// # Errors
    /// As [`channel`](Programs::channel).
    pub(crate) fn unrecorded_channel(&self, stage: usize, index: usize) -> Result<Box<dyn ChannelProgram>> {
        let inputs = &self.stages.stages[stage].inputs;
        let lanes: Vec<usize> = inputs.iter().map(|input| self.lanes(stage, input, index)).collect();
        if let Some(fragment) = &self.fragments[stage] {
            let outputs = self.stages.stages[stage].outputs.len();
            let memory = self.memory.of_channel()?;
            let program = with_room_if(has_long_conditions(&fragment.plan), || {
                RelationalProgram::new(fragment, fragment.session(), memory, &lanes, outputs)
            });
            return Ok(Box::new(program?));
        }
        let description = self.describe(stage, index, &lanes);
        if is_partitioned(&self.stages.stages[stage]) {
            return Ok(Box::new(self.partitioned_channel(stage, &lanes, description)?));
        }
        let adapter = |(input, &lanes): (&Input, &usize)| Ok((self.adapter(input, lanes, index)?, lanes));
        let adapters = inputs.iter().zip(&lanes).map(adapter).collect::<Result<_>>()?;
        let graph = graph(&self.stages.stages[stage], self.coalesced(stage))?;
        // The readers of an exchange, or of a live result, wait for punctuations.
        let announce = self.live || self.stages.edges_out(stage) > 0;
        Ok(Box::new(TemporalProgram::new(adapters, graph, announce, description)))
    }

    /// The program of a channel whose streams have a clock for each partition.
    fn partitioned_channel(
        &self,
        number: usize,
        lanes: &[usize],
        description: String,
    ) -> Result<PartitionedProgram> {
        let stage = Arc::clone(&self.stages.stages[number]);
        let inputs = stage.inputs.iter().zip(lanes).map(|(input, &lanes)| partitioned_input(input, lanes));
        let inputs: Vec<PartitionedInput> = inputs.collect::<Result<_>>()?;
        let types = match (stage.inputs.first(), inputs.first()) {
            (Some(input), Some(first)) => {
                first.partition.iter().map(|column| input.schema.field(*column).data_type().clone()).collect()
            }
            _ => vec![],
        };
        let is_ordered: Vec<bool> = stage.outputs.iter().map(|output| !output.readers.is_empty()).collect();
        let (coalesced, batch_rows) = (self.coalesced(number), self.batch_rows);
        let make = move || {
            let events = |input: &Input| match &input.ingress {
                Some(ingress) => events(ingress, input, batch_rows),
                None => internal_err!("an input of partitions without an ingress"),
            };
            let ingresses = stage.inputs.iter().map(events).collect::<Result<_>>()?;
            Ok((ingresses, graph(&stage, coalesced)?))
        };
        PartitionedProgram::new(inputs, &types, Box::new(make), &is_ordered, self.live, description)
    }

    /// Which channels are connected by an input of a stage.
    pub fn reach(&self, stage: usize, input: &Input) -> Reach {
        let channels = self.stages.stages[stage].channels;
        match &input.origin {
            Origin::Scan(_) => Reach::of(None, channels, channels, 1),
            Origin::Edge { stage: from, exchange, .. } => {
                let from = &self.stages.stages[*from];
                Reach::of(exchange.as_deref(), from.channels, channels, from.machines)
            }
        }
    }

    /// How many lanes an input has in a channel.
    fn lanes(&self, stage: usize, input: &Input, index: usize) -> usize {
        match &input.origin {
            Origin::Scan(_) => 1,
            Origin::Edge { .. } => self.reach(stage, input).sources(index).len(),
        }
    }

    /// The adapter of an input of a temporal channel.
    fn adapter(&self, input: &Input, lanes: usize, index: usize) -> Result<InputAdapter> {
        if let Some(ingress) = &input.ingress {
            let events = events(ingress, input, self.batch_rows)?;
            return Ok(InputAdapter::ingress(
                lanes,
                match order(ingress, input, index) {
                    Some(order) => events.with_order(order),
                    None => events,
                },
            ));
        }
        let relation = match &input.origin {
            Origin::Scan(scan) if !scan.source.info().bounded => return Ok(InputAdapter::arrival()),
            Origin::Scan(_) => true,
            Origin::Edge { stage, .. } => self.stages.stages[*stage].kind == Kind::Relational,
        };
        Ok(InputAdapter::Merge { gather: Gather::new(lanes, self.batch_rows), relation })
    }

    /// The output of a stage whose edges become intervals, and in which order.
    fn coalesced(&self, stage: usize) -> Option<(usize, CoalesceOrder)> {
        let (result, output) = self.stages.result;
        self.coalesce.filter(|_| stage == result).map(|order| (output, order))
    }

    /// The form of the result, in a stage that hands it out: what its options say beside the plan.
    pub(super) fn result_form(&self, stage: usize) -> String {
        format!("{:?} {}", self.coalesced(stage), self.live)
    }

    /// The description of a channel's program: what it computes, line by line.
    fn describe(&self, number: usize, index: usize, lanes: &[usize]) -> String {
        let stage = &self.stages.stages[number];
        let mut lines = vec![format!("stage {number}, channel {index} of {}", stage.channels)];
        for (i, (input, lanes)) in stage.inputs.iter().zip(lanes).enumerate() {
            let source = match &input.origin {
                Origin::Scan(_) => "a table".to_string(),
                Origin::Edge { stage, output, .. } => {
                    format!("{:?} of stage {stage}", self.stages.stages[*stage].outputs[*output].lifetimes)
                }
            };
            let events = if input.ingress.is_some() { " as events" } else { "" };
            let columns = columns(&input.schema);
            lines.push(format!("input {i}: {source}{events} from {lanes} lanes, columns {columns}"));
        }
        for (i, node) in stage.nodes.iter().enumerate() {
            let inputs: Vec<String> = node.inputs.iter().map(operand).collect();
            let (inputs, plan, columns) =
                (inputs.join(", "), node.plan.display(), columns(node.plan.schema()));
            lines.push(format!("node {i} over {inputs}: {plan}; columns {columns}").replace('\n', " "));
        }
        for (i, output) in stage.outputs.iter().enumerate() {
            let coalesced = self.coalesced(number).filter(|(coalesced, _)| *coalesced == i);
            let form = coalesced.map_or(String::new(), |(_, order)| format!(", intervals by {order:?}"));
            lines.push(format!("output {i}: {}{form}", operand(&output.operand)));
        }
        lines.join("\n")
    }
}

/// The plans of the relational stages.
fn fragments(stages: &StageGraph) -> Result<Vec<Option<Fragment>>> {
    let (mut fragments, mut estimates) = (Vec::new(), Vec::new());
    for (number, stage) in stages.stages.iter().enumerate() {
        let fragment = match stage.kind {
            Kind::Relational => Some(Fragment::of(stages, number, &estimates)?),
            Kind::Temporal => None,
        };
        estimates.push(fragment.as_ref().map(|fragment| fragment.expected.clone()));
        fragments.push(fragment);
    }
    Ok(fragments)
}

/// An operand in a description.
fn operand(operand: &Operand) -> String {
    match operand {
        Operand::Node(node) => format!("node {node}"),
        Operand::Input(input) => format!("input {input}"),
    }
}

/// The columns in a description, with their types.
fn columns(schema: &DFSchema) -> String {
    let fields = schema.fields().iter().map(|f| format!("{} {}", f.name(), f.data_type()));
    format!("[{}]", fields.collect::<Vec<_>>().join(", "))
}

/// Whether the streams of a stage have a clock for each partition.
fn is_partitioned(stage: &Stage) -> bool {
    let mut ingresses = stage.inputs.iter().filter_map(|input| input.ingress.as_ref());
    ingresses.any(|ingress| ingress.partitioning.is_some())
}

/// An input of a channel whose streams have a clock for each partition.
fn partitioned_input(input: &Input, lanes: usize) -> Result<PartitionedInput> {
    let partitioned =
        input.ingress.as_ref().and_then(|ingress| Some((ingress, ingress.partitioning.as_ref()?)));
    let Some((ingress, partitioning)) = partitioned else {
        return plan_err!(
            "a stream with a clock for each partition meets rows that have none; join them before the stream gets \
             its time, or put its partitions in one order first: merge_partitions()"
        );
    };
    let place = |name: &String| match input.schema.index_of_column_by_name(None, name) {
        Some(place) => Ok(place),
        None => internal_err!("the column `{name}` is gone"),
    };
    Ok(PartitionedInput {
        lanes,
        partition: partitioning.columns.iter().map(place).collect::<Result<_>>()?,
        start: place(&ingress.time.start)?,
        kind: ingress.time.kind.as_ref().map(place).transpose()?,
        lag: partitioning.lag,
    })
}

/// The known order of a shard by start time.
fn order(node: &Ingress, input: &Input, shard: usize) -> Option<Sortedness> {
    let Origin::Scan(scan) = &input.origin else { return None };
    let place = input.schema.index_of_column_by_name(None, &node.time.start)?;
    let column = scan.columns.as_ref().map_or(place, |columns| columns[place]);
    // Rows with a kind are ordered by their start or by their end.
    node.time.kind.is_none().then(|| dataset(scan.source.as_ref()).ok()?.order(shard, column)).flatten()
}

/// The ingress operator of a node.
fn events(node: &Ingress, input: &Input, batch_rows: usize) -> Result<whimbrel_temporal::Ingress> {
    let place = |name: &String| match input.schema.index_of_column_by_name(None, name) {
        Some(place) => Ok(place),
        None => internal_err!("the time column `{name}` is gone"),
    };
    let start = place(&node.time.start)?;
    let columns = match (&node.time.end, &node.time.kind) {
        (None, _) => TimeColumns::Point { start },
        (Some(end), None) => TimeColumns::Interval { start, end: place(end)? },
        (Some(end), Some(kind)) => TimeColumns::Edges { start, end: place(end)?, kind: place(kind)? },
    };
    let options =
        IngressOptions { batch_rows: node.options.batch_rows.min(batch_rows), ..node.options.clone() };
    whimbrel_temporal::Ingress::new(columns, options, input.schema.inner().clone())
}
