//! `show tables`, `show columns`, `show functions`, `describe`: answers from the session's state.
//!
//! ```sql
//! show tables like 'click%';
//! show columns from clicks;
//! describe select item, count(*) from clicks group by item;
//! ```

use super::query::query_stream;
use crate::catalog::TableKind;
use crate::session::planned::Planned;
use crate::session::state::{Session, function_names};
use crate::syntax::Emit;
use crate::syntax::names;
use crate::syntax::parse_query;
use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, not_impl_err, plan_err};
use datafusion::sql::sqlparser::ast::{
    ObjectName, ShowStatementFilter, ShowStatementFilterPosition, ShowStatementOptions, Statement as Sql,
};
use std::sync::Arc;
use whimbrel_plan::names::type_name;

/// The names of the schema of tables without one.
const DEFAULT_SCHEMAS: [&str; 3] = ["main", "public", "memory"];

/// A table of strings.
///
/// # Errors
/// `ArrowError` if the columns differ in length.
pub(super) fn texts(columns: &[(&str, Vec<String>)]) -> Result<Planned> {
    let columns = columns.iter().map(|(name, values)| {
        let values: ArrayRef = Arc::new(StringArray::from_iter_values(values));
        (*name, values)
    });
    Ok(Planned::Table(RecordBatch::try_from_iter(columns)?))
}

/// `show tables`.
///
/// # Errors
/// `Plan` if the filter is none of names, or there is no schema of the name.
pub(super) fn tables(session: &Session, options: &ShowStatementOptions) -> Result<Planned> {
    let wanted = filter(options)?;
    let schema = options.show_in.as_ref().and_then(|of| of.parent_name.as_ref()).map(names::table);
    let schema = schema.transpose()?;
    if let Some(name) = &schema
        && !DEFAULT_SCHEMAS.contains(&name.as_str())
        && !session.schemas.contains(name)
    {
        return plan_err!("there is no schema {name:?}");
    }
    let inside = |table: &str| match (&schema, table.split_once('.')) {
        (None, _) => true,
        (Some(schema), Some((own, _))) if session.schemas.contains(own) => own == schema,
        (Some(schema), _) => DEFAULT_SCHEMAS.contains(&schema.as_str()),
    };
    let shown = session.tables.iter().filter(|(name, _)| inside(name) && wanted.matches(name));
    let tables: Vec<_> = shown.collect();
    let kinds = tables.iter().map(|(_, table)| match (&table.kind, &table.stream.properties().time) {
        (TableKind::View { .. }, None) => "view".to_string(),
        (TableKind::View { .. }, Some(_)) => "view, timed".to_string(),
        (_, None) => "table".to_string(),
        (_, Some(_)) => "stream".to_string(),
    });
    let kinds = kinds.collect();
    texts(&[("name", tables.iter().map(|(name, _)| name.to_string()).collect()), ("kind", kinds)])
}

/// `show columns`.
///
/// # Errors
/// `Plan` if no table is named, or it is unknown.
pub(super) fn columns(session: &Session, options: &ShowStatementOptions) -> Result<Planned> {
    match options.show_in.as_ref().and_then(|of| of.parent_name.as_ref()) {
        Some(table) => describe_table(session, table),
        None => plan_err!("show columns from which table?"),
    }
}

/// `show functions`.
///
/// # Errors
/// `Plan` if the filter is none of names.
pub(super) fn functions(session: &Session, filter: Option<&ShowStatementFilter>) -> Result<Planned> {
    let wanted = pattern(filter)?;
    let names = function_names(&session.state);
    texts(&[("name", names.into_iter().filter(|name| wanted.matches(name)).collect())])
}

/// `describe` of a table.
///
/// # Errors
/// `Plan` if the table is unknown.
pub(super) fn describe_table(session: &Session, table: &ObjectName) -> Result<Planned> {
    names::table(table)?;
    let query = parse_query(&format!("select * from {table}"))?;
    described(query_stream(session, query, Emit::Final)?.schema())
}

/// `describe` of a query.
///
/// # Errors
/// `Plan` if the query has no plan.
pub(super) fn describe_query(session: &Session, statement: Sql) -> Result<Planned> {
    match statement {
        Sql::Query(query) => described(query_stream(session, *query, Emit::Final)?.schema()),
        other => plan_err!("describe takes a table or a query, not {other}"),
    }
}

/// The columns of a schema, as rows.
fn described(schema: &SchemaRef) -> Result<Planned> {
    let fields = schema.fields();
    let null = |nullable: bool| if nullable { "yes" } else { "no" }.to_string();
    texts(&[
        ("column", fields.iter().map(|f| f.name().clone()).collect()),
        ("type", fields.iter().map(|f| type_name(f.data_type())).collect()),
        ("null", fields.iter().map(|f| null(f.is_nullable())).collect()),
    ])
}

/// A pattern with `%` and `_`.
struct Pattern(Option<String>);

impl Pattern {
    /// Whether a name matches, in any case.
    fn matches(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|pattern| {
            like(
                &pattern.to_lowercase().chars().collect::<Vec<_>>(),
                &name.to_lowercase().chars().collect::<Vec<_>>(),
            )
        })
    }
}

/// Whether a text matches a pattern, character by character.
fn like(pattern: &[char], text: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|skip| like(rest, &text[skip..])),
        [one, rest @ ..] => match text {
            [first, text @ ..] => (*one == '_' || one == first) && like(rest, text),
            [] => false,
        },
    }
}

/// The pattern of `show … like`.
fn filter(options: &ShowStatementOptions) -> Result<Pattern> {
    match &options.filter_position {
        Some(ShowStatementFilterPosition::Infix(filter) | ShowStatementFilterPosition::Suffix(filter)) => {
            pattern(Some(filter))
        }
        None => Ok(Pattern(None)),
    }
}

/// The pattern of a filter; all names without one.
fn pattern(filter: Option<&ShowStatementFilter>) -> Result<Pattern> {
    match filter {
        None => Ok(Pattern(None)),
        Some(
            ShowStatementFilter::Like(text)
            | ShowStatementFilter::ILike(text)
            | ShowStatementFilter::NoKeyword(text),
        ) => Ok(Pattern(Some(text.clone()))),
        Some(ShowStatementFilter::Where(_)) => not_impl_err!("show … where is not there; write like '…'"),
    }
}
