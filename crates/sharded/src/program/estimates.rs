//! What is expected of the stages of a query, for planners of other crates. No answer depends on it.

use super::Programs;
use crate::dataset::dataset;
use crate::lower::Fragment;
use crate::stage::{Input, Origin};
use whimbrel_plan::estimate::Estimate;
use whimbrel_plan::nodes::Movement;

/// What is expected of all channels of a stage together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StageEstimate {
    /// Bytes that are read from sources.
    pub source_bytes: f64,
    /// How many objects these are in, if they are in an object store.
    pub source_objects: usize,
    /// How many requests read them.
    pub source_requests: usize,
    /// Bytes that come from other stages. What goes to all channels counts once for each.
    pub input_bytes: f64,
    /// Rows that come in.
    pub input_rows: f64,
    /// Bytes that are handed out, before they go to one or more readers.
    pub output_bytes: f64,
}

impl Programs {
    /// What is expected of each stage.
    pub fn estimates(&self) -> Vec<StageEstimate> {
        let mut estimates = Vec::new();
        for (number, stage) in self.stages().stages.iter().enumerate() {
            let mut estimate = StageEstimate::default();
            for input in &stage.inputs {
                self.add_input(&mut estimate, number, input, &estimates);
            }
            let all = estimate.source_bytes + estimate.input_bytes;
            // Of a temporal stage nothing is known: it hands out about what it takes.
            estimate.output_bytes = match self.fragment(number) {
                Some(Fragment { expected, .. }) => {
                    expected.rows_of_all(stage.channels) * expected.row_bytes()
                }
                None => all,
            };
            estimates.push(estimate);
        }
        estimates
    }

    /// About how many bytes the query reads from its sources.
    pub fn source_bytes(&self) -> f64 {
        self.estimates().iter().map(|stage| stage.source_bytes).sum()
    }

    fn add_input(&self, sum: &mut StageEstimate, stage: usize, input: &Input, before: &[StageEstimate]) {
        match &input.origin {
            Origin::Scan(scan) => {
                let statistics = scan.source.statistics().as_ref().clone().project(scan.columns.as_ref());
                let all = Estimate::of_statistics(&statistics, input.schema.as_arrow());
                sum.source_bytes += all.bytes();
                if let Ok(dataset) = dataset(scan.source.as_ref()) {
                    sum.source_objects += dataset.objects();
                    sum.source_requests += dataset.requests(scan.columns.as_deref());
                }
                sum.input_rows += all.rows;
            }
            Origin::Edge { stage: from, exchange, .. } => {
                let channels = self.stages().stages[stage].channels as f64;
                let is_copied = matches!(exchange.as_ref().map(|e| &*e.movement), Some(Movement::Broadcast));
                let copies = if is_copied { channels } else { 1.0 };
                sum.input_bytes += before[*from].output_bytes * copies;
                if let Some(Fragment { expected, .. }) = self.fragment(*from) {
                    sum.input_rows += expected.rows_of_all(self.stages().stages[*from].channels) * copies;
                }
            }
        }
    }
}
