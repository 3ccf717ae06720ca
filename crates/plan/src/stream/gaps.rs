//! Rows where there are none.

use super::Stream;
use crate::duration::Duration;
use crate::names::{names, type_name, unknown_column};
use crate::nodes::{Fill, FillGaps, extension};
use arrow::datatypes::Field;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_datafusion_err, plan_err};

impl Stream {
    /// Per current key: a row for each cell `[offset + k·period, offset + (k + 1)·period)` of a grid that
    /// lies in a gap, between the end of one of its rows and the start of the next. `fills` says what the
    /// columns have there; one that is not named is null. A key is forgotten `max_gap` after its last row
    /// ended; without that, gaps are filled as far as time has come.
    ///
    /// # Errors
    /// `Plan` if this is a relation, a duration is not positive or does not fit its time, a column is not
    /// there or of the key, or a fill does not fit its column.
    pub fn fill_gaps(
        &self,
        period: impl Into<Duration>,
        offset: impl Into<Duration>,
        max_gap: Option<Duration>,
        fills: Vec<(String, Fill)>,
    ) -> Result<Stream> {
        let time = self.time("fill_gaps")?;
        let period = period.into().positive_ticks(time, "fill_gaps: period")?;
        let offset = offset.into().ticks(time, "fill_gaps: offset")?.rem_euclid(period);
        let max_gap = max_gap.map(|gap| gap.positive_ticks(time, "fill_gaps: max_gap")).transpose()?;
        self.fill_gaps_on((period, offset), max_gap, &fills)
    }

    /// The same, with a period, an offset and a `max_gap` in ticks.
    ///
    /// # Errors
    /// `Plan` as [`fill_gaps`](Stream::fill_gaps).
    pub fn fill_gaps_on(
        &self,
        grid: (i64, i64),
        max_gap: Option<i64>,
        fills: &[(String, Fill)],
    ) -> Result<Stream> {
        let fills = column_fills(self.df_schema(), self.key(), fills)?;
        self.then(extension(FillGaps::try_new(self.input(), self.key_exprs(), grid, max_gap, fills)?))
    }
}

/// What each column that is not of the key has in a gap, in the order of the columns: null if it is not
/// named.
///
/// # Errors
/// `Plan` if a name is none of these columns, or a fill does not fit its column.
pub fn column_fills(schema: &DFSchema, key: &[String], fills: &[(String, Fill)]) -> Result<Vec<Fill>> {
    let columns = names(schema);
    for (name, _) in fills {
        if !columns.contains(&name.as_str()) {
            return Err(unknown_column(name, &columns));
        }
        if key.contains(name) {
            return plan_err!("fill_gaps: {name:?} is a column of the key, which every row has");
        }
    }
    let others = schema.fields().iter().filter(|field| !key.contains(field.name()));
    others.map(|field| column_fill(field, fills)).collect()
}

/// What a column has in a gap.
fn column_fill(field: &Field, fills: &[(String, Fill)]) -> Result<Fill> {
    let (name, to, what) = (field.name(), field.data_type(), || type_name(field.data_type()));
    Ok(match fills.iter().find(|(filled, _)| filled == name).map(|(_, fill)| fill) {
        None if !field.is_nullable() => {
            return plan_err!("fill_gaps: column {name:?} has no nulls; say what it has in a gap");
        }
        None => Fill::Constant(ScalarValue::try_from(to)?),
        Some(Fill::Linear) if !to.is_numeric() => {
            return plan_err!("fill_gaps: column {name:?} is {}, and no line leads through it", what());
        }
        Some(Fill::Constant(value)) => Fill::Constant(value.cast_to(to).map_err(|_| {
            plan_datafusion_err!("fill_gaps: {value} is no value of column {name:?}, which is {}", what())
        })?),
        Some(other) => other.clone(),
    })
}
