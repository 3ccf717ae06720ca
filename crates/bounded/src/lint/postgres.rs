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
//! index that it has `on only` itself is one if every partition has it. What is not understood is passed
//! over, and listed.
//!
//! Invariant: what is passed over can only make a bound larger, never smaller. A partial index finds not
//! every row and is none here, of an index with an expression only the columns before that count; a table
//! without a primary key gets a hidden one, so that two equal rows are two.

use super::dump::{self, Dumped};
use super::report::{Report, Rule, Skipped};
use crate::database::Database;
use crate::error::Result;
use crate::schema::{Change, Schema, is_known_type};
use crate::store::MemoryStore;
use crate::syntax::{
    self, DeclaredLimit, Dialect, Parsed, Place, Source, Statement, Views, comments_behind, last_part,
    postgres_type, split, unqualified_name,
};
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, ColumnDef, ColumnOption, ColumnOptionDef, CreateIndex,
    CreateTable, DataType, Expr, ForeignKeyConstraint, Ident, IndexColumn, IndexType, ObjectName, ObjectType,
    PrimaryKeyConstraint, Statement as Sql, TableConstraint, UserDefinedTypeRepresentation,
};
use std::collections::BTreeMap;
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

/// The tables that were read, before they are put together.
#[derive(Default)]
struct SchemaReader<'s> {
    /// Tables that are no partitions.
    tables: Vec<Defined<'s, CreateTable>>,
    /// References, with the tables that they stand in.
    references: Vec<Defined<'s, (String, ForeignKeyConstraint)>>,
    indexes: Vec<Defined<'s, CreateIndex>>,
    /// Cardinality limits from comments and files.
    limits: Vec<(DeclaredOn, Place)>,
    /// Types that the schema defines, as types of ours.
    types: BTreeMap<String, DataType>,
    views: Views,
    /// How many partitions a table has.
    partitions: BTreeMap<String, usize>,
    /// Indexes that are on a table itself, and how many of its partitions have them.
    on_only: BTreeMap<String, usize>,
    skipped: Skipped,
}

/// A limit of a table.
type DeclaredOn = (String, DeclaredLimit);

/// What a statement makes.
struct Defined<'s, T> {
    what: T,
    source: &'s Source,
    statement: Statement<'s>,
}

impl<'s> SchemaReader<'s> {
    /// Reads one statement of a schema.
    fn statement(&mut self, source: &'s Source, statement: &Statement<'s>, report: &mut Report) {
        let limits = syntax::parse(statement.text).ok().filter(|parsed| !parsed.limits.is_empty());
        if let Some(Parsed { statement: Sql::AlterTable(alter), limits, .. }) = limits {
            let place = source.place(statement.span.clone());
            let limits = limits.into_iter().map(|limit| ((last_part(&alter.name), limit), place.clone()));
            return self.limits.extend(limits);
        }
        let mut table = None;
        let understood = match dump::read(statement.text) {
            Dumped::Sql(Sql::CreateTable(create)) if create.query.is_none() => {
                table = Some(last_part(&create.name));
                self.table(create, source, statement)
            }
            Dumped::Table(create) => {
                table = Some(last_part(&create.name));
                let message = format!("not all of table {} is understood", last_part(&create.name));
                report.add(Rule::Skipped, source.place(statement.span.clone()), None, message);
                self.table(create, source, statement)
            }
            Dumped::Sql(sql) => self.sql(sql, source, statement),
            Dumped::IndexOnOnly(Sql::CreateIndex(index)) if is_supported_index(&index) => {
                self.on_only.insert(index_name(&index), 0);
                self.indexes.push(defined(index, source, statement));
                true
            }
            Dumped::Partition(table) => {
                *self.partitions.entry(table).or_default() += 1;
                true
            }
            Dumped::IndexPartition(index) => {
                *self.on_only.entry(index).or_default() += 1;
                true
            }
            Dumped::IndexOnOnly(_) | Dumped::Unknown => false,
        };
        if !understood {
            self.skipped.add(source, statement, 2);
        }
        self.read_limits(table.as_deref(), source, &statement.comments, report);
    }

    /// A table; `false` if it is a part of another.
    fn table(&mut self, create: CreateTable, source: &'s Source, statement: &Statement<'s>) -> bool {
        match &create.partition_of {
            Some(whole) => *self.partitions.entry(last_part(whole)).or_default() += 1,
            None => self.tables.push(defined(create, source, statement)),
        }
        true
    }

    /// A statement that the parser knows; `false` if it says nothing about bounds.
    fn sql(&mut self, sql: Sql, source: &'s Source, statement: &Statement<'s>) -> bool {
        match sql {
            Sql::AlterTable(alter) => {
                let table = last_part(&alter.name);
                let mut all = true;
                for operation in &alter.operations {
                    all &= self.alter(&table, operation, source, statement);
                }
                return all;
            }
            Sql::CreateIndex(index) if is_supported_index(&index) => {
                self.indexes.push(defined(index, source, statement))
            }
            Sql::CreateView(view) if !view.materialized => self.views.add(&view),
            Sql::CreateType { name, representation: Some(UserDefinedTypeRepresentation::Enum { .. }) } => {
                self.types.insert(last_part(&name), DataType::Text);
            }
            Sql::CreateDomain(domain) => {
                self.types.insert(last_part(&domain.name), domain.data_type.clone());
            }
            Sql::Drop { object_type: ObjectType::Table, names, .. } => {
                names.iter().for_each(|name| self.without_table(&last_part(name)));
            }
            Sql::Drop { object_type: ObjectType::Index, names, .. } => {
                self.indexes
                    .retain(|made| !names.iter().any(|name| last_part(name) == index_name(&made.what)));
            }
            Sql::Drop { object_type: ObjectType::View, names, .. } => {
                names.iter().for_each(|name| self.views.remove(&last_part(name)));
            }
            _ => return false,
        }
        true
    }

    /// Drops a table, its indexes, references and limits.
    fn without_table(&mut self, name: &str) {
        self.tables.retain(|made| last_part(&made.what.name) != name);
        self.indexes.retain(|made| last_part(&made.what.table_name) != name);
        self.references.retain(|made| made.what.0 != name);
        self.limits.retain(|((table, _), _)| table != name);
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
        let Some(create) = tables.find(|made| last_part(&made.what.name) == table).map(|made| &mut made.what)
        else {
            return false;
        };
        match operation {
            AlterTableOperation::AddConstraint { constraint: TableConstraint::ForeignKey(key), .. } => {
                self.references.push(defined((table.to_string(), key.clone()), source, at));
            }
            AlterTableOperation::AddConstraint { constraint, .. } => {
                create.constraints.push(constraint.clone())
            }
            AlterTableOperation::DropConstraint { name, .. } => return drop_constraint(create, &name.value),
            AlterTableOperation::AddColumn { column_def, .. } => create.columns.push(column_def.clone()),
            AlterTableOperation::DropColumn { column_names, .. } => {
                create.columns.retain(|column| !column_names.contains(&column.name));
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let column = create.columns.iter_mut().find(|column| column.name.value == column_name.value);
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
            let Some(limit_text) = comment.trim().strip_prefix("cardinality limit ") else { continue };
            let place = source.place(*start..start + comment.len() + 2);
            match limit(limit_text, table) {
                Some(limit) => self.limits.push((limit, place)),
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
        for made in std::mem::take(&mut self.tables) {
            let name = last_part(&made.what.name);
            let foreign = |constraint: &TableConstraint| match constraint {
                TableConstraint::ForeignKey(key) => Some(key.clone()),
                _ => None,
            };
            let of_columns = made.what.columns.iter().flat_map(references_of);
            let of_table = made.what.constraints.iter().filter_map(foreign);
            for key in of_columns.chain(of_table) {
                let what = (name.clone(), key);
                self.references.push(Defined {
                    what,
                    source: made.source,
                    statement: made.statement.clone(),
                });
            }
            let mut table = self.supported_table(made.what);
            for column in table.columns.iter_mut().filter(|column| !is_known_type(&column.data_type)) {
                let place = made.source.place(made.statement.span.clone());
                let message = format!("{name}.{}: {} counts as text", column.name, column.data_type);
                report.add(Rule::Skipped, place, None, message);
                column.data_type = DataType::Text;
            }
            let change = Change::CreateTable { table: Box::new(table), limits: vec![] };
            apply(&mut schema, &change, made.source, &made.statement, report);
        }
        for Defined { what: (table, key), source, statement } in std::mem::take(&mut self.references) {
            let change = Change::AddReference {
                table,
                columns: key.columns,
                target: unqualified_name(&key.foreign_table),
                referred: key.referred_columns,
            };
            // A reference to a unique key that is not the primary one is none here.
            match change.apply(&schema) {
                Ok((next, _)) => schema = next,
                Err(_) => self.skipped.add(source, &statement, 2),
            }
        }
        for Defined { what: index, source, statement } in std::mem::take(&mut self.indexes) {
            // An index of what was passed over, such as a view that is kept; or one that not all partitions
            // have.
            if schema.table(&last_part(&index.table_name)).is_err() || !self.is_whole(&index) {
                self.skipped.add(source, &statement, 2);
                continue;
            }
            let change = Change::CreateIndex(Box::new(supported_index(index)));
            apply(&mut schema, &change, source, &statement, report);
        }
        for ((table, limit), place) in std::mem::take(&mut self.limits) {
            match (Change::AddLimit { table, limits: vec![limit] }).apply(&schema) {
                Ok((next, _)) => schema = next,
                Err(error) => report.add(Rule::InvalidSchema, place, None, error.to_string()),
            }
        }
        schema
    }

    /// Whether an index finds the rows of all partitions.
    fn is_whole(&self, index: &CreateIndex) -> bool {
        let partitions = self.partitions.get(&last_part(&index.table_name)).copied().unwrap_or(0);
        self.on_only.get(&index_name(index)).is_none_or(|attached| *attached >= partitions)
    }

    /// A table with the types and constraints that we have.
    fn supported_table(&self, mut table: CreateTable) -> CreateTable {
        table.name = unqualified_name(&table.name);
        table.constraints.retain(|constraint| {
            matches!(constraint, TableConstraint::PrimaryKey(_) | TableConstraint::Unique(_))
        });
        for column in &mut table.columns {
            column.data_type = self.supported_type(&column.data_type);
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

/// What a statement defines, and where.
fn defined<'s, T>(what: T, source: &'s Source, statement: &Statement<'s>) -> Defined<'s, T> {
    Defined { what, source, statement: statement.clone() }
}

/// Applies a change to the schema; an error becomes a finding.
fn apply(
    schema: &mut Schema,
    change: &Change,
    source: &Source,
    statement: &Statement<'_>,
    report: &mut Report,
) {
    match change.apply(schema) {
        Ok((next, _)) => *schema = next,
        Err(error) => report.add_error(Rule::InvalidSchema, source, statement, None, error),
    }
}

/// `100 (owner)` or `100 on subscriptions (owner)`.
fn limit(limit_text: &str, table: Option<&str>) -> Option<(String, DeclaredLimit)> {
    let (head, columns) = limit_text.trim().split_once('(')?;
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

/// The references in the options of a column.
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
    index.name.as_ref().map_or_else(given, last_part)
}

/// The name that PostgreSQL gives to a constraint without one.
fn default_name(table: &ObjectName, columns: &[IndexColumn], kind: &str) -> String {
    let columns = columns.iter().map(|column| format!("_{}", column.column.expr));
    format!("{}{}_{kind}", last_part(table), columns.collect::<String>())
}

/// Takes a key off a table; `false` if it has none of this name.
fn drop_constraint(table: &mut CreateTable, name: &str) -> bool {
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
    let columns = index.columns.iter().take_while(|column| is_column(column)).count();
    let enough = if index.unique { columns == index.columns.len() } else { columns > 0 };
    ordered && enough && index.predicate.is_none()
}

/// Whether a part of an index is a column, and no expression.
fn is_column(part: &IndexColumn) -> bool {
    matches!(part.column.expr, Expr::Identifier(_))
}

/// The columns of an index, to the first expression.
fn supported_index(mut index: CreateIndex) -> CreateIndex {
    let columns = index.columns.iter().take_while(|column| is_column(column)).count();
    index.columns.truncate(columns);
    index.table_name = unqualified_name(&index.table_name);
    index.name = index.name.as_ref().map(unqualified_name);
    index.using = None;
    index.include.clear();
    index
}

/// The hidden primary key of a table that has none.
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
