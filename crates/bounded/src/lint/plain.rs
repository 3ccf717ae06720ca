//! An ordinary PostgreSQL schema and its queries, as `pg_dump --schema-only` or a person writes them.
//!
//! Of the schema all that says how many rows there are is kept: tables, types, keys, references, unique and B-tree
//! indexes, and what a later statement drops of them. Defaults, checks, owners, functions, triggers, grants and settings
//! are passed over. Limits that PostgreSQL has no words for stand in comments: `-- cardinality limit 100 (owner)` in or
//! right above a `create table`, or anywhere `-- cardinality limit 100 on subscriptions (owner)`; or, for a schema that is
//! dumped and cannot hold comments, in a file of `alter table subscriptions add cardinality limit 100 (owner)`. PostgreSQL
//! does not hold them: they are what the application promises.
//!
//! Invariant: what is passed over can only make a bound larger, never smaller. A partial index finds not every row
//! and is none here; a table without a primary key gets a hidden one, so that two equal rows are two.

use super::split::{Source, Statement, split};
use super::{Report, Rule, Skipped};
use crate::database::Database;
use crate::dialect::{Dialect, bare, last, plain_type};
use crate::error::Result;
use crate::schema::{Change, Schema, is_known};
use crate::store::MemoryStore;
use crate::text::{self, DeclaredLimit, Parsed};
use datafusion::sql::sqlparser::ast::{
    AlterTableOperation, ColumnDef, ColumnOption, ColumnOptionDef, CreateIndex, CreateTable, DataType, Expr,
    ForeignKeyConstraint, Ident, IndexColumn, IndexType, ObjectName, ObjectType, PrimaryKeyConstraint,
    Statement as Sql, TableConstraint, UserDefinedTypeRepresentation,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::collections::BTreeMap;

/// The column that a table without a primary key gets.
const HIDDEN: &str = "#row";

/// A database in memory over this schema.
pub(super) fn database(
    store: MemoryStore,
    sources: &[Source],
    most_values: Option<u64>,
    report: &mut Report,
) -> Result<Database> {
    let mut read = Read::default();
    for source in sources {
        for statement in split(&source.text) {
            read.statement(source, &statement, report);
        }
    }
    let schema = read.schema(report);
    read.skipped.tell(report);
    Database::over(store, schema.ready(), Dialect::PostgreSql { most_values })
}

/// The tables that were read, before they are put together.
#[derive(Default)]
struct Read<'s> {
    tables: Vec<Made<'s, CreateTable>>,
    references: Vec<Made<'s, (String, ForeignKeyConstraint)>>,
    indexes: Vec<Made<'s, CreateIndex>>,
    limits: Vec<Made<'s, (String, DeclaredLimit)>>,
    types: BTreeMap<String, DataType>,
    skipped: Skipped,
}

/// What a statement makes.
struct Made<'s, T> {
    what: T,
    source: &'s Source,
    statement: Statement<'s>,
}

impl<'s> Read<'s> {
    fn statement(&mut self, source: &'s Source, statement: &Statement<'s>, report: &mut Report) {
        let limits = text::parse(statement.text).ok().filter(|parsed| !parsed.limits.is_empty());
        if let Some(Parsed { statement: Sql::AlterTable(alter), limits, .. }) = limits {
            return self
                .limits
                .extend(limits.into_iter().map(|limit| made((last(&alter.name), limit), source, statement)));
        }
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, statement.text);
        let mut table = None;
        match parsed.as_deref() {
            Ok([Sql::CreateTable(create)]) if create.query.is_none() && create.partition_of.is_none() => {
                table = Some(last(&create.name));
                self.tables.push(made(create.clone(), source, statement));
            }
            Ok([Sql::AlterTable(alter)]) => {
                for operation in &alter.operations {
                    if !self.alter(&last(&alter.name), operation, source, statement) {
                        self.skipped.add(source, statement, 2);
                    }
                }
            }
            Ok([Sql::CreateIndex(index)]) => match usable(index) {
                true => self.indexes.push(made(index.clone(), source, statement)),
                false => self.skipped.add(source, statement, 2),
            },
            Ok(
                [
                    Sql::CreateType {
                        name,
                        representation: Some(UserDefinedTypeRepresentation::Enum { .. }),
                    },
                ],
            ) => {
                self.types.insert(last(name), DataType::Text);
            }
            Ok([Sql::CreateDomain(domain)]) => {
                self.types.insert(last(&domain.name), domain.data_type.clone());
            }
            Ok([Sql::Drop { object_type: ObjectType::Table, names, .. }]) => {
                names.iter().for_each(|name| self.without_table(&last(name)));
            }
            Ok([Sql::Drop { object_type: ObjectType::Index, names, .. }]) => {
                self.indexes.retain(|made| !names.iter().any(|name| last(name) == index_name(&made.what)));
            }
            Err(_) if is_identity(statement.text) => self.skipped.add(source, statement, 2),
            // What the parser does not know may still be about tables: then it is no use to go on without.
            Err(error) if ["create table", "alter table"].contains(&statement.opening(2).as_str()) => {
                let error = text::syntax(error.clone());
                report.wrong(Rule::InvalidSchema, source, statement, None, error);
            }
            _ => self.skipped.add(source, statement, 2),
        }
        self.commented(table.as_deref(), source, statement, report);
    }

    fn without_table(&mut self, name: &str) {
        self.tables.retain(|made| last(&made.what.name) != name);
        self.indexes.retain(|made| last(&made.what.table_name) != name);
        self.references.retain(|made| made.what.0 != name);
        self.limits.retain(|made| made.what.0 != name);
    }

    /// One operation of `alter table`; `false` if it says nothing about bounds.
    fn alter(
        &mut self,
        table: &str,
        operation: &AlterTableOperation,
        source: &'s Source,
        at: &Statement<'s>,
    ) -> bool {
        let mut tables = self.tables.iter_mut();
        let Some(create) = tables.find(|made| last(&made.what.name) == table).map(|made| &mut made.what)
        else {
            return false;
        };
        match operation {
            AlterTableOperation::AddConstraint { constraint: TableConstraint::ForeignKey(key), .. } => {
                self.references.push(made((table.to_string(), key.clone()), source, at));
            }
            AlterTableOperation::AddConstraint { constraint, .. } => {
                create.constraints.push(constraint.clone())
            }
            AlterTableOperation::DropConstraint { name, .. } => return without_key(create, &name.value),
            AlterTableOperation::AddColumn { column_def, .. } => create.columns.push(column_def.clone()),
            AlterTableOperation::DropColumn { column_names, .. } => {
                create.columns.retain(|column| !column_names.contains(&column.name));
            }
            _ => return false,
        }
        true
    }

    /// The limits in the comments of a statement.
    fn commented(
        &mut self,
        table: Option<&str>,
        source: &'s Source,
        at: &Statement<'s>,
        report: &mut Report,
    ) {
        for (comment, start) in &at.comments {
            let Some(said) = comment.trim().strip_prefix("cardinality limit ") else { continue };
            match limit(said, table) {
                Some(limit) => self.limits.push(made(limit, source, at)),
                None => {
                    let place = source.place(*start..start + comment.len() + 2);
                    let message = format!(
                        "cardinality limit {said}: write `cardinality limit 100 (owner)` at its table, \
                         or `cardinality limit 100 on subscriptions (owner)`"
                    );
                    report.find(Rule::InvalidSchema, place, None, message);
                }
            }
        }
    }

    /// The tables, then what refers to them, then indexes and limits.
    fn schema(&mut self, report: &mut Report) -> Schema {
        let mut schema = Schema::empty();
        for made in std::mem::take(&mut self.tables) {
            let name = last(&made.what.name);
            let foreign = |constraint: &TableConstraint| match constraint {
                TableConstraint::ForeignKey(key) => Some(key.clone()),
                _ => None,
            };
            let of_columns = made.what.columns.iter().flat_map(references_of);
            let of_table = made.what.constraints.iter().filter_map(foreign);
            for key in of_columns.chain(of_table) {
                let what = (name.clone(), key);
                self.references.push(Made { what, source: made.source, statement: made.statement.clone() });
            }
            let mut table = self.tamed(made.what);
            for column in table.columns.iter_mut().filter(|column| !is_known(&column.data_type)) {
                let place = made.source.place(made.statement.span.clone());
                let message = format!("{name}.{}: {} counts as text", column.name, column.data_type);
                report.find(Rule::Skipped, place, None, message);
                column.data_type = DataType::Text;
            }
            let change = Change::CreateTable { table: Box::new(table), limits: vec![] };
            apply(&mut schema, &change, made.source, &made.statement, report);
        }
        for Made { what: (table, key), source, statement } in std::mem::take(&mut self.references) {
            let change = Change::AddReference {
                table,
                columns: key.columns,
                target: bare(&key.foreign_table),
                referred: key.referred_columns,
            };
            // A reference to a unique key that is not the primary one is none here.
            match change.apply(&schema) {
                Ok((next, _)) => schema = next,
                Err(_) => self.skipped.add(source, &statement, 2),
            }
        }
        for Made { what: index, source, statement } in std::mem::take(&mut self.indexes) {
            apply(
                &mut schema,
                &Change::CreateIndex(Box::new(plain_index(index))),
                source,
                &statement,
                report,
            );
        }
        for Made { what: (table, limit), source, statement } in std::mem::take(&mut self.limits) {
            apply(&mut schema, &Change::AddLimit { table, limits: vec![limit] }, source, &statement, report);
        }
        schema
    }

    /// A table with the types and constraints that we have.
    fn tamed(&self, mut table: CreateTable) -> CreateTable {
        table.name = bare(&table.name);
        table.constraints.retain(|constraint| {
            matches!(constraint, TableConstraint::PrimaryKey(_) | TableConstraint::Unique(_))
        });
        for column in &mut table.columns {
            column.data_type = self.plain_type(&column.data_type);
            column.options.retain(|option| {
                matches!(
                    option.option,
                    ColumnOption::NotNull
                        | ColumnOption::Null
                        | ColumnOption::PrimaryKey(_)
                        | ColumnOption::Unique(_)
                )
            });
        }
        let of_column = table.columns.iter().flat_map(|column| &column.options);
        let keyed = of_column
            .map(|option| &option.option)
            .any(|option| matches!(option, ColumnOption::PrimaryKey(_)))
            || table
                .constraints
                .iter()
                .any(|constraint| matches!(constraint, TableConstraint::PrimaryKey(_)));
        if !keyed {
            table.columns.push(hidden());
        }
        table
    }

    fn plain_type(&self, declared: &DataType) -> DataType {
        match declared {
            DataType::Custom(name, _) => match self.types.get(&last(name)) {
                Some(of) => self.plain_type(of),
                None => plain_type(declared),
            },
            other => plain_type(other),
        }
    }
}

fn made<'s, T>(what: T, source: &'s Source, statement: &Statement<'s>) -> Made<'s, T> {
    Made { what, source, statement: statement.clone() }
}

fn apply(
    schema: &mut Schema,
    change: &Change,
    source: &Source,
    statement: &Statement<'_>,
    report: &mut Report,
) {
    match change.apply(schema) {
        Ok((next, _)) => *schema = next,
        Err(error) => report.wrong(Rule::InvalidSchema, source, statement, None, error),
    }
}

/// `100 (owner)` or `100 on subscriptions (owner)`.
fn limit(said: &str, table: Option<&str>) -> Option<(String, DeclaredLimit)> {
    let (head, columns) = said.trim().split_once('(')?;
    let columns = columns.trim().strip_suffix(')')?.split(',').map(|name| name.trim().to_lowercase());
    let columns = columns.filter(|name| !name.is_empty()).collect();
    let (rows, table) = match head.split_whitespace().collect::<Vec<_>>().as_slice() {
        [rows] => (rows.to_string(), table?.to_string()),
        [rows, "on", table] => (rows.to_string(), table.rsplit('.').next()?.to_lowercase()),
        _ => return None,
    };
    let rows = rows.parse().ok().filter(|rows| *rows > 0)?;
    Some((table, DeclaredLimit { rows, columns }))
}

fn references_of(column: &ColumnDef) -> Vec<ForeignKeyConstraint> {
    let keys = column.options.iter().filter_map(|option| match &option.option {
        ColumnOption::ForeignKey(key) => Some(key.clone()),
        _ => None,
    });
    keys.map(|key| ForeignKeyConstraint { columns: vec![column.name.clone()], ..key }).collect()
}

/// The name of an index, as PostgreSQL gives it if nobody does.
fn index_name(index: &CreateIndex) -> String {
    let given = || default_name(&index.table_name, &index.columns, "idx");
    index.name.as_ref().map_or_else(given, last)
}

fn default_name(table: &ObjectName, columns: &[IndexColumn], kind: &str) -> String {
    let columns = columns.iter().map(|column| format!("_{}", column.column.expr));
    format!("{}{}_{kind}", last(table), columns.collect::<String>())
}

/// Takes a key off a table; `false` if it has none of this name.
fn without_key(table: &mut CreateTable, name: &str) -> bool {
    let keys = |table: &CreateTable| {
        table.constraints.len() + table.columns.iter().map(|column| column.options.len()).sum::<usize>()
    };
    let (before, of) = (keys(table), table.name.clone());
    let primary = default_name(&of, &[], "pkey");
    table.constraints.retain(|constraint| {
        let (given, default) = match constraint {
            TableConstraint::PrimaryKey(key) => (&key.name, primary.clone()),
            TableConstraint::Unique(key) => (&key.name, default_name(&of, &key.columns, "key")),
            _ => return true,
        };
        given.as_ref().map_or(default, |given| given.value.clone()) != name
    });
    for column in &mut table.columns {
        let unique = default_name(&of, &[IndexColumn::from(column.name.clone())], "key");
        column.options.retain(|option| {
            let default = match option.option {
                ColumnOption::PrimaryKey(_) => &primary,
                ColumnOption::Unique(_) => &unique,
                _ => return true,
            };
            option.name.as_ref().map_or(default.as_str(), |given| &given.value) != name
        });
    }
    keys(table) < before
}

/// Whether a statement only says where the values of a column come from, as dumps do of each identity column.
fn is_identity(statement: &str) -> bool {
    let words: Vec<String> = statement.split_whitespace().map(str::to_lowercase).collect();
    let after =
        words.windows(3).any(|three| three[0] == "alter" && three[1] == "column" && three[2] != "type");
    let others = [" add constraint ", " add column ", " drop "];
    let text = words.join(" ");
    after && text.contains(" add generated ") && !others.iter().any(|other| text.contains(other))
}

/// Whether every row is in an index, in the order of columns.
fn usable(index: &CreateIndex) -> bool {
    let ordered = matches!(index.using, None | Some(IndexType::BTree));
    let columns = index.columns.iter().all(|column| matches!(column.column.expr, Expr::Identifier(_)));
    ordered && columns && index.predicate.is_none()
}

fn plain_index(mut index: CreateIndex) -> CreateIndex {
    index.table_name = bare(&index.table_name);
    index.name = index.name.as_ref().map(bare);
    index.using = None;
    index.include.clear();
    index
}

fn hidden() -> ColumnDef {
    let key = PrimaryKeyConstraint {
        name: None,
        index_name: None,
        index_type: None,
        columns: vec![],
        index_options: vec![],
        characteristics: None,
    };
    let options = vec![ColumnOptionDef { name: None, option: ColumnOption::PrimaryKey(key) }];
    ColumnDef { name: Ident::with_quote('"', HIDDEN), data_type: DataType::BigInt(None), options }
}
