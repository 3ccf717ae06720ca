//! Latencies, predicted before a query serves anybody (piql.txt §6).
//!
//! 1. [`Model::measure`] drives a store with the rounds that plans are made of, at a [`Grid`] of fan-outs,
//!    and keeps one [`Histogram`] for each of them and for each interval of time;
//! 2. [`Prepared::predict`](crate::Prepared::predict) looks up the rounds of a plan, each at its bound,
//!    between the points of the grid where it has to, and convolves them, interval by interval;
//! 3. the [`Prediction`] says in how many of the intervals a promise ([`Slo`]) is kept, and how sure that is;
//! 4. [`Model::drift`] says when the store is not any more what was measured;
//! 5. [`Database::chart`](crate::Database::chart) and [`Database::heat_map`](crate::Database::heat_map), the
//!    assistant of §6.4, say how large a limit may be.
//!
//! It differs from the paper where the paper says it falls short. Fan-outs are interpolated, not rounded up:
//! whether requests add up or the slowest of them counts is learnt from the measurements, each predicted from
//! its neighbours. Local operators cost something, which is all that counts on an embedded store. What is
//! measured is a round and not an operator, because that is how plans are run here: one `read` for all
//! requests of a round, so that a slow request among a hundred is in the measurement, and never derived from
//! what one request does. And the answer says how sure it is.
//!
//! What it does not know: how a store behaves under more load than it was measured with, or with data that no
//! longer fit into its memory.
//!
//! ```
//! use whimbrel_bounded::predict::{Grid, Options};
//! use whimbrel_bounded::{Database, MemoryStore};
//!
//! let db = Database::open(MemoryStore::default())?;
//! let columns = "owner varchar(20), at bigint, text varchar(140)";
//! db.execute(&format!("create table thoughts ({columns}, primary key (owner, at))"), &[])?;
//!
//! let grid = Grid::new(&[1, 10], &[1, 10], &[64, 256])?;
//! let model = db.measure(&Options { grid, intervals: 3, samples: 50, ..Options::default() })?;
//! db.keep_model(&model)?;
//!
//! let recent = db.prepare("select text from thoughts where owner = ? order by at desc limit 10")?;
//! let prediction = recent.predict(&model, "90% under 1s".parse()?)?;
//! assert!(prediction.holds, "{prediction}");
//!
//! let query = "select text from thoughts where owner = ? limit 10";
//! let page = db.execute(&format!("explain slo '90% under 1s' {query}"), &[])?;
//! assert!(page.is_some());
//! # Ok::<(), whimbrel_bounded::Error>(())
//! ```

mod answer;
mod chart;
mod compose;
mod drift;
mod grid;
mod histogram;
mod measure;
mod model;
mod scratch;
mod shape;
mod svg;

pub use answer::{Prediction, Slo};
pub use chart::{Chart, HeatMap, Knob, Sweep};
pub use drift::Drift;
pub use grid::Grid;
pub use histogram::{Distribution, Histogram};
pub use measure::Options;
pub use model::Model;
pub(crate) use shape::Outline;
pub use shape::{Kind, Shape};
