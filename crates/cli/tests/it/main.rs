//! The command as others see it: what it prints, where, and with which exit code it ends.

#![allow(clippy::unwrap_used)]

mod bench;
mod bounded;
mod command;
mod files;
mod limits;
mod lint;
mod live;
mod pipes;
mod sql;
mod table;
