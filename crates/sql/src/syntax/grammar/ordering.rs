//! What rows are ordered by, in a query, a window or a call.

use super::{Checked, absent};
use datafusion::sql::sqlparser::ast::{OrderByExpr, OrderByOptions, WindowFrame, WindowSpec};

/// Checks what rows are ordered by.
pub(super) fn check_order_by(exprs: &[OrderByExpr]) -> Checked {
    exprs.iter().try_for_each(|expr| {
        let OrderByExpr { expr: _, options: OrderByOptions { asc: _, nulls_first: _ }, with_fill } = expr;
        absent(with_fill, "order by … with fill is not there: join with range(…)", expr)
    })
}

/// Checks a window.
pub(super) fn check_window(window: &WindowSpec) -> Checked {
    let WindowSpec { window_name: _, partition_by: _, order_by, window_frame } = window;
    if let Some(WindowFrame { units: _, start_bound: _, end_bound: _ }) = window_frame {}
    check_order_by(order_by)
}
