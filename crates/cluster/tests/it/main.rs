//! Tests of the cluster, in one program.

#![allow(clippy::unwrap_used)]

#[cfg(unix)]
mod live;
#[cfg(unix)]
mod live_processes;
mod metrics;
mod model;
mod queries;
mod support;
