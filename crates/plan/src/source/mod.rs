//! Where rows come from, as far as a plan has to know: a schema, a number of shards, and whether they end.
//!
//! Two table scans are equal only if they have the same name, and names get a suffix that is unique in the
//! process: equal plans mean equal data, which is what lets a plan that uses a stream twice compute it once.

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, Statistics, TableReference, plan_err};
use datafusion::logical_expr::{LogicalPlan, Projection, TableScan, TableScanBuilder, TableSource};
use std::any::Any;
use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::names::column_name;
use crate::ranges::Ranges;

mod local;
mod redact;

pub use local::local_path;
pub use redact::{redacted, redacted_around};

/// How many values a [sample](Source::sample) has, about.
pub const SAMPLE_VALUES: usize = 4096;

/// What a plan knows of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceInfo {
    /// The columns.
    pub schema: SchemaRef,
    /// Whether its rows end.
    pub bounded: bool,
    /// In how many shards it comes.
    pub shards: usize,
    /// Over how many groups (machines) the shards are spread, evenly; 1 on one machine.
    pub groups: usize,
}

/// A sharded dataset that a plan can read. What executes a plan downcasts it to its own kinds.
pub trait Source: Any + Send + Sync + Debug {
    /// What is known before anything is read.
    fn info(&self) -> SourceInfo;

    /// One line for people: a path, or what the source is.
    fn describe(&self) -> String;

    /// What is known of all its rows before they are read: how many there are, and of each column its size,
    /// its range, its nulls and about how many different values it has. Planners estimate from it; no answer
    /// depends on it.
    fn statistics(&self) -> Arc<Statistics> {
        Arc::new(Statistics::new_unknown(&self.info().schema))
    }

    /// About how the values of a column are spread: some values, each of which stands for as many rows, in
    /// any order. None if that takes more than a look. Planners cut rows by it; no answer depends on it.
    fn sample(&self, _column: usize) -> Option<ArrayRef> {
        None
    }

    /// The same rows cut into so many shards, if that takes no reading.
    fn with_shards(&self, _shards: usize) -> Option<Arc<dyn Source>> {
        None
    }

    /// How its shards are cut by the values of a column, if they are.
    fn ranges(&self) -> Option<&Ranges> {
        None
    }

    /// Ranges of a column that cut its rows into so many shards of about the same size, if its rows lie in
    /// order of it.
    fn ranges_of(&self, _column: &str, _shards: usize) -> Option<Ranges> {
        None
    }

    /// The same rows cut by these ranges, if hardly any of them would be read twice for it.
    fn with_ranges(&self, _ranges: &Ranges) -> Option<Arc<dyn Source>> {
        None
    }

    /// Where a program can open it again; nowhere, if it is in memory or alive.
    fn location(&self) -> Option<Location> {
        None
    }
}

/// Where files are, as `read` takes it in Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Paths, patterns and URLs.
    pub paths: Vec<String>,
    /// In how many shards they are read.
    pub shards: usize,
    /// What else was said, by the name of the argument, as Python writes it: `("header", "False")`.
    pub options: Vec<(String, String)>,
}

/// A [`Source`] in DataFusion's clothes.
#[derive(Debug)]
pub struct PlanSource(pub Arc<dyn Source>);

impl TableSource for PlanSource {
    fn schema(&self) -> SchemaRef {
        self.0.info().schema
    }
}

/// The source that a table scan reads, if it is one of ours.
pub fn source_of(scan: &TableScan) -> Option<Arc<dyn Source>> {
    scan.source.downcast_ref::<PlanSource>().map(|s| Arc::clone(&s.0))
}

/// The name that was given to a scan, without the suffix that makes it unique.
pub(crate) fn given_name(scan: &TableScan) -> &str {
    given_of(scan.table_name.table())
}

/// A name without the suffix that makes it unique.
pub(crate) fn given_of(name: &str) -> &str {
    name.rsplit_once(SUFFIX).map_or(name, |(given, _)| given)
}

const SUFFIX: char = '#';

static SCANS: AtomicU64 = AtomicU64::new(0);

/// A number that no other scan of this process has.
pub(crate) fn next_scan() -> u64 {
    SCANS.fetch_add(1, Ordering::Relaxed)
}

/// The name of the scan with this number.
pub(crate) fn with_number(given: &str, number: u64) -> String {
    format!("{given}{SUFFIX}{number}")
}

/// The given name and the number of a scan, if it has one.
pub(crate) fn numbered(name: &str) -> Option<(&str, u64)> {
    let (given, number) = name.rsplit_once(SUFFIX)?;
    Some((given, number.parse().ok()?))
}

/// A scan of all columns of a source, with their plain names: a table scan qualifies its columns, the
/// projection above it takes the qualifiers off.
pub(crate) fn scan(name: &str, source: Arc<dyn Source>) -> Result<LogicalPlan> {
    check(name, &source.info())?;
    let unique = with_number(name, next_scan());
    unqualified(TableScanBuilder::new(TableReference::bare(unique), Arc::new(PlanSource(source))).build()?)
}

/// A scan of a source that is made for it, under a name that is its own.
pub(crate) fn scan_again(
    name: &str,
    source: impl FnOnce(&str) -> Arc<dyn TableSource>,
) -> Result<(String, LogicalPlan)> {
    let unique = with_number(name, next_scan());
    let source = source(&unique);
    let scan = unqualified(TableScanBuilder::new(TableReference::bare(unique.clone()), source).build()?)?;
    Ok((unique, scan))
}

/// All columns of the table that this scan reads some of.
pub(crate) fn rescan(scan: &TableScan) -> Result<LogicalPlan> {
    unqualified(TableScanBuilder::new(scan.table_name.clone(), Arc::clone(&scan.source)).build()?)
}

fn unqualified(scan: TableScan) -> Result<LogicalPlan> {
    let scan = LogicalPlan::TableScan(scan);
    let columns = scan
        .schema()
        .columns()
        .into_iter()
        .map(|c| {
            let name = c.name.clone();
            datafusion::logical_expr::Expr::Column(c).alias(name)
        })
        .collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(scan))?))
}

fn check(name: &str, info: &SourceInfo) -> Result<()> {
    let mut seen = HashSet::new();
    if let Some(twice) = info.schema.fields().iter().find(|f| !seen.insert(f.name())) {
        return plan_err!("{name}: there are two columns named {:?}; give one another name", twice.name());
    }
    if info.shards == 0 || info.groups == 0 || !info.shards.is_multiple_of(info.groups) {
        return plan_err!(
            "{name}: {} shards cannot be spread evenly over {} groups; give at least one of each, and as \
            many shards for every group",
            info.shards,
            info.groups
        );
    }
    Ok(())
}

/// The table scan under a projection that does nothing but take qualifiers off.
pub(crate) fn bare_scan(plan: &LogicalPlan) -> Option<&Arc<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = plan else { return None };
    let is_unqualifying = matches!(*projection.input, LogicalPlan::TableScan(_))
        && projection.expr.len() == projection.input.schema().fields().len()
        && projection.input.schema().columns().iter().zip(&projection.expr).all(
            |(column, expr)| match expr {
                datafusion::logical_expr::Expr::Alias(alias) => {
                    alias.name == column.name && alias.expr.try_as_col() == Some(column)
                }
                other => column_name(other) == Some(&column.name),
            },
        );
    is_unqualifying.then_some(&projection.input)
}
