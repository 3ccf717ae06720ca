//! `prepare`, `execute`, `deallocate`: statements with parameters, kept as they were parsed.
//!
//! ```sql
//! prepare p (int) as select * from t where x > $1;
//! execute p(5);
//! ```

use crate::session::planned::Planned;
use crate::session::state::{Prepared, Session};
use crate::syntax::names;
use crate::syntax::walk::walk_mut;
use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, ExprWithAlias, Ident, ObjectName, Statement as Sql, Value, ValueWithSpan,
    VisitorMut,
};
use std::ops::ControlFlow;

/// `prepare`.
///
/// # Errors
/// Never; the statement is planned when it is executed.
pub(super) fn prepare(
    session: &mut Session,
    name: &Ident,
    types: Vec<DataType>,
    statement: Sql,
) -> Result<Planned> {
    let name = names::ident(name);
    let done = Planned::Done(format!("{name} prepared"));
    session.prepared.insert(name, Prepared { statement, types });
    Ok(done)
}

/// `deallocate`, of one statement or all.
///
/// # Errors
/// `Plan` if no statement of this name was prepared.
pub(super) fn deallocate(session: &mut Session, name: &Ident) -> Result<Planned> {
    let name = names::ident(name);
    if name == "all" {
        session.prepared.clear();
    } else if session.prepared.remove(&name).is_none() {
        return Err(unknown(session, &name));
    }
    Ok(Planned::Done(format!("{name} deallocated")))
}

/// The statement that is executed, with its values.
///
/// # Errors
/// `Plan` if no statement of this name was prepared, or a parameter has no value.
pub(super) fn execute(
    session: &Session,
    name: &ObjectName,
    parameters: Vec<Expr>,
    using: Vec<ExprWithAlias>,
) -> Result<Sql> {
    let name = names::table(name)?;
    let Some(prepared) = session.prepared.get(&name) else { return Err(unknown(session, &name)) };
    let values: Vec<Expr> = parameters.into_iter().chain(using.into_iter().map(|value| value.expr)).collect();
    let mut places = Places { values: typed(values, &prepared.types), read: vec![] };
    let mut statement = prepared.statement.clone();
    if let ControlFlow::Break(message) = walk_mut(&mut statement, &mut places) {
        return plan_err!("execute {name}: {message}");
    }
    if let Some(at) = (0..places.values.len()).find(|at| !places.read.contains(at)) {
        return plan_err!("execute {name}: there is no place for value {}", at + 1);
    }
    Ok(statement)
}

/// Values cast to the types that `prepare` declares.
fn typed(values: Vec<Expr>, types: &[DataType]) -> Vec<Expr> {
    let cast = |(at, value): (usize, Expr)| match types.get(at) {
        Some(data_type) => Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(value),
            data_type: data_type.clone(),
            array: false,
            format: None,
        },
        None => Expr::Nested(Box::new(value)),
    };
    values.into_iter().enumerate().map(cast).collect()
}

/// The error for a name that was not prepared.
fn unknown(session: &Session, name: &str) -> datafusion::error::DataFusionError {
    let known: Vec<&str> = session.prepared.keys().map(String::as_str).collect();
    let there = if known.is_empty() { "none".to_string() } else { known.join(", ") };
    datafusion::common::plan_datafusion_err!("no statement {name:?} was prepared; there are: {there}")
}

/// The values by position: `$1` and `$2` name it, and each `?` has been numbered.
struct Places {
    /// The values.
    values: Vec<Expr>,
    /// The positions of values that were read.
    read: Vec<usize>,
}

impl VisitorMut for Places {
    type Break = String;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        let Expr::Value(ValueWithSpan { value: Value::Placeholder(place), .. }) = expr else {
            return ControlFlow::Continue(());
        };
        let at: usize = match place.trim_start_matches(['$', '?']).parse() {
            Ok(at) if at > 0 => at,
            _ => return ControlFlow::Break(format!("{place} has no number; write $1, $2, … or ?")),
        };
        let Some(value) = self.values.get(at - 1) else {
            return ControlFlow::Break(format!("there is no value for place {at}"));
        };
        *expr = value.clone();
        self.read.push(at - 1);
        ControlFlow::Continue(())
    }
}
