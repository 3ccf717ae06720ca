//! What a plan does, in the terms in which a store is measured: its rounds, and the work between them.
//!
//! A round is one `read` of the store, whatever operators its requests come from, because that is how plans
//! are run. So it is the round that has a latency, not the operator of piql.txt §6.1: an operator that reads
//! index entries and then records is two rounds, and the operators of two branches of a union that run at the
//! same time are one.
//!
//! Invariant: an outline is the plan at its bound. Every limit is full, so no call does more.

use crate::bound::Bound;
use crate::datum::Type;
use crate::error::{Error, Result};
use crate::execute::Executor;
use crate::plan::{Access, Chain, Fetch, Keep, Plan, Source, Step};
use crate::schema::{Index, IndexKind, KeyPart, Part, Table};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Requests of one kind that are asked together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shape {
    /// What is asked for.
    pub kind: Kind,
    /// How many requests there are: `α_c` of the paper, the rows that a join begins with.
    pub requests: u64,
    /// The keys and values that each finds: `α_j`, its limit hint.
    pub tuples: u64,
    /// The bytes of one key and its value: `β`.
    pub bytes: u64,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// The values of keys.
    Get,
    /// Ranges of keys.
    Range,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.requests == 1 { "" } else { "s" };
        match self.kind {
            Kind::Get => write!(f, "{} get{plural} of {} bytes", self.requests, self.bytes),
            Kind::Range => {
                write!(f, "{} range{plural} of {} x {} bytes", self.requests, self.tuples, self.bytes)
            }
        }
    }
}

/// A local operator, as far as its cost goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Operator {
    Filter,
    Project,
    Sort,
    Group,
    Distinct,
}

impl Operator {
    /// All operators.
    pub const ALL: [Operator; 5] =
        [Operator::Filter, Operator::Project, Operator::Sort, Operator::Group, Operator::Distinct];
}

/// So many expressions of a local operator over so many rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Work {
    pub operator: Operator,
    pub expressions: u64,
    pub rows: u64,
}

/// What a call does at most.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Outline {
    /// What each round asks for; more than one shape only where branches of a union run together.
    pub rounds: Vec<Vec<Shape>>,
    pub work: Vec<Work>,
    /// Values that are read from records and entries.
    pub values: u64,
    /// A column whose length nobody knows.
    pub guessed: Option<String>,
    /// A commit follows, which is not part of it.
    pub writes: bool,
}

/// What a text or bytes without a length are taken for.
const GUESSED_BYTES: u64 = 64;

/// The letters of a word, when nobody knows.
const WORD_BYTES: u64 = 8;

impl Outline {
    /// Of a plan.
    ///
    /// # Errors
    /// `Invalid` if the plan has no bound.
    pub fn of(plan: &Plan) -> Result<Outline> {
        if !plan.bound.is_bounded() {
            return Err(Error::invalid(
                "a query that was allowed to be unbounded has no latency that can be predicted: limit it",
            ));
        }
        let mut outline = Outline { writes: plan.writes.is_some(), ..Outline::default() };
        outline.add(&plan.chain);
        Ok(outline)
    }

    /// The calls of the store that an executor makes, one after the other.
    pub fn calls(&self, executor: Executor) -> usize {
        match executor {
            Executor::Parallel => self.rounds.len(),
            Executor::Simple | Executor::Lazy => {
                self.rounds.iter().flatten().map(|shape| shape.requests as usize).sum()
            }
        }
    }

    /// Its rounds, as people read them.
    pub fn describe(&self) -> String {
        let round = |(at, shapes): (usize, &Vec<Shape>)| {
            let shapes: Vec<String> = shapes.iter().map(Shape::to_string).collect();
            format!("round {}: {}", at + 1, shapes.join(", "))
        };
        self.rounds.iter().enumerate().map(round).collect::<Vec<_>>().join("\n")
    }

    /// Adds a step.
    fn add(&mut self, chain: &Chain) {
        let mut bound = Bound::of(&Chain { source: chain.source.clone(), steps: vec![] });
        if let Source::Union { branches, .. } = &chain.source {
            branches.iter().for_each(|branch| self.add_branches(branch));
        }
        for step in &chain.steps {
            let before = bound.rows;
            bound.then(step);
            match step {
                Step::Fetch(fetch) => self.add_fetch(fetch, before),
                step => self.work.extend(work(step, before)),
            }
        }
    }

    /// A branch: its first round is asked for together with the first rounds of the branches before it.
    fn add_branches(&mut self, branch: &Chain) {
        let mut other = Outline::default();
        other.add(branch);
        for (at, shapes) in other.rounds.into_iter().enumerate() {
            match self.rounds.get_mut(at) {
                Some(round) => round.extend(shapes),
                None => self.rounds.push(shapes),
            }
        }
        self.work.extend(other.work);
        self.values += other.values;
        self.guessed = self.guessed.take().or(other.guessed);
    }

    /// Adds the rounds of a fetch.
    fn add_fetch(&mut self, fetch: &Fetch, requests: u64) {
        let table = &fetch.table;
        let found = requests.saturating_mul(fetch.most).min(fetch.first.unwrap_or(u64::MAX));
        let gets = |requests, bytes| Shape { kind: Kind::Get, requests, tuples: 1, bytes };
        match &fetch.access {
            Access::Record => {
                let record = self.record_bytes(table);
                self.round(gets(requests, record));
            }
            Access::Unique(index) => {
                let (entry, record) = (self.entry_bytes(table, index), self.record_bytes(table));
                self.round(gets(requests, entry));
                self.round(gets(requests, record));
            }
            Access::Range { index, dereference, partitions, .. } => {
                let record = self.record_bytes(table);
                let bytes = match index.kind {
                    IndexKind::Primary => record,
                    _ => self.entry_bytes(table, index),
                };
                let requests = requests.saturating_mul(*partitions);
                self.round(Shape { kind: Kind::Range, requests, tuples: fetch.most, bytes });
                if *dereference {
                    self.round(gets(found, record));
                }
            }
        }
        if let Keep::Fold(folds) = &fetch.keep {
            let expressions = folds.len().max(1) as u64;
            self.work.push(Work { operator: Operator::Group, expressions, rows: found });
        }
        self.values = self.values.saturating_add(found.saturating_mul(fetch.columns.len() as u64));
    }

    /// Adds a round.
    fn round(&mut self, shape: Shape) {
        if shape.requests > 0 && shape.tuples > 0 {
            self.rounds.push(vec![shape]);
        }
    }

    /// A record and its key, every text as long as it may be and a byte a letter.
    fn record_bytes(&mut self, table: &Table) -> u64 {
        let values: u64 = table.columns.iter().map(|column| self.width(table, &column.name, column.of)).sum();
        10 + (table.columns.len() as u64).div_ceil(8) + values + self.key_bytes(table, &table.primary().parts)
    }

    /// An entry of an index: its key, a version, and the key of the record.
    fn entry_bytes(&mut self, table: &Table, index: &Index) -> u64 {
        8 + self.key_bytes(table, &table.entry_parts(index)) + self.key_bytes(table, &table.primary().parts)
    }

    /// The bytes of an entry.
    fn key_bytes(&mut self, table: &Table, parts: &[KeyPart]) -> u64 {
        let part = |part: &KeyPart| match &part.part {
            Part::Words(_) => WORD_BYTES + 3,
            Part::Column(at) => {
                let column = &table.columns[*at];
                match column.of {
                    Type::Text(_) | Type::Bytes(_) => self.width(table, &column.name, column.of) + 2,
                    Type::Bool => 2,
                    Type::Decimal(..) => 17,
                    _ => 9,
                }
            }
        };
        4 + parts.iter().map(part).sum::<u64>()
    }

    /// How many columns rows have.
    fn width(&mut self, table: &Table, column: &str, of: Type) -> u64 {
        match of {
            Type::Text(Some(letters)) | Type::Bytes(Some(letters)) => u64::from(letters) + 1,
            Type::Text(None) | Type::Bytes(None) => {
                self.guessed.get_or_insert_with(|| format!("{}.{column}", table.name));
                GUESSED_BYTES
            }
            other => other.max_bytes().unwrap_or(GUESSED_BYTES),
        }
    }
}

/// What a local step costs.
fn work(step: &Step, rows: u64) -> Option<Work> {
    let (operator, expressions) = match step {
        Step::Fetch(_) | Step::Stop(_) => return None,
        Step::Filter(exprs) => (Operator::Filter, exprs.len()),
        Step::Project { columns, .. } => (Operator::Project, columns.len()),
        Step::Sort(_) | Step::Merge { .. } | Step::Page { .. } => (Operator::Sort, 1),
        Step::Aggregate { aggregates, .. } => (Operator::Group, aggregates.len().max(1)),
        Step::Distinct => (Operator::Distinct, 1),
    };
    Some(Work { operator, expressions: expressions as u64, rows })
}
