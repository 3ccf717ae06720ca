//! What a plan refers to and does not hold: its sources, and the functions of the crates above.

use crate::calendar::function::boundary;
use crate::canonical;
use crate::coalesce;
use crate::constants;
use crate::floor_division;
use crate::interpolate;
use crate::sort_key;
use crate::source::Source;
use datafusion::common::Result;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use std::fmt::Debug;
use std::sync::Arc;

/// Writes and finds what a plan refers to. Both processes have to know the same functions; a function that
/// only one of them knows is refused where it is written or where it is read.
pub trait References: Debug + Send + Sync {
    /// A source as bytes.
    ///
    /// # Errors
    /// `Plan` if its rows cannot be had elsewhere.
    fn write_source(&self, source: &dyn Source) -> Result<Vec<u8>>;

    /// The source of these bytes.
    ///
    /// # Errors
    /// `Plan` if the bytes are none; `Execution` if the source is not what it was.
    fn read_source(&self, bytes: &[u8]) -> Result<Arc<dyn Source>>;

    /// All scalar functions of a name, always in the same order.
    fn scalar_functions(&self, name: &str) -> Vec<Arc<ScalarUDF>>;

    /// All aggregate functions of a name, always in the same order.
    fn aggregate_functions(&self, name: &str) -> Vec<Arc<AggregateUDF>>;

    /// All window functions of a name, always in the same order.
    fn window_functions(&self, name: &str) -> Vec<Arc<WindowUDF>>;

    /// All functions of a name that take lambdas, always in the same order.
    fn higher_order_functions(&self, name: &str) -> Vec<Arc<HigherOrderUDF>>;

    /// What a function was made with, if it is made anew for each use: a type, a time zone.
    fn write_parameters(&self, function: &ScalarUDF) -> Option<Vec<u8>>;

    /// The function that is made with these parameters.
    ///
    /// # Errors
    /// `Plan` if the parameters are none of such a function.
    fn make_function(&self, name: &str, parameters: &[u8]) -> Result<ScalarUDF>;
}

/// The scalar functions that this crate's builders and rules write into plans.
pub(super) fn own_scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let mut own = vec![Arc::clone(boundary()), coalesce::eager_coalesce()];
    own.extend([interpolate::function(), sort_key::function()]);
    own.extend(canonical::functions());
    own.extend(constants::functions());
    own.extend(floor_division::functions());
    own
}
