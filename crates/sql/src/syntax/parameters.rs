//! Values of the parameters of a statement: `$1` and `?` by position, `$name` and `:name` by name.
//!
//! Invariants: each parameter gets a value; each `?` takes the next one, over all statements of a script;
//! values without a parameter are refused at the end.

use crate::syntax::walk::walk_mut;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::{Result, ScalarValue, not_impl_err, plan_datafusion_err, plan_err};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Statement as Sql, Value, ValueWithSpan, VisitorMut};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Values for the parameters of the statements of a script.
///
/// ```
/// # use datafusion::common::ScalarValue;
/// use whimbrel_sql::Parameters;
///
/// let parameters = Parameters::new(&[ScalarValue::from(7_i64)], &[])?;
/// // No statement has read it.
/// assert!(parameters.all_read().is_err());
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    /// The values by position.
    by_position: Vec<Expr>,
    /// The values by name.
    by_name: BTreeMap<String, Expr>,
    /// How many `?` the statements before have.
    before: usize,
    /// How many `?` this statement has.
    here: usize,
    /// The parameters that were read.
    read: BTreeSet<String>,
}

impl Parameters {
    /// Values by position, and by name.
    ///
    /// # Errors
    /// `NotImplemented` for a value that no literal makes.
    pub fn new(by_position: &[ScalarValue], by_name: &[(String, ScalarValue)]) -> Result<Parameters> {
        let named = by_name.iter().map(|(name, value)| Ok((name.clone(), literal(value)?)));
        Ok(Parameters {
            by_position: by_position.iter().map(literal).collect::<Result<_>>()?,
            by_name: named.collect::<Result<_>>()?,
            before: 0,
            here: 0,
            read: BTreeSet::new(),
        })
    }

    /// Refuses values that no statement has read.
    ///
    /// # Errors
    /// `Plan`, with the first of them.
    pub fn all_read(&self) -> Result<()> {
        let places = (1..=self.by_position.len()).map(|at| at.to_string());
        match places.chain(self.by_name.keys().cloned()).find(|key| !self.read.contains(key)) {
            Some(key) => {
                plan_err!("there is no place for the parameter {key}: write ${key} where it belongs")
            }
            None => Ok(()),
        }
    }

    /// Replaces the parameters of a statement by their values; `prepare` keeps its parameters.
    ///
    /// # Errors
    /// `Plan` if a parameter has no value.
    pub(crate) fn bind(&mut self, statement: &mut Statement) -> Result<()> {
        let flow = match statement {
            Statement::Statement(statement) if matches!(statement.as_ref(), Sql::Prepare { .. }) => {
                return Ok(());
            }
            Statement::Statement(statement) => walk_mut(statement.as_mut(), self),
            Statement::Explain(explain) => return self.bind(&mut explain.statement),
            Statement::CopyTo(copy) => match &mut copy.source {
                CopyToSource::Query(query) => walk_mut(query.as_mut(), self),
                CopyToSource::Relation(_) => return Ok(()),
            },
            Statement::CreateExternalTable(_) | Statement::Reset(_) => return Ok(()),
        };
        self.before += std::mem::take(&mut self.here);
        match flow {
            ControlFlow::Break(message) => plan_err!("{message}"),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    /// The value of a parameter, or why it has none.
    fn value(&mut self, place: &str) -> std::result::Result<Expr, String> {
        let key = match place.trim_start_matches(['$', '?', ':']) {
            // A `?` of this statement, as it was numbered.
            number if place.starts_with("?0") => {
                let number: usize = number.parse().unwrap_or_default();
                self.here = self.here.max(number);
                (self.before + number).to_string()
            }
            key => key.to_string(),
        };
        let by_position = key.parse().ok().and_then(|at: usize| self.by_position.get(at.checked_sub(1)?));
        let Some(value) = by_position.or_else(|| self.by_name.get(&key)).cloned() else {
            return Err(match self.by_name.is_empty() {
                true => format!("there is no parameter {key}; {} were given", self.by_position.len()),
                false => {
                    let known: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
                    format!("there is no parameter {key}; there are: {}", known.join(", "))
                }
            });
        };
        self.read.insert(key);
        Ok(value)
    }
}

impl VisitorMut for Parameters {
    type Break = String;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        let Expr::Value(ValueWithSpan { value: Value::Placeholder(place), .. }) = expr else {
            return ControlFlow::Continue(());
        };
        match self.value(&place.clone()) {
            Ok(value) => {
                *expr = value;
                ControlFlow::Continue(())
            }
            Err(message) => ControlFlow::Break(message),
        }
    }
}

/// A value as it is written in SQL. A number stands alone, so that it can be a limit.
fn literal(value: &ScalarValue) -> Result<Expr> {
    let text = text(value)?;
    let mut parser = Parser::new(&GenericDialect {})
        .try_with_sql(&text)
        .map_err(|error| plan_datafusion_err!("a parameter: {error}"))?;
    parser.parse_expr().map_err(|error| plan_datafusion_err!("a parameter: {error}"))
}

/// The SQL text of a value.
fn text(value: &ScalarValue) -> Result<String> {
    let shown = || -> Result<String> { Ok(array_value_to_string(value.to_array()?.as_ref(), 0)?) };
    let cast = |to: &str| -> Result<String> { Ok(format!("CAST({} AS {to})", quoted(&shown()?))) };
    Ok(match value {
        value if value.is_null() => "NULL".to_string(),
        ScalarValue::Boolean(_) => shown()?,
        ScalarValue::Utf8(Some(text)) => quoted(text),
        ScalarValue::Binary(Some(bytes)) => {
            format!("X'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
        ScalarValue::List(items) => {
            let items = items.value(0);
            let items = (0..items.len()).map(|at| text_of(&items, at)).collect::<Result<Vec<_>>>()?;
            format!("make_array({})", items.join(", "))
        }
        _ => match value.data_type() {
            of if of.is_integer() && !shown()?.starts_with('-') => shown()?,
            of if of.is_integer() => format!("({})", shown()?),
            of if of.is_floating() => cast("DOUBLE")?,
            DataType::Decimal128(precision, scale) => cast(&format!("DECIMAL({precision}, {scale})"))?,
            DataType::Date32 => cast("DATE")?,
            DataType::Time64(_) => cast("TIME")?,
            DataType::Timestamp(_, None) => cast("TIMESTAMP(6)")?,
            DataType::Timestamp(_, Some(_)) => cast("TIMESTAMP(6) WITH TIME ZONE")?,
            DataType::Duration(_) => {
                let micros = value.cast_to(&DataType::Int64)?;
                format!("CAST('{}' AS INTERVAL)", interval(micros))
            }
            DataType::Struct(_) => {
                return plan_err!(
                    "a parameter cannot be a dict; give its values, or register a table for it"
                );
            }
            of => return not_impl_err!("a parameter cannot be a {of}; register a table for it"),
        },
    })
}

/// Microseconds in words. The nanoseconds of an interval have 64 bits: what is longer has days, too.
fn interval(micros: ScalarValue) -> String {
    match micros {
        ScalarValue::Int64(Some(micros)) if micros.checked_mul(1_000).is_none() => {
            let day = 86_400_000_000;
            format!("{} days {} microseconds", micros / day, micros % day)
        }
        micros => format!("{micros} microseconds"),
    }
}

/// The SQL text of a value of a list.
fn text_of(items: &datafusion::arrow::array::ArrayRef, at: usize) -> Result<String> {
    text(&ScalarValue::try_from_array(items, at)?)
}

/// A string literal.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
