//! Instants in time zones: `timezone('Asia/Tokyo', t)`, which is `t at time zone 'Asia/Tokyo'`.
//!
//! Of an instant it is what clocks show there, a timestamp; of a timestamp it is the instant at which clocks
//! there show it, in the zone of the session. Where types are known (`texts`) it becomes casts, so that
//! nothing calls it.
//!
//! ```sql
//! select timestamptz '2024-01-01 00:00:00+00' at time zone 'Asia/Tokyo';  -- 2024-01-01 09:00:00
//! ```
//!
//! Clocks show an hour twice, or skip one, when they are changed. As in PostgreSQL, an hour that they show
//! twice is the second one, and one that they skip is counted on from before the gap.

use super::Mapped;
use chrono::{DateTime, NaiveDateTime, Offset, TimeDelta, TimeZone};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast as cast_array;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, cast, lit,
};
use std::str::FromStr;
use std::sync::{Arc, LazyLock};
pub(crate) use whimbrel_plan::calendar::check_zone as check;

/// The name of the function.
pub(crate) const NAME: &str = "timezone";

/// The zone of a session that does not say another.
pub(crate) const DEFAULT: &str = "UTC";

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    vec![Arc::new(ScalarUDF::from(AtZone::of(&ConfigOptions::default())))]
}

/// `timezone(zone, t)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct AtZone {
    /// A zone and an instant.
    signature: Signature,
    /// The zone of the session.
    session: Arc<str>,
}

impl AtZone {
    /// The function in the zone of these settings.
    fn of(config: &ConfigOptions) -> AtZone {
        AtZone::in_session(config.execution.time_zone.as_deref().unwrap_or(DEFAULT))
    }

    /// The function in this zone.
    pub fn in_session(zone: &str) -> AtZone {
        AtZone { signature: Signature::any(2, Volatility::Immutable), session: Arc::from(zone) }
    }

    /// The zone of the session.
    pub fn session_zone(&self) -> &str {
        &self.session
    }
}

impl ScalarUDFImpl for AtZone {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        Some(ScalarUDF::from(AtZone::of(config)))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, DataType::Timestamp(unit, Some(_))] => Ok(DataType::Timestamp(*unit, None)),
            [_, DataType::Timestamp(unit, None)] => {
                Ok(DataType::Timestamp(*unit, Some(Arc::clone(&self.session))))
            }
            [_, other] if other.is_null() || other.is_string() || matches!(other, DataType::Date32) => {
                Ok(DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::clone(&self.session))))
            }
            _ => plan_err!("at time zone is of a timestamp"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.scalar_arguments.first() {
            Some(Some(zone)) if !zone.is_null() => check(zone.try_as_str().flatten().unwrap_or_default())?,
            _ => return plan_err!("at time zone takes the name of a zone, 'Europe/Berlin'"),
        }
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(NAME, self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("at time zone takes the name of a zone, 'Europe/Berlin'")
    }
}

/// What the function is of an argument of a type; `returned`: the type of the whole.
pub(crate) fn in_casts(zone: &str, of: Expr, kind: &DataType, returned: &DataType) -> Expr {
    let unit = match returned {
        DataType::Timestamp(unit, _) => *unit,
        _ => TimeUnit::Microsecond,
    };
    let there = DataType::Timestamp(unit, Some(Arc::from(zone)));
    match kind {
        DataType::Timestamp(_, Some(_)) => local(cast(of, there)),
        _ => cast(instant(of, unit, zone), returned.clone()),
    }
}

/// The instant at which clocks of a zone show a timestamp or the midnight of a date.
pub(crate) fn instant(of: Expr, unit: TimeUnit, zone: &str) -> Expr {
    let (shown, there) = (DataType::Timestamp(unit, None), DataType::Timestamp(unit, Some(Arc::from(zone))));
    match zone {
        DEFAULT => cast(cast(of, shown), there),
        _ => cast(instant_of_clock().call(vec![cast(of, shown), lit(zone)]), there),
    }
}

/// Whether a cast to a zone has to ask [`instant`].
pub(crate) fn has_clock_changes(zone: &str) -> bool {
    zone != DEFAULT
}

/// The instants, in UTC, at which clocks of a zone show timestamps.
pub(super) fn instant_of_clock() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let returns = |types: &[DataType]| match types {
            [DataType::Timestamp(unit, None), _] => Ok(DataType::Timestamp(*unit, Some(Arc::from(DEFAULT)))),
            _ => plan_err!("an instant is that of a timestamp and a zone"),
        };
        let signature = Signature::any(2, Volatility::Immutable);
        Mapped::function("instant_of_clock", signature, returns, instants_of_clock)
    });
    Arc::clone(&FUNCTION)
}

fn instants_of_clock(args: &[ArrayRef]) -> Result<ArrayRef> {
    let (shown, zones) = (&args[0], cast_array(&args[1], &DataType::Utf8)?);
    let DataType::Timestamp(unit, _) = shown.data_type() else { return exec_err!("a timestamp is expected") };
    let returned = DataType::Timestamp(*unit, Some(Arc::from(DEFAULT)));
    if shown.is_empty() {
        return Ok(cast_array(shown, &returned)?);
    }
    let zone = Tz::from_str(zones.as_string::<i32>().value(0))?;
    let second = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let instant = |tick: i64| -> Result<i64> {
        let clock = DateTime::from_timestamp(tick.div_euclid(second), 0).map(|instant| instant.naive_utc());
        let ahead = clock.and_then(|clock| ahead_of_utc(&zone, clock));
        let instant = ahead.and_then(|ahead| tick.checked_sub(ahead * second));
        instant.ok_or_else(|| exec_datafusion_err!("a time is too far away for the clocks of a zone"))
    };
    let ticks = cast_array(shown, &DataType::Int64)?;
    let instants: Int64Array = ticks.as_primitive::<Int64Type>().try_unary(instant)?;
    Ok(cast_array(&cast_array(&instants, &DataType::Timestamp(*unit, None))?, &returned)?)
}

/// How many seconds clocks are ahead of UTC when they show this.
fn ahead_of_utc(zone: &Tz, clock: NaiveDateTime) -> Option<i64> {
    let found = zone.offset_from_local_datetime(&clock);
    let offset = found.latest().or_else(|| {
        let before = clock.checked_sub_signed(TimeDelta::days(1))?;
        zone.offset_from_local_datetime(&before).latest()
    })?;
    Some(i64::from(offset.fix().local_minus_utc()))
}

/// What clocks show in the zone of an instant.
pub(crate) fn local(instant: Expr) -> Expr {
    datafusion::functions::datetime::to_local_time().call(vec![instant])
}
