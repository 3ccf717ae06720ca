//! Everything about bounded queries, from outside.

#![allow(clippy::unwrap_used)]

mod answers;
mod bounds;
mod crashes;
mod cursors;
mod encoding;
mod exactly;
mod lint;
mod names;
mod nulls;
mod outage;
mod predict;
mod processes;
mod races;
mod random;
mod refusals;
mod scadr;
mod speed;
mod stores;
mod subqueries;
mod support;
mod tpcw;
mod views;
#[path = "../../../../benches/bounded/workloads.rs"]
mod workloads;
mod writes;
