//! Programs run: all requests of a step in one round, or row by row.

use super::call::Call;
use super::executor::{Executor, ask};
use super::fetch::{Given, Waiting};
use super::local::{self, Local};
use super::program::{Op, Program, Start, Values};
use super::rows::Rows;
use crate::cursor::Place;
use crate::error::{Error, Result};
use crate::store::{Found, Read};
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, UInt32Array, new_empty_array};
use datafusion::arrow::compute::{concat, take};

/// The rows of a call, and where the next page begins.
pub(crate) struct Answer {
    pub batch: RecordBatch,
    pub next: Option<Place>,
}

/// Runs a program.
pub(crate) fn run(program: &Program, call: &Call<'_>) -> Result<Answer> {
    let (rows, next) = match call.executor {
        Executor::Lazy => run_lazily(program, call)?,
        Executor::Simple | Executor::Parallel => run_in_rounds(program, call)?,
    };
    Ok(Answer { batch: program.output(rows)?, next })
}

/// Runs the local steps of a program over given rows.
pub(crate) fn run_local_steps(
    program: &Program,
    columns: &[ArrayRef],
    len: usize,
    call: &Call<'_>,
) -> Result<RecordBatch> {
    let rows = Rows { columns: columns.to_vec(), len };
    program.output(program.steps.iter().try_fold(rows, |rows, op| step(op, rows, call))?)
}

/// A running program.
struct Run<'p> {
    program: &'p Program,
    at: usize,
    state: State<'p>,
    /// Where the next page begins, if a step has ended this one.
    next: Option<Place>,
}

/// Where a program that runs is.
enum State<'p> {
    Union(Vec<Run<'p>>),
    Rows(Rows),
    /// A fetch that waits for this many answers.
    Waiting(Box<Waiting>, usize),
}

/// Requests with their answers.
type Answers = std::iter::Zip<std::vec::IntoIter<Read>, std::vec::IntoIter<Found>>;

/// Runs a program round by round.
fn run_in_rounds(program: &Program, call: &Call<'_>) -> Result<(Rows, Option<Place>)> {
    let mut run = Run::new(program, call)?;
    let mut reads = Vec::new();
    loop {
        run.advance(call, &mut reads)?;
        if let (State::Rows(rows), true) = (&run.state, run.at == program.steps.len()) {
            return Ok((rows.clone(), run.next));
        }
        let requests = std::mem::take(&mut reads);
        let found = ask(call.store, call.executor, &requests)?;
        run.accept(&mut requests.into_iter().zip(found), call, &mut reads)?;
    }
}

impl<'p> Run<'p> {
    /// A program at its beginning.
    fn new(program: &'p Program, call: &Call<'_>) -> Result<Run<'p>> {
        let state = match &program.source {
            Start::Union(branches) => {
                State::Union(branches.iter().map(|branch| Run::new(branch, call)).collect::<Result<_>>()?)
            }
            source => State::Rows(initial_rows(source, call)?),
        };
        Ok(Run { program, at: 0, state, next: None })
    }

    /// Whether there is nothing left to do.
    fn finished(&self) -> bool {
        matches!(self.state, State::Rows(_)) && self.at == self.program.steps.len()
    }

    /// Runs steps until answers are missing, and adds their requests.
    fn advance(&mut self, call: &Call<'_>, reads: &mut Vec<Read>) -> Result<()> {
        if let State::Union(branches) = &mut self.state {
            branches.iter_mut().try_for_each(|branch| branch.advance(call, reads))?;
            if !branches.iter().all(Run::finished) {
                return Ok(());
            }
            let rows: Vec<Rows> = branches.iter().filter_map(|branch| branch.rows().cloned()).collect();
            self.state = State::Rows(Rows::concat(&rows)?.unwrap_or(Rows { columns: vec![], len: 0 }));
        }
        while let (State::Rows(rows), Some(op)) = (&mut self.state, self.program.steps.get(self.at)) {
            self.at += 1;
            let rows = std::mem::replace(rows, Rows { columns: vec![], len: 0 });
            match op {
                Op::Fetch(fetcher) => {
                    let before = reads.len();
                    let waiting = fetcher.ask(rows, call, reads)?;
                    self.state = State::Waiting(Box::new(waiting), reads.len() - before);
                }
                op => {
                    let rows = step(op, rows, call)?;
                    self.next = page_end(op, &rows).or(self.next.take());
                    self.state = State::Rows(rows);
                }
            }
        }
        Ok(())
    }

    /// The rows, if no answer is missing.
    fn rows(&self) -> Option<&Rows> {
        match &self.state {
            State::Rows(rows) => Some(rows),
            _ => None,
        }
    }

    /// Accepts answers, and adds further requests.
    fn accept(&mut self, answers: &mut Answers, call: &Call<'_>, reads: &mut Vec<Read>) -> Result<()> {
        match &mut self.state {
            State::Union(branches) => {
                branches.iter_mut().try_for_each(|branch| branch.accept(answers, call, reads))
            }
            State::Rows(_) => Ok(()),
            State::Waiting(..) => {
                let empty = State::Rows(Rows { columns: vec![], len: 0 });
                let State::Waiting(waiting, count) = std::mem::replace(&mut self.state, empty) else {
                    return Ok(());
                };
                let Some(Op::Fetch(fetcher)) = self.program.steps.get(self.at - 1) else {
                    return Err(Error::Internal("an answer came to a step that asked for none".to_string()));
                };
                let before = reads.len();
                match fetcher.accept(*waiting, answers.by_ref().take(count).collect(), call, reads)? {
                    Given::Waiting(waiting) => self.state = State::Waiting(waiting, reads.len() - before),
                    Given::Rows(rows) => {
                        self.next =
                            fetcher.page().and_then(|page| last_position(&rows, page)).or(self.next.take());
                        self.state = State::Rows(rows);
                    }
                }
                Ok(())
            }
        }
    }
}

/// Where the next page begins, if this step ends a page.
fn page_end(op: &Op, rows: &Rows) -> Option<Place> {
    match op {
        Op::Merge { rows: page, .. } => last_position(rows, *page),
        Op::Page { rows: page, .. } if rows.len >= *page => {
            let positions = rows.columns.last()?.as_binary_opt::<i32>()?;
            Some(Place { position: positions.value(rows.len - 1).to_vec(), prefix: vec![] })
        }
        _ => None,
    }
}

/// The position of the last row of a full page; the last two columns are position and prefix.
fn last_position(rows: &Rows, page: usize) -> Option<Place> {
    let [.., position, prefix] = rows.columns.as_slice() else { return None };
    if rows.len < page {
        return None;
    }
    let last = rows.len.checked_sub(1)?;
    Some(Place {
        position: position.as_binary_opt::<i32>()?.value(last).to_vec(),
        prefix: prefix.as_binary_opt::<i32>()?.value(last).to_vec(),
    })
}

/// Runs one local step.
fn step(op: &Op, rows: Rows, call: &Call<'_>) -> Result<Rows> {
    match op {
        Op::Fetch(_) => Err(Error::Internal("a remote step was run as a local one".to_string())),
        Op::Filter(exprs) => rows.filter(&local::all_true(exprs, &rows, call)?),
        Op::Project { columns, kept } => {
            let mut projected = local::values(columns, &rows, call)?;
            projected.extend(kept.iter().map(|at| rows.columns[*at].clone()));
            Ok(Rows { columns: projected, len: rows.len })
        }
        Op::Sort { keys, first } => local::sort(keys, &rows, call, *first),
        Op::Stop(first) => Ok(rows.first(*first)),
        Op::Group(grouping) => grouping.run(&rows, call),
        Op::Distinct => local::distinct(&rows),
        Op::Merge { position, prefix, reverse, rows: first } => {
            local::merge(&rows, *position, *prefix, *reverse, *first)
        }
        Op::Page { keys, rows: first } => local::page(keys, &rows, call, *first),
    }
}

/// The rows that a program begins with.
fn initial_rows(source: &Start, call: &Call<'_>) -> Result<Rows> {
    match source {
        Start::Call | Start::Union(_) => Ok(Rows::unit()),
        Start::Lists(lists) => lists
            .iter()
            .try_fold(Rows::unit(), |rows, list| cross_join(&rows, distinct_list_values(list, call)?)),
        Start::Rows { types, rows } => {
            let mut columns = Vec::with_capacity(types.len());
            for (at, of) in types.iter().enumerate() {
                let values = rows.iter().map(|row| cast_array(row[at].value(&Rows::unit(), call)?, of));
                columns.push(concat_values(&values.collect::<Result<Vec<_>>>()?, of)?);
            }
            Ok(Rows { columns, len: rows.len() })
        }
    }
}

/// The array with another type.
fn cast_array(value: ArrayRef, of: &datafusion::arrow::datatypes::DataType) -> Result<ArrayRef> {
    match value.data_type() == of {
        true => Ok(value),
        false => Ok(datafusion::arrow::compute::cast(&value, of)?),
    }
}

/// Arrays of one value each, as one array.
fn concat_values(values: &[ArrayRef], of: &datafusion::arrow::datatypes::DataType) -> Result<ArrayRef> {
    let values: Vec<&dyn datafusion::arrow::array::Array> = values.iter().map(AsRef::as_ref).collect();
    match values.is_empty() {
        true => Ok(new_empty_array(of)),
        false => Ok(concat(&values)?),
    }
}

/// The distinct values of a list, without nulls.
fn distinct_list_values(list: &Values, call: &Call<'_>) -> Result<ArrayRef> {
    let values = match list {
        Values::Given(at) => call.lists[*at]
            .clone()
            .ok_or_else(|| Error::Internal("a list was not given as one".to_string()))?,
        Values::Computed(of, exprs) => {
            let values = exprs.iter().map(|expr: &Local| cast_array(expr.value(&Rows::unit(), call)?, of));
            concat_values(&values.collect::<Result<Vec<_>>>()?, of)?
        }
    };
    let len = values.len();
    let rows = local::distinct(&Rows { columns: vec![values], len })?;
    let values = &rows.columns[0];
    let there: UInt32Array =
        (0..values.len()).filter(|at| values.is_valid(*at)).map(|at| at as u32).collect();
    Ok(take(values, &there, None)?)
}

/// The cross join of rows and values.
fn cross_join(rows: &Rows, values: ArrayRef) -> Result<Rows> {
    let (outer, inner) = (rows.len as u32, values.len() as u32);
    let places: UInt32Array = (0..outer).flat_map(|at| std::iter::repeat_n(at, inner as usize)).collect();
    let mut product = rows.take(&places)?;
    let places: UInt32Array = (0..outer).flat_map(|_| 0..inner).collect();
    product.columns.push(take(&values, &places, None)?);
    Ok(product)
}

/// Runs a program row by row, until a stop has enough rows.
fn run_lazily(program: &Program, call: &Call<'_>) -> Result<(Rows, Option<Place>)> {
    let rows = match &program.source {
        Start::Union(branches) => {
            let rows =
                branches.iter().map(|branch| Ok(run_lazily(branch, call)?.0)).collect::<Result<Vec<_>>>()?;
            Rows::concat(&rows)?.unwrap_or(Rows { columns: vec![], len: 0 })
        }
        source => initial_rows(source, call)?,
    };
    let mut next = None;
    let rows = run_steps_lazily(&program.steps, rows, call, &mut next)?;
    Ok((rows, next))
}

/// Runs steps row by row up to the first that needs all rows, then that one, then the rest.
fn run_steps_lazily(ops: &[Op], rows: Rows, call: &Call<'_>, next: &mut Option<Place>) -> Result<Rows> {
    let streams = |op: &Op| matches!(op, Op::Fetch(_) | Op::Filter(_) | Op::Project { .. });
    let whole = ops.iter().position(|op| !streams(op)).unwrap_or(ops.len());
    let enough = match ops.get(whole) {
        Some(Op::Stop(rows)) => *rows,
        _ => usize::MAX,
    };
    let mut parts = Vec::new();
    run_row_by_row(&ops[..whole], rows, call, enough, &mut parts, next)?;
    let rows = Rows::concat(&parts)?.unwrap_or(Rows { columns: vec![], len: 0 });
    let Some(op) = ops.get(whole) else { return Ok(rows) };
    let rows = step(op, rows, call)?;
    *next = page_end(op, &rows).or(next.take());
    run_steps_lazily(&ops[whole + 1..], rows, call, next)
}

/// Runs steps that need one row at a time, until there are enough rows.
fn run_row_by_row(
    ops: &[Op],
    rows: Rows,
    call: &Call<'_>,
    enough: usize,
    parts: &mut Vec<Rows>,
    next: &mut Option<Place>,
) -> Result<()> {
    let Some((op, rest)) = ops.split_first() else {
        parts.push(rows);
        return Ok(());
    };
    let rows = match op {
        Op::Fetch(fetcher) => {
            let mut reads = Vec::new();
            let mut waiting = fetcher.ask(rows, call, &mut reads)?;
            let rows = loop {
                let requests = std::mem::take(&mut reads);
                let found = ask(call.store, Executor::Lazy, &requests)?;
                let answers = requests.into_iter().zip(found).collect();
                match fetcher.accept(waiting, answers, call, &mut reads)? {
                    Given::Rows(rows) => break rows,
                    Given::Waiting(again) => waiting = *again,
                }
            };
            *next = fetcher.page().and_then(|page| last_position(&rows, page)).or(next.take());
            rows
        }
        op => step(op, rows, call)?,
    };
    let next_fetch =
        rest.iter().find_map(|op| if let Op::Fetch(fetcher) = op { Some(fetcher) } else { None });
    if rows.len < 2 || next_fetch.is_none_or(|fetcher| fetcher.merges()) {
        return run_row_by_row(rest, rows, call, enough, parts, next);
    }
    for row in 0..rows.len {
        if parts.iter().map(|rows| rows.len).sum::<usize>() >= enough {
            break;
        }
        run_row_by_row(rest, rows.slice(row, 1), call, enough, parts, next)?;
    }
    Ok(())
}
