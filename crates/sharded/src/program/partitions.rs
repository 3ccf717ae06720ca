//! Which partition a row is of, and what each partition computes: a copy of the stage's graph, with a clock
//! of its own for each input.
//!
//! Invariants: partitions are numbered in the order in which they were first seen. A partition that has not
//! been seen yet is at the low watermark of each input; `unseen` computes what that means for the outputs.

use super::clock::InputClock;
use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::collections::HashMap;
use whimbrel_temporal::{BEGINNING, Graph, Ingress, Message, NodeActivity, Time};

/// Makes what a partition computes: its ingresses, one for each input, and its graph.
pub(crate) type PartitionFactory = Box<dyn Fn() -> Result<(Vec<Ingress>, Graph)> + Send>;

/// What one partition computes.
pub(super) struct Partition {
    ingresses: Vec<Ingress>,
    clocks: Vec<InputClock>,
    graph: Graph,
    /// How far each output has come.
    passed: Vec<Time>,
}

/// A partition in a checkpoint: its key, its ingresses, clocks and graph, and how far its outputs have come.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedPartition {
    key: ByteBuf,
    ingresses: Vec<ByteBuf>,
    clocks: Vec<InputClock>,
    graph: ByteBuf,
    passed: Vec<Time>,
}

impl Partition {
    fn new((ingresses, graph): (Vec<Ingress>, Graph)) -> Partition {
        let clocks = vec![InputClock::new(); ingresses.len()];
        Partition { ingresses, clocks, passed: vec![BEGINNING; graph.outputs()], graph }
    }

    /// Ingests rows of an input, and hands on what comes out: with `announce`, as far as time has come.
    pub fn push(
        &mut self,
        input: usize,
        rows: RecordBatch,
        announce: bool,
        out: &mut Vec<(usize, Message)>,
    ) -> Result<()> {
        let mut ready = Vec::new();
        self.ingresses[input].push(rows, &mut ready)?;
        self.feed(input, ready, out)?;
        match announce.then(|| self.clocks[input].announce()).flatten() {
            Some(punctuation) => self.feed(input, vec![punctuation], out),
            None => Ok(()),
        }
    }

    /// Moves the time of an input.
    pub fn advance(&mut self, input: usize, time: Time, out: &mut Vec<(usize, Message)>) -> Result<()> {
        let mut ready = Vec::new();
        self.ingresses[input].advance(time, &mut ready)?;
        self.feed(input, ready, out)
    }

    /// Ends an input.
    pub fn complete(&mut self, input: usize, out: &mut Vec<(usize, Message)>) -> Result<()> {
        let mut ready = Vec::new();
        self.ingresses[input].complete(&mut ready)?;
        self.feed(input, ready, out)
    }

    /// Feeds the graph. Punctuations that come out are noted, not handed on: they are of this partition only.
    fn feed(&mut self, input: usize, ready: Vec<Message>, out: &mut Vec<(usize, Message)>) -> Result<()> {
        let mut produced = Vec::new();
        for message in ready {
            self.clocks[input].note(&message);
            self.graph.push(input, message, &mut produced)?;
        }
        for (output, message) in produced {
            match message {
                Message::Punctuation(time) => self.passed[output] = self.passed[output].max(time),
                rows => out.push((output, rows)),
            }
        }
        Ok(())
    }
}

/// All partitions of a channel.
pub(super) struct Partitions {
    make: PartitionFactory,
    /// Encodes the columns that tell partitions apart.
    converter: RowConverter,
    numbers: HashMap<Box<[u8]>, usize>,
    partitions: Vec<Partition>,
    unseen: Partition,
    /// The low watermark of each input.
    low: Vec<Time>,
    /// What the operators of all partitions have done.
    activity: Vec<NodeActivity>,
}

impl Partitions {
    /// No partitions yet, told apart by columns of these types.
    pub fn new(make: PartitionFactory, fields: Vec<SortField>) -> Result<Partitions> {
        let unseen = Partition::new(make()?);
        let low = vec![BEGINNING; unseen.ingresses.len()];
        let converter = RowConverter::new(fields)?;
        let activity = unseen.graph.activity();
        let (numbers, partitions) = (HashMap::new(), Vec::new());
        Ok(Partitions { make, converter, numbers, partitions, unseen, low, activity })
    }

    /// What the operators of all partitions have done, inputs first; the partitions that come are in it, too.
    pub fn activity(&self) -> Vec<NodeActivity> {
        self.activity.clone()
    }

    /// Watches a partition.
    fn watch(&self, partition: &Partition) {
        self.activity.iter().zip(partition.graph.activity()).for_each(|(all, of)| all.join(&of));
    }

    /// The low watermark of an input.
    pub fn low(&self, input: usize) -> Time {
        self.low[input]
    }

    /// The number of the partition of each row, by the columns that tell them apart.
    pub fn numbers(&mut self, columns: &[ArrayRef]) -> Result<Vec<usize>> {
        let rows = self.converter.convert_columns(columns)?;
        let mut numbers = Vec::with_capacity(rows.num_rows());
        for row in &rows {
            let number = match self.numbers.get(row.as_ref()) {
                Some(number) => *number,
                None => self.add(row.as_ref())?,
            };
            numbers.push(number);
        }
        Ok(numbers)
    }

    /// Adds a partition, at the low watermarks.
    fn add(&mut self, key: &[u8]) -> Result<usize> {
        let mut partition = Partition::new((self.make)()?);
        let mut out = Vec::new();
        for (input, low) in self.low.iter().enumerate().filter(|(_, low)| **low > BEGINNING) {
            partition.advance(input, *low, &mut out)?;
        }
        self.watch(&partition);
        self.partitions.push(partition);
        self.numbers.insert(key.into(), self.partitions.len() - 1);
        Ok(self.partitions.len() - 1)
    }

    /// A partition by its number.
    pub fn partition(&mut self, number: usize) -> &mut Partition {
        &mut self.partitions[number]
    }

    /// Does something in every partition, and in the one that stands for those not seen yet.
    pub fn for_each(&mut self, mut act: impl FnMut(&mut Partition) -> Result<()>) -> Result<()> {
        act(&mut self.unseen)?;
        self.partitions.iter_mut().try_for_each(act)
    }

    /// Moves the low watermark of an input, and with it all partitions that are behind.
    pub fn advance(&mut self, input: usize, time: Time, out: &mut Vec<(usize, Message)>) -> Result<()> {
        if time <= self.low[input] {
            return Ok(());
        }
        self.low[input] = time;
        self.for_each(|partition| partition.advance(input, time, out))
    }

    /// The low watermark of an output: all partitions have passed it.
    pub fn passed(&self, output: usize) -> Time {
        let all = self.partitions.iter().map(|partition| partition.passed[output]);
        all.fold(self.unseen.passed[output], Time::min)
    }

    /// How many rows came too late and were dropped.
    pub fn dropped(&self) -> u64 {
        let ingresses = self.partitions.iter().flat_map(|partition| &partition.ingresses);
        ingresses.map(Ingress::dropped).sum()
    }

    /// The rows that were dropped since the last call.
    pub fn take_late(&mut self) -> Vec<RecordBatch> {
        let ingresses = self.partitions.iter_mut().flat_map(|partition| &mut partition.ingresses);
        ingresses.flat_map(Ingress::take_late).collect()
    }

    /// The state of all partitions, the unseen one first.
    pub fn save(&self) -> Result<(Vec<Time>, Vec<SavedPartition>)> {
        let mut keys = vec![&[][..]; self.partitions.len()];
        self.numbers.iter().for_each(|(key, number)| keys[*number] = key);
        let all = std::iter::once((&[][..], &self.unseen)).chain(keys.into_iter().zip(&self.partitions));
        let saved = all.map(|(key, partition)| save(key, partition)).collect::<Result<_>>()?;
        Ok((self.low.clone(), saved))
    }

    /// Takes over a saved state.
    pub fn restore(&mut self, (low, saved): (Vec<Time>, Vec<SavedPartition>)) -> Result<()> {
        self.low = low;
        for (number, saved) in saved.into_iter().enumerate() {
            let partition = restore(Partition::new((self.make)()?), &saved)?;
            if number == 0 {
                self.activity = partition.graph.activity();
                self.unseen = partition;
                continue;
            }
            self.watch(&partition);
            self.numbers.insert(saved.key.into_vec().into(), self.partitions.len());
            self.partitions.push(partition);
        }
        Ok(())
    }
}

fn save(key: &[u8], partition: &Partition) -> Result<SavedPartition> {
    let ingresses = partition.ingresses.iter().map(|ingress| ingress.save().map(ByteBuf::from));
    Ok(SavedPartition {
        key: ByteBuf::from(key),
        ingresses: ingresses.collect::<Result<_>>()?,
        clocks: partition.clocks.clone(),
        graph: partition.graph.save()?.into(),
        passed: partition.passed.clone(),
    })
}

fn restore(mut partition: Partition, saved: &SavedPartition) -> Result<Partition> {
    for (ingress, state) in partition.ingresses.iter_mut().zip(&saved.ingresses) {
        ingress.restore(state)?;
    }
    partition.graph.restore(&saved.graph)?;
    partition.clocks.clone_from(&saved.clocks);
    partition.passed.clone_from(&saved.passed);
    Ok(partition)
}

/// The rows of each partition among some, partitions in the order in which they come.
pub(super) fn split(rows: &RecordBatch, numbers: &[usize]) -> Result<Vec<(usize, RecordBatch)>> {
    let Some(first) = numbers.first() else { return Ok(vec![]) };
    if numbers.iter().all(|number| number == first) {
        return Ok(vec![(*first, rows.clone())]);
    }
    let mut order: Vec<usize> = Vec::new();
    let mut places: HashMap<usize, Vec<u32>> = HashMap::new();
    for (row, number) in (0..).zip(numbers) {
        let of_partition = places.entry(*number).or_default();
        if of_partition.is_empty() {
            order.push(*number);
        }
        of_partition.push(row);
    }
    let of = |number: usize| {
        let places = places.remove(&number).unwrap_or_default();
        Ok((number, take_record_batch(rows, &UInt32Array::from(places))?))
    };
    order.into_iter().map(of).collect()
}
