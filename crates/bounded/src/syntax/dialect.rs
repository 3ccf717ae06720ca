//! SQL dialects: Whimbrel's, and PostgreSQL's, which is checked and never run.
//!
//! In PostgreSQL's dialect, functions that change from call to call (`now()`) become parameters, and so do
//! sqlc's `@name` and `sqlc.arg(name)`. Types become ours. Clauses that do not change a bound (`returning`,
//! `for update`, schema names) are removed.

use super::clauses::{Parameter, parameter_number};
use super::parse::{self, Parsed};
use super::unsupported;
use crate::error::{Error, Result};
use crate::functions::HAS_TOKEN;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, CharacterLength, CreateView, Cte, DataType, ExactNumberInfo, Expr, Fetch,
    Function, FunctionArguments, Ident, LimitClause, ObjectName, Query, Statement as Sql, TableObject,
    TimezoneInfo, Value, VisitorMut, With, helpers::attached_token::AttachedToken,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use whimbrel_sql::walk::{change_relations, walk_mut, walk_relations};

/// PostgreSQL's instants, and ours.
const MICROSECONDS: DataType = DataType::Timestamp(Some(6), TimezoneInfo::None);

/// Views that are what they stand for in a query that asks them, in the order in which they were made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Views {
    views: Vec<(String, Cte)>,
    /// Tables of which another schema has one of the same name, with their schemas: they are not there.
    refused: BTreeSet<String>,
}

impl Views {
    /// One more; it takes the place of another of the same name.
    pub fn add(&mut self, view: &CreateView) {
        let name = last_part(&view.name);
        self.remove(&name);
        let columns: Vec<String> = view.columns.iter().map(|column| column.name.to_string()).collect();
        let columns = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
        let text = format!("with {}{columns} as ({}) select 1", unqualified_name(&view.name), view.query);
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, &text);
        if let Ok([Sql::Query(query)]) = parsed.as_deref()
            && let Some([cte]) = query.with.as_ref().map(|with| with.cte_tables.as_slice())
        {
            self.views.push((name, cte.clone()));
        }
    }

    /// One less.
    pub fn remove(&mut self, name: &str) {
        self.views.retain(|(existing, _)| existing != name);
    }

    /// Without those that ask a table that is gone.
    pub fn remove_of(&mut self, table: &str) {
        let asks = |cte: &Cte| {
            let named = |name: &ObjectName| match last_part(name) == table {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            walk_relations(cte, named).is_break()
        };
        self.views.retain(|(_, cte)| !asks(cte));
    }

    /// Another name for one of them.
    pub fn rename(&mut self, old: &str, new: &str) {
        self.remove(new);
        for (name, cte) in self.views.iter_mut().filter(|(name, _)| name == old) {
            *name = new.to_string();
            cte.alias.name = Ident::with_quote('"', new);
        }
        self.rename_table(old, new);
    }

    /// Another name for what they ask.
    pub fn rename_table(&mut self, old: &str, new: &str) {
        for (_, cte) in &mut self.views {
            change_relations(&mut *cte.query, |name| {
                if last_part(name) == old {
                    *name = ObjectName::from(vec![Ident::with_quote('"', new)]);
                }
            });
        }
    }

    /// A table, named with its schema, is not there.
    pub fn refuse(&mut self, table: &str) {
        self.refused.insert(table.to_string());
    }

    /// Refuses a statement that names such a table.
    fn check_tables(&self, statement: &Sql) -> Result<()> {
        let refused = |name: &ObjectName| {
            let parts = name.0.iter().filter_map(|part| part.as_ident());
            let parts: Vec<String> =
                parts.map(|part| last_part(&ObjectName::from(vec![part.clone()]))).collect();
            let name = parts[parts.len().saturating_sub(2)..].join(".");
            if self.refused.contains(&name) { ControlFlow::Break(name) } else { ControlFlow::Continue(()) }
        };
        match walk_relations(statement, refused) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(name) => Err(Error::invalid(format!(
                "there is no table {name:?} here, for another schema has one of this name: check its queries apart"
            ))),
        }
    }

    /// Puts the views that a query asks in front of it.
    fn prepend_to(&self, query: &mut Query) {
        let mut used = BTreeSet::new();
        let own = query.with.iter().flat_map(|with| &with.cte_tables);
        let own: Vec<String> = own.map(|cte| cte.alias.name.value.clone()).collect();
        let mut names = |name: &ObjectName| {
            used.insert(last_part(name));
            ControlFlow::<()>::Continue(())
        };
        // The visitors never break off.
        let _ = walk_relations(&*query, &mut names);
        for (name, cte) in self.views.iter().rev() {
            if used.contains(name) {
                let _ = walk_relations(cte, |name| {
                    used.insert(last_part(name));
                    ControlFlow::<()>::Continue(())
                });
            }
        }
        let needed = self.views.iter().filter(|(name, _)| used.contains(name) && !own.contains(name));
        let needed: Vec<Cte> = needed.map(|(_, cte)| cte.clone()).collect();
        if needed.is_empty() {
            return;
        }
        let mut with = query.with.take().unwrap_or_else(|| With {
            with_token: AttachedToken::empty(),
            recursive: false,
            cte_tables: vec![],
        });
        with.cte_tables = [needed, with.cte_tables].concat();
        query.with = Some(with);
        change_relations(query, |name| {
            if self.views.iter().any(|(view, _)| *view == last_part(name)) {
                *name = unqualified_name(name);
            }
        });
    }
}

/// Whose SQL it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// With all that `text` takes.
    Whimbrel,
    /// PostgreSQL's.
    PostgreSql {
        /// How many values an array that is given with a call can have, if that was promised.
        most_values: Option<u64>,
        /// Views that are no tables.
        views: Arc<Views>,
    },
}

impl Dialect {
    /// Reads one statement.
    ///
    /// # Errors
    /// `Invalid` if the statement cannot be read, or is not supported.
    pub fn parse(&self, sql: &str) -> Result<Parsed> {
        match self {
            Dialect::Whimbrel => parse::parse(sql),
            Dialect::PostgreSql { most_values, views } => postgresql(sql, *most_values, views),
        }
    }

    /// Whether what only we have (pages, words, views that are kept) can be written in it.
    pub fn is_whimbrel(&self) -> bool {
        *self == Dialect::Whimbrel
    }
}

/// The last part of a name, as it is kept: `public.Users` is `users`.
pub(crate) fn last_part(name: &ObjectName) -> String {
    let part = name.0.last().and_then(|part| part.as_ident());
    part.map_or_else(String::new, |ident| match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    })
}

/// The last part alone: there is one schema.
pub(crate) fn unqualified_name(name: &ObjectName) -> ObjectName {
    ObjectName(name.0.last().cloned().into_iter().collect())
}

/// A type of PostgreSQL as one of ours that holds as many different values.
pub(crate) fn postgres_type(declared: &DataType) -> DataType {
    match declared {
        DataType::Char(length) | DataType::Character(length) => {
            let one = Some(CharacterLength::IntegerLength { length: 1, unit: None });
            DataType::Varchar(length.or(one))
        }
        DataType::Uuid => DataType::Varchar(Some(CharacterLength::IntegerLength { length: 36, unit: None })),
        DataType::Real | DataType::Float4 | DataType::Float(_) => DataType::DoublePrecision,
        DataType::Numeric(ExactNumberInfo::None) | DataType::Decimal(ExactNumberInfo::None) => {
            DataType::Decimal(ExactNumberInfo::PrecisionAndScale(38, 10))
        }
        DataType::Timestamp(..) => MICROSECONDS,
        DataType::Custom(name, _) => match last_part(name).as_str() {
            "serial" | "serial4" => DataType::Int(None),
            "bigserial" | "serial8" | "oid" => DataType::BigInt(None),
            "smallserial" | "serial2" => DataType::SmallInt(None),
            "timestamptz" => MICROSECONDS,
            "bool" => DataType::Boolean,
            _ => DataType::Text,
        },
        DataType::JSON
        | DataType::JSONB
        | DataType::Array(_)
        | DataType::Interval { .. }
        | DataType::Time(..)
        | DataType::Bit(_)
        | DataType::BitVarying(_)
        | DataType::Regclass => DataType::Text,
        other => other.clone(),
    }
}

/// Reads a query of PostgreSQL's.
fn postgresql(sql: &str, most_values: Option<u64>, views: &Views) -> Result<Parsed> {
    let (sql, most_rows) = without_most_rows(sql);
    let mut parsed = parse::read(sql)?;
    parsed.returning = None;
    if let Some(unknown) = unknown_to_postgres(&parsed) {
        return Err(Error::invalid(format!("PostgreSQL has no {unknown}")));
    }
    views.check_tables(&parsed.statement)?;
    if let Sql::Query(query) = &mut parsed.statement {
        views.prepend_to(query);
    }
    if let Sql::Insert(insert) = &mut parsed.statement {
        // What a conflict does is a write of the same row.
        parsed.upsert |= insert.on.take().is_some();
        if let TableObject::TableName(name) = &mut insert.table {
            *name = unqualified_name(name);
        }
    }
    let mut rewriter = PostgresRewriter { parameters: &mut parsed.parameters, most_values, most_rows };
    match walk_mut(&mut parsed.statement, &mut rewriter) {
        ControlFlow::Continue(()) => unsupported::check(&parsed.statement).map(|()| parsed),
        ControlFlow::Break(refused) => Err(Error::invalid(refused)),
    }
}

/// What of a statement PostgreSQL does not know, and what it has in its place.
fn unknown_to_postgres(parsed: &Parsed) -> Option<&'static str> {
    if parsed.upsert {
        return Some("upsert: write insert into … on conflict … do update");
    }
    if parsed.paginate.is_some() {
        return Some("paginate: write where key > $1 order by key limit 10");
    }
    parsed
        .parameters
        .iter()
        .any(|parameter| parameter.list.is_some())
        .then_some("lists with a limit: write = any($1), and say how long it can be with --most-values")
}

/// What is another value in every call becomes a parameter, and types of PostgreSQL's become ours.
struct PostgresRewriter<'p> {
    parameters: &'p mut Vec<Parameter>,
    most_values: Option<u64>,
    most_rows: Option<u64>,
}

impl VisitorMut for PostgresRewriter<'_> {
    type Break = &'static str;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<&'static str> {
        query.locks.clear();
        self.limit_rows(query);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<&'static str> {
        match expr {
            Expr::Cast { data_type, .. } => *data_type = postgres_type(data_type),
            Expr::Function(call) => {
                if last_part(&call.name) == HAS_TOKEN {
                    return ControlFlow::Break(
                        "a search for words (@@) has no bound by a B-tree: put the words into a table of their own",
                    );
                }
                if let Some(of) = volatile_type(&last_part(&call.name)) {
                    *expr = cast(self.parameter(None), of);
                } else if let Some(name) = sqlc_argument(call) {
                    *expr = self.parameter(Some(name));
                }
            }
            // sqlc's `@name`.
            Expr::Identifier(name) if name.quote_style.is_none() && name.value.starts_with('@') => {
                *expr = self.parameter(Some(name.value[1..].to_string()));
            }
            Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
                if let Some(list) = self.list(right) {
                    *expr = Expr::InList { expr: left.clone(), list: vec![list], negated: false };
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl PostgresRewriter<'_> {
    /// `fetch first` as `limit`; a number of rows that is given with the call is the most that it can be.
    fn limit_rows(&mut self, query: &mut Query) {
        if let (None, Some(Fetch { with_ties: false, percent: false, quantity: Some(rows) })) =
            (&query.limit_clause, &query.fetch)
        {
            let limit = Some(rows.clone());
            query.limit_clause = Some(LimitClause::LimitOffset { limit, offset: None, limit_by: vec![] });
            query.fetch = None;
        }
        let (Some(LimitClause::LimitOffset { limit: Some(rows), .. }), Some(most)) =
            (&mut query.limit_clause, self.most_rows)
        else {
            return;
        };
        let Some(given) = given_with_call(rows) else { return };
        if let Some(parameter) = parameter_number(&given).and_then(|at| self.parameters.get_mut(at)) {
            parameter.most_rows = Some(most);
        }
        *rows = Expr::Value(Value::Number(most.to_string(), false).with_empty_span());
    }

    /// A parameter: the one of this name, if there is one already.
    fn parameter(&mut self, name: Option<String>) -> Expr {
        let existing = self.parameters.iter().position(|existing| name.is_some() && existing.name == name);
        let at = existing.unwrap_or_else(|| {
            self.parameters.push(Parameter { name, ..Parameter::default() });
            self.parameters.len() - 1
        });
        Expr::Value(Value::Placeholder(format!("${}", at + 1)).with_empty_span())
    }

    /// `any($1)` as a list, if it was promised how long it can be.
    fn list(&mut self, array: &Expr) -> Option<Expr> {
        match array {
            Expr::Nested(inner) => self.list(inner),
            Expr::Cast { expr, .. } => self.list(expr),
            Expr::Value(value) => {
                let Value::Placeholder(id) = &value.value else { return None };
                let parameter = self.parameters.get_mut(parameter_number(id)?)?;
                parameter.list = Some(self.most_values?);
                Some(array.clone())
            }
            _ => None,
        }
    }
}

/// `select … limit $1 at most 50` without its end, and the number: how many rows a query can be asked for,
/// in whatever way it says that.
fn without_most_rows(sql: &str) -> (&str, Option<u64>) {
    let most = sql.rsplit_once(" at most ").map(|(query, most)| (query, most.trim().parse()));
    match most {
        Some((query, Ok(most))) => (query, Some(most)),
        _ => (sql, None),
    }
}

/// What is given with a call: `$1`, or the name in `@n` and `sqlc.arg(n)`.
fn given_with_call(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => given_with_call(inner),
        Expr::Cast { expr, .. } => given_with_call(expr),
        Expr::Function(call) => sqlc_argument(call),
        Expr::Identifier(name) if name.quote_style.is_none() => {
            name.value.strip_prefix('@').map(str::to_string)
        }
        Expr::Value(value) => match &value.value {
            Value::Placeholder(id) => Some(id.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The expression cast to a type.
fn cast(expr: Expr, of: DataType) -> Expr {
    let (kind, expr) = (CastKind::Cast, Box::new(expr));
    Expr::Cast { kind, expr, data_type: of, array: false, format: None }
}

/// The name in sqlc's `sqlc.arg(name)` and `sqlc.narg('name')`.
fn sqlc_argument(call: &Function) -> Option<String> {
    let name = call.name.to_string().to_lowercase();
    if !matches!(name.as_str(), "sqlc.arg" | "sqlc.narg") {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else { return None };
    Some(list.args.first()?.to_string().trim_matches('\'').to_string())
}

/// The type of a function that is another value in every call.
fn volatile_type(name: &str) -> Option<DataType> {
    Some(match name {
        "now"
        | "current_timestamp"
        | "localtimestamp"
        | "clock_timestamp"
        | "statement_timestamp"
        | "transaction_timestamp" => MICROSECONDS,
        "current_date" => DataType::Date,
        "random" => DataType::DoublePrecision,
        "nextval" => DataType::BigInt(None),
        "gen_random_uuid" | "uuid_generate_v4" => DataType::Varchar(None),
        _ => return None,
    })
}
