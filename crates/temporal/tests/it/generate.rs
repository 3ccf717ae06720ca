//! Streams at random, and random ways to cut them into messages.

use crate::formula::Formula;
use crate::model::{Event, Row, Value, record_batch};
use arrow::array::BooleanArray;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::logical_expr::Operator;
use proptest::prelude::*;
use std::sync::Arc;
use whimbrel_temporal::{BEGINNING, Batch, INFINITY, Message, Other, Time};

/// The batch sizes at which everything is run.
pub const BATCH_SIZES: [usize; 5] = [1, 2, 7, 1000, 80_000];

/// The payload of generated streams.
pub const KEY: usize = 0;
pub const NUMBER: usize = 1;
pub const TEXT: usize = 2;
pub const FLOAT: usize = 3;

pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, true),
        Field::new("number", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("float", DataType::Float64, true),
    ]))
}

/// Which lifetimes a stream may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kinds {
    Points,
    Constant,
    Intervals,
    Open,
    /// Intervals, start edges, start and end edges.
    Any,
}

/// A stream: its events, and the rows, in order, that tell them.
#[derive(Clone)]
pub struct Stream {
    pub schema: SchemaRef,
    pub events: Vec<Event>,
    /// Sync time, other time, and number of the event.
    rows: Vec<(Time, Time, usize)>,
}

/// An event, and how it is told.
#[derive(Debug, Clone)]
pub struct Draft {
    pub event: Event,
    /// By two edges, rather than by an interval.
    pub edges: bool,
    /// Whether the end edge goes before the rows that start then.
    pub early: bool,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (sync, other, number) in &self.rows {
            let other = if *other == INFINITY { "∞".to_string() } else { other.to_string() };
            write!(f, "\n  sync {sync} other {other} event {number} {:?}", self.events[*number].row)?;
        }
        Ok(())
    }
}

impl Stream {
    pub fn new(schema: SchemaRef, mut drafts: Vec<Draft>) -> Stream {
        drafts.sort_by_key(|d| d.event.start);
        let mut rows = Vec::new();
        for (number, Draft { event, edges, early }) in drafts.iter().enumerate() {
            let Event { start, end, .. } = *event;
            rows.push((start, if *edges { INFINITY } else { end }, number, 1));
            if *edges && end < INFINITY {
                rows.push((end, start, number, if *early { 0 } else { 2 }));
            }
        }
        rows.sort_by_key(|(sync, _, _, rank)| (*sync, *rank));
        let rows = rows.into_iter().map(|(sync, other, number, _)| (sync, other, number)).collect();
        Stream { schema, events: drafts.into_iter().map(|d| d.event).collect(), rows }
    }

    /// The same rows, of which every third was always there.
    pub fn always_there(self) -> Stream {
        let start = |i: usize, e: &Event| if i.is_multiple_of(3) { BEGINNING } else { e.start };
        let event = |(i, e): (usize, Event)| Event { start: start(i, &e), ..e };
        let draft = |event| Draft { event, edges: true, early: false };
        Stream::new(self.schema, self.events.into_iter().enumerate().map(event).map(draft).collect())
    }

    /// The same rows as a table at rest: they are alive always.
    pub fn at_rest(self) -> Stream {
        let event = |e: Event| Event { start: BEGINNING, end: INFINITY, ..e };
        let draft = |event| Draft { event, edges: true, early: false };
        Stream::new(self.schema, self.events.into_iter().map(event).map(draft).collect())
    }

    /// The same rows, of which those that start together come in another order.
    pub fn shuffled(self, dice: &mut Dice) -> Stream {
        let mut events: Vec<(usize, Event)> = self.events.into_iter().map(|e| (dice.below(256), e)).collect();
        events.sort_by_key(|(place, _)| *place);
        let draft = |(place, event)| Draft { event, edges: place % 2 == 0, early: place % 3 == 0 };
        Stream::new(self.schema, events.into_iter().map(draft).collect())
    }

    /// The same payloads, which come in the ascending order of these columns, nulls last.
    pub fn sorted_by(mut self, columns: &[usize]) -> Stream {
        let canonical = |value: &Value| match value {
            Value::Float(f) if f.is_nan() => Value::Float(f64::NAN),
            Value::Float(f) => Value::Float(f + 0.0),
            other => other.clone(),
        };
        let place = |value: &Value| (matches!(value, Value::Null), canonical(value));
        let mut payloads: Vec<Row> = self.events.iter().map(|event| event.row.clone()).collect();
        payloads.sort_by_key(|row| columns.iter().map(|column| place(&row[*column])).collect::<Vec<_>>());
        self.events.iter_mut().zip(payloads).for_each(|(event, row)| event.row = row);
        self
    }

    /// Whether a float is so large that the digits of others are lost beside it.
    pub fn has_huge_floats(&self) -> bool {
        self.events.iter().any(|e| is_huge(&e.row[FLOAT]))
    }

    /// The same rows with a null for every huge float.
    pub fn without_huge_floats(mut self) -> Stream {
        let floats = self.events.iter_mut().map(|e| &mut e.row[FLOAT]);
        floats.filter(|float| is_huge(float)).for_each(|float| *float = Value::Null);
        self
    }

    /// The stream as messages of at most so many rows.
    pub fn messages(&self, size: usize, dice: &mut Dice) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut told = Time::MIN;
        let mut from = 0;
        for at in 0..=self.rows.len() {
            let next = self.rows.get(at).map(|r| r.0);
            let punctuate = dice.one_in(6) || at == self.rows.len();
            if at > from && (at - from == size || punctuate) {
                messages.push(Message::Batch(self.batch(&self.rows[from..at], dice)));
                told = self.rows[at - 1].0;
                from = at;
            }
            let Some(next) = next else { break };
            if punctuate {
                let low = told.max(next.saturating_sub(5));
                told = low + dice.below((next - low) as usize + 1) as i64;
                messages.push(Message::Punctuation(told));
            }
        }
        if dice.one_in(2) {
            let last = self.rows.last().map_or(0, |r| r.0);
            messages.push(Message::Punctuation(told.max(last) + dice.below(50) as i64));
        }
        messages.push(Message::Punctuation(INFINITY));
        messages
    }

    fn batch(&self, rows: &[(Time, Time, usize)], dice: &mut Dice) -> Batch {
        let (mut sync, mut other, mut payload, mut keep) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let holes = dice.one_in(4);
        // A slice of a larger batch.
        let before = dice.one_in(3) as usize;
        for &(s, o, number) in rows[..before].iter().chain(rows) {
            // Rows that a filter has taken out mean nothing.
            for present in [true, false].into_iter().take(1 + (holes && dice.one_in(3)) as usize) {
                sync.push(s);
                other.push(o);
                payload.push(&self.events[number].row);
                keep.push(present);
            }
        }
        // The row before the slice may be there twice.
        let first = if before == 1 { 1 + !keep[1] as usize } else { 0 };
        let short = !dice.one_in(3);
        let duration = other[0].saturating_sub(sync[0]);
        let lives = |(s, o): (&Time, &Time)| *o < INFINITY && o.saturating_sub(*s) == duration;
        let constant = duration > 0 && sync.iter().zip(&other).all(lives);
        let form = match () {
            _ if short && other.iter().all(|&o| o == INFINITY) => Other::Open,
            _ if short && constant => Other::After(duration),
            _ => Other::Column(other.into()),
        };
        let mut batch = Batch::new(sync.into(), form, record_batch(&payload, &self.schema));
        // A key that was computed upstream.
        if dice.one_in(3) {
            let key = batch.key(&[KEY]).expect("a key");
            assert_eq!(key.hashes().len(), batch.len());
        }
        if keep.contains(&false) {
            batch.retain(&BooleanArray::from(keep));
        }
        batch.slice(first, batch.len() - first)
    }
}

/// A source of choices that proptest can shrink.
#[derive(Debug, Clone)]
pub struct Dice {
    faces: Vec<u8>,
    at: usize,
}

impl Dice {
    pub fn below(&mut self, n: usize) -> usize {
        self.at += 1;
        // A long period, so that choices do not fall in step with the rows.
        let face = self.faces[self.at % self.faces.len()] as usize + (self.at / self.faces.len()) * 31;
        face % n
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}

pub fn dice() -> impl Strategy<Value = Dice> {
    prop::collection::vec(any::<u8>(), 1..40).prop_map(|faces| Dice { faces, at: 0 })
}

/// The messages of several inputs in one order.
pub fn interleave(inputs: Vec<Vec<Message>>, dice: &mut Dice) -> Vec<(usize, Message)> {
    let mut inputs: Vec<_> = inputs.into_iter().map(|m| m.into_iter().peekable()).collect();
    let mut order = Vec::new();
    loop {
        let waiting: Vec<usize> = (0..inputs.len()).filter(|&i| inputs[i].peek().is_some()).collect();
        if waiting.is_empty() {
            return order;
        }
        let input = waiting[dice.below(waiting.len())];
        order.extend(inputs[input].next().map(|m| (input, m)));
    }
}

fn key() -> impl Strategy<Value = Value> {
    prop_oneof![5 => Just(Value::Int(1)), 4 => (0..6i64).prop_map(Value::Int), 1 => Just(Value::Null)]
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![8 => (-4..5i64).prop_map(Value::Int), 1 => Just(Value::Int(1 << 40)), 2 => Just(Value::Null)]
}

fn text() -> impl Strategy<Value = Value> {
    let texts =
        prop_oneof![4 => Just("a"), 2 => Just("b"), 1 => Just(""), 1 => Just("a text that is not inlined")];
    prop_oneof![8 => texts.prop_map(|t| Value::Text(t.to_string())), 1 => Just(Value::Null)]
}

/// Half a range of all floats.
const HUGE: f64 = 1.5 * f64::from_bits(2046 << 52);

/// Floats at the corners.
pub const ODD_FLOATS: [f64; 10] =
    [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, 0.0, -0.0, HUGE, -HUGE, HUGE / 6.0, -HUGE / 6.0];

fn is_huge(value: &Value) -> bool {
    matches!(value, Value::Float(f) if f.is_finite() && f.abs() > 1e300)
}

fn float() -> impl Strategy<Value = Value> {
    // Quarters: sums of them are exact, and can be keys again. So are sums of the huge ones.
    prop_oneof![
        20 => (-20..20i64).prop_map(|i| Value::Float(i as f64 * 0.25)),
        2 => Just(Value::Float(1e6)),
        2 => Just(Value::Null),
        1 => prop::sample::select(ODD_FLOATS.to_vec()).prop_map(Value::Float),
    ]
}

pub fn payload() -> impl Strategy<Value = Row> {
    (key(), number(), text(), float()).prop_map(|(k, n, t, f)| vec![k, n, t, f])
}

/// Streams with such lifetimes, of up to `most` events, some of them near the ends of time.
pub fn streams(kinds: Kinds, most: usize) -> impl Strategy<Value = Stream> {
    let ends = prop_oneof![Just(Time::MAX - 20_000), Just(Time::MIN + 20_000)];
    streams_from(prop_oneof![15 => origins(), 2 => ends], kinds, most)
}

/// Streams that can meet others under any rule: rules that multiply do not wrap here.
pub fn streams_near_zero(kinds: Kinds, most: usize) -> impl Strategy<Value = Stream> {
    streams_from(origins(), kinds, most)
}

fn origins() -> impl Strategy<Value = Time> {
    prop_oneof![Just(0i64), Just(-15), Just(1000)]
}

fn streams_from(
    origin: impl Strategy<Value = Time>,
    kinds: Kinds,
    most: usize,
) -> impl Strategy<Value = Stream> {
    let span = prop_oneof![Just(3i64), Just(25), Just(25), Just(400)];
    (span, origin, 1..12i64).prop_flat_map(move |(span, origin, duration)| {
        let draft = (0..span, 1..20i64, 0..4u8, any::<bool>(), payload());
        let draft = draft.prop_map(move |(at, lives, how, early, row)| {
            let start = origin + at;
            let end = match kinds {
                Kinds::Points => start + 1,
                Kinds::Constant => start + duration,
                Kinds::Intervals => start + lives,
                Kinds::Open => INFINITY,
                Kinds::Any if how == 3 && lives > 10 => INFINITY,
                Kinds::Any => start + lives,
            };
            let edges = kinds == Kinds::Any && how >= 2;
            Draft { event: Event { start, end, row }, edges, early }
        });
        prop::collection::vec(draft, 0..most).prop_map(|drafts| Stream::new(schema(), drafts))
    })
}

/// Conditions over the payload.
pub fn conditions() -> impl Strategy<Value = Formula> {
    let comparison = prop_oneof![
        (-3..4i64).prop_map(|n| Formula::column(NUMBER).binary(Operator::Lt, Formula::Int(n))),
        (0..4i64).prop_map(|n| Formula::column(KEY).binary(Operator::NotEq, Formula::Int(n))),
        Just(Formula::column(FLOAT).binary(Operator::GtEq, Formula::Float(0.0))),
        Just(Formula::column(KEY).binary(Operator::Eq, Formula::column(NUMBER))),
    ];
    let op = prop_oneof![Just(Operator::And), Just(Operator::Or)];
    comparison.prop_recursive(2, 4, 2, move |inner| {
        (inner.clone(), op.clone(), inner).prop_map(|(l, op, r)| l.binary(op, r))
    })
}
