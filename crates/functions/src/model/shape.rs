//! The shape of a query, which is all that the model needs: how many tasks its stages have, what these read
//! from each other, and about how much. It is made without the queues between tasks: a large query has
//! millions.
//!
//! Invariant: it counts the work and the requests that [`Units`](crate::coordinator::Units) lists.

use crate::coordinator::{Combining, Groups};
use whimbrel_plan::nodes::Movement;
use whimbrel_sharded::program::{Programs, StageEstimate};
use whimbrel_sharded::stage::{Input, Origin};

/// The stages of a query, producers before consumers.
pub struct Shape {
    /// The stages.
    pub stages: Vec<StageShape>,
}

/// A stage.
pub struct StageShape {
    /// How many tasks it has.
    pub tasks: usize,
    /// About how much they read and write.
    pub estimate: StageEstimate,
    /// What they read from other stages.
    pub inputs: Vec<Edge>,
}

/// What the tasks of a stage read from another.
pub struct Edge {
    /// The stage that they read from.
    pub from: usize,
    /// How many tasks of it each of them reads from.
    pub producers: usize,
    /// How the shuffle is combined, if it is.
    pub groups: Option<Groups>,
}

impl Edge {
    /// From how many objects each task reads.
    pub fn sources(&self) -> usize {
        self.groups.map_or(self.producers, |groups| groups.producers)
    }

    /// How many tasks combine.
    pub fn combiners(&self) -> usize {
        self.groups.map_or(0, |groups| groups.producers * groups.consumers)
    }

    /// How many reads these make.
    fn reads_of_combiners(&self) -> usize {
        self.groups.map_or(0, |groups| self.producers * groups.consumers)
    }
}

impl Shape {
    /// The shape of a query whose shuffles are combined in this way.
    pub fn of(programs: &Programs, combining: &Combining) -> Shape {
        let (graph, estimates) = (&programs.stages().stages, programs.estimates());
        let stages = graph.iter().enumerate().map(|(number, stage)| {
            let edge = |input: &Input| {
                let Origin::Edge { stage: from, exchange, .. } = &input.origin else { return None };
                let (producers, reach) = (graph[*from].channels, programs.reach(number, input));
                let consumers = reach.targets(0).len();
                let is_broadcast =
                    matches!(exchange.as_ref().map(|e| &*e.movement), Some(Movement::Broadcast));
                let bytes = estimates[*from].output_bytes;
                let groups = combining.groups(producers, consumers, bytes, is_broadcast && consumers > 1);
                // What goes to some tasks only is no shuffle.
                let groups = groups.filter(|_| consumers == stage.channels);
                Some(Edge { from: *from, producers: reach.sources(0).len(), groups })
            };
            StageShape {
                tasks: stage.channels,
                estimate: estimates[number],
                inputs: stage.inputs.iter().filter_map(edge).collect(),
            }
        });
        Shape { stages: stages.collect() }
    }

    /// The edges that leave a stage.
    fn edges_out(&self, stage: usize) -> impl Iterator<Item = &Edge> {
        self.stages.iter().flat_map(|reader| &reader.inputs).filter(move |edge| edge.from == stage)
    }

    /// How many tasks combine the output of a stage, and how many reads they make.
    pub fn combiners(&self, stage: usize) -> (usize, usize) {
        let counts = self.edges_out(stage).map(|edge| (edge.combiners(), edge.reads_of_combiners()));
        counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
    }

    /// From how many units a unit reads at most that reads from this stage.
    pub fn most_sources(&self, stage: usize) -> usize {
        let of_reader = |reader: &StageShape| {
            let reads = |edge: &&Edge| edge.from == stage;
            let of_combiner = |edge: &Edge| Some(edge.producers / edge.groups?.producers);
            let combined = reader.inputs.iter().filter(reads).filter_map(of_combiner).max();
            let is_direct = reader.inputs.iter().any(|edge| edge.from == stage && edge.groups.is_none());
            combined.max(is_direct.then(|| reader.sources()))
        };
        self.stages.iter().filter_map(of_reader).max().unwrap_or(1)
    }
}

impl StageShape {
    /// From how many units each task reads. Those of a stage that it reads twice count once.
    fn sources(&self) -> usize {
        let is_first = |(place, edge): &(usize, &Edge)| {
            edge.groups.is_some()
                || !self.inputs[..*place]
                    .iter()
                    .any(|before| before.from == edge.from && before.groups.is_none())
        };
        self.inputs.iter().enumerate().filter(is_first).map(|(_, edge)| edge.sources()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::{CombineCosts, Units};
    use crate::plan::Plan;
    use crate::prices::PriceSheet;
    use datafusion::common::Result;
    use std::sync::Arc;
    use whimbrel_plan::nodes::Scope;
    use whimbrel_plan::{Series, Source, Stream, column};
    use whimbrel_sharded::Options;
    use whimbrel_sharded::runtime::Topology;

    /// A shuffle, a broadcast, and one task in the end.
    fn query(producers: usize, consumers: usize) -> Result<Stream> {
        let numbers = |count| Series::new("n", 0, count, 1, true);
        let large = numbers(100_000)?.with_shards(producers).expect("numbers have any shards");
        let small = numbers(100)?.with_shards(producers).expect("numbers have any shards");
        let large = Stream::scan("large", large)?.rekey(vec![column("n")])?;
        let large = large.redistribute(Some(consumers), Scope::Global)?.distinct()?;
        let small = Stream::scan("small", small)?.broadcast(Some(consumers), Scope::Global)?;
        large.union(&small)?.reshard(Some(1), Scope::Global)
    }

    #[test]
    fn a_shape_counts_what_units_list() {
        let prices = PriceSheet::named("aws-us-east-1-x86").unwrap();
        let cheaper = Combining::WhereCheaper(CombineCosts { prices, memory: 3008, transfer: 75e6 });
        for (producers, consumers) in [(1, 1), (1, 4), (4, 1), (3, 5), (8, 8), (300, 120)] {
            for combining in [Combining::Never, Combining::Always, cheaper.clone()] {
                let options = Options::default();
                let programs = Programs::new(&query(producers, consumers).unwrap(), &options).unwrap();
                let shape = Shape::of(&programs, &combining);
                let topology = Topology::of(&programs);
                let units = Units::of(Arc::new(Plan { programs, topology, options }), &combining);
                compare(&shape, &units);
            }
        }
    }

    fn compare(shape: &Shape, units: &Units) {
        for (number, stage) in shape.stages.iter().enumerate() {
            let tasks = units.plan.topology.channels_of(number);
            let combines: Vec<usize> =
                (units.plan.tasks()..units.count()).filter(|unit| units.stage(*unit) == number).collect();
            let reads = |units_of: &mut dyn Iterator<Item = usize>| {
                units_of.map(|unit| units.readings(unit).len()).sum::<usize>()
            };
            assert_eq!(stage.tasks, tasks.len());
            let sources: usize = stage.inputs.iter().map(Edge::sources).sum();
            assert_eq!(stage.tasks * sources, reads(&mut tasks.clone()));
            assert_eq!(shape.combiners(number), (combines.len(), reads(&mut combines.iter().copied())));
            let most = units.readers(tasks.start).map(|reader| units.sources(reader).len()).max();
            assert_eq!(shape.most_sources(number), most.unwrap_or(1), "stage {number}");
        }
    }
}
