//! Instants in time zones: `timezone('Asia/Tokyo', t)`, which is `t at time zone 'Asia/Tokyo'`.
//!
//! Of an instant it is what clocks show there, a timestamp; of a timestamp it is the instant at which clocks
//! there show it, in the zone of the session. Where types are known (`texts`) it becomes casts, so that
//! nothing calls it.
//!
//! ```sql
//! select timestamptz '2024-01-01 00:00:00+00' at time zone 'Asia/Tokyo';  -- 2024-01-01 09:00:00
//! ```

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, cast,
};
use std::sync::Arc;
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
        _ => cast(cast(cast(of, DataType::Timestamp(unit, None)), there), returned.clone()),
    }
}

/// What clocks show in the zone of an instant.
pub(crate) fn local(instant: Expr) -> Expr {
    datafusion::functions::datetime::to_local_time().call(vec![instant])
}
