//! Tests of functions. This program is the function of its own services, too: the tests that are ignored are
//! what their processes run.

#![allow(clippy::unwrap_used)]

mod child;
mod pools;
mod queries;
mod service;
mod support;
