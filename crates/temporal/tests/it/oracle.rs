//! The operators as they are defined: naive, over whole lists of events, and without the engine's code.
//!
//! Lists are in order of start, then of arrival.

use crate::formula::Formula;
use crate::model::{Event, Row, Value};
use std::collections::{BTreeMap, BTreeSet};
use whimbrel_temporal::operators::AggregateFunction;
use whimbrel_temporal::{BEGINNING, Closed, DurationRule, INFINITY, StartRule, Time};

pub type Events = Vec<Event>;

/// One aggregate: what, over which values, over which rows.
#[derive(Debug, Clone)]
pub struct Call {
    pub function: AggregateFunction,
    pub argument: Option<Formula>,
    pub filter: Option<Formula>,
}

pub fn in_order(mut events: Events) -> Events {
    events.sort_by_key(|e| e.start);
    events
}

pub fn key_of(row: &Row, key: &[usize]) -> Row {
    key.iter().map(|&c| row[c].of_equal()).collect()
}

/// What a null equals in a join: nothing, or a null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nulls {
    EqualNothing,
    EqualNulls,
}

/// Whether two rows meet in a join.
fn meet(left: &Row, left_key: &[usize], right: &Row, right_key: &[usize], nulls: Nulls) -> bool {
    let left = key_of(left, left_key);
    (nulls == Nulls::EqualNulls || !left.contains(&Value::Null)) && left == key_of(right, right_key)
}

/// The instants at which something changes, and the end of time.
fn instants<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<Time> {
    let times: BTreeSet<Time> = events.flat_map(|e| [e.start, e.end]).chain([INFINITY]).collect();
    times.into_iter().collect()
}

pub fn where_(events: Events, condition: &Formula) -> Events {
    events.into_iter().filter(|e| condition.holds(&e.row)).collect()
}

pub fn select(events: Events, formulas: &[Formula]) -> Events {
    let row = |e: &Event| formulas.iter().map(|f| f.eval(&e.row)).collect();
    events.into_iter().map(|e| Event { row: row(&e), ..e }).collect()
}

pub fn with_start(events: Events) -> Events {
    let row = |e: &Event| e.row.iter().cloned().chain([Value::Int(e.start)]).collect();
    events.into_iter().map(|e| Event { row: row(&e), ..e }).collect()
}

pub fn unnest(events: Events, column: usize) -> Events {
    let unfold = |e: Event| {
        let elements = if let Value::List(elements) = &e.row[column] { elements.clone() } else { Vec::new() };
        elements.into_iter().map(move |element| {
            let mut row = e.row.clone();
            row[column] = element;
            Event { row, ..e }
        })
    };
    events.into_iter().flat_map(unfold).collect()
}

pub fn alter(events: Events, start: &StartRule<Formula>, duration: &DurationRule<Formula>) -> Events {
    let int = |f: &Formula, row: &Row| {
        if let Value::Int(i) = f.eval(row) { i } else { panic!("not a number: {f:?}") }
    };
    let alter = |e: Event| {
        let start = match start {
            StartRule::Keep => e.start,
            StartRule::Shift(by) => e.start + by,
            StartRule::Snap { hop, offset, closed } => {
                let first = if *closed == Closed::Left { e.start + 1 } else { e.start };
                (first..).find(|t| (t - offset) % hop == 0)?
            }
            StartRule::By(f) => int(f, &vec![Value::Int(e.start)]),
        };
        let times = vec![Value::Int(e.start), Value::Int(e.end)];
        let end = match duration {
            DurationRule::Keep | DurationRule::ByLifetime(_) if e.end == INFINITY => INFINITY,
            DurationRule::Keep => start + (e.end - e.start),
            DurationRule::Constant(ticks) => start + ticks,
            DurationRule::Infinite => INFINITY,
            DurationRule::ByStart(f) | DurationRule::ByLifetime(f) => start + int(f, &times),
        };
        (start < end).then_some(Event { start, end, row: e.row })
    };
    events.into_iter().filter_map(alter).collect()
}

/// Rows live until their session ends: `timeout` after its last row, or at its cap, the second multiple of
/// the maximum after its first row (the next one if that row lies on a multiple).
pub fn session(mut events: Events, key: &[usize], timeout: i64, max_duration: Option<i64>) -> Events {
    let mut groups: BTreeMap<Row, Vec<&mut Event>> = BTreeMap::new();
    for event in &mut events {
        groups.entry(key_of(&event.row, key)).or_default().push(event);
    }
    let cap = |first: Time| match max_duration {
        None => INFINITY,
        Some(max) => {
            (first + 1..).filter(|t| t % max == 0).nth((first % max != 0) as usize).unwrap_or(INFINITY)
        }
    };
    for mut group in groups.into_values() {
        while !group.is_empty() {
            let cap = cap(group[0].start);
            let mut end = group[0].start + 1;
            let mut members = 0;
            while members < group.len() && (members == 0 || group[members].start < end) {
                end = (group[members].start + timeout).min(cap);
                members += 1;
            }
            group.drain(..members).for_each(|e| e.end = end);
        }
    }
    events
}

/// The pieces between beats. What was always there, or never ends, is whole: how far that is cut is left
/// open.
pub fn chop(events: Events, period: i64, offset: i64) -> Events {
    let mut pieces = Vec::new();
    for event in events {
        if event.start == BEGINNING || event.end == INFINITY {
            pieces.push(event);
            continue;
        }
        let mut start = event.start;
        while start < event.end {
            let end = event.end.min(start + period - (start - offset).rem_euclid(period));
            pieces.push(Event { start, end, row: event.row.clone() });
            start = end;
        }
    }
    in_order(pieces)
}

pub fn clip_constant(events: Events, limit: i64) -> Events {
    events.into_iter().map(|e| Event { end: e.end.min(e.start.saturating_add(limit)), ..e }).collect()
}

pub fn clip(left: Events, right: &Events, left_key: &[usize], right_key: &[usize]) -> Events {
    let end = |l: &Event| {
        let later = right
            .iter()
            .filter(|r| r.start > l.start && meet(&l.row, left_key, &r.row, right_key, Nulls::EqualNothing));
        later.map(|r| r.start).min().map_or(l.end, |t| t.min(l.end))
    };
    left.into_iter().map(|l| Event { end: end(&l), ..l }).collect()
}

pub fn point_at_end(events: Events) -> Events {
    let ended = events.into_iter().filter(|e| e.end < INFINITY);
    in_order(ended.map(|e| Event { start: e.end, end: e.end + 1, row: e.row }).collect())
}

/// One row for each key and each stretch between two instants at which a row of the key starts or ends.
pub fn aggregate(events: &Events, key: &[usize], calls: &[Call]) -> Events {
    let mut groups: BTreeMap<Row, Vec<&Event>> = BTreeMap::new();
    for event in events {
        groups.entry(key_of(&event.row, key)).or_default().push(event);
    }
    let mut results = Vec::new();
    for (key, events) in groups {
        for pair in instants(events.iter().copied()).windows(2) {
            let alive = events.iter().filter(|e| e.start <= pair[0] && pair[0] < e.end);
            let alive: Vec<&Row> = alive.map(|e| &e.row).collect();
            if !alive.is_empty() {
                let values = calls.iter().map(|call| result(call, &alive));
                let row = key.iter().cloned().chain(values).collect();
                results.push(Event { start: pair[0], end: pair[1], row });
            }
        }
    }
    in_order(results)
}

fn result(call: &Call, alive: &[&Row]) -> Value {
    let counted = alive.iter().filter(|r| call.filter.as_ref().is_none_or(|f| f.holds(r)));
    let values: Vec<Value> =
        counted.map(|r| call.argument.as_ref().map_or(Value::Int(1), |a| a.eval(r))).collect();
    let known: Vec<&Value> = values.iter().filter(|v| !v.is_null()).collect();
    let number = |v: &&Value| match v {
        Value::Int(i) => *i as f64,
        Value::Float(f) => *f,
        other => panic!("{other:?} is not a number"),
    };
    let int = |v: &&Value| if let Value::Int(i) = v { *i } else { 0 };
    let sum = || sum_of(known.iter().map(number));
    match &call.function {
        AggregateFunction::Count => Value::Int(known.len() as i64),
        AggregateFunction::CountDistinct => {
            Value::Int(known.iter().map(|v| v.of_equal()).collect::<BTreeSet<_>>().len() as i64)
        }
        AggregateFunction::First => values.first().cloned().unwrap_or(Value::Null),
        AggregateFunction::Last => values.last().cloned().unwrap_or(Value::Null),
        _ if known.is_empty() => Value::Null,
        AggregateFunction::Sum => match known[0] {
            Value::Float(_) => Value::Float(sum()),
            _ => Value::Int(known.iter().map(int).fold(0, i64::wrapping_add)),
        },
        AggregateFunction::Average => Value::Float(sum() / known.len() as f64),
        AggregateFunction::Min => known.iter().map(|v| v.of_equal()).min().expect("some are known"),
        AggregateFunction::Max => known.iter().map(|v| v.of_equal()).max().expect("some are known"),
        // The tests' own aggregate: the sum of squares.
        AggregateFunction::User(_) => {
            Value::Int(known.iter().map(|v| int(v).wrapping_mul(int(v))).fold(0, i64::wrapping_add))
        }
    }
}

/// The sum, infinite only if it is in the end: what is huge is added up apart, as smaller numbers.
fn sum_of(numbers: impl Iterator<Item = f64>) -> f64 {
    const SMALLER: f64 = 1.0 / (1_u64 << 62) as f64;
    let (huge, others): (Vec<f64>, Vec<f64>) =
        numbers.partition(|number| number.is_finite() && number.abs() > 1e300);
    let huge = huge.iter().fold(0.0, |sum, number| sum + number * SMALLER);
    let others = others.iter().fold(0.0, |sum, number| sum + number);
    if huge == 0.0 { others } else { (huge + others * SMALLER) / SMALLER }
}

/// Each payload while any row has it.
pub fn distinct(events: &Events) -> Events {
    let mut groups: BTreeMap<Row, Vec<&Event>> = BTreeMap::new();
    for event in events {
        groups.entry(event.row.iter().map(Value::of_equal).collect()).or_default().push(event);
    }
    let pieces = groups.into_iter().flat_map(|(row, events)| {
        covered(events.into_iter()).into_iter().map(move |(start, end)| Event {
            start,
            end,
            row: row.clone(),
        })
    });
    in_order(pieces.collect())
}

/// The stretches of time, as long as can be, in which some event is alive.
fn covered<'a>(events: impl Iterator<Item = &'a Event> + Clone) -> Vec<(Time, Time)> {
    let mut stretches: Vec<(Time, Time)> = Vec::new();
    for pair in instants(events.clone()).windows(2) {
        if events.clone().any(|e| e.start <= pair[0] && pair[0] < e.end) {
            match stretches.last_mut() {
                Some(last) if last.1 == pair[0] => last.1 = pair[1],
                _ => stretches.push((pair[0], pair[1])),
            }
        }
    }
    stretches
}

pub fn union(left: Events, right: &Events) -> Events {
    in_order(left.into_iter().chain(right.iter().cloned()).collect())
}

pub fn join(left: &Events, right: &Events, left_key: &[usize], right_key: &[usize], nulls: Nulls) -> Events {
    let mut pairs = Vec::new();
    for l in left {
        for r in right.iter().filter(|r| meet(&l.row, left_key, &r.row, right_key, nulls)) {
            let (start, end) = (l.start.max(r.start), l.end.min(r.end));
            if start < end {
                pairs.push(Event { start, end, row: l.row.iter().chain(&r.row).cloned().collect() });
            }
        }
    }
    in_order(pairs)
}

/// The pieces of each left lifetime in which some (no) right row of its key is alive.
pub fn exists(
    left: &Events,
    right: &Events,
    negate: bool,
    left_key: &[usize],
    right_key: &[usize],
    nulls: Nulls,
) -> Events {
    let mut pieces = Vec::new();
    for l in left {
        let matching: Vec<&Event> =
            right.iter().filter(|r| meet(&l.row, left_key, &r.row, right_key, nulls)).collect();
        let mut stretches = covered(matching.into_iter());
        if negate {
            let starts = [Time::MIN].into_iter().chain(stretches.iter().map(|s| s.1));
            let ends = stretches.iter().map(|s| s.0).chain([INFINITY]);
            stretches = starts.zip(ends).collect();
        }
        for (start, end) in stretches {
            let (start, end) = (start.max(l.start), end.min(l.end));
            if start < end {
                pieces.push(Event { start, end, row: l.row.clone() });
            }
        }
    }
    in_order(pieces)
}

/// The events, and the row while there is none of them.
pub fn or_else(events: &Events, row: &Row) -> Events {
    let covered = covered(events.iter());
    let starts = [BEGINNING].into_iter().chain(covered.iter().map(|s| s.1));
    let ends = covered.iter().map(|s| s.0).chain([INFINITY]);
    let empty = starts.zip(ends).filter(|(start, end)| start < end);
    let standing = empty.map(|(start, end)| Event { start, end, row: row.clone() });
    in_order(events.iter().cloned().chain(standing).collect())
}

/// At every instant the first rows by a column, equal ones by all columns.
pub fn top_k(events: &Events, column: usize, descending: bool, skip: usize, fetch: usize) -> Events {
    let mut pieces = Vec::new();
    for pair in instants(events.iter()).windows(2) {
        let mut alive: Vec<&Row> =
            events.iter().filter(|e| e.start <= pair[0] && pair[0] < e.end).map(|e| &e.row).collect();
        alive.sort_by(|a, b| {
            let order = a[column].cmp(&b[column]);
            if descending { order.reverse() } else { order }.then_with(|| a.cmp(b))
        });
        let first = alive.into_iter().skip(skip).take(fetch);
        pieces.extend(first.map(|row| Event { start: pair[0], end: pair[1], row: row.clone() }));
    }
    in_order(pieces)
}

/// A row for each that comes (1) and each that goes (-1), if no equal one goes or comes at the same instant.
pub fn changes(events: &Events) -> Events {
    let mut net: BTreeMap<(Time, &Row), i64> = BTreeMap::new();
    for event in events {
        *net.entry((event.start, &event.row)).or_default() += 1;
        if event.end < INFINITY {
            *net.entry((event.end, &event.row)).or_default() -= 1;
        }
    }
    let told = net.into_iter().flat_map(|((start, row), by)| {
        let row: Row = [Value::Int(by.signum())].into_iter().chain(row.iter().cloned()).collect();
        (0..by.abs()).map(move |_| Event { start, end: INFINITY, row: row.clone() })
    });
    in_order(told.collect())
}

/// At every instant each row with its number among those of its key, in the order of a column, then of all.
pub fn numbered(events: &Events, key: &[usize], column: usize) -> Events {
    let mut pieces = Vec::new();
    for pair in instants(events.iter()).windows(2) {
        let mut groups: BTreeMap<Row, Vec<&Row>> = BTreeMap::new();
        for event in events.iter().filter(|e| e.start <= pair[0] && pair[0] < e.end) {
            groups.entry(key_of(&event.row, key)).or_default().push(&event.row);
        }
        for mut rows in groups.into_values() {
            rows.sort_by(|a, b| (&a[column], a).cmp(&(&b[column], b)));
            let numbered = (0..).zip(rows).map(|(number, row)| {
                let row = row.iter().cloned().chain([Value::Int(number)]).collect();
                Event { start: pair[0], end: pair[1], row }
            });
            pieces.extend(numbered);
        }
    }
    in_order(pieces)
}
