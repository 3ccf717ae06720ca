//! The cluster: the same plan on many machines, without a master (quill.txt §5; quokka.txt).
//!
//! Clients and workers meet in a control store. A client writes down a job: its specification, and for each
//! channel of the query the worker that runs it. Each worker runs the channels that are its own, keeps what
//! they send, and serves that to consumers on other workers. When a worker is lost, the others give its
//! channels to those that are left: channels are deterministic, so one that runs again sends the same frames
//! under the same numbers, and its consumers go on where they were.
//!
//! Layers, lowest first; each module uses only modules above it in this list:
//! 1. `error`: errors by their remedies;
//! 2. `compact`, `frame`, `network`: items of queues as bytes, and the thread that moves them;
//! 3. `records`: what the control store has;
//! 4. `placement`, `workers`: which worker runs what, and who is there;
//! 5. `backup`: what channels have sent;
//! 6. `flight`: frames over the network;
//! 7. `pull`, `carrier`: the two ends of a queue;
//! 8. `worker`: a process that runs channels;
//! 9. `client`: a process that submits jobs.
//!
//! Start at [`Worker::start`] and [`Cluster`].
//!
//! Not here: what channels compute (whimbrel-sharded), how the store keeps anything (whimbrel-control).

mod backup;
mod carrier;
mod client;
mod compact;
mod error;
mod flight;
mod frame;
mod network;
mod placement;
mod pull;
mod records;
mod worker;
mod workers;

pub use client::Cluster;
pub use records::WorkerRecord;
pub use worker::{Worker, WorkerOptions};
pub use workers::LiveWorker;
