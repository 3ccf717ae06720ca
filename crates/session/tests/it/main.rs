//! Tests of the crate from outside.

#![allow(clippy::unwrap_used)]

mod plan_bytes;
