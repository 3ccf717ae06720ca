//! `s[1]` and `s[2:3]` of strings: characters, counted from one, or from the end if negative. `m[k]` of maps
//! with a computed key.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::functions::unicode::expr_fn::{character_length, substring};
use datafusion::functions_nested::expr_fn::{array_element, map_extract};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, cast, lit, when};

/// Plans subscripts of strings and maps.
#[derive(Debug)]
pub(crate) struct Subscript;

impl ExprPlanner for Subscript {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let kind = access.expr.get_type(schema);
        if matches!(kind, Ok(DataType::Map(..))) {
            return Ok(map_value(access));
        }
        if !kind.is_ok_and(|kind| kind.is_string()) {
            return Ok(PlannerResult::Original(access));
        }
        let RawFieldAccessExpr { field_access, expr } = access;
        Ok(match field_access {
            GetFieldAccess::ListIndex { key } => {
                let at = from_start(&expr, *key)?;
                PlannerResult::Planned(substring(expr, at, lit(1_i64)))
            }
            GetFieldAccess::ListRange { start, stop, .. } => {
                let (first, last) = (from_start(&expr, *start)?, from_start(&expr, *stop)?);
                let first = when(first.clone().lt(lit(1_i64)), lit(1_i64)).otherwise(first)?;
                let length = last - first.clone() + lit(1_i64);
                let length = when(length.clone().lt(lit(0_i64)), lit(0_i64)).otherwise(length)?;
                PlannerResult::Planned(substring(expr, first, length))
            }
            field_access => PlannerResult::Original(RawFieldAccessExpr { field_access, expr }),
        })
    }
}

/// The value of a key of a map: DataFusion's own subscript takes literals only.
fn map_value(access: RawFieldAccessExpr) -> PlannerResult<RawFieldAccessExpr> {
    match access.field_access {
        GetFieldAccess::ListIndex { key } => {
            PlannerResult::Planned(array_element(map_extract(access.expr, *key), lit(1_i64)))
        }
        _ => PlannerResult::Original(access),
    }
}

/// A position counted from the start.
fn from_start(text: &Expr, place: Expr) -> Result<Expr> {
    let place = cast(place, DataType::Int64);
    let end = cast(character_length(text.clone()), DataType::Int64);
    when(place.clone().lt(lit(0_i64)), end + place.clone() + lit(1_i64)).otherwise(place)
}
