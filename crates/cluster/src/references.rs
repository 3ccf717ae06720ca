//! What plans refer to on a cluster: what they refer to anywhere, and datasets of the cluster.

use crate::connection::Connection;
use crate::dataset::ClusterDataset;
use crate::job::ClusterJob;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use std::fmt;
use std::sync::Arc;
use whimbrel_plan::{References, Source};
use whimbrel_sharded::dataset::OpenSource;

/// The first byte of a source that is known everywhere.
const ANYWHERE: u8 = 0;

/// The first byte of a dataset of the cluster; the name of its job follows.
const DATASET: u8 = 1;

/// The references of plans that may read datasets of a cluster.
pub fn with_datasets(connection: &Arc<Connection>, others: &Arc<dyn References>) -> Arc<dyn References> {
    Arc::new(ClusterReferences { connection: Arc::clone(connection), others: Arc::clone(others) })
}

/// The references of a process of a cluster.
#[derive(Clone)]
struct ClusterReferences {
    connection: Arc<Connection>,
    others: Arc<dyn References>,
}

impl fmt::Debug for ClusterReferences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterReferences").field("others", &self.others).finish_non_exhaustive()
    }
}

impl References for ClusterReferences {
    fn write_source(&self, source: &dyn Source) -> Result<Vec<u8>> {
        let (kind, bytes) = match ClusterDataset::behind(source) {
            Some(dataset) => (DATASET, dataset.job().name().as_bytes().to_vec()),
            None => (ANYWHERE, self.others.write_source(source)?),
        };
        Ok([vec![kind], bytes].concat())
    }

    fn read_source(&self, bytes: &[u8]) -> Result<Arc<dyn Source>> {
        match bytes.split_first() {
            Some((&ANYWHERE, bytes)) => self.others.read_source(bytes),
            Some((&DATASET, name)) => {
                let name = std::str::from_utf8(name).map_err(|e| DataFusionError::Plan(e.to_string()))?;
                let references = with_datasets(&self.connection, &self.others);
                let job = ClusterJob::open(&self.connection, &references, name)?;
                Ok(Arc::new(OpenSource(Arc::new(ClusterDataset::of(job)?))))
            }
            _ => plan_err!("a source of this plan is damaged"),
        }
    }

    fn scalar_functions(&self, name: &str) -> Vec<Arc<ScalarUDF>> {
        self.others.scalar_functions(name)
    }

    fn aggregate_functions(&self, name: &str) -> Vec<Arc<AggregateUDF>> {
        self.others.aggregate_functions(name)
    }

    fn window_functions(&self, name: &str) -> Vec<Arc<WindowUDF>> {
        self.others.window_functions(name)
    }

    fn higher_order_functions(&self, name: &str) -> Vec<Arc<HigherOrderUDF>> {
        self.others.higher_order_functions(name)
    }

    fn write_parameters(&self, function: &ScalarUDF) -> Option<Vec<u8>> {
        self.others.write_parameters(function)
    }

    fn make_function(&self, name: &str, parameters: &[u8]) -> Result<ScalarUDF> {
        self.others.make_function(name, parameters)
    }
}
