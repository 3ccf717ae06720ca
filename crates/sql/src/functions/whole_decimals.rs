//! `ceil(x)` and `floor(x)` of decimals: integers with as many digits. DataFusion's functions return the
//! type of `x`, which has no place for `ceil(9.9)`.
//!
//! ```sql
//! select ceil(9.9), floor(-9.9);  -- 10, -10
//! ```

use super::overridden::Overridden;
use datafusion::arrow::array::{ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::{Result, exec_err};
use datafusion::functions::math;
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    vec![
        Overridden::function(
            math::ceil(),
            |_| None,
            integer,
            |args| whole(&args[0], |value, one| -(-value).div_euclid(one)),
        ),
        Overridden::function(math::floor(), |_| None, integer, |args| whole(&args[0], i128::div_euclid)),
    ]
}

/// The integers of a decimal fit in as many digits: they have one more before the point at most, and none
/// behind it.
fn integer(types: &[DataType]) -> Option<DataType> {
    match types {
        [DataType::Decimal128(digits, 1..)] => Some(DataType::Decimal128(*digits, 0)),
        _ => None,
    }
}

/// The integers of decimals; `divide` divides by what stands for 1.
fn whole(values: &ArrayRef, divide: fn(i128, i128) -> i128) -> Result<ArrayRef> {
    let DataType::Decimal128(digits, scale @ 1..) = values.data_type() else {
        return exec_err!("{} is no decimal with digits behind its point", values.data_type());
    };
    let one = 10_i128.pow(u32::from(scale.unsigned_abs()));
    let values = values.as_primitive::<Decimal128Type>();
    let whole: Decimal128Array = values.unary::<_, Decimal128Type>(|value| divide(value, one));
    Ok(Arc::new(whole.with_data_type(DataType::Decimal128(*digits, 0))))
}
