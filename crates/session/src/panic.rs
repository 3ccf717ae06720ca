//! Panics as errors. A panic is a bug of the engine; it ends its query and not the process.

use datafusion::common::{Result, internal_err};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use whimbrel_sharded::error::panic_message;

/// Runs a part of a query.
///
/// # Errors
/// Those of `run`; `Internal` if it panics.
///
/// ```
/// let error = whimbrel_session::panic::catch::<()>(|| panic!("at work")).unwrap_err();
/// assert!(error.to_string().contains("the engine panicked: at work"));
/// ```
pub fn catch<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    // The state that the panic left inconsistent belongs to a query that ends here.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| internal_err!("{}", message(&*payload)))
}

/// The message for the payload of a panic.
pub fn message(payload: &(dyn Any + Send)) -> String {
    format!("the engine panicked: {}", panic_message(payload))
}
