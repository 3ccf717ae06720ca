//! Expressions as SQL text: `true` and `count(*)`, and not DataFusion's `Boolean(true)` and
//! `count(Int64(1))`.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::AggregateFunction;

/// An expression in words of SQL.
pub(crate) fn unparse(expr: &Expr) -> String {
    let words = |expr| {
        Ok(match &expr {
            // The engine names what it computes after how.
            Expr::Column(column) if column.relation.is_none() => Transformed::yes(word(name(&column.name))),
            Expr::Literal(value, _) => Transformed::yes(word(literal(value))),
            Expr::Cast(cast) => Transformed::yes(cast.expr.as_ref().clone()),
            Expr::AggregateFunction(call) if is_count(call) => Transformed::yes(word("count(*)".to_string())),
            _ => Transformed::no(expr),
        })
    };
    // The closure does not fail; a column is printed as its name.
    expr.clone().transform_up(words).map_or_else(|_| expr.to_string(), |words| words.data.to_string())
}

/// Expressions, with commas between them.
pub(crate) fn unparse_list(exprs: &[Expr]) -> String {
    exprs.iter().map(unparse).collect::<Vec<_>>().join(", ")
}

/// A column whose name is this text.
fn word(text: String) -> Expr {
    Expr::Column(Column::new_unqualified(text))
}

/// `count(*)`, of which the engine makes a count of ones.
fn is_count(call: &AggregateFunction) -> bool {
    let of_one = matches!(call.params.args.as_slice(), [Expr::Column(one)] if one.relation.is_none() && one.name == "1");
    call.func.name() == "count" && of_one && !call.params.distinct && call.params.filter.is_none()
}

/// A literal of SQL.
fn literal(value: &ScalarValue) -> String {
    match value {
        value if value.is_null() => "null".to_string(),
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => {
            format!("'{}'", text.replace('\'', "''"))
        }
        value if value.data_type().is_temporal() => format!("'{value}'"),
        value => value.to_string(),
    }
}

/// A name in which types are called around constants, without these.
fn name(engine: &str) -> String {
    /// DataFusion's names of types in literals.
    const TYPES: [&str; 12] = [
        "Boolean(", "Int8(", "Int16(", "Int32(", "Int64(", "UInt8(", "UInt16(", "UInt32(", "UInt64(",
        "Float32(", "Float64(", "Utf8(",
    ];
    let mut out = String::with_capacity(engine.len());
    let mut rest = engine;
    'next: while let Some(c) = rest.chars().next() {
        let is_within_word = out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        for of in TYPES.iter().filter(|_| !is_within_word) {
            if let Some((constant, behind)) = rest.strip_prefix(of).and_then(|rest| rest.split_once(')')) {
                out += &constant.replace('"', "'");
                rest = behind;
                continue 'next;
            }
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out.replace("count(1)", "count(*)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::functions_aggregate::expr_fn::count;
    use datafusion::logical_expr::{cast, col, lit};

    #[test]
    fn no_words_of_the_engine() {
        assert_eq!(unparse(&col("s.approved").eq(lit(true))), "s.approved = true");
        assert_eq!(unparse(&count(lit(1_i64))), "count(*)");
        assert_eq!(unparse(&col("t.name").not_eq(lit("it's"))), "t.name != 'it''s'");
        assert_eq!(unparse(&col("\"count(Int64(1))\"").gt(lit(5))), "count(*) > 5");
        assert_eq!(unparse(&col("\"sum(t.n + Int64(2))\"")), "sum(t.n + 2)");
        let utf8 = datafusion::arrow::datatypes::DataType::Utf8;
        assert_eq!(unparse(&cast(col("t.at"), utf8).eq(lit(ScalarValue::Utf8(None)))), "t.at = null");
    }
}
