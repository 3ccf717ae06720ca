//! Jobs that survive, against crashes at every step.

#![allow(clippy::unwrap_used)]

mod crashes;
mod faults;
mod sinks;
mod stores;
