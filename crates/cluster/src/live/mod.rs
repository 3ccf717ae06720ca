//! Live jobs: queries that run for ever, each hosted by one worker.
//!
//! A host runs the coordinator of a job that survives (whimbrel-jobs): it cuts the input into epochs, and has
//! checkpoints and the sink. The channels run on the members of its team, as many workers as the job has
//! channels side by side; the host orders what they read, and they report what comes out. Who hosts a job is
//! in a row of the control store; a worker that finds no live worker there writes itself down, by compare and
//! set, with a team, and goes on from the newest checkpoint. A member that is lost ends the attempt for all:
//! the host begins the next one from the newest checkpoint, with those that are left. Workers that come later
//! and stay are a reason to begin the next one, too.
//!
//! Layers, lowest first: `record`, what the store has; `notes`, what hosts and members tell each other;
//! `team`, who takes part; `member`, channels that run on this worker; `team_runtime`, the host's side of a
//! team; `hosting`, a job that this worker hosts; `growth`, when it is begun again for more workers;
//! `host`, which jobs a worker takes and gives up; `job`, a job as its client sees it.

mod growth;
mod host;
mod hosting;
mod job;
mod member;
mod notes;
mod record;
mod team;
mod team_runtime;

pub use host::Host;
pub use job::{LiveJob, submit};
pub use record::{LiveJobOptions, LiveJobRecord, LiveProgress, LiveState};
pub use team::Station;
