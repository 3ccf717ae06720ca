//! Functions: the same plan on stateless functions over object storage, with a bill (starling.txt).
//!
//! A query is cut into stages as on any runtime. Each task of a stage is a piece of work for one invocation
//! of a function: it reads its partitions of the objects that other tasks have written, runs its channel, and
//! writes one object with all partitions of its output. The coordinator, in the process that asks, invokes
//! functions as their inputs become ready. Nothing is left when a query has ended, but its bill.
//!
//! Layers, lowest first; each module uses only modules above it in this list:
//! 1. `usage`, `prices`, `bill`: what is used, and what that costs;
//! 2. `meter`, `straggler`: requests that are counted, and when one is late (starling.txt §5);
//! 3. `staged_files`; `hedged_store`, `bucket`, `tables`: object stores whose late requests are sent twice;
//! 4. `object`, `plan`: the object of a task (§3.2), the tasks of a query and the partitions of their
//!    objects;
//! 5. `protocol`: what coordinator and functions tell each other;
//! 6. `carrier`, `task`: how a function does its work; `http`, `bootstrap`: how it gets it;
//! 7. `service`: functions as processes of one's own machines, as AWS Lambda runs them; `invoke`: invoking
//!    them; `pools`: which of two pools;
//! 8. `coordinator`: what is invoked when, multi-stage shuffles (§4.2), pipelining (§4.4);
//! 9. `model`: what a query will take and cost (§4.3); `billing`, `small_query`: queries and their bills;
//! 10. `client`: all of it as a runtime.
//!
//! Start at [`Functions`], follow it to `coordinator/job.rs`, then read `task.rs`.
//!
//! Not here: what tasks compute (whimbrel-sharded), names and files of queries (whimbrel-session).

mod bill;
mod billing;
mod bootstrap;
mod bucket;
mod carrier;
mod client;
mod coordinator;
mod hedged_store;
mod http;
mod invoke;
mod meter;
mod model;
mod object;
mod plan;
mod pools;
mod prices;
pub mod protocol;
mod service;
mod small_query;
mod staged_files;
mod straggler;
mod tables;
mod task;
mod usage;

pub use bill::{Attempt, AttemptKind, AttemptOutcome, Bill, Finished, PoolBill, PoolKind};
pub use bootstrap::serve;
pub use bucket::{Bucket, BucketAddress};
pub use client::{CLEAN_UP_WAIT, Functions, FunctionsSettings};
pub use coordinator::{Groups, JobSettings, ScheduleSettings, wait_for_clean_up};
pub use hedged_store::{HedgedStore, Stragglers};
pub use invoke::{FunctionAddress, Invoke, InvokeError, Invoked};
pub use meter::{BodySent, Meter};
pub use model::{
    Edge, Expected, Forecast, Goal, Model, PoolModel, Rates, Shape, StageForecast, StageShape, forecast_text,
};
pub use prices::{PriceSheet, Prices};
pub use service::{FunctionService, ServiceOptions};
pub use straggler::{Sharing, StragglerModel};
pub use usage::Usage;
