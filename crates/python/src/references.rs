//! What plans refer to, in bytes: what any process knows, and functions of Python where they may travel.
//!
//! Bytes with functions of Python run code of whoever wrote them, so both sides have to allow them. A plan is
//! checked while it is written by reading each step again; a function that was just written is then the one
//! that is there, not a copy.

use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_plan::{References, Source};
use whimbrel_session::PlanReferences;

use crate::black_box::{pickle, unpickle};
use crate::error::PythonError;
use crate::shutdown::attach;

/// What stands before the bytes of a function of Python.
const PICKLED: &[u8] = b"python function\n";

/// What plans refer to; functions of Python are refused or pickled.
#[derive(Debug)]
pub struct PythonReferences {
    /// The functions that were written, by their bytes; none if functions are refused.
    written: Option<Mutex<HashMap<Vec<u8>, ScalarUDF>>>,
}

impl PythonReferences {
    /// References that refuse functions of Python or pickle them.
    pub fn shared(pickles: bool) -> Arc<dyn References> {
        Arc::new(PythonReferences { written: pickles.then(Mutex::default) })
    }
}

impl References for PythonReferences {
    fn write_source(&self, source: &dyn Source) -> Result<Vec<u8>> {
        PlanReferences.write_source(source)
    }

    fn read_source(&self, bytes: &[u8]) -> Result<Arc<dyn Source>> {
        PlanReferences.read_source(bytes)
    }

    fn scalar_functions(&self, name: &str) -> Vec<Arc<ScalarUDF>> {
        PlanReferences.scalar_functions(name)
    }

    fn aggregate_functions(&self, name: &str) -> Vec<Arc<AggregateUDF>> {
        PlanReferences.aggregate_functions(name)
    }

    fn window_functions(&self, name: &str) -> Vec<Arc<WindowUDF>> {
        PlanReferences.window_functions(name)
    }

    fn higher_order_functions(&self, name: &str) -> Vec<Arc<HigherOrderUDF>> {
        PlanReferences.higher_order_functions(name)
    }

    fn write_parameters(&self, function: &ScalarUDF) -> Option<Vec<u8>> {
        let known = PlanReferences.write_parameters(function);
        known.or_else(|| {
            let written = self.written.as_ref()?;
            // What cannot be pickled is refused as a function of this process.
            let pickled = attach(|py| pickle(py, function)).ok()??;
            let bytes = [PICKLED, &pickled].concat();
            let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
            written.insert(bytes.clone(), function.clone());
            Some(bytes)
        })
    }

    fn make_function(&self, name: &str, parameters: &[u8]) -> Result<ScalarUDF> {
        let Some(pickled) = parameters.strip_prefix(PICKLED) else {
            return PlanReferences.make_function(name, parameters);
        };
        let Some(written) = &self.written else {
            return plan_err!(
                "the plan calls the function {name:?} of Python, which would run code of whoever wrote the plan; if \
                 you trust it, read it with python_functions=\"pickle\""
            );
        };
        if let Some(function) = written.lock().unwrap_or_else(PoisonError::into_inner).get(parameters) {
            return Ok(function.clone());
        }
        let read = attach(|py| unpickle(py, pickled))?;
        read.map_err(|error| PythonError::wrap(format!("the function {name:?} cannot be read"), error))
    }
}
