//! What a session knows: names, settings, and DataFusion's state.

use super::defaults;
use crate::catalog::{Catalog, Memory, Table, TableKind, Tables, check_foreign_keys, views};
use crate::files::Files;
use crate::functions::Sequences;
use crate::planner::{self, Candidate, Policy, ROWS_OF_A_SHARD, Shards};
use crate::rewrite::rewrite;
use crate::syntax::Emit;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, plan_err};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::planner::SqlToRel;
use datafusion::sql::sqlparser::ast::{DataType, Statement as Sql};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use whimbrel_plan::Stream;

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
            state: defaults::state(&sequences),
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
        function_names(&self.state)
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
        table.constraints.check_rows(&self.state, name, &schema, &table.rows)?;
        check_foreign_keys(&self.tables, name, &schema, &table)?;
        let source = self.files.table(schema, table.rows.clone())?;
        views::rebind_views(&mut self.tables, name, &source)?;
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
        let plan = planner::optimize(&self.state, rewrite(&self.state, plan)?)?;
        Stream::from_plan(planner::shard(plan, self.in_shards(), Policy::default())?.plan)
    }

    fn in_shards(&self) -> Shards {
        let count = self.shards.unwrap_or(1);
        Shards { count, rows: self.shard_rows, cores: self.cores.unwrap_or(count) }
    }

    /// All ways to run a planned query.
    pub(crate) fn ways(&self, plan: LogicalPlan) -> Result<Vec<Candidate>> {
        planner::candidates(&self.state, rewrite(&self.state, plan)?, self.in_shards())
    }
}

/// The names of all functions of a session, in order.
pub(super) fn function_names(state: &SessionState) -> Vec<String> {
    let names: BTreeSet<String> =
        state.udfs().into_iter().chain(state.udafs()).chain(state.udwfs()).collect();
    names.into_iter().collect()
}

/// A statement with places for values.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub statement: Sql,
    pub types: Vec<DataType>,
}
