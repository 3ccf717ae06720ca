//! What a job is: its query, and what its answer is computed with.
//!
//! A checkpoint belongs to one job and one release. Both are compared before a state is used: a state of
//! another query has other columns in other places, and one of another release may have another form.

use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use whimbrel_plan::{References, Source, Stream};
use whimbrel_sharded::dataset::fingerprint;
use whimbrel_sharded::{JobSpec, Options};

/// The identity of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The number that the job was given when it was begun.
    pub job: String,
    /// The digest of its specification.
    pub digest: [u8; 32],
    /// The release that runs it.
    pub engine: String,
}

impl Identity {
    /// The identity of a query that runs as the job of this number.
    ///
    /// # Errors
    /// `Plan` if the query cannot be explained.
    pub fn of(
        job: String,
        stream: &Stream,
        options: &Options,
        references: &Arc<dyn References>,
    ) -> Result<Identity> {
        let references: Arc<dyn References> = Arc::new(Fingerprints(Arc::clone(references)));
        let digest = match JobSpec::of(stream, options, &references) {
            Ok(spec) => spec.digest()?,
            // A plan with functions of the host language has no bytes; its text names them.
            Err(_) => {
                *blake3::hash(format!("{}\n{:?}", stream.explain()?, stream.schema()).as_bytes()).as_bytes()
            }
        };
        Ok(Identity { job, digest, engine: env!("CARGO_PKG_VERSION").to_string() })
    }

    /// Checks that what was found in a store is of this job.
    ///
    /// # Errors
    /// `Execution` if it is of another release or query.
    pub fn check(&self, found: &Identity, place: &str) -> Result<()> {
        if found.engine != self.engine {
            return exec_err!(
                "the state in `{place}` was written by release {}, and this is {}; end the job with the release \
                 that began it, or begin anew with another folder",
                found.engine,
                self.engine
            );
        }
        if found.digest != self.digest {
            return exec_err!(
                "the state in `{place}` is of another query or of other tables; run the query that began it, or begin \
                 anew with another folder"
            );
        }
        Ok(())
    }
}

/// What a plan refers to, with the fingerprints of sources in the place of their rows: bytes that are
/// compared and not read.
#[derive(Debug)]
struct Fingerprints(Arc<dyn References>);

impl References for Fingerprints {
    fn write_source(&self, source: &dyn Source) -> Result<Vec<u8>> {
        fingerprint(source)
    }

    fn read_source(&self, bytes: &[u8]) -> Result<Arc<dyn Source>> {
        self.0.read_source(bytes)
    }

    fn scalar_functions(&self, name: &str) -> Vec<Arc<ScalarUDF>> {
        self.0.scalar_functions(name)
    }

    fn aggregate_functions(&self, name: &str) -> Vec<Arc<AggregateUDF>> {
        self.0.aggregate_functions(name)
    }

    fn window_functions(&self, name: &str) -> Vec<Arc<WindowUDF>> {
        self.0.window_functions(name)
    }

    fn higher_order_functions(&self, name: &str) -> Vec<Arc<HigherOrderUDF>> {
        self.0.higher_order_functions(name)
    }

    fn write_parameters(&self, function: &ScalarUDF) -> Option<Vec<u8>> {
        self.0.write_parameters(function)
    }

    fn make_function(&self, name: &str, parameters: &[u8]) -> Result<ScalarUDF> {
        self.0.make_function(name, parameters)
    }
}

/// A number that no other job, run or process has.
pub fn new_number() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let address = Box::new(0_u8);
    let seed = format!("{} {} {:p}", now.as_nanos(), std::process::id(), address);
    let host = std::fs::read("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    hasher.update(seed.as_bytes()).update(&host);
    hasher.finalize().to_hex()[..16].to_string()
}
