//! A statement to what is to be done about it. One family of statements, one file.

mod alter;
mod change;
mod create;
mod external;
mod index;
mod prepared;
mod settings;
mod show;
mod summary;
mod transaction;

pub(crate) use prepared::Prepared;
pub(crate) use show::function_names;

use crate::dialect::Parsed;
use crate::emit::Emit;
use crate::files::Format;
use crate::names;
use crate::planned::Planned;
use crate::planner::Candidate;
use crate::session::Session;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::{CopyToSource, CopyToStatement, ResetStatement, Statement};
use datafusion::sql::sqlparser::ast::{
    DescribeAlias, ObjectName, ObjectType, Query, Statement as Sql, TableFactor, TableWithJoins, Value,
};
use std::collections::BTreeMap;
use whimbrel_plan::Stream;

/// What is to be done about a statement.
pub(crate) fn plan(session: &mut Session, Parsed { statement, emit, summarized }: Parsed) -> Result<Planned> {
    if summarized {
        return summary::of(session, statement);
    }
    emit.of(planned(session, statement, emit)?)
}

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
pub(crate) fn candidates(session: &mut Session, statement: Statement, emit: Emit) -> Result<Vec<Candidate>> {
    match statement {
        Statement::Statement(statement) => match *statement {
            Sql::Query(query) => session.ways(query_plan(session, *query, emit)?),
            Sql::Explain { statement, .. } => candidates(session, Statement::Statement(statement), emit),
            _ => plan_err!("only a query can be run in several ways"),
        },
        Statement::Explain(explain) => candidates(session, *explain.statement, emit),
        _ => plan_err!("only a query can be run in several ways"),
    }
}

fn sql(session: &mut Session, statement: Sql, emit: Emit) -> Result<Planned> {
    match statement {
        Sql::Query(query) => Ok(Planned::Query(query_stream(session, *query, emit)?)),
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
        Sql::Drop { object_type, if_exists, names, .. } => {
            create::drop(session, object_type, if_exists, &names)
        }
        Sql::Insert(insert) => change::insert(session, insert),
        Sql::Delete(delete) => change::delete(session, &delete),
        Sql::Update(update) => change::update(session, &update),
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
        Sql::Pragma { name, value: Some(value), .. } => {
            settings::assign(session, &text(&name).to_ascii_lowercase(), &value_text(&value.value))
        }
        other => plan_err!("{} is not a statement of this engine", first_words(&other.to_string())),
    }
}

/// The first two words, enough to say which statement it was.
fn first_words(statement: &str) -> String {
    statement.split_whitespace().take(2).collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The stream that a query is.
fn query_stream(session: &Session, query: Query, emit: Emit) -> Result<Stream> {
    let plan = query_plan(session, query, emit)?;
    session.stream(plan)
}

/// A query as DataFusion plans it, not yet optimized.
fn query_plan(session: &Session, mut query: Query, emit: Emit) -> Result<LogicalPlan> {
    names::prepare(&mut query);
    session.planner(emit, |planner, _| planner.sql_statement_to_plan(Sql::Query(Box::new(query))))
}

/// What a statement would run.
fn explained(session: &mut Session, statement: Statement, analyze: bool, emit: Emit) -> Result<Planned> {
    match planned(session, statement, emit)? {
        Planned::Query(stream) | Planned::Copy { stream, .. } | Planned::Store { stream, .. } => {
            Ok(Planned::Explain { stream, analyze })
        }
        _ => plan_err!("explain takes a query"),
    }
}

fn copy(session: &Session, copy: CopyToStatement, emit: Emit) -> Result<Planned> {
    let query = match copy.source {
        CopyToSource::Query(query) => *query,
        CopyToSource::Relation(name) => crate::dialect::parse_query(&format!("select * from {name}"))?,
    };
    let stream = query_stream(session, query, emit)?;
    if !copy.partitioned_by.is_empty() {
        return plan_err!("copy: files cannot be partitioned by columns; leave out partitioned by");
    }
    let mut options = options_map(copy.options)?;
    let asked = copy.stored_as.or_else(|| options.remove("format"));
    let format = match asked {
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

/// Options by name, in small letters.
fn options_map(options: Vec<(String, Value)>) -> Result<BTreeMap<String, String>> {
    let mut map = BTreeMap::new();
    for (name, value) in options {
        let value = match value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text,
            Value::EscapedStringLiteral(text) | Value::Number(text, _) => text,
            Value::Boolean(value) => value.to_string(),
            other => return plan_err!("option {name}: {other} is neither a text nor a number"),
        };
        if map.insert(name.to_ascii_lowercase(), value).is_some() {
            return plan_err!("option {name} is given twice");
        }
    }
    Ok(map)
}

fn text(name: &ObjectName) -> String {
    name.to_string().replace('"', "")
}

/// A value of a setting.
fn value_text(value: &Value) -> String {
    match value {
        Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The table that a statement changes, and what it calls it, if it is one and nothing is joined to it.
fn only_table(from: &[TableWithJoins]) -> Result<(&ObjectName, &TableFactor)> {
    match from {
        [TableWithJoins { relation: relation @ TableFactor::Table { name, args: None, .. }, joins }]
            if joins.is_empty() =>
        {
            Ok((name, relation))
        }
        _ => plan_err!("one table can be changed at a time, given by its name"),
    }
}
