//! A list to one value: `list_sum`, `list_mode`, … An aggregate that DataFusion does not have is one of these
//! over the list of its values (`words`). Nulls do not count, and a list without values gives null.

use super::Mapped;
use crate::functions::type_names;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, UInt64Array, new_empty_array,
};
use datafusion::arrow::compute::{CastOptions, SortOptions, cast, cast_with_options, sort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, TimeUnit};
use datafusion::common::{HashMap, Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::sync::Arc;

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    let one = || Signature::any(1, Volatility::Immutable);
    let float = |_: &[DataType]| Ok(DataType::Float64);
    let whole = |_: &[DataType]| Ok(DataType::Int64);
    vec![
        Mapped::function("list_sum", one(), sum_type, sum),
        Mapped::function("list_avg", one(), float, |lists| numbers(lists, mean)),
        Mapped::function("list_product", one(), float, |lists| numbers(lists, |v| v.iter().product())),
        Mapped::function("list_skewness", one(), float, |lists| optional(lists, skewness)),
        Mapped::function("list_kurtosis", one(), float, |lists| optional(lists, kurtosis)),
        Mapped::function("list_kurtosis_pop", one(), float, |lists| optional(lists, excess)),
        Mapped::function("list_geomean", one(), float, |lists| {
            numbers(lists, |v| (v.iter().map(|value| value.ln()).sum::<f64>() / v.len() as f64).exp())
        }),
        Mapped::function("list_mad", one(), float, |lists| numbers(lists, deviation)),
        Mapped::function("list_median", one(), float, |lists| numbers(lists, |v| median(v.to_vec()))),
        Mapped::function("list_sem", one(), float, |lists| {
            numbers(lists, |v| (moment(v, 2) / v.len() as f64).sqrt())
        }),
        Mapped::function("list_entropy", one(), float, entropy),
        Mapped::function("list_count", one(), whole, |lists| counted(lists, |values| values.len())),
        Mapped::function("list_unique", one(), whole, |lists| {
            counted(lists, |values| values.iter().collect::<std::collections::HashSet<_>>().len())
        }),
        Mapped::function("list_mode", one(), element, mode),
        Mapped::function("list_quantile_disc", Signature::any(2, Volatility::Immutable), element, quantile),
        Mapped::function(
            "list_quantile_cont",
            Signature::any(2, Volatility::Immutable),
            between_type,
            between,
        ),
    ]
}

/// The type of a list's values.
///
/// # Errors
/// `Plan` if the type is not one of lists.
pub(super) fn element(arguments: &[DataType]) -> Result<DataType> {
    match arguments.first() {
        Some(DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _)) => {
            Ok(field.data_type().clone())
        }
        Some(DataType::Null) => Ok(DataType::Null),
        _ => plan_err!("this function takes a list"),
    }
}

/// Sums are exact, but those of floats.
fn sum_type(arguments: &[DataType]) -> Result<DataType> {
    Ok(match element(arguments)? {
        kind if kind.is_unsigned_integer() => DataType::UInt64,
        kind if kind.is_integer() || kind.is_null() => DataType::Int64,
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            DataType::Decimal128(38, scale)
        }
        _ => DataType::Float64,
    })
}

/// The values of each list that are not null; none for a list that is.
///
/// # Errors
/// `Execution` if the column is not one of lists.
pub(super) fn lists(lists: &ArrayRef) -> Result<Vec<Option<ArrayRef>>> {
    let values = |at: usize| -> Result<Option<ArrayRef>> {
        let values = match lists.data_type() {
            DataType::Null => return Ok(None),
            _ if lists.is_null(at) => return Ok(None),
            DataType::List(_) => lists.as_list::<i32>().value(at),
            DataType::LargeList(_) => lists.as_list::<i64>().value(at),
            DataType::FixedSizeList(..) => lists.as_fixed_size_list().value(at),
            _ => return plan_err!("this function takes a list"),
        };
        // Of an array of nothing but nulls `is_valid` would be true.
        let nulls = values.logical_nulls();
        let is_value = |at: &u64| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*at as usize));
        let valid = (0..values.len() as u64).filter(is_value);
        Ok(Some(take(&values, &UInt64Array::from_iter_values(valid), None)?))
    };
    (0..lists.len()).map(values).collect()
}

/// A number, or null, for each list of numbers.
fn optional(arrays: &[ArrayRef], reduce: impl Fn(&[f64]) -> Option<f64>) -> Result<ArrayRef> {
    let reduced = lists(&arrays[0])?.into_iter().map(|values| {
        let Some(values) = values.filter(|values| !values.is_empty()) else { return Ok(None) };
        let values = cast(&values, &DataType::Float64)?;
        Ok(reduce(values.as_primitive::<Float64Type>().values()))
    });
    Ok(Arc::new(reduced.collect::<Result<Float64Array>>()?))
}

/// A number for each list of numbers.
fn numbers(arrays: &[ArrayRef], reduce: impl Fn(&[f64]) -> f64) -> Result<ArrayRef> {
    optional(arrays, |values| Some(reduce(values)))
}

/// The sum of each list, in its own type.
fn sum(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let kind = sum_type(&[arrays[0].data_type().clone()])?;
    if kind == DataType::Float64 {
        return numbers(arrays, |values| values.iter().sum());
    }
    // Numbers of 64 bits fit into the larger type, which says if a sum does not.
    let wide = if kind.is_integer() { DataType::Decimal128(38, 0) } else { kind.clone() };
    let sums = lists(&arrays[0])?.into_iter().map(|values| {
        let Some(values) = values.filter(|values| !values.is_empty()) else { return Ok(None) };
        let values = cast(&values, &wide)?;
        let mut numbers = values.as_primitive::<Decimal128Type>().values().iter();
        match numbers.try_fold(0_i128, |sum, number| sum.checked_add(*number)) {
            Some(sum) => Ok(Some(sum)),
            None => too_large(&kind),
        }
    });
    let sums = sums.collect::<Result<Decimal128Array>>()?.with_data_type(wide);
    if sums.iter().flatten().any(|sum| sum.unsigned_abs() >= 10_u128.pow(38)) {
        return too_large(&kind);
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&sums, &kind, &strict).or_else(|_| too_large(&kind))
}

/// The error for a sum that its type does not hold.
fn too_large<T>(kind: &DataType) -> Result<T> {
    exec_err!(
        "list_sum: a sum is too large for {}; cast the list to decimal(38, 0)[]",
        type_names::name(kind)
    )
}

/// A count for each list.
fn counted(arrays: &[ArrayRef], count: impl Fn(&[ScalarValue]) -> usize) -> Result<ArrayRef> {
    let counts = lists(&arrays[0])?
        .into_iter()
        .map(|values| values.map(|values| Ok(count(&scalars(&values)?) as i64)).transpose());
    Ok(Arc::new(counts.collect::<Result<Int64Array>>()?))
}

/// The values of a list without nulls.
fn scalars(values: &ArrayRef) -> Result<Vec<ScalarValue>> {
    (0..values.len()).map(|at| ScalarValue::try_from_array(values, at)).collect()
}

/// One value of each list.
fn chosen(arrays: &[ArrayRef], choose: impl Fn(usize, &ArrayRef) -> Result<ScalarValue>) -> Result<ArrayRef> {
    let null = ScalarValue::try_from(element(&[arrays[0].data_type().clone()])?)?;
    let values = lists(&arrays[0])?.into_iter().enumerate().map(|(row, values)| match values {
        Some(values) if !values.is_empty() => choose(row, &values),
        _ => Ok(null.clone()),
    });
    ScalarValue::iter_to_array(values.collect::<Result<Vec<_>>>()?)
}

/// The value that is there most often; of several, the first.
fn mode(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    chosen(arrays, |_, values| {
        let values = scalars(values)?;
        let mut counts: HashMap<&ScalarValue, usize> = HashMap::new();
        values.iter().for_each(|value| *counts.entry(value).or_default() += 1);
        let most = counts.values().max().copied().unwrap_or_default();
        let first = values.iter().position(|value| counts[value] == most).unwrap_or_default();
        Ok(values[first].clone())
    })
}

/// The least value that so much of the values is not greater than; of a negative share, the greatest that so
/// much is not less than.
fn quantile(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let shares = cast(&arrays[1], &DataType::Float64)?;
    let shares = shares.as_primitive::<Float64Type>();
    chosen(arrays, |row, values| {
        // A share of -0.0 is none of the values from the greatest on.
        let descending = shares.value(row).is_sign_negative();
        let share = shares.value(row).abs();
        if shares.is_null(row) || !(0.0..=1.0).contains(&share) {
            return plan_err!("a quantile is of a share from 0 to 1");
        }
        let order =
            sort_to_indices(values, Some(SortOptions { descending, ..SortOptions::default() }), None)?;
        let place = (share * values.len() as f64).ceil().max(1.0) as usize - 1;
        ScalarValue::try_from_array(values, order.value(place) as usize)
    })
}

/// A quantile that lies between two values is no whole number, and one between two days no day.
fn between_type(arguments: &[DataType]) -> Result<DataType> {
    Ok(match element(arguments)? {
        DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
        kind @ (DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_)) => kind,
        kind if kind.is_numeric() || kind.is_null() => DataType::Float64,
        _ => {
            return plan_err!("quantile_cont is of numbers and instants; quantile_disc is one of the values");
        }
    })
}

/// The value that so much of the values is not greater than: on the line between the two that are nearest.
fn between(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let kind = between_type(&[arrays[0].data_type().clone()])?;
    let shares = cast(&arrays[1], &DataType::Float64)?;
    let shares = shares.as_primitive::<Float64Type>();
    let quantiles = lists(&arrays[0])?.into_iter().enumerate().map(|(row, values)| {
        let Some(values) = values.filter(|values| !values.is_empty()) else {
            return ScalarValue::try_from(&kind);
        };
        let share = shares.value(row);
        if shares.is_null(row) || !(0.0..=1.0).contains(&share) {
            return plan_err!("a quantile is of a share from 0 to 1");
        }
        let place = share * (values.len() - 1) as f64;
        let values = cast(&values, &kind)?;
        let order = sort_to_indices(&values, Some(SortOptions::default()), None)?;
        let at = |place: f64| order.value(place as usize) as usize;
        let (low, high) = (at(place.floor()), at(place.ceil()));
        match kind {
            DataType::Float64 => {
                let values = values.as_primitive::<Float64Type>();
                Ok(ScalarValue::from(on_line(values.value(low), values.value(high), place.fract())))
            }
            _ => {
                let ticks = cast(&values, &DataType::Int64)?;
                let ticks = ticks.as_primitive::<Int64Type>();
                let (low, high) = (ticks.value(low), ticks.value(high));
                let part = ((i128::from(high) - i128::from(low)) as f64 * place.fract()) as i64;
                ScalarValue::from(low.saturating_add(part)).cast_to(&kind)
            }
        }
    });
    let quantiles = quantiles.collect::<Result<Vec<_>>>()?;
    if quantiles.is_empty() { Ok(new_empty_array(&kind)) } else { ScalarValue::iter_to_array(quantiles) }
}

/// So far from one number to the other.
fn on_line(low: f64, high: f64, part: f64) -> f64 {
    match low == high || part == 0.0 {
        true => low,
        false => low * (1.0 - part) + high * part,
    }
}

/// How much a value says, in bits: 0 if all are the same.
fn entropy(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let entropies = lists(&arrays[0])?.into_iter().map(|values| {
        let Some(values) = values else { return Ok(None) };
        let values = scalars(&values)?;
        let mut counts: HashMap<&ScalarValue, usize> = HashMap::new();
        values.iter().for_each(|value| *counts.entry(value).or_default() += 1);
        // In an order, so that the sum is the same every time.
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable();
        let shares = counts.into_iter().map(|count| count as f64 / values.len() as f64);
        Ok(Some(shares.map(|share| -share * share.log2()).sum::<f64>() + 0.0))
    });
    Ok(Arc::new(entropies.collect::<Result<Float64Array>>()?))
}

/// The value in the middle, or the mean of the two that are.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

/// The median of how far values are off their median.
fn deviation(values: &[f64]) -> f64 {
    let middle = median(values.to_vec());
    median(values.iter().map(|value| (value - middle).abs()).collect())
}

/// The mean.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The mean of the powers of what values are off their mean.
fn moment(values: &[f64], power: i32) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(power)).sum::<f64>() / values.len() as f64
}

/// The skewness of a sample, with the correction for its size.
fn skewness(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let variance = moment(values, 2);
    (n > 2.0 && variance > 0.0)
        .then(|| (n * (n - 1.0)).sqrt() / (n - 2.0) * moment(values, 3) / variance.powf(1.5))
}

/// The excess kurtosis of all values there are.
fn excess(values: &[f64]) -> Option<f64> {
    let variance = moment(values, 2);
    (values.len() > 1 && variance > 0.0).then(|| moment(values, 4) / (variance * variance) - 3.0)
}

/// The excess kurtosis of a sample, with the correction for its size.
fn kurtosis(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let excess = excess(values).filter(|_| n > 3.0)?;
    Some((n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * excess + 6.0))
}
