//! Patterns that exist twice: as an automaton of the engine, and as the oracle takes them, by derivatives
//! (Brzozowski 1964): what is left of a pattern after an event.

use crate::formula::Formula;
use crate::generate::FLOAT;
use crate::model::{Event, Row, Value};
use crate::oracle::{Events, in_order, key_of};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use whimbrel_temporal::operators::{
    Detect, Element, Overlap, Quantifier, Regex, RegisterField, Simultaneous, quantified,
};
use whimbrel_temporal::{INFINITY, Time};

/// The fields of the register, which come after the columns of an event.
pub const COUNT: usize = 4;
pub const WORD: usize = 5;
pub const SUM: usize = 6;

/// What is asked of an event and noted of it. Formulas are over its columns, then the register's.
#[derive(Debug, Clone)]
pub struct Part {
    pub condition: Option<Asked>,
    /// Columns of the register, and what they are set to.
    pub update: Vec<(usize, Formula)>,
    pub variable: usize,
}

/// A condition of an event, or, of a list of events, how many satisfy it.
#[derive(Debug, Clone)]
pub enum Asked {
    Event(Formula),
    Any(Formula),
    All(Formula),
    /// At least so many.
    AtLeast(i64, Formula),
}

#[derive(Debug, Clone)]
pub enum Pattern {
    Empty,
    One(Part),
    Concat(Vec<Pattern>),
    Or(Vec<Pattern>),
    Repeat { of: Box<Pattern>, least: usize, most: Option<usize>, greedy: bool },
}

/// A pattern and how it is looked for.
#[derive(Debug, Clone)]
pub struct Detection {
    pub pattern: Pattern,
    pub key: Vec<usize>,
    pub max_duration: i64,
    pub overlap: Overlap,
    pub simultaneous: Simultaneous,
    /// Whether the pattern takes all events of an instant at once.
    pub lists: bool,
}

/// The register before the first event.
pub fn initial() -> Row {
    vec![Value::Int(0), Value::Null, Value::Float(0.0)]
}

pub fn register() -> Vec<RegisterField> {
    vec![
        RegisterField::new("number", ScalarValue::Int64(Some(0))),
        RegisterField::new("text", ScalarValue::Utf8(None)),
        RegisterField::new("float", ScalarValue::Float64(Some(0.0))),
    ]
}

/// The columns of an event, then the register's.
pub fn with_register(input: &SchemaRef) -> SchemaRef {
    let mut fields = input.fields().to_vec();
    for field in register() {
        fields.push(Arc::new(Field::new(&field.name, field.data_type(), true)));
    }
    Arc::new(Schema::new(fields))
}

impl Part {
    pub fn element(&self, columns: &SchemaRef) -> Element {
        let count = |quantifier, formula: &Formula| {
            quantified(quantifier, &formula.physical(columns), columns, FLOAT + 1).expect("a condition")
        };
        let condition = self.condition.as_ref().map(|asked| match asked {
            Asked::Event(formula) => formula.physical(columns),
            Asked::Any(formula) => count(Quantifier::Any, formula),
            Asked::All(formula) => count(Quantifier::All, formula),
            Asked::AtLeast(least, formula) => {
                use datafusion::logical_expr::Operator;
                use datafusion::physical_expr::expressions::{BinaryExpr, lit};
                let count = count(Quantifier::Count, formula);
                Arc::new(BinaryExpr::new(count, Operator::GtEq, lit(*least)))
            }
        });
        let update = self.update.iter().map(|(column, value)| (column - COUNT, value.physical(columns)));
        Element { condition, update: update.collect(), variable: Some(self.variable) }
    }

    fn holds(&self, seen: &Seen, register: &Row) -> bool {
        let holds = |formula: &Formula, row: &Row| formula.holds(&[&row[..], register].concat());
        let Seen::Rows(rows) = seen else { return false };
        match &self.condition {
            None => true,
            Some(Asked::Event(formula)) => holds(formula, &rows[0]),
            Some(Asked::Any(formula)) => rows.iter().any(|row| holds(formula, row)),
            Some(Asked::All(formula)) => rows.iter().all(|row| holds(formula, row)),
            Some(Asked::AtLeast(least, formula)) => {
                rows.iter().filter(|row| holds(formula, row)).count() as i64 >= *least
            }
        }
    }

    /// The register after an event.
    pub fn noted(&self, row: &Row, register: &Row) -> Row {
        let before = [&row[..], register].concat();
        let mut after = register.clone();
        self.update.iter().for_each(|(column, value)| after[column - COUNT] = value.eval(&before));
        after
    }

    /// The register after an event, if it is consumed.
    pub fn take(&self, row: &Row, register: &Row) -> Option<Row> {
        let seen = Seen::Rows(vec![row.clone()]);
        self.holds(&seen, register).then(|| self.noted(row, register))
    }
}

/// What a pattern sees at once.
#[derive(Debug, Clone)]
enum Seen {
    /// An event, or a list of them.
    Rows(Vec<Row>),
    /// What no pattern takes.
    Nothing,
}

impl Pattern {
    pub fn regex(&self, columns: &SchemaRef, lists: bool) -> Regex {
        let all = |parts: &[Pattern]| parts.iter().map(|part| part.regex(columns, lists)).collect();
        match self {
            Pattern::Empty => Regex::Empty,
            Pattern::One(part) if lists => Regex::list(part.element(columns)),
            Pattern::One(part) => Regex::event(part.element(columns)),
            Pattern::Concat(parts) => Regex::Concat(all(parts)),
            Pattern::Or(parts) => Regex::Or(all(parts)),
            Pattern::Repeat { of, least, most, greedy } => {
                let of = Box::new(of.regex(columns, lists));
                Regex::Repeat { of, least: *least, most: *most, greedy: *greedy }
            }
        }
    }

    pub fn matches_empty(&self) -> bool {
        match self {
            Pattern::Empty => true,
            Pattern::One(_) => false,
            Pattern::Concat(parts) => parts.iter().all(Pattern::matches_empty),
            Pattern::Or(parts) => parts.iter().any(Pattern::matches_empty),
            Pattern::Repeat { of, least, .. } => *least == 0 || of.matches_empty(),
        }
    }

    /// Whether it can take an event at all.
    fn goes_on(&self) -> bool {
        match self {
            Pattern::Empty => false,
            Pattern::One(_) => true,
            Pattern::Concat(parts) | Pattern::Or(parts) => parts.iter().any(Pattern::goes_on),
            Pattern::Repeat { of, most, .. } => *most != Some(0) && of.goes_on(),
        }
    }

    /// What may be left of it after an event, each with the register then.
    fn after(&self, seen: &Seen, register: &Row) -> Vec<(Pattern, Row)> {
        match self {
            Pattern::Empty => vec![],
            Pattern::One(part) => match (part.holds(seen, register), seen) {
                (true, Seen::Rows(rows)) => vec![(Pattern::Empty, part.noted(&rows[0], register))],
                _ => vec![],
            },
            Pattern::Or(parts) => parts.iter().flat_map(|part| part.after(seen, register)).collect(),
            Pattern::Concat(parts) => {
                let Some((first, rest)) = parts.split_first() else { return vec![] };
                let then = |(left, register)| (Pattern::Concat([&[left], rest].concat()), register);
                let mut left: Vec<_> = first.after(seen, register).into_iter().map(then).collect();
                if first.matches_empty() {
                    left.extend(Pattern::Concat(rest.to_vec()).after(seen, register));
                }
                left
            }
            Pattern::Repeat { most: Some(0), .. } => vec![],
            Pattern::Repeat { of, least, most, greedy } => {
                let rest = Pattern::Repeat {
                    of: of.clone(),
                    least: least.saturating_sub(1),
                    most: most.map(|most| most - 1),
                    greedy: *greedy,
                };
                let then = |(left, register)| (Pattern::Concat(vec![left, rest.clone()]), register);
                of.after(seen, register).into_iter().map(then).collect()
            }
        }
    }
}

impl Detection {
    pub fn operator(&self, input: &SchemaRef) -> Detect {
        let automaton = self.pattern.regex(&with_register(input), self.lists).automaton(register());
        let automaton = automaton.expect("an automaton");
        let (key, max) = (self.key.clone(), self.max_duration);
        Detect::try_new(&automaton, input, key, max, self.overlap, self.simultaneous).expect("a pattern")
    }

    /// What there is to see of a key, one after another.
    fn seen(&self, mut events: Vec<&Event>) -> Vec<(Time, Seen)> {
        events.sort_by_key(|e| (e.start, &e.row));
        let one = |e: &Event| (e.start, Seen::Rows(vec![e.row.clone()]));
        let instants = events.chunk_by(|a, b| a.start == b.start);
        let seen = instants.flat_map(|instant| match instant {
            _ if self.lists => {
                vec![(instant[0].start, Seen::Rows(instant.iter().map(|e| e.row.clone()).collect()))]
            }
            [_, _, ..] if self.simultaneous == Simultaneous::Kill => vec![(instant[0].start, Seen::Nothing)],
            instant => instant.iter().map(|e| one(e)).collect(),
        });
        seen.collect()
    }

    pub fn oracle(&self, events: &Events) -> Events {
        let mut keys: BTreeMap<Row, Vec<&Event>> = BTreeMap::new();
        for event in events {
            keys.entry(key_of(&event.row, &self.key)).or_default().push(event);
        }
        let matches = keys.into_iter().flat_map(|(key, events)| self.matches_of(&key, &self.seen(events)));
        in_order(matches.collect())
    }

    fn matches_of(&self, key: &Row, seen: &[(Time, Seen)]) -> Events {
        let mut matches = Vec::new();
        // Instances by their ends: what is left of the pattern, and the register.
        let mut instances: Vec<(Time, Vec<(Pattern, Row)>)> = Vec::new();
        for (time, seen) in seen {
            let mut advance = |end: Time, threads: &[(Pattern, Row)]| {
                let after = threads.iter().flat_map(|(left, register)| left.after(seen, register));
                let mut after: Vec<(Pattern, Row)> = after.collect();
                let mut known = BTreeSet::new();
                after.retain(|thread| known.insert(format!("{thread:?}")));
                let accepted = after.iter().filter(|(left, _)| left.matches_empty());
                let registers: BTreeSet<&Row> = accepted.map(|(_, register)| register).collect();
                for register in registers {
                    let row = key.iter().chain(register).cloned().collect();
                    matches.push(Event { start: *time, end, row });
                }
                after.retain(|(left, _)| left.goes_on());
                after
            };
            let alive = instances.iter().filter(|(end, _)| time < end || *end == INFINITY);
            let mut next: Vec<_> = alive.map(|(end, threads)| (*end, advance(*end, threads))).collect();
            next.retain(|(_, threads)| !threads.is_empty());
            if self.overlap == Overlap::Allowed || next.is_empty() {
                let end = time.saturating_add(self.max_duration);
                next.push((end, advance(end, &[(self.pattern.clone(), initial())])));
            }
            next.retain(|(_, threads)| !threads.is_empty());
            instances = next;
        }
        matches
    }
}

/// The columns of matches, if the key is the generated one: again those of generated streams.
pub fn matched_columns(key: &[usize], input: &SchemaRef) -> SchemaRef {
    let mut fields: Vec<Field> = key.iter().map(|&column| input.field(column).clone()).collect();
    fields.push(Field::new("number", DataType::Int64, true));
    fields.push(Field::new("text", DataType::Utf8, true));
    fields.push(Field::new("float", DataType::Float64, true));
    Arc::new(Schema::new(fields))
}
