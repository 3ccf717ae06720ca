//! What a match remembers of its rows: navigation and aggregates, as fields of the pattern's register.
//!
//! Each field has an update, which the rows of some variables make. So a value is there twice: as the
//! register has it, for rows before the current one, and with the update of the current row put in its
//! place.
//!
//! Invariant: equal terms have one field.

use super::variables::{RowSet, Variables};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result, ScalarValue, TableReference};
use datafusion::functions_nested::expr_fn::array_append;
use datafusion::logical_expr::{Expr, cast, lit, when};
use std::sync::Arc;
use whimbrel_plan::REGISTER;

/// A value that depends on the rows of a match so far. Expressions are over the columns of a row and of
/// earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Term {
    /// The value of the last row, or of the one so many rows before.
    Last { rows: RowSet, value: Expr, data_type: DataType, back: usize },
    /// The value of the first row, or of the one so many rows after.
    First { rows: RowSet, value: Expr, data_type: DataType, skip: usize },
    /// How many rows there are, or how many with a value.
    Count { rows: RowSet, value: Option<Expr> },
    /// The sum of the values.
    Sum { rows: RowSet, value: Expr, data_type: DataType },
    /// The least value, or the greatest.
    Extreme { rows: RowSet, value: Expr, data_type: DataType, is_least: bool },
    /// All values.
    List { rows: RowSet, value: Expr, data_type: DataType },
    /// The variable of the last row.
    Classifier { rows: RowSet },
}

/// What a row does to a field.
#[derive(Debug, Clone)]
enum Update {
    /// The new value.
    Value(Expr),
    /// The field becomes the name of the row's variable.
    Variable,
}

/// What a row does to a field, given the field.
type OfField = Box<dyn FnOnce(Expr) -> Result<Update>>;

/// A field of the register.
#[derive(Debug, Clone)]
struct RegisterField {
    initial: ScalarValue,
    rows: RowSet,
    update: Update,
}

/// The fields of a register.
#[derive(Debug, Default)]
pub(super) struct Register {
    fields: Vec<RegisterField>,
    /// The terms, and their fields.
    terms: Vec<(Term, usize)>,
}

impl Register {
    /// The value of a term, as the register has it.
    ///
    /// # Errors
    /// `Plan` if there is no value of its type.
    pub fn value(&mut self, term: Term) -> Result<Expr> {
        if let Some((_, field)) = self.terms.iter().find(|(known, _)| *known == term) {
            return Ok(of_register(*field));
        }
        let (initial, rows, update) = self.update_of(&term)?;
        let field = self.fields.len();
        let update = update(of_register(field))?;
        self.fields.push(RegisterField { initial, rows, update });
        self.terms.push((term, field));
        Ok(of_register(field))
    }

    /// The first value of a term, the rows that change it, and how, given its own field.
    fn update_of(&mut self, term: &Term) -> Result<(ScalarValue, RowSet, OfField)> {
        let value = |update: Expr| -> OfField { Box::new(|_| Ok(Update::Value(update))) };
        Ok(match term.clone() {
            Term::Last { rows, value: last, data_type, back: 0 } => {
                (ScalarValue::try_from(&data_type)?, rows, value(last))
            }
            Term::Last { rows, value: last, data_type, back } => {
                let initial = ScalarValue::try_from(&data_type)?;
                let later = Term::Last { rows: rows.clone(), value: last, data_type, back: back - 1 };
                (initial, rows, value(self.value(later)?))
            }
            Term::First { rows, value: first, data_type, skip } => {
                let before = self.value(Term::Count { rows: rows.clone(), value: None })?;
                let update = move |field| {
                    let is_it = before.eq(lit(skip as i64));
                    Ok(Update::Value(when(is_it, first).otherwise(field)?))
                };
                (ScalarValue::try_from(&data_type)?, rows, Box::new(update))
            }
            Term::Count { rows, value } => {
                let update = |field: Expr| {
                    let one = match value {
                        Some(value) => when(value.is_not_null(), lit(1_i64)).otherwise(lit(0_i64))?,
                        None => lit(1_i64),
                    };
                    Ok(Update::Value(field + one))
                };
                (ScalarValue::from(0_i64), rows, Box::new(update))
            }
            Term::Sum { rows, value, data_type } => {
                let initial = ScalarValue::try_from(&data_type)?;
                let update = |sum: Expr| {
                    let next = cast(value.clone(), data_type);
                    let sum = when(value.is_null(), sum.clone())
                        .when(sum.clone().is_null(), next.clone())
                        .otherwise(sum + next)?;
                    Ok(Update::Value(sum))
                };
                (initial, rows, Box::new(update))
            }
            Term::Extreme { rows, value, data_type, is_least } => {
                let update = move |extreme: Expr| {
                    let is_better = match is_least {
                        true => value.clone().lt(extreme.clone()),
                        false => value.clone().gt(extreme.clone()),
                    };
                    let is_better = extreme.clone().is_null().or(is_better);
                    Ok(Update::Value(when(is_better, value).otherwise(extreme)?))
                };
                (ScalarValue::try_from(&data_type)?, rows, Box::new(update))
            }
            Term::List { rows, value, data_type } => {
                let list = DataType::List(Arc::new(Field::new_list_field(data_type, true)));
                let update = |field| Ok(Update::Value(array_append(field, value)));
                (ScalarValue::try_from(&list)?, rows, Box::new(update))
            }
            Term::Classifier { rows } => (ScalarValue::Utf8(None), rows, Box::new(|_| Ok(Update::Variable))),
        })
    }

    /// A value over the register, as it is when the current row, of a variable, is one of the match.
    ///
    /// # Errors
    /// If it cannot be rewritten.
    pub fn with_current_row(&self, value: Expr, variable: usize, variables: &Variables) -> Result<Expr> {
        let value = value.transform_up(|expr| {
            let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
            let field = (0..self.fields.len()).find(|field| *column == register_column(*field));
            match field.and_then(|field| self.update(field, variable, variables)) {
                Some(update) => Ok(Transformed::yes(update)),
                None => Ok(Transformed::no(expr)),
            }
        });
        Ok(value?.data)
    }

    /// The updates that a row of a variable makes.
    pub fn updates(&self, variable: usize, variables: &Variables) -> Vec<(usize, Expr)> {
        let fields = 0..self.fields.len();
        fields.filter_map(|field| Some((field, self.update(field, variable, variables)?))).collect()
    }

    fn update(&self, field: usize, variable: usize, variables: &Variables) -> Option<Expr> {
        let RegisterField { rows, update, .. } = &self.fields[field];
        rows.contains(variable).then(|| match update {
            Update::Value(value) => value.clone(),
            Update::Variable => lit(variables.spelling(variable)),
        })
    }

    /// The names of the fields, and their first values.
    pub fn fields(&self) -> Vec<(String, ScalarValue)> {
        let field = |(number, field): (usize, &RegisterField)| (field_name(number), field.initial.clone());
        self.fields.iter().enumerate().map(field).collect()
    }
}

/// The name of a field.
pub(super) fn field_name(number: usize) -> String {
    format!("__r{number}")
}

fn register_column(number: usize) -> Column {
    Column::new(Some(TableReference::bare(REGISTER)), field_name(number))
}

/// A field of the register.
pub(super) fn of_register(number: usize) -> Expr {
    Expr::Column(register_column(number))
}
