//! Nodes that change lifetimes: windows, sessions, chops and clips.

use super::document::Doc;
use super::expression::ExprWriter;
use super::join_steps::on_arguments;
use super::literal::{python_object, python_string};
use super::python_expressions::rewrite_for_python;
use super::reader::{Reader, Scope};
use super::sources::duration_text;
use super::steps::{Step, StepKind};
use crate::Stream;
use crate::calendar::{CalendarWindows, Grid, zone_of};
use crate::duration::Duration;
use crate::names::{column, column_name, names};
use crate::nodes::{
    AllowedLateness, AlterLifetime, CHANGE, ChangeLifetimes, Changes, Clip, Fill, FillGaps, HoppingWindows,
    LifetimeChange, Session, WithStart, lifetime_schema, start_schema,
};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan};
use whimbrel_temporal::operators::SessionCap;
use whimbrel_temporal::{Closed, DurationRule, StartRule};

/// A number of ticks as a duration in the unit of the stream's time.
pub(super) fn duration(ticks: i64, unit: &DataType) -> Duration {
    let nanos = |size: i128| Duration::Nanos(i128::from(ticks) * size);
    match unit {
        DataType::Timestamp(TimeUnit::Second, _) => nanos(1_000_000_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) => nanos(1_000_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => nanos(1_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => nanos(1),
        _ => Duration::Ticks(ticks),
    }
}

/// A window size in hours where the API would read days or weeks as calendar windows.
fn duration_in_hours(ticks: i64, unit: &DataType) -> String {
    match Duration::from("1h").ticks(unit, "window") {
        Ok(hour) if ticks % (168 * hour) == 0 || (zone_of(unit).is_some() && ticks % (24 * hour) == 0) => {
            python_string(&format!("{}h", ticks / hour))
        }
        _ => duration_text(ticks, unit),
    }
}

/// The method for calendar windows: `.tumbling("1mo")` or `.hopping("1mo", hop="1d")`.
fn calendar_windows(windows: &CalendarWindows, stream: &Stream, unit: &DataType) -> Result<(Doc, Stream)> {
    let CalendarWindows { calendar, hops, closed } = windows;
    let (hop, zone) = (calendar.every().to_string(), calendar.zone_beside(unit));
    let size = calendar.every().times(*hops).to_string();
    let mut arguments = vec![Doc::Text(python_string(&size))];
    if !windows.tumble() {
        arguments.push(Doc::keyword("hop", Doc::Text(python_string(&hop))));
    }
    if calendar.offset() != 0 {
        arguments.push(Doc::keyword("offset", Doc::text(duration_text(calendar.offset(), unit))));
    }
    if *closed == Closed::Right {
        arguments.push(Doc::text("closed=\"right\""));
    }
    if let Some(zone) = zone {
        arguments.push(Doc::keyword("zone", Doc::Text(python_string(zone))));
    }
    let offset = duration(calendar.offset(), unit);
    Ok(match windows.tumble() {
        true => (Doc::call(".tumbling", arguments), stream.tumbling_in(size, offset, *closed, zone)?),
        false => (Doc::call(".hopping", arguments), stream.hopping_in(size, hop, offset, *closed, zone)?),
    })
}

impl Reader {
    /// A step with one input and the columns of that input.
    fn unary_step(
        &mut self,
        plan: &LogicalPlan,
        make: impl FnOnce(&mut Self, &Stream) -> Result<(Doc, Stream)>,
    ) -> Result<Scope> {
        let scope = self.read(plan, &Default::default())?;
        let stream = self.steps.stream(scope.step).clone();
        let (doc, stream) = make(self, &stream)?;
        Ok(self.add_step(scope, StepKind::QueryMethod, doc, stream))
    }

    pub fn alter_lifetime(&mut self, node: &AlterLifetime) -> Result<Scope> {
        self.unary_step(&node.input, |reader, stream| reader.window(node, stream))
    }

    /// The method for a window: the one that the user called if it is known, else `.alter_lifetime`.
    fn window(&mut self, node: &AlterLifetime, stream: &Stream) -> Result<(Doc, Stream)> {
        let Some(unit) = stream.properties().time.clone() else {
            return plan_err!("a window over a relation without a time: {}", node.label);
        };
        if let Some(windows) = CalendarWindows::of_rules(&node.start, &node.duration) {
            return calendar_windows(&windows, stream, &unit);
        }
        let text = |ticks: i64| Doc::text(duration_text(ticks, &unit));
        let ticks = |ticks: i64| duration(ticks, &unit);
        let method = node.label.split(' ').next().unwrap_or_default();
        match (method, &*node.start, &*node.duration) {
            (_, StartRule::Snap { hop, offset, closed }, DurationRule::Constant(size)) => {
                let text = |ticks: i64| Doc::text(duration_in_hours(ticks, &unit));
                let mut arguments = vec![text(*size)];
                let tumbling = hop == size && method != "hopping";
                if !tumbling {
                    arguments.push(Doc::keyword("hop", text(*hop)));
                }
                if *offset != 0 {
                    arguments.push(Doc::keyword("offset", text(*offset)));
                }
                if *closed == Closed::Right {
                    arguments.push(Doc::text("closed=\"right\""));
                }
                let (verb, result) = match tumbling {
                    true => (".tumbling", stream.tumbling(ticks(*size), ticks(*offset), *closed)?),
                    false => {
                        (".hopping", stream.hopping(ticks(*size), ticks(*hop), ticks(*offset), *closed)?)
                    }
                };
                Ok((Doc::call(verb, arguments), result))
            }
            ("sliding", StartRule::Shift(1), DurationRule::Constant(size)) => {
                Ok((Doc::call(".sliding", vec![text(*size)]), stream.sliding(ticks(*size), Closed::Left)?))
            }
            ("sliding", StartRule::Keep, DurationRule::Constant(size)) => {
                let arguments = vec![text(*size), Doc::text("closed=\"right\"")];
                Ok((Doc::call(".sliding", arguments), stream.sliding(ticks(*size), Closed::Right)?))
            }
            ("shift", StartRule::Shift(by), DurationRule::Keep) => {
                Ok((Doc::call(".shift", vec![text(*by)]), stream.shift(ticks(*by))?))
            }
            ("alive", StartRule::Keep, DurationRule::Constant(size)) => Ok((
                Doc::call(".alter_duration", vec![text(*size)]),
                stream.alter_duration(Some(ticks(*size)))?,
            )),
            ("alive", StartRule::Keep, DurationRule::Infinite) => Ok((
                Doc::call(".alter_duration", vec![Doc::text("float(\"inf\")")]),
                stream.alter_duration(None)?,
            )),
            _ => self.alter_lifetime_rules(node, stream, &unit),
        }
    }

    /// `.alter_lifetime(start=…, duration=…)`.
    fn alter_lifetime_rules(
        &mut self,
        node: &AlterLifetime,
        stream: &Stream,
        unit: &DataType,
    ) -> Result<(Doc, Stream)> {
        let start = node.start.clone().into_inner().try_map(|e| rewrite_for_python(e, start_schema()))?;
        let rule = node.duration.clone().into_inner();
        let rule = match &*node.duration {
            DurationRule::ByLifetime(_) => rule.try_map(|e| rewrite_for_python(e, lifetime_schema()))?,
            _ => rule.try_map(|e| rewrite_for_python(e, start_schema()))?,
        };
        let mut arguments = match &start {
            StartRule::Keep => vec![],
            StartRule::Shift(by) => vec![Doc::keyword("start", Doc::text(duration_text(*by, unit)))],
            StartRule::By(e) => vec![Doc::keyword("start", self.lifetime_lambda("s", e, start_schema())?)],
            StartRule::Snap { .. } => {
                return plan_err!("the program has no word for a grid with another duration: {}", node.label);
            }
        };
        match &rule {
            DurationRule::Keep => {}
            DurationRule::Constant(n) => {
                arguments.push(Doc::keyword("duration", Doc::text(duration_text(*n, unit))));
            }
            DurationRule::Infinite => arguments.push(Doc::keyword("duration", Doc::text("float(\"inf\")"))),
            DurationRule::ByStart(e) => {
                arguments.push(Doc::keyword("duration", self.lifetime_lambda("s", e, start_schema())?));
            }
            DurationRule::ByLifetime(e) => {
                arguments.push(Doc::keyword("duration", self.lifetime_lambda("s, t", e, lifetime_schema())?));
            }
        }
        Ok((Doc::call(".alter_lifetime", arguments), stream.alter_lifetime(start, rule)?))
    }

    /// A lambda over the start `s` and the end `t` of a lifetime.
    fn lifetime_lambda(&mut self, head: &str, expr: &Expr, schema: &DFSchema) -> Result<Doc> {
        let expr = with_short_names(expr)?;
        let schema = schema_with_short_names(schema)?;
        let mut rows =
            ExprWriter { schema: &schema, row: &|_| String::new(), functions: &mut self.steps.functions };
        let body = rows.write(&expr, 0)?;
        Ok(Doc::Group(vec![Doc::Text(format!("lambda {head}: ")), body]))
    }

    pub fn with_start(&mut self, node: &WithStart) -> Result<Scope> {
        let mut scope = self.read(&node.input, &Default::default())?;
        let stream = self.steps.stream(scope.step).with_start(&node.name)?;
        scope.columns.push(node.name.clone());
        let doc = Doc::call(".with_start", vec![Doc::Text(python_string(&node.name))]);
        Ok(self.add_step(scope, StepKind::QueryMethod, doc, stream))
    }

    pub fn session(&mut self, node: &Session) -> Result<Scope> {
        let scope = self.read(&node.input, &Default::default())?;
        let key = self.rewrite_exprs(&*node.key, node.input.schema(), &scope)?;
        let key: Vec<String> = key.iter().filter_map(column_name).map(String::from).collect();
        let mut scope = self.keyed(scope, &key)?;
        let stream = self.steps.stream(scope.step).clone();
        let Some(unit) = stream.properties().time.clone() else {
            return plan_err!("a session over a relation without a time");
        };
        let mut arguments = vec![Doc::text(duration_text(node.timeout, &unit))];
        if let Some(SessionCap::After(most) | SessionCap::OnGrid(most)) = node.cap {
            arguments.push(Doc::keyword("max_duration", Doc::text(duration_text(most, &unit))));
        }
        if let Some(SessionCap::OnGrid(_)) = node.cap {
            arguments.push(Doc::keyword("cap", Doc::Text(python_string("grid"))));
        }
        let timeout = duration(node.timeout, &unit);
        let cap = node.cap.map(|cap| cap.map(|most| duration(most, &unit)));
        let result = match &node.start {
            Some(start) => {
                arguments.push(Doc::keyword("start", Doc::Text(python_string(start))));
                scope.columns.push(start.clone());
                stream.session_windows(timeout, cap, start)?
            }
            None => stream.session(timeout, cap)?,
        };
        Ok(self.add_step(scope, StepKind::QueryMethod, Doc::call(".session", arguments), result))
    }

    pub fn change_lifetimes(&mut self, node: &ChangeLifetimes) -> Result<Scope> {
        self.unary_step(&node.input, |_, stream| {
            let Some(unit) = stream.properties().time.clone() else {
                return plan_err!("the lifetimes of a relation without a time");
            };
            let (text, ticks) = (|n: i64| duration_text(n, &unit), |n: i64| duration(n, &unit));
            Ok(match &node.change {
                LifetimeChange::Chop(beats) => return chop(beats, stream, &unit),
                LifetimeChange::Clip(limit) => {
                    (Doc::call(".clip", vec![Doc::text(text(*limit))]), stream.clip_constant(ticks(*limit))?)
                }
                LifetimeChange::PointAtEnd => (Doc::text(".point_at_end()"), stream.point_at_end()?),
                LifetimeChange::Extend(by) => {
                    (Doc::call(".extend", vec![Doc::text(text(*by))]), stream.extend(ticks(*by))?)
                }
                LifetimeChange::Hop(windows) => {
                    let HoppingWindows { size, hop, offset, closed } = *windows;
                    let mut arguments =
                        vec![Doc::text(text(size)), Doc::keyword("hop", Doc::text(text(hop)))];
                    if offset != 0 {
                        arguments.push(Doc::keyword("offset", Doc::text(text(offset))));
                    }
                    if closed == Closed::Right {
                        arguments.push(Doc::text("closed=\"right\""));
                    }
                    arguments.push(Doc::text("snapped=True"));
                    let result = stream.hopping_snapped(ticks(size), ticks(hop), ticks(offset), closed)?;
                    (Doc::call(".hopping", arguments), result)
                }
                LifetimeChange::Stitch => (Doc::text(".stitch()"), stream.stitch()?),
                LifetimeChange::Quantize(grid) => {
                    let mut arguments = vec![Doc::text(text(grid.size)), Doc::text(text(grid.period))];
                    if let Some(progress) = grid.progress {
                        arguments.push(Doc::keyword("progress", Doc::text(text(progress))));
                    }
                    if grid.offset != 0 {
                        arguments.push(Doc::keyword("offset", Doc::text(text(grid.offset))));
                    }
                    let progress = grid.progress.map(ticks);
                    let result = stream.quantize(
                        ticks(grid.size),
                        ticks(grid.period),
                        progress,
                        ticks(grid.offset),
                    )?;
                    (Doc::call(".quantize", arguments), result)
                }
            })
        })
    }

    pub fn clip(&mut self, node: &Clip) -> Result<Scope> {
        let left = self.read(&node.left, &Default::default())?;
        let right = self.read(&node.right, &Default::default())?;
        let mut on = Vec::new();
        for (l, r) in node.on.iter() {
            on.push((
                self.rewrite_expr(l, node.left.schema(), &left)?,
                self.rewrite_expr(r, node.right.schema(), &right)?,
            ));
        }
        let (left_stream, right_stream) =
            (self.steps.stream(left.step).clone(), self.steps.stream(right.step).clone());
        let mut arguments = vec![Doc::Input(1)];
        arguments.extend(on_arguments(self, (left.step, right.step), &on, true)?);
        let stream = left_stream.clip(&right_stream, on)?;
        let name = self.steps.name(left.step).to_string();
        let step = Step {
            inputs: vec![left.step, right.step],
            kind: StepKind::QueryMethod,
            doc: Doc::call(".clip", arguments),
            stream,
            name,
            body: None,
        };
        Ok(Scope { step: self.steps.add(step), columns: left.columns })
    }

    pub fn fill_gaps(&mut self, node: &FillGaps) -> Result<Scope> {
        let scope = self.read(&node.input, &Default::default())?;
        let key = self.rewrite_exprs(&*node.key, node.input.schema(), &scope)?;
        let key: Vec<String> = key.iter().filter_map(column_name).map(String::from).collect();
        let scope = self.keyed(scope, &key)?;
        let stream = self.steps.stream(scope.step).clone();
        let Some(unit) = stream.properties().time.clone() else {
            return plan_err!("gaps of a relation without a time");
        };
        let others = scope.columns.iter().filter(|name| !key.contains(name));
        let fills: Vec<(String, Fill)> = others.cloned().zip(node.fills.iter().cloned()).collect();
        let mut arguments = vec![Doc::text(duration_text(node.period, &unit))];
        arguments.extend(fill_arguments(&fills)?);
        if node.offset != 0 {
            arguments.push(Doc::keyword("offset", Doc::text(duration_text(node.offset, &unit))));
        }
        if let Some(gap) = node.max_gap {
            arguments.push(Doc::keyword("max_gap", Doc::text(duration_text(gap, &unit))));
        }
        let max_gap = node.max_gap.map(|gap| duration(gap, &unit));
        let result =
            stream.fill_gaps(duration(node.period, &unit), duration(node.offset, &unit), max_gap, fills)?;
        Ok(self.add_step(scope, StepKind::QueryMethod, Doc::call(".fill_gaps", arguments), result))
    }

    pub fn allow_lateness(&mut self, node: &AllowedLateness) -> Result<Scope> {
        let input = self.read(&node.input, &Default::default())?;
        let time = input.columns[node.time_column()?].clone();
        let unit = node.time_type()?;
        let arguments = vec![
            Doc::Text(python_string(&time)),
            Doc::Text(duration_text(node.lateness, unit)),
            Doc::keyword("retention", Doc::Text(duration_text(node.retention, unit))),
        ];
        let (lateness, retention) = (duration(node.lateness, unit), duration(node.retention, unit));
        let stream = self.steps.stream(input.step).allow_lateness(&time, lateness, retention)?;
        Ok(self.add_step(input, StepKind::StreamMethod, Doc::call(".allow_lateness", arguments), stream))
    }

    pub fn changes(&mut self, node: &Changes) -> Result<Scope> {
        let read = self.read(&node.input, &Default::default())?;
        let columns: Vec<String> = names(node.input.schema()).iter().map(ToString::to_string).collect();
        let input = self.project_to(read, &columns)?;
        let stream = self.steps.stream(input.step).changes()?;
        let mut scope = self.add_step(input, StepKind::StreamMethod, Doc::text(".changes()"), stream);
        scope.columns.insert(0, CHANGE.to_string());
        Ok(scope)
    }
}

/// `values={"n": 0}, previous=["price"]`.
fn fill_arguments(fills: &[(String, Fill)]) -> Result<Vec<Doc>> {
    let (mut values, mut previous, mut linear) = (vec![], vec![], vec![]);
    for (name, fill) in fills {
        let name = python_string(name);
        match fill {
            Fill::Constant(value) if value.is_null() => {}
            Fill::Constant(value) => match python_object(value) {
                Some(text) => values.push(format!("{name}: {text}")),
                None => return plan_err!("there is no way to write the value {value}"),
            },
            Fill::Previous => previous.push(name),
            Fill::Linear => linear.push(name),
        }
    }
    let mut arguments = Vec::new();
    if !values.is_empty() {
        arguments.push(Doc::keyword("values", Doc::Text(format!("{{{}}}", values.join(", ")))));
    }
    for (word, names) in [("previous", previous), ("linear", linear)] {
        if !names.is_empty() {
            arguments.push(Doc::keyword(word, Doc::Text(format!("[{}]", names.join(", ")))));
        }
    }
    Ok(arguments)
}

/// `.chop("5m", offset="1m")`.
fn chop(beats: &Grid, stream: &Stream, unit: &DataType) -> Result<(Doc, Stream)> {
    let (period, offset, zone) = match beats {
        Grid::Ticks { hop, offset } => (duration_in_hours(*hop, unit), *offset, None),
        Grid::Calendar(calendar) => {
            (python_string(&calendar.every().to_string()), calendar.offset(), calendar.zone_beside(unit))
        }
    };
    let mut arguments = vec![Doc::text(period)];
    if offset != 0 {
        arguments.push(Doc::keyword("offset", Doc::text(duration_text(offset, unit))));
    }
    if let Some(zone) = zone {
        arguments.push(Doc::keyword("zone", Doc::Text(python_string(zone))));
    }
    let offset = duration(offset, unit);
    let result = match beats {
        Grid::Ticks { hop, .. } => stream.chop(duration(*hop, unit), offset)?,
        Grid::Calendar(calendar) => stream.chop_in(calendar.every().to_string(), offset, zone)?,
    };
    Ok((Doc::call(".chop", arguments), result))
}

/// The expression over `s` and `t`, the parameters of the lambda, instead of `start` and `end`.
fn with_short_names(expr: &Expr) -> Result<Expr> {
    use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
    let short = |e: Expr| match column_name(&e) {
        Some("start") => Ok(Transformed::yes(column("s"))),
        Some("end") => Ok(Transformed::yes(column("t"))),
        _ => Ok(Transformed::no(e)),
    };
    expr.clone().transform_up(short).data()
}

/// The schema of [`with_short_names`].
fn schema_with_short_names(schema: &DFSchema) -> Result<DFSchema> {
    let fields = schema.fields().iter().zip(["s", "t"]);
    let fields = fields.map(|(f, name)| f.as_ref().clone().with_name(name)).collect();
    DFSchema::from_unqualified_fields(fields, Default::default())
}
