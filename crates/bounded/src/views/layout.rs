//! The table of a view: the columns of its query, then the hidden ones.

use super::shape::{Aggregate, Function, Output, Relation, Slot, stored_type};
use crate::datum::Type;
use crate::error::{Error, Result};
use crate::expression::coerced;
use crate::schema::{Column, ForeignKey, Index, IndexKind, IndexState, KeyPart, Table, View};
use datafusion::common::{DFSchema, TableReference};
use datafusion::logical_expr::{Expr, ExprSchemable};

/// The columns of a view, under construction.
pub(super) struct Layout<'a> {
    relations: &'a [Relation],
    input: &'a DFSchema,
    group: &'a [Expr],
    aggregates: &'a [Aggregate],
    /// The columns so far.
    columns: Vec<Column>,
    /// The content of each of them.
    slots: Vec<Slot>,
}

impl<'a> Layout<'a> {
    /// The layout for these outputs.
    ///
    /// # Errors
    /// `Invalid` if a column has no name of its own, or no type that can be stored.
    pub fn of(
        relations: &'a [Relation],
        input: &'a DFSchema,
        group: &'a [Expr],
        aggregates: &'a [Aggregate],
        outputs: Vec<Output>,
    ) -> Result<Layout<'a>> {
        let mut layout = Layout { relations, input, group, aggregates, columns: vec![], slots: vec![] };
        for (slot, name) in outputs {
            if !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
                return Err(Error::invalid(format!(
                    "{name} is a column of the view: give it a name, {name} as n"
                )));
            }
            layout.add(slot, name)?;
        }
        layout.add_hidden()?;
        Ok(layout)
    }

    /// Adds a column for a slot.
    fn add(&mut self, slot: Slot, name: String) -> Result<()> {
        if self.columns.iter().any(|existing| existing.name == name) {
            return Err(Error::invalid(format!(
                "two columns of the view are called {name:?}: write … as another name"
            )));
        }
        let (of, nullable) = self.type_of(slot)?;
        self.columns.push(Column { name, of, nullability: nullable.into() });
        self.slots.push(slot);
        Ok(())
    }

    /// Adds the hidden columns.
    fn add_hidden(&mut self) -> Result<()> {
        for at in 0..self.group.len() {
            if !self.slots.contains(&Slot::Group(at)) {
                self.add(Slot::Group(at), format!("#group{at}"))?;
            }
        }
        for (at, aggregate) in self.aggregates.iter().enumerate() {
            if matches!(aggregate.function, Function::Sum | Function::Average) {
                self.add(Slot::Count(at), format!("#count{at}"))?;
            }
            if aggregate.function == Function::Average {
                self.add(Slot::Sum(at), format!("#sum{at}"))?;
            }
        }
        self.add(Slot::Rows, "#rows".to_string())
    }

    /// The table, and the content of its columns.
    pub fn table(self, name: &str, sql: &str) -> (Table, Vec<Slot>) {
        let key = (0..self.group.len()).filter_map(|at| self.place(at));
        let key =
            Index::new(format!("{name}_key"), IndexKind::Primary, key.map(KeyPart::ascending).collect());
        let mut tables: Vec<String> =
            self.relations.iter().map(|relation| relation.table.name.clone()).collect();
        tables.sort();
        tables.dedup();
        let references = self.references();
        let table = Table {
            name: name.to_string(),
            columns: self.columns,
            indexes: vec![key],
            foreign_keys: vec![],
            limits: vec![],
            view: Some(View { sql: sql.to_string(), tables, references, state: IndexState::Building }),
        };
        (table, self.slots)
    }

    /// The column of a group.
    fn place(&self, group: usize) -> Option<usize> {
        self.slots.iter().position(|slot| *slot == Slot::Group(group))
    }

    /// The references of the view. A group with the whole key of a relation, or of a row that the relation
    /// refers to, refers to an existing row.
    fn references(&self) -> Vec<ForeignKey> {
        let place = |relation: &Relation, at: usize| {
            let name = &relation.table.columns[at].name;
            let column = Expr::Column(datafusion::common::Column::new(
                Some(TableReference::bare(relation.alias.as_str())),
                name,
            ));
            self.place(self.group.iter().position(|expr| *expr == column)?)
        };
        let mut found: Vec<ForeignKey> = Vec::new();
        for relation in self.relations {
            let table = &relation.table;
            let itself = ForeignKey { columns: table.key_columns(), table: table.name.clone() };
            for key in table.foreign_keys.iter().chain([&itself]) {
                let columns: Option<Vec<usize>> = key.columns.iter().map(|at| place(relation, *at)).collect();
                let key = columns.map(|columns| ForeignKey { columns, table: key.table.clone() });
                found.extend(key.filter(|key| !found.contains(key)));
            }
        }
        found
    }

    /// The type of a column, and whether it can be null.
    fn type_of(&self, slot: Slot) -> Result<(Type, bool)> {
        Ok(match slot {
            Slot::Rows | Slot::Count(_) => (Type::Int64, false),
            Slot::Sum(at) => (sum_type(self.aggregates[at].of), false),
            Slot::Value(at) => (value_type(&self.aggregates[at])?, true),
            Slot::Group(at) => {
                let expr = &self.group[at];
                let of = match self.column_of_table(expr) {
                    Some(column) => column.of,
                    None => stored_type(&coerced(expr.clone(), self.input)?.get_type(self.input)?, expr)?,
                };
                (of, expr.nullable(self.input)?)
            }
        })
    }

    /// The table column that an expression is. Its type has a length.
    fn column_of_table(&self, expr: &Expr) -> Option<&Column> {
        let Expr::Column(column) = expr else { return None };
        let alias = column.relation.as_ref()?.table();
        let relation = self.relations.iter().find(|relation| relation.alias == alias)?;
        Some(&relation.table.columns[relation.table.column(&column.name).ok()?])
    }
}

/// The type of an aggregate's result.
fn value_type(aggregate: &Aggregate) -> Result<Type> {
    Ok(match aggregate.function {
        Function::Rows | Function::Count => Type::Int64,
        Function::Sum => match aggregate.of {
            Type::Decimal(precision, scale) => Type::Decimal((precision + 10).min(38), scale),
            of => sum_type(of),
        },
        Function::Average => match aggregate.of {
            Type::Decimal(precision, scale) => Type::Decimal((precision + 4).min(38), (scale + 4).min(38)),
            Type::Int16 | Type::Int32 | Type::Int64 => Type::Float64,
            of => return Err(Error::invalid(format!("there is no average of {of}"))),
        },
        Function::Min | Function::Max => aggregate.of,
    })
}

/// The type of the hidden sum of an aggregate.
fn sum_type(of: Type) -> Type {
    match of {
        Type::Decimal(_, scale) => Type::Decimal(38, scale),
        _ => Type::Int64,
    }
}
