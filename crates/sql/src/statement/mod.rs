//! A statement to what is to be done about it. One family of statements, one file.

mod accepted;
mod alter;
mod change;
mod conflict;
mod create;
mod external;
mod index;
mod merge;
mod prepared;
mod sequence;
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
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::{CopyToSource, CopyToStatement, ResetStatement, Statement};
use datafusion::sql::sqlparser::ast::{
    DescribeAlias, ObjectName, ObjectType, Query, SetExpr, Statement as Sql, TableFactor, TableWithJoins,
    Value, With,
};
use std::collections::BTreeMap;
use whimbrel_plan::{Stream, source_of};

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
            Sql::Query(query) => of_query(session, *query, emit, |plan| session.ways(plan)),
            Sql::Explain { statement, .. } => candidates(session, Statement::Statement(statement), emit),
            _ => plan_err!("only a query can be run in several ways"),
        },
        Statement::Explain(explain) => candidates(session, *explain.statement, emit),
        _ => plan_err!("only a query can be run in several ways"),
    }
}

fn sql(session: &mut Session, statement: Sql, emit: Emit) -> Result<Planned> {
    match statement {
        Sql::Query(query) => match *query {
            Query { with: Some(with), body, .. } if changes(&body) => change_with(session, &with, *body),
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
            accepted::drop_schema(session, &names, if_exists, cascade)
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
            match (accepted::as_query(&name, value.as_deref()), value) {
                (Some(query), _) => {
                    Ok(Planned::Query(query_stream(session, crate::dialect::parse_query(&query)?, emit)?))
                }
                (None, Some(value)) => settings::assign(session, &name, &value),
                (None, None) => plan_err!("there is no pragma {name:?} without a value"),
            }
        }
        Sql::ShowDatabases { .. } => {
            let query = crate::dialect::parse_query("select 'memory' as database_name")?;
            Ok(Planned::Query(query_stream(session, query, emit)?))
        }
        Sql::Analyze(_) | Sql::Vacuum(_) => accepted::nothing(),
        Sql::CreateSequence { name, if_not_exists, sequence_options, .. } => {
            sequence::create(session, &name, &sequence_options, if_not_exists)
        }
        Sql::CreateSchema { schema_name, if_not_exists, .. } => {
            accepted::create_schema(session, &schema_name, if_not_exists)
        }
        other => plan_err!("{} is not a statement of this engine", first_words(&other.to_string())),
    }
}

/// Whether what stands behind `with` changes a table.
fn changes(body: &SetExpr) -> bool {
    matches!(body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
}

/// `with … insert`, and so on: the queries belong to the one that gives the rows.
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
        other => plan_err!("{} is not a statement of this engine", first_words(&other.to_string())),
    }
}

/// The first two words, enough to say which statement it was.
fn first_words(statement: &str) -> String {
    statement.split_whitespace().take(2).collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The stream that a query is.
fn query_stream(session: &Session, query: Query, emit: Emit) -> Result<Stream> {
    of_query(session, query, emit, |plan| session.stream(plan))
}

/// What is made of a query's plan. Streams that end are also tables: a query that cannot be said of them over time is made
/// over the tables of their rows.
fn of_query<T>(
    session: &Session,
    query: Query,
    emit: Emit,
    make: impl Fn(LogicalPlan) -> Result<T>,
) -> Result<T> {
    let over_time = query_plan(session, query.clone(), emit).and_then(&make);
    if over_time.is_ok() || emit == Emit::Changes {
        return over_time;
    }
    let over_tables = || {
        let plan = query_plan(session, query, Emit::Changes)?;
        match ends(&plan)? {
            true => make(plan),
            false => plan_err!("rows are still coming"),
        }
    };
    // What was asked for was over time, and so is what is wrong with it.
    over_tables().or(over_time)
}

/// Whether all that a plan reads ends.
fn ends(plan: &LogicalPlan) -> Result<bool> {
    let mut ends = true;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            ends &= source_of(scan).is_none_or(|source| source.info().bounded);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(ends)
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
