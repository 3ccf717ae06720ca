//! Whether an objective is met, and with what confidence (piql.txt §6.3).
//!
//! There are two sources of uncertainty. The store has better and worse intervals: quantiles differ from one
//! interval to the next. And the quantile of a sample is not the quantile of its distribution: the share of
//! calls within a time has a standard error of about `sqrt(share (1 - share) / samples)`. For rounds that
//! were sampled apart and convolved this is an upper bound, since each round adds one term to the variance
//! (Hoeffding's decomposition).

use super::compose::Latency;
use super::histogram::Distribution;
use super::model::Model;
use super::shape::Outline;
use crate::error::{Error, Result};
use crate::execute::Executor;
use crate::random::Random;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A service level objective: in each interval, this share of the calls is answered within this time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slo {
    /// The share, between 0 and 1: 0.99.
    pub quantile: f64,
    /// The time.
    pub latency: Duration,
}

impl Slo {
    /// So that both make sense.
    ///
    /// # Errors
    /// `Invalid` if the share is not between 0 and 1 or the time is none.
    pub fn new(quantile: f64, latency: Duration) -> Result<Slo> {
        match quantile > 0.0 && quantile < 1.0 && !latency.is_zero() {
            true => Ok(Slo { quantile, latency }),
            false => Err(Error::invalid("a promise is a share of calls between 0 % and 100 %, and a time")),
        }
    }
}

/// Reads `99% under 50ms`; times are in `us`, `ms` or `s`.
///
/// ```
/// use std::time::Duration;
/// use whimbrel_bounded::predict::Slo;
///
/// let slo: Slo = "99.9% under 50ms".parse()?;
/// assert_eq!(slo, Slo::new(0.999, Duration::from_millis(50))?);
/// # Ok::<(), whimbrel_bounded::Error>(())
/// ```
impl FromStr for Slo {
    type Err = Error;

    fn from_str(text: &str) -> Result<Slo> {
        let wrong = || Error::invalid(format!("'{text}' is no promise of a latency: write '99% under 50ms'"));
        let (share, time) = text.split_once("under").ok_or_else(wrong)?;
        let share: f64 =
            share.trim().strip_suffix('%').ok_or_else(wrong)?.trim().parse().map_err(|_| wrong())?;
        let time = time.trim();
        let unit = time.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
        let number: f64 = time[..unit].trim().parse().map_err(|_| wrong())?;
        let seconds = match &time[unit..] {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            _ => return Err(wrong()),
        };
        let time = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
        // Hundredths of percents are exact as shares only after rounding.
        Slo::new((share * 1e7).round() / 1e9, time)
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}% under {:?}", (self.quantile * 1e9).round() / 1e7, self.latency)
    }
}

/// What a model says about a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// What was asked.
    pub slo: Slo,
    /// Whether it holds in every interval that was measured, there are samples enough to say so, nothing is
    /// in it that was not measured (a fan-out beyond the largest, a commit), and it is well above what the
    /// engine itself takes.
    pub holds: bool,
    /// How likely it holds in an interval.
    pub probability: f64,
    /// The 90 % confidence interval of that: it gets narrower with the number of intervals.
    pub probability_band: (f64, f64),
    /// The quantile of the latency in a typical interval: the median over the intervals.
    pub quantile_latency: Duration,
    /// Its 90 % confidence interval.
    pub band: (Duration, Duration),
    /// The quantile in the worst interval, which the paper goes by.
    pub worst: Duration,
    /// The quantile in a typical interval if all rounds of a call were always slow together.
    pub together: Duration,
    /// The quantile in each interval, as they were measured.
    pub intervals: Vec<Duration>,
    /// Rounds that a call takes one after the other.
    pub rounds: usize,
    /// The fewest samples of a shape in an interval.
    pub samples: u64,
    /// Fewer samples than show the quantile: its confidence interval has no upper end.
    pub few_samples: bool,
    /// A fan-out is beyond the largest that was measured.
    pub extrapolated: bool,
    /// How much of a call's slowness stays for the next one: where it is far from zero, look at `together`.
    pub dependence: f64,
    /// What the engine itself takes of it, without the store.
    pub own: Duration,
    /// A column without a length, which was taken for 64 bytes.
    pub guessed: Option<String>,
    /// It is a write: this is the query for the rows that change, without what is looked at for them and the
    /// commit.
    pub writes: bool,
}

/// What the engine itself takes is known to this factor: it depends on what the calls before have left in the
/// processor's caches.
const OWN_FACTOR: u32 = 3;
/// The standard normal deviate that 5 % are above.
const DEVIATE: f64 = 1.645;
/// How often the intervals are drawn again.
const DRAWS: usize = 1000;
/// A quantile's place among the samples is off by so many standard errors, from this to its opposite in equal
/// steps.
const FARTHEST: f64 = 3.0;
/// How many decimal places a share is shown with.
const PLACES: usize = 25;

impl Prediction {
    /// The prediction for an outline.
    pub(crate) fn of(outline: &Outline, executor: Executor, model: &Model, slo: Slo) -> Result<Prediction> {
        if !(slo.quantile > 0.0 && slo.quantile < 1.0) {
            return Err(Error::invalid("a quantile is between 0 and 1: 0.99"));
        }
        let latencies: Vec<Latency> =
            model.intervals.iter().map(|interval| model.latency(interval, outline, executor)).collect();
        let all: Vec<Distribution> = latencies.iter().map(Latency::independent).collect();
        let samples = model.samples();
        let error = (slo.quantile * (1.0 - slo.quantile) / samples.max(1) as f64).sqrt();
        let intervals: Vec<Duration> = all.iter().map(|latency| latency.quantile(slo.quantile)).collect();
        let worst = intervals.iter().max().copied().unwrap_or_default();
        let keeps = all.iter().map(|latency| keeps(latency, slo, samples));
        let probability = keeps.sum::<f64>() / all.len().max(1) as f64;
        let extrapolated = latencies.iter().any(|latency| latency.beyond);
        let own = latencies.iter().map(|latency| latency.own).fold(0.0, f64::max);
        let own = Duration::from_nanos(own as u64);
        let few_samples = slo.quantile + DEVIATE * error >= 1.0;
        let together = latencies.iter().map(|latency| latency.comonotone_quantile(slo.quantile)).collect();
        Ok(Prediction {
            slo,
            holds: worst <= slo.latency
                && !few_samples
                && !extrapolated
                && !outline.writes
                && slo.latency >= own * OWN_FACTOR,
            probability,
            probability_band: wilson(probability, all.len()),
            quantile_latency: median(intervals.clone()),
            band: band(&all, slo.quantile, error),
            worst,
            together: median(together),
            intervals,
            rounds: outline.calls(executor),
            samples,
            few_samples,
            extrapolated,
            dependence: model.dependence(),
            own,
            guessed: outline.guessed.clone(),
            writes: outline.writes,
        })
    }
}

/// How likely an interval keeps a promise: the share of calls that are in time has a normal error around what
/// was seen.
fn keeps(latency: &Distribution, slo: Slo, samples: u64) -> f64 {
    let error = (slo.quantile * (1.0 - slo.quantile) / samples.max(1) as f64).sqrt();
    normal_below((latency.share_within(slo.latency) - slo.quantile) / error)
}

/// The share of the standard normal distribution below a number (Abramowitz and Stegun 26.2.17, good to
/// 1e-7).
fn normal_below(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let polynomial = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum: f64 = polynomial.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    let above = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt() * sum;
    if x < 0.0 { above } else { 1.0 - above }
}

/// The 90 % confidence interval of a share that was seen in so many intervals (Wilson 1927).
fn wilson(share: f64, intervals: usize) -> (f64, f64) {
    let (n, z2) = (intervals.max(1) as f64, DEVIATE * DEVIATE);
    let middle = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = DEVIATE / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

/// The median of some times.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let middle = times.len() / 2;
    match times.len() {
        0 => Duration::ZERO,
        n if n.is_multiple_of(2) => (times[middle - 1] + times[middle]) / 2,
        _ => times[middle],
    }
}

/// The 90 % confidence interval of the median over intervals: they are drawn again and again (the bootstrap),
/// and in each the quantile's place among the samples with its error.
fn band(all: &[Distribution], quantile: f64, error: f64) -> (Duration, Duration) {
    let place = |at: usize| -FARTHEST + 2.0 * FARTHEST * at as f64 / (PLACES - 1) as f64;
    let places = |latency: &Distribution| -> Vec<Duration> {
        (0..PLACES).map(|at| latency.quantile((quantile + error * place(at)).clamp(0.0, 1.0))).collect()
    };
    let all: Vec<Vec<Duration>> = all.iter().map(places).collect();
    let random = Random::new(0);
    let drawn = || {
        let off = (random.normal() + FARTHEST) / (2.0 * FARTHEST) * (PLACES - 1) as f64;
        all[random.below(all.len())][(off.round().max(0.0) as usize).min(PLACES - 1)]
    };
    let medians = (0..DRAWS).map(|_| median((0..all.len()).map(|_| drawn()).collect()));
    let mut medians: Vec<Duration> = medians.collect();
    medians.sort_unstable();
    (medians[DRAWS / 20], medians[DRAWS - 1 - DRAWS / 20])
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.0}%", share * 100.0);
        let measured = !(self.writes || self.few_samples || self.extrapolated || self.is_near_own());
        let kept = measured && self.intervals.iter().all(|quantile| *quantile <= self.slo.latency);
        let verdict = match (self.holds, self.probability >= 0.5) {
            (true, _) => "holds",
            (false, true) if kept => "was kept, and it takes more intervals to be sure",
            (false, true) => "is not safe",
            (false, false) => "does not hold",
        };
        let (low, high) = self.probability_band;
        writeln!(
            f,
            "{} {verdict}: kept in {} of intervals ({} to {})",
            self.slo,
            percent(self.probability),
            percent(low),
            percent(high)
        )?;
        let share = (self.slo.quantile * 1e9).round() / 1e7;
        write!(
            f,
            "{share}% of calls within {} in a typical interval ({} to {}), {} in the worst of {}",
            shown(self.quantile_latency),
            shown(self.band.0),
            shown(self.band.1),
            shown(self.worst),
            self.intervals.len()
        )?;
        self.doubts().iter().try_for_each(|doubt| write!(f, "\nbut {doubt}"))
    }
}

impl Prediction {
    /// Whether the promise is about what the engine itself takes, which is not known so well.
    fn is_near_own(&self) -> bool {
        self.slo.latency < self.own * OWN_FACTOR
    }

    /// What makes it less sure, in words.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.writes {
            doubts.push(
                "that is the query for the rows that change: the write itself is not in it".to_string(),
            );
        }
        if self.few_samples {
            doubts.push(format!(
                "{} samples of each fan-out are too few for this quantile: measure longer",
                self.samples
            ));
        }
        if self.extrapolated {
            doubts.push(
                "a fan-out is beyond the largest that was measured: measure on a larger grid".to_string(),
            );
        }
        if self.is_near_own() {
            doubts.push(format!(
                "{} of it are what the engine itself takes, which is known to a factor of {OWN_FACTOR} only",
                shown(self.own)
            ));
        }
        if self.dependence > 0.2 && self.rounds > 1 {
            doubts.push(format!(
                "slow calls come together (correlation {:.2}): if all rounds did, it would be {}",
                self.dependence,
                shown(self.together)
            ));
        }
        if let Some(column) = &self.guessed {
            doubts.push(format!("{column} has no length and was taken for 64 bytes"));
        }
        doubts
    }
}

/// A time with three digits.
pub(super) fn shown(time: Duration) -> String {
    let micros = time.as_nanos() as f64 / 1e3;
    let (number, unit) = match micros {
        us if us < 1e3 => (us, "us"),
        us if us < 1e6 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    let digits = if number < 10.0 { 2 } else { usize::from(number < 100.0) };
    format!("{number:.digits$} {unit}")
}
