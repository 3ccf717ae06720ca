//! Where a relation becomes a stream.

use super::Stream;
use crate::duration::Duration;
use crate::names::{column, index_of};
use crate::nodes::{AllowedLateness, Ingress, Partitioning, Scope, TimeSpec, extension};
use crate::source::bare_scan;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::Expr;
use whimbrel_temporal::{IngressOptions, Punctuate};

impl Stream {
    /// Gives the rows lifetimes: the relation becomes a stream.
    ///
    /// # Errors
    /// `Plan` if this is a stream already, the columns of the time do not fit, or the options contradict each
    /// other.
    pub fn ingress(&self, time: TimeSpec, options: IngressOptions) -> Result<Stream> {
        self.then(extension(self.ingress_node(time, options)?))
    }

    /// The same with a clock for each partition: rows of one are in order, and no other makes them late
    /// (trill.txt §5.4). The columns that tell partitions apart are the key of the stream.
    ///
    /// What follows is computed for each partition by itself, until rows move between shards, or
    /// [`merge_partitions`](Stream::merge_partitions) puts them in one order.
    ///
    /// # Errors
    /// As [`ingress`](Stream::ingress); `Plan` if no column is named, a column cannot tell partitions apart,
    /// or the lag is negative.
    pub fn ingress_by_partition(
        &self,
        time: TimeSpec,
        options: IngressOptions,
        partitioning: Partitioning,
    ) -> Result<Stream> {
        if partitioning.columns.is_empty() {
            return plan_err!("partition_by: name the columns that tell partitions apart");
        }
        match partitioning.lag {
            Some(lag) if lag < 0 => return plan_err!("lag: a duration before now; give 0 or more"),
            Some(_) if time.kind.is_some() => {
                return plan_err!("lag: edges come with low watermarks of their own; leave it out");
            }
            _ => {}
        }
        let shards = self.properties.shards;
        let key: Vec<Expr> = partitioning.columns.iter().map(column).collect();
        let gathered = match shards {
            1 => self.clone(),
            // All rows of a partition have to be in one shard.
            _ => self.rekey(key.clone())?.redistribute(Some(shards), Scope::Global)?.rekey(vec![])?,
        };
        let ingress = gathered.ingress_node(time, options)?.partitioned(Some(partitioning))?;
        self.then(extension(ingress))?.rekey(key)
    }

    /// Puts the rows of all partitions in one order: the stream has one clock again, and waits for its
    /// slowest partition.
    ///
    /// # Errors
    /// `Plan` if the stream has one clock already.
    pub fn merge_partitions(&self) -> Result<Stream> {
        if self.properties.partition.is_empty() {
            return plan_err!(
                "merge_partitions: the stream has one clock already; partition_by= makes others"
            );
        }
        let key = self.key_exprs();
        match self.properties.shards {
            1 => self.reshard(Some(1), Scope::Global),
            shards => self.redistribute(Some(shards), Scope::Global)?.rekey(key),
        }
    }

    /// A live relation without the rows that are more than `lateness` behind the latest in the column `time`,
    /// and without those that are `retention` or more behind these: they are forgotten, and what has been
    /// computed of them is final. A bounded relation stays as it is: none of its rows is late.
    ///
    /// Every row of a result has to be about rows of one window, which ends at most `retention` after their
    /// time; the result of a window that is over must not be part of another. All rows are brought to one
    /// shard before.
    ///
    /// # Errors
    /// `Plan` if this is a stream with a time, the column cannot tell time, or a duration is negative.
    pub fn allow_lateness(
        &self,
        time: &str,
        lateness: impl Into<Duration>,
        retention: impl Into<Duration>,
    ) -> Result<Stream> {
        if self.properties.bounded {
            return Ok(self.clone());
        }
        let one = match self.properties.shards {
            1 => self.clone(),
            _ => self.reshard(Some(1), Scope::Global)?,
        };
        let clock = one.df_schema().field(index_of(one.df_schema(), time)?).data_type().clone();
        AllowedLateness::check_time(time, &clock)?;
        let lateness = lateness.into().ticks(&clock, "lateness")?;
        let retention = retention.into().ticks(&clock, "retention")?;
        let node = AllowedLateness::try_new(one.input(), time.to_string(), lateness, retention)?;
        one.then(extension(node))
    }

    fn ingress_node(&self, time: TimeSpec, options: IngressOptions) -> Result<Ingress> {
        if self.properties.time.is_some() {
            return plan_err!("this is a stream already; it gets its time once");
        }
        check_options(&options)?;
        // Ingress takes the qualifiers off itself, so it can stand right on the table.
        let input = bare_scan(&self.plan).unwrap_or(&self.plan);
        Ingress::try_new(input.as_ref().clone(), time, options)
    }
}

/// Numbers with which ingress could not work.
fn check_options(options: &IngressOptions) -> Result<()> {
    if options.reorder_latency < 0 {
        return plan_err!("the reorder latency is {} ticks; give 0 or more", options.reorder_latency);
    }
    if options.batch_rows == 0 {
        return plan_err!("a batch cannot hold 0 rows; give at least 1");
    }
    match options.punctuate {
        Punctuate::Every(ticks) if ticks <= 0 => {
            plan_err!("punctuation every {ticks} ticks; give a positive number")
        }
        Punctuate::Rows(0) => plan_err!("punctuation every 0 rows; give at least 1"),
        _ => Ok(()),
    }
}
