//! Delta queries: what of a view depends on one row of a table, as bounded queries.
//!
//! For a row with a given key there is one query for each place that its table has in the view: the joins
//! with that key there, and with another in the places before, so that no row of the joins is counted twice.
//! A change takes away what they return before it and adds what they return after it (Gupta, Mumick and
//! Subrahmanian, *Maintaining Views Incrementally*, SIGMOD 1993; the bound on each of them is Armbrust et
//! al., *Generalized Scale Independence Through Incremental Precomputation*, SIGMOD 2013).
//!
//! Invariant: every query here has a bound. A table whose changes have none is either one that others refer
//! to, and then the columns that the view uses are frozen, or the view is refused.

use super::definition::Definition;
use super::shape::{Aggregate, Function, Relation, Slot};
use crate::arguments::Argument;
use crate::bound::WriteBound;
use crate::compile::{CompileError, Compiler, UnboundedRelation};
use crate::datum::Datum;
use crate::error::{Error, Result};
use crate::execute::{Call, Executor, Program, run};
use crate::expression::placeholder;
use crate::mutation::WriteKind;
use crate::plan::{Plan, draw};
use crate::refusal::{Fix, Refusal};
use crate::schema::{Change, IndexState, Schema, Table};
use crate::store::{Capabilities, Store};
use crate::syntax::{self, Parameter};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::{Column, ScalarValue, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use std::sync::Arc;

/// A compiled query.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    /// The plan.
    pub plan: Plan,
    /// The plan, lowered.
    program: Arc<Program>,
}

impl Query {
    /// Lowers a plan.
    fn new(plan: Plan) -> Result<Query> {
        let program = Arc::new(Program::new(&plan.chain, &plan.parameters)?);
        Ok(Query { plan, program })
    }

    /// Runs it with these values.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer, `Data` if an expression fails.
    pub fn run(&self, store: &dyn Store, values: &[ScalarValue]) -> Result<RecordBatch> {
        let values: Vec<Argument> = values.iter().cloned().map(Argument::One).collect();
        let call = Call::new(store, Executor::Parallel, &self.plan.parameters, &values, None)?;
        Ok(run(&self.program, &call)?.batch)
    }
}

/// How a view is maintained when the rows of one table change.
#[derive(Debug, Clone)]
pub(crate) struct Maintained {
    /// The view's table.
    pub view: Arc<Table>,
    /// What the view is.
    pub definition: Arc<Definition>,
    /// Other relations refer to the table, so rows that are inserted or deleted are in no row of the view.
    pub parent: bool,
    /// The columns that the view uses, but for the primary key.
    pub used: Vec<usize>,
    /// One delta for each occurrence of the table; none if the used columns are frozen.
    pub deltas: Vec<Query>,
    /// For each minimum or maximum, the query for the next one in a group.
    pub extremes: Vec<Option<Query>>,
}

/// Compiles the queries of one view.
pub(super) struct DeltaCompiler<'a> {
    pub schema: &'a Schema,
    pub capabilities: Capabilities,
    pub definition: &'a Arc<Definition>,
}

impl DeltaCompiler<'_> {
    /// How the view follows a table.
    ///
    /// # Errors
    /// `Unbounded` if a change of the table has no bounded delta.
    pub fn maintained(&self, view: &Arc<Table>, table: &str) -> Result<Maintained> {
        let places = self.definition.relations.iter().enumerate();
        let places: Vec<(usize, &Relation)> = places.filter(|(_, r)| r.table.name == table).collect();
        let mut used: Vec<usize> = places.iter().flat_map(|(_, relation)| relation.used.clone()).collect();
        used.sort_unstable();
        used.dedup();
        let parent = places.iter().all(|(_, relation)| relation.parent);
        let mut deltas = Vec::new();
        for (place, relation) in &places {
            match self.delta(*place) {
                Ok(query) => deltas.push(query),
                Err(CompileError::Other(error)) => return Err(error),
                Err(CompileError::Unbounded(_)) if parent => {}
                Err(CompileError::Unbounded(dead_end)) => {
                    return Err(self.refusal(view, *place, relation, &dead_end));
                }
            }
        }
        let aggregates = self.definition.aggregates.iter();
        let extremes = aggregates.map(|aggregate| self.extreme(view, aggregate)).collect::<Result<_>>()?;
        let definition = self.definition.clone();
        Ok(Maintained { view: view.clone(), definition, parent, used, deltas, extremes })
    }

    /// The delta of a row in this place: groups, arguments of aggregates, and the key of the driving row.
    ///
    /// # Errors
    /// [`CompileError::Unbounded`] if the delta has no bound.
    pub fn delta(&self, place: usize) -> std::result::Result<Query, CompileError> {
        let relations = &self.definition.relations;
        let here = &relations[place];
        let mut filter = key_equals(here);
        let before = relations[..place].iter().filter(|other| other.table.name == here.table.name);
        for other in before {
            filter = filter.and(Expr::Not(Box::new(key_equals(other))));
        }
        let arguments = self.definition.aggregates.iter().filter_map(|aggregate| aggregate.argument.as_ref());
        let driver = self.definition.driver().into_iter().flat_map(key_of);
        let columns = self.definition.group.iter().chain(arguments).cloned().chain(driver);
        let columns: Vec<Expr> = columns.enumerate().map(|(at, expr)| expr.alias(format!("c{at}"))).collect();
        let plan = LogicalPlanBuilder::from(self.definition.input.clone())
            .filter(filter)?
            .project(columns)?
            .build()?;
        self.compile(&plan, here.table.key_columns().len())
    }

    /// The query for the minimum or maximum of a group.
    fn extreme(&self, view: &Table, aggregate: &Aggregate) -> Result<Option<Query>> {
        let Some(argument) = aggregate.argument.as_ref().filter(|_| aggregate.function.is_extreme()) else {
            return Ok(None);
        };
        let mut filter: Option<Expr> = None;
        for (at, expr) in self.definition.group.iter().enumerate() {
            let column = self.definition.column(Slot::Group(at)).unwrap_or_default();
            if view.columns[column].is_nullable() {
                return Err(Error::invalid(format!(
                    "{}: {} can be null, and the least or greatest value of such a group is not found again \
                     when it goes: declare the column not null, or add `is not null` and a cast of it to the view",
                    view.name, view.columns[column].name
                )));
            }
            let equal =
                expr.clone().eq(placeholder(&format!("${}", at + 1), &view.columns[column].of.arrow()));
            filter = Some(filter.map_or(equal.clone(), |filter| filter.and(equal)));
        }
        let mut plan = LogicalPlanBuilder::from(self.definition.input.clone());
        if let Some(filter) = filter {
            plan = plan.filter(filter)?;
        }
        let order =
            Expr::Column(Column::new_unqualified("c0")).sort(aggregate.function == Function::Min, false);
        let plan = plan.project([argument.clone().alias("c0")])?.sort([order])?.limit(0, Some(1))?.build()?;
        match self.compile(&plan, self.definition.group.len()) {
            Ok(query) => Ok(Some(query)),
            Err(CompileError::Other(error)) => Err(error),
            Err(CompileError::Unbounded(dead_end)) => Err(Error::Unbounded(Box::new(Refusal {
                sql: self.sql(),
                drawing: draw(&plan, &dead_end.alias, &dead_end.table.name),
                reason: format!(
                    "when the least or greatest value of a group of {} goes, the next one has to be found: {}",
                    view.name,
                    dead_end.reason()
                ),
                bounded: false,
                fixes: self
                    .fixes(&dead_end, &|compiling| Ok(compiling.extreme(view, aggregate)?.map(|q| q.plan))),
            }))),
        }
    }

    /// Compiles a query with this many parameters, all of them keys or groups.
    fn compile(&self, plan: &LogicalPlan, parameters: usize) -> std::result::Result<Query, CompileError> {
        let parameters = vec![Parameter::default(); parameters];
        let plan = Compiler::new(self.schema, self.capabilities, false, &parameters).compile(plan, None)?;
        Ok(Query::new(plan)?)
    }

    /// The statement that creates the view.
    fn sql(&self) -> String {
        let table = &self.definition.table;
        let sql = table.view.as_ref().map_or("", |view| view.sql.as_str());
        format!("create materialized view {} as {sql}", table.name)
    }

    /// The refusal of a view whose delta has no bound.
    fn refusal(
        &self,
        view: &Table,
        place: usize,
        relation: &Relation,
        dead_end: &UnboundedRelation,
    ) -> Error {
        let reason = format!(
            "when a row of {} changes, so does {}, and {}",
            relation.table.name,
            view.name,
            dead_end.reason()
        );
        Error::Unbounded(Box::new(Refusal {
            sql: self.sql(),
            drawing: draw(&self.definition.input, &dead_end.alias, &dead_end.table.name),
            reason,
            bounded: false,
            fixes: self.fixes(dead_end, &|compiling| match compiling.delta(place) {
                Ok(query) => Ok(Some(query.plan)),
                Err(_) => Ok(None),
            }),
        }))
    }

    /// Cardinality limits that give the query a bound. Each was compiled.
    fn fixes(
        &self,
        dead_end: &UnboundedRelation,
        again: &dyn Fn(&DeltaCompiler<'_>) -> Result<Option<Plan>>,
    ) -> Vec<Fix> {
        let table = &dead_end.table;
        let mut fixes = Vec::new();
        for at in &dead_end.equal {
            let column = &table.columns[*at].name;
            let paste = format!(
                "alter table {} add cardinality limit 100 ({column});",
                syntax::quote_name(&table.name)
            );
            let tried = || {
                let change = Change::of(&syntax::parse(&paste)?)?;
                let Some(change) = change else { return Ok(None) };
                let schema = change.apply(self.schema)?.0.ready();
                let table_of_view = &self.definition.table;
                let sql = table_of_view.view.as_ref().map_or("", |view| view.sql.as_str());
                let definition = Arc::new(Definition::new(&schema, &table_of_view.name, sql)?);
                again(&DeltaCompiler {
                    schema: &schema,
                    capabilities: self.capabilities,
                    definition: &definition,
                })
            };
            if let Ok::<_, Error>(Some(plan)) = tried() {
                let title = format!(
                    "say that at most 100 rows of {} have the same {column} (put your own number)",
                    table.name
                );
                fixes.push(Fix { title, paste, changes_schema: true, bound: plan.bound });
            }
        }
        fixes
    }
}

/// The key of a relation, as expressions.
fn key_of(relation: &Relation) -> Vec<Expr> {
    let names = relation.table.key_columns().into_iter().map(|at| &relation.table.columns[at].name);
    names
        .map(|name| Expr::Column(Column::new(Some(TableReference::bare(relation.alias.as_str())), name)))
        .collect()
}

/// The predicate that a relation's key equals the parameters.
fn key_equals(relation: &Relation) -> Expr {
    let types = relation.table.key_columns().into_iter().map(|at| relation.table.columns[at].of.arrow());
    let parts = key_of(relation).into_iter().zip(types).enumerate();
    let equal = parts.map(|(at, (column, of))| column.eq(placeholder(&format!("${}", at + 1), &of)));
    equal.reduce(Expr::and).unwrap_or_else(|| datafusion::logical_expr::lit(true))
}

impl Maintained {
    /// Whether the view is still being filled.
    pub fn is_building(&self) -> bool {
        self.view.view.as_ref().is_some_and(|view| view.state == IndexState::Building)
    }

    /// Whether the change of a row, from old to new values, changes the view.
    ///
    /// # Errors
    /// `Data` if the change needs a delta that has no bound.
    pub fn is_touched(
        &self,
        table: &Table,
        old: Option<&[ArrayRef]>,
        new: Option<&[ArrayRef]>,
    ) -> Result<bool> {
        let (Some(old), Some(new)) = (old, new) else { return Ok(!self.parent) };
        for at in &self.used {
            if Datum::of(&old[*at], 0)? != Datum::of(&new[*at], 0)? {
                if self.deltas.is_empty() {
                    return Err(Error::Data(self.frozen_message(table, *at)));
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The error for a change of a frozen column.
    pub fn frozen_message(&self, table: &Table, column: usize) -> String {
        format!(
            "{}.{} does not change while the view {} is there: nothing limits how many of its rows would have to. \
             Give a cardinality limit to what refers to {}, or drop the view",
            table.name, table.columns[column].name, self.view.name, table.name
        )
    }

    /// How often the deltas run for a change of a row.
    pub fn runs(&self, kind: WriteKind, changed: &[usize]) -> u64 {
        let touched = self.used.iter().any(|at| changed.contains(at));
        match kind {
            WriteKind::Insert | WriteKind::Delete => u64::from(!self.parent),
            WriteKind::Upsert => 2,
            WriteKind::Update => 2 * u64::from(touched),
        }
    }

    /// The bound of maintaining the view for some changed rows. `entries` returns how many entries a row has
    /// in all indexes.
    pub fn bound(
        &self,
        kind: WriteKind,
        changed: &[usize],
        rows: u64,
        entries: &dyn Fn(&Table) -> u64,
    ) -> WriteBound {
        let runs = self.runs(kind, changed).saturating_mul(rows);
        let mut bound = WriteBound::default();
        if runs == 0 || self.deltas.is_empty() {
            return bound;
        }
        let mut groups = 0_u64;
        for delta in &self.deltas {
            bound.then(&read_cost(&delta.plan, rows).times(runs));
            groups = groups.saturating_add(delta.plan.bound.rows.saturating_mul(runs));
        }
        // The version of the schema is read before, and the watermark of a view that is being filled.
        bound.then(&WriteBound { requests: 1, rounds: 1, conditions: 1, ..WriteBound::default() });
        for extreme in self.extremes.iter().flatten() {
            bound.then(&read_cost(&extreme.plan, rows).times(groups));
        }
        let written = 1_u64.saturating_add(entries(&self.view).saturating_mul(2));
        bound.then(&WriteBound {
            rows: 0,
            requests: groups,
            rounds: 1,
            conditions: groups,
            writes: groups.saturating_mul(written),
        });
        bound
    }
}

/// The cost of a query and of its conditions in the commit. Rows that the statement deletes make its ranges
/// longer.
fn read_cost(plan: &Plan, rows: u64) -> WriteBound {
    let bound = &plan.bound;
    WriteBound {
        rows: 0,
        requests: bound.requests,
        rounds: bound.rounds,
        conditions: bound.requests.saturating_mul(1_u64.saturating_add(rows)).saturating_add(bound.tuples),
        writes: 0,
    }
}
