//! `x in (case when b then 3 else y end, 1)` as `x = case … end or x = 1`.
//!
//! DataFusion takes a list for constant if its elements give single values over no rows. A conditional
//! expression does, if its first branch is a constant, and then stands for that constant in every row.

use datafusion::common::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, not};

/// The comparisons that a list with computed elements stands for, of each of which `compare` makes what is
/// evaluated; none if this is no such list.
///
/// # Errors
/// Those of `compare`.
pub(super) fn comparisons(expr: &Expr, compare: impl Fn(Expr) -> Result<Expr>) -> Result<Option<Expr>> {
    let Expr::InList(InList { expr: value, list, negated }) = expr else { return Ok(None) };
    if value.is_volatile() || !list.iter().any(is_computed) {
        return Ok(None);
    }
    let equal = |element: &Expr| compare(value.as_ref().clone().eq(element.clone()));
    let mut any = list.iter().map(equal).collect::<Result<Vec<_>>>()?;
    // In pairs, so that a long list makes no deep expression.
    while any.len() > 1 {
        let mut rest = any.into_iter();
        let mut pairs = Vec::with_capacity(rest.len().div_ceil(2));
        while let Some(first) = rest.next() {
            pairs.push(match rest.next() {
                Some(second) => first.or(second),
                None => first,
            });
        }
        any = pairs;
    }
    Ok(any.pop().map(|any| if *negated { not(any) } else { any }))
}

/// Whether an element is computed from columns.
fn is_computed(element: &Expr) -> bool {
    !matches!(element, Expr::Column(_)) && element.any_column_refs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit, when};

    fn compared(expr: Expr) -> Option<String> {
        comparisons(&expr, Ok).unwrap().map(|expr| expr.to_string())
    }

    #[test]
    fn lists_with_computed_elements_become_comparisons() {
        let element = || when(col("b"), lit(3)).otherwise(col("y")).unwrap();
        let of = |negated| col("x").in_list(vec![element(), lit(1), col("z")], negated);
        let any = "x = CASE WHEN b THEN Int32(3) ELSE y END OR x = Int32(1) OR x = z";
        assert_eq!(compared(of(false)).as_deref(), Some(any));
        // The text of a negation has no parentheses.
        assert_eq!(compared(of(true)), Some(format!("NOT {any}")));
        assert_eq!(compared(col("x").in_list(vec![lit(1), col("z")], false)), None);
        let long = col("x").in_list(vec![element(); 5000], false);
        assert_eq!(compared(long).unwrap().matches(" OR ").count(), 4999);
    }
}
