//! A plan as Python sees it.
//!
//! Its methods are in `builder`, above the expressions that they take: expressions refer to plans too, for
//! the columns of a join.

use datafusion::error::Result;
use pyo3::prelude::*;
use whimbrel_plan::Stream;

use crate::error::OrRaise;

/// A sharded stream: a plan and its properties.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Plan")]
pub struct NativePlan {
    /// The builder.
    pub stream: Stream,
}

impl NativePlan {
    /// The plan that a builder returned.
    ///
    /// # Errors
    /// The exception for the builder's error.
    pub fn wrap(stream: Result<Stream>) -> PyResult<NativePlan> {
        Ok(NativePlan { stream: stream.or_raise()? })
    }
}
