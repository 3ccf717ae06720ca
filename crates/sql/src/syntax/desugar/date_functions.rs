//! Parts and differences of dates that are computed of the parts that DataFusion has.
//!
//! ```sql
//! select date_diff('day', a, b);  -- cast(b as date) - cast(a as date)
//! select era(a);                  -- case when date_part('year', a) > 0 then 1 … end
//! ```

use super::parse_expr;
use crate::functions::YEARS;
use crate::syntax::ast::{call, quote};
use datafusion::sql::sqlparser::ast::Expr;

/// `century`, `era` and other parts that are computed of the year.
pub(super) fn part_of_year(part: &str, instant: &Expr) -> Option<Expr> {
    let year = format!("date_part('year', {instant})");
    let expr = match part {
        "century" | "centuries" | "decade" | "decades" | "millennium" | "millenium" | "millennia" => {
            return Some(call(YEARS, vec![quote(part), instant.clone()]));
        }
        "era" => format!("(case when {year} > 0 then 1 when {year} <= 0 then 0 end)"),
        "yearweek" => {
            return parse_expr(&format!(
                "(date_part('isoyear', {instant}) * 100 + date_part('week', {instant}))"
            ));
        }
        _ => return None,
    };
    parse_expr(&expr)
}

/// `date_diff`: how many boundaries of a unit lie between two instants.
pub(super) fn difference(unit: &str, from: &Expr, to: &Expr) -> Option<Expr> {
    let year = |instant: &Expr| format!("date_part('year', {instant})");
    let seconds = |instant: &Expr, size: u32| format!("floor(date_part('epoch', {instant}) / {size})");
    let between = |size: u32| format!("cast({} - {} as bigint)", seconds(to, size), seconds(from, size));
    let expr = match unit.to_ascii_lowercase().trim_end_matches('s') {
        "year" => format!("({} - {})", year(to), year(from)),
        "quarter" => format!(
            "(({} - {}) * 4 + date_part('quarter', {to}) - date_part('quarter', {from}))",
            year(to),
            year(from)
        ),
        "month" => format!(
            "(({} - {}) * 12 + date_part('month', {to}) - date_part('month', {from}))",
            year(to),
            year(from)
        ),
        "day" => format!("(cast({to} as date) - cast({from} as date))"),
        // The distance, as in DuckDB: Mondays between do not count.
        "week" => format!("((cast({to} as date) - cast({from} as date)) / 7)"),
        "decade" => format!("({} / 10 - {} / 10)", year(to), year(from)),
        "hour" => between(3600),
        "minute" => between(60),
        "second" => between(1),
        _ => return None,
    };
    parse_expr(&expr)
}
