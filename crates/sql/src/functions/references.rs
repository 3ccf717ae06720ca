//! Functions of plans that another process reads: by name, and by what they were made with.

use super::read::CastOfText;
use super::registry::{aggregate_functions, scalar_functions};
use super::zones::AtZone;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

/// The functions that every process knows: DataFusion's, those of sessions, and those of rewrites.
#[derive(Debug)]
pub struct Functions {
    scalar: Vec<Arc<ScalarUDF>>,
    aggregate: Vec<Arc<AggregateUDF>>,
    window: Vec<Arc<WindowUDF>>,
    higher_order: Vec<Arc<HigherOrderUDF>>,
}

/// Those of this process.
static FUNCTIONS: LazyLock<Functions> = LazyLock::new(|| Functions {
    scalar: scalar_functions().into_iter().chain(super::internal()).collect(),
    aggregate: aggregate_functions(),
    window: SessionStateDefaults::default_window_functions(),
    higher_order: SessionStateDefaults::default_higher_order_functions(),
});

/// The functions of a name, in their order.
fn named<F>(all: &[Arc<F>], name: impl Fn(&F) -> &str, wanted: &str) -> Vec<Arc<F>> {
    all.iter().filter(|function| name(function) == wanted).cloned().collect()
}

impl Functions {
    /// The functions of this process.
    pub fn all() -> &'static Functions {
        &FUNCTIONS
    }

    /// All scalar functions of a name. DataFusion's come first.
    pub fn scalar(&self, name: &str) -> Vec<Arc<ScalarUDF>> {
        named(&self.scalar, ScalarUDF::name, name)
    }

    /// All aggregate functions of a name. DataFusion's come first.
    pub fn aggregate(&self, name: &str) -> Vec<Arc<AggregateUDF>> {
        named(&self.aggregate, AggregateUDF::name, name)
    }

    /// All window functions of a name.
    pub fn window(&self, name: &str) -> Vec<Arc<WindowUDF>> {
        named(&self.window, WindowUDF::name, name)
    }

    /// All functions of a name that take lambdas.
    pub fn higher_order(&self, name: &str) -> Vec<Arc<HigherOrderUDF>> {
        named(&self.higher_order, HigherOrderUDF::name, name)
    }

    /// What a function was made with: the type that text is cast to, or the zone of the session.
    pub fn parameters(&self, function: &ScalarUDF) -> Option<Vec<u8>> {
        if let Some(cast) = function.inner().downcast_ref::<CastOfText>() {
            return Some(cast.to_type().to_string().into_bytes());
        }
        let zone = function.inner().downcast_ref::<AtZone>()?;
        Some(zone.session_zone().as_bytes().to_vec())
    }

    /// The function that is made with these parameters.
    ///
    /// # Errors
    /// `Plan` if no such function is made with them.
    pub fn made_with(&self, name: &str, parameters: &[u8]) -> Result<ScalarUDF> {
        let parameters = std::str::from_utf8(parameters).map_err(|e| plan_datafusion_err!("{name}: {e}"))?;
        if name == super::zones::NAME {
            whimbrel_plan::calendar::check_zone(parameters)?;
            return Ok(ScalarUDF::from(AtZone::in_session(parameters)));
        }
        let to = DataType::from_str(parameters).map_err(|e| plan_datafusion_err!("{name}: {e}"))?;
        let made = [false, true].map(|or_null| super::cast_of_text(&to, or_null));
        match made.into_iter().find(|function| function.name() == name) {
            Some(function) => Ok(function),
            None => plan_err!("there is no function {name:?} of {parameters}"),
        }
    }
}
