//! An ordinary PostgreSQL schema and its queries, as `pg_dump --schema-only` or a person writes them.
//!
//! Of the schema all that says how many rows there are is kept: tables, types, keys, references, unique and
//! B-tree indexes, and what a later statement drops of them. Defaults, checks, owners, functions, triggers,
//! grants and settings are passed over. Limits that PostgreSQL has no words for stand in comments: `--
//! cardinality limit 100 (owner)` in or right above or behind a `create table`, or anywhere `-- cardinality
//! limit 100 on subscriptions (owner)`; or, for a schema that is dumped and cannot hold comments, in a file
//! of `alter table subscriptions add cardinality limit 100 (owner)`. PostgreSQL does not hold them: they are
//! what the application promises.
//!
//! A view is what it stands for, in the queries that ask it. A table that has partitions counts as one; an
//! index that it has `on only` itself is one if every partition has it. Renames and drops are followed.
//! What is not understood is passed over, and listed.
//!
//! Invariant: what is passed over can only make a bound larger, never smaller. A partial index finds not
//! every row and is none here, of an index with an expression only the columns before that count; a table
//! without a primary key gets a hidden one, so that two equal rows are two.

use super::dump::{self, Dumped};
use super::names::{folded, key, parts, renamed};
use super::report::{Report, Rule, Skipped};
use super::tables::{Constraint, Kind, MadeIndex, MadeLimit, MadeTable, Origin, Tables};
use crate::database::Database;
use crate::error::Result;
use crate::schema::{Change, Schema, is_known_type};
use crate::store::MemoryStore;
use crate::syntax::{
    self, DeclaredLimit, Dialect, Parsed, Source, Statement, Views, comments_behind, last_part,
    postgres_type, split,
};
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterIndexOperation, AlterTableOperation, ColumnDef, ColumnOption, ColumnOptionDef,
    CreateIndex, CreateTable, DataType, Expr, Ident, IndexColumn, IndexType, KeyOrIndexDisplay,
    NullsDistinctOption, ObjectName, ObjectType, PrimaryKeyConstraint, RenameTableNameKind, Statement as Sql,
    TableConstraint, UniqueConstraint, UserDefinedTypeRepresentation,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The column that a table without a primary key gets.
const HIDDEN: &str = "#row";

/// A database in memory over this schema.
pub(super) fn database(
    store: MemoryStore,
    sources: &[Source],
    most_values: Option<u64>,
    report: &mut Report,
) -> Result<Database> {
    let mut read = SchemaReader::default();
    for source in sources {
        for statement in split(&source.text) {
            read.statement(source, &statement, report);
        }
        read.read_limits(None, source, &comments_behind(&source.text), report);
    }
    let schema = read.schema(report);
    read.skipped.report(report);
    let views = Arc::new(read.views);
    Database::with_schema(store, schema.ready(), Dialect::PostgreSql { most_values, views })
}

/// What was read, before it is put together.
#[derive(Default)]
struct SchemaReader<'s> {
    tables: Tables<'s>,
    /// Types that the schema defines, as types of ours.
    types: BTreeMap<String, DataType>,
    views: Views,
    /// The views with their schemas.
    view_keys: BTreeSet<String>,
    skipped: Skipped,
}

impl<'s> SchemaReader<'s> {
    /// Reads one statement of a schema.
    fn statement(&mut self, source: &'s Source, statement: &Statement<'s>, report: &mut Report) {
        let limits = syntax::parse(statement.text).ok().filter(|parsed| !parsed.limits.is_empty());
        if let Some(Parsed { statement: Sql::AlterTable(alter), limits, .. }) = limits {
            let table = self.tables.resolve(&alter.name);
            for limit in limits {
                let place = source.place(statement.span.clone());
                self.tables.limits.push(MadeLimit { table: table.clone(), limit, place });
            }
            return;
        }
        let origin = Origin { source, statement: statement.clone() };
        let read = dump::read(statement.text);
        let table = match &read {
            Dumped::Sql(Sql::CreateTable(create)) | Dumped::Table(create) => Some(key(&create.name)),
            _ => None,
        };
        if !self.dumped(read, &origin, report) {
            self.skipped.add(source, statement, 2);
        }
        self.read_limits(table.as_deref(), source, &statement.comments, report);
    }

    /// A statement, or a part of one; `false` if it says nothing about bounds.
    fn dumped(&mut self, read: Dumped, origin: &Origin<'s>, report: &mut Report) -> bool {
        match read {
            Dumped::Sql(Sql::CreateTable(create)) if create.query.is_none() => {
                self.table(create, origin, report);
            }
            Dumped::Table(create) => {
                let message = format!("not all of table {} is understood", last_part(&create.name));
                let place = origin.source.place(origin.statement.span.clone());
                report.add(Rule::Skipped, place, None, message);
                self.table(create, origin, report);
            }
            Dumped::Sql(sql) => return self.sql(sql, origin),
            Dumped::IndexOnOnly(Sql::CreateIndex(index)) => return self.index(index, true, origin),
            Dumped::Attach(whole, part) => {
                let (whole, part) = (self.tables.resolve(&whole), self.tables.resolve(&part));
                return self.tables.attach(&whole, &part);
            }
            Dumped::Detach(whole, part) => {
                let (whole, part) = (self.tables.resolve(&whole), self.tables.resolve(&part));
                self.tables.detach(&whole, &part);
            }
            Dumped::AttachIndex(whole, part) => self.tables.attach_index(&whole, &part),
            Dumped::Inherit(table, from) => {
                let (table, from) = (self.tables.resolve(&table), self.tables.resolve(&from));
                return self.tables.inherit(&table, &from);
            }
            Dumped::RenameIndex(old, new) => {
                return self.tables.rename_index(&last_part(&old), &last_part(&new));
            }
            Dumped::RenameView(old, new) => self.rename_view(&old, &last_part(&new)),
            Dumped::SetSchema(table, schema) => {
                let table = self.tables.resolve(&table);
                self.tables.set_schema(&table, &last_part(&schema));
            }
            Dumped::Several(texts) => {
                let understood = texts.iter().map(|text| self.dumped(dump::read(text), origin, report));
                return understood.fold(true, |all, one| all & one);
            }
            Dumped::IndexOnOnly(_) | Dumped::Unknown => return false,
        }
        true
    }

    /// A table.
    fn table(&mut self, create: CreateTable, origin: &Origin<'s>, report: &mut Report) {
        let name = last_part(&create.name);
        if !self.tables.create(create, origin.clone()) {
            let place = origin.source.place(origin.statement.span.clone());
            report.add(Rule::InvalidSchema, place, None, format!("there is a table {name:?} already"));
        }
    }

    /// An index; `false` if it finds not every row in the order of columns.
    fn index(&mut self, index: CreateIndex, on_only: bool, origin: &Origin<'s>) -> bool {
        let is_supported = is_supported_index(&index);
        self.tables.create_index(index, on_only, is_supported, origin.clone());
        is_supported
    }

    /// A statement that the parser knows; `false` if it says nothing about bounds.
    fn sql(&mut self, sql: Sql, origin: &Origin<'s>) -> bool {
        match sql {
            Sql::AlterTable(alter) => {
                let mut all = true;
                for operation in &alter.operations {
                    // The operation before may have renamed it.
                    let table = self.tables.resolve(&alter.name);
                    all &= self.alter(&table, operation, origin);
                }
                return all;
            }
            Sql::CreateIndex(index) => return self.index(index, false, origin),
            Sql::CreateView(view) if !view.materialized => {
                self.view_keys.insert(key(&view.name));
                self.views.add(&view);
            }
            Sql::CreateType { name, representation: Some(UserDefinedTypeRepresentation::Enum { .. }) } => {
                self.types.insert(last_part(&name), DataType::Text);
            }
            Sql::CreateDomain(domain) => {
                self.types.insert(last_part(&domain.name), domain.data_type.clone());
            }
            Sql::AlterIndex { name, operation: AlterIndexOperation::RenameIndex { index_name } } => {
                return self.tables.rename_index(&last_part(&name), &last_part(&index_name));
            }
            Sql::Drop { object_type, names, .. } => return self.drop(object_type, &names),
            _ => return false,
        }
        true
    }

    /// Drops something; `false` if that says nothing about bounds.
    fn drop(&mut self, kind: ObjectType, names: &[ObjectName]) -> bool {
        for name in names {
            match kind {
                ObjectType::Table => {
                    let table = self.tables.resolve(name);
                    self.tables.drop_table(&table);
                    self.views.remove_of(parts(&table).1);
                }
                ObjectType::Index => self.tables.drop_index(name),
                ObjectType::View => self.drop_view(&key(name)),
                ObjectType::Schema => {
                    let schema = last_part(name);
                    self.tables.drop_schema(&schema);
                    let within = |key: &&String| parts(key).0.unwrap_or("public") == schema;
                    let views: Vec<String> = self.view_keys.iter().filter(within).cloned().collect();
                    views.iter().for_each(|view| self.drop_view(view));
                }
                _ => return false,
            }
        }
        true
    }

    fn drop_view(&mut self, key: &str) {
        self.view_keys.remove(key);
        self.views.remove(parts(key).1);
    }

    fn rename_view(&mut self, old: &ObjectName, to: &str) {
        let old = key(old);
        self.view_keys.remove(&old);
        self.view_keys.insert(renamed(&old, to));
        self.views.rename(parts(&old).1, to);
    }

    /// One operation of `alter table`; `false` if it says nothing about bounds.
    fn alter(&mut self, table: &str, operation: &AlterTableOperation, origin: &Origin<'s>) -> bool {
        use AlterTableOperation as Op;
        if self.tables.table(table).is_none() {
            // `alter table` takes indexes and views, too.
            return match operation {
                Op::RenameTable { table_name: RenameTableNameKind::To(to) } => {
                    self.tables.rename_index(parts(table).1, &last_part(to))
                }
                _ => false,
            };
        }
        match operation {
            Op::AddConstraint { constraint, not_valid } => {
                return self.tables.add_constraint(table, constraint, !not_valid, origin);
            }
            Op::ValidateConstraint { name } => return self.tables.validate(table, &folded(name)),
            Op::DropConstraint { name, .. } => return self.tables.drop_constraint(table, &folded(name)),
            Op::RenameConstraint { old_name, new_name } => {
                return self.tables.rename_constraint(table, &folded(old_name), &folded(new_name));
            }
            Op::AddColumn { column_def, if_not_exists, .. } => {
                let column = folded(&column_def.name);
                let is_there = self.tables.columns(table).iter().any(|made| folded(&made.name) == column);
                if !(is_there && *if_not_exists) {
                    self.tables.add_column(table, column_def.clone(), origin);
                }
            }
            Op::DropColumn { column_names, .. } => {
                column_names.iter().for_each(|column| self.tables.drop_column(table, &folded(column)));
            }
            Op::RenameColumn { old_column_name, new_column_name } => {
                self.tables.rename_column(table, &folded(old_column_name), new_column_name);
            }
            Op::RenameTable { table_name: RenameTableNameKind::To(to) } => {
                self.tables.rename_table(table, &last_part(to));
                self.views.rename_table(parts(table).1, &last_part(to));
            }
            Op::AlterColumn { column_name, op } => {
                let column = folded(column_name);
                let made = self.tables.table_mut(table);
                let mut columns = made.into_iter().flat_map(|made| &mut made.columns);
                let column = columns.find(|made| folded(&made.name) == column);
                return column.is_some_and(|column| alter_column(column, op));
            }
            _ => return false,
        }
        true
    }

    /// The limits in comments, of a table or behind all statements.
    fn read_limits(
        &mut self,
        table: Option<&str>,
        source: &Source,
        comments: &[(&str, usize)],
        report: &mut Report,
    ) {
        for (comment, start) in comments {
            let Some(limit_text) = behind_words(comment, &["cardinality", "limit"]) else { continue };
            let place = source.place(*start..start + comment.len() + 2);
            match limit(limit_text, table) {
                Some((table, limit)) => {
                    let table = self.tables.resolve_key(&table);
                    self.tables.limits.push(MadeLimit { table, limit, place });
                }
                None => {
                    let message = format!(
                        "cardinality limit {limit_text}: write `cardinality limit 100 (owner)` at its table, \
                         or `cardinality limit 100 on subscriptions (owner)`"
                    );
                    report.add(Rule::InvalidSchema, place, None, message);
                }
            }
        }
    }

    /// The tables, then what refers to them, then indexes and limits.
    fn schema(&mut self, report: &mut Report) -> Schema {
        let mut schema = Schema::empty();
        let tables = std::mem::take(&mut self.tables);
        let names = self.names(&tables, report);
        for made in tables.tables.iter().filter(|made| names.contains_key(&made.key)) {
            let create = self.supported_table(&tables, made, report);
            let change = Change::CreateTable { table: Box::new(create), limits: vec![] };
            apply(&mut schema, &change, &made.origin, report);
        }
        for (key, table) in &names {
            for constraint in tables.constraints(key) {
                self.refer(&mut schema, table, &names, constraint);
            }
        }
        for made in &tables.indexes {
            self.add_index(&mut schema, &tables, made, &made.table, &names);
        }
        for MadeLimit { table, limit, place } in tables.limits.iter() {
            let key = tables.resolve_key(table);
            let table = names.get(&key).cloned().unwrap_or(key);
            let limit = DeclaredLimit { rows: limit.rows, columns: limit.columns.clone() };
            match (Change::AddLimit { table, limits: vec![limit] }).apply(&schema) {
                Ok((next, _)) => schema = next,
                Err(error) => report.add(Rule::InvalidSchema, place.clone(), None, error.to_string()),
            }
        }
        schema
    }

    /// The tables of the schema by their keys. Of several that differ only in their schema the first is one,
    /// or that of `public`: queries that name another are refused.
    fn names(&mut self, tables: &Tables<'s>, report: &mut Report) -> BTreeMap<String, String> {
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        let (public, others): (Vec<_>, Vec<_>) =
            tables.tables.iter().partition(|made| parts(&made.key).0.is_none());
        for made in public.into_iter().chain(others) {
            let name = parts(&made.key).1.to_string();
            if names.values().any(|taken| *taken == name) {
                let place = made.origin.source.place(made.origin.statement.span.clone());
                let message = format!("passed over: {}, for another schema has a table {name:?}", made.key);
                report.add(Rule::Skipped, place, None, message);
                self.views.refuse(&made.key);
                continue;
            }
            names.insert(made.key.clone(), name);
        }
        names
    }

    /// Adds a reference. One to a unique key that is not the primary one is none here.
    fn refer(
        &mut self,
        schema: &mut Schema,
        table: &str,
        names: &BTreeMap<String, String>,
        constraint: Constraint<'s>,
    ) {
        let Kind::Reference { columns, target, referred, is_valid } = constraint.kind else { return };
        let change = names.get(&target).filter(|_| is_valid).map(|target| Change::AddReference {
            table: table.to_string(),
            columns,
            target: object_name(target),
            referred,
        });
        match change.map(|change| change.apply(schema)) {
            Some(Ok((next, _))) => *schema = next,
            _ => self.skipped.add(constraint.origin.source, &constraint.origin.statement, 2),
        }
    }

    /// Adds an index to a table, and to its partitions.
    fn add_index(
        &mut self,
        schema: &mut Schema,
        tables: &Tables<'s>,
        made: &MadeIndex<'s>,
        key: &str,
        names: &BTreeMap<String, String>,
    ) {
        if !made.is_supported {
            return;
        }
        // An index of what was passed over, such as a view that is kept; or one that not all partitions have,
        // or that has not the rows of heirs.
        let name = names.get(&tables.resolve_key(key));
        let is_whole = tables.is_whole(made) && !tables.has_heirs(key);
        let of_part = key != made.table;
        let change = name.filter(|_| is_whole).map(|name| {
            let index = CreateIndex { table_name: object_name(name), ..supported_index(made.index.clone()) };
            let own = (!of_part).then(|| object_name(&made.name));
            Change::CreateIndex(Box::new(CreateIndex { name: own, ..index }))
        });
        match change.map(|change| change.apply(schema)) {
            Some(Ok((next, _))) => *schema = next,
            _ => self.skipped.add(made.origin.source, &made.origin.statement, 2),
        }
        if !made.is_on_only() {
            let partitions: Vec<&str> = tables.partitions_of(key).collect();
            let known = partitions.into_iter().filter(|part| names.contains_key(*part));
            known.for_each(|part| self.add_index(schema, tables, made, part, names));
        }
    }

    /// A table with the types and constraints that we have.
    fn supported_table(&self, tables: &Tables<'s>, made: &MadeTable<'s>, report: &mut Report) -> CreateTable {
        let mut table = made.create.clone();
        let name = parts(&made.key).1;
        table.name = object_name(name);
        // Two tables are never one, whoever makes them first.
        table.if_not_exists = false;
        table.columns = tables.columns(&made.key);
        for column in &mut table.columns {
            column.data_type = self.supported_type(&column.data_type);
            if !is_known_type(&column.data_type) {
                let place = made.origin.source.place(made.origin.statement.span.clone());
                let message = format!("{name}.{}: {} counts as text", column.name, column.data_type);
                report.add(Rule::Skipped, place, None, message);
                column.data_type = DataType::Text;
            }
        }
        let mut is_keyed = false;
        let keys = tables.constraints(&made.key).into_iter().filter_map(|constraint| match constraint.kind {
            Kind::Primary(columns) if !std::mem::replace(&mut is_keyed, true) => {
                Some(TableConstraint::PrimaryKey(primary_key(columns)))
            }
            Kind::Primary(columns) | Kind::Unique(columns) => {
                Some(TableConstraint::Unique(unique_key(columns)))
            }
            Kind::Reference { .. } => None,
        });
        table.constraints = keys.collect();
        if !is_keyed {
            table.columns.push(hidden());
        }
        table
    }

    /// A type of ours for a declared one; domains are resolved.
    fn supported_type(&self, declared: &DataType) -> DataType {
        match declared {
            DataType::Custom(name, _) => match self.types.get(&last_part(name)) {
                Some(of) => self.supported_type(of),
                None => postgres_type(declared),
            },
            other => postgres_type(other),
        }
    }
}

/// Applies a change to the schema; an error becomes a finding.
fn apply(schema: &mut Schema, change: &Change, origin: &Origin<'_>, report: &mut Report) {
    match change.apply(schema) {
        Ok((next, _)) => *schema = next,
        Err(error) => report.add_error(Rule::InvalidSchema, origin.source, &origin.statement, None, error),
    }
}

/// A name of one part, as it is kept.
fn object_name(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', name)])
}

/// What follows some words, whatever the size of their letters and the blanks between them.
fn behind_words<'t>(text: &'t str, words: &[&str]) -> Option<&'t str> {
    words.iter().try_fold(text.trim(), |rest, word| {
        let behind = rest.get(word.len()..).filter(|_| rest[..word.len()].eq_ignore_ascii_case(word))?;
        behind.starts_with(char::is_whitespace).then(|| behind.trim_start())
    })
}

/// `100 (owner)` or `100 on subscriptions (owner)`: the key of the table, and the limit.
fn limit(text: &str, table: Option<&str>) -> Option<(String, DeclaredLimit)> {
    let text = text.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    let (rows, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (name, columns) = rest.strip_suffix(')')?.rsplit_once('(')?;
    let table = match name.trim() {
        "" => table?.to_string(),
        name => key(&dump::name_in(behind_words(name, &["on"])?)?),
    };
    let columns = columns.split(',').map(str::trim).filter(|column| !column.is_empty());
    let columns = columns.map(|column| dump::name_in(column).map(|name| last_part(&name)));
    let rows = rows.parse().ok().filter(|rows| *rows > 0)?;
    Some((table, DeclaredLimit { rows, columns: columns.collect::<Option<_>>()? }))
}

/// Changes a column; `false` if that says nothing about bounds.
fn alter_column(column: &mut ColumnDef, operation: &AlterColumnOperation) -> bool {
    let is_null =
        |option: &ColumnOptionDef| matches!(option.option, ColumnOption::NotNull | ColumnOption::Null);
    match operation {
        AlterColumnOperation::SetNotNull => {
            column.options.retain(|option| !is_null(option));
            column.options.push(ColumnOptionDef { name: None, option: ColumnOption::NotNull });
        }
        AlterColumnOperation::DropNotNull => column.options.retain(|option| !is_null(option)),
        AlterColumnOperation::SetDataType { data_type, .. } => column.data_type = data_type.clone(),
        _ => return false,
    }
    true
}

/// Whether every row is in an index, in the order of columns; of a unique one all parts have to be columns.
fn is_supported_index(index: &CreateIndex) -> bool {
    let ordered = matches!(index.using, None | Some(IndexType::BTree));
    // A later drop says the name that PostgreSQL makes of the expression.
    let is_named = index.name.is_some() || index.columns.iter().all(is_column);
    let columns = index.columns.iter().take_while(|column| is_column(column)).count();
    let enough = if index.unique { columns == index.columns.len() } else { columns > 0 };
    ordered && enough && is_named && index.predicate.is_none()
}

/// Whether a part of an index is a column, and no expression.
fn is_column(part: &IndexColumn) -> bool {
    matches!(part.column.expr, Expr::Identifier(_))
}

/// The columns of an index, to the first expression.
fn supported_index(mut index: CreateIndex) -> CreateIndex {
    let columns = index.columns.iter().take_while(|column| is_column(column)).count();
    index.columns.truncate(columns);
    index.using = None;
    index.if_not_exists = false;
    index.include.clear();
    index
}

/// A primary key.
fn primary_key(columns: Vec<IndexColumn>) -> PrimaryKeyConstraint {
    PrimaryKeyConstraint {
        name: None,
        index_name: None,
        index_type: None,
        columns,
        index_options: vec![],
        characteristics: None,
    }
}

/// A unique key.
fn unique_key(columns: Vec<IndexColumn>) -> UniqueConstraint {
    UniqueConstraint {
        name: None,
        index_name: None,
        index_type_display: KeyOrIndexDisplay::None,
        index_type: None,
        columns,
        index_options: vec![],
        characteristics: None,
        nulls_distinct: NullsDistinctOption::None,
    }
}

/// The hidden primary key of a table that has none.
fn hidden() -> ColumnDef {
    let key = ColumnOption::PrimaryKey(primary_key(vec![]));
    let options = vec![ColumnOptionDef { name: None, option: key }];
    ColumnDef { name: Ident::with_quote('"', HIDDEN), data_type: DataType::BigInt(None), options }
}
