//! Aggregates over the rows alive together, per current key, and grouping.

use super::Stream;
use super::calls::Groups;
use crate::aggregate::Agg;
use crate::names::index_of;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::Expr;
use std::sync::Arc;

impl Stream {
    /// Aggregates over the rows alive together, per current key: the key's columns, then one column an
    /// aggregate.
    ///
    /// ```
    /// # use datafusion::arrow::datatypes::DataType;
    /// # use datafusion::common::ScalarValue;
    /// # use datafusion::logical_expr::lit;
    /// # use whimbrel_plan::{Stream, column};
    /// # fn main() -> datafusion::common::Result<()> {
    /// # let integers = |name: &str| (name.to_string(), DataType::Int64);
    /// # let row = |values: &[i64]| values.iter().map(|v| ScalarValue::from(*v)).collect::<Vec<_>>();
    /// # let names = |s: &Stream| s.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
    /// let orders = Stream::values(&[integers("id"), integers("price")], vec![row(&[1, 20]), row(&[2,
    /// 30])])?; use whimbrel_plan::Agg;
    ///
    /// let counts = orders.rekey(vec![column("id")])?.aggregate(vec![("n".to_string(), Agg::count())])?;
    /// assert_eq!(names(&counts), ["id", "n"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Plan` if none is named, two have one name, or the types of their arguments do not fit.
    pub fn aggregate(&self, aggregates: Vec<(String, Agg)>) -> Result<Stream> {
        let calls = aggregates.into_iter().map(|(name, agg)| (name, agg.into()));
        self.aggregate_by(Groups::Key, calls.collect())
    }

    /// Applies a query to each group by itself: inside, the key is the current key and `key`. Nestable.
    ///
    /// What `query` gives has to keep the columns of the outer key, by which the result is keyed.
    ///
    /// # Errors
    /// `Plan` if there is no key, a column is not there, or the query drops the columns of the outer key;
    /// those of the query.
    pub fn group_apply(
        &self,
        key: Vec<Expr>,
        query: impl FnOnce(Stream) -> Result<Stream>,
    ) -> Result<Stream> {
        if key.is_empty() {
            return plan_err!("group_apply: say by what to group");
        }
        let outer = self.key().to_vec();
        let all = self.key_exprs().into_iter().chain(key).collect();
        let keyed = self.rekey(all)?;
        let groups = Arc::from(keyed.key());
        let result = query(Stream { groups, ..keyed })?;
        let result = Stream { groups: Arc::clone(&self.groups), ..result };
        for name in &outer {
            if let Err(missing) = index_of(result.df_schema(), name) {
                return plan_err!("group_apply: the result has to keep the outer key: {}", missing.message());
            }
        }
        result.keyed_by(&outer)
    }
}
