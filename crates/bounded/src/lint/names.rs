//! Names of PostgreSQL: how they are told apart, and which ones it gives by itself.

use crate::syntax::last_part;
use datafusion::sql::sqlparser::ast::{Expr, Ident, IndexColumn, ObjectName};

/// The longest name, in bytes.
const LONGEST: usize = 63;

/// A name as it is kept: in small letters, unless it is quoted.
pub(super) fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The name of a table with its schema, which is left out if it is `public`.
pub(super) fn key(name: &ObjectName) -> String {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
    match parts.as_slice() {
        [.., schema, table] if schema != "public" => format!("{schema}.{table}"),
        _ => last_part(name),
    }
}

/// The schema of a key, if it has one, and the rest.
pub(super) fn parts(key: &str) -> (Option<&str>, &str) {
    key.split_once('.').map_or((None, key), |(schema, table)| (Some(schema), table))
}

/// The key of a table that gets another name.
pub(super) fn renamed(old: &str, to: &str) -> String {
    parts(old).0.map_or_else(|| to.to_string(), |schema| format!("{schema}.{to}"))
}

/// The columns of an index or a key, as far as they are columns.
pub(super) fn columns_of(parts: &[IndexColumn]) -> Vec<String> {
    let columns = parts.iter().map_while(|part| match &part.column.expr {
        Expr::Identifier(column) => Some(folded(column)),
        _ => None,
    });
    columns.collect()
}

/// The name that PostgreSQL gives to an index or a constraint without one.
pub(super) fn default_name(
    table: &str,
    columns: &[String],
    kind: &str,
    is_taken: impl Fn(&str) -> bool,
) -> String {
    let names = (0..).map(|number| {
        let kind = if number == 0 { kind.to_string() } else { format!("{kind}{number}") };
        short_name(parts(table).1, &columns.join("_"), &kind)
    });
    // The numbers never end, so a name is always found.
    names.into_iter().find(|name| !is_taken(name)).unwrap_or_default()
}

/// `table_columns_kind`, of which the longer part is cut if it is too long.
fn short_name(table: &str, columns: &str, kind: &str) -> String {
    let between = if columns.is_empty() { 1 } else { 2 };
    let room = LONGEST.saturating_sub(kind.len() + between);
    let (mut table, mut columns) = (table, columns);
    while table.len() + columns.len() > room {
        let longer = if table.len() > columns.len() { &mut table } else { &mut columns };
        let Some((last, _)) = longer.char_indices().last() else { break };
        *longer = &longer[..last];
    }
    match columns {
        "" => format!("{table}_{kind}"),
        columns => format!("{table}_{columns}_{kind}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{default_name, short_name};

    #[test]
    fn names_are_those_of_postgresql() {
        let free = |_: &str| false;
        assert_eq!(default_name("audit.t", &["a".into(), "b".into()], "key", free), "t_a_b_key");
        assert_eq!(default_name("t", &[], "pkey", free), "t_pkey");
        assert_eq!(default_name("t", &["a".into()], "idx", |name| name == "t_a_idx"), "t_a_idx1");
        let (table, column) = ("t".repeat(60), "c".repeat(40));
        let name = short_name(&table, &column, "idx");
        assert_eq!(name, format!("{}_{}_idx", "t".repeat(29), "c".repeat(29)));
        assert_eq!(short_name(&table, "", "pkey").len(), 63);
    }
}
