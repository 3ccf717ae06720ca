//! Names of columns that rewrites make.
//!
//! [`fresh_name`] is for columns inside a rewritten plan; [`with_unique_names`] is for the columns of a
//! result, which a table, a file or a program has to tell apart.

use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

thread_local! {
    /// How many fresh names the statement has that this thread plans.
    static FRESH: Cell<u64> = const { Cell::new(0) };
}

/// Begins a statement: its fresh names depend on it alone, so that it is planned alike in every process.
pub(crate) fn restart_fresh_names() {
    FRESH.set(0);
}

/// A name that no other column of this statement has. `purpose` is part of it. Plans may be put together: a
/// result has no such columns ([`with_unique_names`]).
pub(crate) fn fresh_name(purpose: &str) -> String {
    let number = FRESH.get();
    FRESH.set(number + 1);
    format!("__{purpose}_{number}")
}

/// The plan with unqualified and unique names of columns: of two columns `a` the second is `a_1`.
///
/// # Errors
/// `Plan` if the projection cannot be built.
pub(crate) fn with_unique_names(plan: LogicalPlan) -> Result<LogicalPlan> {
    let names = unique_names(plan.schema().fields().iter().map(|field| field.name()));
    let as_is = plan.schema().iter().zip(&names).all(|((q, f), name)| q.is_none() && f.name() == name);
    if as_is {
        return Ok(plan);
    }
    let columns = plan.schema().columns();
    let exprs = columns.into_iter().zip(names).map(|(column, name)| named(column, name)).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?))
}

/// The names, numbered where they come again.
fn unique_names<'a>(fields: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut names = Vec::new();
    for field in fields {
        let mut name = field.clone();
        let mut number = 0;
        while !taken.insert(name.clone()) {
            number += 1;
            name = format!("{field}_{number}");
        }
        names.push(name);
    }
    names
}

/// A column under this name.
fn named(column: Column, name: String) -> Expr {
    match column.relation.is_none() && column.name == name {
        true => Expr::Column(column),
        false => Expr::Column(column).alias(name),
    }
}
