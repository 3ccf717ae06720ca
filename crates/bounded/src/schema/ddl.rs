//! `create table`, `create index`, `alter table`: from the parser's tree to the next schema.

use super::index::{Index, IndexKind, IndexState, KeyPart, Part};
use super::limits::{CardinalityLimit, ForeignKey};
use super::table::{Column, Nullability, Table};
use super::tables::Schema;
use crate::datum::Type;
use crate::error::{Error, Result};
use crate::keys::KeyOrder;
use crate::syntax::{DeclaredLimit, Parsed};
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, BinaryLength, CharacterLength, ColumnDef, ColumnOption,
    CreateIndex, CreateTable, DataType, ExactNumberInfo, Expr, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, IndexColumn, ObjectName, OrderByExpr, Statement, TableConstraint,
};

/// A change of the schema.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// A new table.
    CreateTable { table: Box<CreateTable>, limits: Vec<DeclaredLimit> },
    /// A new index on a table.
    CreateIndex(Box<CreateIndex>),
    /// A new index that a query needs.
    AddIndex { table: String, index: Index },
    /// Another limit on a table.
    AddLimit { table: String, limits: Vec<DeclaredLimit> },
    /// Another reference, of a table without rows.
    AddReference { table: String, columns: Vec<Ident>, target: ObjectName, referred: Vec<Ident> },
    /// Another column at the end of a table.
    AddColumn { table: String, column: Box<ColumnDef> },
    /// `set not null` or `drop not null` of a column.
    SetNullable { table: String, column: Ident, nullable: bool },
}

impl Change {
    /// The change that a statement is, if it is one.
    ///
    /// # Errors
    /// `Invalid` for an `alter table` that is not supported.
    pub fn of(parsed: &Parsed) -> Result<Option<Change>> {
        let change = match &parsed.statement {
            Statement::CreateTable(table) => {
                Change::CreateTable { table: Box::new(table.clone()), limits: parsed.limits.clone() }
            }
            Statement::CreateIndex(index) => Change::CreateIndex(Box::new(index.clone())),
            Statement::AlterTable(alter) => match alter.operations.as_slice() {
                _ if !parsed.limits.is_empty() => {
                    Change::AddLimit { table: table_name(&alter.name)?, limits: parsed.limits.clone() }
                }
                [AlterTableOperation::AddColumn { column_def, .. }] => Change::AddColumn {
                    table: table_name(&alter.name)?,
                    column: Box::new(column_def.clone()),
                },
                [
                    AlterTableOperation::AlterColumn {
                        column_name,
                        op: op @ (AlterColumnOperation::SetNotNull | AlterColumnOperation::DropNotNull),
                    },
                ] => Change::SetNullable {
                    table: table_name(&alter.name)?,
                    column: column_name.clone(),
                    nullable: *op == AlterColumnOperation::DropNotNull,
                },
                _ => {
                    return Err(Error::invalid(
                        "alter table can add a column or a cardinality limit, and set or drop not null of a column: \
                         alter table t add cardinality limit 100 (owner)",
                    ));
                }
            },
            _ => return Ok(None),
        };
        Ok(Some(change))
    }

    /// Whether the schema has the change already, and it only has to be finished: `create table if not
    /// exists` of an existing table, or an index or a check for nulls that was begun.
    ///
    /// # Errors
    /// `Invalid` if its table or one of its columns does not exist.
    pub fn is_made(&self, schema: &Schema) -> Result<bool> {
        match self {
            Change::CreateTable { table, .. } if table.if_not_exists => {
                let name = table_name(&table.name)?;
                Ok(schema.tables().any(|existing| existing.name == name))
            }
            Change::CreateIndex(index) => {
                let table = schema.table(&table_name(&index.table_name)?)?;
                let begun = |existing: &&Index| existing.state == IndexState::Building;
                let Some(name) = &index.name else { return Ok(false) };
                let name = table_name(name)?;
                let Some(existing) =
                    table.indexes.iter().filter(begun).find(|existing| existing.name == name)
                else {
                    return Ok(false);
                };
                let parts = index.columns.iter().map(|column| key_part(table, &column.column));
                Ok(existing.parts == parts.collect::<Result<Vec<_>>>()?)
            }
            Change::AddIndex { table, index } => {
                Ok(schema.table(table)?.indexes.iter().any(|existing| existing.parts == index.parts))
            }
            Change::SetNullable { table, column, nullable: false } => {
                let table = base_table(schema, table)?;
                Ok(!table.columns[table.column(&ident(column))?].accepts_nulls())
            }
            _ => Ok(false),
        }
    }

    /// The table that it changes.
    ///
    /// # Errors
    /// `Invalid` if the name has several parts.
    pub fn table(&self) -> Result<String> {
        match self {
            Change::CreateTable { table, .. } => table_name(&table.name),
            Change::CreateIndex(index) => table_name(&index.table_name),
            Change::AddIndex { table, .. }
            | Change::AddLimit { table, .. }
            | Change::AddReference { table, .. }
            | Change::AddColumn { table, .. }
            | Change::SetNullable { table, .. } => Ok(table.clone()),
        }
    }

    /// The next schema, and the name of the table that changed.
    ///
    /// # Errors
    /// `Invalid` if the change does not fit the schema.
    pub fn apply(&self, schema: &Schema) -> Result<(Schema, String)> {
        let table = match self {
            Change::CreateTable { table, limits } => create_table(schema, table, limits)?,
            Change::CreateIndex(index) => create_index(schema, index)?,
            Change::AddIndex { table, index } => {
                let mut table = Table::clone(schema.table(table)?);
                table.indexes.push(Index { state: IndexState::Building, ..index.clone() });
                table
            }
            Change::AddLimit { table, limits } => {
                let mut table = base_table(schema, table)?;
                for limit in limits {
                    add_limit(&mut table, limit, IndexState::Building)?;
                }
                table
            }
            Change::AddReference { table, columns, target, referred } => {
                let mut table = Table::clone(schema.table(table)?);
                let columns: Vec<String> = columns.iter().map(ident).collect();
                add_reference(schema, &mut table, &columns, target, referred)?;
                table
            }
            Change::AddColumn { table, column } => {
                let mut table = base_table(schema, table)?;
                let column = column_of(column)?;
                if !column.is_nullable() {
                    return Err(Error::invalid("a column that is added later is null in the rows before it"));
                }
                check_new_column(&table, &column)?;
                table.columns.push(column);
                table
            }
            Change::SetNullable { table, column, nullable } => {
                let mut table = base_table(schema, table)?;
                let at = table.column(&ident(column))?;
                if *nullable && table.key_columns().contains(&at) {
                    return Err(Error::invalid(format!(
                        "{}.{} is part of the primary key: it is never null",
                        table.name, table.columns[at].name
                    )));
                }
                table.columns[at].nullability =
                    if *nullable { Nullability::Nullable } else { Nullability::Checking };
                table
            }
        };
        let name = table.name.clone();
        Ok((schema.with_table(table), name))
    }
}

/// The table of this name, unless it is a view.
fn base_table(schema: &Schema, name: &str) -> Result<Table> {
    let table = schema.table(name)?;
    match &table.view {
        Some(_) => Err(Error::invalid(format!("{name} is a view: its rows follow from its tables"))),
        None => Ok(Table::clone(table)),
    }
}

/// `create table`: columns first, then the primary key, then other constraints.
fn create_table(schema: &Schema, create: &CreateTable, limits: &[DeclaredLimit]) -> Result<Table> {
    let name = table_name(&create.name)?;
    if schema.tables().any(|table| table.name == name) {
        return Err(Error::invalid(format!("there is a table {name:?} already")));
    }
    let mut table =
        Table { name, columns: vec![], indexes: vec![], foreign_keys: vec![], limits: vec![], view: None };
    for column in &create.columns {
        let column = column_of(column)?;
        check_new_column(&table, &column)?;
        table.columns.push(column);
    }
    primary_key(&mut table, create)?;
    for column in &create.columns {
        let name = ident(&column.name);
        for option in &column.options {
            match &option.option {
                ColumnOption::Unique(_) => add_unique(&mut table, std::slice::from_ref(&name))?,
                ColumnOption::ForeignKey(key) => add_reference(
                    schema,
                    &mut table,
                    std::slice::from_ref(&name),
                    &key.foreign_table,
                    &key.referred_columns,
                )?,
                _ => {}
            }
        }
    }
    for constraint in &create.constraints {
        match constraint {
            TableConstraint::PrimaryKey(_) => {}
            TableConstraint::Unique(unique) => {
                add_unique(&mut table, &index_columns(&unique.columns)?)?;
            }
            TableConstraint::ForeignKey(key) => {
                let columns: Vec<String> = key.columns.iter().map(ident).collect();
                add_reference(schema, &mut table, &columns, &key.foreign_table, &key.referred_columns)?;
            }
            other => {
                return Err(Error::invalid(format!("{other} is not supported: check it in the application")));
            }
        }
    }
    for limit in limits {
        add_limit(&mut table, limit, IndexState::Ready)?;
    }
    Ok(table)
}

/// Refuses a second column of the same name.
fn check_new_column(table: &Table, column: &Column) -> Result<()> {
    match table.columns.iter().any(|existing| existing.name == column.name) {
        true => Err(Error::invalid(format!("{} has a column {:?} already", table.name, column.name))),
        false => Ok(()),
    }
}

/// A column from its definition.
fn column_of(column: &ColumnDef) -> Result<Column> {
    let name = ident(&column.name);
    let mut nullable = true;
    for option in &column.options {
        match &option.option {
            ColumnOption::NotNull | ColumnOption::PrimaryKey(_) => nullable = false,
            ColumnOption::Null | ColumnOption::Unique(_) | ColumnOption::ForeignKey(_) => {}
            other => {
                return Err(Error::invalid(format!(
                    "{name}: {other} is not supported; give the value when you insert"
                )));
            }
        }
    }
    Ok(Column { of: type_of(&column.data_type, &name)?, name, nullability: nullable.into() })
}

/// Whether columns can have a type.
pub(crate) fn is_known_type(declared: &DataType) -> bool {
    type_of(declared, "").is_ok()
}

/// A type of ours from a declared one.
fn type_of(declared: &DataType, column: &str) -> Result<Type> {
    Ok(match declared {
        DataType::Boolean | DataType::Bool => Type::Bool,
        DataType::SmallInt(_) | DataType::Int2(_) => Type::Int16,
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => Type::Int32,
        DataType::BigInt(_) | DataType::Int8(_) | DataType::Int64 => Type::Int64,
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float64 => {
            Type::Float64
        }
        DataType::Decimal(size) | DataType::Numeric(size) => match size {
            ExactNumberInfo::PrecisionAndScale(precision @ 1..=38, scale @ 0..=38) => {
                Type::Decimal(*precision as u8, *scale as i8)
            }
            ExactNumberInfo::Precision(precision @ 1..=38) => Type::Decimal(*precision as u8, 0),
            _ => {
                return Err(Error::invalid(format!(
                    "{column}: say decimal(precision, scale), precision up to 38"
                )));
            }
        },
        DataType::Varchar(length) | DataType::CharVarying(length) | DataType::CharacterVarying(length) => {
            Type::Text(length.as_ref().and_then(characters))
        }
        DataType::Text | DataType::String(_) => Type::Text(None),
        DataType::Bytea | DataType::Blob(None) => Type::Bytes(None),
        DataType::Varbinary(length) => Type::Bytes(length.as_ref().and_then(bytes)),
        DataType::Date => Type::Date,
        DataType::Timestamp(_, _) | DataType::Datetime(_) => Type::Timestamp,
        other => {
            return Err(Error::invalid(format!(
                "{column}: there is no type {other}; there are boolean, smallint, int, bigint, double, \
                 decimal(p, s), varchar(n), text, varbinary(n), bytea, date, timestamp"
            )));
        }
    })
}

/// The length of a text in characters.
fn characters(length: &CharacterLength) -> Option<u32> {
    match length {
        CharacterLength::IntegerLength { length, .. } => u32::try_from(*length).ok(),
        CharacterLength::Max => None,
    }
}

/// The length of bytes.
fn bytes(length: &BinaryLength) -> Option<u32> {
    match length {
        BinaryLength::IntegerLength { length } => u32::try_from(*length).ok(),
        BinaryLength::Max => None,
    }
}

/// Adds the primary key, from a column or from the table.
fn primary_key(table: &mut Table, create: &CreateTable) -> Result<()> {
    let of_columns = create.columns.iter().filter(|column| {
        column.options.iter().any(|option| matches!(option.option, ColumnOption::PrimaryKey(_)))
    });
    let mut keys: Vec<Vec<String>> = of_columns.map(|column| vec![ident(&column.name)]).collect();
    for constraint in &create.constraints {
        if let TableConstraint::PrimaryKey(key) = constraint {
            keys.push(index_columns(&key.columns)?);
        }
    }
    let [key] = keys.as_slice() else {
        return Err(Error::invalid(format!(
            "table {} takes one primary key: primary key (column, …)",
            table.name
        )));
    };
    let columns = columns(table, key)?;
    columns.iter().for_each(|at| table.columns[*at].nullability = Nullability::NotNull);
    let parts = columns.into_iter().map(KeyPart::ascending).collect();
    let name = format!("{}_key", table.name);
    table.indexes.insert(0, Index::new(name, IndexKind::Primary, parts));
    Ok(())
}

/// The positions of columns.
fn columns(table: &Table, names: &[String]) -> Result<Vec<usize>> {
    names.iter().map(|name| table.column(name)).collect()
}

/// Adds a unique index.
fn add_unique(table: &mut Table, names: &[String]) -> Result<()> {
    let columns = columns(table, names)?;
    let name = format!("{}_{}_unique", table.name, names.join("_"));
    let parts = columns.into_iter().map(KeyPart::ascending).collect();
    table.indexes.push(Index::new(name, IndexKind::Unique, parts));
    Ok(())
}

/// Adds a reference to the primary key of a table.
fn add_reference(
    schema: &Schema,
    table: &mut Table,
    names: &[String],
    target: &ObjectName,
    referred: &[Ident],
) -> Result<()> {
    let mut columns = columns(table, names)?;
    let target = table_name(target)?;
    let parent = if target == table.name { table.clone() } else { base_table(schema, &target)? };
    let key = parent.key_columns();
    if !referred.is_empty() {
        let referred = referred.iter().map(|name| parent.column(&ident(name))).collect::<Result<Vec<_>>>()?;
        let in_order = key
            .iter()
            .map(|at| referred.iter().position(|r| r == at).and_then(|at| columns.get(at).copied()));
        columns =
            in_order.collect::<Option<Vec<_>>>().filter(|_| referred.len() == key.len()).unwrap_or_default();
    }
    if columns.len() != key.len() {
        return Err(Error::invalid(format!(
            "a reference points at a primary key, and that of {target} is ({})",
            parent.column_names(&key)
        )));
    }
    for (from, to) in columns.iter().zip(&key) {
        let (from, to) = (&table.columns[*from], &parent.columns[*to]);
        if !Type::same_keys(&from.of.arrow(), &to.of.arrow()) {
            return Err(Error::invalid(format!(
                "{}.{} is {} and refers to {target}.{}, which is {}",
                table.name, from.name, from.of, to.name, to.of
            )));
        }
    }
    table.foreign_keys.push(ForeignKey { columns, table: target });
    Ok(())
}

/// Adds a cardinality limit, and an index to count its rows by if there is none.
fn add_limit(table: &mut Table, limit: &DeclaredLimit, state: IndexState) -> Result<()> {
    let mut columns = columns(table, &limit.columns)?;
    columns.sort_unstable();
    if table.counting_index(&columns).is_none() {
        let parts: Vec<KeyPart> = columns.iter().copied().map(KeyPart::ascending).collect();
        let name = fresh_name(table, &parts);
        table.indexes.push(Index { state, ..Index::new(name, IndexKind::Ordinary, parts) });
    }
    table.limits.retain(|existing| existing.columns != columns);
    table.limits.push(CardinalityLimit { columns, rows: limit.rows, state });
    Ok(())
}

/// A free name for an index.
pub(crate) fn fresh_name(table: &Table, parts: &[KeyPart]) -> String {
    let mut name = table.name.clone();
    for part in parts {
        let of = match &part.part {
            Part::Column(at) => std::slice::from_ref(at),
            Part::Words(of) => of.as_slice(),
        };
        for at in of {
            name = format!("{name}_{}", table.columns[*at].name);
        }
    }
    let taken = |name: &str| table.indexes.iter().any(|index| index.name == name);
    let mut names = (1..).map(|n| if n == 1 { name.clone() } else { format!("{name}_{n}") });
    // The numbers never end, so a name is always found.
    names.find(|name| !taken(name)).unwrap_or_default()
}

/// `create index`: to be built.
fn create_index(schema: &Schema, create: &CreateIndex) -> Result<Table> {
    let mut table = Table::clone(schema.table(&table_name(&create.table_name)?)?);
    if create.predicate.is_some() || !create.include.is_empty() || create.using.is_some() {
        return Err(Error::invalid("create index takes a name, a table and columns, and nothing else"));
    }
    let parts =
        create.columns.iter().map(|column| key_part(&table, &column.column)).collect::<Result<Vec<_>>>()?;
    if parts.iter().filter(|part| part.column().is_none()).count() > 1 {
        return Err(Error::invalid("an index has at most one token(…)"));
    }
    let name = match &create.name {
        Some(name) => table_name(name)?,
        None => fresh_name(&table, &parts),
    };
    if table.indexes.iter().any(|index| index.name == name) {
        return Err(Error::invalid(format!("{} has an index {name:?} already", table.name)));
    }
    if create.unique && table.view.is_some() {
        return Err(Error::invalid(format!("{} is a view: its rows follow from its tables", table.name)));
    }
    let kind = if create.unique { IndexKind::Unique } else { IndexKind::Ordinary };
    table.indexes.push(Index { state: IndexState::Building, ..Index::new(name, kind, parts) });
    Ok(table)
}

/// A part of a key: a column, or `token(…)`.
fn key_part(table: &Table, written: &OrderByExpr) -> Result<KeyPart> {
    let descending = written.options.asc == Some(false);
    let nulls_first = written.options.nulls_first.unwrap_or(descending);
    let order = KeyOrder { descending, nulls_first };
    let part = match &written.expr {
        Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("token") => {
            let FunctionArguments::List(list) = &call.args else { return Err(not_a_part(written)) };
            let names = list.args.iter().map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(name))) => Ok(ident(name)),
                _ => Err(not_a_part(written)),
            });
            let of = columns(table, &names.collect::<Result<Vec<_>>>()?)?;
            if let Some(at) = of.iter().find(|at| !matches!(table.columns[**at].of, Type::Text(_))) {
                return Err(Error::invalid(format!(
                    "{} is no text: it has no words",
                    table.columns[*at].name
                )));
            }
            Part::Words(of)
        }
        Expr::Identifier(name) => Part::Column(table.column(&ident(name))?),
        _ => return Err(not_a_part(written)),
    };
    Ok(KeyPart { part, order })
}

/// The error for an expression in an index.
fn not_a_part(written: &OrderByExpr) -> Error {
    Error::invalid(format!("{written}: an index is of columns and token(column, …)"))
}

/// The names of columns in a key.
fn index_columns(columns: &[IndexColumn]) -> Result<Vec<String>> {
    let names = columns.iter().map(|column| match &column.column.expr {
        Expr::Identifier(name) => Ok(ident(name)),
        other => Err(Error::invalid(format!("{other}: a key is of columns"))),
    });
    names.collect()
}

/// A name in lower case, unless it is quoted.
fn ident(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

/// The name of an object, which has one part.
pub(crate) fn table_name(name: &ObjectName) -> Result<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(ident).ok_or_else(|| Error::invalid(format!("{name} is not a name"))),
        _ => Err(Error::invalid(format!("{name}: there is one schema; write the name of the table alone"))),
    }
}
