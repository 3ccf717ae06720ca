//! One event after another.

use super::Stream;
use super::joins::JoinKind;
use crate::duration::Duration;
use datafusion::common::Result;
use datafusion::logical_expr::Expr;
use whimbrel_temporal::{DurationRule, StartRule};

impl Stream {
    /// Pairs each event with the first one of `other` that comes later, with an equal key and at most
    /// `within` later. A pair is a point in time, that of the later event. Trill's `FollowedByImmediate`.
    ///
    /// Several first events can be waiting for the same second one, and each second one of that instant is
    /// paired. Without `on` the current keys are compared, and without keys all rows are.
    ///
    /// # Errors
    /// `Plan` if one of both is a relation, columns are not there, two columns of the result would have one
    /// name, or the duration is not positive or does not fit the time.
    pub fn followed_by(
        &self,
        other: &Stream,
        on: Vec<(Expr, Expr)>,
        within: Option<Duration>,
        suffix: &str,
    ) -> Result<Stream> {
        let waiting = self.alter_duration(within)?.clip(other, on.clone())?;
        // Still alive at the instant of the event that ended it.
        let waiting =
            waiting.altered(StartRule::Shift(1), DurationRule::Keep, "shift by one tick".to_string())?;
        let kind = match on.is_empty() && self.key().is_empty() && other.key().is_empty() {
            true => JoinKind::Cross,
            false => JoinKind::Inner,
        };
        waiting.join(other, on, kind, suffix)
    }
}
