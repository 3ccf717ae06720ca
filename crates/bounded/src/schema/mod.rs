//! The schema: tables, keys, references and limits, known before there are any rows (piql.txt §4.2).
//!
//! 1. `index`, `limits`, `view`: what a table has;
//! 2. `table`: a table and its columns;
//! 3. `entry`: what a row has in an index;
//! 4. `tables`: all tables, as one value with a version;
//! 5. `ddl`, `drop`: statements that make the next schema.

mod ddl;
mod drop;
mod entry;
mod index;
mod limits;
mod table;
mod tables;
mod view;

pub(crate) use ddl::{Change, fresh_name, is_known_type};
pub(crate) use drop::{Removal, Removed};
pub(crate) use entry::{VERSIONS, claim_value, entry_value, is_claim, read_entry};
pub use index::{Index, IndexKind, IndexState, KeyPart, Part};
pub use limits::{CardinalityLimit, ForeignKey};
pub use table::{Column, Nullability, Table};
pub use tables::Schema;
pub use view::View;
