//! What dumps of PostgreSQL say in words that the parser does not know.
//!
//! Invariant: a statement that is read here says no more than it does in PostgreSQL: of a column that is not
//! understood the type is kept, of a table what is not understood is left out.

use crate::syntax::last_part;
use datafusion::sql::sqlparser::ast::{CreateTable, ObjectName, Statement as Sql};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// A statement of a dump.
pub(super) enum Dumped {
    /// One that the parser knows.
    Sql(Sql),
    /// A table of which some was left out.
    Table(CreateTable),
    /// An index on a table that has partitions, which all have to have it.
    IndexOnOnly(Sql),
    /// `alter table t attach partition …`
    Partition(String),
    /// `alter index i attach partition …`
    IndexPartition(String),
    /// None of these.
    Unknown,
}

/// Reads a statement.
pub(super) fn read(text: &str) -> Dumped {
    if let Ok(sql) = one(text) {
        return Dumped::Sql(sql);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    match lower.as_slice() {
        ["alter", kind @ ("table" | "index"), rest @ ..] => {
            let name = rest.iter().position(|word| !matches!(*word, "if" | "exists" | "only")).unwrap_or(0);
            let name_of = || words.get(name + 2).and_then(|word| name_in(word));
            match (rest.get(name + 1), rest.get(name + 2), name_of()) {
                (Some(&"attach"), Some(&"partition"), Some(name)) if *kind == "table" => {
                    Dumped::Partition(name)
                }
                (Some(&"attach"), Some(&"partition"), Some(name)) => Dumped::IndexPartition(name),
                _ => Dumped::Unknown,
            }
        }
        ["create", "index", ..] | ["create", "unique", "index", ..] => {
            let only = lower.windows(2).position(|two| two == ["on", "only"]);
            let without = only.map(|only| [&words[..=only], &words[only + 2..]].concat().join(" "));
            without.and_then(|text| one(&text).ok()).map_or(Dumped::Unknown, Dumped::IndexOnOnly)
        }
        ["create", "table", ..] => parse_piecewise(text).map_or(Dumped::Unknown, Dumped::Table),
        _ => Dumped::Unknown,
    }
}

/// Parses a text that is one statement.
fn one(text: &str) -> Result<Sql, ParserError> {
    match Parser::parse_sql(&PostgreSqlDialect {}, text)?.as_slice() {
        [sql] => Ok(sql.clone()),
        _ => Err(ParserError::ParserError("not one statement".to_string())),
    }
}

/// The last part of a name.
fn name_in(word: &str) -> Option<String> {
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(word).ok()?;
    let name: ObjectName = parser.parse_object_name(false).ok()?;
    Some(last_part(&name))
}

/// A table, column by column and constraint by constraint, without what cannot be read.
fn parse_piecewise(text: &str) -> Option<CreateTable> {
    let open = text.find('(')?;
    let head = text[..open].trim_end();
    let elements = elements(&text[open + 1..]);
    let table = |elements: &str| match one(&format!("{head} ({elements})")) {
        Ok(Sql::CreateTable(create)) => Some(create),
        _ => None,
    };
    let readable = elements.iter().filter_map(|element| {
        if table(element).is_some() {
            return Some((*element).to_string());
        }
        let first = element.split_whitespace().next()?.to_lowercase();
        let is_column = !["constraint", "primary", "unique", "foreign", "check", "exclude", "like"]
            .contains(&first.as_str());
        is_column.then(|| longest_prefix(element, &|element| table(element).is_some())).flatten()
    });
    table(&readable.collect::<Vec<_>>().join(", "))
}

/// As much of a column from its beginning as can be read: its name, its type, some of its options.
fn longest_prefix(element: &str, is_known: &dyn Fn(&str) -> bool) -> Option<String> {
    let words: Vec<&str> = element.split_whitespace().collect();
    let lengths = (2..words.len()).rev();
    lengths.map(|length| words[..length].join(" ")).find(|beginning| is_known(beginning))
}

/// The columns and constraints of a table, to the parenthesis that closes it.
fn elements(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut first, mut quote) = (Vec::new(), 0, 0, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[') => depth += 1,
            (None, ')' | ']') if depth > 0 => depth -= 1,
            (None, ')') => {
                found.push(text[first..at].trim());
                break;
            }
            (None, ',') if depth == 0 => {
                found.push(text[first..at].trim());
                first = at + 1;
            }
            _ => {}
        }
    }
    found.retain(|element| !element.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(text: &str) -> Vec<String> {
        match read(text) {
            Dumped::Table(create) | Dumped::Sql(Sql::CreateTable(create)) => create
                .columns
                .iter()
                .map(|column| format!("{} {}", column.name, column.data_type).to_lowercase())
                .collect(),
            _ => vec![],
        }
    }

    #[test]
    fn a_table_is_read_piece_by_piece() {
        let text =
            "create table public.t (id integer not null, total integer generated always as (id * 2) virtual,
            during tstzrange, name text collate \"C\" compression lz4 default 'a, b'::text not null,
            constraint odd exclude using gist (during with &&), primary key (id)) partition by range (id)";
        assert_eq!(columns(text), ["id integer", "total integer", "during tstzrange", "name text"]);
        let Dumped::Table(create) = read(text) else { panic!("{text} was understood") };
        assert!(create.constraints.iter().any(|key| key.to_string() == "PRIMARY KEY (id)"));
    }

    #[test]
    fn partitions_are_attached() {
        let name = |text: &str| match read(text) {
            Dumped::Partition(name) => format!("table {name}"),
            Dumped::IndexPartition(name) => format!("index {name}"),
            _ => String::new(),
        };
        let table =
            "ALTER TABLE ONLY public.events ATTACH PARTITION public.events_1 FOR VALUES FROM (1) TO (2)";
        assert_eq!(name(table), "table events");
        assert_eq!(name("alter index public.\"By At\" attach partition public.x"), "");
        assert_eq!(name("alter index public.\"ByAt\" attach partition public.x"), "index ByAt");
        assert!(matches!(
            read("create index i on only public.events using btree (at)"),
            Dumped::IndexOnOnly(Sql::CreateIndex(_))
        ));
        assert!(matches!(read("alter table t cluster on i"), Dumped::Unknown));
    }
}
