//! The function behind windows of the calendar: `calendar_boundary(instant, every, offset, steps)`, the
//! beginning of the window so many `steps` after that of an instant, 0 for its own. The zone is that of the
//! instant's type. `every` and `offset` (in ticks) are the same for all rows.

use super::window_starts::WindowStarts;
use crate::duration::Every;
use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, PrimitiveArray, make_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// The function.
pub(crate) fn boundary() -> &'static Arc<ScalarUDF> {
    static BOUNDARY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::from(Boundary { signature: Signature::any(4, Volatility::Immutable) }))
    });
    &BOUNDARY
}

/// The scalar function `calendar_boundary`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Boundary {
    signature: Signature,
}

impl ScalarUDFImpl for Boundary {
    fn name(&self) -> &str {
        "calendar_boundary"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match &types[0] {
            instant @ DataType::Timestamp(..) => Ok(instant.clone()),
            other => plan_err!("a window of the calendar is of timestamps, not of {other}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let time_type = args.args[0].data_type();
        let [instant, every, offset, steps] = args.args.as_slice() else {
            return exec_err!("calendar_boundary takes 4 arguments, not {}", args.args.len());
        };
        let (every, offset) = (every_of(every)?, offset_of(offset)?);
        let single = matches!(instant, ColumnarValue::Scalar(_)) && matches!(steps, ColumnarValue::Scalar(_));
        let rows = if single { 1 } else { rows };
        let instants = cast(&instant.to_array(rows)?, &DataType::Int64)?;
        let steps = steps.to_array(rows)?;
        let (instants, steps) = (instants.as_primitive::<Int64Type>(), steps.as_primitive::<Int64Type>());
        let boundaries = boundaries(&time_type, every, offset, instants, steps)?;
        Ok(match single {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&boundaries, 0)?),
            false => ColumnarValue::Array(boundaries),
        })
    }
}

/// Every so many days or months, as the literal says.
fn every_of(every: &ColumnarValue) -> Result<Every> {
    if let ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(Some(every))) = every {
        match (every.months, every.days) {
            (0, days) if days > 0 => return Ok(Every::Days(days)),
            (months, 0) if months > 0 => return Ok(Every::Months(months)),
            _ => {}
        }
    }
    exec_err!("a window of the calendar has days, or months")
}

/// The offset argument, which has to be a literal.
fn offset_of(offset: &ColumnarValue) -> Result<i64> {
    match offset {
        ColumnarValue::Scalar(ScalarValue::Int64(Some(ticks))) => Ok(*ticks),
        _ => exec_err!("the offset of a window of the calendar is a number of ticks"),
    }
}

/// Row by row. Rows that follow each other are in one window mostly, which is cached.
fn boundaries(
    time_type: &DataType,
    every: Every,
    offset: i64,
    instants: &Int64Array,
    steps: &PrimitiveArray<Int64Type>,
) -> Result<ArrayRef> {
    let DataType::Timestamp(unit, zone) = time_type else {
        return exec_err!("a window of the calendar is of timestamps, not of {time_type}");
    };
    let zone = zone.as_ref().map(|zone| zone.parse::<Tz>()).transpose()?;
    let Some(window_starts) = WindowStarts::new(every, offset, zone, *unit) else {
        return exec_err!("the offset of windows is {offset} ticks; give a shorter one");
    };
    let mut cache: Option<CachedBoundary> = None;
    let boundary = |(instant, steps): (Option<i64>, Option<i64>)| {
        let (Some(instant), Some(steps)) = (instant, steps) else { return Ok(None) };
        if let Some(cached) = cache.as_ref().filter(|cached| cached.covers(instant, steps)) {
            return Ok(Some(cached.boundary));
        }
        let cached = CachedBoundary::of(&window_starts, instant, steps)
            .ok_or_else(|| out_of_range(time_type, *unit, instant))?;
        Ok(Some(cache.insert(cached).boundary))
    };
    let ticks = instants.iter().zip(steps).map(boundary).collect::<Result<Int64Array>>()?;
    Ok(make_array(ticks.into_data().into_builder().data_type(time_type.clone()).build()?))
}

/// A boundary that was computed.
struct CachedBoundary {
    window: Range<i64>,
    steps: i64,
    boundary: i64,
}

impl CachedBoundary {
    /// Computes the boundary `steps` windows after the window of an instant.
    fn of(window_starts: &WindowStarts, instant: i64, steps: i64) -> Option<CachedBoundary> {
        let window = window_starts.window(instant)?;
        // The window after it is asked for most of the time.
        let boundary = if steps == 1 { window.end } else { window_starts.step(window.clone(), steps)? };
        Some(CachedBoundary { window, steps, boundary })
    }

    /// Whether this boundary is the one for an instant.
    fn covers(&self, instant: i64, steps: i64) -> bool {
        self.steps == steps && self.window.contains(&instant)
    }
}

/// The error for a window that a timestamp of this unit cannot hold.
fn out_of_range(time_type: &DataType, unit: TimeUnit, instant: i64) -> datafusion::common::DataFusionError {
    let shown = whimbrel_temporal::Instant { time: instant, unit: Some(unit) };
    exec_datafusion_err!(
        "the window of the calendar that {shown} is in begins or ends where {} cannot tell time; leave such rows out",
        crate::names::type_name(time_type)
    )
}
