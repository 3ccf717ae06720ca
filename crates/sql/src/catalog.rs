//! Names, as DataFusion's planner asks for them.
//!
//! A name is a table of the session, or else the path of a file. What a table is, is a plan, and it is put into
//! the query as that plan: there is no table left that only the session knows. A file that a statement names
//! twice is opened once.

use crate::constraints::Constraints;
use crate::emit::Emit;
use crate::error::unknown_table;
use crate::files::{FileOptions, Files};
use crate::series;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{HashMap, Result, TableReference, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_plan::{Scope, Stream};

/// What a name stands for.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// The rows, for who asks what the table is.
    pub stream: Stream,
    /// What is put into a query in place of the name.
    pub plan: LogicalPlan,
    /// What made it.
    pub kind: TableKind,
}

/// What made a table.
#[derive(Debug, Clone)]
pub(crate) enum TableKind {
    /// Whoever holds the session.
    Registered,
    /// `create external table`.
    External,
    /// `create view`.
    View,
    /// `create table`: the rows are here, and there can be more.
    Memory(Memory),
}

/// A table in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    pub rows: Vec<RecordBatch>,
    /// What an insert that leaves out a column puts there.
    pub defaults: HashMap<String, Expr>,
    pub constraints: Constraints,
}

impl Table {
    /// A table that is a stream. All its shards are read.
    pub fn of(stream: Stream, kind: TableKind) -> Result<Table> {
        let plan = whole(&stream)?.plan().clone();
        Ok(Table { stream, plan, kind })
    }
}

/// The stream in one shard: SQL speaks of all rows.
pub(crate) fn whole(stream: &Stream) -> Result<Stream> {
    match stream.properties().shards {
        1 => Ok(stream.clone()),
        _ => stream.reshard(Some(1), Scope::Global),
    }
}

/// The tables of a session, by name.
pub(crate) type Tables = BTreeMap<String, Table>;

/// The table of this name; a name in capitals finds one in small letters and the other way round, if there is
/// only one.
pub(crate) fn find<'a>(tables: &'a Tables, name: &str) -> Option<(&'a String, &'a Table)> {
    tables.get_key_value(name).or_else(|| {
        let mut alike = tables.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        alike.next().filter(|_| alike.next().is_none())
    })
}

/// The name of a table as the session knows it: there is one schema, and it may be said or not.
pub(crate) fn table_name(reference: &TableReference) -> String {
    match reference.schema() {
        Some("main" | "public") => reference.table().to_string(),
        _ => reference.to_string(),
    }
}

/// Whether this looks like the path of a file.
fn is_path(name: &str) -> bool {
    name.contains(['/', '\\', '*', '?']) || crate::Format::of_path(name).is_some()
}

/// A relation that is a plan.
pub(crate) struct Inlined {
    plan: LogicalPlan,
    schema: SchemaRef,
    defaults: HashMap<String, Expr>,
}

impl Inlined {
    pub fn source(plan: LogicalPlan) -> Arc<dyn TableSource> {
        Inlined::with_defaults(plan, HashMap::new())
    }

    fn with_defaults(plan: LogicalPlan, defaults: HashMap<String, Expr>) -> Arc<dyn TableSource> {
        let schema = plan.schema().inner().clone();
        Arc::new(Inlined { plan, schema, defaults })
    }
}

impl TableSource for Inlined {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        Some(Cow::Borrowed(&self.plan))
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.get(column)
    }
}

/// The names of a session while a statement is planned.
pub(crate) struct Catalog<'a> {
    pub state: &'a SessionState,
    pub tables: &'a Tables,
    pub files: &'a dyn Files,
    pub shards: Option<usize>,
    pub emit: Emit,
    pub opened: Mutex<HashMap<String, Stream>>,
}

impl Catalog<'_> {
    /// The plan that a name stands for.
    pub fn plan(&self, name: &str) -> Result<LogicalPlan> {
        match find(self.tables, name) {
            Some((_, table)) => self.emit.table(name, table.plan.clone()),
            None if is_path(name) => Ok(whole(&self.file(name, FileOptions::default())?)?.plan().clone()),
            None => {
                let known: Vec<&str> = self.tables.keys().map(String::as_str).collect();
                Err(unknown_table(name, &known))
            }
        }
    }

    /// The rows of a file.
    fn file(&self, location: &str, options: FileOptions) -> Result<Stream> {
        let key = format!("{location}\n{options:?}");
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = opened.get(&key) {
            return Ok(stream.clone());
        }
        let options = FileOptions { shards: self.shards, ..options };
        let stream = Stream::scan(stem(location), self.files.open(location, &options)?)?;
        opened.insert(key, stream.clone());
        Ok(stream)
    }

    /// `read_parquet('…')` and its like.
    fn read(&self, name: &str, format: crate::Format, args: &[Expr]) -> Result<Arc<dyn TableSource>> {
        let location = match args {
            [Expr::Literal(value, _)] => value.try_as_str().flatten(),
            _ => None,
        };
        let Some(location) = location else {
            return plan_err!("{name} takes the path of a file, {name}('file')");
        };
        let options = FileOptions { format: Some(format), ..FileOptions::default() };
        Ok(Inlined::source(whole(&self.file(location, options)?)?.plan().clone()))
    }
}

/// The name of a file without its folder and its suffix.
pub(crate) fn stem(location: &str) -> &str {
    let first = location.lines().next().unwrap_or(location);
    let stem = Path::new(first).file_stem().and_then(|stem| stem.to_str());
    stem.filter(|stem| !stem.contains('*')).unwrap_or("files")
}

impl ContextProvider for Catalog<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let name = table_name(&name);
        let defaults = match find(self.tables, &name) {
            Some((_, Table { kind: TableKind::Memory(memory), .. })) => memory.defaults.clone(),
            _ => HashMap::new(),
        };
        Ok(Inlined::with_defaults(self.plan(&name)?, defaults))
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        use crate::Format;
        match name.to_ascii_lowercase().as_str() {
            "read_parquet" | "parquet_scan" => self.read(name, Format::Parquet, &args),
            "read_csv" | "read_csv_auto" => self.read(name, Format::Csv, &args),
            "read_json" | "read_ndjson" | "read_json_auto" => self.read(name, Format::Json, &args),
            "read_arrow" => self.read(name, Format::Arrow, &args),
            "generate_series" | "range" => Ok(Inlined::source(series::series(self.state, name, args)?)),
            _ => plan_err!(
                "there is no table function {name:?}; there are read_parquet, read_csv, read_json, \
                 read_arrow, generate_series, range, {}",
                crate::windows::NAMES.join(", ")
            ),
        }
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state.relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        None
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.state.scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.udfs().into_iter().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.udafs().into_iter().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.udwfs().into_iter().collect()
    }
}
