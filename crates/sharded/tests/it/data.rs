//! Rows to test with, ways to run a query, and the one equality of streams.

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use whimbrel_plan::nodes::TimeSpec;
use whimbrel_plan::{Agg, AggFunction, Stream, column};
use whimbrel_sharded::action::collect;
use whimbrel_sharded::dataset::MemoryDataset;
use whimbrel_sharded::{Options, RuntimeKind};
use whimbrel_temporal::{BEGINNING, INFINITY, IngressOptions};

/// A column for a test's table.
pub fn ints(name: &str, values: impl IntoIterator<Item = i64>) -> (Field, ArrayRef) {
    (Field::new(name, DataType::Int64, false), Arc::new(Int64Array::from_iter_values(values)))
}

/// A column for a test's table.
pub fn texts<T: AsRef<str>>(name: &str, values: impl IntoIterator<Item = T>) -> (Field, ArrayRef) {
    (Field::new(name, DataType::Utf8, false), Arc::new(StringArray::from_iter_values(values)))
}

/// A table of these columns.
pub fn table(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
    let (fields, columns): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// A small generator of pseudorandom numbers.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n) as i64
    }
}

/// Clicks in order of time: `time`, `user`, `ad`, `cost`; ads are skewed.
pub fn clicks(rows: usize) -> RecordBatch {
    let mut random = Random(7);
    let mut time = 0;
    let times: Vec<i64> = (0..rows)
        .map(|_| {
            time += random.below(3);
            time
        })
        .collect();
    let users: Vec<i64> = (0..rows).map(|_| random.below(40)).collect();
    let ads: Vec<i64> = (0..rows).map(|_| random.below(12).min(random.below(12))).collect();
    let costs: Vec<i64> = (0..rows).map(|_| random.below(100)).collect();
    let ads = ads.iter().map(|a| format!("ad{a}"));
    table(vec![ints("time", times), ints("user", users), texts("ad", ads), ints("cost", costs)])
}

/// A table in so many shards, divided among so many machines.
pub fn dataset(rows: &RecordBatch, shards: usize, machines: usize) -> Arc<MemoryDataset> {
    let whole = MemoryDataset::new(rows.schema(), vec![vec![rows.clone()]]).unwrap();
    Arc::new(whole.with_shards(shards).unwrap().with_machines(machines).unwrap())
}

/// The table as a relation.
pub fn relation(rows: &RecordBatch, shards: usize, machines: usize) -> Stream {
    Stream::scan("table", dataset(rows, shards, machines)).unwrap()
}

/// The table as a stream of points.
pub fn points(rows: &RecordBatch, shards: usize, machines: usize) -> Stream {
    relation(rows, shards, machines).ingress(TimeSpec::point("time"), IngressOptions::default()).unwrap()
}

/// The count of rows as `n`.
pub fn count() -> Vec<(String, Agg)> {
    vec![("n".into(), Agg::count())]
}

/// The sum of `n` as `n`.
pub fn sum() -> Vec<(String, Agg)> {
    vec![("n".into(), Agg::of(AggFunction::Sum, column("n")))]
}

/// On all cores, with queues that are full at once.
pub fn local() -> Options {
    Options { queue_capacity: 1, batch_rows: 64, ..Options::default() }
}

/// On this thread.
pub fn library() -> Options {
    Options { runtime: RuntimeKind::Library, batch_rows: 64, ..Options::default() }
}

/// The rows of a result as text, sorted.
pub fn rows(stream: &Stream, options: &Options) -> Vec<String> {
    let mut rows = rows_in_order(stream, options);
    rows.sort();
    rows
}

/// The rows of a result as text, in its order.
pub fn rows_in_order(stream: &Stream, options: &Options) -> Vec<String> {
    let table = collect(stream, options).unwrap().wait().unwrap();
    table.batches.iter().flat_map(text).collect()
}

/// Rows as text.
pub fn text(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let columns: Vec<_> =
        batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).unwrap()).collect();
    let row = |i| columns.iter().map(|c| c.value(i).to_string()).collect::<Vec<_>>().join(" ");
    (0..batch.num_rows()).map(row).collect()
}

/// A changing relation in normal form: for every row the instants at which its multiplicity changes, and the
/// new multiplicity.
pub type Changes = BTreeMap<String, Vec<(i64, i64)>>;

/// The changing relation that a stream's result describes.
pub fn changes(stream: &Stream, options: &Options) -> Changes {
    let table = collect(stream, options).unwrap().wait().unwrap();
    let mut deltas: BTreeMap<String, BTreeMap<i64, i64>> = BTreeMap::new();
    for batch in &table.batches {
        let (starts, ends) = (times(batch, "start"), times(batch, "end"));
        for (i, row) in text(&payload(batch)).into_iter().enumerate() {
            let deltas = deltas.entry(row).or_default();
            *deltas.entry(starts[i].unwrap_or(BEGINNING)).or_default() += 1;
            *deltas.entry(ends[i].unwrap_or(INFINITY)).or_default() -= 1;
        }
    }
    deltas
        .into_iter()
        .map(|(row, deltas)| (row, steps(deltas)))
        .filter(|(_, steps)| !steps.is_empty())
        .collect()
}

fn steps(deltas: BTreeMap<i64, i64>) -> Vec<(i64, i64)> {
    let mut now = 0;
    deltas
        .into_iter()
        .filter(|(_, delta)| *delta != 0)
        .map(|(t, delta)| {
            now += delta;
            (t, now)
        })
        .collect()
}

/// The rows alive at the end of time, as text, sorted.
pub fn last_snapshot(stream: &Stream, options: &Options) -> Vec<String> {
    let table = collect(stream, options).unwrap().wait().unwrap();
    let mut rows = Vec::new();
    for batch in &table.batches {
        let ends = times(batch, "end");
        let text = text(&payload(batch));
        rows.extend(text.into_iter().zip(ends).filter(|(_, end)| end.is_none()).map(|(row, _)| row));
    }
    rows.sort();
    rows
}

fn times(batch: &RecordBatch, name: &str) -> Vec<Option<i64>> {
    batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().iter().collect()
}

fn payload(batch: &RecordBatch) -> RecordBatch {
    let schema: SchemaRef = batch.schema();
    let kept: Vec<usize> = (0..schema.fields().len())
        .filter(|i| !["start", "end"].contains(&schema.field(*i).name().as_str()))
        .collect();
    batch.project(&kept).unwrap()
}
