//! `natural join` as `using` with the columns that both sides have, and stars with `rename` or `replace`
//! column by column.
//!
//! Both need the columns of tables, which only the session has. DataFusion's planner would not merge the
//! columns of a natural join.
//!
//! ```sql
//! select * from a natural join b;  -- select * from a join b using (k, x)
//! ```

use super::state::Session;
use super::{qualifiers, star_expansion};
use crate::syntax::Emit;
use crate::syntax::ast::selects;
use crate::syntax::desugar::{is_natural, merge_using_columns, natural_constraint};
use crate::syntax::normalize;
use crate::syntax::parse_query;
use crate::syntax::walk::walk_mut;
use datafusion::common::{Column, DataFusionError, Diagnostic, Result, Span, plan_err};
use datafusion::sql::parser::{CopyToSource, CopyToStatement, Statement};
use datafusion::sql::sqlparser::ast::{
    Ident, JoinConstraint, JoinOperator, ObjectName, Query, SelectItem, SetExpr, Spanned, Statement as Sql,
    TableFactor, TableWithJoins, VisitorMut, WildcardAdditionalOptions, With,
};
use std::ops::ControlFlow;

/// Writes natural joins with `using`, and expands stars with `rename` or `replace`, where the columns are
/// known.
///
/// # Errors
/// `Plan` if tables have no column to join on, or a star has not the column that is replaced.
pub(crate) fn expand_stars_and_natural_joins(session: &Session, statement: &mut Statement) -> Result<()> {
    let mut expansion = Expansion { session, with: vec![], scopes: vec![] };
    let visited = match statement {
        Statement::Statement(statement) => walk_mut(statement.as_mut(), &mut expansion),
        Statement::Explain(explain) => {
            return expand_stars_and_natural_joins(session, &mut explain.statement);
        }
        Statement::CopyTo(CopyToStatement { source: CopyToSource::Query(query), .. }) => {
            walk_mut(query.as_mut(), &mut expansion)
        }
        _ => return Ok(()),
    };
    match visited {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Expands the queries of a statement, outermost first.
struct Expansion<'a> {
    /// The session, which knows the columns of tables.
    session: &'a Session,
    /// The `with` clauses of the queries around.
    with: Vec<Option<With>>,
    /// The relations of the queries around.
    scopes: Vec<Vec<qualifiers::Name>>,
}

impl VisitorMut for Expansion<'_> {
    type Break = Box<DataFusionError>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<DataFusionError>> {
        self.with.push(query.with.clone());
        let mut relations = vec![];
        selects(&mut query.body, &mut |select| relations.extend(qualifiers::relations(select)));
        self.scopes.push(relations);
        match self.expand(query) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Box<DataFusionError>> {
        self.with.pop();
        self.scopes.pop();
        ControlFlow::Continue(())
    }
}

impl Expansion<'_> {
    /// Expands the selects of one query.
    fn expand(&self, query: &mut Query) -> Result<()> {
        self.check_qualifiers(query)?;
        let mut found = Ok(false);
        selects(&mut query.body, &mut |select| {
            for from in &mut select.from {
                if let Ok(before) = found {
                    found = self.name_columns(from).map(|natural| natural || before);
                }
            }
        });
        if found? {
            merge_using_columns(query);
        }
        let mut result = Ok(());
        selects(&mut query.body, &mut |select| {
            if result.is_ok() {
                result = star_expansion::expand(select, |star, from| self.columns(star, from));
            }
        });
        result
    }

    /// Refuses columns of tables that are not read.
    fn check_qualifiers(&self, query: &Query) -> Result<()> {
        let is_column = |name: &str| {
            let mut known = false;
            selects(&mut query.body.as_ref().clone(), &mut |select| {
                let star = SelectItem::Wildcard(WildcardAdditionalOptions::default());
                let columns = self.columns(star, &select.from);
                // Where the columns are not known, the planner looks for the name.
                known |= columns.map_or(true, |all| all.iter().any(|c| c.name.eq_ignore_ascii_case(name)));
            });
            known
        };
        qualifiers::check(query, &self.scopes, &is_column)
    }

    /// Names the columns of natural joins. Returns whether there is one.
    fn name_columns(&self, from: &mut TableWithJoins) -> Result<bool> {
        if !is_natural(from) {
            return Ok(false);
        }
        let Ok(mut known) = self.names(&from.relation) else { return Ok(true) };
        for join in &mut from.joins {
            let Ok(own) = self.names(&join.relation) else { return Ok(true) };
            if let Some(constraint) = natural_constraint(&mut join.join_operator)
                && *constraint == JoinConstraint::Natural
            {
                let columns = common_columns(&known, &own).map_err(|error| {
                    let span = Span::try_from_sqlparser_span(join.relation.span());
                    let message = error.message().to_string();
                    error.with_diagnostic(Diagnostic::new_error(message, span))
                })?;
                *constraint = JoinConstraint::Using(columns);
            }
            match join.join_operator {
                // These joins have the columns of one side.
                JoinOperator::LeftSemi(_) | JoinOperator::LeftAnti(_) => {}
                JoinOperator::RightSemi(_) | JoinOperator::RightAnti(_) => known = own,
                _ => known.extend(own.into_iter().filter(|name| !known.contains(name)).collect::<Vec<_>>()),
            }
        }
        Ok(true)
    }

    /// The names of the columns of a relation.
    fn names(&self, relation: &TableFactor) -> Result<Vec<String>> {
        let from = TableWithJoins { relation: relation.clone(), joins: vec![] };
        let columns = self.columns(SelectItem::Wildcard(WildcardAdditionalOptions::default()), &[from])?;
        Ok(columns.into_iter().map(|column| column.name).collect())
    }

    /// The columns of a star over tables.
    fn columns(&self, star: SelectItem, from: &[TableWithJoins]) -> Result<Vec<Column>> {
        let mut query = parse_query("select * from t")?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection = vec![star];
            select.from = from.to_vec();
        }
        for with in self.with.iter().rev().flatten() {
            match &mut query.with {
                Some(inner) => drop(inner.cte_tables.splice(0..0, with.cte_tables.clone())),
                outer => *outer = Some(with.clone()),
            }
        }
        normalize::normalize(&mut query);
        let plan = self
            .session
            .planner(Emit::Final, |planner, _| planner.sql_statement_to_plan(Sql::Query(Box::new(query))))?;
        Ok(plan.schema().columns())
    }
}

/// The common columns of a natural join.
fn common_columns(left: &[String], right: &[String]) -> Result<Vec<ObjectName>> {
    let mut pairs = left.iter().flat_map(|left| right.iter().map(move |right| (left, right)));
    let alike = pairs.find(|(left, right)| left != right && left.eq_ignore_ascii_case(right));
    if let Some((left, right)) = alike {
        return plan_err!(
            "natural join: {left:?} and {right:?} are written in other letters; write join … on, or give one of them \
             another name"
        );
    }
    let columns: Vec<ObjectName> = left
        .iter()
        .filter(|name| right.contains(name))
        .map(|name| ObjectName::from(vec![Ident::with_quote('"', name)]))
        .collect();
    match columns.is_empty() {
        true => plan_err!(
            "natural join: these tables have no column of the same name; all pairs of rows are a cross join"
        ),
        false => Ok(columns),
    }
}
