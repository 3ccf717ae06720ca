//! The format of a result: messages as batches of a table.
//!
//! Invariant: no column of a result is lost. Lifetimes come as `start` and `end`, a column of that name as
//! `start_1`. Only a column that the lifetimes were read from, and that they still equal, does not come
//! twice.

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

/// How the messages of a stream become batches of a table.
#[derive(Debug, Clone)]
pub(super) struct TableFormat {
    time: Option<DataType>,
    output: Output,
    payload: SchemaRef,
    /// The columns of the payload that come out.
    columns: Vec<usize>,
}

/// The columns of the tables of a result.
pub fn schema(stream: &Stream, options: &Options) -> SchemaRef {
    TableFormat::of(stream, options).schema()
}

impl TableFormat {
    /// The format of the result of a query.
    pub fn of(stream: &Stream, options: &Options) -> TableFormat {
        let time = stream.properties().time.clone();
        let all = 0..stream.schema().fields().len();
        let columns =
            all.filter(|column| time.is_none() || !repeats_lifetime(stream.plan(), *column)).collect();
        TableFormat { time, output: options.output, payload: stream.schema().clone(), columns }
    }

    /// The columns of the tables.
    pub fn schema(&self) -> SchemaRef {
        match (&self.time, self.output) {
            (None, _) => self.payload.clone(),
            (Some(time), Output::Intervals) => egress::table_schema(&self.output_payload(), time),
            (Some(time), Output::Events) => self.events_schema(time),
        }
    }

    /// The name of a column of the payload in the tables.
    pub fn name(&self, column: &str) -> String {
        let index = self.columns.iter().position(|c| self.payload.field(*c).name() == column);
        let schema = self.schema();
        let first = schema.fields().len() - self.columns.len();
        index.map_or_else(|| column.to_string(), |index| schema.field(first + index).name().clone())
    }

    /// The payload without the columns that do not come out.
    fn output_payload(&self) -> Schema {
        Schema::new(self.columns.iter().map(|c| self.payload.field(*c).clone()).collect::<Vec<_>>())
    }

    /// The rows of a message; none if it has none.
    ///
    /// # Errors
    /// If a time has no place in its type.
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

    /// The rows of a batch.
    fn rows(&self, batch: &Batch) -> Result<RecordBatch> {
        match (&self.time, self.output) {
            (None, _) => crate::dataset::conform(batch.rows.clone(), &self.payload),
            (Some(time), Output::Intervals) => {
                let rows = batch.rows.project(&self.columns)?;
                egress::to_table(&batch.with_rows(rows, None), time)
            }
            (Some(time), Output::Events) => self.events(batch, time),
        }
    }

    /// One row per event: its kind, start, end and payload.
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
        let starts = Int64Array::from_iter(rows.clone().map(|i| finite(batch.start_at(i))));
        let ends = Int64Array::from_iter(rows.map(end));
        let payload = self.columns.iter().map(|i| batch.rows.column(*i).clone());
        self.assemble(kinds, starts, ends, payload.collect(), time)
    }

    /// A row for a punctuation.
    fn punctuation(&self, at: Time, time: &DataType) -> Result<RecordBatch> {
        let payload = self.columns.iter().map(|i| new_null_array(self.payload.field(*i).data_type(), 1));
        let kinds = StringArray::from(vec!["punctuation"]);
        self.assemble(
            kinds,
            Int64Array::from(vec![finite(at)]),
            Int64Array::from(vec![None]),
            payload.collect(),
            time,
        )
    }

    /// The columns of a table of events.
    fn events_schema(&self, time: &DataType) -> SchemaRef {
        let mut fields = vec![
            Field::new("kind", DataType::Utf8, false),
            Field::new("start", time.clone(), true),
            Field::new("end", time.clone(), true),
        ];
        // A punctuation has no payload.
        let payload = egress::beside(&["kind", "start", "end"], &self.output_payload());
        fields.extend(payload.into_iter().map(|field| field.with_nullable(true)));
        Arc::new(Schema::new(fields))
    }

    /// A batch of events.
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

/// A time as a value of a column: the beginning and the end of time are null.
fn finite(time: Time) -> Option<Time> {
    (time != BEGINNING && time != INFINITY).then_some(time)
}

/// Whether a column is the `start` or the `end` that lifetimes were read from, and that they still equal.
fn repeats_lifetime(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => repeats_lifetime(plan.inputs()[0], column),
        LogicalPlan::Projection(projection) => {
            let passed = projection.expr[column].clone().unalias();
            let index = passed.try_as_col().and_then(|c| projection.input.schema().maybe_index_of_column(c));
            let name = plan.schema().field(column).name();
            index.is_some_and(|index| {
                projection.input.schema().field(index).name() == name
                    && repeats_lifetime(&projection.input, index)
            })
        }
        _ => match node(plan) {
            Some(Node::ReKey(rekey)) => repeats_lifetime(&rekey.input, column),
            Some(Node::Exchange(exchange)) => repeats_lifetime(&exchange.input, column),
            Some(Node::Ingress(ingress)) => {
                let name = plan.schema().field(column).name();
                let time = &ingress.time;
                (name == "start" && time.start == *name) || (name == "end" && time.end.as_ref() == Some(name))
            }
            _ => false,
        },
    }
}
