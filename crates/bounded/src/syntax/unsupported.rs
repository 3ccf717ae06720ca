//! Clauses that DataFusion's planner would ignore, although the answer depends on them: refused, with an
//! alternative.

use crate::error::{Error, Result};
use datafusion::sql::sqlparser::ast::{
    ColumnOption, CreateTable, ForeignKeyConstraint, Query, ReferentialAction, Statement, TableConstraint,
    TableFactor, Visitor,
};
use std::ops::ControlFlow;
use whimbrel_sql::walk::walk;

/// Refuses what would be passed over.
pub(crate) fn check(statement: &Statement) -> Result<()> {
    match walk(statement, &mut UnsupportedClauses) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(message) => Err(Error::invalid(message)),
    }
}

/// A visitor that stops at the first clause that would be ignored.
struct UnsupportedClauses;

impl Visitor for UnsupportedClauses {
    type Break = &'static str;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<&'static str> {
        match query.locks.is_empty() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(
                "there are no locks: put what has to be true into the update, update t set … where id = ? and n > 0, and look at how many rows it changed",
            ),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<&'static str> {
        match factor {
            TableFactor::Table { sample: Some(_), .. } => ControlFlow::Break("tablesample is not supported"),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<&'static str> {
        let refused = match statement {
            Statement::Insert(insert)
                if insert.on.is_some() || insert.or.is_some() || insert.replace_into =>
            {
                Some(
                    "there is no on conflict: write upsert into t values (…), which inserts, or writes over the whole row of the same key, \
                     with null in columns that it does not name; where a row is to stay, insert, and take the error for the answer",
                )
            }
            Statement::CreateTable(table) => of_table(table),
            _ => None,
        };
        refused.map_or(ControlFlow::Continue(()), ControlFlow::Break)
    }
}

/// The first such clause of `create table`.
fn of_table(table: &CreateTable) -> Option<&'static str> {
    if table.temporary {
        return Some("there are no temporary tables: open a second database over memory:");
    }
    let of_columns =
        table.columns.iter().flat_map(|column| &column.options).filter_map(|option| match &option.option {
            ColumnOption::ForeignKey(key) => Some(key),
            _ => None,
        });
    let of_table = table.constraints.iter().filter_map(|constraint| match constraint {
        TableConstraint::ForeignKey(key) => Some(key),
        _ => None,
    });
    of_columns.chain(of_table).any(acts).then_some(
        "a row that others refer to is not deleted: delete those first, page by page; on delete and on update are not supported",
    )
}

/// Whether a reference changes other rows: `on delete cascade` and its like.
fn acts(key: &ForeignKeyConstraint) -> bool {
    let mut actions = [&key.on_delete, &key.on_update].into_iter().flatten();
    actions.any(|action| !matches!(action, ReferentialAction::Restrict | ReferentialAction::NoAction))
}
