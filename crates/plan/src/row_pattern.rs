//! Row patterns: what SQL's `match_recognize` looks for (ISO/IEC 9075-2:2016, *row pattern recognition*).
//!
//! The expressions of a row pattern see the columns of a row with the qualifier [`EVENT`], those of earlier
//! rows of the same key with [`PREVIOUS`], and the register's with [`REGISTER`]. A match has the columns of
//! its key, those of the register, and its number if it is asked for.

use crate::names::index_of;
use crate::pattern::{EVENT, Pattern, REGISTER};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, Result, ScalarValue, TableReference};
use datafusion::logical_expr::Expr;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use whimbrel_temporal::operators::AfterMatch;

/// The qualifier of columns of earlier rows in a row pattern.
pub const PREVIOUS: &str = "previous";

/// A row pattern, and how it is looked for. `E` is how expressions are held, `V` how values are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub struct RowPattern<E = Expr, V = ScalarValue> {
    /// What matches; it consumes rows one by one.
    pub pattern: Pattern<E>,
    /// The columns of earlier rows that expressions read: their names, and how many rows earlier.
    pub previous: Vec<(String, usize)>,
    /// The register: names, and the values before the first row.
    pub register: Vec<(String, V)>,
    /// A match has only rows that start less than so many ticks after its first.
    pub within: Option<i64>,
    /// Where the next match may begin.
    pub after_match: AfterMatch,
    /// The name of the column with the number of the match.
    pub match_number: Option<String>,
}

impl<E, V: Clone> RowPattern<E, V> {
    /// The same pattern with other expressions.
    ///
    /// # Errors
    /// The first error of `map`.
    pub fn try_map<F>(&self, mut map: impl FnMut(&E) -> Result<F>) -> Result<RowPattern<F, V>> {
        Ok(RowPattern {
            pattern: self.pattern.try_map(&mut |expr, _| map(expr))?,
            previous: self.previous.clone(),
            register: self.register.clone(),
            within: self.within,
            after_match: self.after_match,
            match_number: self.match_number.clone(),
        })
    }

    /// The same pattern with its values in another form.
    ///
    /// # Errors
    /// The first error of `map`.
    pub fn try_map_values<W>(self, mut map: impl FnMut(&V) -> Result<W>) -> Result<RowPattern<E, W>> {
        let register = self.register.iter().map(|(name, initial)| Ok((name.clone(), map(initial)?)));
        Ok(RowPattern {
            register: register.collect::<Result<_>>()?,
            pattern: self.pattern,
            previous: self.previous,
            within: self.within,
            after_match: self.after_match,
            match_number: self.match_number,
        })
    }
}

impl RowPattern {
    /// The columns of rows that it reads, by name.
    pub fn columns_read(&self) -> BTreeSet<String> {
        let mut read = self.pattern.columns_read();
        read.extend(self.previous.iter().map(|(name, _)| name.clone()));
        read
    }

    /// The columns that its expressions see, over rows with these.
    ///
    /// # Errors
    /// `Plan` if a column of an earlier row does not exist, or two columns have one name.
    pub fn schema(&self, rows: &DFSchema) -> Result<DFSchema> {
        let qualified = |qualifier: &str, field| (Some(TableReference::bare(qualifier)), field);
        let own = rows.fields().iter().map(|field| qualified(EVENT, Arc::clone(field)));
        let mut columns: Vec<(Option<TableReference>, FieldRef)> = own.collect();
        for ((name, earlier), (place, _)) in self.previous.iter().zip(self.previous_places(rows)?) {
            let data_type = rows.field(place).data_type().clone();
            let field = Field::new(previous_column(name, *earlier), data_type, true);
            columns.push(qualified(PREVIOUS, Arc::new(field)));
        }
        let register = self.register_fields().into_iter().map(|field| qualified(REGISTER, field));
        columns.extend(register);
        DFSchema::new_with_metadata(columns, Default::default())
    }

    /// The columns of earlier rows that it reads: their places, and how many rows earlier.
    ///
    /// # Errors
    /// `Plan` if there is no such column.
    pub fn previous_places(&self, rows: &DFSchema) -> Result<Vec<(usize, usize)>> {
        self.previous.iter().map(|(name, earlier)| Ok((index_of(rows, name)?, *earlier))).collect()
    }

    /// The columns of matches behind those of their key.
    pub fn match_fields(&self) -> Vec<FieldRef> {
        let number = |name: &String| Arc::new(Field::new(name, DataType::Int64, false));
        self.register_fields().into_iter().chain(self.match_number.as_ref().map(number)).collect()
    }

    fn register_fields(&self) -> Vec<FieldRef> {
        let field =
            |(name, value): &(String, ScalarValue)| Arc::new(Field::new(name, value.data_type(), true));
        self.register.iter().map(field).collect()
    }
}

/// The name of a column so many rows earlier.
pub fn previous_column(name: &str, earlier: usize) -> String {
    format!("{earlier} {name}")
}
