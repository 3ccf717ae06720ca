//! Tests of the cluster, in one program.

#![allow(clippy::unwrap_used)]

mod model;
mod queries;
mod support;
