//! A user's aggregate in a plan: the temporal engine's framework under DataFusion's name for it.
//!
//! Invariant: both engines run the same states.

use super::state_accumulator::{StateAccumulator, StateColumns};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use std::any::Any;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use whimbrel_temporal::operators::UserAggregate;

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
        let user = Arc::clone(&self.user.0);
        let states: StateColumns = Arc::new(move || Ok(user.accumulator(argument.as_ref(), false)));
        Ok(Box::new(StateAccumulator::try_new(states, args.return_type().clone())?))
    }
}
