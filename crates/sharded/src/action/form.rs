//! The form of a result: messages as tables.
//!
//! Invariant: no column of a result is lost. Lifetimes come as `start` and `end`, and a column of that name as `start_1`;
//! only one that the rows have had their lifetimes from, and still have, is not said twice.

use crate::options::{Options, Output};
use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray, new_null_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::logical_expr::LogicalPlan;
use std::sync::Arc;
use whimbrel_plan::Stream;
use whimbrel_plan::nodes::{Node, node};
use whimbrel_temporal::{BEGINNING, Batch, INFINITY, Kind, Message, Time, egress};

/// How the messages of a stream become tables.
#[derive(Debug, Clone)]
pub(super) struct Form {
    time: Option<DataType>,
    output: Output,
    payload: SchemaRef,
    /// Which of the payload's columns are shown.
    shown: Vec<usize>,
}

/// The columns that the tables of a result have.
pub fn schema(stream: &Stream, options: &Options) -> SchemaRef {
    Form::of(stream, options).schema()
}

impl Form {
    pub fn of(stream: &Stream, options: &Options) -> Form {
        let time = stream.properties().time.clone();
        let all = 0..stream.schema().fields().len();
        let shown = all.filter(|column| time.is_none() || !repeats(stream.plan(), *column)).collect();
        Form { time, output: options.output, payload: stream.schema().clone(), shown }
    }

    pub fn schema(&self) -> SchemaRef {
        match (&self.time, self.output) {
            (None, _) => self.payload.clone(),
            (Some(time), Output::Intervals) => egress::table_schema(&self.shown(), time),
            (Some(time), Output::Events) => self.events_schema(time),
        }
    }

    /// What a column of the payload is called in the tables.
    pub fn name(&self, column: &str) -> String {
        let place = self.shown.iter().position(|c| self.payload.field(*c).name() == column);
        let schema = self.schema();
        let before = schema.fields().len() - self.shown.len();
        place.map_or_else(|| column.to_string(), |place| schema.field(before + place).name().clone())
    }

    fn shown(&self) -> Schema {
        Schema::new(self.shown.iter().map(|c| self.payload.field(*c).clone()).collect::<Vec<_>>())
    }

    /// The rows of a message, if it has any.
    pub fn table(&self, message: &Message) -> Result<Option<RecordBatch>> {
        match message {
            Message::Batch(batch) if batch.is_empty() => Ok(None),
            Message::Batch(batch) => Ok(Some(self.rows(batch)?)),
            Message::Punctuation(time) => match (self.output, &self.time) {
                (Output::Events, Some(unit)) => Ok(Some(self.punctuation(*time, unit)?)),
                _ => Ok(None),
            },
        }
    }

    fn rows(&self, batch: &Batch) -> Result<RecordBatch> {
        match (&self.time, self.output) {
            (None, _) => crate::dataset::conform(batch.rows.clone(), &self.payload),
            (Some(time), Output::Intervals) => {
                let rows = batch.rows.project(&self.shown)?;
                egress::to_table(&batch.with_rows(rows, None), time)
            }
            (Some(time), Output::Events) => self.events(batch, time),
        }
    }

    /// A row an event: what it is, its start and its end, its values.
    fn events(&self, batch: &Batch, time: &DataType) -> Result<RecordBatch> {
        let rows = 0..batch.len();
        let kind = |i| match batch.kind_at(i) {
            Kind::Interval => "interval",
            Kind::Start => "start",
            Kind::End => "end",
        };
        let end = |i| match batch.kind_at(i) {
            Kind::Interval => Some(batch.other_at(i)),
            Kind::Start => None,
            Kind::End => Some(batch.sync[i]),
        };
        let kinds = StringArray::from_iter_values(rows.clone().map(kind));
        let starts = Int64Array::from_iter(rows.clone().map(|i| known(batch.start_at(i))));
        let ends = Int64Array::from_iter(rows.map(end));
        let payload = self.shown.iter().map(|i| batch.rows.column(*i).clone());
        self.assemble(kinds, starts, ends, payload.collect(), time)
    }

    fn punctuation(&self, at: Time, time: &DataType) -> Result<RecordBatch> {
        let payload = self.shown.iter().map(|i| new_null_array(self.payload.field(*i).data_type(), 1));
        let kinds = StringArray::from(vec!["punctuation"]);
        self.assemble(
            kinds,
            Int64Array::from(vec![known(at)]),
            Int64Array::from(vec![None]),
            payload.collect(),
            time,
        )
    }

    fn events_schema(&self, time: &DataType) -> SchemaRef {
        let mut fields = vec![
            Field::new("kind", DataType::Utf8, false),
            Field::new("start", time.clone(), true),
            Field::new("end", time.clone(), true),
        ];
        // A punctuation has no values.
        let payload = egress::beside(&["kind", "start", "end"], &self.shown());
        fields.extend(payload.into_iter().map(|field| field.with_nullable(true)));
        Arc::new(Schema::new(fields))
    }

    fn assemble(
        &self,
        kinds: StringArray,
        starts: Int64Array,
        ends: Int64Array,
        payload: Vec<ArrayRef>,
        time: &DataType,
    ) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = vec![Arc::new(kinds), cast(&starts, time)?, cast(&ends, time)?];
        columns.extend(payload);
        Ok(RecordBatch::try_new(self.events_schema(time), columns)?)
    }
}

/// The beginning and the end of time have no place in a column: they are null.
fn known(time: Time) -> Option<Time> {
    (time != BEGINNING && time != INFINITY).then_some(time)
}

/// Whether a column is the `start` or the `end` that its rows were read with, and that they still live by.
fn repeats(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => repeats(plan.inputs()[0], column),
        LogicalPlan::Projection(projection) => {
            let passed = projection.expr[column].clone().unalias();
            let place = passed.try_as_col().and_then(|c| projection.input.schema().maybe_index_of_column(c));
            let name = plan.schema().field(column).name();
            place.is_some_and(|place| {
                projection.input.schema().field(place).name() == name && repeats(&projection.input, place)
            })
        }
        _ => match node(plan) {
            Some(Node::ReKey(rekey)) => repeats(&rekey.input, column),
            Some(Node::Exchange(exchange)) => repeats(&exchange.input, column),
            Some(Node::Ingress(ingress)) => {
                let name = plan.schema().field(column).name();
                let time = &ingress.time;
                (name == "start" && time.start == *name) || (name == "end" && time.end.as_ref() == Some(name))
            }
            _ => false,
        },
    }
}
