//! What names stand for: tables and their constraints, views, files by their paths, and the catalog as
//! tables.

mod constraints;
mod foreign_keys;
mod information_schema;
mod inlined;
mod provider;
mod series;
mod tables;
pub(crate) mod views;

pub(crate) use constraints::{Check, Constraints, ForeignKey, Key};
pub(crate) use foreign_keys::{check_foreign_keys, referring};
pub(crate) use provider::Catalog;
pub(crate) use tables::{Memory, Table, TableKind, Tables, find};
