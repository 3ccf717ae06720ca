//! Tables and their columns.

use super::index::{Index, IndexKind, IndexState, KeyPart, Part};
use super::limits::{CardinalityLimit, ForeignKey};
use super::view::View;
use crate::datum::Type;
use crate::error::{Error, Result};
use crate::syntax;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

/// A column. One whose name begins with `#` is hidden: it is stored with the row, and queries do not see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub of: Type,
    /// Whether it may be null.
    pub nullability: Nullability,
}

/// Whether a column may be null. A store keeps it as one byte, by the order of these variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Nullability {
    /// No row has a null.
    NotNull,
    /// Rows may have nulls.
    Nullable,
    /// `set not null` has begun: writes refuse nulls, and older rows are being checked for them.
    Checking,
}

impl From<bool> for Nullability {
    fn from(nullable: bool) -> Nullability {
        if nullable { Nullability::Nullable } else { Nullability::NotNull }
    }
}

impl Column {
    /// Whether a row that is read may have a null here.
    pub fn is_nullable(&self) -> bool {
        self.nullability != Nullability::NotNull
    }

    /// Whether a row that is written may have a null here.
    pub(crate) fn accepts_nulls(&self) -> bool {
        self.nullability == Nullability::Nullable
    }

    /// Whether queries do not see it.
    pub(crate) fn is_hidden(&self) -> bool {
        self.name.starts_with('#')
    }
}

/// A table. Its hidden columns come last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// Its indexes; the first is the primary key, which holds the records themselves.
    pub indexes: Vec<Index>,
    /// Its references.
    pub foreign_keys: Vec<ForeignKey>,
    /// Its cardinality limits.
    pub limits: Vec<CardinalityLimit>,
    /// The definition, if it is a view.
    pub view: Option<View>,
}

impl Table {
    /// The primary key.
    pub fn primary(&self) -> &Index {
        &self.indexes[0]
    }

    /// The columns of the primary key, in its order.
    pub fn key_columns(&self) -> Vec<usize> {
        self.primary().columns()
    }

    /// The position of a column.
    ///
    /// # Errors
    /// `Invalid` if there is none of this name.
    pub fn column(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|column| column.name == name).ok_or_else(|| {
            let existing: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
            Error::from(whimbrel_plan::names::unknown_column(name, &existing))
        })
    }

    /// The names of some columns, as they are written: `owner, target`.
    pub fn column_names(&self, columns: &[usize]) -> String {
        let names: Vec<Cow<'_, str>> =
            columns.iter().map(|at| syntax::quote_name(&self.columns[*at].name)).collect();
        names.join(", ")
    }

    /// The Arrow schema of its rows.
    pub fn arrow_schema(&self) -> SchemaRef {
        let fields = self.columns.iter().map(|c| Field::new(&c.name, c.of.arrow(), c.is_nullable()));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Its references, declared or inherited by a view.
    pub(crate) fn references(&self) -> impl Iterator<Item = &ForeignKey> {
        self.foreign_keys.iter().chain(self.view.iter().flat_map(|view| &view.references))
    }

    /// Refuses a view that is still being filled.
    pub(crate) fn check_filled(&self) -> Result<()> {
        match &self.view {
            Some(view) if view.state == IndexState::Building => Err(Error::invalid(format!(
                "the view {} is still being filled; if nobody does, create materialized view {} as … goes on",
                self.name, self.name
            ))),
            _ => Ok(()),
        }
    }

    /// The columns that are not hidden.
    pub(crate) fn visible(&self) -> &[Column] {
        let hidden = self.columns.iter().position(Column::is_hidden);
        &self.columns[..hidden.unwrap_or(self.columns.len())]
    }

    /// The Arrow schema of the columns that are not hidden.
    pub(crate) fn visible_schema(&self) -> SchemaRef {
        let fields = self.visible().iter().map(|c| Field::new(&c.name, c.of.arrow(), c.is_nullable()));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// The parts that order the entries of an index completely: its own, then the rest of the primary key.
    pub fn entry_parts(&self, index: &Index) -> Vec<KeyPart> {
        let mut parts = index.parts.clone();
        if index.kind == IndexKind::Ordinary {
            for part in &self.primary().parts {
                if !parts.iter().any(|existing| existing.part == part.part) {
                    parts.push(part.clone());
                }
            }
        }
        parts
    }

    /// The most rows that can have the same values in these columns, if a unique key or a limit says so.
    pub(crate) fn max_rows_with(&self, columns: &[usize]) -> Option<u64> {
        let unique = self.indexes.iter();
        let unique =
            unique.filter(|index| index.kind != IndexKind::Ordinary && index.state == IndexState::Ready);
        let one = unique.filter(|index| index.columns().iter().all(|c| columns.contains(c))).map(|_| 1);
        let limits = self.limits.iter().filter(|limit| limit.state == IndexState::Ready);
        let limits = limits.filter(|limit| limit.columns.iter().all(|c| columns.contains(c)));
        one.chain(limits.map(|limit| limit.rows)).min()
    }

    /// A built index whose first parts are these columns.
    pub(crate) fn index_on(&self, columns: &[usize]) -> Option<&Index> {
        self.indexes_on(columns).find(|index| index.state == IndexState::Ready)
    }

    /// The index that counts the rows of a limit. It may still be being built, together with the limit.
    pub(crate) fn counting_index(&self, columns: &[usize]) -> Option<&Index> {
        self.index_on(columns).or_else(|| self.indexes_on(columns).next())
    }

    /// Indexes whose first parts are these columns.
    fn indexes_on(&self, columns: &[usize]) -> impl Iterator<Item = &Index> {
        self.indexes.iter().filter(move |index| {
            let first: Option<Vec<usize>> =
                index.parts.iter().take(columns.len()).map(KeyPart::column).collect();
            first.is_some_and(|first| {
                first.len() == columns.len() && columns.iter().all(|column| first.contains(column))
            })
        })
    }

    /// Marks everything that was being built as ready.
    pub(crate) fn make_ready(&mut self) {
        self.indexes.iter_mut().for_each(|index| index.state = IndexState::Ready);
        self.limits.iter_mut().for_each(|limit| limit.state = IndexState::Ready);
        self.end_null_checks(Nullability::NotNull);
    }

    /// What was being built is gone, and columns that were being checked for nulls may have them again.
    pub(crate) fn drop_unready(&mut self) {
        self.indexes.retain(|index| index.state == IndexState::Ready);
        self.limits.retain(|limit| limit.state == IndexState::Ready);
        self.end_null_checks(Nullability::Nullable);
    }

    /// Ends the checks of all columns that are being checked for nulls.
    fn end_null_checks(&mut self, nullability: Nullability) {
        let checking = |column: &&mut Column| column.nullability == Nullability::Checking;
        self.columns.iter_mut().filter(checking).for_each(|column| column.nullability = nullability);
    }

    /// Whether an index or a limit is being built, or a column checked for nulls.
    pub(crate) fn is_building(&self) -> bool {
        self.indexes.iter().any(|index| index.state == IndexState::Building)
            || self.limits.iter().any(|limit| limit.state == IndexState::Building)
            || self.columns.iter().any(|column| column.nullability == Nullability::Checking)
    }

    /// The most bytes of a record with its key; or the first column without a length.
    pub(crate) fn record_bytes(&self) -> std::result::Result<u64, String> {
        let mut total = 16 + self.columns.len() as u64;
        for column in &self.columns {
            total += column.of.max_bytes().ok_or_else(|| format!("{}.{}", self.name, column.name))?;
        }
        Ok(total + self.parts_bytes(&self.primary().parts)?)
    }

    /// The same for an entry of an index.
    pub(crate) fn entry_bytes(&self, index: &Index) -> std::result::Result<u64, String> {
        Ok(12 + self.parts_bytes(&self.entry_parts(index))? + self.parts_bytes(&self.primary().parts)?)
    }

    /// The greatest length of the parts of a key.
    fn parts_bytes(&self, parts: &[KeyPart]) -> std::result::Result<u64, String> {
        let mut total = 4;
        for part in parts {
            total += match &part.part {
                // The longest word, its letters of at most four bytes.
                Part::Words(_) => 4 * crate::functions::LONGEST as u64 + 3,
                Part::Column(at) => {
                    let column = &self.columns[*at];
                    // A zero byte is written as two.
                    2 * column.of.max_bytes().ok_or_else(|| format!("{}.{}", self.name, column.name))? + 3
                }
            };
        }
        Ok(total)
    }
}

impl Index {
    /// The index as `create index` writes it: `item(token(i_title), i_pub_date desc)`.
    pub fn describe(&self, table: &Table) -> String {
        let mut out = format!("{}(", syntax::quote_name(&table.name));
        for (at, part) in self.parts.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            let what = match &part.part {
                Part::Column(column) => table.column_names(&[*column]),
                Part::Words(columns) => format!("token({})", table.column_names(columns)),
            };
            let direction = if part.order.descending { " desc" } else { "" };
            // Writing into a string does not fail.
            let _ = write!(out, "{separator}{what}{direction}");
        }
        out + ")"
    }
}
