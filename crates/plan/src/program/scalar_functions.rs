//! Scalar functions that expressions call.
//!
//! DataFusion's default functions are called by name, `wb.fn.sqrt(…)`. Any other function is a parameter of
//! the program.

use super::variable_names::{UsedNames, name_of};
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::ScalarUDF;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

static DEFAULT_FUNCTIONS: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let all = SessionStateDefaults::default_scalar_functions();
    all.into_iter().map(|function| (function.name().to_string(), function)).collect()
});

/// The functions that are parameters of a program.
#[derive(Debug, Default)]
pub(super) struct Functions {
    named: Vec<(String, Arc<ScalarUDF>)>,
}

impl Functions {
    /// Whether a function is one of DataFusion's defaults, `wb.fn.…`.
    pub fn is_default(function: &Arc<ScalarUDF>) -> bool {
        DEFAULT_FUNCTIONS.get(function.name()).is_some_and(|default| default == function)
    }

    /// The name of the parameter for a function; a new function gets a new parameter.
    pub fn name(&mut self, function: &Arc<ScalarUDF>) -> String {
        if let Some((name, _)) = self.named.iter().find(|(_, named)| named == function) {
            return name.clone();
        }
        // The label of a Python function is its name and position: `digits at program.py:3`.
        let label = function.name().split(" at ").next().unwrap_or_default();
        let base = if label.starts_with("lambda") { "function".to_string() } else { name_of(label) };
        let mut used_names = UsedNames::default();
        self.named.iter().for_each(|(name, _)| drop(used_names.unique(name)));
        let name = used_names.unique(&base);
        self.named.push((name.clone(), Arc::clone(function)));
        name
    }

    /// The parameters: names and functions.
    pub fn into_parameters(self) -> Vec<(String, Arc<ScalarUDF>)> {
        self.named
    }
}
