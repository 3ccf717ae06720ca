//! Tables in the measured store, and plans of one operator over them.
//!
//! The tables are `(g int, k int, a, b, c, d varchar, primary key (g, k))`, one for each size of a tuple.
//! Each has a number of groups with as many rows as the longest range that is measured. Their indexes have
//! the largest numbers, which no schema uses.
//!
//! Invariant: a get finds its record, and a range is as long as its limit.

use super::shape::{Kind, Operator, Shape};
use crate::arguments::Argument;
use crate::datum::Type;
use crate::error::{Error, Result};
use crate::execute::{self, Call, Executor, Program};
use crate::expression::placeholder;
use crate::plan::{Access, Chain, Fetch, Hint, Keep, List, ParameterType, Source, Step};
use crate::predict::grid::Grid;
use crate::random::Random;
use crate::record;
use crate::schema::{Column, Index, IndexKind, IndexState, KeyPart, Nullability, Table};
use crate::store::{Store, Write};
use datafusion::arrow::array::{ArrayRef, Int32Array, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::{Expr, col, lit};
use std::sync::Arc;

/// The alias of the table in the plans.
const ALIAS: &str = "latency";
/// The alias of the list of keys in the plans.
const KEYS: &str = "keys";
/// The columns of a table of ours.
pub(super) const COLUMNS: usize = 6;
/// How many columns are texts.
const TEXTS: usize = 4;
/// What a record takes beside its texts, with its key.
const BYTES_BESIDE_TEXTS: u64 = 45;
/// How many rows are written by one commit.
const BATCH: usize = 1000;

/// The tables, in a store.
pub(super) struct Scratch<'s> {
    store: &'s dyn Store,
    /// For each size of a tuple.
    tables: Vec<(u64, Arc<Table>)>,
    groups: u64,
    rows: u64,
}

/// A plan over them, ready to run.
pub(super) struct Probe {
    program: Program,
    parameters: Vec<ParameterType>,
    requests: u64,
}

impl<'s> Scratch<'s> {
    /// Makes them.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer.
    pub fn make(store: &'s dyn Store, grid: &Grid) -> Result<Scratch<'s>> {
        let numbers = (0..grid.bytes().len() as u32).map(|at| u32::MAX - at);
        let tables = grid.bytes().iter().zip(numbers).map(|(bytes, id)| (*bytes, Arc::new(table(id))));
        let most = |axis: &[u64]| axis.iter().copied().max().unwrap_or(1);
        let scratch = Scratch {
            store,
            tables: tables.collect(),
            groups: prime_from(2 * most(grid.requests())),
            rows: most(grid.tuples()),
        };
        let filled = scratch.tables.iter().try_for_each(|(bytes, table)| scratch.fill(*bytes, table));
        if filled.is_err() {
            scratch.remove()?;
        }
        filled.map(|()| scratch)
    }

    /// Writes the rows of a table.
    fn fill(&self, bytes: u64, table: &Table) -> Result<()> {
        let mut writes = Vec::with_capacity(BATCH);
        for group in 0..self.groups {
            let columns = self.columns(group, bytes);
            for row in 0..self.rows as usize {
                let key = self.key(table, &columns, row)?;
                writes.push(Write::Put(key, record::encode(table, &columns, row, 1)?));
                self.flush(&mut writes, BATCH)?;
            }
        }
        self.flush(&mut writes, 1)
    }

    /// Takes them away.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer.
    pub fn remove(&self) -> Result<()> {
        let mut writes = Vec::with_capacity(BATCH);
        for (_, table) in &self.tables {
            for group in 0..self.groups {
                let columns = self.columns(group, 0);
                for row in 0..self.rows as usize {
                    writes.push(Write::Delete(self.key(table, &columns, row)?));
                    self.flush(&mut writes, BATCH)?;
                }
            }
        }
        self.flush(&mut writes, 1)
    }

    /// Commits the writes if there are enough of them.
    fn flush(&self, writes: &mut Vec<Write>, at_least: usize) -> Result<()> {
        if writes.len() >= at_least {
            self.store.commit(&[], writes)?;
            writes.clear();
        }
        Ok(())
    }

    /// The key of a row.
    fn key(&self, table: &Table, columns: &[ArrayRef], row: usize) -> Result<Vec<u8>> {
        let mut keys = table.primary().keys(table, columns, row)?;
        keys.pop().ok_or_else(|| Error::Internal("a record has no key".to_string()))
    }

    /// The rows of a group.
    fn columns(&self, group: u64, bytes: u64) -> Vec<ArrayRef> {
        let rows = self.rows as usize;
        let letters = (bytes.saturating_sub(BYTES_BESIDE_TEXTS) as usize).div_ceil(TEXTS);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![group as i32; rows])),
            Arc::new(Int32Array::from_iter_values(0..rows as i32)),
        ];
        columns.extend((0..TEXTS).map(|text| {
            // They differ in their first letters, so that sorting has something to do.
            let value = |row: usize| format!("{:06}", (row * 7919 + text) % 1_000_003);
            let filled = (0..rows).map(|row| format!("{:x<letters$.letters$}", value(row)));
            Arc::new(StringArray::from_iter_values(filled)) as ArrayRef
        }));
        columns
    }

    /// The remote operator of this shape, that reads so many columns.
    ///
    /// # Errors
    /// `Internal` if the plan cannot be lowered.
    pub fn fetch_probe(&self, shape: &Shape, columns: usize) -> Result<Probe> {
        self.probe(shape.requests, vec![self.fetch(shape, columns)?])
    }

    /// What every remote operator of so many requests has before it: the call itself and the keys.
    ///
    /// # Errors
    /// `Internal` if the plan cannot be lowered.
    pub fn empty_round(&self, requests: u64) -> Result<Probe> {
        self.probe(requests, vec![])
    }

    /// A call without keys.
    ///
    /// # Errors
    /// `Internal` if the plan cannot be lowered.
    pub fn call_probe(&self) -> Result<Probe> {
        let chain = Chain { source: Source::Call, steps: vec![] };
        Ok(Probe { program: Program::new(&chain, &[])?, parameters: vec![], requests: 0 })
    }

    /// A local operator over what a remote one finds.
    ///
    /// # Errors
    /// `Internal` if the plan cannot be lowered.
    pub fn operator_probe(&self, shape: &Shape, operator: Operator) -> Result<Probe> {
        let column = |name: &str| col(format!("{ALIAS}.{name}"));
        let step = match operator {
            Operator::Filter => Step::Filter(vec![column("k").gt_eq(lit(0))]),
            Operator::Project => {
                let columns = NAMES.iter().map(|name| (column(name), (*name).to_string()));
                Step::Project { columns: columns.collect(), qualifier: None }
            }
            Operator::Sort => Step::Sort(vec![column("a").sort(false, false)]),
            Operator::Group => Step::Aggregate {
                group: vec![column("k")],
                aggregates: vec![sum(column("g"))],
                names: vec!["k".to_string(), "sum".to_string()],
                qualifier: "grouped".to_string(),
            },
            Operator::Distinct => Step::Distinct,
        };
        self.probe(shape.requests, vec![self.fetch(shape, COLUMNS)?, step])
    }

    /// Two operators side by side, as the branches of a union have them.
    ///
    /// # Errors
    /// `Internal` if the plan cannot be lowered.
    pub fn mixed_round(&self, shapes: &[Shape]) -> Result<Probe> {
        let branches = shapes.iter().map(|shape| {
            Ok(Chain { source: keys(shape.requests), steps: vec![self.fetch(shape, COLUMNS)?] })
        });
        let branches = branches.collect::<Result<Vec<_>>>()?;
        let fields = vec![];
        let chain = Chain { source: Source::Union { fields, branches }, steps: vec![] };
        let requests = shapes.iter().map(|shape| shape.requests).max().unwrap_or(1);
        let parameters = vec![list_of(requests)];
        Ok(Probe { program: Program::new(&chain, &parameters)?, parameters, requests })
    }

    /// A plan, ready to run.
    fn probe(&self, requests: u64, steps: Vec<Step>) -> Result<Probe> {
        let parameters = vec![list_of(requests)];
        let chain = Chain { source: keys(requests), steps };
        Ok(Probe { program: Program::new(&chain, &parameters)?, parameters, requests })
    }

    /// A fetch of one table.
    fn fetch(&self, shape: &Shape, columns: usize) -> Result<Step> {
        let table = self.tables.iter().find(|(bytes, _)| *bytes == shape.bytes);
        let (_, table) = table.ok_or_else(|| Error::Internal(format!("{shape} is not measured")))?;
        let group = col(format!("{KEYS}.value"));
        let (access, keys, hint) = match shape.kind {
            Kind::Get => (Access::Record, vec![group, lit(0)], Hint::Key),
            Kind::Range => {
                let index = Box::new(table.primary().clone());
                let range = Access::Range {
                    index,
                    interval: None,
                    reverse: false,
                    dereference: false,
                    partitions: 1,
                };
                (range, vec![group], Hint::Query)
            }
        };
        Ok(Step::Fetch(Box::new(Fetch {
            alias: ALIAS.to_string(),
            table: table.clone(),
            access,
            keys,
            outer: false,
            on: vec![],
            columns: (0..columns).collect(),
            most: shape.tuples,
            hint,
            resumable: false,
            first: None,
            keep: Keep::All,
        })))
    }

    /// What a probe is called with: keys of groups, each of them once.
    pub fn arguments(&self, probe: &Probe, random: &Random) -> Vec<Argument> {
        if probe.parameters.is_empty() {
            return vec![];
        }
        let groups = self.groups as usize;
        let (first, stride) = (random.below(groups), 1 + random.below(groups - 1));
        // The number of groups is prime, so no group comes twice.
        let key = |at: usize| ((first + at * stride) % groups) as i32;
        vec![Argument::list((0..probe.requests as usize).map(key))]
    }

    /// Runs a probe.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer.
    pub fn run(&self, probe: &Probe, arguments: &[Argument]) -> Result<()> {
        let call = Call::new(self.store, Executor::Parallel, &probe.parameters, arguments, None)?;
        execute::run(&probe.program, &call).map(drop)
    }
}

/// The names of the columns.
const NAMES: [&str; COLUMNS] = ["g", "k", "a", "b", "c", "d"];

/// A table with its primary key under this number.
fn table(id: u32) -> Table {
    let columns = NAMES.iter().enumerate().map(|(at, name)| Column {
        name: (*name).to_string(),
        of: if at < 2 { Type::Int32 } else { Type::Text(None) },
        nullability: Nullability::NotNull,
    });
    let primary = Index {
        id,
        name: ALIAS.to_string(),
        kind: IndexKind::Primary,
        parts: vec![KeyPart::ascending(0), KeyPart::ascending(1)],
        state: IndexState::Ready,
    };
    Table {
        name: ALIAS.to_string(),
        columns: columns.collect(),
        indexes: vec![primary],
        foreign_keys: vec![],
        limits: vec![],
        view: None,
    }
}

/// The first parameter, as a relation of keys.
fn keys(requests: u64) -> Source {
    let values: Vec<Expr> = vec![placeholder("$1", &DataType::Int32)];
    Source::Lists(vec![List { alias: KEYS.to_string(), of: DataType::Int32, values, most: requests }])
}

/// A list of groups as the source of a chain.
fn list_of(requests: u64) -> ParameterType {
    ParameterType { name: None, of: DataType::Int32, list: Some(requests) }
}

/// The first prime number from here on.
fn prime_from(n: u64) -> u64 {
    let prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (n.max(3)..).find(prime).unwrap_or(n)
}
