//! The arguments of `whimbrel bounded`.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use whimbrel_bounded::Error;
use whimbrel_bounded::predict::{Knob, Slo, Sweep};

/// What to do with a database of bounded queries.
#[derive(Debug, Subcommand)]
pub enum Bounded {
    /// Measure the latencies of a store, and keep them in it for predictions.
    ///
    /// Nothing else should use the machine meanwhile, unless it will later too.
    Measure {
        /// The address of a store: the path of a file, `postgres://…` or `redis://…`.
        store: String,
        /// How many intervals of time.
        #[arg(long, default_value_t = 10)]
        intervals: usize,
        /// How often each fan-out is measured in an interval.
        #[arg(long, default_value_t = 2000)]
        samples: usize,
        /// How many calls are under way at the same time.
        #[arg(long, default_value_t = 1)]
        clients: usize,
        /// Seconds between intervals.
        #[arg(long, default_value_t = 0)]
        pause: u64,
        /// Keep the intervals that were measured before, too.
        #[arg(long)]
        add: bool,
    },
    /// Say whether a query will be fast enough, and how large its limits may be.
    Predict(Predict),
}

/// The arguments of `predict`.
#[derive(Debug, Args)]
pub struct Predict {
    /// The address of a store that was measured.
    pub store: String,
    /// The query.
    pub query: String,
    /// What is promised of it.
    #[arg(long, default_value = "99% under 50ms", value_parser = slo)]
    pub slo: Slo,
    /// A limit to vary, as `rows=10..100` or `subscriptions(owner)=10..500`; given twice, it makes a heat
    /// map.
    #[arg(long, value_parser = sweep)]
    pub vary: Vec<Sweep>,
    /// Write the picture of what varies to this file.
    #[arg(long, requires = "vary")]
    pub svg: Option<PathBuf>,
}

/// A service level objective: `99% under 50ms`.
fn slo(text: &str) -> Result<Slo, String> {
    text.parse().map_err(|error: Error| error.to_string())
}

/// How many values of a limit are tried for a chart.
const CHART_POINTS: usize = 15;

/// The values of a limit: `rows=10..100`.
fn sweep(text: &str) -> Result<Sweep, String> {
    let wrong = || format!("'{text}' is no limit to vary: write rows=10..100");
    let (knob, range) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (first, last) = range.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u64>().ok().filter(|n| *n > 0).ok_or_else(wrong);
    let knob: Knob = knob.parse().map_err(|error: Error| error.to_string())?;
    Ok(Sweep::evenly(knob, number(first)?, number(last)?, CHART_POINTS))
}
