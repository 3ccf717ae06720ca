//! Tables, keys and indexes as the statements of a schema leave them, one after the other.
//!
//! Invariant: what a statement takes away, or may take away, is gone. What is not certain is left out: a key
//! of a table that others inherit from, a reference that is not valid yet, an index that not all partitions
//! have.

use super::names::{columns_of, default_name, folded, key, parts, renamed};
use crate::syntax::{DeclaredLimit, Place, Source, Statement, last_part};
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, CreateIndex, CreateTable, Expr, ForeignKeyConstraint, Ident, IndexColumn,
    ObjectName, TableConstraint,
};
use std::collections::BTreeSet;

/// Where something was made.
#[derive(Clone)]
pub(super) struct Origin<'s> {
    pub source: &'s Source,
    pub statement: Statement<'s>,
}

/// A table.
pub(super) struct MadeTable<'s> {
    pub key: String,
    /// Its columns, with no other options than `null` and `not null`.
    pub columns: Vec<ColumnDef>,
    pub constraints: Vec<Constraint<'s>>,
    /// The table that it was made a partition of, and has its columns and keys from.
    pub whole: Option<String>,
    /// The tables that it has its columns from.
    pub inherits: Vec<String>,
    pub create: CreateTable,
    pub origin: Origin<'s>,
}

/// A constraint of a table.
#[derive(Clone)]
pub(super) struct Constraint<'s> {
    pub name: String,
    pub kind: Kind,
    pub origin: Origin<'s>,
}

/// What a constraint says.
#[derive(Clone)]
pub(super) enum Kind {
    Primary(Vec<IndexColumn>),
    Unique(Vec<IndexColumn>),
    Reference {
        columns: Vec<Ident>,
        target: String,
        referred: Vec<Ident>,
        /// Whether it holds for the rows from before it, too.
        is_valid: bool,
    },
}

/// An index that is no constraint.
pub(super) struct MadeIndex<'s> {
    pub name: String,
    pub table: String,
    pub index: CreateIndex,
    /// Whether it finds every row in the order of columns.
    pub is_supported: bool,
    /// Whether partitions have it only where theirs are attached.
    on_only: bool,
    number: usize,
    /// The indexes of partitions that are attached to it.
    attached: BTreeSet<usize>,
    pub origin: Origin<'s>,
}

impl MadeIndex<'_> {
    /// Whether partitions have it only where theirs are attached.
    pub fn is_on_only(&self) -> bool {
        self.on_only
    }
}

/// A cardinality limit.
pub(super) struct MadeLimit {
    pub table: String,
    pub limit: DeclaredLimit,
    pub place: Place,
}

/// All of them.
#[derive(Default)]
pub(super) struct Tables<'s> {
    pub tables: Vec<MadeTable<'s>>,
    pub indexes: Vec<MadeIndex<'s>>,
    pub limits: Vec<MadeLimit>,
    /// Tables and their partitions.
    pub partitions: BTreeSet<(String, String)>,
    indexes_made: usize,
}

impl<'s> Tables<'s> {
    /// The key of a table, as it is kept: one that a search path finds has no schema where it is named.
    pub fn resolve(&self, name: &ObjectName) -> String {
        self.resolve_key(&key(name))
    }

    /// The same, of a key.
    pub fn resolve_key(&self, key: &str) -> String {
        let named = |made: &&MadeTable<'_>| parts(&made.key).1 == key;
        let mut near = self.tables.iter().filter(named);
        match (self.table(key), near.next(), near.next()) {
            (None, Some(only), None) => only.key.clone(),
            _ => key.to_string(),
        }
    }

    pub fn table(&self, key: &str) -> Option<&MadeTable<'s>> {
        self.tables.iter().find(|made| made.key == key)
    }

    pub fn table_mut(&mut self, key: &str) -> Option<&mut MadeTable<'s>> {
        self.tables.iter_mut().find(|made| made.key == key)
    }

    /// Whether an index or a constraint has this name, in the schema of a table.
    fn is_taken(&self, table: &str, name: &str) -> bool {
        let schema = parts(table).0;
        let tables = self.tables.iter().filter(|made| parts(&made.key).0 == schema);
        let indexes = self.indexes.iter().filter(|made| parts(&made.table).0 == schema);
        let names = tables.flat_map(|made| &made.constraints).map(|constraint| &constraint.name);
        names.chain(indexes.map(|made| &made.name)).any(|taken| taken == name)
    }

    /// Whether a table is another, or one of its parts, or of theirs.
    fn is_within(&self, table: &str, whole: &str) -> bool {
        let (mut left, mut seen) = (vec![whole.to_string()], BTreeSet::new());
        while let Some(next) = left.pop() {
            if next == table {
                return true;
            }
            if seen.insert(next.clone()) {
                left.extend(self.parts_of(&next));
            }
        }
        false
    }

    /// Makes a table a partition of another; `false` if that is one of its own.
    pub fn attach(&mut self, whole: &str, part: &str) -> bool {
        let attaches = !self.is_within(whole, part);
        if attaches {
            self.partitions.insert((whole.to_string(), part.to_string()));
        }
        attaches
    }

    /// A table inherits from another from now on; `false` if that is one of its own heirs.
    pub fn inherit(&mut self, table: &str, from: &str) -> bool {
        let inherits = !self.is_within(from, table);
        let made = self.table_mut(table).filter(|_| inherits);
        made.map(|made| made.inherits.push(from.to_string())).is_some()
    }

    /// Makes a table, unless it is there and need not be; `false` if it is there and should not.
    pub fn create(&mut self, create: CreateTable, origin: Origin<'s>) -> bool {
        let key = key(&create.name);
        if self.table(&key).is_some() {
            return create.if_not_exists;
        }
        let whole = create.partition_of.as_ref().map(|whole| self.resolve(whole));
        let whole = whole.filter(|whole| self.attach(whole, &key));
        let from = create.inherits.iter().flatten().map(|name| self.resolve(name));
        let inherits = from.filter(|from| !self.is_within(from, &key)).collect();
        let mut made = MadeTable {
            key: key.clone(),
            columns: vec![],
            constraints: vec![],
            whole,
            inherits,
            create,
            origin: origin.clone(),
        };
        let columns = std::mem::take(&mut made.create.columns);
        let constraints = std::mem::take(&mut made.create.constraints);
        self.tables.push(made);
        columns.into_iter().for_each(|column| self.add_column(&key, column, &origin));
        for constraint in constraints {
            self.add_constraint(&key, &constraint, true, &origin);
        }
        true
    }

    /// Adds a column, and what its definition says of keys as constraints.
    pub fn add_column(&mut self, table: &str, mut column: ColumnDef, origin: &Origin<'s>) {
        let part = || vec![IndexColumn::from(column.name.clone())];
        let mut found = Vec::new();
        for option in &column.options {
            let name = option.name.as_ref().map(folded);
            match &option.option {
                ColumnOption::PrimaryKey(_) => found.push((name, Kind::Primary(part()))),
                ColumnOption::Unique(_) => found.push((name, Kind::Unique(part()))),
                ColumnOption::ForeignKey(key) => {
                    found.push((name, self.reference(key, vec![column.name.clone()], true)));
                }
                _ => {}
            }
        }
        column.options.retain(|option| matches!(option.option, ColumnOption::NotNull | ColumnOption::Null));
        let Some(made) = self.table_mut(table) else { return };
        made.columns.push(column);
        found.into_iter().for_each(|(name, kind)| self.add_named(table, name, kind, origin));
    }

    /// A reference, with the table that it points at.
    fn reference(&self, key: &ForeignKeyConstraint, columns: Vec<Ident>, is_valid: bool) -> Kind {
        let target = self.resolve(&key.foreign_table);
        Kind::Reference { columns, target, referred: key.referred_columns.clone(), is_valid }
    }

    /// Adds a constraint; `false` if it says nothing about bounds.
    pub fn add_constraint(
        &mut self,
        table: &str,
        constraint: &TableConstraint,
        is_valid: bool,
        origin: &Origin<'s>,
    ) -> bool {
        let (name, kind) = match constraint {
            TableConstraint::PrimaryKey(key) => (&key.name, Kind::Primary(key.columns.clone())),
            TableConstraint::Unique(key) => (&key.name, Kind::Unique(key.columns.clone())),
            TableConstraint::ForeignKey(key) => {
                (&key.name, self.reference(key, key.columns.clone(), is_valid))
            }
            TableConstraint::PrimaryKeyUsingIndex(using) | TableConstraint::UniqueUsingIndex(using) => {
                let index = folded(&using.index_name);
                let at = self.indexes.iter().position(|made| made.name == index && made.is_supported);
                let Some(at) = at else { return false };
                let columns = self.indexes.remove(at).index.columns;
                let kind = match constraint {
                    TableConstraint::PrimaryKeyUsingIndex(_) => Kind::Primary(columns),
                    _ => Kind::Unique(columns),
                };
                let name = using.name.as_ref().map_or(index, folded);
                self.add_named(table, Some(name), kind, origin);
                return true;
            }
            _ => return false,
        };
        self.add_named(table, name.as_ref().map(folded), kind, origin);
        true
    }

    /// Adds a constraint with this name, or one as PostgreSQL gives it.
    fn add_named(&mut self, table: &str, name: Option<String>, kind: Kind, origin: &Origin<'s>) {
        let is_taken = |name: &str| self.is_taken(table, name);
        let name = name.unwrap_or_else(|| match &kind {
            Kind::Primary(_) => default_name(table, &[], "pkey", is_taken),
            Kind::Unique(columns) => default_name(table, &columns_of(columns), "key", is_taken),
            Kind::Reference { columns, .. } => {
                let columns: Vec<String> = columns.iter().map(folded).collect();
                default_name(table, &columns, "fkey", is_taken)
            }
        });
        if let Some(made) = self.table_mut(table) {
            made.constraints.push(Constraint { name, kind, origin: origin.clone() });
        }
    }

    /// Makes an index, unless it is there and need not be.
    pub fn create_index(
        &mut self,
        index: CreateIndex,
        on_only: bool,
        is_supported: bool,
        origin: Origin<'s>,
    ) {
        let table = self.resolve(&index.table_name);
        let columns = columns_of(&index.columns);
        let is_taken = |name: &str| self.is_taken(&table, name);
        let name =
            index.name.as_ref().map_or_else(|| default_name(&table, &columns, "idx", is_taken), last_part);
        if index.if_not_exists && is_taken(&name) {
            return;
        }
        self.indexes_made += 1;
        let (number, attached) = (self.indexes_made, BTreeSet::new());
        self.indexes.push(MadeIndex { name, table, index, is_supported, on_only, number, attached, origin });
    }

    /// Drops a table, its partitions, and what refers to it.
    pub fn drop_table(&mut self, key: &str) {
        self.tables.retain(|made| made.key != key);
        self.indexes.retain(|made| made.table != key);
        self.limits.retain(|made| made.table != key);
        self.drop_references(|target, _| target == key);
        let partitions: Vec<String> = self.partitions_of(key).map(str::to_string).collect();
        self.partitions.retain(|(whole, part)| whole != key && part != key);
        partitions.iter().for_each(|part| self.drop_table(part));
    }

    /// Drops references to some columns of some tables.
    fn drop_references(&mut self, goes: impl Fn(&str, &[Ident]) -> bool) {
        for made in &mut self.tables {
            made.constraints.retain(|constraint| match &constraint.kind {
                Kind::Reference { target, referred, .. } => !goes(target, referred),
                _ => true,
            });
        }
    }

    /// Drops all tables of a schema.
    pub fn drop_schema(&mut self, schema: &str) {
        let schema = Some(schema).filter(|schema| *schema != "public");
        let keys: Vec<String> = self.tables.iter().map(|made| made.key.clone()).collect();
        keys.iter().filter(|key| parts(key).0 == schema).for_each(|key| self.drop_table(key));
    }

    /// Drops an index, and those that are attached to it.
    pub fn drop_index(&mut self, name: &ObjectName) {
        let (schema, full) = (key(name), last_part(name));
        let schema = parts(&schema).0;
        let named =
            |made: &&MadeIndex<'_>| made.name == full && (schema.is_none() || parts(&made.table).0 == schema);
        let mut left: Vec<usize> = self.indexes.iter().filter(named).map(|made| made.number).collect();
        while let Some(number) = left.pop() {
            let Some(at) = self.indexes.iter().position(|made| made.number == number) else { continue };
            left.extend(self.indexes.remove(at).attached);
        }
    }

    /// Drops a constraint; `false` if the table has none of this name.
    pub fn drop_constraint(&mut self, table: &str, name: &str) -> bool {
        let Some(made) = self.table_mut(table) else { return false };
        let Some(at) = made.constraints.iter().position(|constraint| constraint.name == name) else {
            return false;
        };
        match made.constraints.remove(at).kind {
            Kind::Primary(_) => {
                self.drop_references(|target, _| target == table);
            }
            Kind::Unique(columns) => {
                let columns = columns_of(&columns);
                self.drop_references(|target, referred| {
                    target == table && referred.iter().map(folded).eq(columns.iter().cloned())
                });
            }
            Kind::Reference { .. } => {}
        }
        true
    }

    /// Drops a column, and the keys, indexes, references and limits that have it; of partitions too.
    pub fn drop_column(&mut self, table: &str, column: &str) {
        let has = |columns: &[IndexColumn]| columns.iter().any(|part| mentions(&part.column.expr, column));
        let is = |ident: &Ident| folded(ident) == column;
        if let Some(made) = self.table_mut(table) {
            made.columns.retain(|existing| !is(&existing.name));
            made.constraints.retain(|constraint| match &constraint.kind {
                Kind::Primary(columns) | Kind::Unique(columns) => !has(columns),
                Kind::Reference { columns, .. } => !columns.iter().any(is),
            });
        }
        self.indexes.retain(|made| {
            let index = &made.index;
            let predicate = index.predicate.as_ref().is_some_and(|predicate| mentions(predicate, column));
            made.table != table || !(has(&index.columns) || index.include.iter().any(is) || predicate)
        });
        self.limits
            .retain(|made| made.table != table || !made.limit.columns.iter().any(|name| name == column));
        // What points at the primary key without naming it points at nothing any more if that is gone.
        let has_key = self.table(table).is_some_and(|made| {
            made.constraints.iter().any(|constraint| matches!(constraint.kind, Kind::Primary(_)))
        });
        self.drop_references(|target, referred| {
            target == table && (referred.iter().any(is) || referred.is_empty() && !has_key)
        });
        self.parts_of(table).iter().for_each(|part| self.drop_column(part, column));
    }

    /// Renames a column, wherever it is named; of partitions too.
    pub fn rename_column(&mut self, table: &str, old: &str, new: &Ident) {
        let rename = |ident: &mut Ident| {
            if folded(ident) == old {
                *ident = new.clone();
            }
        };
        let rename_parts = |columns: &mut [IndexColumn]| {
            for part in columns {
                if let Expr::Identifier(ident) = &mut part.column.expr {
                    rename(ident);
                }
            }
        };
        for made in &mut self.tables {
            let is_own = made.key == table;
            made.columns.iter_mut().filter(|_| is_own).for_each(|column| rename(&mut column.name));
            for constraint in &mut made.constraints {
                match &mut constraint.kind {
                    Kind::Primary(columns) | Kind::Unique(columns) if is_own => rename_parts(columns),
                    Kind::Reference { columns, target, referred, .. } => {
                        columns.iter_mut().filter(|_| is_own).for_each(rename);
                        referred.iter_mut().filter(|_| target == table).for_each(rename);
                    }
                    _ => {}
                }
            }
        }
        for made in self.indexes.iter_mut().filter(|made| made.table == table) {
            let is_expression = |part: &IndexColumn| !matches!(part.column.expr, Expr::Identifier(_));
            // Its text would still have the old name.
            made.is_supported &= !made
                .index
                .columns
                .iter()
                .any(|part| is_expression(part) && mentions(&part.column.expr, old));
            rename_parts(&mut made.index.columns);
            made.index.include.iter_mut().for_each(rename);
        }
        for made in self.limits.iter_mut().filter(|made| made.table == table) {
            made.limit.columns.iter_mut().filter(|name| *name == old).for_each(|name| *name = folded(new));
        }
        self.parts_of(table).iter().for_each(|part| self.rename_column(part, old, new));
    }

    /// Gives a table another name, wherever it is named.
    pub fn rename_table(&mut self, old: &str, to: &str) {
        self.change_key(old, &renamed(old, to));
    }

    /// Puts a table into another schema.
    pub fn set_schema(&mut self, old: &str, schema: &str) {
        let table = parts(old).1;
        let new = if schema == "public" { table.to_string() } else { format!("{schema}.{table}") };
        self.change_key(old, &new);
    }

    /// Gives a table another key.
    fn change_key(&mut self, old: &str, new: &str) {
        let rename = |key: &mut String| {
            if key == old {
                *key = new.to_string();
            }
        };
        for made in &mut self.tables {
            rename(&mut made.key);
            made.whole.iter_mut().chain(&mut made.inherits).for_each(rename);
            for constraint in &mut made.constraints {
                if let Kind::Reference { target, .. } = &mut constraint.kind {
                    rename(target);
                }
            }
        }
        self.indexes.iter_mut().for_each(|made| rename(&mut made.table));
        self.limits.iter_mut().for_each(|made| rename(&mut made.table));
        let partitions = std::mem::take(&mut self.partitions).into_iter().map(|(mut whole, mut part)| {
            rename(&mut whole);
            rename(&mut part);
            (whole, part)
        });
        self.partitions = partitions.collect();
    }

    /// Gives an index, or a key, another name; `false` if there is none of the old one.
    pub fn rename_index(&mut self, old: &str, new: &str) -> bool {
        let indexes = self.indexes.iter_mut().map(|made| &mut made.name);
        let keys = self.tables.iter_mut().flat_map(|made| &mut made.constraints);
        let keys = keys.filter(|key| !matches!(key.kind, Kind::Reference { .. })).map(|key| &mut key.name);
        let mut found = false;
        for name in indexes.chain(keys).filter(|name| *name == old) {
            *name = new.to_string();
            found = true;
        }
        found
    }

    /// Gives a constraint of a table another name; `false` if it has none of the old one.
    pub fn rename_constraint(&mut self, table: &str, old: &str, new: &str) -> bool {
        let constraints = self.table_mut(table).map(|made| &mut made.constraints);
        let mut named = constraints.into_iter().flatten().filter(|constraint| constraint.name == old);
        named.next().is_some_and(|constraint| {
            constraint.name = new.to_string();
            true
        })
    }

    /// From now on a reference holds for all rows; `false` if the table has none of this name.
    pub fn validate(&mut self, table: &str, name: &str) -> bool {
        let constraints = self.table_mut(table).map(|made| &mut made.constraints);
        let mut named = constraints.into_iter().flatten().filter(|constraint| constraint.name == name);
        match named.next().map(|constraint| &mut constraint.kind) {
            Some(Kind::Reference { is_valid, .. }) => {
                *is_valid = true;
                true
            }
            _ => false,
        }
    }

    /// Attaches the index of a partition to that of the whole.
    pub fn attach_index(&mut self, whole: &ObjectName, part: &ObjectName) {
        let (whole, part) = (last_part(whole), last_part(part));
        let number = self.indexes.iter().find(|made| made.name == part).map(|made| made.number);
        let whole = self.indexes.iter_mut().find(|made| made.name == whole);
        whole.into_iter().for_each(|made| made.attached.extend(number));
    }

    /// A partition is a table of its own from now on, with the columns that it has.
    pub fn detach(&mut self, whole: &str, part: &str) {
        let columns = self.columns(part);
        self.partitions.remove(&(whole.to_string(), part.to_string()));
        if let Some(made) = self.table_mut(part).filter(|made| made.whole.as_deref() == Some(whole)) {
            (made.columns, made.whole) = (columns, None);
        }
    }

    /// The partitions of a table.
    pub fn partitions_of(&self, table: &str) -> impl Iterator<Item = &str> {
        self.partitions.iter().filter(move |(whole, _)| whole == table).map(|(_, part)| part.as_str())
    }

    /// Tables that have the columns of another: its partitions, and those that inherit from it.
    fn parts_of(&self, table: &str) -> Vec<String> {
        let heirs = self.tables.iter().filter(|made| made.inherits.iter().any(|from| from == table));
        let heirs = heirs.map(|made| made.key.as_str());
        self.partitions_of(table).chain(heirs).filter(|part| *part != table).map(str::to_string).collect()
    }

    /// Whether other tables inherit from it: then its keys and indexes are those of its own rows alone.
    pub fn has_heirs(&self, table: &str) -> bool {
        self.tables.iter().any(|made| made.inherits.iter().any(|from| from == table))
    }

    /// All columns of a table.
    pub fn columns(&self, table: &str) -> Vec<ColumnDef> {
        let Some(made) = self.table(table) else { return vec![] };
        let from = made.inherits.iter().chain(&made.whole).filter(|from| *from != table);
        let mut columns: Vec<ColumnDef> = Vec::new();
        for column in from.flat_map(|from| self.columns(from)).chain(made.columns.clone()) {
            match columns.iter_mut().find(|existing| folded(&existing.name) == folded(&column.name)) {
                Some(existing) => existing.options.extend(column.options),
                None => columns.push(column),
            }
        }
        columns
    }

    /// All constraints that hold for the rows of a table.
    pub fn constraints(&self, table: &str) -> Vec<Constraint<'s>> {
        let Some(made) = self.table(table).filter(|_| !self.has_heirs(table)) else { return vec![] };
        let whole = made.whole.iter().filter(|whole| *whole != table);
        whole.flat_map(|whole| self.constraints(whole)).chain(made.constraints.iter().cloned()).collect()
    }

    /// Whether an index finds the rows of all partitions.
    pub fn is_whole(&self, index: &MadeIndex<'_>) -> bool {
        let is_attached = |part: &str| {
            let attached = self.indexes.iter().filter(|made| index.attached.contains(&made.number));
            attached.into_iter().any(|made| made.table == part && made.is_supported && self.is_whole(made))
        };
        !index.on_only || self.partitions_of(&index.table).all(is_attached)
    }
}

/// Whether an expression names a column, or may.
fn mentions(expr: &Expr, column: &str) -> bool {
    match expr {
        Expr::Identifier(ident) => folded(ident) == column,
        other => {
            let text = other.to_string().to_lowercase();
            text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == column.to_lowercase())
        }
    }
}
