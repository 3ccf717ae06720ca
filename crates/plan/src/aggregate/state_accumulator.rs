//! A group of a relation over states of the temporal engine.
//!
//! Invariant: rows never leave a relation, so one state a group is added to and read once; where DataFusion
//! computes in parts, the parts are saved states that are combined.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_temporal::Column;
use whimbrel_temporal::operators::{Accumulator, Rows};

/// Makes a column of states.
pub(super) type StateColumns = Arc<dyn Fn() -> Result<Box<dyn Accumulator>> + Send + Sync>;

/// The state of one group of a relation.
pub(super) struct StateAccumulator {
    make: StateColumns,
    returns: DataType,
    /// State 0 is it. The lock is for DataFusion, which asks for `Sync`; it is never contended.
    states: Mutex<Box<dyn Accumulator>>,
}

impl StateAccumulator {
    /// The state of no rows.
    pub fn try_new(make: StateColumns, returns: DataType) -> Result<StateAccumulator> {
        let mut states = make()?;
        states.grow(1);
        Ok(StateAccumulator { make, returns, states: Mutex::new(states) })
    }

    fn states(&mut self) -> &mut dyn Accumulator {
        self.states.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut()
    }
}

impl fmt::Debug for StateAccumulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateAccumulator").field("returns", &self.returns).finish_non_exhaustive()
    }
}

impl datafusion::logical_expr::Accumulator for StateAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |v| v.len());
        let states = self.states();
        // A relation's rows were there always: their starts do not tell them apart.
        states.load(&Rows { argument: values.first().cloned(), filter: None, starts: vec![0; rows] })?;
        states.accumulate(&vec![0; rows], 0);
        states.failure()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut results = Column::new(self.returns.clone());
        let states = self.states();
        states.result(&[0], &mut results);
        states.failure()?;
        ScalarValue::try_from_array(&results.finish()?, 0)
    }

    fn size(&self) -> usize {
        std::mem::size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(Some(self.states().save()?))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(parts) = states.first().and_then(|s| s.as_binary_opt::<i32>()) else {
            return internal_err!("the parts of an aggregate are not its states");
        };
        let mut part = (self.make)()?;
        for bytes in parts.iter().flatten() {
            part.restore(bytes)?;
            self.states().combine(&[0], part.as_ref(), &[0], whimbrel_temporal::INFINITY);
        }
        self.states().failure()
    }
}
