//! Measurement of a store: every shape of a grid, many times, interval by interval.
//!
//! The time of a round includes making its keys, one `read`, and decoding the answers, so the processor's
//! share is in the histogram. The rest of a call (the call itself, local operators, more or fewer columns)
//! hardly varies: its median is measured once, for each row.
//!
//! Invariant: the shapes of an interval are measured in bursts, in a random order, so that a disturbance of
//! the store affects all shapes alike. The first call of a burst is not counted. The tables of the
//! measurement are removed at the end, also after an error, unless the store is away or closed; the next
//! measurement overwrites them.

use super::grid::Grid;
use super::histogram::Histogram;
use super::model::{Cost, FanOut, Interval, Local, MixedRound, Model};
use super::scratch::{COLUMNS, Probe, Scratch};
use super::shape::{Kind, Operator, Shape};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::random::Random;
use crate::store::{MemoryStore, Store};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How a store is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// The fan-outs.
    pub grid: Grid,
    /// How many intervals. A promise for every ten minutes wants intervals of about ten minutes, and as many
    /// of them as show what the store's bad times are like.
    pub intervals: usize,
    /// How often each shape is measured in an interval. Of 99 %, a thousand show the tenth slowest; five
    /// thousand give a percentile that is good to a few percent.
    pub samples: usize,
    /// How long to wait between intervals.
    pub pause: Duration,
    /// How many calls are under way at the same time.
    pub clients: usize,
    /// What the order of the shapes is drawn from.
    pub seed: u64,
    /// What time is read from.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            grid: Grid::default(),
            intervals: 10,
            samples: 2000,
            pause: Duration::ZERO,
            clients: 4,
            seed: 1,
            clock: Clock::default(),
        }
    }
}

/// How often what is ours is timed; the median counts.
const LOCAL_REPEATS: usize = 201;
/// How often a store is asked where a look is enough.
const ROUND_REPEATS: usize = 21;

impl Model {
    /// Measures a store. It writes tables of its own into it and takes them away in the end.
    ///
    /// # Errors
    /// `Invalid` if there is nothing to measure, `Unavailable` if the store does not answer.
    ///
    /// ```
    /// use whimbrel_bounded::predict::{Grid, Model, Options};
    /// use whimbrel_bounded::MemoryStore;
    ///
    /// let grid = Grid::new(&[1, 5], &[1, 5], &[64])?;
    /// let quick = Options { grid, intervals: 2, samples: 20, ..Options::default() };
    /// let model = Model::measure(&MemoryStore::default(), &quick)?;
    /// assert_eq!((model.intervals(), model.samples()), (2, 20));
    /// # Ok::<(), whimbrel_bounded::Error>(())
    /// ```
    pub fn measure(store: &dyn Store, options: &Options) -> Result<Model> {
        if options.intervals == 0 || options.samples == 0 || options.clients == 0 {
            return Err(Error::invalid("a store is measured in intervals, by clients, more than no time"));
        }
        let scratch = Scratch::make(store, &options.grid)?;
        let model = Bench::new(&scratch, options).model();
        scratch.remove()?;
        model
    }

    /// The same shapes of the same store, in other intervals or at other fan-outs, without what is ours.
    pub(super) fn measure_again(&self, store: &dyn Store, options: &Options) -> Result<Model> {
        let scratch = Scratch::make(store, &options.grid)?;
        let intervals = Bench::new(&scratch, options).intervals();
        scratch.remove()?;
        Ok(Model { grid: options.grid.clone(), intervals: intervals?, ..self.clone() })
    }
}

/// All that is run again and again.
struct Bench<'s> {
    scratch: &'s Scratch<'s>,
    options: &'s Options,
    random: Random,
}

/// How many calls of a shape are made in one turn.
const BURST: usize = 20;

/// Some calls of a shape, one after the other.
struct Burst {
    shape: usize,
    calls: usize,
}

/// A shape, ready to be timed.
struct Timed {
    probe: Probe,
    /// What it takes without its round, in nanoseconds.
    without: f64,
}

impl<'s> Bench<'s> {
    /// A measurement over some tables.
    fn new(scratch: &'s Scratch<'s>, options: &'s Options) -> Bench<'s> {
        Bench { scratch, options, random: Random::new(options.seed) }
    }

    /// Measures everything that a model has.
    fn model(&self) -> Result<Model> {
        let intervals = self.intervals()?;
        let grid = self.options.grid.clone();
        let (local, mixed_round) = (self.local()?, self.mixed_round()?);
        let mut model = Model { grid, intervals, local, mixed_round, fan_out: FanOut::Sum };
        model.learn_fan_out();
        Ok(model)
    }

    /// Measures the rounds of all shapes, interval by interval.
    fn intervals(&self) -> Result<Vec<Interval>> {
        let shapes = self.options.grid.shapes();
        let timed = shapes.iter().map(|shape| {
            Ok(Timed {
                probe: self.scratch.fetch_probe(shape, COLUMNS)?,
                without: self.without_round(shape)?,
            })
        });
        let timed = timed.collect::<Result<Vec<_>>>()?;
        let interval = |at: usize| {
            if at > 0 {
                self.options.clock.wait(self.options.pause);
            }
            self.interval(&timed)
        };
        (0..self.options.intervals).map(interval).collect()
    }

    /// One interval: every shape so many times, spread over clients.
    fn interval(&self, shapes: &[Timed]) -> Result<Interval> {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut bursts: Vec<Burst> = (0..shapes.len()).flat_map(|shape| self.bursts(shape)).collect();
        self.random.shuffle(&mut bursts);
        let share = bursts.len().div_ceil(self.options.clients);
        let seen = std::thread::scope(|scope| {
            let clients: Vec<_> = bursts
                .chunks(share)
                .map(|bursts| {
                    let random = Random::new(self.random.bits());
                    scope.spawn(move || self.client(shapes, bursts, &random))
                })
                .collect();
            let ended = clients.into_iter().map(|client| {
                client.join().unwrap_or_else(|_| Err(Error::Internal("a client panicked".to_string())))
            });
            ended.collect::<Result<Vec<_>>>()
        })?;
        let mut latencies = vec![Vec::with_capacity(self.options.samples); shapes.len()];
        seen.iter().flatten().for_each(|(shape, nanos)| latencies[*shape].push(*nanos));
        let dependence = dependence(&seen, &latencies);
        let histograms = latencies.into_iter().map(Histogram::of).collect();
        Ok(Interval { began, histograms, dependence })
    }

    /// The turns of a shape.
    fn bursts(&self, shape: usize) -> impl Iterator<Item = Burst> {
        let samples = self.options.samples;
        (0..samples).step_by(BURST).map(move |from| Burst { shape, calls: BURST.min(samples - from) })
    }

    /// One client's turns: the shape and the nanoseconds of each call.
    fn client(&self, shapes: &[Timed], bursts: &[Burst], random: &Random) -> Result<Vec<(usize, u64)>> {
        let mut seen = Vec::new();
        for burst in bursts {
            let shape = &shapes[burst.shape];
            // The first call of a turn pays for the caches and the memory that other shapes left behind.
            self.time(&shape.probe, random)?;
            for _ in 0..burst.calls {
                let nanos = self.time(&shape.probe, random)? - shape.without;
                seen.push((burst.shape, nanos.max(0.0) as u64));
            }
        }
        Ok(seen)
    }

    /// How long a probe takes, in nanoseconds.
    fn time(&self, probe: &Probe, random: &Random) -> Result<f64> {
        let arguments = self.scratch.arguments(probe, random);
        let before = self.options.clock.now();
        self.scratch.run(probe, &arguments)?;
        Ok((self.options.clock.now() - before).as_nanos() as f64)
    }

    /// The median time of some calls of a probe.
    fn median(&self, probe: &Probe, repeats: usize) -> Result<f64> {
        let times = (0..repeats).map(|_| self.time(probe, &self.random));
        let mut times = times.collect::<Result<Vec<f64>>>()?;
        times.sort_by(f64::total_cmp);
        Ok(times[repeats / 2])
    }

    /// The median time of a call that makes its keys and sends no request.
    fn without_round(&self, shape: &Shape) -> Result<f64> {
        self.median(&self.scratch.empty_round(shape.requests)?, LOCAL_REPEATS)
    }

    /// What our own part costs. That does not depend on the store, and a store in memory does not hide it.
    fn local(&self) -> Result<Local> {
        let memory = MemoryStore::default();
        let scratch = Scratch::make(&memory, &self.options.grid)?;
        Bench::new(&scratch, self.options).own_costs()
    }

    /// Measures the cost of local work.
    fn own_costs(&self) -> Result<Local> {
        let (small, large) = self.ranges();
        let rows = [small.tuples, large.tuples].map(|tuples| tuples as f64);
        let median_of = |probe: Result<Probe>| self.median(&probe?, LOCAL_REPEATS);
        let whole = [
            median_of(self.scratch.fetch_probe(&small, COLUMNS))?,
            median_of(self.scratch.fetch_probe(&large, COLUMNS))?,
        ];
        let narrow = median_of(self.scratch.fetch_probe(&large, 2))?;
        let operators = Operator::ALL.into_iter().map(|operator| {
            let more = |shape, whole| {
                let expressions = if operator == Operator::Project { COLUMNS } else { 1 };
                Ok::<_, Error>(
                    (median_of(self.scratch.operator_probe(shape, operator))? - whole) / expressions as f64,
                )
            };
            Ok((operator, Cost::through(rows, [more(&small, whole[0])?, more(&large, whole[1])?])))
        });
        Ok(Local {
            call: median_of(self.scratch.call_probe())?,
            value: ((whole[1] - narrow) / ((COLUMNS - 2) as f64 * rows[1])).max(0.0),
            operators: operators.collect::<Result<_>>()?,
        })
    }

    /// Whether two shapes in one round take as long as the longer one, or as both: what is nearer to what is
    /// seen.
    fn mixed_round(&self) -> Result<MixedRound> {
        let (_, ranges) = self.ranges();
        let requests = *self.options.grid.requests().last().unwrap_or(&1);
        let gets = Shape { kind: Kind::Get, requests, tuples: 1, bytes: ranges.bytes };
        let round = |probe: Result<Probe>, shape: &Shape| {
            Ok::<_, Error>(self.median(&probe?, ROUND_REPEATS)? - self.without_round(shape)?)
        };
        let alone = [ranges, gets].map(|shape| round(self.scratch.fetch_probe(&shape, COLUMNS), &shape));
        let [ranges_alone, gets_alone] = alone;
        let (ranges_alone, gets_alone) = (ranges_alone?, gets_alone?);
        let both = round(self.scratch.mixed_round(&[ranges, gets]), &gets)?;
        let (longest, together) = (ranges_alone.max(gets_alone), ranges_alone + gets_alone);
        Ok(if both - longest <= together - both { MixedRound::Parallel } else { MixedRound::Sequential })
    }

    /// The shortest and the longest range of one request.
    fn ranges(&self) -> (Shape, Shape) {
        let (tuples, bytes) = (self.options.grid.tuples(), self.options.grid.bytes()[0]);
        let requests = self.options.grid.requests()[0];
        let range = |tuples: u64| Shape { kind: Kind::Range, requests, tuples, bytes };
        (range(tuples[0]), range(tuples[tuples.len() - 1]))
    }
}

impl Cost {
    /// The line through what two numbers of rows cost.
    fn through(rows: [f64; 2], nanos: [f64; 2]) -> Cost {
        let row = match rows[1] > rows[0] {
            true => ((nanos[1] - nanos[0]) / (rows[1] - rows[0])).max(0.0),
            false => 0.0,
        };
        Cost { fixed: (nanos[0] - row * rows[0]).max(0.0), row }
    }
}

/// The correlation of consecutive calls of the same client, each as the logarithm of how much slower it was
/// than the mean of its shape.
fn dependence(seen: &[Vec<(usize, u64)>], latencies: &[Vec<u64>]) -> f64 {
    let logarithm = |nanos: u64| (nanos.max(1) as f64).ln();
    let means: Vec<f64> = latencies
        .iter()
        .map(|all| all.iter().map(|nanos| logarithm(*nanos)).sum::<f64>() / all.len().max(1) as f64)
        .collect();
    let (mut products, mut squares) = (0.0, 0.0);
    for client in seen {
        let slowness: Vec<f64> =
            client.iter().map(|(shape, nanos)| logarithm(*nanos) - means[*shape]).collect();
        products += slowness.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>();
        squares += slowness.windows(2).map(|pair| (pair[0].powi(2) + pair[1].powi(2)) / 2.0).sum::<f64>();
    }
    // Where all calls take the same time, what is left are errors of rounding.
    if squares > 1e-12 { products / squares } else { 0.0 }
}
