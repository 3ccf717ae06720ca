//! Live jobs: queries that run for ever, each hosted by one worker.
//!
//! The whole plan runs on the threads of its host, as a job that survives (whimbrel-jobs). Who hosts it is in
//! a row of the control store; a worker that finds no live worker there writes itself down, by compare and
//! set, and goes on from the newest checkpoint.
//!
//! Layers, lowest first: `record`, what the store has; `hosting`, a job that runs on this worker; `host`,
//! which jobs a worker takes and gives up; `job`, a job as its client sees it.

mod host;
mod hosting;
mod job;
mod record;

pub use host::Host;
pub use job::{LiveJob, submit};
pub use record::{LiveJobOptions, LiveJobRecord, LiveProgress, LiveState};
