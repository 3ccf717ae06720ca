//! `whimbrel bounded`: how fast a store is, and whether a bounded query on it will be fast enough.

use crate::failure::{Failure, Outcome};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use std::time::Duration;
use whimbrel_bounded::predict::{Knob, Options, Slo, Sweep};
use whimbrel_bounded::{self as bounded, Database, Error};

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
    store: String,
    /// The query.
    query: String,
    /// What is promised of it.
    #[arg(long, default_value = "99% under 50ms", value_parser = slo)]
    slo: Slo,
    /// A limit to vary, as `rows=10..100` or `subscriptions(owner)=10..500`; given twice, it makes a heat map.
    #[arg(long, value_parser = sweep)]
    vary: Vec<Sweep>,
    /// Write the picture of what varies to this file.
    #[arg(long, requires = "vary")]
    svg: Option<PathBuf>,
}

fn slo(text: &str) -> Result<Slo, String> {
    text.parse().map_err(|error: Error| error.to_string())
}

/// The values of a limit that are tried, in a chart.
const VALUES: usize = 15;

fn sweep(text: &str) -> Result<Sweep, String> {
    let wrong = || format!("'{text}' is no limit to vary: write rows=10..100");
    let (knob, range) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (first, last) = range.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u64>().ok().filter(|n| *n > 0).ok_or_else(wrong);
    let knob: Knob = knob.parse().map_err(|error: Error| error.to_string())?;
    Ok(Sweep::evenly(knob, number(first)?, number(last)?, VALUES))
}

/// Does it.
pub fn run(bounded: &Bounded) -> Outcome {
    match bounded {
        Bounded::Measure { store, intervals, samples, clients, pause, add } => {
            let pause = Duration::from_secs(*pause);
            let (intervals, samples, clients) = (*intervals, *samples, *clients);
            let options = Options { intervals, samples, clients, pause, ..Options::default() };
            measure(store, &options, *add).map_err(failed)
        }
        Bounded::Predict(predict) => predict.run(),
    }
}

fn failed(error: Error) -> Failure {
    Failure::Query(error.to_string())
}

fn measure(store: &str, options: &Options, add: bool) -> Result<(), Error> {
    let db = Database::open_url(store, bounded::Options::default())?;
    let model = db.measure_and_keep(options, add)?;
    println!("{} intervals, each fan-out at least {} times in each", model.intervals(), model.samples());
    Ok(())
}

impl Predict {
    fn run(&self) -> Outcome {
        let (said, picture) = self.answer().map_err(failed)?;
        println!("{said}");
        match (&self.svg, picture) {
            (Some(path), Some(svg)) => {
                std::fs::write(path, svg).map_err(|error| Failure::io(path.display(), &error))
            }
            _ => Ok(()),
        }
    }

    /// What there is to say, and the picture.
    fn answer(&self) -> Result<(String, Option<String>), Error> {
        // Opening a file that is not there would make it, and nothing was measured of that.
        let is_file = !self.store.contains("://") && self.store != "memory:";
        if is_file && !Path::new(&self.store).exists() {
            return Err(Error::Data(format!("there is no file {}", self.store)));
        }
        let db = Database::open_url(&self.store, bounded::Options::default())?;
        let model = db.measured()?;
        Ok(match self.vary.as_slice() {
            [] => (db.prepare(&self.query)?.predict(&model, self.slo)?.to_string(), None),
            [sweep] => {
                let chart = db.chart(&self.query, &model, self.slo, sweep)?;
                (chart.to_string(), Some(chart.svg()))
            }
            [across, up, ..] => {
                let map = db.heat_map(&self.query, &model, self.slo, across, up)?;
                (map.to_string(), Some(map.svg()))
            }
        })
    }
}
