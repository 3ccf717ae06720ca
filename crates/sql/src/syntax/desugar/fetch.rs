//! `fetch first n rows only` as `limit n`.

use datafusion::sql::sqlparser::ast::{Expr, Fetch, LimitClause, Query, Value};
use std::ops::ControlFlow;

/// `fetch first n rows only` as `limit n`. It breaks off with what cannot be written so.
pub fn fetch_as_limit(query: &mut Query) -> ControlFlow<String> {
    match query.fetch.take() {
        Some(fetch) => limit(query, fetch),
        None => ControlFlow::Continue(()),
    }
}

/// `fetch first n rows only` is `limit n`.
fn limit(query: &mut Query, fetch: Fetch) -> ControlFlow<String> {
    if fetch.with_ties || fetch.percent {
        return ControlFlow::Break("fetch takes a number of rows, and only these".to_string());
    }
    let one = || Expr::Value(Value::Number("1".to_string(), false).into());
    let rows = fetch.quantity.unwrap_or_else(one);
    match &mut query.limit_clause {
        None => {
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: vec![] });
            ControlFlow::Continue(())
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => {
            *limit = Some(rows);
            ControlFlow::Continue(())
        }
        Some(_) => ControlFlow::Break("a query has either limit or fetch".to_string()),
    }
}
