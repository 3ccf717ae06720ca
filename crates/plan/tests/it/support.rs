//! Sources that hold nothing, and short words for building on them.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::{DataFusionError, Result};
use std::sync::Arc;
use whimbrel_plan::nodes::TimeSpec;
use whimbrel_plan::{Source, SourceInfo, Stream};
use whimbrel_temporal::IngressOptions;

#[derive(Debug)]
pub struct Nothing(pub SourceInfo);

impl Source for Nothing {
    fn info(&self) -> SourceInfo {
        self.0.clone()
    }

    fn describe(&self) -> String {
        "nothing".to_string()
    }
}

pub fn micros() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

pub fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
    Arc::new(Schema::new(fields.iter().map(|(n, t)| Field::new(*n, t.clone(), true)).collect::<Vec<_>>()))
}

pub fn table_in(name: &str, fields: &[(&str, DataType)], shards: usize, groups: usize) -> Stream {
    let info = SourceInfo { schema: schema(fields), bounded: true, shards, groups };
    Stream::scan(name, Arc::new(Nothing(info))).unwrap()
}

pub fn table(name: &str, fields: &[(&str, DataType)]) -> Stream {
    table_in(name, fields, 1, 1)
}

fn click_fields() -> Vec<(&'static str, DataType)> {
    vec![
        ("time", micros()),
        ("user", DataType::Int64),
        ("item", DataType::Utf8),
        ("price", DataType::Float64),
        ("tags", DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))),
    ]
}

/// Clicks without time, in two shards.
pub fn click_table() -> Stream {
    table_in("clicks", &click_fields(), 2, 1)
}

/// Clicks at a microsecond timestamp, in two shards.
pub fn clicks() -> Stream {
    click_table().ingress(TimeSpec::point("time"), IngressOptions::default()).unwrap()
}

/// Clicks in eight shards on two machines.
pub fn wide_clicks() -> Stream {
    let table = table_in("clicks", &click_fields(), 8, 2);
    table.ingress(TimeSpec::point("time"), IngressOptions::default()).unwrap()
}

/// Points on a logical clock.
pub fn ticks() -> Stream {
    let fields = [("t", DataType::Int64), ("k", DataType::Int32), ("v", DataType::Int32)];
    table("ticks", &fields).ingress(TimeSpec::point("t"), IngressOptions::default()).unwrap()
}

/// Intervals with ends that are known (or not) on a logical clock.
pub fn stays(end_known: bool) -> Stream {
    let schema = Schema::new(vec![
        Field::new("arr", DataType::Int64, false),
        Field::new("dep", DataType::Int64, !end_known),
        Field::new("guest", DataType::Int32, true),
    ]);
    let info = SourceInfo { schema: Arc::new(schema), bounded: true, shards: 1, groups: 1 };
    let table = Stream::scan("stays", Arc::new(Nothing(info))).unwrap();
    table.ingress(TimeSpec::interval("arr", "dep"), IngressOptions::default()).unwrap()
}

/// `name: type` of every column; `?` marks those that may be null.
pub fn columns(stream: &Stream) -> String {
    let column = |f: &Arc<Field>| {
        let null = if f.is_nullable() { "?" } else { "" };
        format!("{}: {}{null}", f.name(), whimbrel_plan::names::type_name(f.data_type()))
    };
    stream.schema().fields().iter().map(column).collect::<Vec<_>>().join(", ")
}

pub fn names(stream: &Stream) -> String {
    stream.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>().join(" ")
}

/// The message of the error, which has to be one that says: change the call.
#[track_caller]
pub fn invalid<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("this was to be refused"),
        Err(DataFusionError::Plan(message)) => message,
        Err(other) => panic!("not an invalid call but {other:?}"),
    }
}
