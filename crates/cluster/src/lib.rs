//! The cluster: the same plan on many machines, without a master (quill.txt §5; quokka.txt).
//!
//! Clients and workers meet in a control store. A client writes down a job: its specification, and for each
//! channel of the query the worker that runs it. Each worker runs the channels that are its own, keeps what
//! they send, and serves that to consumers on other workers. When a worker is lost, the others give its
//! channels to those that are left: channels are deterministic but for the choices that their lineage has,
//! so one that runs again sends the same frames under the same numbers, and its consumers go on where they
//! were.
//!
//! Layers, lowest first; each module uses only modules above it in this list:
//! 1. `error`: errors by their remedies;
//! 2. `records`: what the control store has;
//! 3. `statistics`: what channels have done; `placement`, `live_workers`: which worker runs what, and who is
//!    there; `plan`: what the channels of a job share;
//! 4. `backup`: what channels have sent; `identity`: who belongs to the cluster; `activity`: what operators
//!    do;
//! 5. `flight`: frames over the network; `lineage`: choices, written down before what depends on them;
//! 6. `pull`, `carrier`: the two ends of a queue; `queues`: those of a channel; `connection`: what all of a
//!    process share;
//! 7. `remote_query`: a query as its job waits for it; `follow`, `fetch`: how a job is doing, and its
//!    result; `job`: jobs that are there;
//! 8. `dataset`, `references`: results that other plans read;
//! 9. `live`: queries that run for ever, each hosted by one worker;
//! 10. `worker`: a process that runs channels and hosts live jobs;
//! 11. `client`: a process that submits jobs;
//! 12. `simulation`, in tests only: workers, clients and their store, step by step, with faults by chance.
//!
//! Start at [`Worker::start`] and [`Cluster`].
//!
//! Not here: what channels compute (whimbrel-sharded), how live jobs survive (whimbrel-jobs), how the store
//! keeps anything (whimbrel-control).

mod activity;
mod backup;
mod budget;
mod carrier;
mod client;
mod connection;
mod dataset;
mod error;
mod fetch;
mod flight;
mod follow;
mod identity;
mod job;
mod lineage;
mod live;
mod live_workers;
mod placement;
mod plan;
mod pull;
mod queues;
mod records;
mod references;
mod remote_query;
#[cfg(test)]
mod simulation;
mod statistics;
mod worker;

pub use activity::{JobActivity, OperatorActivity};
pub use client::Cluster;
pub use job::{ClusterJob, JobStatus, RunTime};
pub use live::{LiveJob, LiveJobOptions, LiveJobRecord, LiveProgress, LiveState};
pub use live_workers::LiveWorker;
pub use records::{
    DatasetRecord, JobRecord, JobState, Lifetime, Membership, RunRecord, Schedule, WorkerRecord,
};
pub use statistics::{JobStatistics, StageProgress};
pub use worker::{Worker, WorkerOptions};
