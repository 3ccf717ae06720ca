//! The compiler: from a statement to a [`Plan`] with a proven [`Bound`], or to what is missing for one.
//!
//! 1. `planner`: DataFusion's planner makes a `LogicalPlan` of the statement, over our schema;
//! 2. `block`, `subquery`: trees of joins, and subqueries in expressions, become flat lists of relations and
//!    predicates; `coercion` makes their types fit;
//! 3. `predicates`, `equalities`: what the predicates say that an index can use;
//! 4. `access`: the ways to one table, and the indexes that would make one;
//! 5. `state`, `facts`, `lists`, `references`, `search`: join order, stops and data-stops, the cheapest chain
//!    that has a bound;
//! 6. `query`, `distinct`, `min_max`: what stands above the joins (sort, limit, grouping, union), and pages.
//!
//! Invariant: compiling looks at the schema and at what the store can do, never at rows. The same statement
//! has the same verdict on a laptop, in a test and in production.

mod access;
mod block;
mod coercion;
mod compiler;
mod distinct;
mod equalities;
mod error;
mod expressions;
mod facts;
mod lists;
mod min_max;
mod part;
mod planner;
mod predicates;
mod query;
mod references;
mod search;
mod state;
mod subquery;

pub(crate) use compiler::{Compiler, check};
pub(crate) use error::{CompileError, UnboundedRelation};
pub(crate) use planner::{Planner, unmodified_parameters};
