//! The aggregates of one operator: evaluated once a batch, accumulated together.

use super::accumulator::{Accumulator, Rows};
use super::function::AggregateFunction;
use super::leaving::Leaving;
use crate::batch::Batch;
use crate::time::Time;
use crate::values::Column;
use arrow::array::{ArrayRef, AsArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, exec_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use serde_bytes::ByteBuf;
use std::ops::Range;
use std::sync::Arc;

/// One aggregate of a query.
#[derive(Debug, Clone)]
pub struct AggregateCall {
    /// What to compute.
    pub function: AggregateFunction,
    /// Over which values; none: over rows.
    pub argument: Option<Arc<dyn PhysicalExpr>>,
    /// Over which rows; none: all.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    /// The name of the result's column.
    pub name: String,
}

impl AggregateCall {
    /// Whether the result is the number of a group's rows.
    fn counts_rows(&self) -> bool {
        matches!(self.function, AggregateFunction::Count) && self.argument.is_none() && self.filter.is_none()
    }
}

/// What an aggregate computes over.
#[derive(Debug, Clone)]
pub(super) struct Argument {
    pub data_type: DataType,
    /// Whether a row may have none.
    pub nullable: bool,
}

/// What an aggregate operator computes, checked against its input.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub key: Vec<usize>,
    pub key_types: Vec<DataType>,
    pub calls: Vec<AggregateCall>,
    arguments: Vec<Option<Argument>>,
    /// The key's columns, then one for each call.
    pub schema: SchemaRef,
    ordered: bool,
}

impl Plan {
    /// Checks the calls against the columns of the input.
    ///
    /// # Errors
    /// `Plan` if an aggregate does not take its argument's type.
    pub fn new(input: SchemaRef, key: Vec<usize>, calls: Vec<AggregateCall>) -> Result<Plan> {
        let mut fields: Vec<Field> = key.iter().map(|&c| input.field(c).clone()).collect();
        let key_types = fields.iter().map(|f| f.data_type().clone()).collect();
        let mut arguments = Vec::new();
        for call in &calls {
            let of = |a: &Arc<dyn PhysicalExpr>| -> Result<Argument> {
                Ok(Argument { data_type: a.data_type(&input)?, nullable: a.nullable(&input)? })
            };
            let argument = call.argument.as_ref().map(of).transpose()?;
            let data_type = call.function.return_type(argument.as_ref().map(|a| &a.data_type))?;
            let nullable =
                !matches!(call.function, AggregateFunction::Count | AggregateFunction::CountDistinct);
            fields.push(Field::new(&call.name, data_type, nullable));
            arguments.push(argument);
        }
        let ordered = calls.iter().any(|call| call.function.asks_for_starts());
        Ok(Plan { key, key_types, calls, arguments, schema: Arc::new(Schema::new(fields)), ordered })
    }

    /// Whether an aggregate asks in which order rows started.
    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Each call with what it computes over; none: over rows.
    pub fn calls_by_argument(&self) -> impl Iterator<Item = (&AggregateCall, Option<&Argument>)> {
        self.calls.iter().zip(self.arguments.iter().map(Option::as_ref))
    }

    /// A column of states for each call.
    pub fn states(&self, leaving: Leaving) -> Result<States> {
        self.states_of(leaving, |_| true)
    }

    /// A column of states for each call whose result is not just the number of rows: for those who count
    /// rows anyway.
    pub fn states_beside_rows(&self, leaving: Leaving) -> Result<States> {
        self.states_of(leaving, |call| !call.counts_rows())
    }

    fn states_of(&self, leaving: Leaving, kept: fn(&AggregateCall) -> bool) -> Result<States> {
        let make = |(call, argument): (&AggregateCall, Option<&Argument>)| {
            let data_type = argument.map(|argument| &argument.data_type);
            kept(call).then(|| call.function.accumulator(data_type, leaving)).transpose()
        };
        Ok(States(self.calls_by_argument().map(make).collect::<Result<_>>()?))
    }

    /// The empty columns of the results.
    pub fn columns(&self) -> Vec<Column> {
        let results = &self.schema.fields()[self.key.len()..];
        results.iter().map(|f| Column::new(f.data_type().clone())).collect()
    }

    /// Whether the calls look at nothing but columns: then they can be evaluated over absent rows too,
    /// for which an expression might fail.
    pub fn only_columns(&self) -> bool {
        let read = self.calls.iter().flat_map(|c| c.argument.iter().chain(&c.filter));
        read.into_iter().all(|e| e.downcast_ref::<ColumnExpr>().is_some())
    }

    /// What each call reads of a batch.
    pub fn evaluate(&self, batch: &Batch) -> Result<Vec<Rows>> {
        let starts: Vec<Time> = match self.ordered {
            true => (0..batch.len()).map(|i| batch.start_at(i)).collect(),
            false => Vec::new(),
        };
        self.calls.iter().map(|call| Self::rows(call, batch, &starts)).collect()
    }

    fn rows(call: &AggregateCall, batch: &Batch, starts: &[Time]) -> Result<Rows> {
        let column = |e: &Arc<dyn PhysicalExpr>| -> Result<ArrayRef> {
            e.evaluate(&batch.rows)?.into_array(batch.len())
        };
        let filter = match &call.filter {
            None => None,
            Some(filter) => match column(filter)?.as_boolean_opt() {
                Some(mask) => Some(mask.clone()),
                None => return exec_err!("the filter of `{}` is not a truth value: {filter}", call.name),
            },
        };
        Ok(Rows {
            argument: call.argument.as_ref().map(column).transpose()?,
            filter,
            starts: starts.to_vec(),
        })
    }
}

/// A column of states for each call; the same state number in all of them. A call without one is answered
/// with the number of rows.
#[derive(Debug)]
pub(super) struct States(Vec<Option<Box<dyn Accumulator>>>);

impl States {
    /// The columns of states there are.
    fn each(&mut self) -> impl Iterator<Item = &mut Box<dyn Accumulator>> {
        self.0.iter_mut().flatten()
    }

    /// Each column of states with its counterpart among `other`.
    fn pairs<'a>(
        &'a mut self,
        other: &'a States,
    ) -> impl Iterator<Item = (&'a mut Box<dyn Accumulator>, &'a dyn Accumulator)> {
        self.each().zip(other.0.iter().flatten().map(|o| o.as_ref()))
    }

    pub fn grow(&mut self, states: usize) {
        self.each().for_each(|a| a.grow(states));
    }
    pub fn reset(&mut self, states: &[u32]) {
        self.each().for_each(|a| a.reset(states));
    }
    pub fn load(&mut self, rows: &[Rows]) -> Result<()> {
        self.0
            .iter_mut()
            .zip(rows)
            .filter_map(|(a, r)| Some((a.as_mut()?, r)))
            .try_for_each(|(a, r)| a.load(r))
    }
    pub fn accumulate(&mut self, states: &[u32], first: usize) {
        self.each().for_each(|a| a.accumulate(states, first));
    }
    pub fn accumulate_run(&mut self, state: u32, rows: Range<usize>, present: Option<&BooleanBuffer>) {
        self.each().for_each(|a| a.accumulate_run(state, rows.clone(), present));
    }
    pub fn deaccumulate(&mut self, states: &[u32], first: usize) {
        self.each().for_each(|a| a.deaccumulate(states, first));
    }
    pub fn combine(&mut self, to: &[u32], other: &States, from: &[u32], end: Time) {
        self.pairs(other).for_each(|(a, o)| a.combine(to, o, from, end));
    }
    pub fn difference(&mut self, to: &[u32], other: &States, from: &[u32], end: Time) {
        self.pairs(other).for_each(|(a, o)| a.difference(to, o, from, end));
    }

    /// The results of these states; `rows`: of how many rows each is, for the calls that ask only that.
    pub fn results<'a>(&'a self, states: &'a [u32], rows: &'a [i64]) -> ResultsOf<'a> {
        ResultsOf { all: self, states, rows }
    }
    pub fn failure(&mut self) -> Result<()> {
        self.each().try_for_each(|a| a.failure())
    }
    pub fn save(&self) -> Result<Vec<ByteBuf>> {
        self.0.iter().map(|a| a.as_ref().map_or(Ok(Vec::new()), |a| a.save()).map(ByteBuf::from)).collect()
    }
    pub fn restore(&mut self, saved: &[ByteBuf]) -> Result<()> {
        if saved.len() != self.0.len() {
            return exec_err!("the checkpoint has {} aggregates, this query {}", saved.len(), self.0.len());
        }
        let mut states = self.0.iter_mut().zip(saved).filter_map(|(a, bytes)| Some((a.as_mut()?, bytes)));
        states.try_for_each(|(a, bytes)| a.restore(bytes))
    }
}

/// What the aggregates of some groups come to.
pub(super) trait Results {
    /// Appends it to the columns, one for each aggregate.
    fn append(&self, columns: &mut [Column]);
}

/// The results of some states.
pub(super) struct ResultsOf<'a> {
    all: &'a States,
    states: &'a [u32],
    rows: &'a [i64],
}

impl Results for ResultsOf<'_> {
    fn append(&self, columns: &mut [Column]) {
        for (a, column) in self.all.0.iter().zip(columns) {
            match a {
                Some(a) => a.result(self.states, column),
                None => column.extend(self.rows.iter().copied()),
            }
        }
    }
}
