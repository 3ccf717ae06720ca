//! A compiled query: a chain of steps, remote ones that ask the store and local ones that do not (piql.txt
//! §5.2).
//!
//! A chain begins with few rows (one for the call itself, or the values of its lists) and every [`Fetch`]
//! puts columns of one more table to each row. The paper's three remote operators are this one step: from a
//! single row it is an *IndexScan*, by the whole primary key an *IndexFKJoin*, by the first parts of an index
//! a *SortedIndexJoin*. Expressions are DataFusion's, over columns `alias.column` and parameters `$1`, `$2`,
//! ….
//!
//! Invariant: every fetch has a greatest number of rows for each key, so the chain has a [`Bound`].

use crate::bound::{Bound, WriteBound};
use crate::schema::{Index, Table};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, SortExpr};
use std::sync::Arc;

/// A query that has been compiled.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What is done.
    pub chain: Chain,
    /// The most that it can cost; of a write, the query for the rows that change.
    pub bound: Bound,
    /// The most that writing these rows can cost, if it is a write.
    pub writes: Option<WriteBound>,
    /// Rows a page, if it is paginated.
    pub page: Option<u64>,
    /// Indexes that it needs and that are not there yet, with the names of their tables.
    pub new_indexes: Vec<(String, Index)>,
    /// Why it may run without a bound.
    pub allowed: Option<String>,
    /// The types of its parameters.
    pub parameters: Vec<ParameterType>,
    /// The place of the parameter that says how many rows are wanted, and the most that it can be.
    pub rows: Option<(usize, u64)>,
}

/// What a parameter takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterType {
    /// The name, if it has one.
    pub name: Option<String>,
    /// The type of a value.
    pub of: DataType,
    /// How many values there can be, if it is a list.
    pub list: Option<u64>,
}

/// Steps, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    /// The rows it begins with.
    pub source: Source,
    /// What is done to them.
    pub steps: Vec<Step>,
}

/// The rows that a chain begins with.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// One row without columns: the call.
    Call,
    /// Every combination of the values of some lists.
    Lists(Vec<List>),
    /// Rows that stand in the query.
    Values {
        /// Their columns.
        fields: Vec<Field>,
        /// Their values.
        rows: Vec<Vec<Expr>>,
    },
    /// The rows of several chains.
    Union {
        /// Their columns.
        fields: Vec<Field>,
        /// The chains.
        branches: Vec<Chain>,
    },
}

/// The different values of `in (…)`, as a relation with one column `value`.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    /// Its name.
    pub alias: String,
    /// The type of its column.
    pub of: DataType,
    /// What gives the values: one parameter that is a list, or expressions.
    pub values: Vec<Expr>,
    /// How many there can be.
    pub most: u64,
}

/// A step.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Asks the store, and puts columns of a table to each row.
    Fetch(Box<Fetch>),
    /// Keeps the rows for which all are true.
    Filter(Vec<Expr>),
    /// Other columns in place of those there are; all of them get this qualifier.
    Project {
        /// Expressions and names.
        columns: Vec<(Expr, String)>,
        /// What the columns are called by.
        qualifier: Option<String>,
    },
    /// Sorts.
    Sort(Vec<SortExpr>),
    /// Keeps the first rows.
    Stop(u64),
    /// Groups and aggregates; the columns are `group` and then `aggregates`, qualified.
    Aggregate {
        /// What rows are put together by.
        group: Vec<Expr>,
        /// What is computed of each group.
        aggregates: Vec<Expr>,
        /// Names of the columns.
        names: Vec<String>,
        /// What the columns are called by.
        qualifier: String,
    },
    /// Keeps one of equal rows.
    Distinct,
    /// Puts the rows of a fetch that keeps positions into their order over all keys, and keeps the first.
    Merge {
        /// From the largest position to the smallest.
        reverse: bool,
        /// How many.
        rows: u64,
    },
    /// The rows behind the cursor by this order, the first of them; the order is total.
    Page {
        /// What rows are ordered by, to the last.
        order: Vec<SortExpr>,
        /// How many.
        rows: u64,
    },
}

/// Asks the store for rows of a table, for each row there is.
#[derive(Debug, Clone, PartialEq)]
pub struct Fetch {
    /// What the table is called in the query.
    pub alias: String,
    /// The table.
    pub table: Arc<Table>,
    /// How the rows are found.
    pub access: Access,
    /// The values of the first parts of the key: columns of the rows, or expressions over parameters.
    pub keys: Vec<Expr>,
    /// A row for which nothing is found stays, with nulls.
    pub outer: bool,
    /// What is kept of the rows that are found for one.
    pub keep: Keep,
    /// What has to be true too for a row to be found, if `outer`.
    pub on: Vec<Expr>,
    /// The columns that are put to the rows.
    pub columns: Vec<usize>,
    /// Rows for each key, at most.
    pub most: u64,
    /// What says so.
    pub hint: Hint,
    /// Whether a cursor can stand in it: two more columns say where each row was.
    pub resumable: bool,
    /// Over all keys no more rows are wanted than these, the first in the order of the index: only their
    /// records are read.
    pub first: Option<u64>,
}

/// What is kept of the rows that a left join finds for one.
#[derive(Debug, Clone, PartialEq)]
pub enum Keep {
    /// All of them.
    All,
    /// The first.
    First,
    /// What is computed of all of them: aggregates and their names, in place of the columns.
    Fold(Vec<(Expr, String)>),
}

/// What says how many rows there are for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// The key is unique.
    Key,
    /// A limit of the schema: a *data-stop*.
    Schema,
    /// The query needs no more: a *stop* that was pushed down.
    Query,
    /// Nothing; the query was allowed to run without.
    Nothing,
}

/// How rows of a table are found.
#[derive(Debug, Clone, PartialEq)]
pub enum Access {
    /// By the whole primary key.
    Record,
    /// By the whole key of a unique index, and then the record.
    Unique(Box<Index>),
    /// As a range of an index.
    Range {
        /// The index.
        index: Box<Index>,
        /// A part of the range, by the next part of the key.
        interval: Option<Box<Interval>>,
        /// From the end.
        reverse: bool,
        /// Whether the records have to be read too.
        dereference: bool,
        /// How many partitions of the store are asked for each key: all, if the range is not within one.
        partitions: u64,
    },
}

/// Between two values; the flags say whether the value itself belongs to it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Interval {
    /// Where it begins.
    pub lower: Option<(Expr, bool)>,
    /// Where it ends.
    pub upper: Option<(Expr, bool)>,
    /// It has no end where the value for that is null, as in `$1 is null or at > $1`; else nothing is in it
    /// then.
    pub open: bool,
    /// What the next columns are compared with where this one equals its end, as in `(at, id) < ($1, $2)`:
    /// one end then.
    pub then: Vec<(Column, Expr)>,
}

impl Plan {
    /// What a call costs at most, in a sentence.
    pub fn costs(&self) -> String {
        match &self.writes {
            None => self.bound.to_string(),
            Some(writes) if self.bound.requests == 0 => format!("writes {writes}"),
            Some(writes) => format!("{}; writes {writes}", self.bound),
        }
    }

    /// The most requests of a call.
    pub(crate) fn requests(&self) -> u64 {
        self.bound.requests.saturating_add(self.writes.as_ref().map_or(0, |writes| writes.requests))
    }

    /// Whether a cursor stands in a fetch, not in a sorted result.
    pub fn resumes_in_index(&self) -> bool {
        self.chain.steps.iter().any(|step| matches!(step, Step::Fetch(fetch) if fetch.resumable))
    }
}
