//! The catalog as DataFusion's planner reads it.
//!
//! A name is a table of the session, or else the path of a file. Tables are inlined as plans, so a planned
//! query does not refer to the session. A file that a statement names twice is opened once.

use super::tables::{Table, TableKind, Tables, find};
use super::{information_schema, inlined::Inlined, series, views};
use crate::error::unknown_table;
use crate::files::{FileOptions, Files, Format};
use crate::single_shard::single_shard;
use crate::stream::emit;
use crate::syntax::names::table_name;
use crate::syntax::tokens::LIKE;
use crate::syntax::{Emit, TIME_FUNCTIONS};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::{HashMap, Result, TableReference, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_plan::Stream;

/// Whether a name looks like the path of a file.
fn is_path(name: &str) -> bool {
    name.contains(['/', '\\', '*', '?']) || Format::of_path(name).is_some()
}

/// The tables, files and functions that a statement may name while it is planned.
pub(crate) struct Catalog<'a> {
    /// Functions and settings.
    pub state: &'a SessionState,
    /// The tables of the session.
    pub tables: &'a Tables,
    /// Opens files.
    pub files: &'a dyn Files,
    /// In how many shards files are read.
    pub shards: Option<usize>,
    /// When rows are output.
    pub emit: Emit,
    /// The files that the statement has opened.
    pub opened: Mutex<HashMap<String, Stream>>,
}

impl Catalog<'_> {
    /// The plan that a name stands for.
    ///
    /// # Errors
    /// `Plan` if the name stands for nothing, or for a view that cannot be read; those of [`Files::open`].
    pub fn plan(&self, name: &str) -> Result<LogicalPlan> {
        if let Some((name, _)) = find(self.tables, name) {
            views::check_readable(self.tables, name)?;
        }
        match find(self.tables, name) {
            Some((_, Table { kind: TableKind::View { over_tables: Some(plan), .. }, .. }))
                if self.emit == Emit::CHANGES =>
            {
                Ok(plan.clone())
            }
            Some((_, table)) => emit::table(&self.emit, name, table.plan.clone()),
            None if let Some(plan) = information_schema::table(self.tables, self.files, name)? => Ok(plan),
            None if is_path(name) || self.files.is_folder(name) => {
                Ok(single_shard(&self.file(name, FileOptions::default())?)?.plan().clone())
            }
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

    /// The columns of a table, or those in parentheses behind its name: `t(a,b)`.
    fn columns_like(&self, like: &str) -> Option<SchemaRef> {
        let (table, columns) = like.trim_end_matches(')').split_once('(').unwrap_or((like, ""));
        let unquoted = |name: &str| match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(name) => name.to_string(),
            None => name.to_ascii_lowercase(),
        };
        let schema = find(self.tables, &unquoted(table))?.1.stream.schema();
        let columns: Vec<usize> = match columns {
            "" => (0..schema.fields().len()).collect(),
            named => {
                named.split(',').map(|name| schema.index_of(&unquoted(name)).ok()).collect::<Option<_>>()?
            }
        };
        let fields = columns.into_iter().map(|at| schema.field(at).clone().with_nullable(true));
        Some(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
    }

    /// `read_parquet('…')`, `read_csv('…')`, …
    fn read_function(&self, name: &str, format: Format, args: &[Expr]) -> Result<Arc<dyn TableSource>> {
        let texts: Option<Vec<&str>> = args.iter().map(text).collect();
        let Some([location, options @ ..]) = texts.as_deref() else {
            return plan_err!("{name} takes the path of a file, and options: {name}('file', header = true)");
        };
        // Names and values in turn, as `syntax` writes them.
        let options = options.chunks(2).filter_map(|pair| match pair {
            ["auto_detect" | "all_varchar" | "sample_size", _] => None,
            [name, value] => Some((name.to_ascii_lowercase(), value.to_string())),
            _ => None,
        });
        let mut options: BTreeMap<String, String> = options.collect();
        // Columns of a parquet file have their types already.
        let like = options.remove(LIKE).filter(|_| matches!(format, Format::Csv));
        let schema = like.and_then(|like| self.columns_like(&like));
        let options = FileOptions { format: Some(format), schema, options, ..FileOptions::default() };
        Ok(Inlined::source(single_shard(&self.file(location, options)?)?.plan().clone()))
    }
}

/// The text of a literal.
fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// The name of a file without its folder and its suffix.
fn stem(location: &str) -> &str {
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
        match name.to_ascii_lowercase().as_str() {
            "read_parquet" | "parquet_scan" => self.read_function(name, Format::Parquet, &args),
            "read_csv" | "read_csv_auto" => self.read_function(name, Format::Csv, &args),
            "read_json" | "read_ndjson" | "read_json_auto" => self.read_function(name, Format::Json, &args),
            "read_arrow" => self.read_function(name, Format::Arrow, &args),
            "generate_series" | "range" => Ok(Inlined::source(series::series(self.state, name, args)?)),
            other
                if let Some(known) = information_schema::function(
                    self.tables,
                    self.files,
                    other,
                    args.first().and_then(text),
                )? =>
            {
                Ok(known)
            }
            _ => plan_err!(
                "there is no table function {name:?}; there are read_parquet, read_csv, read_json, \
                 read_arrow, generate_series, range, {}",
                TIME_FUNCTIONS.join(", ")
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
