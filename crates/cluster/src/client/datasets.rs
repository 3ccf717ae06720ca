//! Datasets with names, which applications share (quill.txt §5.2, Table 3).

use super::Cluster;
use crate::dataset::ClusterDataset;
use crate::error::of_store;
use crate::job::ClusterJob;
use crate::records::{DatasetRecord, Lifetime};
use datafusion::common::{Result, plan_err};
use serde_bytes::ByteBuf;
use whimbrel_control::Transaction;
use whimbrel_plan::Stream;
use whimbrel_sharded::Options;

impl Cluster {
    /// Runs a query, and keeps its result in the memory of the workers under a name; a stream that reads it.
    /// What does not fit into their memory is on their disks.
    ///
    /// # Errors
    /// `Plan` if there is a dataset of that name; those of the query.
    pub fn store_dataset(&self, name: &str, stream: &Stream, options: &Options) -> Result<Stream> {
        let job = self.begin_dataset(name, stream, options)?;
        let stored = job.wait(None).and_then(|_| self.name_dataset(name, &job));
        if stored.is_err() {
            job.cancel()?;
        }
        stored
    }

    /// Runs a query whose rows will be a dataset, once they are [named](Cluster::name_dataset).
    ///
    /// # Errors
    /// As [`store_dataset`](Cluster::store_dataset).
    pub fn begin_dataset(&self, name: &str, stream: &Stream, options: &Options) -> Result<ClusterJob> {
        self.check_new(name)?;
        self.submit(stream, options, Lifetime::Unlimited)
    }

    /// Gives a name to the result of a query that has ended.
    ///
    /// # Errors
    /// `Plan` if there is a dataset of that name; those of the store.
    pub fn name_dataset(&self, name: &str, job: &ClusterJob) -> Result<Stream> {
        let stored = ClusterDataset::of(job.clone())?.stream(name)?;
        self.put_dataset(name, Some(job.name().to_string()), &stored)?;
        Ok(stored)
    }

    /// Gives a name to a query: whoever reads the dataset runs it.
    ///
    /// # Errors
    /// `Plan` if there is a dataset of that name, or the query is bound to this process.
    pub fn create_dataset(&self, name: &str, stream: &Stream) -> Result<()> {
        self.check_new(name)?;
        self.put_dataset(name, None, stream)
    }

    /// The datasets, with their names.
    ///
    /// # Errors
    /// Those of the store.
    pub fn datasets(&self) -> Result<Vec<(String, DatasetRecord)>> {
        let rows = self.connection.tables.datasets().rows().map_err(of_store)?;
        Ok(rows.into_iter().map(|(name, row)| (name, row.value)).collect())
    }

    /// A stream that reads a dataset.
    ///
    /// # Errors
    /// `Plan` if there is none of this name.
    pub fn dataset(&self, name: &str) -> Result<Stream> {
        match self.connection.tables.datasets().get(name).map_err(of_store)? {
            Some(row) => Stream::from_bytes(&row.value.plan, &self.references),
            None => plan_err!("the cluster has no dataset `{name}`"),
        }
    }

    /// Removes a dataset, and its rows if they are in the memory of the workers.
    ///
    /// # Errors
    /// `Plan` if there is none of this name.
    pub fn remove_dataset(&self, name: &str) -> Result<()> {
        let (tables, datasets) = (&self.connection.tables, self.connection.tables.datasets());
        let Some(row) = datasets.get(name).map_err(of_store)? else {
            return plan_err!("the cluster has no dataset `{name}`");
        };
        let unchanged = datasets.unchanged(name, Some(row.version));
        let removal = Transaction::new().when(unchanged).then(datasets.delete(name));
        match (tables.store.commit(&removal).map_err(of_store)?.is_committed(), row.value.job) {
            (true, Some(job)) => tables.remove_job(&job),
            (true, None) => Ok(()),
            // It was removed or replaced meanwhile.
            (false, _) => self.remove_dataset(name),
        }
    }

    fn check_new(&self, name: &str) -> Result<()> {
        match self.connection.tables.datasets().get(name).map_err(of_store)? {
            Some(_) => plan_err!("there is a dataset `{name}` already; remove it first"),
            None => Ok(()),
        }
    }

    fn put_dataset(&self, name: &str, job: Option<String>, stream: &Stream) -> Result<()> {
        let datasets = self.connection.tables.datasets();
        let record = DatasetRecord { job, plan: ByteBuf::from(stream.to_bytes(&self.references)?) };
        let put = Transaction::new()
            .when(datasets.unchanged(name, None))
            .then(datasets.put(name, &record).map_err(of_store)?);
        match self.connection.tables.store.commit(&put).map_err(of_store)?.is_committed() {
            true => Ok(()),
            false => plan_err!("there is a dataset `{name}` already; remove it first"),
        }
    }
}
