//! Sources of a program: files that it opens, values in its text, and streams that are its parameters.

use super::document::Doc;
use super::literal::{python_object, python_string, python_value, type_name};
use super::reader::{Reader, Required, Scope, unique_name};
use super::steps::{Step, StepKind};
use super::variable_names::name_of;
use crate::Stream;
use crate::duration::{show_ticks, show_wall};
use crate::names::names;
use crate::nodes::{Ingress, Partitioning, TimeSpec};
use crate::source::{Location, given_name, rescan, source_of};
use crate::stream::is_work_table;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{EmptyRelation, TableScan, Values};
use whimbrel_temporal::{Disorder, IngressOptions, OnCompleted, Punctuate};

impl Reader {
    /// The step of a source, with all columns: the optimizer prunes columns again when the program runs.
    pub fn scan(&mut self, scan: &TableScan) -> Result<Scope> {
        if is_work_table(scan) {
            return self.work_table(scan);
        }
        let Some(source) = source_of(scan) else {
            return plan_err!("the program has no word for the table {}", scan.table_name);
        };
        if !scan.filters.is_empty() {
            return plan_err!("the program has no word for filters inside of a scan of {}", scan.table_name);
        }
        let stream = Stream::from_plan(rescan(scan)?)?;
        let location = source.location();
        let name = match (&location, given_name(scan)) {
            (Some(location), name) => name_of(location.paths.first().map_or(name, |path| file_stem(path))),
            (None, "memory") => "table".to_string(),
            (None, "live") => "events".to_string(),
            (None, name) => name_of(name),
        };
        let kind =
            location.map_or(StepKind::Parameter, |location| StepKind::Source(read_arguments(&location)));
        let columns = names(&scan.projected_schema).into_iter().map(String::from).collect();
        Ok(Scope { step: self.source(kind, stream, name), columns })
    }

    fn source(&mut self, kind: StepKind, stream: Stream, name: String) -> usize {
        let doc = match &kind {
            StepKind::Source(arguments) => Doc::call("wb.read", arguments.iter().map(Doc::text).collect()),
            _ => Doc::text(""),
        };
        self.steps.add(Step { inputs: vec![], kind, doc, stream, name, body: None })
    }

    /// The step of a `VALUES` node: `wb.values([(1, "a"), (2, None)], schema=["n", "s"])`.
    pub fn values(&mut self, values: &Values, required: &Required) -> Result<Scope> {
        let simplifier = crate::physical::simplifier(&values.schema);
        let types: Vec<DataType> = values.schema.fields().iter().map(|f| f.data_type().clone()).collect();
        let mut rows: Vec<Vec<ScalarValue>> = Vec::new();
        for row in &values.values {
            let mut constants = Vec::new();
            for (expr, of) in row.iter().zip(&types) {
                let simple = simplifier.simplify(expr.clone())?.unalias();
                let Some(constant) = simple.as_literal() else {
                    return plan_err!(
                        "the program has no word for a table of values that are computed: {expr}"
                    );
                };
                constants.push(constant.cast_to(of)?);
            }
            rows.push(constants);
        }
        self.values_step(&values.schema, rows, required)
    }

    /// The step of an empty relation, which has one row without columns, or no row.
    pub fn empty(&mut self, empty: &EmptyRelation, required: &Required) -> Result<Scope> {
        let rows = if empty.produce_one_row { vec![vec![]] } else { vec![] };
        self.values_step(&empty.schema, rows, required)
    }

    fn values_step(
        &mut self,
        schema: &DFSchema,
        rows: Vec<Vec<ScalarValue>>,
        required: &Required,
    ) -> Result<Scope> {
        // SQL names them `column1`, `column2`, …; the node above may know better names.
        let has_default_names =
            schema.fields().iter().enumerate().all(|(i, field)| *field.name() == format!("column{}", i + 1));
        let mut columns: Vec<(String, DataType)> = Vec::new();
        for (i, field) in schema.fields().iter().enumerate() {
            let name = required.names.get(&i).filter(|_| has_default_names).unwrap_or(field.name());
            let name = unique_name(name, |n| columns.iter().any(|(taken, _)| taken == n));
            columns.push((name, field.data_type().clone()));
        }
        let mut arguments = vec![Doc::list(rows.iter().map(|row| row_tuple(row)).collect::<Result<_>>()?)];
        if let Some(schema) = schema_argument(&columns, &rows)? {
            arguments.push(Doc::keyword("schema", schema));
        }
        let step = Step {
            inputs: vec![],
            kind: StepKind::Values,
            doc: Doc::call("wb.values", arguments),
            stream: Stream::values(&columns, rows)?,
            name: "values".to_string(),
            body: None,
        };
        Ok(Scope { step: self.steps.add(step), columns: columns.into_iter().map(|(name, _)| name).collect() })
    }

    /// The step of an ingress node. Directly above a source it becomes arguments of `wb.read`, else
    /// `.with_time`.
    pub fn ingress(&mut self, ingress: &Ingress) -> Result<Scope> {
        let input = self.read(&ingress.input, &Default::default())?;
        let schema = ingress.input.schema();
        let column_of = |name: &String| match schema.index_of_column_by_name(None, name) {
            Some(i) => input.columns[i].clone(),
            None => name.clone(),
        };
        let time = TimeSpec {
            start: column_of(&ingress.time.start),
            end: ingress.time.end.as_ref().map(column_of),
            kind: ingress.time.kind.as_ref().map(column_of),
        };
        let rows = self.steps.stream(input.step);
        let mut settings = settings(&time, &ingress.options, &ingress.time_type()?);
        let stream = match &ingress.partitioning {
            None => rows.ingress(time.clone(), ingress.options.clone())?,
            Some(Partitioning { columns, lag }) => {
                let columns: Vec<String> = columns.iter().map(column_of).collect();
                let names: Vec<String> = columns.iter().map(|name| python_string(name)).collect();
                settings.push(format!("partition_by=[{}]", names.join(", ")));
                let unit = ingress.time_type()?;
                settings.extend(lag.map(|lag| format!("lag={}", duration_text(lag, &unit))));
                let partitioning = Partitioning { columns, lag: *lag };
                rows.ingress_by_partition(time.clone(), ingress.options.clone(), partitioning)?
            }
        };
        let dropped = |name: &String| !stream.schema().fields().iter().any(|f| f.name() == name);
        let columns: Vec<String> = input.columns.iter().filter(|n| !dropped(n)).cloned().collect();
        let Step { kind, name, .. } = self.steps.all[input.step].clone();
        let step = match kind {
            StepKind::Source(mut arguments) => {
                arguments.splice(1..1, settings);
                self.source(StepKind::Source(arguments), stream, name)
            }
            StepKind::Parameter => self.source(StepKind::Parameter, stream, name),
            _ => {
                let doc = Doc::call(".with_time", settings.into_iter().map(positional_time).collect());
                self.add_step(input, StepKind::StreamMethod, doc, stream).step
            }
        };
        Ok(Scope { step, columns })
    }
}

/// A row as a Python tuple: `(1, "a")`.
fn row_tuple(row: &[ScalarValue]) -> Result<Doc> {
    let values = row.iter().map(|value| match python_object(value) {
        Some(text) => Ok(text),
        None => plan_err!("there is no way to write the value {value}"),
    });
    let values = values.collect::<Result<Vec<String>>>()?;
    Ok(Doc::Text(match values.as_slice() {
        [] => "{}".to_string(),
        [one] => format!("({one},)"),
        values => format!("({})", values.join(", ")),
    }))
}

/// The `schema` argument: column names, with their types unless Python infers these from the values.
fn schema_argument(columns: &[(String, DataType)], rows: &[Vec<ScalarValue>]) -> Result<Option<Doc>> {
    if columns.is_empty() {
        return Ok(rows.is_empty().then(|| Doc::text("[]")));
    }
    let infers = |i: usize, of: &DataType| {
        let mut values = rows.iter().map(|row| &row[i]).filter(|v| !v.is_null()).peekable();
        values.peek().is_some()
            && values.all(|v| python_value(v).is_some_and(|(value, _)| value.data_type() == *of))
    };
    if columns.iter().enumerate().all(|(i, (_, of))| infers(i, of)) {
        return Ok(Some(Doc::list(columns.iter().map(|(name, _)| Doc::Text(python_string(name))).collect())));
    }
    let typed = columns.iter().map(|(name, of)| match type_name(of) {
        Some(of) => Ok(format!("{}: {}", python_string(name), python_string(&of))),
        None => plan_err!("there is no way to write the type of column {name:?}"),
    });
    Ok(Some(Doc::Text(format!("{{{}}}", typed.collect::<Result<Vec<_>>>()?.join(", ")))))
}

/// The time column is the first positional argument of `with_time`.
fn positional_time(setting: String) -> Doc {
    Doc::text(setting.strip_prefix("time=").unwrap_or(&setting))
}

/// The name of a file or folder: `clicks` for `logs/clicks.parquet` and for `logs/clicks/*.parquet`.
fn file_stem(path: &str) -> &str {
    let parts = path.rsplit('/').map(|part| part.split('.').next().unwrap_or(part));
    let mut named = parts.filter(|part| !part.is_empty() && !part.contains(['*', '?', '[']));
    named.next().unwrap_or("rows")
}

/// The arguments of `wb.read` for a location.
fn read_arguments(location: &Location) -> Vec<String> {
    let paths: Vec<String> = location.paths.iter().map(|p| python_string(p)).collect();
    let mut arguments = vec![match paths.as_slice() {
        [path] => path.clone(),
        paths => format!("[{}]", paths.join(", ")),
    }];
    if location.shards != 1 {
        arguments.push(format!("shards={}", location.shards));
    }
    arguments.extend(location.options.iter().map(|(name, value)| format!("{name}={value}")));
    arguments
}

/// The time settings that differ from the defaults in Python, as keyword arguments.
fn settings(time: &TimeSpec, options: &IngressOptions, unit: &DataType) -> Vec<String> {
    let duration = |ticks: i64| duration_text(ticks, unit);
    let mut settings = vec![format!("time={}", python_string(&time.start))];
    let mut add = |name: &str, value: String| settings.push(format!("{name}={value}"));
    if let Some(end) = &time.end {
        add("end", python_string(end));
    }
    if let Some(kind) = &time.kind {
        add("kind", python_string(kind));
    }
    match options.disorder {
        Disorder::Raise => {}
        Disorder::Adjust => add("disorder", python_string("adjust")),
        Disorder::Drop => add("disorder", python_string("drop")),
    }
    if options.reorder_latency != 0 {
        add("reorder_latency", duration(options.reorder_latency));
    }
    match options.punctuate {
        Punctuate::Never => {}
        Punctuate::Every(ticks) => add("punctuate", duration(ticks)),
        Punctuate::Rows(rows) => add("punctuate_rows", rows.to_string()),
    }
    match options.on_completed {
        OnCompleted::EndOfStream => {}
        OnCompleted::Flush => add("on_completed", python_string("flush")),
        OnCompleted::Nothing => add("on_completed", python_string("nothing")),
    }
    if let Some(idle) = options.idle {
        add("idle", python_string(&show_wall(idle)));
    }
    if options.batch_rows != IngressOptions::default().batch_rows {
        add("batch_rows", options.batch_rows.to_string());
    }
    settings
}

/// A duration in Python: `"5m"`, or the number of ticks of a logical clock.
pub(super) fn duration_text(ticks: i64, unit: &DataType) -> String {
    match unit {
        DataType::Int64 => ticks.to_string(),
        _ => python_string(&show_ticks(ticks, unit)),
    }
}
