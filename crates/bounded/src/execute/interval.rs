//! Intervals of keys: their ends as expressions, and the range of an index that they select.

use super::call::Call;
use super::local::{Local, Scope};
use super::rows::Rows;
use crate::datum::Datum;
use crate::error::{Error, Result};
use crate::keys::{self, KeyOrder};
use crate::plan::Interval;
use datafusion::logical_expr::Expr;
use std::sync::Arc;

/// The ends of an interval, ready to be computed.
#[derive(Debug)]
pub(super) struct Ends {
    lower: Option<End>,
    upper: Option<End>,
    order: KeyOrder,
    open: bool,
}

/// The values of an end: of a column and of those behind it; and whether they are in the interval themselves.
#[derive(Debug)]
struct End {
    values: Vec<Local>,
    with: bool,
}

/// The values of the ends of an interval.
pub(super) struct EndValues {
    lower: Option<(Vec<u8>, bool)>,
    upper: Option<(Vec<u8>, bool)>,
    descending: bool,
    /// No end was given, so nulls are in it too.
    whole: bool,
}

impl Ends {
    /// Of an interval of the part of a key that is ordered so; the parts behind it are in the same direction.
    ///
    /// # Errors
    /// `Internal` if an end cannot be lowered.
    pub fn new(interval: &Interval, order: KeyOrder, scope: &Arc<Scope>) -> Result<Ends> {
        let end = |end: &Option<(Expr, bool)>| {
            let Some((first, with)) = end else { return Ok::<_, Error>(None) };
            let exprs = std::iter::once(first).chain(interval.then.iter().map(|(_, value)| value));
            let values = exprs.map(|expr| Local::new(expr, scope)).collect::<Result<_>>()?;
            Ok(Some(End { values, with: *with }))
        };
        Ok(Ends { lower: end(&interval.lower)?, upper: end(&interval.upper)?, order, open: interval.open })
    }

    /// `None` if an end is null: no value is in the interval; unless it has no end then.
    ///
    /// # Errors
    /// `Data` if an end cannot be computed.
    pub fn values(&self, call: &Call<'_>) -> Result<Option<EndValues>> {
        let mut ends = [None, None];
        for (value, end) in ends.iter_mut().zip([&self.lower, &self.upper]) {
            let Some(end) = end else { continue };
            *value = end.key(self.order, call)?;
            if value.is_none() && !self.open {
                return Ok(None);
            }
        }
        let [lower, upper] = ends;
        let whole = self.open && lower.is_none() && upper.is_none();
        Ok(Some(EndValues { lower, upper, descending: self.order.descending, whole }))
    }
}

impl End {
    /// As a part of a key; `None` if it is null. Where a later value is null, the columns before it decide
    /// alone.
    fn key(&self, order: KeyOrder, call: &Call<'_>) -> Result<Option<(Vec<u8>, bool)>> {
        let mut key = Vec::new();
        for (at, value) in self.values.iter().enumerate() {
            let column = value.value(&Rows::unit(), call)?;
            match Datum::of(&column, 0)? {
                Datum::Null if at == 0 => return Ok(None),
                Datum::Null => return Ok(Some((key, false))),
                datum => keys::encode(datum, order, &mut key),
            }
        }
        Ok(Some((key, self.with)))
    }
}

impl EndValues {
    /// From the first key of the interval to the one behind the last; nulls are outside.
    pub fn range(&self, prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
        if self.whole {
            return (prefix.to_vec(), keys::prefix_end(prefix));
        }
        let (first, last) =
            if self.descending { (&self.upper, &self.lower) } else { (&self.lower, &self.upper) };
        let with = |end: &[u8]| [prefix, end].concat();
        let from = match first {
            Some((end, true)) => with(end),
            Some((end, false)) => keys::prefix_end(&with(end)),
            None => with(&[keys::FIRST_MARKER]),
        };
        let to = match last {
            Some((end, true)) => keys::prefix_end(&with(end)),
            Some((end, false)) => with(end),
            None => with(&[keys::BEHIND_MARKERS]),
        };
        (from, to)
    }
}
