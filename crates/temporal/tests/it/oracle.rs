//! The operators as they are defined: naive, over whole lists of events, and without the engine's code.
//!
//! Lists are in order of start, then of arrival.

use crate::calls::Call;
use crate::formula::Formula;
use crate::model::{Event, Row, Value};
use std::collections::{BTreeMap, BTreeSet};
use whimbrel_temporal::operators::SessionCap;
use whimbrel_temporal::{BEGINNING, Closed, DurationRule, INFINITY, StartRule, Time};

pub type Events = Vec<Event>;

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

/// Rows live until their session ends: `timeout` after its last row, or at its cap.
pub fn session(mut events: Events, key: &[usize], timeout: i64, cap: Option<SessionCap>) -> Events {
    let mut groups: BTreeMap<Row, Vec<&mut Event>> = BTreeMap::new();
    for event in &mut events {
        groups.entry(key_of(&event.row, key)).or_default().push(event);
    }
    let cap_of = |first: Time| match cap {
        None => INFINITY,
        Some(SessionCap::After(ticks)) => first + ticks,
        Some(SessionCap::OnGrid(ticks)) => {
            (first + 1..).filter(|t| t % ticks == 0).nth((first % ticks != 0) as usize).unwrap_or(INFINITY)
        }
    };
    for mut group in groups.into_values() {
        while !group.is_empty() {
            let cap = cap_of(group[0].start);
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

/// The rows of sessions where these end, with the first instant of each.
pub fn session_windows(events: Events, key: &[usize], timeout: i64, cap: Option<SessionCap>) -> Events {
    let events = session(events, key, timeout, cap);
    // No two sessions of a key end at once.
    let session_of = |event: &Event| (key_of(&event.row, key), event.end);
    let mut firsts: BTreeMap<(Row, Time), Time> = BTreeMap::new();
    for event in &events {
        let first = firsts.entry(session_of(event)).or_insert(event.start);
        *first = event.start.min(*first);
    }
    let with_first = |event: Event| {
        let row = event.row.iter().cloned().chain([Value::Int(firsts[&session_of(&event)])]).collect();
        Event { row, ..event }
    };
    point_at_end(events.into_iter().map(with_first).collect())
}

/// Aggregates over the windows of sessions, whose last column is the first instant: by the key and by that,
/// with the end of each session.
pub fn session_aggregate(windows: Events, key: &[usize], calls: &[Call]) -> Events {
    let Some(first) = windows.first().map(|event| event.row.len() - 1) else { return windows };
    let by: Vec<usize> = key.iter().copied().chain([first]).collect();
    let with_end = |mut event: Event| {
        event.row.insert(by.len(), Value::Int(event.start));
        event
    };
    aggregate(&windows, &by, calls).into_iter().map(with_end).collect()
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
            let alive: Vec<&Event> = alive.copied().collect();
            if !alive.is_empty() {
                let values = calls.iter().map(|call| call.result(&alive));
                let row = key.iter().cloned().chain(values).collect();
                results.push(Event { start: pair[0], end: pair[1], row });
            }
        }
    }
    in_order(results)
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

/// Ends moved by so many ticks; what has no ticks left is gone.
pub fn extend(events: Events, by: i64) -> Events {
    let end = |e: &Event| if e.end == INFINITY { INFINITY } else { e.end.saturating_add(by) };
    let extended = events.into_iter().map(|e| Event { end: end(&e), ..e });
    extended.filter(|e| e.end > e.start).collect()
}

/// Lifetimes of equal rows that touch are one, each end going on with one start at most: those that began
/// first go on, and of pieces that began together the first to end is of the row that began first.
pub fn stitch(events: &Events) -> Events {
    let mut groups: BTreeMap<&Row, Vec<&Event>> = BTreeMap::new();
    events.iter().for_each(|event| groups.entry(&event.row).or_default().push(event));
    let mut stitched = Vec::new();
    for (row, pieces) in groups {
        // Start of the piece, start of the row.
        let mut alive: Vec<(Time, Time)> = Vec::new();
        for now in instants(pieces.iter().copied()).into_iter().filter(|&now| now < INFINITY) {
            let mut ended = Vec::new();
            for piece in pieces.iter().filter(|piece| piece.end == now) {
                let of_it = (0..alive.len()).filter(|&i| alive[i].0 == piece.start);
                let first = of_it.min_by_key(|&i| alive[i].1).expect("it began");
                ended.push(alive.remove(first).1);
            }
            ended.sort();
            let mut ended = ended.into_iter();
            for _ in pieces.iter().filter(|piece| piece.start == now) {
                alive.push((now, ended.next().unwrap_or(now)));
            }
            stitched.extend(ended.map(|start| Event { start, end: now, row: row.clone() }));
        }
        stitched.extend(alive.into_iter().map(|(_, start)| Event { start, end: INFINITY, row: row.clone() }));
    }
    in_order(stitched)
}

/// The first instant of a grid from this one on, and the last one up to it.
fn on_grid(time: Time, hop: i64, offset: i64) -> (Time, Time) {
    let is_on = |t: &Time| (i128::from(*t) - i128::from(offset)) % i128::from(hop) == 0;
    (
        (time..).find(is_on).expect("there is one"),
        (0..).map(|back| time - back).find(is_on).expect("there is one"),
    )
}

/// Windows of `size` begin at `offset + k·period`. A row lives from the last begin up to its start, of
/// windows or of their parts, to the first end of a window from its own end on, but all of the last window
/// that begins before it.
pub fn quantize(events: Events, (size, period, offset): (i64, i64, i64), progress: Option<i64>) -> Events {
    let quantize = |e: Event| {
        let (start, begin) = match e.start {
            BEGINNING => (BEGINNING, BEGINNING),
            start => (on_grid(start, progress.unwrap_or(period), offset).1, on_grid(start, period, offset).1),
        };
        let end = match e.end {
            INFINITY => INFINITY,
            end => on_grid(end, period, offset + size).0.max(begin.saturating_add(size)),
        };
        Event { start, end, ..e }
    };
    events.into_iter().map(quantize).collect()
}

/// Windows of `size` end at `offset + k·hop`. A row lives from the end of the first window that it is in to
/// the first end after that of a window that it is not in.
pub fn hopping(events: Events, (size, hop, offset): (i64, i64, i64), closed: Closed) -> Events {
    let hopping = |e: Event| {
        let is_in = |end: Time| match closed {
            Closed::Left => end - size <= e.start && e.start < end,
            Closed::Right => end - size < e.start && e.start <= end,
        };
        let ends = || (e.start..=e.start + size + hop).filter(|t| (t - offset) % hop == 0);
        let start = ends().find(|&t| is_in(t))?;
        let end = ends().find(|&t| t > start && !is_in(t)).expect("windows end");
        Some(Event { start, end, ..e })
    };
    events.into_iter().filter_map(hopping).collect()
}

/// How gaps are filled.
#[derive(Debug, Clone)]
pub struct Gaps {
    pub key: Vec<usize>,
    /// Of all columns; those of the key are not looked at.
    pub fills: Vec<GapFill>,
    pub period: i64,
    pub offset: i64,
    pub max_gap: Option<i64>,
}

/// What a column has in a gap.
#[derive(Debug, Clone)]
pub enum GapFill {
    Constant(Value),
    Previous,
    Linear,
}

/// The events, and a row for each cell that lies in a gap of a key, which ends with its next row, or when the
/// key is forgotten, or else `until` there is no more.
pub fn fill_gaps(events: &Events, gaps: &Gaps, until: Time) -> Events {
    let mut groups: BTreeMap<Row, Vec<&Event>> = BTreeMap::new();
    for event in events {
        groups.entry(key_of(&event.row, &gaps.key)).or_default().push(event);
    }
    let first = |time: Time| on_grid(time, gaps.period, gaps.offset).0;
    let mut filled = events.clone();
    for events in groups.into_values() {
        let covered = covered(events.iter().copied());
        for (place, &(_, since)) in covered.iter().enumerate().filter(|(_, (_, end))| *end < INFINITY) {
            let forgotten = gaps.max_gap.map(|ticks| first(since + ticks));
            let next = covered.get(place + 1).map(|(start, _)| *start);
            let next = next.filter(|&next| forgotten.is_none_or(|forgotten| next < forgotten));
            let over = next.or(forgotten).unwrap_or(until);
            let order = |a: &&&Event, b: &&&Event| (a.start, &a.row).cmp(&(b.start, &b.row));
            let previous = events.iter().filter(|e| e.end == since).max_by(order).expect("a row ended");
            let next = events.iter().filter(|e| Some(e.start) == next).max_by(order);
            let mut cell = first(since);
            while cell + gaps.period <= over {
                let value = |column: usize| match &gaps.fills[column] {
                    _ if gaps.key.contains(&column) => previous.row[column].clone(),
                    GapFill::Constant(value) => value.clone(),
                    GapFill::Previous => previous.row[column].clone(),
                    GapFill::Linear => next.map_or(Value::Null, |next| on_line(previous, next, column, cell)),
                };
                let row = (0..gaps.fills.len()).map(value).collect();
                filled.push(Event { start: cell, end: cell + gaps.period, row });
                cell += gaps.period;
            }
        }
    }
    in_order(filled)
}

/// The value at an instant between the starts of two rows.
fn on_line(previous: &Event, next: &Event, column: usize, at: Time) -> Value {
    if previous.start == BEGINNING {
        return Value::Null;
    }
    let at = (at - previous.start) as f64 / (next.start - previous.start) as f64;
    match (&previous.row[column], &next.row[column]) {
        (Value::Int(from), Value::Int(to)) => Value::Int(from + ((to - from) as f64 * at).round() as i64),
        (Value::Float(from), Value::Float(to)) if (to - from).is_finite() => {
            Value::Float(from + (to - from) * at)
        }
        (Value::Float(from), Value::Float(to)) => Value::Float(from * (1.0 - at) + to * at),
        _ => Value::Null,
    }
}
