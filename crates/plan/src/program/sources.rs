//! Where a program's rows come from: files that it opens, and streams that it is given.

use super::doc::Doc;
use super::literal::{natural, object, quoted, type_name};
use super::naming::name_of;
use super::read::{Reader, Scope, Wants, free};
use super::steps::{Place, Step};
use crate::Stream;
use crate::duration::show_ticks;
use crate::names::names;
use crate::nodes::{Ingress, TimeSpec};
use crate::source::{Location, given_name, rescan, source_of};
use crate::stream::is_work_table;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{EmptyRelation, TableScan, Values};
use whimbrel_temporal::{Disorder, IngressOptions, OnCompleted, Punctuate};

impl Reader {
    /// A source, with all of its columns: which of them are needed is seen again when the program runs.
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
            (Some(location), name) => name_of(location.paths.first().map_or(name, |path| stem(path))),
            (None, "memory") => "table".to_string(),
            (None, "live") => "events".to_string(),
            (None, name) => name_of(name),
        };
        let place = location.map_or(Place::Given, |location| Place::Source(opened(&location)));
        let columns = names(&scan.projected_schema).into_iter().map(String::from).collect();
        Ok(Scope { step: self.source(place, stream, name), columns })
    }

    fn source(&mut self, place: Place, stream: Stream, name: String) -> usize {
        let doc = match &place {
            Place::Source(arguments) => Doc::call("wb.read", arguments.iter().map(Doc::text).collect()),
            _ => Doc::text(""),
        };
        self.steps.add(Step { inputs: vec![], place, doc, stream, name, body: None })
    }

    /// `wb.values([(1, "a"), (2, None)], schema=["n", "s"])`.
    pub fn values(&mut self, values: &Values, wants: &Wants) -> Result<Scope> {
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
        self.literal_rows(&values.schema, rows, wants)
    }

    /// One row without columns, or none with some.
    pub fn empty(&mut self, empty: &EmptyRelation, wants: &Wants) -> Result<Scope> {
        let rows = if empty.produce_one_row { vec![vec![]] } else { vec![] };
        self.literal_rows(&empty.schema, rows, wants)
    }

    fn literal_rows(
        &mut self,
        schema: &DFSchema,
        rows: Vec<Vec<ScalarValue>>,
        wants: &Wants,
    ) -> Result<Scope> {
        // SQL has no names for them.
        let nameless =
            schema.fields().iter().enumerate().all(|(i, field)| *field.name() == format!("column{}", i + 1));
        let mut columns: Vec<(String, DataType)> = Vec::new();
        for (i, field) in schema.fields().iter().enumerate() {
            let name = wants.names.get(&i).filter(|_| nameless).unwrap_or(field.name());
            let name = free(name, |n| columns.iter().any(|(taken, _)| taken == n));
            columns.push((name, field.data_type().clone()));
        }
        let mut arguments = vec![Doc::list(rows.iter().map(|row| tuple(row)).collect::<Result<_>>()?)];
        if let Some(schema) = schema_argument(&columns, &rows)? {
            arguments.push(Doc::named("schema", schema));
        }
        let step = Step {
            inputs: vec![],
            place: Place::Written,
            doc: Doc::call("wb.values", arguments),
            stream: Stream::values(&columns, rows)?,
            name: "values".to_string(),
            body: None,
        };
        Ok(Scope { step: self.steps.add(step), columns: columns.into_iter().map(|(name, _)| name).collect() })
    }

    /// Right on a source, the time is said where it is opened.
    pub fn ingress(&mut self, ingress: &Ingress) -> Result<Scope> {
        let input = self.read(&ingress.input, &Default::default())?;
        let schema = ingress.input.schema();
        let named = |name: &String| match schema.index_of_column_by_name(None, name) {
            Some(i) => input.columns[i].clone(),
            None => name.clone(),
        };
        let time = TimeSpec {
            start: named(&ingress.time.start),
            end: ingress.time.end.as_ref().map(named),
            kind: ingress.time.kind.as_ref().map(named),
        };
        let stream = self.steps.stream(input.step).ingress(time.clone(), ingress.options.clone())?;
        let settings = settings(&time, &ingress.options, &ingress.time_type()?);
        let dropped = |name: &String| !stream.schema().fields().iter().any(|f| f.name() == name);
        let columns: Vec<String> = input.columns.iter().filter(|n| !dropped(n)).cloned().collect();
        let Step { place, name, .. } = self.steps.all[input.step].clone();
        let step = match place {
            Place::Source(mut arguments) => {
                arguments.splice(1..1, settings);
                self.source(Place::Source(arguments), stream, name)
            }
            Place::Given => self.source(Place::Given, stream, name),
            _ => {
                let doc = Doc::call(".with_time", settings.into_iter().map(positional_time).collect());
                self.next(input, Place::Shards, doc, stream).step
            }
        };
        Ok(Scope { step, columns })
    }
}

/// A row: `(1, "a")`.
fn tuple(row: &[ScalarValue]) -> Result<Doc> {
    let values = row.iter().map(|value| match object(value) {
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

/// The names of columns; with their types, where those are not what Python's values say.
fn schema_argument(columns: &[(String, DataType)], rows: &[Vec<ScalarValue>]) -> Result<Option<Doc>> {
    if columns.is_empty() {
        return Ok(rows.is_empty().then(|| Doc::text("[]")));
    }
    let says = |i: usize, of: &DataType| {
        let mut values = rows.iter().map(|row| &row[i]).filter(|v| !v.is_null()).peekable();
        values.peek().is_some()
            && values.all(|v| natural(v).is_some_and(|(plain, _)| plain.data_type() == *of))
    };
    if columns.iter().enumerate().all(|(i, (_, of))| says(i, of)) {
        return Ok(Some(Doc::list(columns.iter().map(|(name, _)| Doc::Text(quoted(name))).collect())));
    }
    let typed = columns.iter().map(|(name, of)| match type_name(of) {
        Some(of) => Ok(format!("{}: {}", quoted(name), quoted(&of))),
        None => plan_err!("there is no way to write the type of column {name:?}"),
    });
    Ok(Some(Doc::Text(format!("{{{}}}", typed.collect::<Result<Vec<_>>>()?.join(", ")))))
}

/// `with_time` takes the time first.
fn positional_time(setting: String) -> Doc {
    Doc::text(setting.strip_prefix("time=").unwrap_or(&setting))
}

/// `clicks`, of `logs/clicks.parquet` and of `logs/clicks/*.parquet`.
fn stem(path: &str) -> &str {
    let parts = path.rsplit('/').map(|part| part.split('.').next().unwrap_or(part));
    let mut named = parts.filter(|part| !part.is_empty() && !part.contains(['*', '?', '[']));
    named.next().unwrap_or("rows")
}

/// The arguments that open it.
fn opened(location: &Location) -> Vec<String> {
    let paths: Vec<String> = location.paths.iter().map(|p| quoted(p)).collect();
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

/// What is not the default in Python.
fn settings(time: &TimeSpec, options: &IngressOptions, unit: &DataType) -> Vec<String> {
    let duration = |ticks: i64| length(ticks, unit);
    let mut settings = vec![format!("time={}", quoted(&time.start))];
    let mut say = |name: &str, value: String| settings.push(format!("{name}={value}"));
    if let Some(end) = &time.end {
        say("end", quoted(end));
    }
    if let Some(kind) = &time.kind {
        say("kind", quoted(kind));
    }
    match options.disorder {
        Disorder::Raise => {}
        Disorder::Adjust => say("disorder", quoted("adjust")),
        Disorder::Drop => say("disorder", quoted("drop")),
    }
    if options.reorder_latency != 0 {
        say("reorder_latency", duration(options.reorder_latency));
    }
    match options.punctuate {
        Punctuate::Never => {}
        Punctuate::Every(ticks) => say("punctuate", duration(ticks)),
        Punctuate::Rows(rows) => say("punctuate_rows", rows.to_string()),
    }
    match options.on_completed {
        OnCompleted::EndOfStream => {}
        OnCompleted::Flush => say("on_completed", quoted("flush")),
        OnCompleted::Nothing => say("on_completed", quoted("nothing")),
    }
    if options.batch_rows != IngressOptions::default().batch_rows {
        say("batch_rows", options.batch_rows.to_string());
    }
    settings
}

/// A length of time as Python writes it: `"5m"`, or ticks of a logical clock.
pub(super) fn length(ticks: i64, unit: &DataType) -> String {
    match unit {
        DataType::Int64 => ticks.to_string(),
        _ => quoted(&show_ticks(ticks, unit)),
    }
}
