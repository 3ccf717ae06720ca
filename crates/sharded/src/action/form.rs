//! The form of a result: messages as tables.

use crate::options::{Options, Output};
use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray, new_null_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::sync::Arc;
use whimbrel_plan::Stream;
use whimbrel_temporal::{BEGINNING, Batch, INFINITY, Kind, Message, Time, egress};

/// How the messages of a stream become tables.
#[derive(Debug, Clone)]
pub(super) struct Form {
    time: Option<DataType>,
    output: Output,
    payload: SchemaRef,
}

/// The columns that the tables of a result have.
pub fn schema(stream: &Stream, options: &Options) -> SchemaRef {
    Form::of(stream, options).schema()
}

impl Form {
    pub fn of(stream: &Stream, options: &Options) -> Form {
        let time = stream.properties().time.clone();
        Form { time, output: options.output, payload: stream.schema().clone() }
    }

    pub fn schema(&self) -> SchemaRef {
        match (&self.time, self.output) {
            (None, _) => self.payload.clone(),
            (Some(time), Output::Intervals) => egress::table_schema(&self.payload, time),
            (Some(time), Output::Events) => self.events_schema(time),
        }
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
            (Some(time), Output::Intervals) => egress::to_table(batch, time),
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
        let payload = self.kept().map(|i| batch.rows.column(i).clone());
        self.assemble(kinds, starts, ends, payload.collect(), time)
    }

    fn punctuation(&self, at: Time, time: &DataType) -> Result<RecordBatch> {
        let payload = self.kept().map(|i| new_null_array(self.payload.field(i).data_type(), 1));
        let kinds = StringArray::from(vec!["punctuation"]);
        self.assemble(
            kinds,
            Int64Array::from(vec![known(at)]),
            Int64Array::from(vec![None]),
            payload.collect(),
            time,
        )
    }

    /// The payload's columns whose names are not needed for the event.
    fn kept(&self) -> impl Iterator<Item = usize> + '_ {
        let taken = |i: &usize| !["kind", "start", "end"].contains(&self.payload.field(*i).name().as_str());
        (0..self.payload.fields().len()).filter(taken)
    }

    fn events_schema(&self, time: &DataType) -> SchemaRef {
        let mut fields = vec![
            Field::new("kind", DataType::Utf8, false),
            Field::new("start", time.clone(), true),
            Field::new("end", time.clone(), true),
        ];
        // A punctuation has no values.
        fields.extend(self.kept().map(|i| self.payload.field(i).clone().with_nullable(true)));
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
