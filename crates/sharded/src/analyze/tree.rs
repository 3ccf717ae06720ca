//! The tree of a query: the operators of its stages, the exchanges between them, and its sources.

use crate::lower::Leaf;
use crate::metrics::Instrumented;
use crate::program::Programs;
use crate::stage::{Kind, Origin};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::collections::HashSet;
use std::fmt::Write;
use std::time::Duration;
use whimbrel_plan::describe;
use whimbrel_plan::estimate::Estimate;
use whimbrel_plan::nodes::extension;

/// An estimate that is so many times too high or too low is off.
const OFF_FACTOR: f64 = 10.0;
/// Turns a terminal red.
const RED: &str = "\x1b[31m";
/// Ends the color.
const RESET: &str = "\x1b[0m";

/// The tree of a query, with estimates and, if it was run, measurements.
#[derive(Debug, Clone)]
pub struct Explained {
    /// Its lines, from the result down.
    pub lines: Vec<Line>,
    /// The time that the query took, if it was run.
    pub took: Option<Duration>,
}

/// An operator, an exchange or a source.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its depth below the result.
    pub depth: usize,
    /// The description.
    pub text: String,
    /// The number of shards that it runs on.
    pub shards: usize,
    /// The estimated number of rows, over all shards.
    pub rows: Option<f64>,
    /// The estimated bytes of these.
    pub bytes: Option<f64>,
    /// The measured number of rows.
    pub actual_rows: Option<u64>,
    /// Whether a predicate was pushed down to a source: the estimate is without it.
    pub filtered: bool,
    /// The measured bytes that moved between channels.
    pub actual_bytes: Option<u64>,
    /// The time in the operator, without those below it, over all shards.
    pub time: Option<Duration>,
}

impl Line {
    /// Whether the estimate of rows was more than ten times too high or too low.
    pub fn estimate_is_off(&self) -> bool {
        match (self.rows.filter(|_| !self.filtered), self.actual_rows) {
            (Some(expected), Some(actual)) => {
                let (expected, actual) = (expected.max(1.0), (actual as f64).max(1.0));
                expected / actual > OFF_FACTOR || actual / expected > OFF_FACTOR
            }
            _ => false,
        }
    }
}

impl Explained {
    /// The tree as text; with `colors`, estimates that are off are red.
    pub fn text(&self, colors: bool) -> String {
        let head = |line: &Line| format!("{}{}", "  ".repeat(line.depth), line.text);
        let width =
            self.lines.iter().map(|l| head(l).chars().count()).filter(|w| *w <= 72).max().unwrap_or(0);
        let mut text = String::new();
        for line in &self.lines {
            let notes = notes(line);
            let notes = if colors && line.estimate_is_off() { format!("{RED}{notes}{RESET}") } else { notes };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:width$}  | {notes}", head(line));
        }
        if let Some(took) = self.took {
            let _ = writeln!(text, "took {}", duration(took));
        }
        text
    }
}

/// The numbers of a line.
fn notes(line: &Line) -> String {
    let mut notes = vec![match line.shards {
        1 => "1 shard".to_string(),
        n => format!("{n} shards"),
    }];
    if let (Some(rows), Some(bytes)) = (line.rows, line.bytes) {
        notes.push(format!("about {} rows, {}", short(rows), size(bytes)));
    }
    if let Some(rows) = line.actual_rows {
        let factor = if line.estimate_is_off() { " (estimate is off)" } else { "" };
        let what = if line.filtered { "rows wanted" } else { "rows in fact" };
        notes.push(format!("{rows} {what}{factor}"));
    }
    if let Some(bytes) = line.actual_bytes {
        notes.push(format!("{} moved", size(bytes as f64)));
    }
    if let Some(time) = line.time {
        notes.push(duration(time));
    }
    notes.join(", ")
}

/// `12`, `3.4k`, `5.6M`.
fn short(n: f64) -> String {
    match n {
        n if n < 1e3 => format!("{n:.0}"),
        n if n < 1e6 => format!("{:.1}k", n / 1e3),
        n if n < 1e9 => format!("{:.1}M", n / 1e6),
        n => format!("{:.1}G", n / 1e9),
    }
}

/// `12 bytes`, `3.4 kB`, `5.6 MB`.
fn size(bytes: f64) -> String {
    match bytes {
        b if b < 1e3 => format!("{b:.0} bytes"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} GB", b / 1e9),
    }
}

/// `7.8 ms`.
fn duration(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// The tree of a query; `took` is the time that it ran, if it was run.
///
/// # Errors
/// If a node cannot be described.
pub(super) fn explain(programs: &Programs, took: Option<Duration>) -> Result<Explained> {
    let mut tree = Tree { programs, run: took.is_some(), lines: Vec::new(), described: HashSet::new() };
    tree.stage(programs.stages().result.0, 0)?;
    Ok(Explained { lines: tree.lines, took })
}

/// A tree in the making.
struct Tree<'a> {
    programs: &'a Programs,
    /// Whether the query was run.
    run: bool,
    lines: Vec<Line>,
    /// The stages that were described: one that several stages read is described once.
    described: HashSet<usize>,
}

impl Tree<'_> {
    /// A stage, and all below it.
    fn stage(&mut self, number: usize, depth: usize) -> Result<()> {
        let stage = &self.programs.stages().stages[number];
        if !self.described.insert(number) {
            self.lines.push(line(depth, format!("stage {number} again"), stage.channels));
            return Ok(());
        }
        match (stage.kind, self.programs.fragment(number)) {
            (Kind::Relational, Some(fragment)) => self.node(number, &fragment.plan, depth),
            _ => {
                let mut depth = depth;
                for node in stage.nodes.iter().rev() {
                    self.lines.push(line(depth, describe(&node.plan)?, stage.channels));
                    depth += 1;
                }
                (0..stage.inputs.len()).try_for_each(|input| self.input(number, input, depth, None))
            }
        }
    }

    /// A node of a stage, and all below it.
    fn node(&mut self, stage: usize, plan: &LogicalPlan, depth: usize) -> Result<()> {
        let (plan, metrics) = match as_node::<Instrumented>(plan) {
            Some(node) => (&node.input, Some(&node.metrics)),
            None => (plan, None),
        };
        if let Some(leaf) = as_node::<Leaf>(plan) {
            return self.input(stage, leaf.input, depth, metrics.map(|metrics| metrics.rows()));
        }
        if let Some(input) = renamed_input(plan) {
            return self.node(stage, input, depth);
        }
        let shards = self.programs.stages().stages[stage].channels;
        let mut line = line(depth, without_scan_numbers(&describe(plan)?), shards);
        self.expect(&mut line, stage, plan);
        if let Some(metrics) = metrics.filter(|_| self.run) {
            let below = plan.inputs().into_iter().filter_map(as_node::<Instrumented>);
            let below: u64 = below.map(|input| input.metrics.nanoseconds()).sum();
            line.actual_rows = Some(metrics.rows());
            line.time = Some(Duration::from_nanos(metrics.nanoseconds().saturating_sub(below)));
        }
        self.lines.push(line);
        plan.inputs().into_iter().try_for_each(|input| self.node(stage, input, depth + 1))
    }

    /// An input of a stage: a source, or the output of another stage.
    fn input(&mut self, stage: usize, number: usize, depth: usize, read: Option<u64>) -> Result<()> {
        let stages = &self.programs.stages().stages;
        let input = &stages[stage].inputs[number];
        let mut own = line(depth, String::new(), stages[stage].channels);
        let expected = self.programs.fragment(stage).and_then(|fragment| fragment.inputs[number].clone());
        expect(&mut own, expected, stages[stage].channels);
        match &input.origin {
            Origin::Scan(scan) => {
                own.text = format!("read {}", scan.source.describe());
                own.actual_rows = read.filter(|_| self.run);
                own.filtered = self.programs.fragment(stage).is_some_and(|f| f.leaves[number].filters);
                self.lines.push(own);
                Ok(())
            }
            Origin::Edge { stage: from, exchange, .. } => {
                let from = *from;
                own.text = match exchange {
                    Some(exchange) => describe(&extension(exchange.as_ref().clone()))?,
                    None => "hand on".to_string(),
                };
                if let Some(metrics) = self.programs.edge_metrics(stage, number).filter(|_| self.run) {
                    own.actual_rows = Some(metrics.rows());
                    own.actual_bytes = exchange.as_ref().map(|_| metrics.bytes());
                }
                self.lines.push(own);
                self.stage(from, depth + 1)
            }
        }
    }

    /// Adds the estimate of a node.
    fn expect(&self, line: &mut Line, stage: usize, plan: &LogicalPlan) {
        let expected = self.programs.fragment(stage).map(|fragment| fragment.estimate(plan));
        expect(line, expected, line.shards);
    }
}

/// Adds an estimate, with the rows of all shards.
fn expect(line: &mut Line, expected: Option<Estimate>, shards: usize) {
    if let Some(expected) = expected {
        let rows = expected.rows_of_all(shards);
        line.rows = Some(rows);
        line.bytes = Some(rows * expected.row_bytes());
    }
}

/// A line without numbers.
fn line(depth: usize, text: String, shards: usize) -> Line {
    let (rows, bytes, actual_rows, actual_bytes) = (None, None, None, None);
    Line { depth, text, shards, rows, bytes, actual_rows, filtered: false, actual_bytes, time: None }
}

/// The input of a node that only renames or drops columns: such a node gets no line.
fn renamed_input(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => Some(&alias.input),
        LogicalPlan::Projection(projection) => {
            let is_column = |e: &Expr| e.clone().unalias_nested().data.try_as_col().is_some();
            projection.expr.iter().all(is_column).then_some(&projection.input)
        }
        _ => None,
    }
}

/// The text without the numbers that tell scans of a table apart (`t#3`).
fn without_scan_numbers(text: &str) -> String {
    let mut parts = text.split('#');
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |text, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let numbered = rest.len() < part.len() && rest.starts_with('.');
        if numbered { text + rest } else { text + "#" + part }
    })
}

/// The node of an extension, if it is of this type.
fn as_node<T: 'static>(plan: &LogicalPlan) -> Option<&T> {
    match plan {
        LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
        _ => None,
    }
}
