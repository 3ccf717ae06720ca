//! Outputs of stages that are kept: the next query that has the same stage over the same inputs, and a query
//! that is started again, go on from them.
//!
//! Invariants: a stage is named by the digest of what it computes, of its inputs and of how its output is
//! divided; its list is written once all its tasks have ended; a list that is too old, or that names an
//! object which is not there any more, counts for nothing.

use super::keys::{kept_key, manifest_key};
use super::units::Units;
use crate::bucket::Bucket;
use crate::carrier::of_bucket;
use crate::protocol::{OutputPlace, WorkOutput};
use datafusion::common::{Result, internal_datafusion_err};
use futures::StreamExt;
use object_store::PutPayload;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How many objects are looked for at the same time.
const PARALLEL_LOOKS: usize = 32;

/// The list of the outputs of a stage.
#[derive(Serialize, Deserialize)]
struct Manifest {
    /// When it was written, in seconds since 1970.
    written: u64,
    /// The output of each task.
    outputs: Vec<WorkOutput>,
}

/// The outputs of the stages of a query that are kept.
pub struct StageCache {
    units: Arc<Units>,
    bucket: Arc<Bucket>,
    /// For how long.
    age: Duration,
    /// The name of each stage; none for one whose output depends on more than its inputs.
    stages: Vec<Option<String>>,
    /// Which stages were there, or have been written.
    listed: Vec<bool>,
    /// How many requests the lists, and looking for what they name, took: reads, and writes.
    pub requests: (u64, u64),
}

impl StageCache {
    /// The stages of a query, by their digests.
    pub fn new(
        units: Arc<Units>,
        bucket: Arc<Bucket>,
        age: Duration,
        digests: Vec<Option<[u8; 32]>>,
    ) -> StageCache {
        let name = |digest: [u8; 32]| digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let listed = vec![false; digests.len()];
        let stages = digests.into_iter().map(|digest| digest.map(name)).collect();
        StageCache { units, bucket, age, stages, listed, requests: (0, 0) }
    }

    /// The key of the output of a unit, if it is kept.
    pub fn key(&self, unit: usize) -> Option<String> {
        let stage = self.stages[self.units.stage(unit)].as_ref()?;
        let first = self.units.plan.topology.channels_of(self.units.stage(unit)).start;
        self.units.combine(unit).is_none().then(|| kept_key(stage, unit - first))
    }

    /// The outputs that are there, by unit. A stage is looked for if none of those that read from it is
    /// there.
    pub async fn find(&mut self) -> Vec<Option<WorkOutput>> {
        let mut outputs = vec![None; self.units.count()];
        let mut wanted = vec![false; self.stages.len()];
        wanted[self.units.plan.programs.stages().result.0] = true;
        for stage in (0..self.stages.len()).rev() {
            if !wanted[stage] {
                continue;
            }
            let tasks = self.units.plan.topology.channels_of(stage);
            match self.manifest(stage).await {
                Some(found) if found.len() == tasks.len() => {
                    self.listed[stage] = true;
                    tasks.zip(found).for_each(|(task, output)| outputs[task] = Some(output));
                }
                _ => {
                    let plan = &self.units.plan;
                    for task in tasks {
                        let queues = plan.inputs(task).map(|queue| plan.topology.queues()[queue].producer);
                        queues.for_each(|producer| wanted[plan.stage(producer)] = true);
                    }
                }
            }
        }
        outputs
    }

    /// The outputs in the list of a stage, if there is one that is not too old, and if all of them are there.
    async fn manifest(&mut self, stage: usize) -> Option<Vec<WorkOutput>> {
        let key = manifest_key(self.stages[stage].as_ref()?);
        self.requests.0 += 1;
        let bytes = self.bucket.get_small(&key).await.ok()?;
        let manifest: Manifest = serde_json::from_slice(&bytes).ok()?;
        let age = seconds_since_1970().saturating_sub(manifest.written);
        if age > self.age.as_secs() {
            return None;
        }
        self.requests.0 += manifest.outputs.len() as u64;
        self.hold_all(&manifest.outputs).await.then_some(manifest.outputs)
    }

    /// Whether all outputs are there: a rule of the bucket may have removed some.
    async fn hold_all(&self, outputs: &[WorkOutput]) -> bool {
        let holds = |output: &WorkOutput| {
            let (bucket, place) = (Arc::clone(&self.bucket), output.place.clone());
            async move {
                match place {
                    OutputPlace::Inline(_) => true,
                    OutputPlace::Object { key, tag } => {
                        bucket.holds(&key, tag.as_deref()).await.unwrap_or(false)
                    }
                }
            }
        };
        let found = futures::stream::iter(outputs.iter().map(holds));
        found.buffer_unordered(PARALLEL_LOOKS).all(|is_there| async move { is_there }).await
    }

    /// Writes the list of a stage all of whose tasks have ended, unless it is there.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn list(&mut self, stage: usize, outputs: &[Option<WorkOutput>]) -> Result<()> {
        let tasks = self.units.plan.topology.channels_of(stage);
        let outputs: Option<Vec<WorkOutput>> = outputs[tasks].iter().cloned().collect();
        let (Some(name), Some(outputs), false) = (&self.stages[stage], outputs, self.listed[stage]) else {
            return Ok(());
        };
        let manifest = Manifest { written: seconds_since_1970(), outputs };
        let bytes = serde_json::to_vec(&manifest).map_err(|error| internal_datafusion_err!("{error}"))?;
        self.bucket.put(&manifest_key(name), PutPayload::from(bytes)).await.map_err(of_bucket)?;
        self.listed[stage] = true;
        self.requests.1 += 1;
        Ok(())
    }
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
