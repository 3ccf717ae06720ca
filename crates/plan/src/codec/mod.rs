//! A plan as bytes, which another process reads.
//!
//! The bytes begin with what they are, the version of their form, and a digest of the rest. What follows is a
//! [`Document`](document::Document): the sources, and the steps, inputs first. Expressions and schemas are
//! written by `datafusion-proto`, whose plans are not used: they know fewer steps, forget parts of some, and
//! recurse.
//!
//! Layers, lowest first: `document`, `names`, `nesting`; `references`, `subquery`, `functions`; `expression`;
//! `decode`; `encode`.
//!
//! Invariants: bytes are refused, never misread, if they are damaged, foreign or of another version; a plan
//! that was written is read as an equal plan; equal plans that were built alike have equal bytes, in any
//! process.

mod decode;
mod document;
mod encode;
mod expression;
mod functions;
mod names;
mod nesting;
mod references;
mod subquery;

pub use references::References;

use crate::stream::Stream;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use decode::Decoder;
use document::Document;
use encode::Encoder;
use expression::{Expressions, damaged};
use names::Names;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What the bytes of a plan begin with.
const MAGIC: &[u8; 4] = b"WBPL";

/// The form of the bytes. It grows with every change to a document, to the order of known functions, and to
/// DataFusion.
const VERSION: u16 = 11;

/// Bytes of a digest.
const DIGEST: usize = 32;

/// A step of a plan as bytes, without its inputs: what stands in their place are their columns. Equal steps
/// over equal columns have equal bytes, in any process of this release.
///
/// # Errors
/// `Plan` if the step cannot be written.
pub fn step_bytes(step: &LogicalPlan, references: &Arc<dyn References>) -> Result<Vec<u8>> {
    let columns = |input: &&LogicalPlan| {
        let schema = Arc::clone(input.schema());
        LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema })
    };
    let inputs = step.inputs().iter().map(columns).collect();
    let alone = step.with_new_exprs(step.expressions(), inputs)?;
    let document = Encoder::new(Arc::clone(references)).document(&alone)?;
    postcard::to_stdvec(&document).map_err(|e| plan_datafusion_err!("{e}"))
}

impl Stream {
    /// The plan as bytes. Any process of this release can read them, if it can reach the sources and knows
    /// the functions.
    ///
    /// # Errors
    /// `Plan` if a source or a function of the plan cannot be had elsewhere, or a step cannot be written.
    pub fn to_bytes(&self, references: &Arc<dyn References>) -> Result<Vec<u8>> {
        let document = Encoder::new(Arc::clone(references)).document(self.plan())?;
        let document = postcard::to_stdvec(&document).map_err(|e| plan_datafusion_err!("{e}"))?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(blake3::hash(&document).as_bytes());
        bytes.extend(document);
        Ok(bytes)
    }

    /// The stream of bytes that [`to_bytes`](Stream::to_bytes) gave.
    ///
    /// # Errors
    /// `Plan` if they are damaged, no plan, or of another release; what the sources fail with.
    pub fn from_bytes(bytes: &[u8], references: &Arc<dyn References>) -> Result<Stream> {
        let document = payload(bytes)?;
        // Libraries panic on some damage. What they were building is dropped.
        catch_unwind(AssertUnwindSafe(|| Stream::from_document(document, references))).unwrap_or_else(|_| {
            plan_err!("the bytes of this plan are damaged: a library could not read them")
        })
    }

    fn from_document(bytes: &[u8], references: &Arc<dyn References>) -> Result<Stream> {
        let document: Document = postcard::from_bytes(bytes).map_err(damaged)?;
        let expressions = Arc::new(Expressions::new(Arc::clone(references)));
        let mut decoder = Decoder::new(expressions, Names::read(&document.tables));
        for source in &document.sources {
            decoder.sources.push(references.read_source(source)?);
        }
        for step in &document.steps {
            let plan = decoder.build(step)?;
            decoder.push(Arc::new(plan))?;
        }
        match decoder.into_plan() {
            Some(plan) => Stream::from_plan(LogicalPlan::clone(&plan)),
            None => plan_err!("the bytes of this plan are damaged: there are no steps"),
        }
    }
}

/// The document in the bytes of a plan.
fn payload(bytes: &[u8]) -> Result<&[u8]> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return plan_err!("these bytes are no plan; to_bytes() gives those of one");
    };
    let Some((version, rest)) = rest.split_first_chunk::<2>() else {
        return plan_err!("the plan is cut off");
    };
    let version = u16::from_le_bytes(*version);
    if version != VERSION {
        return plan_err!(
            "this plan was written by another release, in form {version}; this one reads form {VERSION}: write it again"
        );
    }
    let Some((digest, document)) = rest.split_first_chunk::<DIGEST>() else {
        return plan_err!("the plan is cut off");
    };
    if blake3::hash(document).as_bytes() != digest {
        return plan_err!("the bytes of this plan are damaged: their digest is another");
    }
    Ok(document)
}
