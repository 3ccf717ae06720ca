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

/// The lowered ends of an interval.
#[derive(Debug)]
pub(super) struct Ends {
    lower: Option<End>,
    upper: Option<End>,
    order: KeyOrder,
    open: bool,
}

/// The values of an end, of its column and the further ones, and whether the interval includes it.
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
    /// The parameter of the end is null, so nulls belong to the interval.
    whole: bool,
}

impl Ends {
    /// Lowers an interval of a part with this order; further parts have the same direction.
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

    /// `None` if an end is null and the interval is empty.
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
    /// The end as bytes of a key; `None` if it is null. A null among the further values ends the comparison
    /// there.
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
    /// The range from the first key to behind the last; nulls are outside.
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
