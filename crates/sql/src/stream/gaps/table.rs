//! Gaps of a table: each row is repeated for the cells between its own and that of the row after it. Instants
//! are in ticks of their type.
//!
//! Of several rows of a key at an instant, the last in the order of all columns counts, as in streams.

use super::Request;
use crate::stream::time_column::table_clock;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::functions_aggregate::first_last::last_value_udaf;
use datafusion::functions_nested::expr_fn::gen_series;
use datafusion::functions_window::expr_fn::lead;
use datafusion::logical_expr::expr::{Sort, WindowFunction};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, WindowFrame, WindowFunctionDefinition, cast, lit,
    when,
};
use whimbrel_plan::calendar::Grid;
use whimbrel_plan::duration::Every;
use whimbrel_plan::nodes::Fill;
use whimbrel_plan::{Duration, column, column_fills, has_sort_key, interpolate};

/// A row's instant.
const TICKS: &str = "__gap_ticks";
/// The instant of the key's next row.
const NEXT: &str = "__gap_next";
/// Where the gap ends, on the grid.
const LIMIT: &str = "__gap_limit";
/// How many cells after that of the row; 0 is the row itself.
const CELL: &str = "__gap_cell";

/// The rows of a table, and those of its gaps.
///
/// # Errors
/// `Plan` if the column is no time, a length of time or a fill does not fit.
pub(super) fn filled(input: LogicalPlan, request: &Request) -> Result<LogicalPlan> {
    let clock = table_clock(&input, &request.time)?;
    let offset = request.offset.ticks(&clock, "fill_gaps: offset")?;
    let grid = Grid::new(&request.period, offset, &clock, None, "fill_gaps: period")?;
    let longest = request.max_gap.as_ref().map(|gap| gap.positive_ticks(&clock, "fill_gaps: max_gap"));
    let gaps = Gaps {
        fields: input.schema().fields().iter().map(|field| field.as_ref().clone()).collect(),
        fills: column_fills(input.schema(), &request.key, &request.all_fills())?,
        clock,
        grid,
        max_gap: longest.transpose()?,
        request,
    };
    let rows = gaps.repeated(gaps.with_limit(gaps.with_next(input)?)?)?;
    rows.project(gaps.values()?)?.build()
}

/// How gaps are filled.
struct Gaps<'a> {
    request: &'a Request,
    /// The columns of the table.
    fields: Vec<Field>,
    /// What the columns beside the key have in a gap.
    fills: Vec<Fill>,
    clock: DataType,
    grid: Grid,
    max_gap: Option<i64>,
}

/// The column with the value of a column in the key's next row.
fn next_of(name: &str) -> String {
    format!("{NEXT}_{name}")
}

impl Gaps<'_> {
    /// The columns of the table.
    fn columns(&self) -> impl Iterator<Item = Expr> {
        self.fields.iter().map(|field| column(field.name()))
    }

    /// The columns beside the key, and what they have in a gap.
    fn with_fills(&self) -> impl Iterator<Item = (&str, &Fill)> {
        let names = self.fields.iter().map(|field| field.name().as_str());
        names.filter(|name| !self.request.key.iter().any(|key| key == name)).zip(&self.fills)
    }

    /// The columns through whose values a line leads.
    fn linear(&self) -> impl Iterator<Item = &str> {
        self.with_fills().filter(|(_, fill)| **fill == Fill::Linear).map(|(name, _)| name)
    }

    /// The rows with the instant of the next row of their key, and what lines lead to.
    fn with_next(&self, input: LogicalPlan) -> Result<LogicalPlanBuilder> {
        let sort = |name: &str| Sort::new(column(name), true, true);
        let sorts = |field: &&Field| !field.data_type().is_nested() || has_sort_key(field.data_type());
        let values: Vec<Sort> = self.fields.iter().filter(sorts).map(|field| sort(field.name())).collect();
        let order: Vec<Sort> = [sort(TICKS)].into_iter().chain(values.clone()).collect();
        let key: Vec<Expr> = self.request.key.iter().map(column).collect();
        let next = |of: Expr, name: &str| -> Result<Expr> {
            let next = lead(of, Some(1), None).partition_by(key.clone()).order_by(order.clone()).build()?;
            Ok(next.alias(name))
        };
        let ticks = cast(cast(column(&self.request.time), self.clock.clone()), DataType::Int64);
        let rows = LogicalPlanBuilder::from(input).project(self.columns().chain([ticks.alias(TICKS)]))?;
        let last_of = |name: &str| -> Result<Expr> {
            let function = WindowFunctionDefinition::AggregateUDF(last_value_udaf());
            let last = Expr::from(WindowFunction::new(function, vec![column(name)]))
                .partition_by(key.iter().cloned().chain([column(TICKS)]).collect())
                .order_by(values.clone())
                .window_frame(WindowFrame::new(None))
                .build()?;
            Ok(last.alias(format!("__gap_last_{name}")))
        };
        let lasts = self.linear().map(last_of).collect::<Result<Vec<_>>>()?;
        let rows = if lasts.is_empty() { rows } else { rows.window(lasts)? };
        let nexts = self.linear().map(|name| next(column(format!("__gap_last_{name}")), &next_of(name)));
        rows.window(nexts.chain([next(column(TICKS), NEXT)]).collect::<Result<Vec<_>>>()?)
    }

    /// Where the cell begins that is so many after that of a row.
    fn cell(&self, steps: Expr) -> Expr {
        self.grid.boundary(column(TICKS), steps)
    }

    /// The instant at which a key is forgotten that has no row after this one.
    fn forgotten(&self) -> Option<Expr> {
        let max_gap = self.max_gap?;
        Some(self.grid.boundary(self.cell(lit(1_i64)) + lit(max_gap - 1), lit(1_i64)))
    }

    /// The rows with the end of the gap after them.
    fn with_limit(&self, rows: LogicalPlanBuilder) -> Result<LogicalPlanBuilder> {
        let next = self.grid.boundary(column(NEXT), lit(0_i64));
        let limit = match self.forgotten() {
            Some(forgotten) => when(column(NEXT).is_null().or(next.clone().gt(forgotten.clone())), forgotten)
                .otherwise(next)?,
            None => next,
        };
        rows.project(self.columns().chain(self.next_columns()).chain([limit.alias(LIMIT)]))
    }

    /// The columns about the next row.
    fn next_columns(&self) -> impl Iterator<Item = Expr> {
        self.linear().map(|name| column(next_of(name))).chain([column(TICKS), column(NEXT)])
    }

    /// Every row, and once more for each cell of the gap after it.
    fn repeated(&self, rows: LogicalPlanBuilder) -> Result<LogicalPlanBuilder> {
        let long = column(LIMIT) - self.cell(lit(1_i64));
        let (cells, exact) = match &self.grid {
            Grid::Ticks { hop, .. } => (long.clone() / lit(*hop), true),
            // As many as there may be: those beyond the limit are left out again.
            Grid::Calendar(calendar) => {
                let hours = match calendar.every() {
                    Every::Days(days) => i128::from(days) * 23,
                    Every::Months(months) => i128::from(months) * 28 * 24,
                };
                let least =
                    Duration::Nanos(hours * 3_600_000_000_000).ticks(&self.clock, "fill_gaps: period")?;
                (long.clone() / lit(least) + lit(1_i64), false)
            }
        };
        let cells = when(long.gt(lit(0_i64)), cells).otherwise(lit(0_i64))?;
        let numbers = gen_series(lit(0_i64), cells, lit(1_i64)).alias(CELL);
        let all = self.columns().chain(self.next_columns()).chain([column(LIMIT), numbers]);
        let rows = rows.project(all)?.unnest_column(Column::from_name(CELL))?;
        match exact {
            true => Ok(rows),
            false => rows.filter(column(CELL).eq(lit(0_i64)).or(self.cell(column(CELL)).lt(column(LIMIT)))),
        }
    }

    /// The columns of the rows, and of the cells of their gaps.
    fn values(&self) -> Result<Vec<Expr>> {
        let mut fills = self.with_fills();
        let value = |field: &Field| {
            let name = field.name();
            if self.request.key.contains(name) {
                return Ok(column(name));
            }
            let (_, fill) = fills.next().unwrap_or((name, &Fill::Previous));
            let in_gap = match fill {
                _ if *name == self.request.time => self.instant(self.cell(column(CELL)), field),
                _ if self.request.window.as_ref() == Some(name) => self.moved(field)?,
                Fill::Previous => return Ok(column(name)),
                Fill::Constant(value) => lit(value.clone()),
                Fill::Linear => interpolate(column(name), column(next_of(name)), self.way()?),
            };
            Ok(when(column(CELL).eq(lit(0_i64)), column(name)).otherwise(in_gap)?.alias(name))
        };
        self.fields.iter().map(value).collect()
    }

    /// Ticks as a value of a column.
    fn instant(&self, ticks: Expr, field: &Field) -> Expr {
        cast(cast(ticks, self.clock.clone()), field.data_type().clone())
    }

    /// The column of the window that is not the time: as far from it as in the previous row. In the calendar
    /// it is one window away, or not known.
    fn moved(&self, field: &Field) -> Result<Expr> {
        let before = cast(cast(column(field.name()), self.clock.clone()), DataType::Int64);
        let moved = match &self.grid {
            Grid::Ticks { .. } => before + (self.cell(column(CELL)) - column(TICKS)),
            Grid::Calendar(_) => {
                let step = if self.request.time == super::END { -1_i64 } else { 1 };
                let beside = self.cell(column(CELL) + lit(step));
                when(before.eq(self.cell(lit(step))), beside).otherwise(lit(ScalarValue::Int64(None)))?
            }
        };
        Ok(self.instant(moved, field))
    }

    /// How far a cell lies on the way to the next row; null if the key is forgotten before.
    fn way(&self) -> Result<Expr> {
        let distance = |to: Expr| cast(to - column(TICKS), DataType::Float64);
        let way = distance(self.cell(column(CELL))) / distance(column(NEXT));
        match self.forgotten() {
            Some(forgotten) => {
                when(column(NEXT).lt(forgotten), way).otherwise(lit(ScalarValue::Float64(None)))
            }
            None => Ok(way),
        }
    }
}
