//! Jobs that survive: queries that run for ever, and go on after a crash as if nothing had happened.
//!
//! A job cuts its input into epochs. Which rows an epoch has is on its *tape* before anything of the
//! epoch can be seen; from time to time the states of all channels are written as a *checkpoint*; and the
//! sink keeps the number of the last epoch together with its rows. After a crash the job goes on from the
//! newest checkpoint that is not ahead of the sink, reads the same slices again, and leaves out what the
//! sink has. As channels are deterministic (quill.txt §3; quokka.txt §III), that gives what one
//! undisturbed run would have given, and no commit needs two phases.
//!
//! Layers, lowest first; each module uses only modules above it in this list:
//! 1. `error`, `codec`: errors of files; records as bytes;
//! 2. [`store`]: where the state is kept;
//! 3. `identity`, `generation`, `tape`, `checkpoint`: what is kept;
//! 4. [`sink`]: where results go;
//! 5. `committer`, `checkpoint_writer`: the threads that commit results and write checkpoints;
//! 6. `recovery`: from a store to where a job goes on;
//! 7. `coordinator`: cuts epochs, and follows them to their end;
//! 8. `job`: a job as its caller sees it.
//!
//! Start at [`start`], then read `coordinator.rs`.
//!
//! Not here: what queries compute and how sources are read again (whimbrel-sharded).

pub mod sink;
pub mod store;

mod checkpoint;
mod checkpoint_writer;
mod codec;
mod committer;
mod coordinator;
mod error;
mod generation;
mod identity;
mod job;
mod recovery;
mod tape;

pub use coordinator::Pace;
pub use error::is_overtaken;
pub use job::{DurableJob, JobOptions, start, start_with};
