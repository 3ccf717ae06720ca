//! Functions of maps of DuckDB.

use crate::syntax::ast::{arguments, call, number};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{Array, CaseWhen, Expr, Function, Value};

/// Rewrites a call by functions of DataFusion.
pub(super) fn desugar(name: &str, function: &Function) -> Option<Expr> {
    let has =
        |map: &Expr, key: &Expr| call("array_has", vec![call("map_keys", vec![map.clone()]), key.clone()]);
    match (name, arguments(function)?.as_slice()) {
        // DataFusion's functions refuse a null without a type.
        ("map_keys" | "map_values" | "map_entries", [null @ Expr::Value(value)])
            if value.value == Value::Null =>
        {
            Some(null.clone())
        }
        ("map_contains", [map, key]) => Some(has(map, key)),
        ("map_contains_value", [map, value]) => {
            Some(call("array_has", vec![call("map_values", vec![map.clone()]), value.clone()]))
        }
        // A missing key gives an empty list; DataFusion's has a null in it.
        ("map_extract" | "element_at", [map, key]) => Some(Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen {
                condition: has(map, key),
                result: call("map_extract", vec![map.clone(), key.clone()]),
            }],
            else_result: Some(Box::new(Expr::Array(Array { elem: vec![], named: false }))),
        }),
        ("map_extract_value", [map, key]) => {
            let found = call("map_extract", vec![map.clone(), key.clone()]);
            Some(call("array_element", vec![found, number("1")]))
        }
        _ => None,
    }
}
