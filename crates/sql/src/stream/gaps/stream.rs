//! Gaps of a stream with time.
//!
//! Each row lives to the end of its cell while its gaps are filled, and then as long as before: the rows of a
//! cell have one end, at which the gap after them begins.

use super::{NAME, Request};
use crate::stream::semantics::tick_lifetime;
use crate::stream::time_column::check_time_column;
use crate::stream::window_nodes::{CELL, FILLED};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, cast, lit};
use whimbrel_plan::calendar::Grid;
use whimbrel_plan::nodes::{AlterLifetime, extension};
use whimbrel_plan::{Stream, column};
use whimbrel_temporal::{DurationRule, StartRule};

/// The time of a row that comes out.
const TIME: &str = "__gap_time";

/// The rows of a stream, and those of its gaps.
///
/// # Errors
/// `Plan` if the column is not the time of the stream, a length of time does not fit, there is no `max_gap`,
/// or a fill does not fit its column.
pub(super) fn filled(input: LogicalPlan, request: &Request) -> Result<LogicalPlan> {
    let stream = Stream::from_plan(input)?;
    let Some(clock) = stream.properties().time.clone() else {
        return internal_err!("{NAME} over a stream needs its time");
    };
    check_time_column(&stream, &request.time, &clock)?;
    let offset = request.offset.ticks(&clock, "fill_gaps: offset")?;
    let Grid::Ticks { hop, offset } = Grid::new(&request.period, offset, &clock, None, "fill_gaps: period")?
    else {
        return plan_err!(
            "{NAME}: cells of {} differ in length; over a stream give hours, or what is shorter",
            request.period
        );
    };
    let Some(max_gap) = &request.max_gap else {
        return plan_err!(
            "{NAME}: over a stream, say after how long without a row a key is forgotten: max_gap => interval '1' hour"
        );
    };
    let max_gap = max_gap.positive_ticks(&clock, "fill_gaps: max_gap")?;
    let Some(lifetime) = tick_lifetime(stream.plan())? else {
        return plan_err!(
            "{NAME}: these rows live as long as each of them says; fill the gaps of the stream that they come from"
        );
    };
    let cells = Grid::Ticks { hop, offset };
    let to_next_cell = cells.boundary(column("start"), lit(1_i64)) - column("start");
    let rows = altered(&stream, DurationRule::ByStart(to_next_cell), CELL)?;
    let by = request.key.iter().map(column).collect();
    let filled = rows.rekey(by)?.fill_gaps_on((hop, offset), Some(max_gap), &request.all_fills())?;
    let timed = altered(&filled, DurationRule::Constant(lifetime), FILLED)?.with_start(TIME)?;
    let columns = stream.schema().fields().iter().map(|field| request.value(field.name(), field.data_type()));
    Ok(timed.rekey(vec![])?.select(columns.collect())?.plan().clone())
}

/// The same rows, alive for another duration.
fn altered(stream: &Stream, duration: DurationRule<Expr>, label: &str) -> Result<Stream> {
    let rows = stream.plan().clone();
    Stream::from_plan(extension(AlterLifetime::try_new(rows, StartRule::Keep, duration, label.to_string())?))
}

impl Request {
    /// A column of a row that comes out.
    fn value(&self, name: &str, kind: &DataType) -> Expr {
        let ticks = |name: &str| cast(column(name), DataType::Int64);
        match name {
            name if name == self.time => column(TIME).alias(name),
            name if self.window.as_deref() == Some(name) => {
                cast(ticks(name) + (ticks(TIME) - ticks(&self.time)), kind.clone()).alias(name)
            }
            name => column(name),
        }
    }
}
