//! Functions that expressions call: DataFusion's by their names, and others, which the program is given.

use super::naming::{Taken, name_of};
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::ScalarUDF;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

static KNOWN: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let all = SessionStateDefaults::default_scalar_functions();
    all.into_iter().map(|function| (function.name().to_string(), function)).collect()
});

/// The functions that a program calls and Python does not know by name.
#[derive(Debug, Default)]
pub(super) struct Functions {
    named: Vec<(String, Arc<ScalarUDF>)>,
}

impl Functions {
    /// Whether it is `wb.fn.…`.
    pub fn knows(function: &Arc<ScalarUDF>) -> bool {
        KNOWN.get(function.name()).is_some_and(|known| known == function)
    }

    /// What the program calls it.
    pub fn name(&mut self, function: &Arc<ScalarUDF>) -> String {
        if let Some((name, _)) = self.named.iter().find(|(_, known)| known == function) {
            return name.clone();
        }
        // A label is a name and where it stands: `digits at program.py:3`.
        let label = function.name().split(" at ").next().unwrap_or_default();
        let base = if label.starts_with("lambda") { "function".to_string() } else { name_of(label) };
        let mut taken = Taken::default();
        self.named.iter().for_each(|(name, _)| drop(taken.free(name)));
        let name = taken.free(&base);
        self.named.push((name.clone(), Arc::clone(function)));
        name
    }

    /// All of them, with their names.
    pub fn into_named(self) -> Vec<(String, Arc<ScalarUDF>)> {
        self.named
    }
}
