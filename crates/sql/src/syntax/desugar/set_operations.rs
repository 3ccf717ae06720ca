//! Operations on whole queries that DataFusion's planner does not have: `intersect all` and `except all`,
//! which count equal rows, and `order by all` over a star, whose columns are known only when the query is
//! planned.
//!
//! Each becomes a derived table with a reserved name, which a relation planner recognises.
//!
//! ```sql
//! select x from t except all select x from u;
//! -- select * from (select x from t except select x from u) as __multiset
//! select * from t order by all;
//! -- select * from (select * from t order by all) as __ordered
//! ```

use crate::syntax::parser;
use datafusion::sql::sqlparser::ast::{
    OrderBy, OrderByKind, OrderByOptions, Query, SetExpr, SetOperator, SetQuantifier, TableFactor,
};

/// The reserved name of a set operation that counts equal rows.
pub(crate) const MULTISET: &str = "__multiset";
/// The reserved name of a query that is ordered by all of its columns.
pub(crate) const ORDERED: &str = "__ordered";

/// Gives the set operations of a query that count equal rows their reserved name.
pub(super) fn mark_multisets(body: &mut SetExpr) {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return };
    mark_multisets(left);
    mark_multisets(right);
    if *op != SetOperator::Union && *set_quantifier == SetQuantifier::All {
        *set_quantifier = SetQuantifier::None;
        as_derived_table(body, MULTISET, None);
    }
}

/// Gives a query that is ordered by all of its columns its reserved name.
pub(super) fn mark_ordered(query: &mut Query, options: OrderByOptions) {
    as_derived_table(
        &mut query.body,
        ORDERED,
        Some(OrderBy { kind: OrderByKind::All(options), interpolate: None }),
    );
}

/// `select * from (body) as name`.
fn as_derived_table(body: &mut SetExpr, name: &str, order_by: Option<OrderBy>) {
    // What is written here can be parsed.
    let Ok(mut outer) = parser::query(&format!("select * from (select 1) as {name}")) else {
        return;
    };
    let SetExpr::Select(select) = outer.body.as_mut() else { return };
    if let Some(TableFactor::Derived { subquery, .. }) =
        select.from.first_mut().map(|from| &mut from.relation)
    {
        std::mem::swap(subquery.body.as_mut(), body);
        subquery.order_by = order_by;
        std::mem::swap(body, outer.body.as_mut());
    }
}
