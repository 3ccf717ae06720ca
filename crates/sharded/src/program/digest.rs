//! Digests of stages: equal ones compute the same of the same sources, whichever query they are in.

use super::Programs;
use crate::dataset::fingerprint;
use crate::stage::{Origin, Stage, StageGraph};
use datafusion::common::Result;
use datafusion::logical_expr::Expr;
use std::sync::Arc;
use whimbrel_plan::nodes::Exchange;
use whimbrel_plan::{References, step_bytes, with_room};

/// The digest of a stage.
pub type StageDigest = [u8; 32];

impl Programs {
    /// The digest of each stage: of what its channels compute, of what they read, and of how their output is
    /// divided among those that read it. None for a stage with a step that has no bytes, or another value
    /// each time.
    ///
    /// # Errors
    /// `Plan` if the rows of a source are in this process only.
    pub fn stage_digests(&self, references: &Arc<dyn References>) -> Result<Vec<Option<StageDigest>>> {
        with_room(|| {
            let mut digests = Vec::new();
            for number in 0..self.stages().stages.len() {
                let bytes = written(self, number, &digests, references)?;
                digests.push(bytes.map(|bytes| *blake3::hash(&bytes).as_bytes()));
            }
            Ok(digests)
        })
    }
}

/// All that the output of a stage depends on, as bytes.
fn written(
    programs: &Programs,
    number: usize,
    before: &[Option<StageDigest>],
    references: &Arc<dyn References>,
) -> Result<Option<Vec<u8>>> {
    let (stages, stage) = (programs.stages(), &programs.stages().stages[number]);
    let mut bytes = Vec::new();
    append(&mut bytes, env!("CARGO_PKG_VERSION").as_bytes());
    append(&mut bytes, format!("{:?} {} {}", stage.kind, stage.channels, stage.machines).as_bytes());
    if !append_inputs(&mut bytes, stage, before)? {
        return Ok(None);
    }
    for node in &stage.nodes {
        // What has another value each time is computed each time.
        if node.plan.expressions().iter().any(Expr::is_volatile) {
            return Ok(None);
        }
        let Ok(step) = step_bytes(&node.plan, references) else { return Ok(None) };
        append(&mut bytes, format!("{:?}", node.inputs).as_bytes());
        append(&mut bytes, &step);
    }
    for (place, output) in stage.outputs.iter().enumerate() {
        let is_result = stages.result == (number, place);
        append(&mut bytes, format!("{:?} {:?} {is_result}", output.operand, output.mode).as_bytes());
        output.readers.iter().for_each(|reader| append(&mut bytes, division(stages, *reader).as_bytes()));
    }
    append(&mut bytes, programs.result_form(number).as_bytes());
    Ok(Some(bytes))
}

/// Appends what a stage reads; whether all of it has a digest.
fn append_inputs(bytes: &mut Vec<u8>, stage: &Stage, before: &[Option<StageDigest>]) -> Result<bool> {
    for input in &stage.inputs {
        append(
            bytes,
            format!("{:?} {:?}", input.schema.fields(), input.ingress.as_ref().map(times)).as_bytes(),
        );
        match &input.origin {
            Origin::Scan(scan) => {
                append(bytes, &fingerprint(scan.source.as_ref())?);
                append(bytes, format!("{:?}", scan.columns).as_bytes());
            }
            Origin::Edge { stage, output, exchange } => {
                let Some(digest) = before[*stage] else { return Ok(false) };
                append(bytes, &digest);
                append(bytes, format!("{output} {}", movement(exchange.as_deref())).as_bytes());
            }
        }
    }
    Ok(true)
}

/// How rows become events.
fn times(ingress: &whimbrel_plan::nodes::Ingress) -> String {
    format!("{:?} {:?}", ingress.time, ingress.options)
}

/// How an output is divided among the channels of a stage that reads it.
fn division(stages: &StageGraph, (stage, input): (usize, usize)) -> String {
    let reader = &stages.stages[stage];
    match &reader.inputs[input].origin {
        Origin::Edge { exchange, .. } => format!("{} {}", reader.channels, movement(exchange.as_deref())),
        Origin::Scan(_) => String::new(),
    }
}

fn movement(exchange: Option<&Exchange>) -> String {
    match exchange {
        Some(exchange) => format!("{:?} {:?} {:?}", *exchange.movement, exchange.shards, exchange.scope),
        None => "none".to_string(),
    }
}

/// Appends a part, so that no two sequences of parts are the same bytes.
fn append(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend((part.len() as u64).to_le_bytes());
    bytes.extend(part);
}
