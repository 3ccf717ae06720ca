//! `process`: an operator of a user's own, over batches.
//!
//! The user's code sees the rows of a stream in the order of their starts, batch by batch, and hands out rows
//! that are each made of one of these. Such a row has the lifetime and the key of the row that it is made of.
//!
//! Invariants: what the code hands out must not depend on how rows were cut into batches; the caller vouches
//! for that, and for rows that carry their ends (an end edge could not be matched with its row any more).

use crate::batch::Message;
use crate::operator::Operator;
use crate::places;
use arrow::array::{Array, RecordBatch, UInt32Array};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, exec_err};
use std::fmt;
use std::sync::Arc;

/// An operator of a user's own.
///
/// ```
/// use arrow::array::{Int64Array, RecordBatch};
/// use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
/// use datafusion::common::Result;
/// use std::sync::Arc;
/// use whimbrel_temporal::operators::{Processed, UserOperator, UserProcess};
///
/// /// Numbers the rows.
/// #[derive(Debug)]
/// struct Numbered;
///
/// impl UserOperator for Numbered {
///     fn name(&self) -> &str {
///         "numbered"
///     }
///     fn schema(&self) -> SchemaRef {
///         Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
///     }
///     fn start(&self) -> Result<Box<dyn UserProcess>> {
///         Ok(Box::new(Next(0)))
///     }
/// }
///
/// struct Next(i64);
///
/// impl UserProcess for Next {
///     fn process(&mut self, rows: &RecordBatch) -> Result<Processed> {
///         let numbers = self.0..self.0 + rows.num_rows() as i64;
///         self.0 = numbers.end;
///         let numbers: Int64Array = numbers.collect();
///         let rows = RecordBatch::try_from_iter([("n", Arc::new(numbers) as _)])?;
///         Ok(Processed { rows, made_of: None })
///     }
///     fn save(&self) -> Result<Vec<u8>> {
///         Ok(self.0.to_le_bytes().to_vec())
///     }
///     fn restore(&mut self, state: &[u8]) -> Result<()> {
///         self.0 = i64::from_le_bytes(state.try_into().unwrap_or_default());
///         Ok(())
///     }
/// }
///
/// let mut process = Numbered.start().unwrap();
/// let three = RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from(vec![7, 8, 9])) as _)]).unwrap();
/// process.process(&three).unwrap();
/// assert_eq!(process.save().unwrap()[0], 3);
/// ```
pub trait UserOperator: fmt::Debug + Send + Sync {
    /// Its name in plans and messages.
    fn name(&self) -> &str;

    /// The columns that it makes.
    fn schema(&self) -> SchemaRef;

    /// Begins a stream, or the rows of one shard of it.
    ///
    /// # Errors
    /// Those of the user's code.
    fn start(&self) -> Result<Box<dyn UserProcess>>;
}

/// The state of a [`UserOperator`] in the middle of a stream.
pub trait UserProcess: Send {
    /// Takes the next rows, of which there is at least one.
    ///
    /// # Errors
    /// Those of the user's code; it is not called again.
    fn process(&mut self, rows: &RecordBatch) -> Result<Processed>;

    /// The state.
    ///
    /// # Errors
    /// If it cannot be written.
    fn save(&self) -> Result<Vec<u8>>;

    /// Takes over a saved state.
    ///
    /// # Errors
    /// If it cannot be read.
    fn restore(&mut self, state: &[u8]) -> Result<()>;
}

/// The rows that were made of a batch.
#[derive(Debug)]
pub struct Processed {
    /// The rows.
    pub rows: RecordBatch,
    /// Of which row of the batch each is made, in ascending order; none: there is one for each.
    pub made_of: Option<UInt32Array>,
}

/// See the module.
pub struct Process {
    name: String,
    process: Box<dyn UserProcess>,
    /// The columns of the input that stay.
    key: Vec<usize>,
    schema: SchemaRef,
}

impl Process {
    /// Runs an operator over rows with the columns of `input`, of which some, the key, stay in front of those
    /// that it makes.
    ///
    /// # Errors
    /// Those of the user's code.
    pub fn try_new(operator: &dyn UserOperator, input: &SchemaRef, key: Vec<usize>) -> Result<Process> {
        let made = operator.schema();
        let kept = key.iter().map(|column| Arc::clone(&input.fields()[*column]));
        let schema = Schema::new(kept.chain(made.fields().iter().cloned()).collect::<Vec<_>>());
        let (name, process) = (operator.name().to_string(), operator.start()?);
        Ok(Process { name, process, key, schema: Arc::new(schema) })
    }

    /// The columns of the key, then those that the operator makes.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Checks which rows of a batch the new rows are made of.
    fn check(&self, made: &Processed, rows: usize) -> Result<()> {
        let (name, given) = (&self.name, made.rows.num_rows());
        let Some(made_of) = &made.made_of else {
            return match given == rows {
                true => Ok(()),
                false => {
                    exec_err!("{name} gave {given} rows for {rows}, and did not say of which each is made")
                }
            };
        };
        if made_of.len() != given {
            return exec_err!(
                "{name} gave {given} rows, and said of {} of which they are made",
                made_of.len()
            );
        }
        if made_of.null_count() > 0 || made_of.values().last().is_some_and(|last| *last as usize >= rows) {
            return exec_err!("{name} made rows of such as are not among the {rows} rows that it was given");
        }
        match made_of.values().is_sorted() {
            true => Ok(()),
            false => exec_err!("{name} gave rows out of order: one made of a later row came first"),
        }
    }
}

impl Operator for Process {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        let batch = match message {
            Message::Batch(batch) => batch.compact()?,
            punctuation => {
                out.push(punctuation);
                return Ok(());
            }
        };
        if batch.is_empty() {
            return Ok(());
        }
        let made = self.process.process(&batch.rows)?;
        self.check(&made, batch.len())?;
        if made.rows.num_rows() == 0 {
            return Ok(());
        }
        let kept = batch.rows.project(&self.key)?;
        let (batch, kept) = match &made.made_of {
            None => (batch, kept),
            Some(places) => (batch.take(places)?, places::take(&kept, places)?),
        };
        let columns = kept.columns().iter().chain(made.rows.columns()).cloned().collect();
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        out.push(Message::Batch(batch.with_rows(rows, None)));
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>> {
        self.process.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.process.restore(state)
    }
}
