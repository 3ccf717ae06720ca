//! Rows without a key that are picked and computed by formulas of whole numbers, a block after the other, and added up
//! while they are in the nearest cache.
//!
//! Invariant: the rows of a block are all added up or none of them. A formula stands for an expression; that computes
//! what formulas are not for, rows with nulls, and what they leave undone, where a number may be too large.

use super::calls::States;
use crate::batch::Batch;
use crate::formula::{BLOCK, Formula, Numbers};
use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use std::ops::Range;
use std::sync::Arc;

/// How many rows are added up at once.
pub(super) const ROWS: usize = BLOCK / size_of::<i64>();

/// What the formulas of an aggregate without a key are: which rows it takes in, and what it adds up.
#[derive(Debug, Clone)]
pub struct Formulas {
    /// What all formulas are computed of.
    pub arguments: Vec<Operand>,
    /// Which rows are taken in; none: all.
    pub picked: Option<Picked>,
    /// What stands for each call's argument; none: it counts rows.
    pub calls: Vec<Option<Formula>>,
}

/// An argument of formulas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// The column at this place, of int64.
    Column(usize),
    /// A number.
    Value(i64),
}

/// Rows for which something is true.
#[derive(Debug, Clone)]
pub struct Picked {
    /// What has to be true, one after the other: a row is not asked any more once something is not.
    pub predicates: Vec<Arc<dyn PhysicalExpr>>,
    /// All of it as a formula.
    pub formula: Formula,
}

/// Formulas with memory for a block of what each of their operations comes to.
#[derive(Debug)]
pub(super) struct Blocks {
    formulas: Formulas,
    picked: Vec<Vec<i64>>,
    calls: Vec<Vec<Vec<i64>>>,
}

impl Blocks {
    pub fn new(formulas: Formulas) -> Blocks {
        let memory = |formula: Option<&Formula>| formula.map_or(Vec::new(), Formula::memory);
        Blocks {
            picked: memory(formulas.picked.as_ref().map(|picked| &picked.formula)),
            calls: formulas.calls.iter().map(|call| memory(call.as_ref())).collect(),
            formulas,
        }
    }

    /// The numbers that the formulas are computed of; none where expressions have to do it: there are nulls, or rows are
    /// already absent. Short runs are faster computed a batch at a time.
    pub fn numbers<'a>(&self, batch: &'a Batch) -> Option<Vec<Numbers<'a, i64>>> {
        let long = batch.len() >= ROWS && batch.sync[0] == batch.sync[ROWS - 1];
        if !long || batch.present().is_some() {
            return None;
        }
        let numbers = |operand: &Operand| match *operand {
            Operand::Value(value) => Some(Numbers::Same(value)),
            Operand::Column(place) => {
                let column = batch.rows.column(place).as_primitive_opt::<Int64Type>()?;
                (column.null_count() == 0).then(|| Numbers::Column(column.values()))
            }
        };
        self.formulas.arguments.iter().map(numbers).collect()
    }

    /// The rows of a batch that are picked, by the expressions.
    pub fn pick(&self, batch: Batch) -> Result<Batch> {
        let mut predicates = self.formulas.picked.iter().flat_map(|picked| &picked.predicates);
        predicates.try_fold(batch, |batch, predicate| batch.compact()?.picked(predicate))
    }

    /// What the formulas come to for some rows; none if a number may be too large.
    pub fn compute<'a>(
        &'a mut self,
        numbers: &'a [Numbers<'a, i64>],
        rows: Range<usize>,
    ) -> Option<Computed<'a>> {
        let Blocks { formulas, picked: memory, calls } = self;
        let (mut taken, mut count) = (None, rows.len());
        if let Some(picked) = &formulas.picked {
            let (truths, trues) = picked.formula.truths(numbers, rows.clone(), memory)?;
            (taken, count) = (Some(truths), trues);
        }
        for (formula, memory) in formulas.calls.iter().zip(calls.iter_mut()) {
            if let Some(formula) = formula {
                formula.compute(numbers, rows.clone(), memory)?;
            }
        }
        Some(Computed { formulas, numbers, rows, memory: calls, taken, count })
    }
}

/// What formulas have come to for some rows.
pub(super) struct Computed<'a> {
    formulas: &'a Formulas,
    numbers: &'a [Numbers<'a, i64>],
    rows: Range<usize>,
    memory: &'a [Vec<Vec<i64>>],
    taken: Option<&'a [i64]>,
    count: usize,
}

impl Computed<'_> {
    /// Whether no row was picked.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds it to one state of each aggregate.
    pub fn add_to(&self, states: &mut States, state: u32) {
        for (call, formula) in self.formulas.calls.iter().enumerate() {
            let numbers = formula.as_ref().map(|formula| self.outcome(formula, call));
            states.accumulate_block(call, state, &Block { numbers, taken: self.taken, count: self.count });
        }
    }

    fn outcome(&self, formula: &Formula, call: usize) -> Numbers<'_, i64> {
        match formula {
            Formula::Argument(number) => self.numbers[*number].of(self.rows.clone()),
            Formula::Operation(..) => Numbers::Column(&self.memory[call][0][..self.rows.len()]),
        }
    }
}

/// Some rows as an aggregate that takes them in at once sees them.
#[derive(Debug)]
pub struct Block<'a> {
    /// What it aggregates; none: rows are counted.
    pub numbers: Option<Numbers<'a, i64>>,
    /// A truth for each row, whether it counts; none: all do.
    pub taken: Option<&'a [i64]>,
    /// How many rows count.
    pub count: usize,
}

/// A column of states of an aggregate that takes in many rows of whole numbers at once.
pub trait AddBlock {
    /// Adds the rows to a state.
    fn add_block(&mut self, state: u32, block: &Block);
}
