//! The columns of a chain's rows after each step, and the types of expressions over them.

use super::physical::coerced;
use crate::datum::Type;
use crate::plan::{Chain, Fetch, Keep, Source, Step};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, TableReference};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable};
use std::sync::Arc;

/// The qualified columns of a chain's rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns(pub Vec<(Option<TableReference>, Field)>);

impl Columns {
    /// The columns of a source.
    pub fn of_source(source: &Source) -> Columns {
        match source {
            Source::Call => Columns::default(),
            Source::Lists(lists) => {
                let columns = lists.iter().map(|list| {
                    (
                        Some(TableReference::bare(list.alias.as_str())),
                        Field::new("value", list.of.clone(), false),
                    )
                });
                Columns(columns.collect())
            }
            Source::Values { fields, .. } | Source::Union { fields, .. } => {
                Columns(fields.iter().map(|field| (None, field.clone())).collect())
            }
        }
    }

    /// The columns at the end of a chain.
    ///
    /// # Errors
    /// `Plan` if an expression has no type.
    pub fn of(chain: &Chain) -> datafusion::common::Result<Columns> {
        let mut columns = Columns::of_source(&chain.source);
        for step in &chain.steps {
            columns.apply(step)?;
        }
        Ok(columns)
    }

    /// Applies a step.
    ///
    /// # Errors
    /// `Plan` if an expression has no type.
    pub fn apply(&mut self, step: &Step) -> datafusion::common::Result<()> {
        match step {
            Step::Fetch(fetch) => match &fetch.keep {
                Keep::All | Keep::First => *self = self.with_found(fetch),
                Keep::Fold(folds) => {
                    let schema = self.with_found(fetch).schema()?;
                    let alias = Some(TableReference::bare(fetch.alias.as_str()));
                    for (expr, name) in folds {
                        self.0.push(named(expr, name, &schema, &alias)?);
                    }
                }
            },
            Step::Project { columns, qualifier } => {
                let schema = self.schema()?;
                let qualifier = qualifier.as_ref().map(|alias| TableReference::bare(alias.as_str()));
                let fields = columns.iter().map(|(expr, name)| named(expr, name, &schema, &qualifier));
                let mut fields = fields.collect::<datafusion::common::Result<Vec<_>>>()?;
                // A projection keeps the columns of a cursor.
                let kept =
                    self.0.drain(..).filter(|(_, field)| field.name() == POSITION || field.name() == PREFIX);
                fields.extend(kept);
                self.0 = fields;
            }
            Step::Aggregate { group, aggregates, names, qualifier } => {
                let schema = self.schema()?;
                let qualifier = Some(TableReference::bare(qualifier.as_str()));
                let fields = group.iter().chain(aggregates).zip(names);
                let fields = fields.map(|(expr, name)| named(expr, name, &schema, &qualifier));
                self.0 = fields.collect::<datafusion::common::Result<_>>()?;
            }
            Step::Page { .. } => self.0.push((None, Field::new(POSITION, DataType::Binary, true))),
            Step::Filter(_) | Step::Sort(_) | Step::Stop(_) | Step::Distinct | Step::Merge { .. } => {}
        }
        Ok(())
    }

    /// The columns at these positions.
    pub fn select(&self, places: &[usize]) -> Columns {
        Columns(places.iter().map(|at| self.0[*at].clone()).collect())
    }

    /// The columns, followed by those that a fetch adds.
    pub fn with_found(&self, fetch: &Fetch) -> Columns {
        let mut columns = self.clone();
        let alias = Some(TableReference::bare(fetch.alias.as_str()));
        for at in &fetch.columns {
            let column = &fetch.table.columns[*at];
            let field = Field::new(&column.name, column.of.arrow(), column.is_nullable() || fetch.outer);
            columns.0.push((alias.clone(), field));
        }
        if fetch.resumable {
            columns.0.push((None, Field::new(POSITION, DataType::Binary, true)));
            columns.0.push((None, Field::new(PREFIX, DataType::Binary, true)));
        }
        columns
    }

    /// DataFusion's schema of the columns.
    ///
    /// # Errors
    /// `Schema` if two columns have the same name.
    pub fn schema(&self) -> datafusion::common::Result<DFSchema> {
        let fields = self.0.iter().map(|(qualifier, field)| (qualifier.clone(), Arc::new(field.clone())));
        DFSchema::new_with_metadata(fields.collect(), Default::default())
    }
}

/// The column of a row's position within its range, for cursors.
pub(crate) const POSITION: &str = "#position";
/// The column of the range that a row was found in.
pub(crate) const PREFIX: &str = "#prefix";

/// The field of an expression, with the type that it has when it runs.
fn named(
    expr: &Expr,
    name: &str,
    schema: &DFSchema,
    qualifier: &Option<TableReference>,
) -> datafusion::common::Result<(Option<TableReference>, Field)> {
    // Casts decide about the scale of a decimal, so the coerced expression is used.
    let field = match coerced(expr.clone(), schema) {
        Ok(coerced) => coerced.to_field(schema)?.1,
        Err(_) => expr.to_field(schema)?.1,
    };
    Ok((qualifier.clone(), Field::new(name, field.data_type().clone(), field.is_nullable())))
}

/// The type of a column of a derived relation.
pub(crate) fn column_type(chain: &Chain, name: &str) -> Option<DataType> {
    let columns = Columns::of(chain).ok()?;
    columns.0.iter().find(|(_, field)| field.name() == name).map(|(_, field)| field.data_type().clone())
}

/// A constant expression with its type. A parameter without a type is a text.
pub(crate) fn typed_constant(expr: &Expr) -> Option<(Expr, DataType)> {
    let typed = expr.clone().transform_down(|expr| {
        Ok(match &expr {
            // `?::int` takes a number.
            Expr::Cast(cast) => match (untyped(&cast.expr), Type::holding(cast.field.data_type())) {
                (Some(id), Some(of)) => {
                    let expr = Box::new(placeholder(id, &of.arrow()));
                    Transformed::yes(Expr::Cast(Cast { expr, field: cast.field.clone() }))
                }
                _ => Transformed::no(expr),
            },
            other => match untyped(other) {
                Some(id) => Transformed::yes(placeholder(id, &DataType::Utf8)),
                None => Transformed::no(expr),
            },
        })
    });
    let typed = typed.ok()?.data;
    let of = coerced(typed.clone(), &DFSchema::empty()).ok()?.get_type(&DFSchema::empty()).ok()?;
    Some((typed, of))
}

/// The number of a parameter without a type.
fn untyped(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Placeholder(Placeholder { id, field })
            if field.as_ref().is_none_or(|field| *field.data_type() == DataType::Null) =>
        {
            Some(id)
        }
        _ => None,
    }
}

/// A parameter with its type.
pub(crate) fn placeholder(id: &str, of: &DataType) -> Expr {
    let field = Arc::new(Field::new("", of.clone(), true));
    Expr::Placeholder(Placeholder::new_with_field(id.to_string(), Some(field)))
}
