//! The time zone of a session: that in which instants are written and in which their days begin, unless a
//! column has its own.

use crate::functions::zones;
use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use std::sync::Arc;

/// The functions that ask for it.
const FUNCTIONS: [&str; 4] = ["now", "current_date", "current_time", zones::NAME];

/// Sets it.
///
/// # Errors
/// `Plan` if there is no such zone.
pub(crate) fn set(state: &mut SessionState, zone: &str) -> Result<()> {
    zones::check(zone)?;
    state.config_mut().options_mut().execution.time_zone = Some(zone.to_string());
    let options = Arc::clone(state.config_options());
    let known = FUNCTIONS.iter().filter_map(|name| state.scalar_functions().get(*name));
    let updated: Vec<_> = known.filter_map(|f| f.inner().with_updated_config(&options)).collect();
    for function in updated {
        state.register_udf(Arc::new(function))?;
    }
    Ok(())
}

/// The zone.
pub(crate) fn of(state: &SessionState) -> &str {
    state.config_options().execution.time_zone.as_deref().unwrap_or(zones::DEFAULT)
}
