//! A session over files and memory, and queries run on every runtime.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use std::sync::Arc;
use whimbrel_plan::{Source, Stream};
use whimbrel_sharded::action::{self, Table};
use whimbrel_sharded::dataset::{FileDataset, MemoryDataset};
use whimbrel_sharded::{Options, RuntimeKind};
use whimbrel_sql::{FileOptions, Files, Planned, Session, render};

struct Datasets;

impl Files for Datasets {
    fn open(&self, location: &str, options: &FileOptions) -> Result<Arc<dyn Source>> {
        let locations: Vec<String> = location.lines().map(str::to_string).collect();
        Ok(Arc::new(FileDataset::open(&locations, options.shards)?))
    }

    fn table(&self, schema: SchemaRef, rows: Vec<RecordBatch>) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(MemoryDataset::new(schema, vec![rows])?))
    }
}

pub fn session() -> Session {
    Session::new(Arc::new(Datasets))
}

/// A session with these tables, each given as `name` and the statements that make it.
pub fn with(script: &str) -> Session {
    let mut session = session();
    for statement in Session::split(script).unwrap() {
        execute(&mut session, statement.text);
    }
    session
}

pub fn memory(columns: Vec<(&str, ArrayRef)>) -> Stream {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let dataset = MemoryDataset::new(batch.schema(), vec![vec![batch]]).unwrap();
    Stream::scan("memory", Arc::new(dataset)).unwrap()
}

pub fn plan(session: &mut Session, sql: &str) -> Planned {
    session.plan(sql).unwrap_or_else(|error| panic!("{}\n{error}", render(&error, sql)))
}

pub fn query(session: &mut Session, sql: &str) -> Stream {
    match plan(session, sql) {
        Planned::Query(stream) => stream,
        other => panic!("{sql}: {other:?}"),
    }
}

fn collected(stream: &Stream, runtime: RuntimeKind, sql: &str) -> Table {
    let options = Options { runtime, ..Options::default() };
    let ran = action::collect(stream, &options).and_then(|action| action.wait());
    ran.unwrap_or_else(|error| panic!("{sql}\n{}\n{error}", stream.explain().unwrap()))
}

/// Runs a statement, also one that stores.
pub fn execute(session: &mut Session, sql: &str) -> String {
    match plan(session, sql) {
        Planned::Store { stream, store } => {
            let table = collected(&stream, RuntimeKind::Library, sql);
            let stored = session.store(&store, table.schema, table.batches).unwrap();
            match &stored.returned {
                Some(rows) => texts(std::slice::from_ref(rows)).join("\n"),
                None => stored.summary(),
            }
        }
        Planned::Done(text) => text,
        Planned::Query(_) => run(session, sql).join("\n"),
        Planned::Table(rows) => texts(&[rows]).join("\n"),
        other => panic!("{sql}: {other:?}"),
    }
}

fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join(" "));
        }
    }
    rows
}

/// The rows of a query, which have to be the same in every runtime.
pub fn run(session: &mut Session, sql: &str) -> Vec<String> {
    let stream = query(session, sql);
    let rows = texts(&collected(&stream, RuntimeKind::Library, sql).batches);
    let again = texts(&collected(&stream, RuntimeKind::Local, sql).batches);
    assert_eq!(rows, again, "{sql}");
    rows
}

pub fn check(session: &mut Session, sql: &str, expected: &[&str]) {
    assert_eq!(run(session, sql), expected, "{sql}");
}

/// What is wrong with a statement, as people read it.
pub fn wrong(session: &mut Session, sql: &str) -> String {
    match session.plan(sql) {
        Err(error) => render(&error, sql),
        Ok(planned) => panic!("{sql} is not wrong: {planned:?}"),
    }
}
