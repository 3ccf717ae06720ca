//! What dumps of PostgreSQL say in words that the parser does not know.
//!
//! Invariant: a statement that is read here says no more than it does in PostgreSQL: of a column that is not
//! understood the type is kept, of a table what is not understood is left out.

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
    Attach(ObjectName, ObjectName),
    /// `alter table t detach partition …`
    Detach(ObjectName, ObjectName),
    /// `alter index i attach partition …`
    AttachIndex(ObjectName, ObjectName),
    /// `alter table t inherit …`
    Inherit(ObjectName, ObjectName),
    /// `alter index i rename to …`
    RenameIndex(ObjectName, ObjectName),
    /// `alter view v rename to …`
    RenameView(ObjectName, ObjectName),
    /// `alter table t set schema …`
    SetSchema(ObjectName, ObjectName),
    /// `alter table` with several operations, which are not all known: each for itself.
    Several(Vec<String>),
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
        ["alter", kind @ ("table" | "index" | "view"), ..] => alteration(kind, text, &words, &lower),
        ["drop", "index", "concurrently", ..] => {
            let text = [&words[..2], &words[3..]].concat().join(" ");
            one(&text).map_or(Dumped::Unknown, Dumped::Sql)
        }
        ["create", "index", ..] | ["create", "unique", "index", ..] => {
            let only = lower.windows(2).position(|two| two == ["on", "only"]);
            let without = only.map(|only| [&words[..=only], &words[only + 2..]].concat().join(" "));
            without.and_then(|text| one(&text).ok()).map_or(Dumped::Unknown, Dumped::IndexOnOnly)
        }
        ["create", ..] if lower.windows(2).any(|two| two == ["partition", "of"]) => {
            partition(&words, &lower).map_or(Dumped::Unknown, Dumped::Table)
        }
        ["create", "table", ..] => parse_piecewise(text).map_or(Dumped::Unknown, Dumped::Table),
        _ => Dumped::Unknown,
    }
}

/// `alter` of a table, an index or a view.
fn alteration(kind: &str, text: &str, words: &[&str], lower: &[&str]) -> Dumped {
    let is_name = |word: &&str| !matches!(*word, "if" | "exists" | "only");
    let Some(at) = lower[2..].iter().position(is_name).map(|at| at + 2) else { return Dumped::Unknown };
    let operation: Vec<&str> = lower[at + 1..].iter().copied().filter(|word| *word != "*").collect();
    // The other name is the word behind these.
    type Named = fn(ObjectName, ObjectName) -> Dumped;
    let known: [(&str, &[&str], Named); 7] = [
        ("table", &["attach", "partition"], Dumped::Attach),
        ("table", &["detach", "partition"], Dumped::Detach),
        ("index", &["attach", "partition"], Dumped::AttachIndex),
        ("table", &["inherit"], Dumped::Inherit),
        ("index", &["rename", "to"], Dumped::RenameIndex),
        ("view", &["rename", "to"], Dumped::RenameView),
        ("table", &["set", "schema"], Dumped::SetSchema),
    ];
    let found = known.iter().find(|(of, begin, _)| *of == kind && operation.starts_with(begin));
    if let Some((_, begin, named)) = found {
        let other = lower[at + 1..].iter().position(|word| *word == begin[begin.len() - 1]);
        let other = other.and_then(|before| words.get(at + 1 + before + 1));
        let names = words.get(at).and_then(|name| name_in(name)).zip(other.and_then(|name| name_in(name)));
        return names.map_or(Dumped::Unknown, |(name, other)| named(name, other));
    }
    // The operations follow the name, wherever that ends in the text.
    let head = words[..=at].join(" ");
    let behind =
        words[..=at].iter().try_fold(text, |rest, word| Some(&rest[rest.find(word)? + word.len()..]));
    let closed = format!("{})", behind.unwrap_or_default());
    match elements(&closed).as_slice() {
        several @ [_, _, ..] if kind == "table" => {
            Dumped::Several(several.iter().map(|operation| format!("{head} {operation}")).collect())
        }
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

/// The name that a word is.
pub(super) fn name_in(word: &str) -> Option<ObjectName> {
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(word).ok()?;
    parser.parse_object_name(false).ok()
}

/// A partition of which no more is understood than what it is a part of.
fn partition(words: &[&str], lower: &[&str]) -> Option<CreateTable> {
    let at = lower.windows(2).position(|two| two == ["partition", "of"])?;
    let (name, whole) = (words.get(at.checked_sub(1)?)?, words.get(at + 2)?);
    let whole = whole.split('(').next().unwrap_or(whole);
    match one(&format!("create table {name} partition of {whole} default")) {
        Ok(Sql::CreateTable(create)) => Some(create),
        _ => None,
    }
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
    use crate::syntax::last_part;

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
            Dumped::Attach(whole, part) => format!("table {} {}", last_part(&whole), last_part(&part)),
            Dumped::AttachIndex(whole, part) => format!("index {} {}", last_part(&whole), last_part(&part)),
            Dumped::RenameIndex(old, new) => format!("rename {old} {new}"),
            Dumped::Several(texts) => texts.join("; "),
            _ => String::new(),
        };
        let table =
            "ALTER TABLE ONLY public.events ATTACH PARTITION public.events_1 FOR VALUES FROM (1) TO (2)";
        assert_eq!(name(table), "table events events_1");
        assert_eq!(name("alter index public.\"By At\" attach partition public.x"), "");
        assert_eq!(name("alter index public.\"ByAt\" attach partition public.x"), "index ByAt x");
        assert!(matches!(
            read("create index i on only public.events using btree (at)"),
            Dumped::IndexOnOnly(Sql::CreateIndex(_))
        ));
        assert!(matches!(read("alter table t cluster on i"), Dumped::Unknown));
        assert_eq!(name("alter index if exists i rename to j"), "rename i j");
        assert_eq!(
            name("alter table only t add x int default f(1, 2) odd, drop constraint k"),
            "alter table only t add x int default f(1, 2) odd; alter table only t drop constraint k"
        );
        assert!(matches!(read("drop index concurrently if exists i"), Dumped::Sql(Sql::Drop { .. })));
    }
}
