//! Aggregates that the temporal engine has and DataFusion has not, or has with other results, under names for
//! DataFusion: over relations both compute with the same states.
//!
//! Invariant: what parametrizes a function are literals behind its argument, so that the name and the
//! arguments of a call say all of it.

use super::AggFunction;
use super::state_accumulator::{StateAccumulator, StateColumns};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator as RelationAccumulator, AggregateUDF, AggregateUDFImpl, Expr, Signature, Volatility, lit,
};
use datafusion::physical_expr::expressions::Literal;
use std::any::Any;
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};
use whimbrel_temporal::operators::{AggregateFunction, Fraction};

/// The functions, each with any parameters.
static FUNCTIONS: LazyLock<Vec<(AggFunction, Arc<AggregateUDF>)>> = LazyLock::new(|| {
    let functions = [
        AggregateFunction::SumOfSquares,
        AggregateFunction::AverageOfSquares,
        AggregateFunction::Product,
        AggregateFunction::Percentile { fraction: Fraction::HALF, continuous: true },
        AggregateFunction::Percentile { fraction: Fraction::HALF, continuous: false },
        AggregateFunction::MaxBy,
        AggregateFunction::MinBy,
        AggregateFunction::TopK { k: NonZeroUsize::MIN, ties: true, descending: true },
        AggregateFunction::Collect,
        AggregateFunction::Single,
    ];
    functions
        .into_iter()
        .map(|function| (function.clone(), Arc::new(AggregateUDF::from(EngineUdaf::of(function)))))
        .collect()
});

/// The functions, for whoever looks for one by its name.
pub fn engine_functions() -> impl Iterator<Item = Arc<AggregateUDF>> {
    FUNCTIONS.iter().map(|(_, udaf)| Arc::clone(udaf))
}

/// DataFusion's name for a function of the engine.
pub(super) fn engine_udaf(function: &AggFunction) -> Option<Arc<AggregateUDF>> {
    let known = FUNCTIONS.iter().find(|(known, _)| known.name() == function.name())?;
    Some(Arc::clone(&known.1))
}

/// The literals that parametrize a function.
pub(super) fn parameters(function: &AggFunction) -> Vec<Expr> {
    match function {
        AggregateFunction::Percentile { fraction, .. } => vec![lit(fraction.value())],
        AggregateFunction::TopK { k, ties, descending } => {
            vec![lit(i64::try_from(k.get()).unwrap_or(i64::MAX)), lit(*ties), lit(*descending)]
        }
        _ => vec![],
    }
}

/// The function of the engine that one of DataFusion's stands for, with its parameters, if it is one.
pub(super) fn engine_function(func: &AggregateUDF, parameters: &[Expr]) -> Option<Result<AggFunction>> {
    let udaf = (func.inner().as_ref() as &dyn Any).downcast_ref::<EngineUdaf>()?;
    let values: Option<Vec<ScalarValue>> = parameters.iter().map(|p| p.as_literal().cloned()).collect();
    Some(match values {
        Some(values) => with_parameters(&udaf.function, &values),
        None => plan_err!("{}: its parameters have to be literals", func.name()),
    })
}

/// A function with other parameters.
fn with_parameters(function: &AggFunction, parameters: &[ScalarValue]) -> Result<AggFunction> {
    Ok(match (function, parameters) {
        (AggregateFunction::Percentile { continuous, .. }, [ScalarValue::Float64(Some(fraction))]) => {
            let (fraction, continuous) = (Fraction::new(*fraction)?, *continuous);
            AggregateFunction::Percentile { fraction, continuous }
        }
        (
            AggregateFunction::TopK { .. },
            [
                ScalarValue::Int64(Some(k)),
                ScalarValue::Boolean(Some(ties)),
                ScalarValue::Boolean(Some(descending)),
            ],
        ) => match usize::try_from(*k).ok().and_then(NonZeroUsize::new) {
            Some(k) => AggregateFunction::TopK { k, ties: *ties, descending: *descending },
            None => return plan_err!("top_k lists at least 1 value, not {k}"),
        },
        (AggregateFunction::Percentile { .. } | AggregateFunction::TopK { .. }, _) => {
            return plan_err!("{} has other parameters", function.name());
        }
        (function, _) => function.clone(),
    })
}

/// A function as DataFusion's `AggregateUDFImpl`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct EngineUdaf {
    function: AggFunction,
    signature: Signature,
}

impl EngineUdaf {
    fn of(function: AggFunction) -> EngineUdaf {
        let arguments = 1 + parameters(&function).len();
        EngineUdaf { function, signature: Signature::any(arguments, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for EngineUdaf {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        engine(&self.function)?.return_type(arguments.first())
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[state]", args.name), DataType::Binary, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn RelationAccumulator>> {
        let value = |expr: &Arc<dyn datafusion::physical_expr::PhysicalExpr>| {
            Some(expr.downcast_ref::<Literal>()?.value().clone())
        };
        let parameters: Option<Vec<ScalarValue>> = args.exprs.iter().skip(1).map(value).collect();
        let Some(parameters) = parameters else {
            return plan_err!("{}: its parameters have to be literals", self.name());
        };
        let function = engine(&with_parameters(&self.function, &parameters)?)?;
        let argument = args.expr_fields.first().map(|f| f.data_type().clone());
        let states: StateColumns = Arc::new(move || function.states(argument.as_ref(), false));
        Ok(Box::new(StateAccumulator::try_new(states, args.return_type().clone())?))
    }
}

/// The engine's form of a function that is no user's.
fn engine(function: &AggFunction) -> Result<AggregateFunction> {
    Ok(function.map_user(|user| Arc::clone(user.aggregate())))
}
