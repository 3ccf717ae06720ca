//! The state of a session: tables, settings, and DataFusion's state.

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

/// Tables, views and settings; plans statements one by one.
///
/// ```
/// # use datafusion::{arrow, common::Result};
/// # use std::sync::Arc;
/// # use whimbrel_plan::Source;
/// # use whimbrel_sharded::dataset::{FileDataset, MemoryDataset};
/// use whimbrel_sql::{FileOptions, Files, Planned, Session};
///
/// struct Datasets;
///
/// impl Files for Datasets {
///     fn open(&self, location: &str, options: &FileOptions) -> Result<Arc<dyn Source>> {
///         Ok(Arc::new(FileDataset::open(&[location.to_string()], options.shards)?))
///     }
///
///     fn table(
///         &self,
///         schema: arrow::datatypes::SchemaRef,
///         rows: Vec<arrow::record_batch::RecordBatch>,
///     ) -> Result<Arc<dyn Source>> {
///         Ok(Arc::new(MemoryDataset::new(schema, vec![rows])?))
///     }
/// }
///
/// let mut session = Session::new(Arc::new(Datasets));
/// session.plan("create table cities (name text, people bigint)")?;
/// let Planned::Query(stream) = session.plan("select max(people) as most from cities")? else {
///     panic!("a select is a query");
/// };
/// assert_eq!(stream.schema().field(0).name(), "most");
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
pub struct Session {
    /// Opens files and keeps rows.
    pub(crate) files: Arc<dyn Files>,
    /// Tables and views by name.
    pub(crate) tables: Tables,
    /// Schemas that were created: the first parts of names of tables.
    pub(crate) schemas: BTreeSet<String>,
    /// Sequences by name.
    pub(crate) sequences: Arc<Sequences>,
    /// The tables at the beginning of the transaction, if there is one.
    pub(crate) snapshot: Option<Tables>,
    /// Prepared statements by name.
    pub(crate) prepared: BTreeMap<String, Prepared>,
    /// In how many shards files are read.
    pub(crate) shards: Option<usize>,
    /// From how many rows on a table is cut into shards.
    pub(crate) shard_rows: usize,
    /// How many shards run at the same time.
    cores: Option<usize>,
    transfer_costs: (f64, f64),
    /// DataFusion's functions and settings.
    pub(crate) state: SessionState,
}

impl Session {
    /// A session without tables.
    pub fn new(files: Arc<dyn Files>) -> Session {
        let sequences = Arc::new(Sequences::default());
        Session {
            files,
            tables: Tables::new(),
            schemas: BTreeSet::new(),
            state: defaults::state(&sequences),
            sequences,
            snapshot: None,
            prepared: BTreeMap::new(),
            shards: None,
            shard_rows: ROWS_OF_A_SHARD,
            cores: None,
            transfer_costs: (0.0, 0.0),
        }
    }

    /// Registers a table or a stream. A table of the same name is replaced.
    ///
    /// # Errors
    /// `Plan` if the stream cannot be brought to one shard.
    pub fn register(&mut self, name: &str, stream: Stream) -> Result<()> {
        self.tables.insert(name.to_string(), Table::of(stream, TableKind::Registered)?);
        Ok(())
    }

    /// In how many shards files are read, if that was set.
    pub fn shards(&self) -> Option<usize> {
        self.shards
    }

    /// Sets in how many shards files are read.
    pub fn set_shards(&mut self, shards: Option<usize>) {
        self.shards = shards;
    }

    /// Sets from how many rows on a table is cut into shards.
    pub fn set_shard_rows(&mut self, rows: usize) {
        self.shard_rows = rows;
    }

    /// Sets how many shards run at the same time; all of them by default.
    pub fn set_cores(&mut self, cores: usize) {
        self.cores = Some(cores);
    }

    /// Sets what it costs to bring rows from one shard to another that is in another process: nanoseconds for
    /// each movement, and for each byte.
    pub fn set_transfer_costs(&mut self, movement: f64, byte: f64) {
        self.transfer_costs = (movement, byte);
    }

    /// All tables and views, by name.
    pub fn tables(&self) -> Vec<(String, Stream)> {
        self.tables.iter().map(|(name, table)| (name.clone(), table.stream.clone())).collect()
    }

    /// The names of all functions, in order.
    pub fn functions(&self) -> Vec<String> {
        function_names(&self.state)
    }

    /// A table in memory.
    ///
    /// # Errors
    /// `Plan` if there is none of this name.
    pub(crate) fn memory(&self, name: &str) -> Result<&Memory> {
        match self.tables.get(name) {
            Some(Table { kind: TableKind::Memory(memory), .. }) => Ok(memory),
            _ => plan_err!("there is no table {name:?} that could be written into"),
        }
    }

    /// Creates or replaces a table in memory, checks its constraints, and rebinds the views over it.
    ///
    /// # Errors
    /// `Execution` if a row breaks a constraint.
    pub(crate) fn put_table(&mut self, name: &str, schema: SchemaRef, table: Memory) -> Result<()> {
        table.constraints.check_rows(&self.state, name, &schema, &table.rows)?;
        check_foreign_keys(&self.tables, name, &schema, &table)?;
        let source = self.files.table(schema, table.rows.clone())?;
        views::rebind_views(&mut self.tables, name, &source)?;
        let stream = Stream::scan(name, source)?;
        self.tables.insert(name.to_string(), Table::of(stream, TableKind::Memory(table))?);
        Ok(())
    }

    /// Calls DataFusion's planner with the catalog of this session.
    ///
    /// # Errors
    /// Those of the planner.
    pub(crate) fn planner<T>(
        &self,
        emit: Emit,
        plan: impl FnOnce(&SqlToRel<'_, Catalog<'_>>, &Catalog<'_>) -> Result<T>,
    ) -> Result<T> {
        let catalog = Catalog {
            state: &self.state,
            tables: &self.tables,
            files: self.files.as_ref(),
            shards: self.shards,
            emit,
            opened: Mutex::default(),
        };
        plan(&SqlToRel::new(&catalog), &catalog)
    }

    /// A planned query as a stream, optimized and in shards.
    ///
    /// # Errors
    /// `Plan` and `NotImplemented` if there is no plan that can run.
    pub(crate) fn stream(&self, plan: LogicalPlan) -> Result<Stream> {
        let plan = planner::optimize(&self.state, rewrite(&self.state, plan)?)?;
        Stream::from_plan(planner::shard(plan, self.shard_settings(), Policy::default())?.plan)
    }

    /// How tables are cut into shards.
    fn shard_settings(&self) -> Shards {
        let count = self.shards.unwrap_or(1);
        let (cores, transfer_costs) = (self.cores.unwrap_or(count), self.transfer_costs);
        Shards { count, rows: self.shard_rows, cores, transfer_costs }
    }

    /// All ways to run a planned query.
    ///
    /// # Errors
    /// As [`Session::stream`].
    pub(crate) fn candidates_of(&self, plan: LogicalPlan) -> Result<Vec<Candidate>> {
        planner::candidates(&self.state, rewrite(&self.state, plan)?, self.shard_settings())
    }
}

/// The names of all functions of a session, in order.
pub(super) fn function_names(state: &SessionState) -> Vec<String> {
    let names: BTreeSet<String> =
        state.udfs().into_iter().chain(state.udafs()).chain(state.udwfs()).collect();
    names.into_iter().collect()
}

/// A statement with parameters.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    /// The statement.
    pub statement: Sql,
    /// The declared types of its parameters.
    pub types: Vec<DataType>,
}
