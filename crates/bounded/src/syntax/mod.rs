//! SQL as text: from a script to statements of the parser's tree, with what only bounded queries have taken
//! off.
//!
//! 1. `script`: a file or a text cut into statements;
//! 2. `unsupported`: clauses that the planner would pass over;
//! 3. `tokens`, `clauses`, `rewrite`, `parse`: one statement;
//! 4. `dialect`: the same for PostgreSQL's SQL.

mod clauses;
mod dialect;
mod parse;
mod rewrite;
mod script;
mod tokens;
mod unsupported;

pub(crate) use clauses::{DeclaredLimit, Parameter, parameter_number};
pub(crate) use dialect::{Dialect, Views, last_part, postgres_type};
pub(crate) use parse::{Parsed, Returning, parse};
pub use script::{Place, Source};
pub(crate) use script::{Statement, comments_behind, split};
pub(crate) use tokens::quote_name;
