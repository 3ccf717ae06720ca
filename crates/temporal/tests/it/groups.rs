//! Keys of every type through the operators that group, and keys that come and go.

use crate::calls::Call;
use crate::formula::Formula;
use crate::model::{Event, Value, assert_same, decode, value};
use crate::oracle;
use crate::plan::aggregate_calls;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow::compute::{can_cast_types, cast};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use std::num::NonZeroUsize;
use std::sync::Arc;
use whimbrel_temporal::operators::{
    Aggregate, AggregateFunction as F, Chop, Clip, ClipConstant, Coalesce, CoalesceOrder, Emission, Exists,
    Fraction, Join, PointAtEnd, Session,
};
use whimbrel_temporal::{Batch, INFINITY, Key, Lifetimes, Message, Operator, Other, Time};

fn types() -> Vec<DataType> {
    use DataType::*;
    vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float32,
        Float64,
        Decimal128(12, 2),
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Millisecond, None),
        Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        Duration(TimeUnit::Microsecond),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        Dictionary(Box::new(Int32), Box::new(Utf8)),
    ]
}

/// Small numbers as a column of this type.
fn column(numbers: &[Option<i64>], of: &DataType) -> ArrayRef {
    let wide: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
    let steps = [DataType::Int64, DataType::Int32, DataType::Utf8];
    let step = steps.iter().find(|step| can_cast_types(step, of)).expect("a way to this type");
    cast(&cast(&wide, step).expect("casts"), of).expect("casts")
}

/// The column as text, which every type has; of lists and structs what is in them.
fn as_text(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            let elements = as_text(lists.values());
            let item = Arc::new(Field::new_list_field(elements.data_type().clone(), true));
            return Arc::new(ListArray::new(item, lists.offsets().clone(), elements, lists.nulls().cloned()));
        }
        DataType::Struct(fields) => {
            let columns: Vec<ArrayRef> = column.as_struct().columns().iter().map(as_text).collect();
            let field = |(f, c): (&FieldRef, &ArrayRef)| Field::new(f.name(), c.data_type().clone(), true);
            let fields = fields.iter().zip(&columns).map(field).collect();
            return Arc::new(StructArray::new(fields, columns, column.nulls().cloned()));
        }
        _ => {}
    }
    let bytes = matches!(column.data_type(), DataType::Binary);
    let plain = if bytes { cast(column, &DataType::Utf8) } else { Ok(column.clone()) };
    cast(&plain.expect("casts"), &DataType::Utf8).expect("casts")
}

const NUMBERS: [Option<i64>; 9] = [Some(1), None, Some(0), Some(1), Some(1), None, Some(0), None, Some(1)];

/// Two columns, a key and an argument, and nine rows that live six ticks from 0, 1, 2 ... on.
fn stream(key: ArrayRef, argument: ArrayRef) -> (SchemaRef, Vec<Event>, Vec<Message>) {
    let field = |name, a: &ArrayRef| Field::new(name, a.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field("key", &key), field("argument", &argument)]));
    let texts = [as_text(&key), as_text(&argument)];
    let row = |i: usize| texts.iter().map(|t| value(t, i)).collect();
    let event = |i: usize| Event { start: i as i64, end: i as i64 + 6, row: row(i) };
    let events = (0..key.len()).map(event).collect();
    let rows = RecordBatch::try_new(schema.clone(), vec![key, argument]).expect("two columns");
    let sync: Vec<Time> = (0..rows.num_rows() as i64).collect();
    let batch = Batch::new(sync.into(), Other::After(6), rows);
    let halves = [batch.slice(0, 4), batch.slice(4, batch.len() - 4)].map(Message::Batch);
    (schema, events, halves.into_iter().chain([Message::Punctuation(INFINITY)]).collect())
}

/// The result with all columns as text.
fn texts(message: Message) -> Message {
    let Message::Batch(batch) = message else { return message };
    let columns: Vec<ArrayRef> = batch.rows.columns().iter().map(as_text).collect();
    let fields = batch
        .rows
        .schema()
        .fields()
        .iter()
        .zip(&columns)
        .map(|(f, c)| Field::new(f.name(), c.data_type().clone(), true))
        .collect::<Vec<_>>();
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("texts");
    Message::Batch(batch.with_rows(rows, None))
}

fn run(operator: &mut dyn Operator, messages: Vec<Message>) -> Vec<Message> {
    let mut out = Vec::new();
    messages.into_iter().for_each(|m| operator.push(0, m, &mut out).expect("computes"));
    out
}

const LIFETIMES: [Lifetimes; 3] = [Lifetimes::Any, Lifetimes::Constant(6), Lifetimes::Intervals];

#[test]
fn keys_and_arguments_of_every_type() {
    let call = |function| Call { function, argument: Some(Formula::column(1)), filter: None };
    let fraction = Fraction::new(0.6).expect("a fraction");
    let by = |function| Call { argument: Some(Formula::pair(1, 0)), ..call(function) };
    let top = F::TopK { k: NonZeroUsize::MIN, ties: true, descending: true };
    let mut calls = [F::Min, F::Max, F::First, F::Last, F::Count, F::CountDistinct].map(call).to_vec();
    let percentile = F::Percentile { fraction, continuous: false };
    calls.extend([percentile, top, F::Collect, F::Single].map(call));
    calls.extend([F::MaxBy, F::MinBy].map(by));
    for of in types() {
        let (schema, events, messages) = stream(column(&NUMBERS, &of), column(&NUMBERS, &of));
        let mut expected = oracle::aggregate(&events, &[0], &calls);
        let numbers = |e: &mut Event| e.row[5..].iter_mut().for_each(|v| *v = number_as_text(v));
        expected.iter_mut().for_each(numbers);
        let emissions = [Emission::OnStart, Emission::OnClose];
        for (lifetimes, emission) in LIFETIMES.into_iter().flat_map(|l| emissions.map(|e| (l, e))) {
            let plan = aggregate_calls(&calls, &schema);
            let mut aggregate =
                Aggregate::emitting(emission, schema.clone(), vec![0], plan, lifetimes).expect("aggregates");
            let out = run(&mut aggregate, messages.clone());
            for message in &out {
                if let Message::Batch(batch) = message {
                    assert_eq!(&batch.rows.schema(), aggregate.schema(), "{of}");
                    assert_eq!(batch.rows.column(0).data_type(), &of);
                }
            }
            let found: Vec<Message> = out.into_iter().map(texts).collect();
            assert_same(&expected, &decode(&found), &format!("{of}, {lifetimes:?}"));
        }
    }
}

fn number_as_text(value: &Value) -> Value {
    match value {
        Value::Int(i) => Value::Text(i.to_string()),
        Value::List(values) => Value::List(values.iter().map(number_as_text).collect()),
        Value::Struct(values) => Value::Struct(values.iter().map(number_as_text).collect()),
        other => other.clone(),
    }
}

/// A row's hash tells its shard: it is the same in any batch.
#[test]
fn hashes_depend_on_values_only() {
    for of in types() {
        let hashes = |numbers: &[Option<i64>]| {
            let columns = vec![column(numbers, &of), column(numbers, &of)];
            let schema = Schema::new(["a", "b"].map(|name| Field::new(name, of.clone(), true)).to_vec());
            let rows = RecordBatch::try_new(Arc::new(schema), columns).expect("two columns");
            let key = |columns: &[usize]| Key::of(&rows, columns).expect("a key").hashes().to_vec();
            [key(&[0]), key(&[0, 1])]
        };
        for number in [Some(1), None, Some(0)] {
            for (one, all) in hashes(&[number]).iter().zip(hashes(&NUMBERS)) {
                let same = NUMBERS.iter().zip(&all).all(|(n, hash)| (*n == number) == (*hash == one[0]));
                assert!(same, "{of}: {number:?} has hash {one:?} alone and is among {all:?}");
            }
        }
    }
}

#[test]
fn distinct_of_every_type() {
    for of in types() {
        let (schema, events, messages) = stream(column(&NUMBERS, &of), column(&NUMBERS, &of));
        let mut distinct = Aggregate::distinct(schema, Lifetimes::Any).expect("distinct");
        let found: Vec<Message> = run(&mut distinct, messages).into_iter().map(texts).collect();
        assert_same(&oracle::distinct(&events), &decode(&found), &of.to_string());
    }
}

#[test]
fn zeros_are_one_group() {
    let zeros: ArrayRef = Arc::new(arrow::array::Float64Array::from(vec![0.0, -0.0, 0.0, -0.0]));
    let (schema, _, messages) = stream(zeros.clone(), zeros);
    let calls = [Call { function: F::CountDistinct, argument: Some(Formula::column(1)), filter: None }];
    let plan = aggregate_calls(&calls, &schema);
    let mut aggregate = Aggregate::new(schema, vec![0], plan, Lifetimes::Any).expect("aggregates");
    let most = decode(&run(&mut aggregate, messages)).iter().filter(|e| e.start == 3).count();
    assert_eq!(most, 1, "-0.0 equals 0.0, as a key and as an argument");
}

/// A thousand new keys a tick, each alive for five ticks: half of the messages, then the other half.
struct Churn {
    text: bool,
    other: fn(Time) -> Option<Time>,
}

const TICKS: i64 = 400;
const KEYS: i64 = 500;

impl Churn {
    fn schema(&self) -> SchemaRef {
        let of = if self.text { DataType::Utf8 } else { DataType::Int64 };
        Arc::new(Schema::new(vec![Field::new("key", of, true), Field::new("value", DataType::Int64, true)]))
    }

    fn rows(&self, tick: i64) -> RecordBatch {
        let keys = tick * KEYS..(tick + 1) * KEYS;
        let key: ArrayRef = match self.text {
            true => Arc::new(StringArray::from_iter_values(
                keys.map(|k| format!("a key of some length, no. {k}")),
            )),
            false => Arc::new(Int64Array::from_iter_values(keys)),
        };
        let values = Arc::new(Int64Array::from(vec![1; KEYS as usize]));
        RecordBatch::try_new(self.schema(), vec![key, values]).expect("two columns")
    }

    /// The rows that start at a tick, and the end edges of those that end.
    fn messages(&self, tick: i64) -> Vec<Message> {
        let batch = |rows: RecordBatch, other: Time| {
            let (sync, other) = (vec![tick; rows.num_rows()], vec![other; rows.num_rows()]);
            Message::Batch(Batch::new(sync.into(), Other::Column(other.into()), rows))
        };
        match (self.other)(tick) {
            Some(end) => vec![batch(self.rows(tick), end)],
            None if tick < 5 => vec![batch(self.rows(tick), INFINITY)],
            None => vec![batch(self.rows(tick - 5), tick - 5), batch(self.rows(tick), INFINITY)],
        }
    }

    /// The largest size of the state in the first half and in the second.
    fn run(&self, operator: &mut dyn Operator) -> (usize, usize) {
        let mut sizes = [0, 0];
        let mut out = Vec::new();
        for tick in 0..TICKS {
            for input in 0..operator.inputs() {
                for message in self.messages(tick) {
                    operator.push(input, message, &mut out).expect("computes");
                    out.clear();
                }
            }
            if tick % 10 == 0 {
                let largest = &mut sizes[(tick >= TICKS / 2) as usize];
                *largest = operator.save().expect("a checkpoint").len().max(*largest);
            }
        }
        (sizes[0], sizes[1])
    }
}

/// The columns of rows at the end of their session.
fn with_first(schema: &SchemaRef) -> SchemaRef {
    let first = Arc::new(Field::new("first", DataType::Int64, false));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain([first]).collect::<Vec<_>>()))
}

fn operators(schema: &SchemaRef) -> Vec<(&'static str, Box<dyn Operator>)> {
    let calls = [F::Count, F::Min, F::Last].map(|f| Call {
        function: f,
        argument: Some(Formula::column(1)),
        filter: None,
    });
    let calls = aggregate_calls(&calls, schema);
    let aggregate = Aggregate::new(schema.clone(), vec![0], calls, Lifetimes::Any).expect("aggregates");
    let key = || vec![0];
    vec![
        ("aggregate", Box::new(aggregate)),
        ("distinct", Box::new(Aggregate::distinct(schema.clone(), Lifetimes::Any).expect("distinct"))),
        ("session", Box::new(Session::new(key(), 3, None))),
        ("session windows", Box::new(Session::new(key(), 3, None).windows(with_first(schema)))),
        ("chop", Box::new(Chop::new(3, 0))),
        ("clip_constant", Box::new(ClipConstant::new(3))),
        ("clip", Box::new(Clip::new(key(), key()))),
        ("point_at_end", Box::new(PointAtEnd::new())),
        ("exists", Box::new(Exists::new(false, key(), key()))),
        ("not_exists", Box::new(Exists::new(true, key(), key()))),
        ("join", Box::new(Join::new(schema.clone(), schema.clone(), key(), key()))),
        ("coalesce by start", Box::new(Coalesce::new(CoalesceOrder::Start))),
        ("coalesce by end", Box::new(Coalesce::new(CoalesceOrder::End))),
    ]
}

#[test]
fn keys_that_have_gone_leave_nothing_behind() {
    let lives: [fn(Time) -> Option<Time>; 2] = [|tick| Some(tick + 5), |_| None];
    for (text, other) in [false, true].into_iter().flat_map(|text| lives.map(|other| (text, other))) {
        let churn = Churn { text, other };
        for (name, mut operator) in operators(&churn.schema()) {
            let (half, whole) = churn.run(operator.as_mut());
            assert!(
                whole <= half * 6 / 5,
                "{name}, text {text}: the state grows from {half} to {whole} bytes"
            );
        }
    }
}

/// Intervals wait behind one row whose end is not known, and then go: so do their groups.
#[test]
fn what_waited_behind_an_open_row_leaves_nothing_behind() {
    let churn = Churn { text: true, other: |tick| Some(tick + 1) };
    let mut coalesce = Coalesce::new(CoalesceOrder::Start);
    let mut sizes = Vec::new();
    for round in 0..40 {
        let edge = |sync, other| {
            let rows = churn.rows(round).slice(0, 1);
            Message::Batch(Batch::new(vec![sync].into(), Other::Column(vec![other].into()), rows))
        };
        let [Message::Batch(waiting)] = &churn.messages(round)[..] else { panic!("one batch") };
        let (tick, len) = (round * 10, waiting.len());
        let waiting = waiting.with_times(vec![tick + 1; len].into(), Other::After(2));
        let messages = vec![edge(tick, INFINITY), Message::Batch(waiting), edge(tick + 5, tick)];
        let rows: usize = run(&mut coalesce, messages).iter().map(rows_in).sum();
        assert_eq!(rows, len + 1);
        sizes.push(coalesce.save().expect("a checkpoint").len());
    }
    assert!(
        sizes[39] < sizes[20] * 5 / 4 + 1000,
        "the state grows from {} to {} bytes",
        sizes[20],
        sizes[39]
    );
}

fn rows_in(message: &Message) -> usize {
    if let Message::Batch(batch) = message { batch.len() } else { 0 }
}

/// Long keys that come several times an instant and go at once: the table of keys is rewritten each time.
#[test]
fn many_rows_of_long_keys() {
    let field = Field::new("key", DataType::Utf8, false);
    let schema = Arc::new(Schema::new(vec![field]));
    let keys = |from: usize| (0..300).map(move |i| format!("{:0>400}", (from * 7 + i / 3) % 5000));
    let operators: [Box<dyn Operator>; 4] = [
        Box::new(Exists::new(true, vec![0], vec![0])),
        Box::new(Join::new(schema.clone(), schema.clone(), vec![0], vec![0])),
        Box::new(Clip::new(vec![0], vec![0])),
        Box::new(ClipConstant::new(1)),
    ];
    for mut operator in operators {
        for tick in 0..40 {
            for input in 0..operator.inputs() {
                let keys: ArrayRef = Arc::new(StringArray::from_iter_values(keys(tick)));
                let rows = RecordBatch::try_new(schema.clone(), vec![keys]).expect("one column");
                let batch = Batch::new(vec![tick as i64 * 3; 300].into(), Other::After(1), rows);
                let mut out = Vec::new();
                operator.push(input, Message::Batch(batch), &mut out).expect("computes");
            }
        }
    }
}

/// A million groups, a thousand alive at a time.
#[test]
fn a_million_groups_come_and_go() {
    for lifetimes in [Lifetimes::Constant(1), Lifetimes::Points, Lifetimes::Intervals] {
        let churn = Churn { text: false, other: |tick| Some(tick + 1) };
        let calls = [Call { function: F::Sum, argument: Some(Formula::column(1)), filter: None }];
        let calls = aggregate_calls(&calls, &churn.schema());
        let mut aggregate = Aggregate::new(churn.schema(), vec![0], calls, lifetimes).expect("aggregates");
        let (mut out, mut rows) = (Vec::new(), 0);
        for tick in 0..1_000_000 / KEYS {
            churn.messages(tick).into_iter().for_each(|m| aggregate.push(0, m, &mut out).expect("computes"));
            rows += out.drain(..).map(|m| rows_in(&m)).sum::<usize>();
        }
        aggregate.push(0, Message::Punctuation(INFINITY), &mut out).expect("computes");
        rows += out.drain(..).map(|m| rows_in(&m)).sum::<usize>();
        let told_as_edges = if lifetimes == Lifetimes::Points { 1 } else { 2 };
        assert_eq!(rows, told_as_edges * 1_000_000);
        let size = aggregate.save().expect("a checkpoint").len();
        assert!(size < 200_000, "{size} bytes of state after all groups have gone");
    }
}

/// Every float equals one of these: whatever its bits and its type, also within lists, it is in the same
/// group and shard.
#[test]
fn equal_floats_are_one_key() {
    let floats = [0.0, -0.0, f64::NAN, -f64::NAN, f64::from_bits(f64::NAN.to_bits() | 1), 1.5, f64::INFINITY];
    let kinds = [0, 0, 1, 1, 1, 2, 3];
    let column: ArrayRef = Arc::new(arrow::array::Float64Array::from(floats.to_vec()));
    let item = |of: DataType| Arc::new(Field::new_list_field(of, true));
    let pair = DataType::Struct(vec![Field::new("f", DataType::Float64, true)].into());
    let single = arrow::array::StructArray::from(vec![(
        Arc::new(Field::new("f", DataType::Float64, true)),
        column.clone(),
    )]);
    assert_eq!(single.data_type(), &pair);
    let columns: Vec<ArrayRef> = vec![
        column.clone(),
        cast(&column, &DataType::Float32).expect("a cast"),
        cast(&column, &DataType::Float16).expect("a cast"),
        cast(&column, &DataType::List(item(DataType::Float64))).expect("a cast"),
        cast(&column, &DataType::FixedSizeList(item(DataType::Float32), 1)).expect("a cast"),
        cast(&column, &DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Float64)))
            .expect("a cast"),
        Arc::new(single),
    ];
    for column in columns {
        let of = column.data_type().clone();
        let schema = Arc::new(Schema::new(vec![Field::new("f", of.clone(), true)]));
        let rows = RecordBatch::try_new(schema.clone(), vec![column]).expect("a column");
        let hashes = Key::of(&rows, &[0]).expect("a key").hashes().to_vec();
        for (one, other) in (0..7).flat_map(|one| (0..7).map(move |other| (one, other))) {
            assert_eq!(hashes[one] == hashes[other], kinds[one] == kinds[other], "{of}: {one} and {other}");
        }
        let batch = Message::Batch(Batch::new(vec![1; 7].into(), Other::Open, rows));
        let messages = vec![batch, Message::Punctuation(INFINITY)];
        let distinct = Call { function: F::CountDistinct, argument: Some(Formula::column(0)), filter: None };
        let calls = aggregate_calls(&[distinct], &schema);
        let mut aggregate =
            Aggregate::new(schema.clone(), vec![], calls, Lifetimes::Any).expect("aggregates");
        assert_eq!(
            decode(&run(&mut aggregate, messages.clone()))[0].row,
            [crate::model::Value::Int(4)],
            "{of}"
        );
        let calls = aggregate_calls(&[Call { function: F::Count, argument: None, filter: None }], &schema);
        let mut aggregate = Aggregate::new(schema, vec![0], calls, Lifetimes::Any).expect("aggregates");
        let groups = run(&mut aggregate, messages);
        let counted = |message: &Message| if let Message::Batch(batch) = message { batch.len() } else { 0 };
        assert_eq!(groups.iter().map(counted).sum::<usize>(), 4, "{of}");
    }
}
