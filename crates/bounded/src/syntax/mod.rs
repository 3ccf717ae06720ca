//! SQL as text: from a script to statements of the parser's tree, with what only bounded queries have taken
//! off.
//!
//! 1. `script`: a file or a text cut into statements;
//! 2. `unsupported`: clauses that the planner would pass over;
//! 3. `parse`: one statement;
//! 4. `dialect`: the same for PostgreSQL's SQL.

mod dialect;
mod parse;
mod script;
mod unsupported;

pub(crate) use dialect::{Dialect, Views, last_part, postgres_type, unqualified_name};
pub(crate) use parse::{DeclaredLimit, Parameter, Parsed, Returning, parameter_number, parse, quote_name};
pub use script::{Place, Source};
pub(crate) use script::{Statement, comments_behind, split};
