//! From a statement to a running query: what every interface to the engine needs once. The command and
//! the Python module use it; a server can. Nothing here knows of terminals, arguments or forms of output.
//!
//! ```
//! use whimbrel_session::Session;
//! use whimbrel_sharded::Options;
//! use whimbrel_sql::Planned;
//!
//! # fn main() -> datafusion::common::Result<()> {
//! let mut session = Session::new(Options::default());
//! let planned = session.plan("select 6 * 7 as answer", None, || false)?.planned;
//! let Planned::Query(stream) = planned else { panic!("a select is a query") };
//! let query = session.start(&stream, |batch| {
//!     assert_eq!(batch.num_rows(), 1);
//!     Ok(())
//! })?;
//! query.wait()?;
//! assert_eq!(query.job().rows_out(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! Layers, lowest first:
//! 1. [`panic`]: a panic becomes an error; [`lines`]: lines of text become batches of rows;
//! 2. [`stdin`]: standard input as a live table; [`query`]: a query that runs in the background;
//! 3. [`datasets`]: opens the files that a statement names; [`references`]: what plans in bytes refer to;
//! 4. [`durable`]: jobs that survive; [`cluster`] and [`functions`]: other processes; [`session`]: named
//!    tables, settings, and the options of the runtime.
//!
//! Start at [`Session`]. SQL is planned in whimbrel-sql and plans are run in whimbrel-sharded.

pub mod cluster;
pub mod datasets;
pub mod durable;
pub mod functions;
pub mod lines;
pub mod panic;
pub mod query;
pub mod references;
pub mod session;
pub mod stdin;

pub use datasets::Datasets;
pub use durable::{Destination, start_job};
pub use query::RunningQuery;
pub use references::PlanReferences;
pub use session::{PlannedStatement, Session};
pub use stdin::StandardInput;
