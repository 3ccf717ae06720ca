//! Charts: the latency of a query over one limit, or two (piql.txt §6.4).
//!
//! The query is compiled anew for every value, over the schema with that limit, so a value with a better plan
//! shows that plan. The database is not changed.

use super::answer::{Prediction, Slo, shown};
use super::svg::{Anchor, Svg};
use crate::error::{Error, Result};
use crate::schema::{CardinalityLimit, IndexState, Schema, Table};
use crate::syntax::Parsed;
use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Statement, Value};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number that a bound depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Knob {
    /// The rows of the result: `limit n` or `paginate n`. Written `rows`.
    Rows,
    /// A cardinality limit, there already or not. Written `table(column, …)`.
    Limit {
        /// The table.
        table: String,
        /// The columns.
        columns: Vec<String>,
    },
    /// The length of a list: `in (? limit n)`. Written as the parameter's number, `$1`.
    List(usize),
}

impl FromStr for Knob {
    type Err = Error;

    fn from_str(text: &str) -> Result<Knob> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("rows") {
            return Ok(Knob::Rows);
        }
        if let Some(number) = text.strip_prefix('$').and_then(|number| number.parse().ok()).filter(|n| *n > 0)
        {
            return Ok(Knob::List(number));
        }
        let limit = text.strip_suffix(')').and_then(|text| text.split_once('('));
        let (table, columns) = limit.ok_or_else(|| {
            Error::invalid(format!(
                "'{text}' is nothing that a bound depends on: write rows, $1 for a list, or table(column) for a limit"
            ))
        })?;
        let columns = columns.split(',').map(|column| column.trim().to_string());
        let columns = columns.filter(|column| !column.is_empty()).collect();
        Ok(Knob::Limit { table: table.trim().to_string(), columns })
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Knob::Rows => f.write_str("rows"),
            Knob::Limit { table, columns } => write!(f, "{table}({})", columns.join(", ")),
            Knob::List(number) => write!(f, "${number}"),
        }
    }
}

impl Knob {
    /// Sets the limit to a value, in the schema or in the query.
    pub(crate) fn apply(&self, value: u64, schema: &mut Schema, parsed: &mut Parsed) -> Result<()> {
        match self {
            Knob::Rows => set_rows(value, parsed),
            Knob::Limit { table, columns } => {
                let mut changed = Table::clone(schema.table(table)?);
                let columns =
                    columns.iter().map(|column| changed.column(column)).collect::<Result<Vec<_>>>()?;
                let same = |limit: &CardinalityLimit| {
                    limit.columns.len() == columns.len()
                        && limit.columns.iter().all(|at| columns.contains(at))
                };
                changed.limits.retain(|limit| !same(limit));
                changed.limits.push(CardinalityLimit { columns, rows: value, state: IndexState::Ready });
                *schema = schema.with_table(changed);
                Ok(())
            }
            Knob::List(number) => match parsed.parameters.get_mut(number - 1) {
                Some(parameter) if parameter.list.is_some() => {
                    parameter.list = Some(value);
                    Ok(())
                }
                _ => Err(Error::invalid(format!("parameter ${number} is no list: in (? limit 50)"))),
            },
        }
    }
}

/// Sets `limit n` or `paginate n`.
fn set_rows(value: u64, parsed: &mut Parsed) -> Result<()> {
    if let Some(rows) = &mut parsed.paginate {
        *rows = value;
        return Ok(());
    }
    if let Statement::Query(query) = &mut parsed.statement
        && let Some(LimitClause::LimitOffset { limit: Some(limit), .. }) = &mut query.limit_clause
    {
        *limit = Expr::Value(Value::Number(value.to_string(), false).into());
        return Ok(());
    }
    Err(Error::invalid("the query has no rows to vary: it ends with neither limit nor paginate"))
}

/// A knob, and the values to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// What varies.
    pub knob: Knob,
    /// Its values, ascending.
    pub values: Vec<u64>,
}

impl Sweep {
    /// So many values from the first to the last, as evenly as whole numbers can be.
    pub fn evenly(knob: Knob, first: u64, last: u64, values: usize) -> Sweep {
        let steps = (values.max(2) - 1) as u64;
        let mut values: Vec<u64> =
            (0..=steps).map(|step| first + last.saturating_sub(first) * step / steps).collect();
        values.dedup();
        Sweep { knob, values }
    }
}

/// The latency of a query against a limit.
#[derive(Debug, Clone)]
pub struct Chart {
    /// What varies.
    pub knob: Knob,
    /// What was promised.
    pub slo: Slo,
    /// Values, and what is predicted at each.
    pub points: Vec<(u64, Prediction)>,
}

/// The latency of a query against two limits.
#[derive(Debug, Clone)]
pub struct HeatMap {
    /// What varies from left to right.
    pub across: Sweep,
    /// What varies from below to above.
    pub up: Sweep,
    /// What was promised.
    pub slo: Slo,
    /// For each value of `up` a row, with a prediction for each value of `across`.
    pub cells: Vec<Vec<Prediction>>,
}

impl Chart {
    /// The largest value that keeps the promise, as all smaller ones do.
    pub fn largest(&self) -> Option<u64> {
        self.points.iter().take_while(|(_, prediction)| prediction.holds).last().map(|(value, _)| *value)
    }

    /// The picture: the quantile in a typical interval, with its confidence, and in the worst; the promise as
    /// a line.
    pub fn svg(&self) -> String {
        let times = |time: fn(&Prediction) -> Duration| {
            self.points.iter().map(move |(value, prediction)| (*value as f64, time(prediction).as_secs_f64()))
        };
        let highest = times(|p| p.worst.max(p.band.1))
            .map(|(_, time)| time)
            .fold(self.slo.latency.as_secs_f64(), f64::max);
        let first = self.points.first().map_or(0.0, |(value, _)| *value as f64);
        let last = self.points.last().map_or(1.0, |(value, _)| *value as f64).max(first + 1.0);
        let place = |(value, time): (f64, f64)| {
            (LEFT + (value - first) / (last - first) * WIDE, TOP + HIGH * (1.0 - time / (highest * 1.1)))
        };
        let mut svg = Svg::new(PICTURE.0, PICTURE.1);
        svg.text((LEFT, 24.0), Anchor::Start, INK, &self.to_string());
        for tick in 0..=4 {
            let time = highest * 1.1 * f64::from(tick) / 4.0;
            let at = place((first, time));
            svg.line(at, (LEFT + WIDE, at.1), PALE, false);
            svg.text((LEFT - 8.0, at.1 + 4.0), Anchor::End, INK, &shown(Duration::from_secs_f64(time)));
            let value = (first + (last - first) * f64::from(tick) / 4.0).round();
            svg.text((place((value, 0.0)).0, TOP + HIGH + 18.0), Anchor::Middle, INK, &value.to_string());
        }
        let band: Vec<_> = times(|p| p.band.0)
            .chain(times(|p| p.band.1).collect::<Vec<_>>().into_iter().rev())
            .map(place)
            .collect();
        svg.area(&band, LIGHT_BLUE);
        svg.path(&times(|p| p.worst).map(place).collect::<Vec<_>>(), GREY);
        svg.path(&times(|p| p.quantile_latency).map(place).collect::<Vec<_>>(), BLUE);
        let promised = place((first, self.slo.latency.as_secs_f64()));
        svg.line(promised, (LEFT + WIDE, promised.1), ORANGE, true);
        svg.text((LEFT + WIDE, promised.1 - 6.0), Anchor::End, ORANGE, &self.slo.to_string());
        if let Some((value, prediction)) =
            self.points.iter().find(|(value, _)| Some(*value) == self.largest())
        {
            svg.dot(place((*value as f64, prediction.worst.as_secs_f64())), ORANGE);
        }
        svg.text((LEFT + WIDE / 2.0, TOP + HIGH + 38.0), Anchor::Middle, INK, &self.knob.to_string());
        svg.text((LEFT, TOP + HIGH + 38.0), Anchor::Start, BLUE, "typical interval, 90% confidence");
        svg.text((LEFT + WIDE, TOP + HIGH + 38.0), Anchor::End, GREY, "worst interval");
        svg.finish()
    }
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.largest(), self.points.last()) {
            (Some(largest), Some((last, _))) if largest == *last => {
                write!(
                    f,
                    "{} holds up to {} = {largest}, the largest value that was tried",
                    self.slo, self.knob
                )
            }
            (Some(largest), _) => write!(f, "{} holds up to {} = {largest}", self.slo, self.knob),
            (None, _) => write!(f, "{} holds at no value of {} that was tried", self.slo, self.knob),
        }
    }
}

impl HeatMap {
    /// The pairs that keep the promise and that no other such pair exceeds in both.
    pub fn largest(&self) -> Vec<(u64, u64)> {
        let mut largest: Vec<(usize, usize)> = Vec::new();
        for (y, row) in self.cells.iter().enumerate().rev() {
            let holding = row.iter().take_while(|prediction| prediction.holds).count();
            if holding > largest.iter().map(|(x, _)| x + 1).max().unwrap_or(0) {
                largest.push((holding - 1, y));
            }
        }
        largest.iter().map(|(x, y)| (self.across.values[*x], self.up.values[*y])).collect()
    }

    /// The picture: in each cell the quantile in the worst interval, blue where the promise is kept and
    /// orange where not.
    pub fn svg(&self) -> String {
        let (columns, rows) = (self.across.values.len().max(1) as f64, self.up.values.len().max(1) as f64);
        let size = (WIDE / columns, HIGH / rows);
        let mut svg = Svg::new(PICTURE.0, PICTURE.1);
        svg.text((LEFT, 24.0), Anchor::Start, INK, &self.to_string());
        for (y, row) in self.cells.iter().enumerate() {
            let top = TOP + HIGH - (y + 1) as f64 * size.1;
            let middle = top + size.1 / 2.0 + 4.0;
            svg.text((LEFT - 8.0, middle), Anchor::End, INK, &self.up.values[y].to_string());
            for (x, prediction) in row.iter().enumerate() {
                let left = LEFT + x as f64 * size.0;
                svg.rectangle((left, top), size, &self.color(prediction));
                let text = shown(prediction.worst);
                svg.text((left + size.0 / 2.0, middle), Anchor::Middle, INK, &text);
            }
        }
        for (x, value) in self.across.values.iter().enumerate() {
            let at = (LEFT + (x as f64 + 0.5) * size.0, TOP + HIGH + 18.0);
            svg.text(at, Anchor::Middle, INK, &value.to_string());
        }
        svg.text((LEFT + WIDE / 2.0, TOP + HIGH + 38.0), Anchor::Middle, INK, &self.across.knob.to_string());
        svg.text((8.0, TOP - 10.0), Anchor::Start, INK, &self.up.knob.to_string());
        svg.finish()
    }

    /// The further from the promise, the darker.
    fn color(&self, prediction: &Prediction) -> String {
        let part = prediction.worst.as_secs_f64() / self.slo.latency.as_secs_f64();
        let (from, to, how) = match prediction.holds {
            true => ([222, 235, 247], [107, 174, 214], part),
            false => ([253, 208, 162], [241, 105, 19], (part - 1.0) / 2.0),
        };
        let mixed = |at: usize| {
            let (from, to) = (f64::from(from[at]), f64::from(to[at]));
            (from + (to - from) * how.clamp(0.0, 1.0)).round() as u8
        };
        format!("#{:02x}{:02x}{:02x}", mixed(0), mixed(1), mixed(2))
    }
}

impl fmt::Display for HeatMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self.largest().iter().map(|(x, y)| format!("({x}, {y})")).collect();
        let knobs = format!("({}, {})", self.across.knob, self.up.knob);
        match pairs.is_empty() {
            true => write!(f, "{} holds at no pair of {knobs} that was tried", self.slo),
            false => write!(f, "{} holds up to {knobs} = {}", self.slo, pairs.join(", ")),
        }
    }
}

/// The size of a picture.
const PICTURE: (u32, u32) = (760, 480);
/// The left edge of the plot.
const LEFT: f64 = 90.0;
/// The upper edge of the plot.
const TOP: f64 = 50.0;
/// The width of the plot.
const WIDE: f64 = 640.0;
/// The height of the plot.
const HIGH: f64 = 370.0;
const INK: &str = "#333333";
const PALE: &str = "#dddddd";
const GREY: &str = "#888888";
const BLUE: &str = "#2171b5";
const LIGHT_BLUE: &str = "#deebf7";
const ORANGE: &str = "#d94801";
