//! The functions that expressions may call: those of DataFusion, and two operators of SQL that Python does
//! not have.
//!
//! `%` and `//` in a lambda have Python's meaning, whether the lambda is traced or not: the result of `%` has
//! the sign of the divisor. `mod` and `div` are `%` and `/` of integers in SQL: the result is truncated
//! towards zero.

use datafusion::common::{Result, plan_err};
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, Operator, ScalarUDF, binary_expr};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The functions of DataFusion, by their names and aliases.
static FUNCTIONS: LazyLock<BTreeMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let mut functions = BTreeMap::new();
    for function in SessionStateDefaults::default_scalar_functions() {
        for alias in function.aliases() {
            functions.insert(alias.clone(), function.clone());
        }
        functions.insert(function.name().to_string(), function);
    }
    functions
});

/// The names of all functions that an expression may call.
#[pyfunction]
pub fn function_names() -> Vec<String> {
    let mut names: Vec<String> = FUNCTIONS.keys().cloned().collect();
    names.extend(["div".to_string(), "mod".to_string()]);
    names.sort_unstable();
    names
}

/// The operator of SQL that is a function of this name in Python.
fn operator(name: &str) -> Option<Operator> {
    match name {
        "mod" => Some(Operator::Modulo),
        "div" => Some(Operator::Divide),
        _ => None,
    }
}

/// A call of a function by name.
///
/// # Errors
/// `Plan` with the most similar name if there is no such function.
pub fn call(name: &str, args: Vec<Expr>) -> Result<Expr> {
    if let Some(operator) = operator(name) {
        return match <[Expr; 2]>::try_from(args) {
            Ok([left, right]) => Ok(binary_expr(left, operator, right)),
            Err(args) => plan_err!("{name} takes 2 arguments, not {}", args.len()),
        };
    }
    let Some(function) = FUNCTIONS.get(name) else {
        let similarity = |other: &&String| (strsim::jaro_winkler(name, other) * 1e6) as u64;
        let nearest = FUNCTIONS.keys().max_by_key(similarity).map(String::as_str).unwrap_or_default();
        return plan_err!(
            "there is no function \"{name}\"; did you mean \"{nearest}\"? dir(wb.fn) lists them all"
        );
    };
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(function.clone(), args)))
}
