//! What plans refer to, for bytes that another process reads: the functions of SQL, and datasets.

use datafusion::common::Result;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use std::sync::Arc;
use whimbrel_plan::{References, Source};
use whimbrel_sharded::dataset;
use whimbrel_sql::Functions;

/// The functions and the sources that any process of this release knows.
///
/// ```
/// use std::sync::Arc;
/// use whimbrel_plan::{References, Series, Stream};
/// use whimbrel_session::PlanReferences;
///
/// # fn main() -> datafusion::common::Result<()> {
/// let references: Arc<dyn References> = Arc::new(PlanReferences);
/// let numbers = Stream::scan("numbers", Arc::new(Series::new("n", 0, 10, 5, true)?))?;
/// let bytes = numbers.to_bytes(&references)?;
/// assert_eq!(Stream::from_bytes(&bytes, &references)?.explain()?, numbers.explain()?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PlanReferences;

impl References for PlanReferences {
    fn write_source(&self, source: &dyn Source) -> Result<Vec<u8>> {
        dataset::freeze(source)
    }

    fn read_source(&self, bytes: &[u8]) -> Result<Arc<dyn Source>> {
        dataset::thaw(bytes)
    }

    fn scalar_functions(&self, name: &str) -> Vec<Arc<ScalarUDF>> {
        Functions::all().scalar(name)
    }

    fn aggregate_functions(&self, name: &str) -> Vec<Arc<AggregateUDF>> {
        Functions::all().aggregate(name)
    }

    fn window_functions(&self, name: &str) -> Vec<Arc<WindowUDF>> {
        Functions::all().window(name)
    }

    fn higher_order_functions(&self, name: &str) -> Vec<Arc<HigherOrderUDF>> {
        Functions::all().higher_order(name)
    }

    fn write_parameters(&self, function: &ScalarUDF) -> Option<Vec<u8>> {
        Functions::all().parameters(function)
    }

    fn make_function(&self, name: &str, parameters: &[u8]) -> Result<ScalarUDF> {
        Functions::all().made_with(name, parameters)
    }
}
