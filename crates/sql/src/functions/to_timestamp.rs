//! `to_timestamp(x)` of a number, in microseconds: DataFusion's function counts nanoseconds, which end in the
//! year 2262, and returns the nearest instant for a float beyond. For texts it is DataFusion's function.
//!
//! ```sql
//! select to_timestamp(1.5);           -- 1970-01-01 00:00:01.5
//! select to_timestamp(253370764800);  -- 9999-01-01 00:00:00
//! ```

use super::overridden::Overridden;
use datafusion::arrow::array::{ArrayRef, AsArray, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, exec_err};
use datafusion::functions::datetime;
use datafusion::logical_expr::ScalarUDF;
use std::fmt::Display;
use std::sync::Arc;

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    let texts = datetime::to_timestamp(&ConfigOptions::default());
    vec![Overridden::function(texts, coerce, instant_type, instants)]
}

/// Numbers are cast to integers or floats of eight bytes.
fn coerce(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [number] if number.is_integer() => Some(vec![DataType::Int64]),
        [number] if number.is_numeric() => Some(vec![DataType::Float64]),
        _ => None,
    }
}

/// The type of the instants of numbers.
fn instant_type(types: &[DataType]) -> Option<DataType> {
    match types {
        [number] if number.is_numeric() => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
        _ => None,
    }
}

/// The instants that many seconds after 1970.
fn instants(args: &[ArrayRef]) -> Result<ArrayRef> {
    let instants: Result<TimestampMicrosecondArray> = match args[0].data_type() {
        DataType::Int64 => {
            let seconds = args[0].as_primitive::<Int64Type>();
            seconds.iter().map(|seconds| seconds.map(of_integer).transpose()).collect()
        }
        _ => {
            let seconds = args[0].as_primitive::<Float64Type>();
            seconds.iter().map(|seconds| seconds.map(of_float).transpose()).collect()
        }
    };
    Ok(Arc::new(instants?))
}

/// Microseconds after 1970.
fn of_integer(seconds: i64) -> Result<i64> {
    seconds.checked_mul(1_000_000).map_or_else(|| beyond(seconds), Ok)
}

/// Microseconds after 1970.
fn of_float(seconds: f64) -> Result<i64> {
    let micros = (seconds * 1e6).round();
    // The largest integer is no float: a float that is not less is beyond it.
    match micros >= i64::MIN as f64 && micros < i64::MAX as f64 {
        true => Ok(micros as i64),
        false => beyond(format!("{seconds:e}")),
    }
}

/// The error for an instant that no timestamp has.
fn beyond<T>(seconds: impl Display) -> Result<T> {
    exec_err!("to_timestamp: {seconds} seconds after 1970 are beyond the first or the last timestamp")
}
