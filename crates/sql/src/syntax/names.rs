//! Names in the parser's tree, as the session spells them.
//!
//! A name is in small letters unless it is quoted: `T` and `t` are the same table, `"T"` is another one.

use datafusion::common::{Column, Result, TableReference};
use datafusion::sql::planner::{IdentNormalizer, object_name_to_table_reference};
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName};

/// A name as the session knows it: in small letters, unless it is quoted.
pub(crate) fn ident(name: &Ident) -> String {
    IdentNormalizer::new(true).normalize(name.clone())
}

/// The name of a table as the session knows it.
///
/// # Errors
/// `Plan` if the name has too many parts.
pub(crate) fn table(name: &ObjectName) -> Result<String> {
    Ok(table_name(&object_name_to_table_reference(name.clone(), true)?))
}

/// A column as the parser has it.
pub(crate) fn column(column: Column) -> Expr {
    let quoted = |part: String| Ident::with_quote('"', part);
    let mut parts: Vec<Ident> = column.relation.iter().flat_map(|table| table.to_vec()).map(quoted).collect();
    parts.push(quoted(column.name));
    match <[Ident; 1]>::try_from(parts) {
        Ok([only]) => Expr::Identifier(only),
        Err(parts) => Expr::CompoundIdentifier(parts),
    }
}

/// The name of a table as the session knows it: there is one schema, and it may be named or not.
pub(crate) fn table_name(reference: &TableReference) -> String {
    match reference.schema() {
        Some("main" | "public") => reference.table().to_string(),
        _ => reference.to_string(),
    }
}
