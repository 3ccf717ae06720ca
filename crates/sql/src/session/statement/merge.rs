//! `merge into t using s on …`: each row of `t`, of `s`, or of both where they match, goes to the first
//! `when` whose condition holds.
//!
//! Invariants: the table changes at once, and its constraints are checked after all changes; a row keeps its
//! place, and new rows follow all others, in the order of `s`; a row that several rows of `s` match is an
//! error, in any `when`.
//!
//! ```sql
//! merge into t using s on t.k = s.k
//!     when matched and s.gone then delete
//!     when matched then update set x = s.x
//!     when not matched then insert (k, x) values (s.k, s.x);
//! ```

use super::conflict::returning;
use super::query::query_plan;
use super::target::{Qualify, Target, assigned_column, assignments, is_default, only_table};
use crate::columns::with_unique_names;
use crate::session::planned::{Action, Planned, Store, StoreMode};
use crate::session::state::Session;
use crate::syntax::Emit;
use crate::syntax::parse_query;
use crate::syntax::walk::walk_mut;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::{Expr as Expression, LogicalPlanBuilder, cast, ident, lit, when};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Merge, MergeAction, MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind,
    MergeUpdateExpr, OutputClause, TableFactor, TableWithJoins,
};
use whimbrel_plan::names::unknown_column;

/// The number of a row in the table, and in the source; null where the row is not on that side.
const TARGET_ROW: &str = "__target_row";
/// The number of a row in the source.
const SOURCE_ROW: &str = "__source_row";
/// The number of the `when` of a row, from one; 0 is none.
const CLAUSE: &str = "__clause";
/// The [`Action`] on a row.
const ACTION: &str = "__action";

/// `merge into`; `with` stands before it.
///
/// # Errors
/// `Plan` if the table cannot be written into, or a `when` makes no sense.
pub(super) fn merge(session: &Session, with: &str, mut merge: Merge) -> Result<Planned> {
    let table = [TableWithJoins { relation: merge.table.clone(), joins: vec![] }];
    let (given, relation) = only_table(&table)?;
    let target = Target::of(session, given, relation)?;
    let schema = session.tables[&target.table].stream.schema().clone();
    let sides = Sides {
        target: name_of(&merge.table, "the table")?,
        source: name_of(&merge.source, "what follows using")?,
    };
    let clauses = merge.clauses.iter().map(|clause| sides.clause(&target.table, &schema, clause));
    let clauses = clauses.collect::<Result<Vec<_>>>()?;
    let returned = match merge.output.take() {
        Some(OutputClause::Returning { select_items, .. }) => Some(select_items),
        Some(OutputClause::Output { .. }) => return plan_err!("merge: write returning in place of output"),
        None => None,
    };
    let store = Store {
        returning: returning(session, &target, returned)?,
        ..Store::new(target.table.clone(), StoreMode::Merge)
    };
    let query = sides.query(with, given, &merge, &schema, &clauses);
    let rows = with_unique_names(query_plan(session, parse_query(&query)?, Emit::Final)?)?;
    let defaults = &session.memory(&target.table)?.defaults;
    let mut values = Vec::new();
    for (at, (column, field)) in rows.schema().columns().into_iter().zip(schema.fields()).enumerate() {
        // The type of a case is known only when its arms have been coerced.
        let mut value = cast(Expression::Column(column), field.data_type().clone());
        let by_default = |(_, clause): &(usize, &Clause)| matches!(clause.values[at], Given::Default);
        let numbers: Vec<Expression> =
            clauses.iter().enumerate().filter(by_default).map(|(number, _)| lit(number as i64 + 1)).collect();
        if let (Some(default), false) = (defaults.get(field.name()), numbers.is_empty()) {
            let default = cast(default.clone(), field.data_type().clone());
            value = when(ident(CLAUSE).in_list(numbers, false), default).otherwise(value)?;
        }
        values.push(value.alias(field.name()));
    }
    values.push(ident(ACTION));
    let stream = session.stream(LogicalPlanBuilder::from(rows).project(values)?.build()?)?;
    Ok(Planned::Store { stream, store: Box::new(store) })
}

/// The value that a column gets.
#[derive(Clone)]
enum Given {
    /// The value that it has.
    Own,
    /// Its default.
    Default,
    /// A value.
    Value(Box<Expr>),
}

/// A `when`.
struct Clause {
    /// The rows that go to it.
    condition: String,
    /// The action on these rows.
    action: Action,
    /// The value that each column of the table gets.
    values: Vec<Given>,
}

/// The names of both tables in the statement.
struct Sides {
    /// The name of the table.
    target: Ident,
    /// The name of the source.
    source: Ident,
}

/// The name of a relation.
fn name_of(relation: &TableFactor, what: &str) -> Result<Ident> {
    let name = match relation {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.clone())
        }
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident().cloned()),
        _ => None,
    };
    name.ok_or_else(|| DataFusionError::Plan(format!("merge: give {what} a name, {relation} as s")))
}

impl Sides {
    /// One `when … then …`.
    fn clause(&self, table: &str, schema: &SchemaRef, clause: &MergeClause) -> Result<Clause> {
        let Sides { target, source } = self;
        let (rows, only) = match clause.clause_kind {
            MergeClauseKind::Matched => {
                (format!("{target}.{TARGET_ROW} is not null and {source}.{SOURCE_ROW} is not null"), None)
            }
            MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => {
                (format!("{target}.{TARGET_ROW} is null"), Some(source))
            }
            MergeClauseKind::NotMatchedBySource => (format!("{source}.{SOURCE_ROW} is null"), Some(target)),
        };
        // Where there is no row of the other side, a column without the name of a table is of this one.
        let qualified = |expr: &Expr| {
            let mut expr = expr.clone();
            if let (Some(table), false) = (only, is_default(&expr)) {
                // The visitor never breaks off.
                let _ = walk_mut(&mut expr, &mut Qualify { table: table.clone() });
            }
            expr
        };
        let condition = match &clause.predicate {
            Some(predicate) => format!("{rows} and ({})", qualified(predicate)),
            None => rows,
        };
        let (action, given) = match &clause.action {
            MergeAction::Delete { .. } => (Action::Delete, vec![]),
            MergeAction::Update(update) => (Action::Update, updated(table, update)?),
            MergeAction::Insert(insert) => (Action::Insert, inserted(table, schema, insert)?),
        };
        let otherwise = if action == Action::Insert { Given::Default } else { Given::Own };
        let mut values = vec![otherwise; schema.fields().len()];
        let mut set = vec![false; values.len()];
        for (column, value) in given {
            let Ok(at) = schema.index_of(&column) else {
                let known: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
                return Err(unknown_column(&column, &known));
            };
            if std::mem::replace(&mut set[at], true) {
                return plan_err!("merge into {table}: column {column:?} gets two values");
            }
            values[at] =
                if is_default(&value) { Given::Default } else { Given::Value(Box::new(qualified(&value))) };
        }
        Ok(Clause { condition, action, values })
    }

    /// All rows that the table had and gets; and of each, the `when` that it went through, and what becomes
    /// of it.
    fn query(
        &self,
        with: &str,
        given: &impl std::fmt::Display,
        merge: &Merge,
        schema: &SchemaRef,
        clauses: &[Clause],
    ) -> String {
        let Sides { target, source } = self;
        let columns = schema.fields().iter().enumerate().map(|(at, field)| {
            let name = Ident::with_quote('"', field.name());
            let own = format!("{target}.{name}");
            let value = |_: usize, clause: &Clause| match &clause.values[at] {
                Given::Own => own.clone(),
                Given::Default => "null".to_string(),
                Given::Value(value) => format!("({value})"),
            };
            format!("{} as {name}", case(clauses, value, &own))
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        let clause = case(clauses, |at, _| format!("cast({} as bigint)", at + 1), "0");
        let action = case(clauses, |_, clause| format!("cast({} as bigint)", clause.action as i64), "0");
        let new: Vec<String> = clauses
            .iter()
            .filter(|clause| clause.action == Action::Insert)
            .map(|clause| format!("or ({})", clause.condition))
            .collect();
        let join = if new.is_empty() { "left" } else { "full" };
        format!(
            "{with} select {columns}, {clause} as {CLAUSE}, {action} as {ACTION} \
             from (select *, row_number() over () as {TARGET_ROW} from {given}) as {target} \
             {join} join (select *, row_number() over () as {SOURCE_ROW} from {}) as {source} on {} \
             where {target}.{TARGET_ROW} is not null {} \
             order by {target}.{TARGET_ROW} nulls last, {source}.{SOURCE_ROW}",
            merge.source,
            merge.on,
            new.join(" ")
        )
    }
}

/// What the first `when` gives that holds of a row.
fn case(clauses: &[Clause], value: impl Fn(usize, &Clause) -> String, otherwise: &str) -> String {
    let arms = clauses.iter().enumerate();
    let arms = arms.map(|(at, clause)| format!("when {} then {}", clause.condition, value(at, clause)));
    match arms.collect::<Vec<_>>().join(" ") {
        none if none.is_empty() => otherwise.to_string(),
        arms => format!("case {arms} else {otherwise} end"),
    }
}

/// The columns that `update set` assigns.
fn updated(table: &str, update: &MergeUpdateExpr) -> Result<Vec<(String, Expr)>> {
    if update.update_predicate.is_some() || update.delete_predicate.is_some() {
        return plan_err!("merge into {table}: write conditions before then, when matched and …");
    }
    let values = assignments(table, &update.assignments)?;
    Ok(values.into_iter().map(|(column, value)| (column, value.clone())).collect())
}

/// The columns that `insert` assigns.
fn inserted(table: &str, schema: &SchemaRef, insert: &MergeInsertExpr) -> Result<Vec<(String, Expr)>> {
    if insert.insert_predicate.is_some() {
        return plan_err!("merge into {table}: write conditions before then, when not matched and …");
    }
    let MergeInsertKind::Values(values) = &insert.kind else {
        return plan_err!("merge into {table}: name what is inserted, insert (a, b) values (s.a, s.b)");
    };
    let columns: Vec<String> = match insert.columns.as_slice() {
        [] => schema.fields().iter().map(|field| field.name().clone()).collect(),
        given => given.iter().map(assigned_column).collect::<Result<_>>()?,
    };
    match values.rows.as_slice() {
        [row] if row.content.len() == columns.len() => {
            Ok(columns.into_iter().zip(row.content.iter().cloned()).collect())
        }
        _ => plan_err!("merge into {table}: insert takes one row of {} values", columns.len()),
    }
}
