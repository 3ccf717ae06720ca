//! Control stores: one contract for all of them, against a model, under contention, and when servers fail.

#![allow(clippy::unwrap_used)]

mod access;
mod concurrency;
mod contract;
mod failures;
mod leases;
mod lost_replies;
mod model;
mod namespaces;
mod places;
mod proxy;
mod relay;
mod server;
