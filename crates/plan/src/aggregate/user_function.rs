//! A user's aggregate in a plan: the temporal engine's framework under DataFusion's name for it.
//!
//! Invariant: both engines run the same states. Over a relation rows never leave, so one state a group is
//! added to and read once; where DataFusion computes in parts, the parts are saved states that are combined.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use std::any::Any;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_temporal::Column;
use whimbrel_temporal::operators::{Accumulator, Rows, UserAggregate};

/// A user's aggregate. Two are equal if they are the same object.
#[derive(Debug, Clone)]
pub struct UserFunction(Arc<dyn UserAggregate>);

impl UserFunction {
    /// An aggregate for plans.
    pub fn new(aggregate: Arc<dyn UserAggregate>) -> UserFunction {
        UserFunction(aggregate)
    }

    /// The aggregate.
    pub fn aggregate(&self) -> &Arc<dyn UserAggregate> {
        &self.0
    }

    pub(super) fn name(&self) -> &str {
        self.0.name()
    }

    pub(super) fn udaf(&self) -> Arc<AggregateUDF> {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(AggregateUDF::from(UserUdaf { user: self.clone(), signature }))
    }

    /// The identity of the aggregate.
    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>() as usize
    }
}

impl AsRef<dyn UserAggregate> for UserFunction {
    fn as_ref(&self) -> &(dyn UserAggregate + 'static) {
        self.0.as_ref()
    }
}

impl PartialEq for UserFunction {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for UserFunction {}

impl Hash for UserFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

/// The user's aggregate behind one of DataFusion's, if it is one.
pub(super) fn user_function(func: &AggregateUDF) -> Option<UserFunction> {
    let udaf = (func.inner().as_ref() as &dyn Any).downcast_ref::<UserUdaf>()?;
    Some(udaf.user.clone())
}

/// A user's aggregate as DataFusion's `AggregateUDFImpl`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct UserUdaf {
    user: UserFunction,
    signature: Signature,
}

impl AggregateUDFImpl for UserUdaf {
    fn name(&self) -> &str {
        self.user.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.user.0.return_type(arguments.first())
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[state]", args.name), DataType::Binary, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn datafusion::logical_expr::Accumulator>> {
        let argument = args.expr_fields.first().map(|f| f.data_type().clone());
        let returns = args.return_type().clone();
        Ok(Box::new(UserAccumulator::new(self.user.clone(), argument, returns)))
    }
}

/// The state of one group of a relation.
#[derive(Debug)]
struct UserAccumulator {
    user: UserFunction,
    argument: Option<DataType>,
    returns: DataType,
    /// State 0 is it. The lock is for DataFusion, which asks for `Sync`; it is never contended.
    states: Mutex<Box<dyn Accumulator>>,
}

impl UserAccumulator {
    fn new(user: UserFunction, argument: Option<DataType>, returns: DataType) -> UserAccumulator {
        let mut states = user.0.accumulator(argument.as_ref(), false);
        states.grow(1);
        UserAccumulator { user, argument, returns, states: Mutex::new(states) }
    }

    fn states(&mut self) -> &mut dyn Accumulator {
        self.states.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut()
    }
}

impl datafusion::logical_expr::Accumulator for UserAccumulator {
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
            return Err(DataFusionError::Internal(format!(
                "the parts of {} are not its states",
                self.user.name()
            )));
        };
        let mut part = self.user.0.accumulator(self.argument.as_ref(), false);
        for bytes in parts.iter().flatten() {
            part.restore(bytes)?;
            self.states().combine(&[0], part.as_ref(), &[0], whimbrel_temporal::INFINITY);
        }
        self.states().failure()
    }
}
