//! Every `asof join` in parentheses, so that it is a relation of its own.
//!
//! ```sql
//! select * from a join b on a.k = b.k asof join c on a.k = c.k and a.t >= c.t;
//! -- select * from ((a join b on a.k = b.k) asof join c on a.k = c.k and a.t >= c.t)
//! ```

use datafusion::sql::sqlparser::ast::{Join, JoinOperator, Select, TableFactor, TableWithJoins};

/// Puts every `asof join`, with what is joined before it, into parentheses: so it is a relation of its own.
pub(super) fn nest(select: &mut Select) {
    for from in &mut select.from {
        while let Some(at) = from.joins.iter().position(is_asof) {
            let mut joins: Vec<Join> = from.joins.drain(..=at).collect();
            let Some(asof) = joins.pop() else { return };
            let first = from.relation.clone();
            let left = match joins.is_empty() {
                true => first,
                false => nested(TableWithJoins { relation: first, joins }),
            };
            from.relation = nested(TableWithJoins { relation: left, joins: vec![asof] });
        }
    }
}

/// Whether a join is an `asof join`.
fn is_asof(join: &Join) -> bool {
    matches!(join.join_operator, JoinOperator::AsOf { .. })
}

/// Joins in parentheses.
fn nested(joined: TableWithJoins) -> TableFactor {
    TableFactor::NestedJoin { table_with_joins: Box::new(joined), alias: None }
}
