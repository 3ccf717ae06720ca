//! `interval '1 day 04:05:06'`: hours, minutes and seconds with their units.

use crate::functions::with_units;
use crate::syntax::ast::string_literal;
use datafusion::sql::sqlparser::ast::{Expr, Value};

/// Writes `04:05:06` as `4 hours 5 minutes 6 seconds`, and `2 days ago` as `-2 days`.
pub(super) fn desugar(value: &mut Expr) {
    let Some(interval) = string_literal(value) else { return };
    // A bare number is in the unit that stands behind the literal, if one does.
    if interval.contains(' ') || interval.contains(':') {
        *value = Expr::Value(Value::SingleQuotedString(with_units(interval)).into());
    }
}
