//! `natural join`: `using` with the columns that both sides have. Which these are only the session knows, which knows the
//! tables; DataFusion's planner would take such a join for one `on` equal columns, and not merge them. What else only the
//! session knows is said on the same way: the columns of a star that has a `rename`.

use crate::emit::Emit;
use crate::names;
use crate::renames;
use crate::session::Session;
use crate::words;
use datafusion::common::{Column, Result};
use datafusion::sql::parser::{CopyToSource, CopyToStatement, Statement};
use datafusion::sql::sqlparser::ast::{
    Ident, JoinConstraint, ObjectName, Query, SelectItem, SetExpr, Statement as Sql, TableFactor,
    TableWithJoins, VisitMut, VisitorMut, WildcardAdditionalOptions, With,
};
use std::ops::ControlFlow;

/// Says natural joins with `using`, where the columns of the tables can be known.
pub(crate) fn said(session: &Session, statement: &mut Statement) {
    let mut natural = Natural { session, with: vec![] };
    // The visitor never breaks off.
    let _: ControlFlow<()> = match statement {
        Statement::Statement(statement) => statement.visit(&mut natural),
        Statement::Explain(explain) => return said(session, &mut explain.statement),
        Statement::CopyTo(CopyToStatement { source: CopyToSource::Query(query), .. }) => {
            query.visit(&mut natural)
        }
        _ => return,
    };
}

struct Natural<'a> {
    session: &'a Session,
    /// What the queries around have in their `with`.
    with: Vec<Option<With>>,
}

impl VisitorMut for Natural<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.with.push(query.with.clone());
        let mut found = false;
        words::selects(&mut query.body, &mut |select| {
            for from in &mut select.from {
                found |= self.named(from);
            }
        });
        if found {
            words::merged(query);
        }
        words::selects(&mut query.body, &mut |select| {
            renames::said(select, |star, from| self.columns(star, from));
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.with.pop();
        ControlFlow::Continue(())
    }
}

impl Natural<'_> {
    /// Names the columns of natural joins; whether there is one.
    fn named(&self, from: &mut TableWithJoins) -> bool {
        if !words::is_natural(from) {
            return false;
        }
        let Ok(mut known) = self.names(&from.relation) else { return true };
        for join in &mut from.joins {
            let Ok(own) = self.names(&join.relation) else { return true };
            if let Some(constraint) = words::constraint(&mut join.join_operator)
                && *constraint == JoinConstraint::Natural
            {
                let shared = known.iter().filter(|name| own.contains(name));
                let shared: Vec<ObjectName> =
                    shared.map(|name| ObjectName::from(vec![Ident::with_quote('"', name)])).collect();
                if !shared.is_empty() {
                    *constraint = JoinConstraint::Using(shared);
                }
            }
            known.extend(own.into_iter().filter(|name| !known.contains(name)).collect::<Vec<_>>());
        }
        true
    }

    /// The names of the columns of a relation.
    fn names(&self, relation: &TableFactor) -> Result<Vec<String>> {
        let from = TableWithJoins { relation: relation.clone(), joins: vec![] };
        let columns = self.columns(SelectItem::Wildcard(WildcardAdditionalOptions::default()), &[from])?;
        Ok(columns.into_iter().map(|column| column.name).collect())
    }

    /// The columns of a star over tables.
    fn columns(&self, star: SelectItem, from: &[TableWithJoins]) -> Result<Vec<Column>> {
        let mut query = crate::dialect::parse_query("select * from t")?;
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
        names::prepare(&mut query);
        let plan = self
            .session
            .planner(Emit::Final, |planner, _| planner.sql_statement_to_plan(Sql::Query(Box::new(query))))?;
        Ok(plan.schema().columns())
    }
}
