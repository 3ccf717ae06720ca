//! How many events a second a pattern of ten states takes, over ten thousand keys.
//!
//! `cargo run --release --example pattern -p whimbrel-temporal`

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator as Op;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use std::sync::Arc;
use std::time::Instant;
use whimbrel_temporal::operators::{
    AfterMatch, Detect, Element, MatchRecognize, Overlap, Quantifier, Regex, RegisterField, RowPattern,
    Simultaneous, quantified,
};
use whimbrel_temporal::{Batch, INFINITY, Message, Operator, Other};

const KEYS: i64 = 10_000;
const STATES: i64 = 10;
const EVENTS: usize = 4_000_000;
const BATCH: usize = 80_000;
const RUNS: usize = 5;

type Expr = Arc<dyn PhysicalExpr>;

fn schema() -> SchemaRef {
    let field = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![field("key"), field("step")]))
}

/// Every key goes step by step; one event of sixteen is out of step. Ten events happen at an instant.
fn messages() -> Result<Vec<Message>> {
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    let mut roll = move || {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice
    };
    let mut steps = vec![0; KEYS as usize];
    let mut messages = Vec::new();
    for first in (0..EVENTS).step_by(BATCH) {
        let (mut times, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for event in first..first + BATCH {
            let key = roll() % KEYS as u64;
            let step: &mut i64 = &mut steps[key as usize];
            times.push(event as i64 / 10);
            keys.push(key as i64);
            values.push(if roll() % 16 == 0 { STATES } else { *step });
            *step = (*step + 1) % STATES;
        }
        let columns: [Arc<dyn arrow::array::Array>; 2] =
            [Arc::new(Int64Array::from(keys)), Arc::new(Int64Array::from(values))];
        let rows = RecordBatch::try_new(schema(), columns.to_vec())?;
        messages.push(Message::Batch(Batch::new(times.into(), Other::After(1), rows)));
    }
    messages.push(Message::Punctuation(INFINITY));
    Ok(messages)
}

fn binary(left: Expr, op: Op, right: Expr) -> Expr {
    Arc::new(BinaryExpr::new(left, op, right))
}

fn column(name: &str, index: usize) -> Expr {
    Arc::new(Column::new(name, index))
}

fn number(value: i64) -> Expr {
    Arc::new(Literal::new(ScalarValue::Int64(Some(value))))
}

fn is_step(step: i64) -> Expr {
    binary(column("step", 1), Op::Eq, number(step))
}

/// The steps one after another.
fn sequence(element: impl Fn(i64) -> Result<Regex>) -> Result<Regex> {
    Ok(Regex::Concat((0..STATES).map(element).collect::<Result<_>>()?))
}

fn detect(
    pattern: &Regex,
    register: Vec<RegisterField>,
    overlap: Overlap,
    how: Simultaneous,
) -> Result<Detect> {
    Detect::try_new(&pattern.automaton(register)?, &schema(), vec![0], 1_000_000, overlap, how)
}

fn recognize(pattern: &Regex, register: Vec<RegisterField>) -> Result<MatchRecognize> {
    let pattern = RowPattern {
        automaton: pattern.automaton(register)?,
        key: vec![0],
        previous: vec![],
        within: Some(1_000_000),
        after_match: AfterMatch::PastLastRow,
        match_number: None,
        simultaneous: Simultaneous::Ordered,
    };
    MatchRecognize::try_new(pattern, &schema())
}

/// Prints the events a second of the first run and of the median one.
fn measure<O: Operator>(name: &str, new: impl Fn() -> Result<O>, messages: &[Message]) -> Result<()> {
    let (mut rates, mut matches) = (Vec::new(), 0);
    for _ in 0..RUNS {
        let mut operator = new()?;
        let mut out = Vec::new();
        matches = 0;
        let begin = Instant::now();
        for message in messages {
            operator.push(0, message.clone(), &mut out)?;
            let rows = |message: Message| if let Message::Batch(batch) = message { batch.len() } else { 0 };
            matches += out.drain(..).map(rows).sum::<usize>();
        }
        rates.push(EVENTS as f64 / begin.elapsed().as_secs_f64() / 1e6);
    }
    let first = rates[0];
    rates.sort_by(f64::total_cmp);
    println!("{name:40} {first:8.1} {:8.1} million events/s, {matches} matches", rates[RUNS / 2]);
    Ok(())
}

fn main() -> Result<()> {
    let messages = messages()?;
    println!("{:40} {:>8} {:>8}", "", "first", "median");
    let plain = sequence(|step| Ok(Regex::event(Element::when(is_step(step)))))?;
    let (one, many) = (Overlap::Refused, Overlap::Allowed);
    measure("one instance", || detect(&plain, vec![], one, Simultaneous::Absent), &messages)?;
    measure(
        "one instance, simultaneous events",
        || detect(&plain, vec![], one, Simultaneous::Ordered),
        &messages,
    )?;
    measure("instances that overlap", || detect(&plain, vec![], many, Simultaneous::Ordered), &messages)?;
    let loose = Regex::event(Element::when(is_step(0))).then(Regex::event(Element::any()).star());
    let loose = loose.then(Regex::event(Element::when(is_step(STATES - 1))));
    measure("A any* B, one instance", || detect(&loose, vec![], one, Simultaneous::Ordered), &messages)?;
    let register = || vec![RegisterField::new("count", ScalarValue::Int64(Some(0)))];
    let count = || column("count", 2);
    let more = binary(count(), Op::Plus, number(1));
    let noting = sequence(|step| Ok(Regex::event(Element::when(is_step(step)).set(0, more.clone()))))?;
    measure("that count", || detect(&noting, register(), one, Simultaneous::Ordered), &messages)?;
    let asking = sequence(|step| {
        let asks = binary(is_step(step), Op::And, binary(count(), Op::Eq, number(step)));
        Ok(Regex::event(Element::when(asks).set(0, more.clone())))
    })?;
    measure(
        "that ask for their count",
        || detect(&asking, register(), one, Simultaneous::Ordered),
        &messages,
    )?;
    let lists = sequence(|step| {
        Ok(Regex::list(Element::when(quantified(Quantifier::Any, &is_step(step), &schema(), 2)?)))
    })?;
    measure("over lists", || detect(&lists, vec![], one, Simultaneous::Ordered), &messages)?;
    measure("row pattern", || recognize(&plain, vec![]), &messages)?;
    measure("row pattern that counts", || recognize(&noting, register()), &messages)?;
    // Rows of a key up to one that is out of step.
    let in_step = Regex::event(Element::when(binary(column("step", 1), Op::Lt, number(STATES))).set(0, more));
    measure("row pattern A+ that counts", || recognize(&in_step.clone().plus(), register()), &messages)
}
