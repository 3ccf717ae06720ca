//! `with recursive t as (with u as (…) select … union all select …)`: DataFusion's planner reads the sides of
//! the union only, so each gets the inner `with`.

use crate::syntax::depth::take_body;
use datafusion::sql::sqlparser::ast::{Cte, Query, SetExpr, SetOperator, With};

/// Copies the inner `with` of recursive queries into the sides of their unions.
pub(super) fn desugar(query: &mut Query) {
    let Some(With { recursive: true, cte_tables, .. }) = &mut query.with else { return };
    for Cte { query, .. } in cte_tables {
        let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = query.body.as_mut() else {
            continue;
        };
        if let Some(with) = query.with.take() {
            for side in [left, right] {
                let body = take_body(side);
                **side = SetExpr::Query(Box::new(with_clause(with.clone(), body)));
            }
        }
    }
}

/// A query of a body and a `with` clause.
fn with_clause(with: With, body: SetExpr) -> Query {
    Query {
        with: Some(with),
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: vec![],
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: vec![],
    }
}
