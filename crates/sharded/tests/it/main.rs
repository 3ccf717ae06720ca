//! Sharded queries from end to end: one binary, so that it is linked once.

#![allow(clippy::unwrap_used)]

mod actions;
mod chains;
mod checkpoints;
mod damaged;
mod data;
mod failures;
mod figures;
mod files;
mod filtered;
mod limited;
mod live;
mod live_shards;
mod maintained;
mod movement;
mod random;
mod relational;
mod replay;
mod transfer;
mod windows_in_turns;
