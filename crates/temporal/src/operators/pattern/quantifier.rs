//! Conditions over the events of a list: of any, of all, of how many of them they are true.
//!
//! The condition sees the events one by one, beside the register. It is evaluated over all events of all
//! lists at once.

use super::automaton::Expr;
use super::reader::Reader;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Of how many events of a list a condition is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantifier {
    /// Whether it is true of one of them at least.
    Any,
    /// Whether it is true of all.
    All,
    /// Of how many: an int64.
    Count,
}

/// A condition over one event and the register, as an expression for an arc that consumes lists of events.
/// `columns` are those of an event, followed by the register's.
///
/// # Errors
/// `Plan` if events have no columns, the condition is not a truth value, or it reads a column that does not
/// exist.
pub fn quantified(
    quantifier: Quantifier,
    condition: &Expr,
    columns: &Schema,
    event_columns: usize,
) -> Result<Expr> {
    if event_columns == 0 {
        return plan_err!("events without columns cannot be told apart; count them by one that has a value");
    }
    let found = condition.data_type(columns)?;
    if found != DataType::Boolean {
        return plan_err!("the condition {condition} of the pattern is not a truth value but {found}");
    }
    let condition = Reader::new(condition, columns)?;
    let inputs = condition.columns.iter().copied();
    // The lengths of lists are asked for where no event is.
    let mut inputs: Vec<usize> = inputs.chain([0]).collect();
    inputs.sort_unstable();
    inputs.dedup();
    let lists = inputs.iter().filter(|&&input| input < event_columns).count();
    let input = |&column: &usize| Arc::new(Column::new(columns.field(column).name(), column)) as Expr;
    let asks_first = condition.columns.first() == Some(&0);
    let inputs = inputs.iter().map(input).collect();
    Ok(Arc::new(Quantified { quantifier, condition, inputs, lists, asks_first }))
}

/// See [`quantified`].
#[derive(Debug)]
struct Quantified {
    quantifier: Quantifier,
    condition: Reader,
    /// The columns that are read, which gives the lengths of lists first.
    inputs: Vec<Expr>,
    /// How many of them are lists; the others are the register's.
    lists: usize,
    /// Whether the condition reads the first column.
    asks_first: bool,
}

impl Quantified {
    /// For each event of each list, whether the condition is true of it, and where the lists end.
    fn truths(&self, batch: &RecordBatch) -> Result<(BooleanArray, Vec<usize>)> {
        let rows = batch.num_rows();
        let inputs = self.inputs.iter().map(|input| input.evaluate(batch)?.into_array(rows));
        let inputs: Vec<ArrayRef> = inputs.collect::<Result<_>>()?;
        let Some(first) = inputs.first().and_then(|list| list.as_list_opt::<i32>()) else {
            return internal_err!("the events of a pattern are not lists");
        };
        let lengths: Vec<usize> = first.offsets().lengths().collect();
        let ends = lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        let ends: Vec<usize> = ends.collect();
        let owners = (0..).zip(&lengths).flat_map(|(row, &length)| std::iter::repeat_n(row, length));
        let owners: UInt32Array = owners.collect::<Vec<u32>>().into();
        let column = |(place, input): (usize, &ArrayRef)| match input.as_list_opt::<i32>() {
            Some(list) if place < self.lists => {
                let (from, to) = (list.value_offsets()[0], list.value_offsets()[rows]);
                Ok(list.values().slice(from as usize, (to - from) as usize))
            }
            _ => Ok(take(input, &owners, None)?),
        };
        let skip = !self.asks_first as usize;
        let columns = inputs.iter().enumerate().skip(skip).map(column).collect::<Result<_>>()?;
        Ok((self.condition.truth(columns, owners.len())?, ends))
    }
}

impl PhysicalExpr for Quantified {
    fn data_type(&self, _input: &Schema) -> Result<DataType> {
        Ok(match self.quantifier {
            Quantifier::Any | Quantifier::All => DataType::Boolean,
            Quantifier::Count => DataType::Int64,
        })
    }

    fn nullable(&self, _input: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let (truths, ends) = self.truths(batch)?;
        let begins = [0].into_iter().chain(ends.iter().copied());
        let counts = begins.zip(&ends).map(|(begin, &end)| {
            let holds = |event: &usize| truths.is_valid(*event) && truths.value(*event);
            ((begin..end).filter(holds).count(), end - begin)
        });
        Ok(ColumnarValue::Array(match self.quantifier {
            Quantifier::Any => Arc::new(counts.map(|(holds, _)| Some(holds > 0)).collect::<BooleanArray>()),
            Quantifier::All => {
                Arc::new(counts.map(|(holds, of)| Some(holds == of)).collect::<BooleanArray>())
            }
            Quantifier::Count => {
                Arc::new(Int64Array::from_iter_values(counts.map(|(holds, _)| holds as i64)))
            }
        }))
    }

    fn children(&self) -> Vec<&Expr> {
        self.inputs.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Expr>) -> Result<Expr> {
        let Quantified { quantifier, ref condition, lists, asks_first, .. } = *self;
        let condition = condition.clone();
        Ok(Arc::new(Quantified { quantifier, condition, inputs: children, lists, asks_first }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Quantified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.quantifier {
            Quantifier::Any => "any",
            Quantifier::All => "all",
            Quantifier::Count => "count",
        };
        write!(f, "{word}({})", self.condition.expr)
    }
}

impl PartialEq for Quantified {
    fn eq(&self, other: &Quantified) -> bool {
        self.quantifier == other.quantifier
            && self.condition == other.condition
            && self.inputs == other.inputs
    }
}

impl Eq for Quantified {}

impl Hash for Quantified {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.quantifier.hash(state);
        self.condition.expr.hash(state);
        self.inputs.hash(state);
    }
}
