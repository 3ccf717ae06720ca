//! What the author of a query asserts of a stream (trill.txt §5.3, §6.2): properties that no plan shows,
//! for which operators have cheaper variants. Each is checked while the query runs.

use super::Stream;
use crate::duration::Duration;
use crate::names::{column_name, show};
use crate::nodes::{Assertion, Require, extension};
use crate::resolve::resolve;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::Expr;

impl Stream {
    /// Every row lives exactly so long, or for ever (`None`): the query ends with an error at one that does
    /// not. Operators after it have cheaper variants for that. Trill's `SetProperty().IsConstantDuration`.
    ///
    /// # Errors
    /// `Plan` if this is a relation, or the duration is not positive or does not fit its time.
    pub fn require_duration(&self, duration: Option<Duration>) -> Result<Stream> {
        let time = self.time("require_duration")?;
        let duration = duration.map(|d| d.positive_ticks(time, "require_duration")).transpose()?;
        self.required(Assertion::Duration(duration))
    }

    /// Rows come in the ascending order of these columns in every shard, nulls last, at one instant and over
    /// time: the query ends with an error at one that does not. A join of two such streams by these columns
    /// keeps the rows of one key only, and [`reshard_runs`](Stream::reshard_runs) keeps equal ones together.
    /// Trill's `SetProperty().IsSnapshotSorted`.
    ///
    /// ```
    /// # use datafusion::arrow::datatypes::DataType;
    /// # use datafusion::common::ScalarValue;
    /// # use whimbrel_plan::nodes::TimeSpec;
    /// # use whimbrel_plan::{Stream, column};
    /// # fn main() -> datafusion::common::Result<()> {
    /// # let integers = |name: &str| (name.to_string(), DataType::Int64);
    /// # let row = |values: &[i64]| values.iter().map(|v| ScalarValue::from(*v)).collect::<Vec<_>>();
    /// # let rows = vec![row(&[1, 20]), row(&[2, 30])];
    /// # let orders = Stream::values(&[integers("id"), integers("time")], rows)?;
    /// # let orders = orders.ingress(TimeSpec::point("time"), Default::default())?;
    /// let sorted = orders.require_sorted(vec![column("id")])?;
    /// assert_eq!(sorted.properties().sorted, ["id"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Plan` if this is a relation, or there is no column, or one is not there.
    pub fn require_sorted(&self, columns: Vec<Expr>) -> Result<Stream> {
        self.time("require_sorted")?;
        self.check_ungrouped("require_sorted")?;
        if columns.is_empty() {
            return plan_err!("require_sorted: name a column at least, of which the rows come in order");
        }
        let columns = columns.into_iter().map(|column| {
            let column = resolve(column, self.df_schema(), "require_sorted")?.unalias();
            match column_name(&column) {
                Some(_) => Ok(column),
                None => {
                    plan_err!(
                        "require_sorted takes columns, not {}; compute it by with_columns",
                        show(&column)
                    )
                }
            }
        });
        self.required(Assertion::Sorted(columns.collect::<Result<_>>()?))
    }

    /// No two rows start at one instant, in each shard: the query ends with an error at one that does. What
    /// follows from a row comes as soon as it has come, and not when time has passed it. Trill's
    /// `SetProperty().IsSyncTimeSimultaneityFree`.
    ///
    /// # Errors
    /// `Plan` if this is a relation.
    pub fn require_distinct_starts(&self) -> Result<Stream> {
        self.time("require_distinct_starts")?;
        self.check_ungrouped("require_distinct_starts")?;
        self.required(Assertion::DistinctStarts)
    }

    /// Refuses an assertion about the rows of a group: it would be checked of those of all groups.
    fn check_ungrouped(&self, method: &str) -> Result<()> {
        match self.groups.is_empty() {
            true => Ok(()),
            false => plan_err!("{method} is about the rows of all groups; say it before group_apply"),
        }
    }

    fn required(&self, assertion: Assertion) -> Result<Stream> {
        self.then(extension(Require::try_new(self.input(), assertion)?))
    }
}
