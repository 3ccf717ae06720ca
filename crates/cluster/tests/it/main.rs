//! Tests of the cluster, in one program.

#![allow(clippy::unwrap_used)]

mod queries;
mod support;
