//! What a stream means: the relation it describes, whatever its batches, edges and punctuations are.

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions,
};
use arrow::array::{BooleanArray, StringArray, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, SchemaRef};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use whimbrel_temporal::{BEGINNING, Batch, INFINITY, Kind, Message, Time};

/// A value of a payload.
#[derive(Debug, Clone)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Struct(Vec<Value>),
}

pub type Row = Vec<Value>;

/// A row and its lifetime `[start, end)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub start: Time,
    pub end: Time,
    pub row: Row,
}

impl Value {
    fn rank(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Int(_) => 2,
            Value::Float(_) => 3,
            Value::Text(_) => 4,
            Value::List(_) => 5,
            Value::Struct(_) => 6,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The one that stands for all values equal to it: -0.0 is 0.0, and all NaNs are one.
    pub fn of_equal(&self) -> Value {
        match self {
            Value::Float(f) if f.is_nan() => Value::Float(f64::NAN),
            Value::Float(f) if *f == 0.0 => Value::Float(0.0),
            Value::List(elements) => Value::List(elements.iter().map(Value::of_equal).collect()),
            Value::Struct(fields) => Value::Struct(fields.iter().map(Value::of_equal).collect()),
            other => other.clone(),
        }
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::List(a), Value::List(b)) | (Value::Struct(a), Value::Struct(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl std::hash::Hash for Value {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        match self {
            Value::Null => 0.hash(state),
            Value::Bool(b) => b.hash(state),
            Value::Int(i) => i.hash(state),
            Value::Float(f) => f.to_bits().hash(state),
            Value::Text(t) => t.hash(state),
            Value::List(values) | Value::Struct(values) => values.hash(state),
        }
    }
}

/// The value at a place of a column.
pub fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row).to_string()),
        DataType::List(_) => {
            let elements = array.as_list::<i32>().value(row);
            Value::List((0..elements.len()).map(|i| value(&elements, i)).collect())
        }
        DataType::Struct(_) => {
            Value::Struct(array.as_struct().columns().iter().map(|field| value(field, row)).collect())
        }
        _ => {
            let ints = cast(array, &DataType::Int64).expect("an integer column");
            Value::Int(ints.as_primitive::<Int64Type>().value(row))
        }
    }
}

/// A column of values.
pub fn column<'a>(values: impl Iterator<Item = &'a Value> + Clone, of: &DataType) -> ArrayRef {
    let int = |v: &Value| if let Value::Int(i) = v { Some(*i) } else { None };
    match of {
        DataType::Boolean => Arc::new(BooleanArray::from_iter(
            values.map(|v| if let Value::Bool(b) = v { Some(*b) } else { None }),
        )),
        DataType::Float64 => Arc::new(Float64Array::from_iter(
            values.map(|v| if let Value::Float(f) = v { Some(*f) } else { None }),
        )),
        DataType::Utf8 => Arc::new(StringArray::from_iter(
            values.map(|v| if let Value::Text(t) = v { Some(t.as_str()) } else { None }),
        )),
        DataType::List(_) => {
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(values.map(|v| match v {
                Value::List(elements) => Some(elements.iter().map(int).collect::<Vec<_>>()),
                _ => None,
            })))
        }
        DataType::Struct(fields) => {
            let valid: Vec<bool> = values.clone().map(|v| !v.is_null()).collect();
            let part =
                |i: usize, v: &'a Value| if let Value::Struct(parts) = v { &parts[i] } else { &Value::Null };
            let part = |i: usize| values.clone().map(|v| part(i, v)).collect::<Vec<_>>().into_iter();
            let parts = fields.iter().enumerate().map(|(i, f)| column(part(i), f.data_type())).collect();
            Arc::new(StructArray::new(fields.clone(), parts, Some(valid.into())))
        }
        other => cast(&Int64Array::from_iter(values.map(int)), other).expect("a column of numbers"),
    }
}

/// Rows as columns.
pub fn record_batch(rows: &[&Row], schema: &SchemaRef) -> RecordBatch {
    let columns = schema.fields().iter().enumerate();
    let columns = columns.map(|(c, f)| column(rows.iter().map(|r| &r[c]), f.data_type())).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).expect("rows of this schema")
}

/// A row of a batch, as it is in the stream.
#[derive(Debug, Clone, PartialEq, PartialOrd, Eq, Ord)]
pub struct Physical {
    pub sync: Time,
    pub other: Time,
    pub row: Row,
}

/// The rows of a batch that are present.
pub fn physical(batch: &Batch) -> Vec<Physical> {
    let present = |&i: &usize| batch.present().is_none_or(|p| p.value(i));
    let row = |i: usize| batch.rows.columns().iter().map(|c| value(c, i)).collect();
    let at = |i: usize| Physical { sync: batch.sync[i], other: batch.other_at(i), row: row(i) };
    (0..batch.len()).filter(present).map(at).collect()
}

/// Reads a stream, and panics if it is not one.
#[derive(Default)]
pub struct Decoder {
    events: Vec<Event>,
    open: HashMap<(Row, Time), VecDeque<usize>>,
    latest: Option<Time>,
    pub punctuated: Option<Time>,
}

impl Decoder {
    pub fn push(&mut self, message: &Message) {
        assert_ne!(self.punctuated, Some(INFINITY), "{message:?} after the end of the stream");
        match message {
            Message::Punctuation(time) => {
                assert!(
                    self.punctuated.is_none_or(|p| p <= *time),
                    "punctuation {time} after {:?}",
                    self.punctuated
                );
                self.punctuated = Some(*time);
            }
            Message::Batch(batch) => {
                assert!(batch.sync.is_sorted(), "sync times go backwards within a batch: {:?}", batch.sync);
                physical(batch).into_iter().for_each(|row| self.row(row));
            }
        }
    }

    fn row(&mut self, Physical { sync, other, row }: Physical) {
        assert!(self.latest.is_none_or(|l| l <= sync), "{row:?} at {sync}, after {:?}", self.latest);
        assert!(
            self.punctuated.is_none_or(|p| p <= sync),
            "{row:?} at {sync}, punctuated at {:?}",
            self.punctuated
        );
        assert!(sync < INFINITY && other != sync, "{row:?} at {sync} with other time {other}");
        self.latest = Some(sync);
        match Kind::of(sync, other) {
            Kind::Interval => self.events.push(Event { start: sync, end: other, row }),
            Kind::Start => {
                self.open.entry((row.clone(), sync)).or_default().push_back(self.events.len());
                self.events.push(Event { start: sync, end: INFINITY, row });
            }
            Kind::End => {
                let open = self.open.get_mut(&(row.clone(), other)).and_then(VecDeque::pop_front);
                let open =
                    open.unwrap_or_else(|| panic!("{row:?}: an end edge at {sync} without start at {other}"));
                self.events[open].end = sync;
            }
        }
    }

    /// The events; the stream must have ended.
    pub fn finish(self) -> Vec<Event> {
        assert_eq!(self.punctuated, Some(INFINITY), "the end of the stream has not been told");
        self.events
    }
}

/// The events of a whole stream.
pub fn decode<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<Event> {
    let mut decoder = Decoder::default();
    messages.into_iter().for_each(|m| decoder.push(m));
    decoder.finish()
}

/// How the multiplicity of each payload changes over time.
pub type Relation = BTreeMap<Row, BTreeMap<Time, i64>>;

fn relation(events: &[Event]) -> Relation {
    let mut relation = Relation::new();
    for Event { start, end, row } in events {
        let changes = relation.entry(row.clone()).or_default();
        *changes.entry(*start).or_default() += 1;
        if *end < INFINITY {
            *changes.entry(*end).or_default() -= 1;
        }
    }
    relation.values_mut().for_each(|changes| changes.retain(|_, by| *by != 0));
    relation.retain(|_, changes| !changes.is_empty());
    relation
}

/// Replaces floats that differ by rounding only by one and the same float.
struct Rounding(Vec<(f64, f64)>);

impl Rounding {
    fn of<'a>(events: impl Iterator<Item = &'a Event>) -> Rounding {
        let mut floats: Vec<f64> = Vec::new();
        for value in events.flat_map(|e| &e.row) {
            if let Value::Float(f) = value {
                floats.push(*f);
            }
        }
        floats.sort_by(f64::total_cmp);
        floats.dedup_by_key(|f| f.to_bits());
        let mut same = Vec::new();
        let mut last: Option<(f64, f64)> = None;
        for f in floats {
            let close = |a: f64| {
                a.is_finite() && f.is_finite() && (f - a).abs() <= 1e-9 * f.abs().max(a.abs()).max(1e-3)
            };
            let shared = match last {
                Some((before, shared)) if close(before) => shared,
                _ => f,
            };
            last = Some((f, shared));
            same.push((f, shared));
        }
        Rounding(same)
    }

    fn events(&self, events: &[Event]) -> Vec<Event> {
        let value = |v: &Value| match v {
            // Which of them a computation gives, no rule says.
            Value::Float(f) if f.is_nan() => Value::Float(f64::NAN),
            Value::Float(f) => {
                let at = self.0.binary_search_by(|(known, _)| known.total_cmp(f));
                Value::Float(at.map_or(*f, |at| self.0[at].1))
            }
            other => other.clone(),
        };
        let event = |e: &Event| Event { row: e.row.iter().map(value).collect(), ..*e };
        events.iter().map(event).collect()
    }
}

/// Panics, with the payloads that differ, unless both describe the same changing relation.
pub fn assert_same(expected: &[Event], found: &[Event], what: &str) {
    let rounding = Rounding::of(expected.iter().chain(found));
    assert_identical(&rounding.events(expected), &rounding.events(found), what);
}

/// The same, where floats have to be equal to the bit.
pub fn assert_identical(expected: &[Event], found: &[Event], what: &str) {
    let (expected, found) = (relation(expected), relation(found));
    if expected == found {
        return;
    }
    let rows = expected.keys().chain(found.keys()).filter(|r| expected.get(*r) != found.get(*r));
    let mut lines: Vec<String> = rows
        .map(|r| format!("  {r:?}\n    expected {:?}\n    found    {:?}", expected.get(r), found.get(r)))
        .collect();
    lines.sort();
    lines.dedup();
    lines.truncate(8);
    panic!("{what}: not the same relation; changes of multiplicity by time:\n{}", lines.join("\n"));
}

/// What messages say, apart from how they are cut into batches and how rows of one instant are ordered.
pub fn contents(messages: &[(usize, Message)]) -> Vec<(usize, Time, Vec<Physical>)> {
    let mut rows: Vec<Physical> = Vec::new();
    let mut told = Vec::new();
    for (output, message) in messages {
        match message {
            Message::Batch(batch) => rows.extend(physical(batch)),
            Message::Punctuation(time) => {
                rows.sort();
                told.push((*output, *time, std::mem::take(&mut rows)));
            }
        }
    }
    rows.sort();
    told.push((0, BEGINNING, rows));
    told
}
