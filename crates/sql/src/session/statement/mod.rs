//! From a parsed statement to [`Planned`]: one family of statements, one file.

mod alter;
mod change;
mod conflict;
mod create;
mod external;
mod index;
mod merge;
mod options;
mod prepared;
mod query;
mod schema;
mod sequence;
mod settings;
mod show;
mod summary;
mod target;
mod transaction;

use self::options::{options_map, text, value_text};
use self::query::{of_query, query_stream};
use super::planned::Planned;
use super::state::Session;
use crate::catalog::find;
use crate::files::Format;
use crate::planner::Candidate;
use crate::syntax::{Emit, Parsed, names, parse_query};
use datafusion::common::{DataFusionError, Result, not_impl_err, plan_err};
use datafusion::sql::parser::{CopyToSource, CopyToStatement, ResetStatement, Statement};
use datafusion::sql::sqlparser::ast::{
    DescribeAlias, ObjectName, ObjectType, Query, SetExpr, Statement as Sql, With,
};

/// Plans a statement.
///
/// # Errors
/// `Plan` if it names something unknown or cannot be done; those of the planner.
pub(crate) fn plan(session: &mut Session, Parsed { statement, emit, summarize }: Parsed) -> Result<Planned> {
    if summarize {
        return summary::of(session, statement);
    }
    emitted(planned(session, statement, emit.clone())?, emit)
}

/// With `emit changes`, the changes of the rows in place of the rows.
fn emitted(planned: Planned, emit: Emit) -> Result<Planned> {
    if emit == Emit::Final {
        return Ok(planned);
    }
    Ok(match planned {
        Planned::Query(stream) => Planned::Query(stream.changes()?),
        Planned::Explain { stream, analyze } => Planned::Explain { stream: stream.changes()?, analyze },
        Planned::Copy { stream, to, format, options } => {
            Planned::Copy { stream: stream.changes()?, to, format, options }
        }
        _ => return plan_err!("emit changes stands after a query whose rows are handed out"),
    })
}

/// Plans a statement, without regard to how its rows are output.
fn planned(session: &mut Session, statement: Statement, emit: Emit) -> Result<Planned> {
    match statement {
        Statement::Statement(statement) => sql(session, *statement, emit),
        Statement::Explain(explain) => explained(session, *explain.statement, explain.options.analyze, emit),
        Statement::CopyTo(copy) => self::copy(session, copy, emit),
        Statement::CreateExternalTable(table) => external::create(session, table),
        Statement::Reset(ResetStatement::Variable(name)) => settings::reset(session, &text(&name)),
    }
}

/// All ways to run a query.
///
/// # Errors
/// As [`plan`]; `Plan` if the statement is no query.
pub(crate) fn candidates(session: &mut Session, statement: Statement, emit: Emit) -> Result<Vec<Candidate>> {
    match statement {
        Statement::Statement(statement) => match *statement {
            Sql::Query(query) => of_query(session, *query, emit, |plan| session.candidates_of(plan)),
            Sql::Explain { statement, .. } => candidates(session, Statement::Statement(statement), emit),
            _ => plan_err!("only a query can be run in several ways"),
        },
        Statement::Explain(explain) => candidates(session, *explain.statement, emit),
        _ => plan_err!("only a query can be run in several ways"),
    }
}

/// Plans a statement of the parser's.
fn sql(session: &mut Session, statement: Sql, emit: Emit) -> Result<Planned> {
    match statement {
        Sql::Query(query) => match *query {
            Query { with: Some(with), body, .. } if is_change(&body) => change_with(session, &with, *body),
            query => Ok(Planned::Query(query_stream(session, query, emit)?)),
        },
        Sql::ExplainTable {
            describe_alias: DescribeAlias::Describe | DescribeAlias::Desc,
            table_name,
            ..
        } => show::describe_table(session, &table_name),
        Sql::Explain { describe_alias: DescribeAlias::Describe | DescribeAlias::Desc, statement, .. } => {
            show::describe_query(session, *statement)
        }
        Sql::Explain { statement, analyze, .. } => {
            explained(session, Statement::Statement(statement), analyze, emit)
        }
        Sql::ShowTables { show_options, .. } => show::tables(session, &show_options),
        Sql::ShowColumns { show_options, .. } => show::columns(session, &show_options),
        Sql::ShowFunctions { filter } => show::functions(session, filter.as_ref()),
        Sql::ShowVariable { variable } => {
            let name: Vec<&str> = variable.iter().map(|part| part.value.as_str()).collect();
            settings::show(session, &name.join("."))
        }
        Sql::Set(set) => settings::set(session, &set),
        Sql::CreateView(view) => create::view(session, view),
        Sql::CreateTable(table) => create::table(session, table),
        Sql::CreateIndex(index) => index::create(session, &index),
        Sql::AlterTable(alter) => alter::table(session, alter),
        Sql::Drop { object_type: ObjectType::Index, if_exists, names, .. } => {
            index::drop(session, if_exists, &names)
        }
        Sql::Drop { object_type: ObjectType::Sequence, if_exists, names, .. } => {
            sequence::drop(session, &names, if_exists)
        }
        Sql::Drop { object_type: ObjectType::Schema, if_exists, names, cascade, .. } => {
            schema::drop(session, &names, if_exists, cascade)
        }
        Sql::Drop { object_type, if_exists, names, .. } => {
            create::drop(session, object_type, if_exists, &names)
        }
        Sql::Insert(insert) => change::insert(session, insert),
        Sql::Delete(delete) => change::delete(session, "", delete),
        Sql::Update(update) => change::update(session, "", update),
        Sql::Merge(merge) => merge::merge(session, "", merge),
        Sql::Truncate(truncate) => change::truncate(session, &truncate),
        Sql::StartTransaction { .. } => transaction::begin(session),
        Sql::Commit { .. } => transaction::commit(session),
        Sql::Rollback { savepoint: None, .. } => transaction::rollback(session),
        Sql::Prepare { name, data_types, statement } => {
            prepared::prepare(session, &name, data_types, *statement)
        }
        Sql::Execute { name: Some(name), parameters, using, .. } => {
            let statement = prepared::execute(session, &name, parameters, using)?;
            sql(session, statement, emit)
        }
        Sql::Deallocate { name, .. } => prepared::deallocate(session, &name),
        Sql::Pragma { name, value, .. } => {
            let name = text(&name).to_ascii_lowercase();
            let value = value.map(|value| value_text(&value.value));
            match (pragma_query(&name, value.as_deref()), value) {
                (Some(query), _) => Ok(Planned::Query(query_stream(session, parse_query(&query)?, emit)?)),
                (None, Some(value)) => settings::assign(session, &name, &value),
                (None, None) => plan_err!("there is no pragma {name:?} without a value"),
            }
        }
        Sql::ShowDatabases { .. } => {
            let query = parse_query("select 'memory' as database_name")?;
            Ok(Planned::Query(query_stream(session, query, emit)?))
        }
        Sql::Analyze(analyze) => nothing_to_do(session, analyze.table_name.as_ref()),
        Sql::Vacuum(vacuum) => nothing_to_do(session, vacuum.table_name.as_ref()),
        Sql::CreateSequence { name, if_not_exists, sequence_options, .. } => {
            sequence::create(session, &name, &sequence_options, if_not_exists)
        }
        Sql::CreateSchema { schema_name, if_not_exists, .. } => {
            schema::create(session, &schema_name, if_not_exists)
        }
        other => not_impl_err!("{} is not a statement of this engine", first_words(&other.to_string())),
    }
}

/// `analyze` and `vacuum`: there are no stored statistics, and no files to clean up.
fn nothing_to_do(session: &Session, table: Option<&ObjectName>) -> Result<Planned> {
    if let Some(name) = table {
        let name = names::table(name)?;
        if find(&session.tables, &name).is_none() {
            return plan_err!("there is no table {name:?}");
        }
    }
    Ok(Planned::Done("nothing to do".to_string()))
}

/// Whether a body behind `with` changes a table.
fn is_change(body: &SetExpr) -> bool {
    matches!(body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
}

/// `with … insert` and others: the common table expressions move to the query of the rows.
fn change_with(session: &mut Session, with: &With, body: SetExpr) -> Result<Planned> {
    match body {
        SetExpr::Insert(Sql::Insert(mut insert)) => {
            if let Some(rows) = &mut insert.source {
                match &mut rows.with {
                    Some(own) => own.cte_tables.splice(0..0, with.cte_tables.iter().cloned()).for_each(drop),
                    None => rows.with = Some(with.clone()),
                }
            }
            change::insert(session, insert)
        }
        SetExpr::Update(Sql::Update(update)) => change::update(session, &with.to_string(), update),
        SetExpr::Merge(Sql::Merge(merge)) => merge::merge(session, &with.to_string(), merge),
        SetExpr::Delete(Sql::Delete(delete)) => change::delete(session, &with.to_string(), delete),
        other => not_impl_err!("{} is not a statement of this engine", first_words(&other.to_string())),
    }
}

/// The first two words of a statement, for a message.
fn first_words(statement: &str) -> String {
    statement.split_whitespace().take(2).collect::<Vec<_>>().join(" ").to_lowercase()
}

/// `explain` of a statement.
fn explained(session: &mut Session, statement: Statement, analyze: bool, emit: Emit) -> Result<Planned> {
    match planned(session, statement, emit)? {
        Planned::Query(stream) | Planned::Copy { stream, .. } | Planned::Store { stream, .. } => {
            Ok(Planned::Explain { stream, analyze })
        }
        _ => plan_err!("explain takes a query"),
    }
}

/// `copy (…) to`.
fn copy(session: &Session, copy: CopyToStatement, emit: Emit) -> Result<Planned> {
    let query = match copy.source {
        CopyToSource::Query(query) => *query,
        CopyToSource::Relation(name) => parse_query(&format!("select * from {name}"))?,
    };
    let stream = query_stream(session, query, emit)?;
    if !copy.partitioned_by.is_empty() {
        return plan_err!("copy: files cannot be partitioned by columns; leave out partitioned by");
    }
    let mut options = options_map(copy.options)?;
    let format = copy.stored_as.or_else(|| options.remove("format"));
    let format = match format {
        Some(format) => format.parse()?,
        None => Format::of_path(&copy.target).ok_or_else(|| {
            DataFusionError::Plan(format!(
                "the suffix of {:?} does not tell the format; add stored as parquet, csv, json or arrow",
                copy.target
            ))
        })?,
    };
    Ok(Planned::Copy { stream, to: copy.target, format, options })
}

/// The query that a pragma stands for.
fn pragma_query(pragma: &str, argument: Option<&str>) -> Option<String> {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    match (pragma, argument) {
        ("table_info", Some(table)) => Some(format!("select * from pragma_table_info({})", quoted(table))),
        ("show_tables", None) => {
            Some("select table_name as name from information_schema.tables order by 1".to_string())
        }
        ("databases", None) => Some("select 'memory' as database_name".to_string()),
        _ => None,
    }
}
