//! The last rewrite of a query's tree, just before it is planned: output columns get unique names, and what
//! the planner would confuse gets different names.

mod asof_nesting;
mod boolean_coercion;
mod cast_aliases;
mod many_aggregates;
mod schema_aliases;
mod unique_names;

pub(crate) use boolean_coercion::COUNTED;

use super::ast::selects;
use super::walk::walk_mut;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Query, Value, ValueWithSpan, VisitorMut,
};
use std::ops::ControlFlow;

/// Normalizes a query, and the queries inside of it.
pub(crate) fn normalize(query: &mut Query) {
    // The visitor never breaks off.
    let _: ControlFlow<()> = walk_mut(query, &mut Normalize);
}

/// Normalizes queries from the outside in, and expressions from the inside out.
struct Normalize;

impl VisitorMut for Normalize {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        schema_aliases::disambiguate(query);
        selects(&mut query.body, &mut |select| {
            unique_names::name_columns(select);
            cast_aliases::disambiguate(select);
            asof_nesting::nest(select);
            many_aggregates::filter(select);
            boolean_coercion::coerce_conditions(select);
        });
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        float(expr);
        boolean_coercion::coerce(expr);
        ControlFlow::Continue(())
    }
}

/// A number with an exponent is a float, as in DuckDB: `1e300` has no place in a decimal. Columns have their
/// names from the text by now.
fn float(expr: &mut Expr) {
    let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), span }) = expr else { return };
    if !digits.contains(['e', 'E']) {
        return;
    }
    let text = ValueWithSpan { value: Value::SingleQuotedString(digits.clone()), span: *span };
    *expr = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(text)),
        data_type: DataType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    };
}
