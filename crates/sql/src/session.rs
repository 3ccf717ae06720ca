//! A session: names and settings, and statements one by one.

use crate::aliases::Aliases;
use crate::asof::AsOf;
use crate::catalog::{Catalog, Memory, Table, TableKind, Tables};
use crate::dialect::{self, Parsed, Spelling};
use crate::division::Division;
use crate::emit::Emit;
use crate::files::Files;
use crate::functions::{self, Sequences, zones};
use crate::list_length::length;
use crate::multisets::Multisets;
use crate::natural;
use crate::optimize;
use crate::overflow::Overflow;
use crate::parameters::Parameters;
use crate::pivots::Pivots;
use crate::planned::{Planned, Store, Stored};
use crate::planner::{Candidate, ROWS_OF_A_SHARD, Shards};
use crate::references;
use crate::slices::Slices;
use crate::split::{self, Statement};
use crate::statement::{self, Prepared};
use crate::store;
use crate::texts::Texts;
use crate::times::Times;
use crate::truth::Truth;
use crate::type_names::type_of;
use crate::views;
use crate::windows::Windows;
use crate::zone;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, plan_err};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateDefaults};
use datafusion::logical_expr::{AggregateUDF, LogicalPlan, ScalarUDF};
use datafusion::optimizer::{Analyzer, AnalyzerRule, OptimizerRule};
use datafusion::prelude::SessionConfig;
use datafusion::sql::planner::SqlToRel;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex};
use whimbrel_plan::{Stream, avg_udaf, optimizer_rules, single_value, with_room};

/// Names, views and settings; plans statements one by one.
pub struct Session {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) tables: Tables,
    /// First parts of the names of tables that were made by themselves.
    pub(crate) schemas: BTreeSet<String>,
    pub(crate) sequences: Arc<Sequences>,
    /// The tables as they were when the transaction began, if one did.
    pub(crate) before: Option<Tables>,
    pub(crate) prepared: BTreeMap<String, Prepared>,
    pub(crate) shards: Option<usize>,
    pub(crate) shard_rows: usize,
    cores: Option<usize>,
    pub(crate) state: SessionState,
}

impl Session {
    /// A session that knows no name yet.
    pub fn new(files: Arc<dyn Files>) -> Session {
        let sequences = Arc::new(Sequences::default());
        Session {
            files,
            tables: Tables::new(),
            schemas: BTreeSet::new(),
            state: state(&sequences),
            sequences,
            before: None,
            prepared: BTreeMap::new(),
            shards: None,
            shard_rows: ROWS_OF_A_SHARD,
            cores: None,
        }
    }

    /// Gives a table or a stream a name. A table of that name is replaced.
    ///
    /// # Errors
    /// `Plan` if the stream cannot be read in one piece.
    pub fn register(&mut self, name: &str, stream: Stream) -> Result<()> {
        self.tables.insert(name.to_string(), Table::of(stream, TableKind::Registered)?);
        Ok(())
    }

    /// In how many shards files are read.
    pub fn set_shards(&mut self, shards: Option<usize>) {
        self.shards = shards;
    }

    /// How many rows a table has at least to be cut into shards; with fewer it stays in one.
    pub fn set_shard_rows(&mut self, rows: usize) {
        self.shard_rows = rows;
    }

    /// How many shards work at the same time where plans will run; all of them, if nobody says so.
    pub fn set_cores(&mut self, cores: usize) {
        self.cores = Some(cores);
    }

    /// All tables and views, by name.
    pub fn tables(&self) -> Vec<(String, Stream)> {
        self.tables.iter().map(|(name, table)| (name.clone(), table.stream.clone())).collect()
    }

    /// The names of all functions, in order.
    pub fn functions(&self) -> Vec<String> {
        statement::function_names(&self.state)
    }

    /// Cuts a script at its semicolons.
    ///
    /// # Errors
    /// `SQL` if a string or a comment does not end.
    pub fn split(script: &str) -> Result<Vec<Statement<'_>>> {
        split::split(script)
    }

    /// Plans one statement.
    ///
    /// # Errors
    /// `SQL` and `Plan` if the statement is wrong; [`render`](crate::render) shows where. What
    /// [`Files::open`] says of a file.
    pub fn plan(&mut self, sql: &str) -> Result<Planned> {
        self.respelled(sql, statement::plan)
    }

    /// Plans one statement that has places for values: `$1`, `?`, `$name`, `:name`.
    ///
    /// # Errors
    /// As `plan`; `Plan` if there is no value for a place.
    pub fn plan_with(&mut self, sql: &str, parameters: &mut Parameters) -> Result<Planned> {
        self.bound(sql, parameters, statement::plan)
    }

    /// All ways to run a query that has places for values.
    ///
    /// # Errors
    /// As `candidates`, and as `plan_with`.
    pub fn candidates_with(&mut self, sql: &str, parameters: &mut Parameters) -> Result<Vec<Candidate>> {
        self.bound(sql, parameters, |session, parsed| {
            statement::candidates(session, parsed.statement, parsed.emit)
        })
    }

    fn bound<T>(
        &mut self,
        sql: &str,
        parameters: &mut Parameters,
        make: impl Fn(&mut Session, Parsed) -> Result<T>,
    ) -> Result<T> {
        let before = parameters.clone();
        self.respelled(sql, |session, mut parsed| {
            // A statement may be read several times until its names are known.
            *parameters = before.clone();
            parameters.bind(&mut parsed.statement)?;
            make(session, parsed)
        })
    }

    /// All ways to run a query in shards that the planner knows, with their estimated costs; the first is the one
    /// that [`plan`](Session::plan) gives.
    ///
    /// # Errors
    /// As `plan`; `Plan` if the statement is no query.
    pub fn candidates(&mut self, sql: &str) -> Result<Vec<Candidate>> {
        self.respelled(sql, |session, parsed| statement::candidates(session, parsed.statement, parsed.emit))
    }

    /// What is made of a statement, in which names may have been written in other letters.
    fn respelled<T>(
        &mut self,
        sql: &str,
        mut make: impl FnMut(&mut Session, Parsed) -> Result<T>,
    ) -> Result<T> {
        self.state.mark_start_execution();
        let mut spelling = Spelling::default();
        with_room(|| {
            loop {
                let mut parsed = dialect::parse(sql, &spelling)?;
                let made = natural::said(self, &mut parsed.statement).and_then(|()| make(self, parsed));
                let Err(error) = &made else { return made };
                // Each round spells one name more: there are not more rounds than names.
                if !spelling.learn(error) {
                    return made;
                }
            }
        })
    }

    /// Puts the rows of a [`Planned::Store`] where they belong; says what was done.
    ///
    /// # Errors
    /// `Plan` if there is no such table any more, or the rows do not fit; `Execution` if they break a constraint.
    pub fn store(&mut self, store: &Store, schema: SchemaRef, rows: Vec<RecordBatch>) -> Result<Stored> {
        store::put(self, store, schema, rows)
    }

    /// What there is of a table in memory.
    pub(crate) fn memory(&self, name: &str) -> Result<&Memory> {
        match self.tables.get(name) {
            Some(Table { kind: TableKind::Memory(memory), .. }) => Ok(memory),
            _ => plan_err!("there is no table {name:?} that could be written into"),
        }
    }

    /// A table in memory. Its rows are as its constraints say.
    pub(crate) fn keep(&mut self, name: &str, schema: SchemaRef, table: Memory) -> Result<()> {
        table.constraints.hold(&self.state, name, &schema, &table.rows)?;
        references::hold(&self.tables, name, &schema, &table)?;
        let source = self.files.table(schema, table.rows.clone())?;
        views::see(&mut self.tables, name, &source)?;
        let stream = Stream::scan(name, source)?;
        self.tables.insert(name.to_string(), Table::of(stream, TableKind::Memory(table))?);
        Ok(())
    }

    /// Asks DataFusion's planner, with the names of this session, for rows that are handed out as said.
    pub(crate) fn planner<T>(
        &self,
        emit: Emit,
        ask: impl FnOnce(&SqlToRel<'_, Catalog<'_>>, &Catalog<'_>) -> Result<T>,
    ) -> Result<T> {
        let catalog = Catalog {
            state: &self.state,
            tables: &self.tables,
            files: self.files.as_ref(),
            shards: self.shards,
            emit,
            opened: Mutex::default(),
        };
        ask(&SqlToRel::new(&catalog), &catalog)
    }

    /// The stream that a planned query is.
    pub(crate) fn stream(&self, plan: LogicalPlan) -> Result<Stream> {
        optimize::stream(&self.state, plan, self.in_shards())
    }

    fn in_shards(&self) -> Shards {
        let count = self.shards.unwrap_or(1);
        Shards { count, rows: self.shard_rows, cores: self.cores.unwrap_or(count) }
    }

    /// All ways to run a planned query.
    pub(crate) fn ways(&self, plan: LogicalPlan) -> Result<Vec<Candidate>> {
        optimize::candidates(&self.state, plan, self.in_shards())
    }
}

/// DataFusion's settings, for plans that are run elsewhere.
pub(crate) fn config() -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(1);
    let options = config.options_mut();
    options.sql_parser.collect_spans = true;
    // `0.06 + 0.01` is 0.07, as in every other SQL.
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    // As in DuckDB, and in the fluent program, whichever way rows are ordered.
    options.sql_parser.default_null_ordering = "nulls_last".to_string();
    // It takes fields of structs beneath other steps, to sources that could read them alone: ours read columns. And it
    // loses the names of tables where a column stands beside its fields.
    options.optimizer.enable_leaf_expression_pushdown = false;
    // A plan is its nodes: a subquery inside of an expression would be cut into no stage.
    options.optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    config
}

/// What all sessions begin with, put together once.
static COMMON: LazyLock<SessionState> = LazyLock::new(common);

/// DataFusion's functions, analyzer and optimizer, and the functions of a session's own sequences.
fn state(sequences: &Arc<Sequences>) -> SessionState {
    let mut state = COMMON.clone();
    for function in functions::of_sequences(sequences) {
        // A session state takes every function.
        state.register_udf(function).ok();
    }
    state
}

/// The names of all functions but sequences, in order.
pub(crate) fn functions() -> Vec<String> {
    statement::function_names(&COMMON)
}

/// Whether a function is of the values of one row.
pub(crate) fn is_of_one_row(function: &str) -> bool {
    let higher_order = || COMMON.higher_order_functions().contains_key(function);
    COMMON.scalar_functions().contains_key(function) || higher_order() || function == "unnest"
}

fn common() -> SessionState {
    let mut state = SessionStateBuilder::new()
        .with_config(config())
        .with_expr_planners(vec![
            Arc::new(Truth),
            Arc::new(Times),
            Arc::new(Overflow),
            Arc::new(Division),
            Arc::new(Slices),
        ])
        .with_default_features()
        .with_scalar_functions(scalars())
        .with_aggregate_functions(aggregates())
        .with_relation_planners(vec![
            Arc::new(Windows),
            Arc::new(AsOf),
            Arc::new(Multisets),
            Arc::new(Pivots),
            Arc::new(Aliases),
        ])
        .with_analyzer_rules(analyzer())
        .with_optimizer_rules(rules())
        .build();
    // The zone is one that there is.
    zone::set(&mut state, zones::DEFAULT).ok();
    state
}

/// DataFusion's analyzer, and what is to be said once types are known.
fn analyzer() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut all = Analyzer::new().rules;
    all.push(Arc::new(Texts));
    all
}

/// DataFusion's functions of values, and ours.
fn scalars() -> Vec<Arc<ScalarUDF>> {
    let mut all = SessionStateDefaults::default_scalar_functions();
    all.push(type_of());
    all.push(length());
    all.extend(functions::all());
    all
}

/// DataFusion's aggregates, and ours.
fn aggregates() -> Vec<Arc<AggregateUDF>> {
    let mut all = SessionStateDefaults::default_aggregate_functions();
    all.push(single_value());
    all.push(avg_udaf());
    all
}

/// DataFusion's rules, without the one that gives names to what is computed twice: what people read and print keeps their
/// expressions, and the rule is applied where a fragment is lowered.
fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let named =
        |rule: &Arc<dyn OptimizerRule + Send + Sync>| rule.name() == "common_sub_expression_eliminate";
    optimizer_rules().into_iter().filter(|rule| !named(rule)).collect()
}
