//! Programs: plans made ready to run, with columns as positions and expressions as physical ones.
//!
//! A program is made once, when a statement is prepared.

use super::aggregate::Grouping;
use super::fetch::Fetcher;
use super::local::{Local, Scope, SortKey};
use super::needed::Needed;
use super::rows::Rows;
use crate::error::{Error, Result};
use crate::expression::{Columns, POSITION, PREFIX};
use crate::plan::{Chain, List, ParameterType, Source, Step};
use crate::syntax::parameter_number;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Placeholder;
use std::sync::Arc;

/// A lowered chain.
#[derive(Debug)]
pub(crate) struct Program {
    pub source: Start,
    pub steps: Vec<Op>,
    output: SchemaRef,
}

/// The rows that a program begins with.
#[derive(Debug)]
pub(crate) enum Start {
    Call,
    Lists(Vec<Values>),
    Rows { types: Vec<DataType>, rows: Vec<Vec<Local>> },
    Union(Vec<Program>),
}

/// The values of a list.
#[derive(Debug)]
pub(crate) enum Values {
    /// A parameter.
    Given(usize),
    /// Expressions.
    Computed(DataType, Vec<Local>),
}

/// A step.
#[derive(Debug)]
pub(crate) enum Op {
    /// A fetch.
    Fetch(Box<Fetcher>),
    Filter(Vec<Local>),
    Project {
        columns: Vec<Local>,
        kept: Vec<usize>,
    },
    Sort {
        keys: Vec<SortKey>,
        first: Option<usize>,
    },
    Stop(usize),
    Group(Grouping),
    Distinct,
    Merge {
        position: usize,
        prefix: usize,
        reverse: bool,
        rows: usize,
    },
    Page {
        keys: Vec<SortKey>,
        rows: usize,
    },
}

impl Program {
    /// Lowers a chain.
    ///
    /// # Errors
    /// `Internal` if an expression cannot be lowered.
    pub fn new(chain: &Chain, parameters: &[ParameterType]) -> Result<Program> {
        let mut columns = Columns::of_source(&chain.source);
        let source = begin(&chain.source, parameters)?;
        let mut steps = Vec::with_capacity(chain.steps.len());
        let needed = Needed::after_each(&chain.steps);
        for (at, step) in chain.steps.iter().enumerate() {
            let scope = Arc::new(Scope::new(&columns, parameters)?);
            if let Step::Fetch(fetch) = step {
                let kept = needed[at].places(&columns, fetch);
                let fetcher = Fetcher::new(fetch, &scope, &columns, kept.clone(), parameters)?;
                steps.push(Op::Fetch(Box::new(fetcher)));
                columns = columns.select(&kept);
                columns.apply(step)?;
                continue;
            }
            let mut after = columns.clone();
            after.apply(step)?;
            let stop = match chain.steps.get(at + 1) {
                Some(Step::Stop(rows)) => Some(*rows as usize),
                _ => None,
            };
            steps.push(op(step, &scope, &columns, stop)?);
            columns = after;
        }
        let fields = columns.0.into_iter().map(|(_, field)| field.with_nullable(true));
        let fields: Vec<Field> =
            fields.filter(|field| field.name() != POSITION && field.name() != PREFIX).collect();
        Ok(Program { source, steps, output: Arc::new(Schema::new(fields)) })
    }

    /// The rows as a record batch, without the columns of a cursor.
    ///
    /// # Errors
    /// `Internal` if the columns do not fit the program.
    pub fn output(&self, rows: Rows) -> Result<RecordBatch> {
        let columns = rows.columns.into_iter().take(self.output.fields().len()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len));
        Ok(RecordBatch::try_new_with_options(self.output.clone(), columns, &options)?)
    }
}

/// Lowers the source of a chain.
fn begin(source: &Source, parameters: &[ParameterType]) -> Result<Start> {
    let scope = Arc::new(Scope::new(&Columns::default(), parameters)?);
    Ok(match source {
        Source::Call => Start::Call,
        Source::Lists(lists) => {
            Start::Lists(lists.iter().map(|list| values(list, &scope, parameters)).collect::<Result<_>>()?)
        }
        Source::Values { fields, rows } => {
            let types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
            let row =
                |row: &Vec<Expr>| row.iter().map(|expr| Local::new(expr, &scope)).collect::<Result<Vec<_>>>();
            Start::Rows { types, rows: rows.iter().map(row).collect::<Result<_>>()? }
        }
        Source::Union { branches, .. } => Start::Union(
            branches.iter().map(|branch| Program::new(branch, parameters)).collect::<Result<_>>()?,
        ),
    })
}

/// Lowers the values of a list.
fn values(list: &List, scope: &Arc<Scope>, parameters: &[ParameterType]) -> Result<Values> {
    if let [Expr::Placeholder(Placeholder { id, .. })] = list.values.as_slice()
        && let Some(at) =
            parameter_number(id).filter(|at| parameters.get(*at).is_some_and(|p| p.list.is_some()))
    {
        return Ok(Values::Given(at));
    }
    let values = list.values.iter().map(|value| Local::new(value, scope)).collect::<Result<_>>()?;
    Ok(Values::Computed(list.of.clone(), values))
}

/// Lowers one step.
fn op(step: &Step, scope: &Arc<Scope>, columns: &Columns, stop: Option<usize>) -> Result<Op> {
    let locals =
        |exprs: &[Expr]| exprs.iter().map(|expr| Local::new(expr, scope)).collect::<Result<Vec<_>>>();
    let keys = |order: &[datafusion::logical_expr::SortExpr]| {
        order.iter().map(|key| SortKey::new(key, scope)).collect::<Result<Vec<_>>>()
    };
    let place = |name: &str| {
        columns
            .0
            .iter()
            .position(|(_, field)| field.name() == name)
            .ok_or_else(|| Error::Internal(format!("there is no {name}")))
    };
    Ok(match step {
        Step::Fetch(_) => return Err(Error::Internal("a remote step was made a local one".to_string())),
        Step::Filter(exprs) => Op::Filter(locals(exprs)?),
        Step::Project { columns: exprs, .. } => {
            let hidden =
                columns.0.iter().enumerate().filter(|(_, (_, f))| f.name() == POSITION || f.name() == PREFIX);
            let exprs: Vec<Expr> = exprs.iter().map(|(expr, _)| expr.clone()).collect();
            Op::Project { columns: locals(&exprs)?, kept: hidden.map(|(at, _)| at).collect() }
        }
        Step::Sort(order) => Op::Sort { keys: keys(order)?, first: stop },
        Step::Stop(rows) => Op::Stop(*rows as usize),
        Step::Aggregate { group, aggregates, .. } => Op::Group(Grouping::new(group, aggregates, scope)?),
        Step::Distinct => Op::Distinct,
        Step::Merge { reverse, rows } => Op::Merge {
            position: place(POSITION)?,
            prefix: place(PREFIX)?,
            reverse: *reverse,
            rows: *rows as usize,
        },
        Step::Page { order, rows } => Op::Page { keys: keys(order)?, rows: *rows as usize },
    })
}
